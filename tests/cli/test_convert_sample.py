"""`xmtc convert --sample`: a part of a corpus, drawn at random; a folder's other parts stay."""

from __future__ import annotations

from pathlib import Path

import pytest

import xmtc
from xmtc.cli import main

TEXTS = [f"text number {number}" for number in range(20)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with train, dev and test, labels with names, one of which only dev has."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "labels.tsv").write_text("label\tname\tparent\nx\tthe x\t\ny\tthe y\tx\n")
    for part, texts, label in (("train", TEXTS, "x"), ("dev", ["to choose"], "y"), ("test", ["to judge", "too"], "x")):
        lines = [f'{{"id": "{part}{at}", "text": "{text}", "labels": ["{label}"]}}\n' for at, text in enumerate(texts)]
        (folder / f"{part}.jsonl").write_text("".join(lines))
    return tmp_path


def test_train_is_sampled_and_the_other_parts_stay(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "corpus", "small", "--sample", "7", "--seed", "3"]) == 0
    assert "small: 7 documents in train, 1 in dev, 2 in test" in capsys.readouterr().err
    whole, train = xmtc.read("corpus"), xmtc.read("small")
    assert list(train.ids or []) == list(whole.split(7, seed=3)[1].ids or []), "what the same split sets aside"
    assert list(xmtc.read("small", part="test").texts or []) == ["to judge", "too"]
    assert list(xmtc.read("small/dev.jsonl.gz").texts or []) == ["to choose"]
    assert [train.labels.name(at) for at in range(2)] == ["the x", "the y"]
    assert main(["train", "small", "--model", "prior", "--valid", "small/dev.jsonl.gz", "--out", "tagger"]) == 0
    assert main(["evaluate", "tagger", "small"]) == 0


def test_a_seed_is_a_sample(here: Path) -> None:
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        assert main(["convert", "corpus", f"{name}.jsonl", "--sample", "10", "--seed", seed]) == 0
    a, b, c = (Path(f"{name}.jsonl").read_bytes() for name in "abc")
    assert a == b != c


def test_all_documents_are_a_sample(here: Path) -> None:
    assert main(["convert", "corpus", "all.jsonl", "--sample", "20"]) == 0
    assert list(xmtc.read("all.jsonl").texts or []) == TEXTS


def test_a_sample_can_be_split(here: Path) -> None:
    assert main(["convert", "corpus", "parts", "--sample", "10", "--test", "4"]) == 0
    assert len(xmtc.read("parts")) == 6
    assert len(xmtc.read("parts", part="test")) == 4
    assert not Path("parts/dev.jsonl.gz").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--sample", "21"], "--sample 21: corpus/train.jsonl has 20 documents; give at most 20"),
        (["--sample", "0"], "--sample"),
        (["--sample", "5", "--tfidf"], "leave out --tfidf"),
    ],
)
def test_what_cannot_be_sampled_is_refused(
    here: Path, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", "corpus", "small", *words]) == 2
    assert problem in capsys.readouterr().err
    assert not Path("small").exists()


def test_a_part_that_exists_is_not_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("small").mkdir()
    Path("small/dev.jsonl.gz").write_text("mine")
    assert main(["convert", "corpus", "small", "--sample", "5"]) == 2
    assert "dev.jsonl.gz: exists already" in capsys.readouterr().err
    assert Path("small/dev.jsonl.gz").read_text() == "mine"
