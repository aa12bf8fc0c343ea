"""Each kind of bad input has its own sentence with the file, the line where there is one, and what to do."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from xmtc.corpus.io import detect, read
from xmtc.corpus.sources import Source
from xmtc.errors import BadInput

GOOD = '{"text": "a", "labels": ["x"]}\n'


@dataclass(frozen=True)
class Case:
    """A file that must be refused: where, why, and with which advice."""

    name: str
    content: str | bytes
    line: int | None
    problem: str
    remedy: str
    options: Mapping[str, object] = field(default_factory=dict)
    others: Mapping[str, str | bytes] = field(default_factory=dict)


SKIP = "mend the line, or skip bad lines with --skip-bad"
CASES = {
    "broken JSON": Case("d.jsonl", GOOD + '{"text": "a", \n', 2, "not JSON: ", SKIP),
    "JSON list": Case("d.jsonl", GOOD + "[\n" + GOOD, 2, "a JSON list, not one JSON object a line", "--format json"),
    "JSON but no object": Case("d.jsonl", GOOD + "7\n", 2, "a JSON object was expected, not int", SKIP),
    "no text field": Case("d.jsonl", '{"title": "a"}\n', 1, "no field 'text' (fields found: 'title')", "--text-field"),
    "no label field": Case(
        "d.jsonl", GOOD + '{"text": "a"}', 2, "no field 'labels' (fields found: 'text')", "--labels-field"
    ),
    "text is a number": Case("d.jsonl", '{"text": 1, "labels": []}', 1, "field 'text' must be a string, not int", SKIP),
    "labels are odd": Case(
        "d.jsonl", '{"text": "", "labels": [1.5]}', 1, "must be a list of strings or whole numbers", SKIP
    ),
    "empty label": Case("d.jsonl", '{"text": "", "labels": [""]}', 1, "one of the labels is empty", SKIP),
    "no kept field": Case(
        "d.jsonl", GOOD, 1, "no field 'year' (fields found: 'text', 'labels')", "keep=", {"keep": ["year"]}
    ),
    "text then features": Case(
        "d.jsonl", GOOD + '{"features": {"1": 1}, "labels": []}', 2, "has no text, but those before it have", SKIP
    ),
    "features then text": Case(
        "d.jsonl",
        '{"features": {"1": 1}, "labels": []}\n' + GOOD,
        2,
        "this document has text, but those before it have none",
        SKIP,
    ),
    "JSON feature no number": Case(
        "d.jsonl", '{"features": {"1": "x"}, "labels": []}', 1, "feature 1 is 'x', a number was expected", SKIP
    ),
    "JSON feature no id": Case(
        "d.jsonl", '{"features": {"x": 1}, "labels": []}', 1, "the column 'x', a whole number was expected", SKIP
    ),
    "JSON feature negative": Case(
        "d.jsonl", '{"features": {"-1": 1}, "labels": []}', 1, "feature -1 is negative", "--index-base"
    ),
    "JSON feature too large": Case(
        "d.jsonl", '{"features": {"3000000000": 1}, "labels": []}', 1, "feature 3000000000 is too large", SKIP
    ),
    "JSON features a list": Case("d.jsonl", '{"features": [1], "labels": []}', 1, "'features' must be an object", SKIP),
    "no label at all": Case(
        "d.jsonl", '{"text": "a", "labels": []}\n', None, "no document has a label", "unlabelled=True"
    ),
    "no label in fastText": Case("d.ft", "a text\n", None, "no document has a label", "unlabelled=True"),
    "empty file": Case("d.jsonl", "", None, "no document in it", "give a file with one document a line"),
    "empty file without suffix": Case("d", "", None, "the file is empty", "give a file with one document a line"),
    "blank file": Case("d.csv", "\n \n", None, "no document in it", "give a file with one document a line"),
    "empty table": Case("d.csv", "", None, "no document in it", "give a file with one document a line"),
    "header alone": Case("d.csv", "text,labels\n", None, "no document in it", "give a file with one document a line"),
    "binary": Case("d.jsonl", b"\x7fELF\0\0\0\1", 1, "this is a binary file, not text", "one of the known formats"),
    "UTF-16": Case("d.csv", "text,labels\n".encode("utf-16"), 1, "in UTF-16, UTF-8 was expected", "iconv -f utf-16"),
    "unknown format": Case(
        "d.txt", "just some words\n", 1, "unknown format", "--format: parquet, excel, npz, json, jsonl, xmc"
    ),
    "damaged gzip": Case(
        "d.jsonl.gz",
        gzip.compress(GOOD.encode() * 900)[:-9],
        None,
        "the gzip file is damaged: it ends",
        "fetch it again",
    ),
    "altered gzip": Case(
        "d.jsonl.gz",
        gzip.compress(GOOD.encode())[:-8] + b"\0" * 8,
        None,
        "the gzip file is damaged: Error -3",
        "fetch it again",
    ),
    "JSON not UTF-8": Case(
        "d.jsonl", GOOD.encode() + b'{"text": "\xfc"}', 2, "not UTF-8: byte 0xfc at column 11", "iconv"
    ),
    "table not UTF-8": Case("d.csv", b"text,labels\na,b\n\xe4,c\n", 3, "not UTF-8: byte 0xe4 at column 1", "iconv"),
    "fastText not UTF-8": Case("d.ft", b"__label__a x\n__label__b \xff\n", 2, "not UTF-8: byte 0xff", "iconv"),
    "pair not UTF-8": Case(
        "d_texts.txt", b"x\n\xff\n", 2, "not UTF-8: byte 0xff", "iconv", others={"d_labels.txt": "a\nb\n"}
    ),
    "empty fastText label": Case("d.ft", "__label__ x\n", 1, "one of the labels is empty", SKIP),
    "no text column": Case(
        "d.csv", "title,labels\na,b\n", 1, "no column 'text' (columns found: 'title', 'labels')", "--text-field"
    ),
    "no label column": Case(
        "d.tsv", "text\ttags\na\tb\n", 1, "no column 'labels' (columns found: 'text', 'tags')", "--labels-field"
    ),
    "wrong delimiter": Case(
        "d.csv", "text^labels\na^b\n", 1, "a wrong delimiter? The header is a single column 'text^labels'", "tab, comma"
    ),
    "too many cells": Case(
        "d.csv", 'text,labels\n"a\nb",x\nc,d,e\n', 4, "3 cells, but the header has 2 columns", "quote cells"
    ),
    "open quote": Case("d.csv", 'text,labels\na,x\n"b,y\nc,z\n', 3, "a quote that opens here is never closed", SKIP),
    "odd quote": Case("d.csv", 'text,labels\n"a"b,x\n', 2, "not CSV: ", SKIP),
    "pair of unequal lengths": Case(
        "d_texts.txt",
        "a\nb\nc\n",
        2,
        "3 lines of texts, but 1 lines of labels in",
        "a line for each document",
        others={"d_labels.txt": "x\n"},
    ),
    "pair without labels": Case(
        "d_texts.txt", "a\n", None, "the _labels.txt file that belongs to it is missing", "beside"
    ),
    "pair without texts": Case(
        "d_labels.txt", "a\n", None, "the _texts.txt file that belongs to it is missing", "beside"
    ),
    "no pair": Case("d.txt", "a\n", None, "not a pair's name", "train_texts.txt", {"format": "textpair"}),
    "feature not numeric": Case(
        "d.txt", "0 1:2\n0 1:x\n", 2, "feature '1' has the value 'x', a number was expected", SKIP
    ),
    "feature id not numeric": Case("d.txt", "0 1:2\n0 a:1\n", 2, "the feature 'a' is not a whole number", SKIP),
    "feature without value": Case("d.txt", "0 1:2\n0 7\n", 2, "'7' where feature:value was expected", SKIP),
    "two colons": Case("d.txt", "0 1:2\n0 3:4:5 6\n", 2, "feature '3' has the value '4:5'", SKIP),
    "feature negative": Case("d.txt", "0 1:2\n0 -1:1\n", 2, "the feature -1 is negative", SKIP),
    "feature twice": Case("d.txt", "0 1:2\n0 5:1 7:1 5:2\n", 2, "feature 5 occurs twice in the document", SKIP),
    "feature NaN": Case("d.txt", "0 1:2\n0 5:1 6:nan\n", 2, "feature 6 has the weight nan, a finite number", SKIP),
    "feature infinite": Case("d.txt", "0 1:2\n0 5:1e39\n", 2, "feature 5 has the weight 1e+39, a finite number", SKIP),
    "feature too large": Case("d.txt", "0 1:2\n0 3000000000:1\n", 2, "feature 3000000000 is too large", SKIP),
    "label not numeric": Case("d.txt", "0 1:2\na,1 1:1\n", 2, "the label 'a' is not a whole number", SKIP),
    "label missing between commas": Case("d.txt", "0 1:2\n1,,2 1:1\n", 2, "the label '' is not a whole number", SKIP),
    "label negative": Case("d.txt", "0 1:2\n-4 1:1\n", 2, "the label -4 is negative", SKIP),
    "label too large": Case("d.txt", "0 1:2\n3000000000 1:1\n", 2, "label 3000000000 is out of range", SKIP),
    "zero with base one": Case(
        "d.txt", "1 1:2\n1 0:1\n", 2, "the feature 0, but numbering begins at 1", "--index-base 0", {"index_base": 1}
    ),
    "feature beyond the header": Case(
        "d.txt", "1 3 2\n0 3:1\n", 2, "feature 3 is beyond the 3 features", "--index-base"
    ),
    "label beyond the header": Case("d.txt", "1 3 2\n2 0:1\n", 2, "label 2 is beyond the 2 labels", "--index-base"),
    "fewer lines than the header says": Case(
        "d.txt", "3 3 2\n0 0:1\n", 1, "the header says 3 documents, but 1 follow", "cut off"
    ),
    "no npz name": Case("d.npz", b"PK\x03\x04", None, "has an X in it", "X.npz and Y.npz"),
    "no npz file": Case("X.npz", b"PK\x03\x04 what?", None, "not a scipy sparse matrix", "save_npz"),
    "no Parquet file": Case("d.parquet", b"PAR1 what?", None, "not a Parquet file", "fetch it again"),
    "parent that does not exist": Case(
        "d.jsonl",
        GOOD,
        3,
        "the parent 'z' is not a label of this file",
        "correct the parent",
        others={"labels.tsv": "label\tparent\nx\t\ny\tz\n"},
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_it_is_named(what: str, tmp_path: Path) -> None:
    case = CASES[what]
    for name, content in {case.name: case.content, **case.others}.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    blamed = tmp_path / ("labels.tsv" if "labels.tsv" in case.others else case.name)
    with pytest.raises(BadInput) as caught:
        read(tmp_path / case.name, **case.options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(f"{blamed}:{case.line}: " if case.line is not None else f"{blamed}: ")
    assert case.problem in caught.value.problem
    assert case.remedy in caught.value.remedy
    assert "\n" not in message


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file; check the name"):
        read(tmp_path / "nothing.jsonl")
    with pytest.raises(BadInput, match="is a folder, a file was expected"):
        detect(Source(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "skipped", "lines"),
    [
        ("d.jsonl", GOOD + "{\n" + GOOD + '{"text": 1, "labels": []}\n\xff\n', 3, 2),
        ("d.csv", 'text,labels\na,x\nb\n"c"d,y\n\xff,z\ne,z\n"f,', 4, 2),
        ("d.ft", "__label__a x\n__label__ y\n__label__b \xff\n", 2, 1),
        ("d.txt", "0 1:1\n0 1:x\n1 3:nan\n9 0:1 0:2\n1 2:2\n", 3, 2),
        ("d.xmc", "3 9 9\n0 1:1\n0 9:1\n9 1:1\n", 2, 1),
    ],
)
def test_skipping_counts(
    name: str, content: str, skipped: int, lines: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    corpus = read(tmp_path / name, skip_bad=True)
    assert len(corpus) == lines
    assert f"{skipped} bad lines skipped, {lines} documents read" in capsys.readouterr().err
    # Nothing of a bad line is left behind, not even its labels.
    assert (corpus.label_counts > 0).all() or name.endswith((".xmc", ".txt"))


def test_every_line_bad(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("{\n")
    with pytest.raises(BadInput, match="every line in it is bad"):
        read(tmp_path / "d.jsonl", skip_bad=True)


class TestNpz:
    def pair(self, folder: Path, X: object, Y: object) -> Path:
        sparse.save_npz(folder / "X.npz", sparse.csr_array(X))  # type: ignore[call-overload]
        sparse.save_npz(folder / "Y.npz", sparse.csr_array(Y))  # type: ignore[call-overload]
        return folder / "X.npz"

    def test_rows_do_not_match(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match=r"X.npz: 2 rows of features, but 1 rows of labels in .*Y.npz; give"):
            read(self.pair(tmp_path, np.eye(2), np.ones((1, 3))))

    def test_not_finite(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match=r"X.npz:2: a weight of this row is not a finite number; replace NaN"):
            read(self.pair(tmp_path, np.array([[1, 0], [2, np.nan]]), np.eye(2)))

    def test_negative_labels(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match=r"Y.npz: an entry is negative"):
            read(self.pair(tmp_path, np.eye(2), -np.eye(2)))

    def test_no_labels(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match=r"Y.npz: no document has a label"):
            read(self.pair(tmp_path, np.eye(2), np.zeros((2, 2))))

    def test_partner_missing(self, tmp_path: Path) -> None:
        path = self.pair(tmp_path, np.eye(2), np.eye(2))
        (tmp_path / "Y.npz").unlink()
        with pytest.raises(BadInput, match=r"Y.npz: the other file of the pair is missing"):
            read(path)

    def test_not_sparse(self, tmp_path: Path) -> None:
        path = self.pair(tmp_path, np.eye(2), np.eye(2))
        np.savez(path, a=np.eye(2))
        with pytest.raises(BadInput, match="not a scipy sparse matrix"):
            read(path)

    def test_nothing_is_unpickled(self, tmp_path: Path) -> None:
        path = self.pair(tmp_path, np.eye(2), np.eye(2))
        np.savez(path, format=np.array([{}], dtype=object))
        with pytest.raises(BadInput, match="not a scipy sparse matrix: Object arrays cannot be loaded"):
            read(path)

    def test_indices_beyond_the_matrix(self, tmp_path: Path) -> None:
        path = self.pair(tmp_path, np.eye(2), np.eye(2))
        indptr, shape = np.array([0, 1, 2]), np.array([2, 2])
        np.savez(path, indices=np.array([0, 99]), indptr=indptr, format=np.array(b"csr"), shape=shape, data=np.ones(2))
        with pytest.raises(BadInput, match="not a scipy sparse matrix"):
            read(path)

    def test_other_sparse_formats_will_do(self, tmp_path: Path) -> None:
        path = self.pair(tmp_path, np.eye(2), np.eye(2))
        sparse.save_npz(path, sparse.csc_array(np.eye(2)))
        assert len(read(path)) == 2


class TestParquet:
    def table(self, path: Path, **columns: list[object]) -> Path:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(columns), path)
        return path

    def test_columns_are_named(self, tmp_path: Path) -> None:
        path = self.table(tmp_path / "d.parquet", title=["a"], tags=[["x"]])
        with pytest.raises(BadInput, match=r"no column 'text' \(columns found: 'title', 'tags'\); .* --text-field"):
            read(path)
        with pytest.raises(BadInput, match=r"no column 'labels' .* --labels-field"):
            read(path, text="title")
        assert len(read(path, text="title", labels="tags")) == 1

    def test_rows_are_named(self, tmp_path: Path) -> None:
        path = self.table(tmp_path / "d.parquet", text=["a", None], labels=[["x"], ["y"]])
        with pytest.raises(BadInput, match=r"d.parquet:2: this row has no text"):
            read(path)
        assert len(read(path, skip_bad=True)) == 1

    def test_labels_as_a_string(self, tmp_path: Path) -> None:
        path = self.table(tmp_path / "d.parquet", text=["a"], labels=["x;y"])
        assert list(read(path).labels.keys) == ["x;y"]
        assert list(read(path, label_separator=";").labels.keys) == ["x", "y"]

    def test_labels_of_no_use(self, tmp_path: Path) -> None:
        path = self.table(tmp_path / "d.parquet", text=["a"], labels=[1.5])
        with pytest.raises(BadInput, match=r"d.parquet:1: column 'labels' must hold strings or lists of strings"):
            read(path)

    def test_features_of_no_use(self, tmp_path: Path) -> None:
        path = self.table(tmp_path / "d.parquet", features=[[1]], labels=[["x"]])
        with pytest.raises(BadInput, match=r"d.parquet:1: column 'features' must hold lists of structs"):
            read(path)


@pytest.mark.parametrize("format", ["parquet", "npz", "textpair"])
def test_pairs_and_parquet_are_no_streams(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    with pytest.raises(BadInput, match="cannot be read from standard input"):
        read("-", format=format)
