"""`xmtc predict` and `evaluate`: answers by suffix, thresholds, some labels only, one text; nothing is overwritten."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import xmtc
from xmtc.cli import main
from xmtc.data import demo_folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, measured on validation documents, and documents."""
    folder = tmp_path_factory.mktemp("predict")
    train = xmtc.read(demo_folder())
    rest, valid = train[:600].split(0.2, seed=0)
    model = xmtc.make("knn").fit(rest)
    model.save(folder / "plain")
    model.tune(valid).save(folder / "tagger")
    xmtc.write(train[600:640], folder / "docs.csv")
    (folder / "labels.txt").write_text("role::program\n\nrole::data\n")
    (folder / "unknown.txt").write_text("role::program\nrole::nothing\n")
    (folder / "blank.txt").write_text("\n \n")
    (folder / "bad.txt").write_bytes(b"\xff\xfe\n")
    return folder


@pytest.fixture(autouse=True)
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_a_table_has_a_row_for_each_label(suffix: str, delimiter: str) -> None:
    assert main(["predict", "tagger", "docs.csv", "--k", "2", "--out", f"answers.{suffix}"]) == 0
    rows = list(csv.DictReader(Path(f"answers.{suffix}").read_text().splitlines(), delimiter=delimiter))
    assert [*rows[0]] == ["id", "rank", "label", "name", "score"]
    assert len(rows) == 80
    assert [row["rank"] for row in rows[:4]] == ["1", "2", "1", "2"]


def test_a_table_can_have_a_row_for_each_document() -> None:
    assert main(["predict", "tagger", "docs.csv", "--out", "documents.csv", "--rows", "document"]) == 0
    assert len(list(csv.DictReader(Path("documents.csv").read_text().splitlines()))) == 40


def test_what_is_read_is_never_replaced() -> None:
    before = Path("docs.csv").read_bytes()
    assert main(["predict", "tagger", "docs.csv", "--out", "docs.csv"]) == 2
    assert main(["predict", "tagger", "docs.csv", "--only", "labels.txt", "--out", "./labels.txt"]) == 2
    assert Path("docs.csv").read_bytes() == before


def test_one_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "tagger", "--text", "a mail server", "--k", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)["labels"]) == 1


def test_a_threshold_applies_to_lists_as_long_as_those_that_are_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "tagger", "docs.csv", "--threshold", "0.01"]) == 0
    longest = max(len(json.loads(line)["labels"]) for line in capsys.readouterr().out.splitlines())
    assert longest > 5
    assert main(["predict", "tagger", "docs.csv", "--threshold", "0.01", "--k", "3"]) == 0
    assert max(len(json.loads(line)["labels"]) for line in capsys.readouterr().out.splitlines()) == 3


def test_a_threshold_by_its_precision(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = xmtc.load("tagger").threshold_for(precision=0.7)
    assert main(["predict", "tagger", "docs.csv", "--precision", "0.7"]) == 0
    found = capsys.readouterr()
    scores = [label["score"] for line in found.out.splitlines() for label in json.loads(line)["labels"]]
    assert min(scores) >= chosen - 1e-6
    assert f"threshold {chosen:.4g}: precision 0.7" in found.err


@pytest.mark.parametrize("option", [["--precision", "0.7"], ["--recall", "0.6"], ["--threshold", "tuned"]], ids=str)
def test_evaluate_takes_the_same_thresholds(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "tagger", "docs.csv", *option, "--json", "-"]) == 0
    assert "micro-F1" in json.loads(capsys.readouterr().out)


def test_only_some_labels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "tagger", "docs.csv", "--only", "labels.txt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {label["label"] for line in lines for label in json.loads(line)["labels"]} == {"role::program", "role::data"}
    assert main(["predict", "tagger", "docs.csv", "--except", "labels.txt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    labels = {label["label"] for line in lines for label in json.loads(line)["labels"]}
    assert labels and not labels & {"role::program", "role::data"}


def test_training_with_validation_documents_is_enough_for_a_precision() -> None:
    assert main(["train", "docs.csv", "--model", "prior", "--out", "measured", "--valid", "0.3"]) == 0
    assert 0 <= xmtc.load("measured").threshold_for(recall=0.1) <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "tagger"], "give documents to tag"),
        (["predict", "tagger", "docs.csv", "--text", "a"], "one of them"),
        (["predict", "tagger", "--text", " "], "the text is empty"),
        (["predict", "tagger", "docs.csv", "--out", "x.docx"], "the suffix says no format"),
        (["predict", "tagger", "docs.csv", "--out", "x"], "the suffix says no format"),
        (["predict", "tagger", "docs.csv", "--out", "x.parquet.gz"], "compressed already"),
        (["predict", "tagger", "docs.csv", "--out", "x.jsonl", "--rows", "label"], "--rows label"),
        (["predict", "tagger", "docs.csv", "--out", "no/such/x.csv"], "no/such"),
        (["predict", "tagger", "docs.csv", "--rows", "word"], "'word' is not one of"),
        (["predict", "tagger", "docs.csv", "--threshold", "30"], "at most 1"),
        (["predict", "tagger", "docs.csv", "--threshold", "nan"], "not a number"),
        (["predict", "tagger", "docs.csv", "--threshold", "high"], "not a number"),
        (["predict", "tagger", "docs.csv", "--threshold", "0.3", "--precision", "0.8"], "give one of them"),
        (["predict", "tagger", "docs.csv", "--precision", "80"], "at most 1"),
        (["predict", "tagger", "docs.csv", "--precision", "0"], "above 0"),
        (["predict", "tagger", "docs.csv", "--recall", "1"], "no threshold reaches it"),
        (["predict", "plain", "docs.csv", "--precision", "0.8"], "train it with --valid 0.1"),
        (["predict", "plain", "docs.csv", "--threshold", "tuned"], "train it with --valid 0.1 --tune"),
        (["predict", "tagger", "docs.csv", "--only", "unknown.txt"], "role::nothing"),
        (["predict", "tagger", "docs.csv", "--except", "unknown.txt"], "role::nothing"),
        (["predict", "tagger", "docs.csv", "--only", "blank.txt"], "there is no label in it"),
        (["predict", "tagger", "docs.csv", "--only", "bad.txt"], "bad.txt:1: "),
        (["predict", "tagger", "docs.csv", "--only", "absent.txt"], "absent.txt"),
        (["predict", "tagger", "docs.csv", "--only", "labels.txt", "--except", "labels.txt"], "no label is left"),
        (["evaluate", "tagger", "docs.csv", "--precision", "1.5"], "at most 1"),
        (["evaluate", "tagger", "docs.csv", "--threshold", "2"], "at most 1"),
        (["evaluate", "plain", "docs.csv", "--recall", "0.5"], "train it with --valid 0.1"),
    ],
    ids=lambda value: " ".join(value[2:]) if isinstance(value, list) else "",
)
def test_a_users_error_is_one_line(
    arguments: list[str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(path.name for path in place.iterdir())
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("error: ") and error.count("\n") == 1
    assert sorted(path.name for path in place.iterdir()) == before


def test_a_file_that_holds_no_predictions_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    """Such as the corpus that the model was trained on; answers of an earlier call are."""
    Path("mine.csv").write_text("text,labels\na ship,x\n")
    assert main(["predict", "tagger", "docs.csv", "--out", "mine.csv"]) == 2
    assert "mine.csv: there is a file that holds no predictions; remove it" in capsys.readouterr().err
    assert Path("mine.csv").read_text() == "text,labels\na ship,x\n"
    for name in ("again.csv", "again.jsonl"):
        assert main(["predict", "tagger", "docs.csv", "--k", "1", "--out", name]) == 0
        before = Path(name).read_text()
        assert main(["predict", "tagger", "docs.csv", "--k", "2", "--out", name]) == 0
        assert Path(name).read_text() != before
