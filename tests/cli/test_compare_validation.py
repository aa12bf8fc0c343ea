"""`xmtc compare` with validation documents, and with the recipe of a whole table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.cli.compare_plans import planned
from xmtc.corpus import folder as folders
from xmtc.corpus.io import read
from xmtc.data import demo_folder
from xmtc.errors import BadInput
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.registry import load
from xmtc.recipes import read_recipe, read_table


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small part of the demo corpus, with a dev part."""
    place = tmp_path_factory.mktemp("corpus")
    train, test = read(demo_folder()), read(demo_folder(), part="test")
    folders.write({"train": train[:300], "dev": train[300:400], "test": test[:80]}, place)
    return place


def compared(corpus: Path, out: Path, *options: str) -> dict[str, dict[str, float]]:
    assert main(["compare", str(corpus), "--out", str(out), *options]) == 0
    return {row["system"]: row for row in json.loads((out / "results.json").read_text())["rows"]}


def test_the_dev_part_tunes_thresholds(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = compared(corpus, tmp_path / "out", "--models", "prior,knn")
    said = capsys.readouterr()
    assert "80 to test on, 100 to validate on (early stopping, thresholds)" in said.err
    assert "micro-F1: labels that reach thresholds tuned on validation documents" in said.out
    model = load(next((tmp_path / "out" / "runs").glob("knn-*")) / "model")
    assert model.training_["thresholds"]["documents"] == 100
    again = evaluate(model, read(corpus, part="test"), threshold=model.thresholds_).values["micro-F1"]
    assert rows["knn"]["micro-F1"] == pytest.approx(again, abs=1e-3)
    assert rows["knn"]["micro-F1"] > rows["prior"]["micro-F1"] > 0


def test_a_model_folder_is_tuned_on_the_same_documents(corpus: Path, tmp_path: Path) -> None:
    assert main(["train", str(corpus), "--model", "knn", "--out", str(tmp_path / "knn")]) == 0
    rows = compared(corpus, tmp_path / "out", "--models", f"knn,{tmp_path / 'knn'}")
    assert rows["knn"]["micro-F1"] == rows[str(tmp_path / "knn")]["micro-F1"]


def test_a_share_is_held_out_on_request(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = compared(corpus, tmp_path / "out", "--models", "prior", "--valid", "0.2")
    assert "240 documents to train on, 80 to test on, 60 to validate on" in capsys.readouterr().err
    assert "micro-F1" in rows["prior"]


def test_without_validation_documents_there_is_no_such_column(corpus: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    folders.write({part: read(corpus, part=part) for part in ("train", "test")}, plain)
    assert "micro-F1" not in compared(plain, tmp_path / "out", "--models", "prior")["prior"]


def test_a_recipe_may_have_the_rows_of_a_table(tmp_path: Path) -> None:
    table = tmp_path / "table.yaml"
    table.write_text(
        "rows:\n- model: prior\n- model: knn\n  set: {neighbours: 7}\n- recipe: knn/tibkat\n"
        "  set: {power: 3.0, tfidf: {min_chars: 5}}\n"
    )
    plans = planned("rocchio", [str(table)], ["knn.tfidf.min_df=2"])
    assert [plan.system for plan in plans] == ["rocchio", "prior", "knn", "knn (tibkat)"]
    assert plans[2].settings == {"neighbours": 7, "tfidf": {"min_df": 2}}
    own = read_recipe("knn/tibkat")[1]
    groups = {**own["tfidf"], "min_chars": 5, "min_df": 2}
    assert plans[3].settings == {**own, "power": 3.0, "tfidf": groups}, "what a row sets leaves the rest of its group"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("rows: []\n", "has `rows:`, a list, and nothing else"),
        ("rows: [{model: knn}]\nmodel: knn\n", "has `rows:`, a list, and nothing else"),
        ("rows: [knn]\n", "row 1 is no row"),
        ("rows: [{model: knn}, {model: knn, recipe: knn/tibkat}]\n", "row 2 is no row"),
        ("rows: [{model: knn, grid: {power: [1.0]}}]\n", "row 1 is no row"),
        ("rows: [{set: {power: 1.0}}]\n", "row 1 is no row"),
    ],
)
def test_a_table_that_is_none(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "table.yaml").write_text(content)
    with pytest.raises(BadInput, match=problem):
        read_table(str(tmp_path / "table.yaml"))


def test_a_table_is_no_recipe_for_training(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text("rows: [{model: knn}]\n")
    with pytest.raises(BadInput, match="xmtc compare takes it"):
        read_recipe(str(tmp_path / "table.yaml"))
