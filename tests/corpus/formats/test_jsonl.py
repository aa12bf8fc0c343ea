"""JSON lines: the quick path for common documents and the careful one for all others must agree."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from xmtc.corpus.builder import CorpusBuilder, ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats import jsonl
from xmtc.corpus.io import read
from xmtc.corpus.sources import Source
from xmtc.errors import BadInput


def write(folder: Path, *documents: object) -> Path:
    path = folder / "docs.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, documents)) + b"\n")
    return path


def test_quick_and_careful_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        tmp_path, *({"id": f"d{i}", "text": f"text {i} ä", "labels": [f"l{i % 7}", "all"]} for i in range(100))
    )
    quick = jsonl.read(Source(path), ReadOptions())
    monkeypatch.setattr(jsonl, "_add_plain", lambda *_: False)
    careful = jsonl.read(Source(path), ReadOptions())
    assert quick.fingerprint() == careful.fingerprint()
    assert quick.ids == careful.ids


def test_common_lines_take_the_quick_path() -> None:
    builder = CorpusBuilder("docs", ReadOptions())
    line = b'{"id": "1", "text": "t", "labels": ["a"]}'
    assert jsonl._add_plain(builder, [line, line + b"\r"])
    odd = [b"", b"7", b"{", b'{"id": 1, "text": "t", "labels": []}', b'{"id": "1", "text": "t", "labels": "a"}']
    for other in odd:
        assert not jsonl._add_plain(builder, [line, other])
    assert len(builder) == 2


def test_ids(tmp_path: Path) -> None:
    corpus = read(write(tmp_path, {"id": 7, "text": "", "labels": ["a"]}, {"text": "", "labels": [3]}))
    assert [corpus.id(0), corpus.id(1)] == ["7", "1"]
    assert list(corpus.labels.keys) == ["a", "3"]


def test_field_names(tmp_path: Path) -> None:
    path = write(tmp_path, {"key": "k", "title": "T", "body": "B", "tags": "x; y", "year": 1999, "of": {"a": 1}})
    corpus = read(path, text=["title", "body"], labels="tags", id="key", keep=["year", "of"], label_separator=";")
    assert corpus.texts is not None
    assert (corpus.texts[0], corpus.id(0)) == ("T\n\nB", "k")
    assert {name: list(column) for name, column in corpus.fields.items()} == {"year": ["1999"], "of": ['{"a":1}']}
    assert list(corpus.labels.keys) == ["x", "y"]


def test_a_string_is_one_label_without_a_separator(tmp_path: Path) -> None:
    assert list(read(write(tmp_path, {"text": "t", "labels": "x; y"})).labels.keys) == ["x; y"]


def test_documents_to_be_tagged(tmp_path: Path) -> None:
    path = write(tmp_path, {"text": "a"}, {"text": "b", "labels": None}, {"text": "c", "labels": ["x"]})
    assert read(path, unlabelled=True).targets.nnz == 1
    with pytest.raises(BadInput, match="--labels-field"):
        read(path)


def test_texts_and_features(tmp_path: Path) -> None:
    path = write(tmp_path, {"id": "1", "text": "a", "features": {"3": 0.5, "1": 2}, "labels": ["x"]})
    corpus = read(path)
    assert corpus.texts is not None
    assert corpus.features is not None
    assert corpus.features.toarray().tolist() == [[0, 2, 0, 0.5]]
    jsonl.write(corpus, str(path))
    again: Corpus = read(path)
    assert again.fingerprint() == corpus.fingerprint()
