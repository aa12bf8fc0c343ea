"""JSON files that are one value: lists, columns, objects on several lines; bad ones are named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.io import detect, read, write
from xmtc.corpus.sources import Source
from xmtc.errors import BadInput

DOCUMENTS = [{"id": "d1", "text": "dough", "labels": ["bread"]}, {"id": "d2", "text": "oil", "labels": ["fat"]}]
COLUMNS = {name: [document[name] for document in DOCUMENTS] for name in ("id", "text", "labels")}
BY_ROW = {name: dict(zip(("0", "1"), column, strict=True)) for name, column in COLUMNS.items()}

SHAPES = {
    "list on a line": json.dumps(DOCUMENTS),
    "pretty list": json.dumps(DOCUMENTS, indent=2),
    "a document a line": "[\n" + ",\n".join(map(json.dumps, DOCUMENTS)) + "\n]\n",
    "columns": json.dumps(COLUMNS),
    "pretty columns": json.dumps(COLUMNS, indent=2),
    "columns as pandas writes them": json.dumps(BY_ROW),
    "pretty objects": "\n".join(json.dumps(document, indent=2) for document in DOCUMENTS) + "\n",
    "JSON lines": "\n".join(map(json.dumps, DOCUMENTS)),
    "a field": json.dumps({"documents": DOCUMENTS}, indent=1),
    "blanks first": "\n\n  " + json.dumps(DOCUMENTS),
}


@pytest.mark.parametrize("name", ["docs.json", "docs", "docs.json.gz"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_read(shape: str, name: str, tmp_path: Path) -> None:
    content = SHAPES[shape].encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    corpus = read(tmp_path / name)
    assert corpus.texts is not None and list(corpus.texts) == ["dough", "oil"]
    assert corpus.id(1) == "d2" and list(corpus.labels.keys) == ["bread", "fat"]


def test_a_field_that_is_taken_for_the_documents_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs.json").write_text(SHAPES["a field"])
    read(tmp_path / "docs.json")
    assert "docs.json: the documents are those in its field 'documents'" in capsys.readouterr().err


def test_one_document_alone(tmp_path: Path) -> None:
    (tmp_path / "docs.json").write_text(json.dumps(DOCUMENTS[0], indent=2))
    assert len(read(tmp_path / "docs.json")) == 1


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("docs.jsonl", '{"features": {"1": 1}, "labels": ["x"]}\n', "jsonl"),
        ("docs.json", '{"features": {"1": 1}, "labels": ["x"]}\n', "jsonl"),
        ("docs.json", '{"labels": ["x"], "text": "' + "a" * 100_000 + '"}\n', "jsonl"),
        ("docs.jsonl", '{"text": "cut\n', "jsonl"),
        ("docs.txt", "[1] A text with a number before it\n", "fasttext"),
        ("docs.txt", "__label__a [{ a text\n", "fasttext"),
        ("docs.csv", "[text],labels\n[a],b\n", "table"),
        ("docs.jsonl", json.dumps(DOCUMENTS), "json"),
    ],
)
def test_other_formats_are_not_taken_for_it(name: str, content: str, format: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert detect(Source(tmp_path / name), unlabelled=True) == format


def test_a_json_file_is_written_as_a_list(tmp_path: Path) -> None:
    write(Corpus.of(["a", "b"], [["x"], []]), tmp_path / "docs.json")
    written = json.loads((tmp_path / "docs.json").read_text())
    assert written == [{"id": "0", "text": "a", "labels": ["x"]}, {"id": "1", "text": "b", "labels": []}]


BAD = {
    "empty list": ("[]", "docs.json: there is no document in it"),
    "a number": ("7", "docs.json: a list of documents was expected, not int"),
    "a string": ('"a"', "docs.json: a list of documents was expected, not str"),
    "null": ("null", "docs.json: a list of documents was expected, not NoneType"),
    "numbers": ("[1, 2]", "docs.json: document 1: a JSON object was expected, not int"),
    "strings": ('["a"]', "docs.json: document 1: a JSON object was expected, not str"),
    "lists": ('[["a", ["x"]]]', "docs.json: document 1: a JSON object was expected, not list"),
    "no text": ('[{"title": "a", "labels": []}]', "docs.json: document 1: no field 'text' (fields found: 'title'"),
    "no labels": ('[{"text": "a"}]', "docs.json: document 1: no field 'labels'"),
    "text a number": ('[{"text": 3, "labels": []}]', "docs.json: document 1: field 'text' must be a string, not int"),
    "second is bad": (
        '[{"text": "a", "labels": ["x"]},\n {"text": null, "labels": ["x"]}]',
        "docs.json: document 2: field 'text' must be a string, not NoneType",
    ),
    "labels an object": ('[{"text": "a", "labels": {"x": 1}}]', "docs.json: document 1: field 'labels' must be a list"),
    "empty label": ('[{"text": "a", "labels": [""]}]', "docs.json: document 1: one of the labels is empty"),
    "no label at all": ('[{"text": "a", "labels": []}]', "docs.json: no document has a label"),
    "cut off": ('[\n{"text": "a", "labels": ["x"]},\n{"text"', "docs.json:3: not JSON: "),
    "trailing comma": ('[\n{"text": "a", "labels": ["x"]},\n]', "docs.json:2: not JSON: "),
    "single quotes": ("[{'text': 'a'}]", "docs.json:1: not JSON: "),
    "NaN": ('[{"text": NaN}]', "docs.json:1: not JSON: "),
    "something behind": ('[{"text": "a", "labels": ["x"]}]\nmore', "docs.json:2: not JSON: "),
    "second object cut off": (
        '{\n"text": "a", "labels": ["x"]\n}\n{\n"text": "b"',
        "docs.json:5: not JSON: ",
    ),
    "first object broken": ('{\n"text": a\n}', "docs.json:2: not JSON: "),
    "too deep": ("[" * 100_000, "docs.json:1: not JSON: "),
    "deep object": ('{"a":\n' * 100_000, "docs.json:"),
    "columns of other lengths": (
        '{"text": ["a", "b"], "labels": [["x"]]}',
        "docs.json: 2 entries in the column 'text', but 1 in 'labels'; give each column an entry",
    ),
    "columns with other rows": (
        '{"text": {"0": "a"}, "labels": {"1": ["x"]}}',
        "docs.json: the columns 'text' and 'labels' have other rows",
    ),
    "no text column": ('{"title": ["a"], "labels": [["x"]]}', "docs.json: document 1: no field 'text'"),
    "object of this and that": (
        '{\n"title": "a", "labels": [["x"]]}',
        "docs.json: neither a list of documents nor an object of columns (fields found: 'title', 'labels')",
    ),
    "empty object": ("{\n}", "docs.json: neither a list of documents nor an object of columns (fields found: none)"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_named(what: str, tmp_path: Path) -> None:
    content, sentence = BAD[what]
    (tmp_path / "docs.json").write_text(content)
    with pytest.raises(BadInput) as caught:
        read(tmp_path / "docs.json")
    assert str(caught.value).startswith(f"{tmp_path}/{sentence}")
    assert "\n" not in str(caught.value)


def test_a_byte_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "docs.json").write_bytes(b'[\n{"text": "\xfc"}]')
    with pytest.raises(BadInput, match=r"docs.json:2: not UTF-8: byte 0xfc at column 11"):
        read(tmp_path / "docs.json")


def test_a_file_that_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs.json").write_text(SHAPES["pretty list"])
    monkeypatch.setattr("xmtc.corpus.formats.json.available_memory", lambda: 100)
    with pytest.raises(BadInput, match=r"to read it at once takes about .* GiB .*; turn it into lines: jq -c"):
        read(tmp_path / "docs.json")


def test_bad_documents_can_be_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs.json").write_text('[{"text": "a", "labels": ["x"]}, 7]')
    assert len(read(tmp_path / "docs.json", skip_bad=True)) == 1
    assert "1 bad lines skipped, 1 documents read" in capsys.readouterr().err
