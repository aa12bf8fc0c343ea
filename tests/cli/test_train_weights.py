"""`xmtc train` and `xmtc update` with weights: from all formats with fields, --resume, and what is refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.models.registry import load

Run = Callable[..., tuple[int, str]]
ROWS = [("red apple", "fruit", 3), ("red pear", "fruit", 1), ("red ship", "ships", 2), ("a red boat", "ships", 0)]
DISMEC = ("train", "docs.jsonl", "--model", "dismec", "--out", "m")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder with documents: (exit code, standard error)."""
    monkeypatch.chdir(tmp_path)
    documents = [{"text": text, "labels": [label], "weight": weight} for text, label, weight in ROWS]
    Path("docs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))
    Path("docs.json").write_text(json.dumps(documents))
    with open("docs.csv", "w", newline="") as out:
        csv.writer(out).writerows([("text", "labels", "weight"), *ROWS])
    Path("weights.tsv").write_text("fruit\t4\n")

    def call(*words: str) -> tuple[int, str]:
        code = main(list(words))
        return code, capsys.readouterr().err

    return call


def write_others() -> None:
    import pyarrow as pa
    from openpyxl import Workbook  # type: ignore[import-untyped]
    from pyarrow import parquet

    texts, labels, weights = map(list, zip(*ROWS, strict=True))
    parquet.write_table(pa.table({"text": texts, "labels": [[each] for each in labels], "weight": weights}), "docs.pq")
    book = Workbook()
    for row in [("text", "labels", "weight"), *ROWS]:
        book.active.append(row)
    book.save("docs.xlsx")


@pytest.mark.needs("openpyxl")
def test_every_format_with_fields_has_weights(run: Run) -> None:
    write_others()
    for name in ("docs.jsonl", "docs.json", "docs.csv", "docs.pq", "docs.xlsx"):
        code, err = run("train", name, "--model", "prior", "--out", "m", "--weight-field", "weight")
        assert code == 0, err
        shares = dict(load("m").predict(["any"], k=2).names()[0])
        assert shares == {"fruit": 0.6667, "ships": 0.3333}


def test_resume_is_for_the_same_weights(run: Run) -> None:
    weights = ("--weight-field", "weight", "--label-weights", "weights.tsv")
    assert run(*DISMEC, *weights)[0] == 0
    assert "finished already" in run(*DISMEC, *weights, "--resume")[1]
    for other in ((), weights[:2], weights[2:]):
        code, err = run(*DISMEC, *other, "--resume")
        assert code == 2
        assert "different: weights" in err
    Path("weights.tsv").write_text("fruit\t5\n")
    assert run(*DISMEC, *weights, "--resume")[0] == 2


def test_an_update_has_weights_too(run: Run) -> None:
    assert run("train", "docs.jsonl", "--model", "prior", "--out", "m")[0] == 0
    assert run("update", "m", "docs.csv", "--weight-field", "weight")[0] == 0
    shares = dict(load("m").predict(["any"], k=2).names()[0])
    assert shares == {"fruit": pytest.approx(6 / 10), "ships": pytest.approx(4 / 10)}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["--weight-field", "wait"],
            "no field 'wait' (fields found: 'text', 'labels', 'weight'); name the field of the",
        ),
        (["--weight-field", "text"], "the weight of document '0' is the str 'red apple', not a number"),
        (["--label-weights", "none.tsv"], "none.tsv: no such file"),
        (
            ["--model", "knn", "--label-weights", "weights.tsv"],
            "knn cannot take weights of labels; these can: parabel,",
        ),
        (["--model", "blend", "--label-weights", "weights.tsv"], "blend: the member knn cannot take weights of labels"),
        (
            ["--model", "auto", "--set", "methods=[knn]", "--label-weights", "weights.tsv"],
            "auto: knn cannot take weights of labels",
        ),
    ],
)
def test_what_is_refused(run: Run, words: list[str], error: str) -> None:
    code, err = run(*DISMEC, *words)
    assert code == 2
    assert error in err
    assert not Path("m").exists()


def test_an_unknown_label_is_named_with_its_file(run: Run) -> None:
    Path("weights.tsv").write_text("fruits\t4\n")
    code, err = run(*DISMEC, "--label-weights", "weights.tsv")
    assert code == 2
    assert "--label-weights weights.tsv: there is no label 'fruits'; did you mean 'fruit'?" in err
