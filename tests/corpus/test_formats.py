"""Every format: round trips, detection, and the same content in every wrapping (gzip, BOM, CRLF, standard input)."""

from __future__ import annotations

import gzip
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from corpora import assert_same, feature_corpus, rows
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.formats import FORMATS, format_module
from xmtc.corpus.io import detect, read, read_label_set, write
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import Source
from xmtc.corpus.strings import Strings
from xmtc.errors import BadInput, ConfigError, XmtcError

FILE_NAMES = {
    "parquet": "docs.parquet",
    "npz": "X.npz",
    "json": "docs.json",
    "jsonl": "docs.jsonl",
    "xmc": "docs.txt",
    "fasttext": "docs.txt",
    "table": "docs.csv",
    "annif": "docs.annif.tsv",
    "textpair": "docs_texts.txt",
}
ANY_LABEL = ("json", "jsonl", "table", "parquet")
WORD_LABELS = ("fasttext", "textpair")
FEATURES = ("json", "jsonl", "parquet", "xmc", "npz")

# The same two documents, as each line-based format has them.
LINES = {
    "jsonl": '{"text": "dough", "labels": ["bread", "yeast"]}\n{"text": "Öl", "labels": ["fat"]}\n',
    "table": "id,text,labels\n0,dough,bread|yeast\n1,Öl,fat\n",
    "fasttext": "__label__bread __label__yeast dough\n__label__fat Öl\n",
}
SPARSE = "2 9 4\n0,3 1:0.5 8:2\n2 0:1\n"


def round_trip(corpus: Corpus, format: str, suffix: str = "", **options: object) -> Corpus:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (FILE_NAMES[format] + suffix)
        write(corpus, path, format)
        return read(path, format=format, **options)  # type: ignore[arg-type]


# Lone surrogates are no text; NUL marks a binary file in formats without escapes.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
any_label = texts.filter(bool)
word_label = any_label.filter(lambda label: label.encode().split() == [label.encode()])


def corpora(label: st.SearchStrategy[str]) -> st.SearchStrategy[Corpus]:
    document = st.tuples(texts, st.lists(label, max_size=4))
    return st.lists(document, min_size=1, max_size=6).map(
        lambda documents: Corpus.of([text for text, _ in documents], [tags for _, tags in documents])
    )


@pytest.mark.parametrize("format", ANY_LABEL)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(corpus=corpora(any_label))
def test_any_text_and_label_comes_back(format: str, corpus: Corpus) -> None:
    assert_same(round_trip(corpus, format, unlabelled=True), corpus)


def test_a_tsv_holds_any_text_and_label() -> None:
    corpus = Corpus.of(['a\t"b"\r\nc\rd', " x ", ""], [["p|q", "a;b"], ['["x"]', " y"], ["[z]", "ä", "k"]])
    with tempfile.TemporaryDirectory() as folder:
        write(corpus, Path(folder) / "docs.tsv")
        assert_same(read(Path(folder) / "docs.tsv"), corpus)


@pytest.mark.parametrize("format", WORD_LABELS)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(corpus=corpora(word_label))
def test_line_formats_bring_back_what_they_can_hold(format: str, corpus: Corpus) -> None:
    assert corpus.texts is not None
    if format == "fasttext":
        assume(not any("__label__" in text for text in corpus.texts))
        assume(all(text.strip(" \t\n\r\v\f") or corpus.labels_of(row) for row, text in enumerate(corpus.texts)))
    found = round_trip(corpus, format, unlabelled=True)
    flat = [text.replace("\n", " ").replace("\r", " ") for text in corpus.texts]
    if format == "fasttext":
        flat = [text.strip(" \t\v\f") for text in flat]
    assert found.texts is not None
    assert list(found.texts) == flat
    assert rows(found) == rows(corpus)


weights = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool)


@pytest.mark.parametrize("format", FEATURES)
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    documents=st.lists(
        st.tuples(st.sets(st.integers(0, 4)), st.dictionaries(st.integers(0, 12), weights, max_size=5)),
        min_size=1,
        max_size=5,
    )
)
def test_features_come_back(format: str, documents: list[tuple[set[int], dict[int, float]]]) -> None:
    tags = [label for labels, _ in documents for label in labels]
    columns = [column for _, features in documents for column in features]
    values = [value for _, features in documents for value in features.values()]
    features = csr_array(
        (np.array(values, np.float32), np.array(columns, np.int32), np.cumsum([0, *(len(f) for _, f in documents)])),
        shape=(len(documents), 13),
    )
    features.sort_indices()
    targets = label_matrix(tags, np.cumsum([0, *(len(labels) for labels, _ in documents)]), 5)
    corpus = Corpus(targets, LabelSet.of(map(str, range(5))), features=features)
    found = round_trip(corpus, format, unlabelled=True)
    assert_same(found, corpus)
    if format not in ("json", "jsonl"):
        assert found.features is not None
        assert found.features.shape == (len(documents), 13)


@pytest.mark.parametrize("format", ANY_LABEL)
def test_ids_and_kept_fields_come_back(format: str) -> None:
    plain = Corpus.of(["a", "b"], [["x"], ["y"]])
    corpus = Corpus(
        plain.targets, plain.labels, plain.texts, ids=Strings.of(["d1", "d2"]), fields={"year": Strings.of(["1", "2"])}
    )
    found = round_trip(corpus, format, keep=["year"])
    assert_same(found, corpus)
    assert [found.id(0), found.id(1)] == ["d1", "d2"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("format", ["jsonl", "table", "fasttext", "textpair", "xmc"])
def test_gzip_by_name(format: str, suffix: str) -> None:
    corpus = feature_corpus() if format == "xmc" else Corpus.of(["a b", "c"], [["x", "y"], ["z"]])
    assert_same(round_trip(corpus, format, suffix), corpus)


WRAPPINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda content: content,
    "bom": lambda content: b"\xef\xbb\xbf" + content,
    "crlf": lambda content: content.replace(b"\n", b"\r\n"),
    "no end": lambda content: content.rstrip(b"\n"),
    "gzip": gzip.compress,
    "two gzips": lambda content: gzip.compress(content[:20]) + gzip.compress(content[20:]) + b"\0\0",
}


@pytest.mark.parametrize("stdin", [False, True], ids=["file", "stdin"])
@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("format", LINES)
def test_texts_in_every_wrapping(
    format: str, wrapping: str, stdin: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = WRAPPINGS[wrapping](LINES[format].encode())
    path = tmp_path / FILE_NAMES[format]
    path.write_bytes(content)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    corpus = read("-" if stdin else path)
    assert corpus.texts is not None
    assert list(corpus.texts) == ["dough", "Öl"]
    assert rows(corpus) == [{"bread", "yeast"}, {"fat"}]


@pytest.mark.parametrize("stdin", [False, True], ids=["file", "stdin"])
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_features_in_every_wrapping(
    wrapping: str, stdin: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = WRAPPINGS[wrapping](SPARSE.encode())
    path = tmp_path / "docs.txt"
    path.write_bytes(content)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    corpus = read("-" if stdin else path)
    assert corpus.features is not None
    assert corpus.features.toarray()[:, [0, 1, 8]].tolist() == [[0, 0.5, 2], [1, 0, 0]]
    assert rows(corpus) == [{"0", "3"}, {"2"}]
    assert len(corpus.labels) == 4


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_pairs_in_every_wrapping(wrapping: str, tmp_path: Path) -> None:
    (tmp_path / "a_texts.txt").write_bytes(WRAPPINGS[wrapping](b"dough\n\xc3\x96l\n"))
    (tmp_path / "a_labels.txt").write_bytes(WRAPPINGS[wrapping](b"bread yeast\nfat\n"))
    for name in ("a_texts.txt", "a_labels.txt"):
        corpus = read(tmp_path / name)
        assert corpus.texts is not None
        assert list(corpus.texts) == ["dough", "Öl"]
        assert rows(corpus) == [{"bread", "yeast"}, {"fat"}]


def test_raw_texts_pair_with_plain_labels_and_blank_lines_count(tmp_path: Path) -> None:
    (tmp_path / "train_raw_texts.txt").write_text("a\n\nc\n")
    with gzip.open(tmp_path / "train_labels.txt.gz", "wt") as out:
        out.write("x\ny\n\n")
    corpus = read(tmp_path / "train_raw_texts.txt")
    assert rows(corpus) == [{"x"}, {"y"}, set()]
    assert detect(Source(tmp_path / "train_raw_texts.txt")) == "textpair"


def test_a_document_of_ten_megabytes(tmp_path: Path) -> None:
    corpus = Corpus.of(["word " * 2_000_000 + "end", "short"], [["a"], ["b"]])
    for format in ("jsonl", "table", "fasttext", "textpair", "parquet"):
        path = tmp_path / FILE_NAMES[format]
        write(corpus, path, format)
        assert_same(read(path), corpus)


@pytest.mark.parametrize("format", FILE_NAMES)
def test_what_is_written_is_detected_again(format: str, tmp_path: Path) -> None:
    corpus = feature_corpus() if format in ("xmc", "npz") else Corpus.of(["a b"], [["x"]])
    path = tmp_path / FILE_NAMES[format]
    write(corpus, path, format)
    assert detect(Source(path)) == format
    if format != "textpair":
        path.rename(tmp_path / "unknown")
        assert detect(Source(tmp_path / "unknown")) == format


def test_content_counts_more_than_a_wrong_suffix(tmp_path: Path) -> None:
    (tmp_path / "docs.csv").write_text(LINES["jsonl"])
    assert detect(Source(tmp_path / "docs.csv")) == "jsonl"
    (tmp_path / "docs.jsonl").write_text("text,labels\na,b\n")
    assert detect(Source(tmp_path / "docs.jsonl")) == "table"


def test_plain_lines_are_documents_to_be_tagged(tmp_path: Path) -> None:
    (tmp_path / "docs.txt").write_text("first, one\nsecond one\n")
    corpus = read(tmp_path / "docs.txt", unlabelled=True)
    assert corpus.texts is not None
    assert list(corpus.texts) == ["first, one", "second one"]


class TestWriting:
    @pytest.mark.parametrize("name", ["docs.xmc", "X.npz"])
    def test_texts_do_not_fit(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(XmtcError, match=r"cannot hold texts; parquet, .*textpair.* files can"):
            write(Corpus.of(["a"], [["x"]]), tmp_path / name)

    @pytest.mark.parametrize("name", ["docs.ft", "docs_texts.txt", "docs.csv"])
    def test_features_do_not_fit(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(XmtcError, match=r"cannot hold features; parquet, npz, .*jsonl, xmc files can"):
            write(feature_corpus(), tmp_path / name)

    @pytest.mark.parametrize("name", ["docs.ft", "docs_texts.txt"])
    @pytest.mark.parametrize("label", ["red wine", "a\tb", " a"])
    def test_labels_with_white_space_do_not_fit(self, name: str, label: str, tmp_path: Path) -> None:
        with pytest.raises(XmtcError, match=r"white space in it.*write .jsonl") as caught:
            write(Corpus.of(["a"], [[label]]), tmp_path / name)
        assert repr(label) in str(caught.value)
        assert not list(tmp_path.iterdir())

    def test_fasttext_refuses_what_it_would_misread(self, tmp_path: Path) -> None:
        with pytest.raises(XmtcError, match="has a word that begins with __label__"):
            write(Corpus.of(["see __label__x"], [["a"]]), tmp_path / "docs.ft")
        with pytest.raises(XmtcError, match="neither text nor labels"):
            write(Corpus.of([" ", "a"], [[], ["a"]]), tmp_path / "docs.ft")
        assert not list(tmp_path.iterdir())

    def test_unknown_suffix_and_format(self, tmp_path: Path) -> None:
        corpus = Corpus.of(["a"], [["x"]])
        with pytest.raises(XmtcError, match=r"the suffix says no format; known suffixes: .*jsonl"):
            write(corpus, tmp_path / "docs.docx")
        with pytest.raises(ConfigError, match="unknown format 'docx'; known formats"):
            write(corpus, tmp_path / "docs.docx", "docx")
        with pytest.raises(BadInput, match=r"folder does not exist; make it"):
            write(corpus, tmp_path / "no" / "docs.jsonl")
        with pytest.raises(XmtcError, match=r"must end in _texts.txt"):
            write(corpus, tmp_path / "docs.txt", "textpair")

    def test_standard_output_gets_json_lines(self, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        write(Corpus.of(["a"], [["x"]]), "-")
        assert capsysbinary.readouterr().out == b'{"id":"0","text":"a","labels":["x"]}\n'


def test_every_format_says_what_it_holds() -> None:
    for name in FORMATS:
        module = format_module(name)
        assert {"texts", "features"} & set(module.HOLDS)
        assert module.SUFFIXES or name == "fulltext"


def test_names_come_from_the_label_file_beside(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text('{"text": "t", "labels": ["new", "b"]}\n')
    (tmp_path / "labels.tsv").write_text("label\tname\na\tApples\nb\tBread\n")
    corpus = read(tmp_path / "docs.jsonl")
    assert [corpus.labels.name(i) for i in range(3)] == ["Apples", "Bread", "new"]
    (tmp_path / "other.tsv").write_text("label\tname\nb\tBrot\n")
    other = read(tmp_path / "docs.jsonl", label_set=tmp_path / "other.tsv")
    assert [other.labels.name(i) for i in range(2)] == ["Brot", "new"]
    with pytest.raises(BadInput, match=r"not that of a label set; known suffixes: .tsv"):
        read_label_set(tmp_path / "docs.jsonl")


def test_options_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="index_base is 2"):
        read("-", index_base=2)  # type: ignore[arg-type]


def test_keeping_fields_of_a_format_without_fields(tmp_path: Path) -> None:
    (tmp_path / "docs.ft").write_text(LINES["fasttext"])
    with pytest.raises(ConfigError, match=r"no fields to keep; parquet, .*table.* have"):
        read(tmp_path / "docs.ft", keep=["year"])
