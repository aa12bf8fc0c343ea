"""Predictions are written by suffix, and read again for the same documents."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.errors import BadInput, ConfigError
from xmtc.prediction_files.reading import read_predictions
from xmtc.prediction_files.writing import Rows, output_format, writing_predictions
from xmtc.predictions import Predictions

LABELS = LabelSet.of(["=a", "b|c", "東京", "d"], names=["Apple", "", "Tokyo, 1", "-d"])
TOP = Predictions(
    np.array([[2, 0], [-1, -1], [1, -1]], np.int32), np.array([[0.9, 0.25], [0, 0], [-1.5, 0]], np.float32), LABELS
)
IDS = ["d1", "+2", "x,y"]
TABLES = ["csv", "tsv", "csv.gz", "parquet", pytest.param("xlsx", marks=pytest.mark.needs("openpyxl"))]


def corpus(ids: list[str] | None = None, labels: LabelSet = LABELS) -> Corpus:
    made = Corpus.of(["..."] * 3, [["=a"], [], ["b|c"]], labels)
    return Corpus(made.targets, made.labels, made.texts, ids=Strings.of(ids) if ids else None, name="test.jsonl")


def written(path: Path, rows: Rows | None = None, ids: list[str] | None = None) -> Path:
    with writing_predictions(path, rows) as writer:
        writer.add((ids or IDS)[:2], TOP[:2])
        writer.add((ids or IDS)[2:], TOP[2:])
    return path


@pytest.mark.parametrize("rows", ["label", "document"])
@pytest.mark.parametrize("suffix", TABLES)
def test_a_table_is_read_as_it_was_written(tmp_path: Path, suffix: str, rows: Rows) -> None:
    top = read_predictions(written(tmp_path / f"p.{suffix}", rows), corpus(IDS))
    assert top.names() == TOP.names()
    assert top.labels is LABELS


@pytest.mark.parametrize("suffix", ["jsonl", "json", "ndjson", "jsonl.gz", "JSONL", "json.gz"])
def test_json_is_read_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    assert read_predictions(written(tmp_path / f"p.{suffix}"), corpus(IDS)).names() == TOP.names()


def test_the_order_of_documents_is_that_of_the_corpus(tmp_path: Path) -> None:
    top = read_predictions(written(tmp_path / "p.jsonl"), corpus(["x,y", "d1", "+2"]))
    assert [len(row) for row in top.names()] == [1, 2, 0]


def test_a_row_a_label(tmp_path: Path) -> None:
    text = written(tmp_path / "p.csv").read_bytes().decode()
    assert list(csv.reader(text.splitlines())) == [
        ["id", "rank", "label", "name", "score"],
        ["d1", "1", "東京", "Tokyo, 1", "0.9"],
        ["d1", "2", "=a", "Apple", "0.25"],
        ["+2", "", "", "", ""],
        ["x,y", "1", "b|c", "b|c", "-1.5"],
    ]


def test_a_row_a_document(tmp_path: Path) -> None:
    text = gzip.decompress(written(tmp_path / "p.tsv.gz", "document").read_bytes()).decode()
    assert list(csv.reader(text.splitlines(), delimiter="\t")) == [
        ["id", "labels", "names", "scores"],
        ["d1", "東京|=a", "Tokyo, 1|Apple", "0.9|0.25"],
        ["+2", "", "", ""],
        ["x,y", '["b|c"]', '["b|c"]', "-1.5"],
    ]


def test_a_json_list_is_json(tmp_path: Path) -> None:
    documents = json.loads(written(tmp_path / "p.json").read_text())
    assert [document["id"] for document in documents] == IDS
    with writing_predictions(tmp_path / "none.json"):
        pass
    assert json.loads((tmp_path / "none.json").read_text()) == []


def test_cells_that_look_like_formulas_are_counted_and_kept(tmp_path: Path) -> None:
    with writing_predictions(tmp_path / "p.csv") as writer:
        writer.add(IDS, TOP)
    assert writer.formulas == 2  # the label =a and the id +2; a negative score is a number


@pytest.mark.needs("openpyxl")
def test_cells_of_an_excel_sheet_are_text(tmp_path: Path) -> None:
    from openpyxl import load_workbook  # type: ignore[import-untyped]

    sheet = load_workbook(written(tmp_path / "p.xlsx")).worksheets[0]
    assert [(cell.value, cell.data_type) for cell in sheet[3]][2] == ("=a", "s")


@pytest.mark.needs("openpyxl")
@pytest.mark.parametrize("id", ["bell\x07", "x" * 40_000])
def test_what_an_excel_sheet_cannot_hold_is_an_error(tmp_path: Path, id: str) -> None:
    with pytest.raises(BadInput, match="Excel sheet"):
        written(tmp_path / "p.xlsx", ids=[id, "b", "c"])
    assert not list(tmp_path.iterdir())


def test_parquet_has_typed_columns(tmp_path: Path) -> None:
    from pyarrow import parquet

    columns = parquet.read_table(written(tmp_path / "p.parquet")).to_pydict()
    assert columns["rank"] == [1, 2, None, 1]
    columns = parquet.read_table(written(tmp_path / "q.parquet", "document")).to_pydict()
    assert columns["labels"] == [["東京", "=a"], [], ["b|c"]]


@pytest.mark.parametrize("name", ["p", "p.txt", "p.docx", "p.gz", "p.csv.zip", ".csv", "p.parquet.gz", "p.xlsx.gz"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput):
        output_format(tmp_path / name)


def test_json_has_no_rows_of_labels(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--rows label"):
        output_format(tmp_path / "p.jsonl", "label")
    assert output_format("-", "document") == ".jsonl"


def test_ids_that_are_positions_match_by_position(tmp_path: Path) -> None:
    file = written(tmp_path / "p.csv", ids=["0", "1", "2"])
    assert read_predictions(file, corpus(IDS)).names() == read_predictions(file, corpus()).names() == TOP.names()


def test_rows_in_another_order_are_sorted_by_rank(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("id,rank,label,score\n1,1,d,1\n0,2,=a,0.2\n2,,,\n0,1,東京,0.3\n")
    assert read_predictions(file, corpus()).names() == [[("Tokyo, 1", 0.3), ("Apple", 0.2)], [("-d", 1.0)], []]


def test_labels_match_by_name_where_there_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("id,name,score\n0,Apple,1\n1,Tokyo,1\n2,,\n")
    top = read_predictions(file, corpus())
    assert top.names() == [[("Apple", 1.0)], [("Tokyo", 1.0)], []]
    assert list(top.labels.keys)[4:] == ["Tokyo"]


def test_a_corpus_with_names_for_labels_matches_keys_with_names(tmp_path: Path) -> None:
    named = Corpus.of(["..."] * 3, [["Apple"], ["Tokyo, 1"], []], name="test.jsonl")
    top = read_predictions(written(tmp_path / "p.jsonl", ids=["0", "1", "2"]), named)
    assert top.names()[0] == [("Tokyo, 1", 0.9), ("Apple", 0.25)]


GOOD = '{"id": "0", "labels": []}\n{"id": "1", "labels": []}\n'
BAD: dict[str, tuple[str, str, str]] = {
    "empty": ("p.jsonl", "", "there is no prediction in it"),
    "no JSON": ("p.jsonl", GOOD + "{", "p.jsonl:3: not JSON"),
    "a list": ("p.jsonl", "[1]\n", "p.jsonl:1: an object"),
    "no id": ("p.jsonl", '{"labels": []}\n', "p.jsonl:1: an object"),
    "a corpus": ("p.jsonl", '{"id": 1, "labels": ["=a"]}\n', 'p.jsonl:1: "labels" must be a list of objects'),
    "no score": ("p.jsonl", '{"id": 1, "labels": [{"label": "d"}]}\n', "p.jsonl:1: the label 'd' has no score"),
    "no label": ("p.jsonl", '{"id": 1, "labels": [{"score": 1}]}\n', "p.jsonl:1: a label has neither a key nor"),
    "odd score": ("p.jsonl", '{"id": 1, "labels": [{"label": "d", "score": "x"}]}\n', "score 'x' is not a finite"),
    "true score": ("p.jsonl", '{"id": 1, "labels": [{"label": "d", "score": true}]}\n', "True is not a finite"),
    "NaN": ("p.csv", "id,label,score\n0,d,nan\n", "p.csv:2: the score 'nan' is not a finite number"),
    "huge score": ("p.csv", "id,label,score\n0,d,1e300\n", "p.csv:2: the score '1e300' is not a finite number"),
    "odd rank": ("p.csv", "id,rank,label,score\n0,first,d,1\n", "p.csv:2: the rank 'first' is not a finite number"),
    "id twice": ("p.jsonl", '{"id": "0", "labels": []}\n' * 2, "p.jsonl:2: the id '0' occurs twice"),
    "row twice": ("p.csv", "id,labels,scores\n0,d,1\n0,d,1\n", "p.csv:3: the id '0' occurs twice"),
    "label twice": ("p.csv", "id,label,score\n0,d,1\n0,-d,1\n1,,\n2,,\n", "document '0' has the label '-d' twice"),
    "document lacks": ("p.jsonl", GOOD, "p.jsonl: it lacks 1 document of test.jsonl, such as '2'"),
    "unknown document": ("p.jsonl", GOOD + GOOD.replace('"1"', '"2"').replace('"0"', '"9"'), "test.jsonl: it lacks"),
    "no columns": ("p.csv", "text,labels\na,b\n", "p.csv:1: the columns id, label and score, or"),
    "header alone": ("p.csv", "id,label,score\n", "there is no prediction in it"),
    "column twice": ("p.csv", "id,label,score,score\n0,d,1,1\n", "p.csv:1: the column 'score' occurs twice"),
    "cells missing": ("p.csv", "id,label,score\n0,d\n", "p.csv:2: 2 cells, but the header has 3 columns"),
    "open quote": ("p.csv", 'id,label,score\n0,"d,1\n', "p.csv:2: not CSV"),
    "not UTF-8": ("p.csv", "id,label,score\n0,\udcff,1\n", "p.csv:2: not UTF-8"),
    "more labels": ("p.csv", "id,labels,scores\n0,d|=a,1\n", "p.csv:2: the columns of this row have 2 labels"),
    "score alone": ("p.csv", "id,label,score\n0,,1\n", "p.csv:2: this row has no label"),
    "other labels": ("p.csv", "id,label,score\n0,zoo,1\n1,zoo,1\n2,zoo,1\n", "none of its labels ('zoo') is one of"),
    "no Parquet": ("p.parquet", "PAR1 nothing", "p.parquet: not a readable Parquet file"),
    "no suffix": ("p.txt", GOOD, "p.txt: the suffix is not that of predictions"),
    "half a gzip": ("p.csv.gz", "\x1f\udc8b", "p.csv.gz: the gzip file is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_named(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name, content, message = BAD[case]
    Path(name).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput) as caught:
        read_predictions(name, corpus())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.needs("openpyxl")
def test_a_file_that_is_no_excel_file(tmp_path: Path) -> None:
    (tmp_path / "p.xlsx").write_text("id,label,score\n")
    with pytest.raises(BadInput, match="not a readable Excel file"):
        read_predictions(tmp_path / "p.xlsx", corpus())


def test_a_corpus_with_an_id_twice(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"test\.jsonl: the id 'a' occurs twice"):
        read_predictions(written(tmp_path / "p.csv"), corpus(["a", "b", "a"]))
