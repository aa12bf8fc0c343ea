"""Write predictions as JSON lines, a JSON list, CSV, TSV, Parquet or an Excel sheet, by the suffix of the file."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

import orjson

from xmtc.corpus.formats.table import labels_as_cell
from xmtc.corpus.sources import check_output, replacing
from xmtc.errors import BadInput, ConfigError
from xmtc.extras import require
from xmtc.predictions import Predictions

Rows = Literal["label", "document"]
#: suffix -> whether it may be followed by .gz
SUFFIXES = {
    ".jsonl": True, ".ndjson": True, ".json": True, ".csv": True, ".tsv": True, ".parquet": False, ".xlsx": False,
}  # fmt: skip
JSON = (".jsonl", ".ndjson", ".json")
COLUMNS = {"label": ("id", "rank", "label", "name", "score"), "document": ("id", "labels", "names", "scores")}
#: A spreadsheet program takes a cell of a CSV file that begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
SHEET_ROWS, CELL_LENGTH = 1_048_576, 32_767  # what an Excel sheet and a cell of it can hold
DIGITS = 6  # of a score in a text format


def output_format(path: str | Path, rows: Rows | None = None) -> str:
    """The suffix that says how predictions are written to this file; JSON lines to `-`. An error if none does.

    >>> output_format("answers.CSV.gz"), output_format("-")
    ('.csv', '.jsonl')
    """
    check_output(path)
    name = Path(path).name.lower()
    suffix = ".jsonl" if name == "-" else Path(name.removesuffix(".gz")).suffix
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise BadInput(path, None, "the suffix says no format for predictions", f"known suffixes: {known}")
    if name.endswith(".gz") and not SUFFIXES[suffix]:
        raise BadInput(path, None, f"{suffix} files are compressed already", "leave .gz out")
    if rows == "label" and suffix in JSON:
        where = "standard output" if name == "-" else str(path)
        raise ConfigError(f"--rows label: {where} is JSON, one object a document; write .csv, .tsv, .parquet or .xlsx")
    if suffix == ".xlsx":
        require(str(path), "excel")
    return suffix


class PredictionWriter(ABC):
    """Writes the predictions of some documents after those before; `formulas` counts cells that look like formulas."""

    formulas = 0

    @abstractmethod
    def add(self, ids: Sequence[str], top: Predictions) -> None:
        """Write the lists of the documents with these ids."""

    @abstractmethod
    def close(self) -> None:
        """Write what comes after the last document."""


@contextmanager
def writing_predictions(path: str | Path, rows: Rows | None = None) -> Iterator[PredictionWriter]:
    """A writer of predictions in the format that the suffix names; the file appears once it is complete.

    >>> import tempfile, numpy as np
    >>> from xmtc.corpus.labels import LabelSet
    >>> top = Predictions(np.array([[1, 0]], np.int32), np.array([[0.9, 0.2]], np.float32), LabelSet.of(["a", "b"]))
    >>> file = Path(tempfile.mkdtemp(), "answers.csv")
    >>> with writing_predictions(file) as writer:
    ...     writer.add(["d1"], top)
    >>> print(file.read_text())
    id,rank,label,name,score
    d1,1,b,b,0.9
    d1,2,a,a,0.2
    <BLANKLINE>
    """
    suffix = output_format(path, rows)
    kind = rows or "label"
    with replacing(path) as out:
        writer: PredictionWriter
        if suffix in JSON:
            writer = _Json(out, as_list=suffix == ".json")
        elif suffix == ".parquet":
            writer = _Parquet(out, kind)
        elif suffix == ".xlsx":
            writer = _Excel(out, kind, str(path))
        else:
            writer = _Csv(out, kind, "\t" if suffix == ".tsv" else ",")
        try:
            yield writer
        except BaseException:
            with suppress(Exception):
                writer.close()  # or its library complains later, when nobody can tell what about
            raise
        writer.close()


def record(id: str, top: Predictions, row: int) -> dict[str, Any]:
    """The list of one document as JSON data.

    >>> import numpy as np
    >>> from xmtc.corpus.labels import LabelSet
    >>> top = Predictions(np.array([[1]], np.int32), np.array([[0.9]], np.float32), LabelSet.of(["a", "b"]))
    >>> record("d1", top, 0)
    {'id': 'd1', 'labels': [{'label': 'b', 'name': 'b', 'score': 0.9}]}
    """
    return {
        "id": id,
        "labels": [{"label": key, "name": name, "score": score} for key, name, score in _entries(top, row)],
    }


def _entries(top: Predictions, row: int) -> list[tuple[str, str, float]]:
    """(key, name, score) of the labels that are listed for a document."""
    found = zip(top.ids[row].tolist(), top.scores[row].tolist(), strict=True)
    return [(top.labels.key(at), top.labels.name(at), round(score, DIGITS)) for at, score in found if at >= 0]


def _table_rows(ids: Sequence[str], top: Predictions, kind: Rows) -> Iterator[tuple[Any, ...]]:
    """The rows of a table; in a row of a document labels, names and scores are lists."""
    for row, id in enumerate(ids):
        entries = _entries(top, row)
        if kind == "document":
            yield id, *([list(column) for column in zip(*entries, strict=True)] if entries else ([], [], []))
        elif not entries:
            yield id, None, None, None, None
        else:
            for rank, entry in enumerate(entries, 1):
                yield id, rank, *entry


def _cells(row: tuple[Any, ...]) -> list[Any]:
    """A row with its lists as text."""
    return [labels_as_cell(list(map(str, cell))) if isinstance(cell, list) else cell for cell in row]


class _Json(PredictionWriter):
    def __init__(self, out: BinaryIO, as_list: bool) -> None:
        self._out = out
        self._before, self._end = (b"[\n", b"\n]\n") if as_list else (b"", b"")
        self._between, self._after = (b",\n", b"") if as_list else (b"", b"\n")

    def add(self, ids: Sequence[str], top: Predictions) -> None:
        for row, id in enumerate(ids):
            self._out.write(self._before + orjson.dumps(record(id, top, row)) + self._after)
            self._before = self._between

    def close(self) -> None:
        self._out.write(self._end if self._before == self._between else self._before + self._end)


class _Csv(PredictionWriter):
    def __init__(self, out: BinaryIO, kind: Rows, delimiter: str) -> None:
        self._stream, self._kind = io.TextIOWrapper(out, "utf-8", newline="", write_through=True), kind
        # With a plain newline as the end of a line, the csv module would not quote carriage returns.
        self._writer = csv.writer(self._stream, delimiter=delimiter, lineterminator="\r\n")
        self._writer.writerow(COLUMNS[kind])

    def add(self, ids: Sequence[str], top: Predictions) -> None:
        for row in _table_rows(ids, top, self._kind):
            cells = _cells(row)
            self.formulas += sum(isinstance(cell, str) and cell.startswith(FORMULA) for cell in cells)
            self._writer.writerow(cells)

    def close(self) -> None:
        self._stream.detach()  # flushes, and leaves the file to `replacing`


class _Parquet(PredictionWriter):
    def __init__(self, out: BinaryIO, kind: Rows) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        text, score = pa.string(), pa.float32()
        types = (
            [text, pa.int32(), text, text, score]
            if kind == "label"
            else [text, pa.list_(text), pa.list_(text), pa.list_(score)]
        )
        self._kind, self._schema = kind, pa.schema(list(zip(COLUMNS[kind], types, strict=True)))
        self._file = parquet.ParquetWriter(out, self._schema, compression="zstd")

    def add(self, ids: Sequence[str], top: Predictions) -> None:
        import pyarrow as pa

        rows = list(_table_rows(ids, top, self._kind))
        columns = zip(*rows, strict=True) if rows else [()] * len(self._schema)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._file.write_batch(pa.record_batch(arrays, schema=self._schema))

    def close(self) -> None:
        self._file.close()


class _Excel(PredictionWriter):
    def __init__(self, out: BinaryIO, kind: Rows, path: str) -> None:
        from openpyxl import Workbook  # type: ignore[import-untyped]

        self._out, self._kind, self._path = out, kind, path
        self._book = Workbook(write_only=True)
        self._sheet = self._book.create_sheet("predictions")
        self._sheet.append(COLUMNS[kind])
        self._rows = 1

    def add(self, ids: Sequence[str], top: Predictions) -> None:
        for row in _table_rows(ids, top, self._kind):
            self._rows += 1
            if self._rows > SHEET_ROWS:
                problem = f"an Excel sheet holds {SHEET_ROWS:,} rows, and there are more"
                raise BadInput(self._path, None, problem, "write .csv or .parquet, or --rows document")
            self._sheet.append([self._text(cell) if isinstance(cell, str) else cell for cell in _cells(row)])

    def close(self) -> None:
        self._book.save(self._out)

    def _text(self, text: str) -> Any:
        """A cell that is text whatever it looks like: `=A1` must not become a formula."""
        from openpyxl.cell import WriteOnlyCell  # type: ignore[import-untyped]
        from openpyxl.utils.exceptions import IllegalCharacterError  # type: ignore[import-untyped]

        if len(text) > CELL_LENGTH:
            problem = f"a cell of an Excel sheet holds {CELL_LENGTH:,} characters, and one has {len(text):,}"
            raise BadInput(self._path, self._rows, problem, "write .csv or .parquet")
        try:
            cell = WriteOnlyCell(self._sheet, text)
        except IllegalCharacterError as error:
            problem = f"an Excel sheet cannot hold the control characters of {text!r}"
            raise BadInput(self._path, self._rows, problem, "write .csv, .jsonl or .parquet") from error
        cell.data_type = "s"
        return cell
