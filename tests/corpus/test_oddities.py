"""What is odd but can be read is said on standard error: packed labels, repeated ids, stray blanks, blank lines."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.io import read, write
from xmtc.corpus.oddities import packed_separator
from xmtc.errors import BadInput

NAMES = ["Austen, Jane", "Brontë, Anne", "Eliot, George", "Woolf, Virginia"]
TOPICS = [f"topic {number}" for number in range(30)]


def strings(separator: str, documents: int = 50) -> list[str]:
    """Some topics in one string, for each of some documents."""
    rng = random.Random(0)
    return [separator.join(sorted(rng.sample(TOPICS, rng.randint(2, 3)))) for _ in range(documents)]


def authors(count: int) -> list[str]:
    """Names like "Surname17, Given3": many surnames, few given names."""
    return [f"Surname{number}, Given{number % 9}" for number in range(count)]


@pytest.mark.parametrize("separator", [";", ",", "; ", ", ", "|", " | "])
def test_lists_in_strings_are_seen(separator: str) -> None:
    found = packed_separator(strings(separator), 50)
    assert found == separator.strip()


@pytest.mark.parametrize(
    "labels",
    [
        TOPICS,
        authors(300),
        ["Cookery, French", *TOPICS],
        ["tcp/ip"] * 9,
        [f"{topic}, other" for topic in TOPICS],
        ["Q&A;"] * 9,
        [],
    ],
    ids=["plain", "authors", "one comma", "slash", "qualified", "at the end", "none"],
)
def test_single_labels_are_left_in_peace(labels: list[str]) -> None:
    assert packed_separator(labels, len(labels)) is None


def test_a_third_of_the_documents_will_do_if_their_parts_recur() -> None:
    assert packed_separator([*strings(";", 40), *TOPICS, *TOPICS], 100) == ";"
    assert packed_separator([*strings(";", 5), *TOPICS * 3], 95) is None


HINT = "labels look like several in one string, separated by ',': say --label-separator ','"


def as_csv(labels: list[str], path: Path) -> Path:
    file = path / "docs.csv"
    file.write_text("text,labels\n" + "".join(f'a,"{label}"\n' for label in labels))
    return file


def as_jsonl(labels: list[str], path: Path) -> Path:
    file = path / "docs.jsonl"
    file.write_text("".join(json.dumps({"text": "a", "labels": label}) + "\n" for label in labels))
    return file


def as_parquet(labels: list[str], path: Path) -> Path:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": ["a"] * len(labels), "labels": labels}), path / "docs.parquet")
    return path / "docs.parquet"


@pytest.mark.parametrize("written", [as_csv, as_jsonl, as_parquet])
def test_the_hint_is_one_line_and_taken_no_more(
    written: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(written)
    file = written(strings(", "), tmp_path)
    read(file)
    error = capsys.readouterr().err
    assert HINT in error and error.count("\n") == 1
    corpus = read(file, label_separator=",")
    assert len(corpus.labels) == len(TOPICS)
    assert capsys.readouterr().err == ""


def test_lists_and_known_labels_get_no_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "docs.jsonl"
    write(Corpus.of(["a"] * 50, [[label] for label in strings(";")]), file)
    read(file)
    as_csv(NAMES, tmp_path)
    (tmp_path / "labels.tsv").write_text("label\n" + "".join(f"{name}\n" for name in NAMES))
    read(tmp_path / "docs.csv")
    assert capsys.readouterr().err == ""


def test_repeated_ids_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs.csv").write_text("id,text,labels\n1,a,x\n2,b,y\n1,c,x\n1,d,x\n")
    assert len(read(tmp_path / "docs.csv")) == 4
    assert "docs.csv: documents whose id an earlier one has: 2, the first '1'; all of them are read" in (
        capsys.readouterr().err
    )


def test_stray_blanks_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs.jsonl").write_text('{"text": "a", "labels": ["x", " x", "x  y"]}\n')
    assert list(read(tmp_path / "docs.jsonl").labels.keys) == ["x", " x", "x  y"]
    error = capsys.readouterr().err
    assert "labels with stray blanks: 2, such as ' x'; without the blanks they are other labels: 1" in error


@pytest.mark.parametrize("column", ["text", "labels", "id"])
@pytest.mark.parametrize("unlabelled", [False, True])
def test_two_columns_of_a_name_that_is_used_are_refused(column: str, unlabelled: bool, tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    (tmp_path / "docs.csv").write_text(f"id,text,labels,{column}\n1,a,x,b\n")
    with pytest.raises(BadInput, match=f"docs.csv:1: 2 columns are called '{column}'; rename one"):
        read(tmp_path / "docs.csv", unlabelled=unlabelled)
    columns = [pyarrow.array([value]) for value in "1axb"]
    parquet.write_table(
        pyarrow.Table.from_arrays(columns, names=["id", "text", "labels", column]), tmp_path / "docs.parquet"
    )
    with pytest.raises(BadInput, match=f"docs.parquet: 2 columns are called '{column}'; rename one"):
        read(tmp_path / "docs.parquet", unlabelled=unlabelled)


def test_two_columns_of_another_name_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "docs.csv").write_text("text,labels,note,note\na,x,1,2\n")
    assert len(read(tmp_path / "docs.csv")) == 1


class TestBlankLines:
    def test_they_are_documents_where_nothing_has_labels(self, tmp_path: Path) -> None:
        (tmp_path / "texts.txt").write_text("\nfirst\n\n \nfourth\r\n\r\n")
        corpus = read(tmp_path / "texts.txt", unlabelled=True)
        assert corpus.texts is not None
        assert list(corpus.texts) == ["", "first", "", "", "fourth", ""]

    def test_they_are_left_out_and_counted_among_labelled_lines(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "docs.txt").write_text("__label__a x\n\n__label__b y\n")
        for unlabelled in (False, True):
            assert len(read(tmp_path / "docs.txt", unlabelled=unlabelled)) == 2
            assert "docs.txt: blank lines left out: 1\n" in capsys.readouterr().err

    def test_a_file_of_nothing_else_is_empty(self, tmp_path: Path) -> None:
        (tmp_path / "texts.txt").write_text("\n\n")
        with pytest.raises(BadInput, match="the file is empty"):
            read(tmp_path / "texts.txt", unlabelled=True)


class TestTextFields:
    def test_null_is_empty_where_there_are_several(self, tmp_path: Path) -> None:
        (tmp_path / "docs.jsonl").write_text(
            '{"title": "a", "body": null, "labels": ["x"]}\n{"title": "a", "body": "", "labels": ["x"]}\n'
        )
        texts = read(tmp_path / "docs.jsonl", text=["title", "body"]).texts
        assert texts is not None and texts[0] == texts[1] == "a\n\n"
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.table({"title": ["a"], "body": pyarrow.nulls(1), "labels": [["x"]]})
        parquet.write_table(table, tmp_path / "docs.parquet")
        texts = read(tmp_path / "docs.parquet", text=["title", "body"]).texts
        assert texts is not None and texts[0] == "a\n\n"

    def test_null_alone_is_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "docs.jsonl").write_text('{"title": null, "body": null, "labels": ["x"]}\n')
        with pytest.raises(BadInput, match=r"docs.jsonl:1: the fields title, body are all null"):
            read(tmp_path / "docs.jsonl", text=["title", "body"])
        with pytest.raises(BadInput, match=r"docs.jsonl:1: field 'title' must be a string"):
            read(tmp_path / "docs.jsonl", text="title")

    @pytest.mark.parametrize("name", ["docs.csv", "docs.jsonl", "docs.parquet"])
    def test_blanks_around_a_name_are_dropped_unless_the_column_has_them(self, name: str, tmp_path: Path) -> None:
        from dataclasses import replace

        from xmtc.corpus.strings import Strings

        corpus = Corpus.of(["the text"], [["x"]])
        fields = {"body": Strings.of(["plain"]), " title": Strings.of(["blank"]), "title": Strings.of(["none"])}
        write(replace(corpus, fields=fields), tmp_path / name)
        texts = read(tmp_path / name, text=["text", " body", " title"], labels=" labels ").texts
        assert texts is not None and texts[0] == "the text\n\nplain\n\nblank"


def test_a_null_id_is_the_position(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"text": ["a", "b"], "labels": [["x"], ["y"]], "id": ["q", None]})
    parquet.write_table(table, tmp_path / "docs.parquet")
    assert read(tmp_path / "docs.parquet").id(1) == "1"
