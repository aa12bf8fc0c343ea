"""`xmtc predict` for many files: each has its answers, and a second call does what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract_corpus import small_corpus

import xmtc
from xmtc.cli import main
from xmtc.models.registry import make


@pytest.fixture
def place(tmp_path: Path) -> Path:
    corpus = small_corpus()
    make("prior").fit(corpus).save(tmp_path / "model")
    (tmp_path / "docs").mkdir()
    xmtc.write(corpus[:10], tmp_path / "docs" / "one.jsonl")
    xmtc.write(corpus[10:30], tmp_path / "docs" / "two.csv")
    return tmp_path


def predict(place: Path, out: str, pattern: str = "*") -> int:
    return main(["predict", str(place / "model"), str(place / "docs" / pattern), "--out", str(place / out)])


def test_each_file_has_its_answers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict(place, "tags/*.jsonl") == 0
    assert capsys.readouterr().err == "tagged 30 documents of 2 files\n"
    assert len((place / "tags" / "one.jsonl").read_text().splitlines()) == 10
    assert len((place / "tags" / "two.jsonl").read_text().splitlines()) == 20


def test_what_is_answered_is_left(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "tags").mkdir()
    (place / "tags" / "one.jsonl").write_text("mine")
    assert predict(place, "tags/*.jsonl") == 0
    said = capsys.readouterr().err
    assert said == "1 of 2 files are answered already and left as they are\ntagged 20 documents of 1 files\n"
    assert (place / "tags" / "one.jsonl").read_text() == "mine"


def test_a_bad_file_is_named_at_the_end(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "docs" / "bad.jsonl").write_text("{no JSON\n")
    assert predict(place, "tags/*.jsonl") == 2
    said = capsys.readouterr().err
    assert "bad.jsonl:1: " in said
    assert sorted(file.name for file in (place / "tags").iterdir()) == ["one.jsonl", "two.jsonl"]


@pytest.mark.parametrize(
    ("out", "pattern", "problem"),
    [
        ("tags/all.jsonl", "*", "a \\* stands for each name"),
        ("tags/*.jsonl", "none*", "no file matches"),
        ("tags/*.txt", "*", "the suffix says no format for predictions"),
    ],
)
def test_mistakes(place: Path, out: str, pattern: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    import re

    assert predict(place, out, pattern) == 2
    assert re.search(problem, capsys.readouterr().err)


def test_two_files_with_the_same_answers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "docs" / "one.csv").write_text("text\na\n")
    assert predict(place, "tags/*.jsonl") == 2
    assert "would both be answered in" in capsys.readouterr().err
    assert not (place / "tags").exists()
