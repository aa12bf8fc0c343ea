"""Read predictions that `xmtc predict --out FILE` wrote, for documents whose labels are known."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from xmtc.corpus.builder import ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats.table import SEPARATORS, labels_in_cell
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode
from xmtc.errors import BadInput, XmtcError
from xmtc.extras import require
from xmtc.prediction_files.writing import COLUMNS, JSON, SUFFIXES
from xmtc.predictions import Predictions

REMEDY = "give a file that `xmtc predict --out FILE` wrote"
LARGEST = float(np.finfo(np.float32).max)  # score
ID_REMEDY = "predict for the same documents again; --id-field names the field of their ids"


class Entry(NamedTuple):
    """One label of a list: its key or name in the file, its name if that has a column of its own, and its score."""

    label: str
    name: str
    score: float


#: What a file holds: for each document, by its id, the list, best first.
Lists = dict[str, list[Entry]]
#: (line or row number, its content)
Rows = Iterator[tuple[int, Mapping[str, Any]]]


def read_predictions(path: str | Path, corpus: Corpus) -> Predictions:
    """Predictions from a file, in the order of the documents of a corpus, with ids as in its label set.

    Documents are matched by id; where the ids in the file are just positions (0, 1, 2, ...), by position. A document
    that only one side has is an error. Labels are matched by key or, failing that, by name; labels that the corpus does
    not know come after its own in the `labels` of the result, and count as wrong when it is evaluated.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "answers.csv")
    >>> _ = file.write_text("id,rank,label,score\\n1,1,sky,0.5\\n0,1,apple,0.9\\n0,2,worm,0.1\\n")
    >>> top = read_predictions(file, Corpus.of(["red fruit", "blue"], [["apple"], ["sky"]]))
    >>> top.names()
    [[('apple', 0.9), ('worm', 0.1)], [('sky', 0.5)]]
    >>> list(top.labels.keys)
    ['apple', 'sky', 'worm']
    """
    lists = _read_lists(str(path))
    if not lists:
        raise BadInput(path, None, "there is no prediction in it", REMEDY)
    rows = _in_order(lists, corpus, str(path))
    ids, known = _label_ids([entry for row in rows for entry in row], corpus, str(path))
    k = max(1, *map(len, rows))
    top_ids, scores = np.full((len(rows), k), -1, np.int32), np.zeros((len(rows), k), np.float32)
    for at, row in enumerate(rows):
        found = [ids[entry.label, entry.name] for entry in row]
        if len({*found}) < len(found):
            twice = next(row[i] for i, label in enumerate(found) if label in found[:i])
            problem = f"document {corpus.id(at)!r} has the label {twice.label or twice.name!r} twice"
            raise BadInput(path, None, problem, REMEDY)
        top_ids[at, : len(row)] = found
        scores[at, : len(row)] = [entry.score for entry in row]
    return Predictions(top_ids, scores, known)


def holds_predictions(path: str) -> bool:
    """Whether a file is one that `xmtc predict --out` wrote, or like one."""
    try:
        _read_lists(path)
    except XmtcError:
        return False
    return True


def _label_ids(entries: Iterable[Entry], corpus: Corpus, path: str) -> tuple[dict[tuple[str, str], int], LabelSet]:
    """({(label, name): id}, the labels of the corpus and after them those that only the file has)."""
    labels = corpus.labels
    ids: dict[tuple[str, str], int] = {}
    for label, name, _ in entries:
        if (label, name) not in ids:
            at = labels.lookup(label or name)
            # A corpus whose labels have no keys beside their names may be labelled with the names of the file.
            ids[label, name] = labels.index(name) if at < 0 and labels.names is None else at
    if ids and max(ids.values()) < 0:
        some = ", ".join(repr(label or name) for label, name in list(ids)[:3])
        problem = f"none of its labels ({some}) is one of {corpus.name}"
        raise BadInput(path, None, problem, "are the labels called the same in both?")
    known = labels.extend(label or name for (label, name), at in ids.items() if at < 0)
    return {(label, name): known.index(label or name) if at < 0 else at for (label, name), at in ids.items()}, known


def _in_order(lists: Lists, corpus: Corpus, path: str) -> list[list[Entry]]:
    """The lists of the documents of the corpus, matched by id or by position."""
    ids = [corpus.id(row) for row in range(len(corpus))]
    positions = [str(row) for row in range(len(lists))]
    if list(lists) == positions and len(lists) == len(corpus) and lists.keys() != {*ids}:
        return list(lists.values())
    if len({*ids}) < len(ids):
        twice = next(id for at, id in enumerate(ids) if id in ids[:at])
        raise BadInput(corpus.name, None, f"the id {twice!r} occurs twice", "give each document an id of its own")
    for missing, here, there in (
        ([id for id in ids if id not in lists], path, corpus.name),
        (sorted(lists.keys() - {*ids}), corpus.name, path),
    ):
        if missing:
            number = "1 document" if len(missing) == 1 else f"{len(missing):,} documents"
            problem = f"it lacks {number} of {there}, such as {missing[0]!r}"
            raise BadInput(here, None, problem, ID_REMEDY)
    return [lists[id] for id in ids]


def _read_lists(path: str) -> Lists:
    source = Source(path)
    if source.suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise BadInput(path, None, "the suffix is not that of predictions", f"known suffixes: {known}")
    if source.suffix in JSON:
        return _json_lists(source)
    rows = {".parquet": _parquet_rows, ".xlsx": _excel_rows}.get(source.suffix, _csv_rows)(source)
    return _table_lists(path, rows)


@contextmanager
def _complaint(path: str, line: int) -> Iterator[None]:
    try:
        yield
    except BadLine as error:
        raise BadInput(path, line, error.problem, error.remedy or REMEDY) from error


def _json_lists(source: Source) -> Lists:
    lists: Lists = {}
    for line, document in _json_documents(source):
        with _complaint(source.path, line):
            if not isinstance(document, dict) or not {"id", "labels"} <= document.keys():
                raise BadLine('an object {"id": ..., "labels": [...]} was expected')
            id, labels = document["id"], document["labels"]
            if not isinstance(labels, list) or not all(isinstance(label, dict) for label in labels):
                raise BadLine('"labels" must be a list of objects {"label": ..., "score": ...}')
            if str(id) in lists:
                raise BadLine(f"the id {str(id)!r} occurs twice")
            lists[str(id)] = [_entry(entry) for entry in labels]
    return lists


def _json_documents(source: Source) -> Iterator[tuple[int, Any]]:
    if source.suffix == ".json" and source.head().lstrip().startswith(b"["):
        with _complaint(source.path, 1):
            yield from ((at + 1, document) for at, document in enumerate(_parsed(b"".join(source.blocks()))))
        return
    for number, line in source.lines():
        with _complaint(source.path, number):
            document = _parsed(line)
        yield number, document


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadLine(f"not JSON: {error.msg} at column {error.colno}") from error


def _table_lists(path: str, rows: Rows) -> Lists:
    """The lists of a table with a row a label, in the order of their ranks, or with a row a document."""
    lists: Lists = {}
    ranks: dict[str, list[float]] = {}
    for line, row in rows:
        try:
            _add_row(row, lists, ranks)
        except BadLine as error:
            raise BadInput(path, line, error.problem, error.remedy or REMEDY) from error
    for id, places in ranks.items():
        if places != sorted(places):
            lists[id] = [lists[id][at] for at in np.argsort(places, kind="stable")]
    return lists


def _add_row(row: Mapping[str, Any], lists: Lists, ranks: dict[str, list[float]]) -> None:
    """Add what a row says, of a label or of a document, to the lists, and the rank of a label to the ranks."""
    if row.get("id") is None:
        raise BadLine("this row has no id")
    id = str(row["id"])
    if "labels" in row:
        if id in lists:
            raise BadLine(f"the id {id!r} occurs twice")
        lists[id] = _document_entries(row)
        return
    entries = lists.setdefault(id, [])
    if row.get("label") in (None, "") and row.get("name") in (None, ""):
        if entries or row.get("score") not in (None, ""):
            raise BadLine("this row has no label")
        return  # a document without labels
    entries.append(_entry(row))
    rank = len(entries) if row.get("rank") in (None, "") else _number(row["rank"], "rank")
    ranks.setdefault(id, []).append(rank)


def _document_entries(row: Mapping[str, Any]) -> list[Entry]:
    columns = [
        []
        if cell is None
        else cell
        if isinstance(cell, list)
        else labels_in_cell(str(cell), ReadOptions(), SEPARATORS[0])
        for cell in (row["labels"], row.get("names", row["labels"]), row.get("scores"))
    ]
    if len({*map(len, columns)}) > 1:
        sizes = ", ".join(
            f"{len(column)} {what}" for column, what in zip(columns, COLUMNS["document"][1:], strict=True)
        )
        raise BadLine(f"the columns of this row have {sizes}; they must be equally many")
    return [_entry({"label": key, "name": name, "score": score}) for key, name, score in zip(*columns, strict=True)]


def _entry(content: Mapping[str, Any]) -> Entry:
    label, name = (str(content.get(key) if content.get(key) is not None else "") for key in ("label", "name"))
    if not (label or name):
        raise BadLine("a label has neither a key nor a name")
    if content.get("score") in (None, ""):
        raise BadLine(f"the label {label or name!r} has no score")
    return Entry(label, name, _number(content["score"], "score"))


def _number(value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not abs(number) <= LARGEST:
        raise BadLine(f"the {what} {value!r} is not a finite number")
    return number


def _header(path: str, names: Iterable[Any]) -> list[str]:
    """The column names, after checking that they are those of predictions."""
    found = ["" if name is None else str(name) for name in names]
    shapes = ({"id", "label", "score"}, {"id", "name", "score"}, {"id", "labels", "scores"})
    if not any(shape <= {*found} for shape in shapes):
        columns = ", ".join(map(repr, found)) or "none"
        wanted = "id, label and score, or id, labels and scores"
        raise BadInput(path, 1, f"the columns {wanted} were expected (columns found: {columns})", REMEDY)
    if len({*found}) < len(found):
        twice = next(name for at, name in enumerate(found) if name in found[:at])
        raise BadInput(path, 1, f"the column {twice!r} occurs twice", REMEDY)
    return found


def _csv_rows(source: Source) -> Rows:
    csv.field_size_limit(sys.maxsize)
    lines = (decode(line) + "\n" for line in source.raw_lines())
    reader = csv.reader(lines, delimiter="\t" if source.suffix == ".tsv" else ",", strict=True)
    header: list[str] = []
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise BadInput(source.path, line, f"not CSV: {error}", REMEDY) from error
        except BadLine as error:
            raise BadInput(source.path, line, error.problem, error.remedy) from error
        if row is None:
            return
        if not header:
            header = _header(source.path, row)
        elif row and len(row) != len(header):
            raise BadInput(source.path, line, f"{len(row)} cells, but the header has {len(header)} columns", REMEDY)
        elif row:
            yield line, dict(zip(header, row, strict=True))


def _parquet_rows(source: Source) -> Rows:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(source.path) as file:
            _header(source.path, file.schema_arrow.names)
            number = 0
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(source.path, None, f"not a readable Parquet file: {error}", "make or fetch it again") from error


def _excel_rows(source: Source) -> Rows:
    require(source.path, "excel")
    from zipfile import BadZipFile

    from openpyxl import load_workbook  # type: ignore[import-untyped]
    from openpyxl.utils.exceptions import InvalidFileException  # type: ignore[import-untyped]

    with open(source.path, "rb") as stream:
        try:
            book = load_workbook(stream, read_only=True)
        except (BadZipFile, InvalidFileException, KeyError, ValueError, OSError) as error:
            raise BadInput(
                source.path, None, f"not a readable Excel file: {error}", "make or fetch it again"
            ) from error
        with closing(book):
            rows = book.worksheets[0].iter_rows(values_only=True)
            header = _header(source.path, next(rows, ()))
            for number, row in enumerate(rows, 2):
                if any(cell is not None for cell in row):
                    yield number, dict(zip(header, chain(row, repeat(None)), strict=False))
