"""Excel workbooks (`.xlsx`): a header row and a row for each document, as in CSV; needs openpyxl.

The first sheet is read, or the one that is named after the file: `docs.xlsx#Sheet2`. A cell is read as Excel shows it,
more or less: numbers with at most 15 digits and the leading zeros of a format like 00000, dates as 2026-01-31 (with the
time, where there is one), TRUE and FALSE, formulas as the value that was stored with them. Labels share a cell, under
the same rules as in CSV. In errors, the number after the file's name is the row. What is written is text, never a
formula; characters that XML cannot hold are written as Excel does it, `_x0001_`.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import date, datetime, time
from itertools import chain, islice
from typing import Any

from xmtc.corpus.builder import CorpusBuilder, ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats.table import Columns, as_rows, likely_separator
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, replacing
from xmtc.errors import BadInput, XmtcError
from xmtc.extras import require

SUFFIXES = (".xlsx", ".xlsm")
HOLDS = ("texts", "fields")
ZIP, OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
OPEN_DOCUMENT = b"mimetypeapplication/vnd.oasis.opendocument"
MEMBER = re.compile(rb"\[Content_Types\]\.xml|_rels/|docProps/|xl/")
SHEET_ROWS, CELL_LENGTH = 1_048_576, 32_767  # as many as Excel takes
FIRST_ROWS = 1000  # in which a label separator is looked for
ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
TO_ESCAPE = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def sniff(head: bytes) -> bool:
    """Whether the file begins as spreadsheets do; of those that are no `.xlsx`, `read` says so."""
    if head.startswith(ZIP):
        return MEMBER.match(head, 30) is not None or head[30:].startswith(OPEN_DOCUMENT)
    return head.startswith(OLE)


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read a sheet."""
    _refuse_others(source)
    require(f"reading {source.path}", "excel")
    builder = CorpusBuilder(source.path, options, labels)
    rows = _rows(source, builder)
    number, header = next(rows, (1, []))
    if not header:
        return builder.build()  # which says that there is no document
    columns = Columns.of(source.path, number, _names(source, number, header), options)
    used = {*columns.text, *columns.keep, columns.id, columns.labels} - {None}
    beginning = list(islice(rows, FIRST_ROWS))
    separator = likely_separator([_safe_text(row, columns.labels) for _, row in beginning])
    for number, row in chain(beginning, rows):
        try:
            cells = [_text(row[at]) if at in used and at < len(row) else "" for at in range(len(header))]
            columns.add(builder, cells, separator)
        except BadLine as error:
            builder.bad(number, error)
    return builder.build()


def _names(source: Source, number: int, header: Sequence[Any]) -> list[str]:
    try:
        return [_text(cell) for cell in header]
    except BadLine as error:
        raise BadInput(source.path, number, error.problem, error.remedy) from error


def _refuse_others(source: Source) -> None:
    """BadInput for what cannot be an `.xlsx` file."""
    if source.is_stdin:
        raise BadInput("-", None, "Excel files cannot be read from standard input", "save it to a file first")
    head = source.head(4096)
    if source.path.lower().endswith(".gz"):
        raise BadInput(source.path, None, "a gzipped Excel file", f"unpack it first: gunzip {source.path}")
    if head.startswith(OLE):
        problem = "an old Excel file (.xls), or one with a password"
        raise BadInput(source.path, None, problem, "save it as .xlsx without a password, or as CSV")
    if head[30:].startswith(OPEN_DOCUMENT):
        raise BadInput(source.path, None, "an OpenDocument file", "save it as .xlsx or CSV")
    if not head.startswith(ZIP):
        found = "the file is empty" if not head else "this is no Excel file, whatever its name says"
        raise BadInput(source.path, None, found, "give an .xlsx file, or name its format with --format")


def _rows(source: Source, builder: CorpusBuilder) -> Iterator[tuple[int, list[Any]]]:
    """(number, cells) of every row that is not blank; a formula without a value stands for itself."""
    formulas = _has(source, b"<f>", b"<f ")
    if _has(source, b"<mergeCell "):
        builder.say("it has merged cells, of which only the first has the value")
    with ExitStack() as stack:
        sheet = _sheet(source, stack.enter_context(closing(_book(source, values=True))), builder)
        others: Iterator[Sequence[Any]] = iter(())
        if formulas:
            others = _each(source, stack.enter_context(closing(_book(source, values=False)))[sheet.title])
        for number, row in enumerate(_each(source, sheet), 1):
            cells = list(row)
            for at, formula in enumerate(next(others, ())):
                if at < len(cells) and cells[at].value is None and formula.data_type == "f":
                    cells[at] = formula
            while cells and cells[-1].value is None:
                cells.pop()
            if cells:
                yield number, cells


def _each(source: Source, sheet: Any) -> Iterator[Sequence[Any]]:
    """The rows of a sheet; whatever goes wrong in the library is an error of the file."""
    # The size that a file states may be wrong, and rows beyond it would be left out without a word.
    sheet.reset_dimensions()
    rows = sheet.iter_rows()
    while True:
        try:
            row = next(rows, None)
        except MemoryError:
            raise
        except Exception as error:
            raise _unreadable(source, error) from error
        if row is None:
            return
        yield row


def _book(source: Source, *, values: bool) -> Any:
    from openpyxl import load_workbook  # type: ignore[import-untyped]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and validations, which do not matter here
            return load_workbook(source.path, read_only=True, data_only=values)
    except MemoryError:
        raise
    except Exception as error:  # of zip, XML and the library
        raise _unreadable(source, error) from error


def _unreadable(source: Source, error: Exception) -> BadInput:
    first = (str(error).strip() or type(error).__name__).partition("\n")[0]
    return BadInput(source.path, None, f"not a readable Excel workbook: {first}", "save it again as .xlsx, or as CSV")


def _has(source: Source, *parts: bytes) -> bool:
    """Whether the XML of a sheet has one of these; much quicker than to parse it."""
    longest = max(map(len, parts))
    try:
        with zipfile.ZipFile(source.path) as archive:
            for name in archive.namelist():
                if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                    with archive.open(name) as stream:
                        before = b""
                        while chunk := stream.read(1 << 20):
                            if any(part in before + chunk for part in parts):
                                return True
                            before = chunk[-longest:]
    except MemoryError:
        raise
    except Exception as error:
        raise _unreadable(source, error) from error
    return False


def _sheet(source: Source, book: Any, builder: CorpusBuilder) -> Any:
    """The sheet to read: the one that is named, or the first."""
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    names = ", ".join(map(repr, sheets))
    if not sheets:
        raise BadInput(source.path, None, "there is no sheet with cells in it", "give a workbook with a table")
    if source.sheet:
        if source.sheet not in sheets:
            problem = f"no sheet {source.sheet!r} (sheets found: {names})"
            raise BadInput(source.path, None, problem, "name one of them")
        return sheets[source.sheet]
    if len(sheets) > 1:
        builder.say(f"the first of its sheets is read (of {names}); another one: {source.path}#{list(sheets)[1]}")
    return next(iter(sheets.values()))


def _safe_text(row: Sequence[Any], at: int | None) -> str:
    try:
        return _text(row[at]) if at is not None and at < len(row) else ""
    except BadLine:
        return ""


def _text(cell: Any) -> str:
    """A cell as text."""
    value = cell.value
    if value is None:
        return ""
    if cell.data_type == "f":
        problem = f"the cell {cell.coordinate} is a formula without a stored value"
        raise BadLine(problem, "open the file in Excel or LibreOffice and save it there")
    if cell.data_type == "e":
        raise BadLine(f"the cell {cell.coordinate} has the error value {value}", "mend the cell")
    if isinstance(value, str):
        return ESCAPED.sub(lambda found: chr(int(found[1], 16)), value) if "_x" in value else value
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        zeros = str(cell.number_format)
        return f"{value:.15g}".zfill(len(zeros)) if zeros.strip("0") == "" else f"{value:.15g}"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "seconds")
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


def write(corpus: Corpus, path: str) -> None:
    """Write a sheet with the columns id, text, labels and those that were kept."""
    rows = as_rows(corpus, path)
    write_rows(path, next(rows), rows)


def write_rows(path: str, header: Sequence[str], rows: Iterable[Sequence[str | int | float | None]]) -> None:
    """Write a workbook with one sheet; strings are written as text, whatever they look like."""
    require(f"writing {path}", "excel")
    if path.lower().endswith(".gz"):
        raise XmtcError(f"{path}: Excel does not open gzipped files; write .xlsx, which is compressed anyway")
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell  # type: ignore[import-untyped]

    book = Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")

    def as_cell(value: str | int | float | None, number: int) -> Any:
        if not isinstance(value, str):
            return value
        text = TO_ESCAPE.sub(lambda found: f"_x{ord(found[0]):04X}_", value)
        if len(text) > CELL_LENGTH:
            problem = f"a text of {len(text):,} characters, and a cell of Excel holds {CELL_LENGTH:,}"
            raise BadInput(path, number, problem, "write .csv, .jsonl or .parquet")
        cell = WriteOnlyCell(sheet, text)
        cell.data_type = "s"  # else `=A1` would become a formula
        return cell

    with replacing(path) as out:
        try:
            for number, row in enumerate(chain([header], rows), 1):
                if number > SHEET_ROWS:
                    problem = f"more than the {SHEET_ROWS:,} rows that a sheet of Excel holds"
                    raise BadInput(path, None, problem, "write .csv, .jsonl or .parquet")
                sheet.append([as_cell(value, number) for value in row])
        finally:
            sheet.close()
        book.save(out)
