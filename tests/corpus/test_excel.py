"""Excel workbooks: what is read of cells, round trips, and each kind of bad workbook with its sentence."""

from __future__ import annotations

import gzip
import io
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from corpora import assert_same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xmtc.cli import main
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.io import detect, read, write
from xmtc.corpus.sources import Source
from xmtc.errors import BadInput, MissingExtra, XmtcError

pytestmark = pytest.mark.needs("openpyxl")
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600


def workbook(path: Path, rows: Sequence[Sequence[Any]], **sheets: Sequence[Sequence[Any]]) -> Path:
    """A workbook with these rows in its first sheet, and further sheets by name."""
    from openpyxl import Workbook  # type: ignore[import-untyped]

    book = Workbook()
    assert book.active is not None
    for row in rows:
        book.active.append(row)
    for name, others in sheets.items():
        sheet = book.create_sheet(name)
        for row in others:
            sheet.append(row)
    book.save(path)
    return path


def zipped(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


GOOD = [["text", "labels"], ["dough", "bread|yeast"], ["oil", "fat"]]


def test_a_sheet_is_read_like_a_table(tmp_path: Path) -> None:
    file = workbook(tmp_path / "docs.xlsx", GOOD)
    assert detect(Source(file)) == "excel"
    corpus = read(file)
    assert corpus.texts is not None and list(corpus.texts) == ["dough", "oil"]
    assert list(corpus.labels.keys) == ["bread", "yeast", "fat"]


def test_the_content_tells_whatever_the_name(tmp_path: Path) -> None:
    file = workbook(tmp_path / "docs.xlsx", GOOD)
    assert detect(Source(file.rename(tmp_path / "docs.npz"))) == "excel"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (3.0, "3"),
        (0.1 + 0.2, "0.3"),
        (1e21, "1e+21"),
        (True, "TRUE"),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, 12, 30), "2026-01-31 12:30:00"),
        (time(8, 15), "08:15:00"),
        ("007", "007"),
        (None, ""),
    ],
)
def test_cells_as_text(value: object, text: str, tmp_path: Path) -> None:
    file = workbook(tmp_path / "docs.xlsx", [["text", "labels"], [value, "a"]])
    texts = read(file).texts
    assert texts is not None and texts[0] == text


def test_leading_zeros_of_a_format_stay(tmp_path: Path) -> None:
    from openpyxl import Workbook

    book = Workbook()
    assert book.active is not None
    book.active.append(["id", "text", "labels"])
    book.active.append([42, "a", "x"])
    book.active["A2"].number_format = "00000"
    book.save(tmp_path / "docs.xlsx")
    assert read(tmp_path / "docs.xlsx").id(0) == "00042"


def test_blank_rows_and_an_offset_header_are_no_harm(tmp_path: Path) -> None:
    rows = [[], [], [None, "text", "labels"], [], [None, "a", "x"], [None, "b"]]
    corpus = read(workbook(tmp_path / "docs.xlsx", rows))
    assert corpus.texts is not None and list(corpus.texts) == ["a", "b"]
    assert corpus.labels_of(1) == []


def test_a_sheet_by_name_and_a_word_about_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = workbook(tmp_path / "docs.xlsx", GOOD, Old=[["text", "labels"], ["rye", "bread"]])
    assert len(read(file)) == 2
    assert f"the first of its sheets is read (of 'Sheet', 'Old'); another one: {file}#Old" in capsys.readouterr().err
    assert len(read(f"{file}#Old")) == 1
    assert capsys.readouterr().err == ""


def test_a_sheet_is_not_converted_onto_its_own_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = workbook(tmp_path / "docs.xlsx", GOOD)
    assert main(["convert", f"{file}#Sheet", str(file), "--force"]) == 2
    assert "is read, and writing would replace it" in capsys.readouterr().err


def test_merged_cells_are_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from openpyxl import load_workbook

    file = workbook(tmp_path / "docs.xlsx", GOOD)
    book = load_workbook(file)
    assert book.active is not None
    book.active.merge_cells("B2:B3")
    book.save(file)
    assert len(read(file)) == 2
    assert "merged cells, of which only the first has the value" in capsys.readouterr().err


def test_a_wrong_size_in_the_file_leaves_out_nothing(tmp_path: Path) -> None:
    file = workbook(tmp_path / "docs.xlsx", GOOD)
    altered = io.BytesIO()
    with zipfile.ZipFile(file) as before, zipfile.ZipFile(altered, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            if name.startswith("xl/worksheets/"):
                assert b'ref="A1:B3"' in content
                content = content.replace(b'ref="A1:B3"', b'ref="A1:A1"')
            after.writestr(name, content)
    file.write_bytes(altered.getvalue())
    assert len(read(file)) == 2


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
documents = st.lists(st.tuples(texts, st.lists(texts.filter(bool), max_size=3)), min_size=1, max_size=4)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(documents)
def test_any_text_and_label_comes_back(documents: list[tuple[str, list[str]]]) -> None:
    corpus = Corpus.of([text for text, _ in documents], [tags for _, tags in documents])
    with tempfile.TemporaryDirectory() as folder:
        write(corpus, Path(folder) / "docs.xlsx")
        assert_same(read(Path(folder) / "docs.xlsx", unlabelled=True), corpus)


@pytest.mark.parametrize(
    "text", ["=1+1", "=HYPERLINK('x')", "+1", "-1", "@x", "_x0041_", " a ", "a\r\nb", "\x01", "#N/A"]
)
def test_what_looks_like_a_formula_stays_text(text: str, tmp_path: Path) -> None:
    from openpyxl import load_workbook

    corpus = Corpus.of([text], [["=a"]])
    write(corpus, tmp_path / "docs.xlsx")
    sheet = load_workbook(tmp_path / "docs.xlsx").active
    assert sheet is not None and sheet["B2"].data_type == sheet["C2"].data_type == "s"
    assert_same(read(tmp_path / "docs.xlsx"), corpus)


def test_what_excel_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"docs.xlsx:2: a text of 40,000 characters, and a cell of Excel holds 32,767"):
        write(Corpus.of(["a" * 40_000], [["x"]]), tmp_path / "docs.xlsx")
    with pytest.raises(XmtcError, match=r"gzipped files; write .xlsx"):
        write(Corpus.of(["a"], [["x"]]), tmp_path / "docs.xlsx.gz")
    assert not list(tmp_path.iterdir())


Make = Callable[[Path], Path]


def raw(content: bytes, name: str = "docs.xlsx") -> Make:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def sheet(*rows: Sequence[Any]) -> Make:
    return lambda folder: workbook(folder / "docs.xlsx", rows)


def members(name: str = "docs.xlsx", **content: str) -> Make:
    return lambda folder: zipped(folder / name, **content)


HEADER = ["text", "labels"]
BAD: dict[str, tuple[Make, str]] = {
    "old Excel": (raw(OLE, "docs.xls"), "docs.xls: an old Excel file (.xls), or one with a password; save it as .xlsx"),
    "old Excel by a new name": (raw(OLE), "docs.xlsx: an old Excel file (.xls), or one with a password"),
    "OpenDocument": (
        members("docs.ods", mimetype="application/vnd.oasis.opendocument.spreadsheet"),
        "docs.ods: an OpenDocument file; save it as .xlsx or CSV",
    ),
    "text": (raw(b"just words\n"), "docs.xlsx: this is no Excel file, whatever its name says; give an .xlsx"),
    "nothing": (raw(b""), "docs.xlsx: the file is empty"),
    "cut zip": (raw(b"PK\x03\x04" + b"\0" * 26 + b"xl/workbook.xml"), "docs.xlsx: not a readable Excel workbook"),
    "a zip that begins unlike a workbook": (raw(b"PK\x03\x04 what?"), "docs.xlsx: not a readable Excel workbook"),
    "other zip": (members(**{"[Content_Types].xml": "<a/>"}), "docs.xlsx: not a readable Excel workbook"),
    "Word": (
        members("docs.docx", **{"[Content_Types].xml": "<Types/>", "word/document.xml": "<a/>"}),
        "docs.docx: not a readable Excel workbook",
    ),
    "bad XML": (
        members(**{"[Content_Types].xml": "<Types", "xl/workbook.xml": "<"}),
        "docs.xlsx: not a readable Excel workbook",
    ),
    "no sheet content": (sheet(), "docs.xlsx: there is no document in it"),
    "header alone": (sheet(HEADER), "docs.xlsx: there is no document in it"),
    "no text column": (sheet(["title", "labels"], ["a", "b"]), "docs.xlsx:1: no column 'text' (columns found: 'title'"),
    "no label column": (sheet(["text", "tags"], ["a", "b"]), "docs.xlsx:1: no column 'labels'"),
    "late header": (sheet([], [], ["text", "tags"], ["a", "b"]), "docs.xlsx:3: no column 'labels'"),
    "two text columns": (
        sheet(["text", "labels", "text"], ["a", "b", "c"]),
        "docs.xlsx:1: 2 columns are called 'text'",
    ),
    "two label columns": (sheet([*HEADER, "labels"], ["a", "b", "c"]), "docs.xlsx:1: 2 columns are called 'labels'"),
    "no label": (sheet(HEADER, ["a"]), "docs.xlsx: no document has a label"),
    "formula without a value": (
        sheet(HEADER, ["a", "x"], ["=A1&A2", "x"]),
        "docs.xlsx:3: the cell A3 is a formula without a stored value; open the file in Excel",
    ),
    "formula in the labels": (sheet(HEADER, ["a", "=A1"]), "docs.xlsx:2: the cell B2 is a formula"),
    "formula in the header": (sheet(["text", "=A1"], ["a", "b"]), "docs.xlsx:1: the cell B1 is a formula"),
    "error value": (sheet(HEADER, ["a", "#N/A"]), "docs.xlsx:2: the cell B2 has the error value #N/A; mend the cell"),
    "broken label list": (sheet(HEADER, ["a", '["x", ""]']), "docs.xlsx:2: one of the labels is empty"),
    "no such sheet": (
        lambda folder: Path(f"{workbook(folder / 'docs.xlsx', GOOD)}#Tabelle1"),
        "docs.xlsx: no sheet 'Tabelle1' (sheets found: 'Sheet'); name one of them",
    ),
    "no such file": (lambda folder: folder / "none.xlsx", "none.xlsx: no such file"),
    "no such file for a sheet": (lambda folder: folder / "none.xlsx#A", "none.xlsx: no such file"),
    "gzipped": (
        lambda folder: raw(gzip.compress(workbook(folder / "a.xlsx", GOOD).read_bytes()), "docs.xlsx.gz")(folder),
        "docs.xlsx.gz: a gzipped Excel file; unpack it first: gunzip",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_workbooks_are_named(what: str, tmp_path: Path) -> None:
    make, sentence = BAD[what]
    with pytest.raises(BadInput) as caught:
        read(make(tmp_path))
    assert str(caught.value).startswith(f"{tmp_path}/{sentence}")
    assert "\n" not in str(caught.value)


def test_a_sheet_with_altered_xml_is_named(tmp_path: Path) -> None:
    file = workbook(tmp_path / "docs.xlsx", GOOD)
    with zipfile.ZipFile(file) as before:
        content = {name: before.read(name) for name in before.namelist()}
    with zipfile.ZipFile(file, "w") as after:
        for name, data in content.items():
            after.writestr(name, data[: len(data) // 2] if name.startswith("xl/worksheets/") else data)
    with pytest.raises(BadInput, match=r"docs.xlsx: not a readable Excel workbook: .*; save it again"):
        read(file)


def test_bad_rows_can_be_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = workbook(tmp_path / "docs.xlsx", [HEADER, ["a", "x"], ["b", "#N/A"], ["c", "y"]])
    assert len(read(file, skip_bad=True)) == 2
    assert "1 bad lines skipped, 2 documents read" in capsys.readouterr().err


def test_standard_input_is_no_workbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = workbook(tmp_path / "docs.xlsx", GOOD).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(BadInput, match="Excel files cannot be read from standard input"):
        read("-")


def test_without_openpyxl_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = workbook(tmp_path / "docs.xlsx", GOOD)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r"reading .*docs.xlsx needs openpyxl; .* pip install 'xmtc\[excel\]'"):
        read(file)
    with pytest.raises(MissingExtra, match=r"writing .*new.xlsx needs openpyxl"):
        write(Corpus.of(["a"], [["x"]]), tmp_path / "new.xlsx")
