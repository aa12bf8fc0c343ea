"""`xmtc evaluate`: a file of predictions in place of a model, thresholds, propensities; nothing is overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import xmtc
from xmtc.cli import main
from xmtc.corpus.folder import write
from xmtc.data import demo_folder

Figures = dict[str, Any]
Run = Callable[..., tuple[Figures, str]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, a tuned model and its predictions."""
    folder = tmp_path_factory.mktemp("evaluate")
    train, test = xmtc.read(demo_folder())[:600], xmtc.read(demo_folder(), part="test")[:50]
    write({"train": train, "test": test}, folder / "corpus")
    xmtc.write(test, folder / "test.csv")
    xmtc.write(train, folder / "train.jsonl")
    model = xmtc.make("knn").fit(train)
    model.tune(xmtc.read(demo_folder(), part="test")[100:200]).save(folder / "tagger")
    assert main(["predict", str(folder / "tagger"), str(folder / "corpus"), "--out", str(folder / "answers.csv")]) == 0
    (folder / "odd.txt").write_text("apple\n")
    return folder


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Evaluate, in that folder: (the JSON, what is printed for people)."""
    monkeypatch.chdir(place)

    def call(*words: str) -> tuple[Figures, str]:
        assert main(["evaluate", *words, "--json", "-"]) == 0
        out, err = capsys.readouterr()
        return json.loads(out), err

    return call


def same(found: Figures, expected: Figures) -> bool:
    """Whether all figures are equal but those of calibration, which a file cannot have."""
    known = [name for name in expected if not name.startswith("ECE")]
    return [found.get(name) for name in known] == [expected[name] for name in known]


def test_predictions_of_a_folder_count_its_train_part(run: Run) -> None:
    found, said = run("answers.csv", "corpus")
    assert same(found, run("tagger", "corpus")[0])
    assert found["PSP@5"] > 0
    assert "training counts from corpus/train.jsonl.gz: 600 documents" in said


def test_training_documents_can_be_named(run: Run) -> None:
    without, said = run("answers.csv", "test.csv")
    assert "PSP@5" not in without
    assert without["bands"] == {}
    assert without["labels_unseen"] is None
    assert "no training counts: neither PSP nor head, middle and tail (--train FILE, or train=, counts them)" in said
    for train in ("train.jsonl", "corpus"):
        found, said = run("answers.csv", "test.csv", "--train", train)
        assert found["PSP@5"] == run("tagger", "corpus")[0]["PSP@5"]
        assert "600 documents" in said
    assert without["P@5"] == found["P@5"]


@pytest.mark.parametrize("option", [["--threshold", "0.2"], ["--threshold", "tuned"], ["--recall", "0.5"]], ids=str)
def test_predict_and_evaluate_assign_the_same_labels(run: Run, option: list[str]) -> None:
    assert main(["predict", "tagger", "corpus", *option, "--out", "assigned.jsonl"]) == 0
    expected, said = run("tagger", "corpus", *option)
    # Every label in the file reached the threshold, and no score of this model is below 0.
    found, _ = run("assigned.jsonl", "corpus", "--threshold", "0")
    names = [f"{average}-{part}" for average in ("micro", "macro", "example") for part in ("P", "R", "F1")]
    assert [found[name] for name in names] == [expected[name] for name in names]
    assert 0 < expected["micro-F1"] < 100
    table = said[said.index("labels that reach ") :].splitlines()
    assert table[0].split()[-3:] == ["precision", "recall", "F1"]
    printed = [figure for line in table[1:4] for figure in line.split()[-3:]]
    assert printed == [f"{expected[name]:.2f}" for name in names]


def test_propensity(run: Run) -> None:
    usual, wikipedia = run("tagger", "corpus")[0], run("tagger", "corpus", "--propensity", "wikipedia")[0]
    assert usual["propensity"] == {"A": 0.55, "B": 1.5}
    assert wikipedia["PSP@5"] != usual["PSP@5"]
    assert wikipedia["P@5"] == usual["P@5"]
    assert run("tagger", "corpus", "--propensity", "0.5,0.4")[0] == wikipedia
    found, said = run("answers.csv", "corpus", "--propensity", "0.5,0.4")
    assert same(found, wikipedia)
    assert "PSP with A = 0.5 and B = 0.4" in said


def test_training_documents_are_reported(run: Run) -> None:
    assert "100 % of these documents were in training: the figures are too good" in run("tagger", "train.jsonl")[1]
    assert "were in training" not in run("tagger", "corpus")[1]


def test_a_report_of_predictions(run: Run) -> None:
    run("answers.csv", "corpus", "--threshold", "0.3", "--html", "report.html")
    page = Path("report.html").read_text("utf-8")
    assert "answers.csv on corpus" in page
    assert "Precision and recall by threshold" in page
    assert "At the threshold 0.3: precision" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.csv", "corpus"], "absent.csv: no such file"),
        (["absent", "corpus"], "no such model folder"),
        (["odd.txt", "corpus"], "the suffix is not that of predictions"),
        (["test.csv", "corpus"], "the columns id, label and score"),
        (["answers.csv", "train.jsonl"], "it lacks 600 documents"),
        (["answers.csv", "corpus", "--threshold", "tuned"], "give the model folder"),
        (["answers.csv", "corpus", "--precision", "0.5"], "--precision: a file of predictions does not know"),
        (["answers.csv", "corpus", "--recall", "0.5"], "--recall: a file of predictions does not know"),
        (["answers.csv", "corpus", "--threshold", "high"], "not a number"),
        (["answers.csv", "corpus", "--train", "absent.csv"], "absent.csv: no such file"),
        (["tagger", "corpus", "--train", "train.jsonl"], "leave it out"),
        (["tagger", "corpus", "--propensity", "amazonia"], "give default, amazon, wikipedia"),
        (["tagger", "corpus", "--propensity", "0.5,0"], "B above 0"),
        (["answers.csv", "corpus", "--per-label", "answers.csv"], "writing would replace it"),
        (["answers.csv", "test.csv", "--json", "test.csv"], "writing would replace it"),
        (["answers.csv", "test.csv", "--train", "train.jsonl", "--html", "train.jsonl"], "writing would replace it"),
        (["tagger", "test.csv", "--per-label", "test.csv"], "writing would replace it"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_users_error_is_one_line(
    words: list[str],
    message: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    before = {file: file.read_bytes() for file in place.iterdir() if file.is_file()}
    assert main(["evaluate", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error.removeprefix("training counts from corpus/train.jsonl.gz: 600 documents\n")
    assert {file: file.read_bytes() for file in before} == before
