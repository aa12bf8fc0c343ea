"""CSV and TSV: delimiters, label separators, several text columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpora import assert_same, rows

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats import table
from xmtc.corpus.io import read


@pytest.mark.parametrize("delimiter", table.DELIMITERS)
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_another_delimiter_than_the_suffix_says(delimiter: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"docs{suffix}"
    path.write_text(delimiter.join(["labels", "text"]) + "\n" + delimiter.join(["x", "a b"]) + "\n")
    assert_same(read(path), Corpus.of(["a b"], [["x"]]))


@pytest.mark.parametrize(
    ("cells", "separator", "wanted"),
    [
        (["a|b;c", "d"], None, [{"a", "b;c"}, {"d"}]),
        (["a;b", "c"], None, [{"a", "b"}, {"c"}]),
        (["Austen, Jane", "c"], None, [{"Austen, Jane"}, {"c"}]),
        (["a, b", "c"], ",", [{"a", "b"}, {"c"}]),
        (['["a|b"]', "c|d"], None, [{"a|b"}, {"c", "d"}]),
        (["[a]", ""], None, [{"[a]"}, set()]),
    ],
)
def test_label_separators(cells: list[str], separator: str | None, wanted: list[set[str]], tmp_path: Path) -> None:
    path = tmp_path / "docs.tsv"
    path.write_text("text\tlabels\n" + "".join(f"t\t{quoted(cell)}\n" for cell in cells))
    assert rows(read(path, label_separator=separator)) == wanted


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def test_several_text_columns(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_text("title,body,tags\nA,B,x\n")
    corpus = read(path, text=["title", "body"], labels="tags")
    assert corpus.texts is not None
    assert corpus.texts[0] == "A\n\nB"
