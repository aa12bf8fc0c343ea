"""`evaluate` and what it returns."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError
from xmtc.evaluation.evaluate import evaluate
from xmtc.labelspace.propensity import Propensity
from xmtc.predictions import Predictions

LABELS = LabelSet.of(["a", "b", "c"], names=["Apple", "Berry", "Cherry"]).with_counts(np.array([60, 30, 10]))
TEST = Corpus.of(["1", "2", "3", "4"], [["a", "b"], ["c"], [], ["new", "a"]], name="test")
TOP = Predictions(
    np.array([[0, 1], [0, 2], [0, 1], [1, -1]], np.int32),
    np.array([[0.9, 0.8], [0.7, 0.6], [0.5, 0.4], [0.3, 0]], np.float32),
    LABELS,
)


class Echo:
    """A model that knows its answers."""

    train_documents_ = 80

    def predict(self, documents: Corpus, k: int) -> Predictions:
        assert len(documents) == len(TOP)
        return TOP.top(k)


def test_values() -> None:
    evaluation = evaluate(TOP, TEST, [2, 1, 2], train_documents=80)
    assert evaluation.k == (1, 2)
    assert evaluation.values["P@1"] == 25
    assert evaluation.values["P@2"] == pytest.approx(100 * 3 / 8)
    assert evaluation.values["R@2"] == 50
    assert (evaluation.documents, evaluation.documents_without_labels) == (4, 1)
    assert (evaluation.labels_in_test, evaluation.labels_unseen) == (4, 1)
    assert evaluation.values["coverage@2"] == 75


def test_a_model_is_asked_for_the_largest_k_and_knows_its_training_size() -> None:
    by_model = evaluate(Echo(), TEST, [1, 2])
    assert by_model.values == evaluate(TOP, TEST, [1, 2], train_documents=80).values
    assert "PSP@2" in by_model.values


def test_bands_and_deciles() -> None:
    evaluation = evaluate(TOP, TEST, [1, 2], train_documents=80)
    assert [values["labels"] for values in evaluation.bands.values()] == [1, 1, 2]
    for k in (1, 2):
        parts = sum(values[f"P@{k}"] for values in evaluation.bands.values())
        assert parts == pytest.approx(evaluation.values[f"P@{k}"])
    assert evaluation.bands["head"]["R@2"] == 50  # "a": found in one of the two documents that have it
    assert evaluation.bands["tail"]["assignments"] == 2  # "c" and "new"
    assert list(evaluation.deciles) == ["1", "4", "7", "unseen"]
    assert evaluation.deciles["unseen"]["micro-R@2"] == 0
    everything_is_head = evaluate(TOP, TEST, [1], train_documents=80, cuts=(1.0, 1.0))
    assert everything_is_head.bands["head"]["labels"] == 3


def test_threshold() -> None:
    values = evaluate(TOP, TEST, [1], threshold=0.6).values
    assert values["micro-P"] == 75
    assert values["micro-R"] == 60
    assert values["example-P"] == pytest.approx(100 * (1 + 0.5) / 4)
    head = evaluate(TOP, TEST, [1], threshold=0.6).bands["head"]
    assert (head["micro-P"], head["micro-R"]) == (50, 50)
    each = evaluate(TOP, TEST, [1], threshold=np.array([0.95, 0.0, 0.0])).values
    assert each["micro-P"] == 50  # b, c right; b, b wrong


def test_a_threshold_is_printed_with_what_it_gives() -> None:
    result = evaluate(TOP, TEST, [1], threshold=0.65)
    header, micro, macro, example = str(result).splitlines()[-5:-1]
    assert header.split("  ")[0] == "labels that reach the threshold 0.65"
    assert header.split()[-3:] == ["precision", "recall", "F1"]
    for line, name in ((micro, "micro"), (macro, "macro"), (example, "example")):
        assert line.split()[-3:] == [f"{result.values[f'{name}-{part}']:.2f}" for part in ("P", "R", "F1")]
    assert result.to_json()["threshold"] == 0.65
    each = evaluate(TOP, TEST, [1], threshold=np.array([0.95, 0.0, 0.0]))
    assert "labels that reach their own thresholds" in str(each)
    assert each.to_json()["threshold"] == "by label"
    plain = evaluate(TOP, TEST, [1])
    assert "threshold" not in str(plain)
    assert "threshold" not in plain.to_json()


def test_lists_that_end_before_the_threshold_are_reported() -> None:
    assert "1 lists of 2 labels end above the threshold" in str(evaluate(TOP, TEST, [1], threshold=0.65))
    assert "end above" not in str(evaluate(TOP, TEST, [1], threshold=0.85))


@pytest.mark.parametrize("given", ["wikipedia", "Wikipedia", "0.5,0.4", " 0.5 , 0.4", (0.5, 0.4), Propensity(0.5, 0.4)])
def test_propensity_by_name_or_constants(given: Any) -> None:
    result = evaluate(TOP, TEST, [1], train_documents=80, propensity=given)
    weights = Propensity(0.5, 0.4).inverse(np.array([60, 30, 10, 0]), 80)
    # true: a b | c | | new a; the first labels: a | a | a | b
    assert result.values["PSP@1"] == pytest.approx(100 * weights[0] / (weights[1] + weights[2] + weights[3]))
    assert "PSP with A = 0.5 and B = 0.4" in str(result)
    assert result.to_json()["propensity"] == {"A": 0.5, "B": 0.4}


def test_the_usual_propensity_is_not_mentioned() -> None:
    result = evaluate(TOP, TEST, [1], train_documents=80)
    assert "PSP with" not in str(result)
    assert result.to_json()["propensity"] == {"A": 0.55, "B": 1.5}
    assert "propensity" not in evaluate(TOP, TEST, [1]).to_json()


@pytest.mark.parametrize("given", ["amazonia", "0.5", "0.5,0.4,1", "a,b", "", (1,), None, 5])
def test_other_propensities_are_refused(given: Any) -> None:
    with pytest.raises(XmtcError, match="give default, amazon, wikipedia, or A and B such as"):
        evaluate(TOP, TEST, [1], propensity=given)


@pytest.mark.parametrize("given", ["0.5,0", "-1,1", "nan,1", "1,inf"])
def test_impossible_constants_are_refused(given: str) -> None:
    with pytest.raises(XmtcError, match="A must be 0 or more and B above 0"):
        evaluate(TOP, TEST, [1], propensity=given)


def test_what_cannot_be_known_is_left_out() -> None:
    no_size = evaluate(TOP, TEST, [1])
    assert "PSP@1" not in no_size.values
    assert no_size.bands
    assert "train_documents" in str(no_size)
    bare = Predictions(TOP.ids, TOP.scores, LabelSet.of(["a", "b", "c"]))
    no_counts = evaluate(bare, TEST, [1], train_documents=80)
    assert not no_counts.bands
    assert no_counts.labels_unseen == 1
    assert "no training counts" in str(no_counts)
    json.dumps(no_counts.to_json(), allow_nan=False)


def test_hierarchy_where_there_is_one() -> None:
    parents = LabelSet.of(["a", "b", "c"], parents=[[], ["a"], ["a"]])
    values = evaluate(Predictions(TOP.ids, TOP.scores, parents), TEST, [1]).values
    # given: {a}, {a}, {a}, {b, a}; true: {a, b}, {c, a}, {}, {new, a}
    assert values["hP@1"] == pytest.approx(100 * 3 / 5)
    assert values["hR@1"] == pytest.approx(100 * 3 / 6)


def test_prints_as_a_table() -> None:
    lines = str(evaluate(TOP, TEST, [1, 3], train_documents=80)).splitlines()
    assert lines[0].split() == ["labels", "count", "P@1", "P@3", "nDCG@3", "RP@3", "PSP@1", "PSP@3"]
    assert [line.split()[0] for line in lines[2:6]] == ["all", "head", "middle", "tail"]
    assert len({len(line) for line in lines[:6]}) == 1
    notes = "\n".join(lines[6:])
    assert "1 documents have no true labels" in notes
    assert "1 of the labels were not seen in training" in notes
    assert "lists are 2 labels long" in notes


def test_rich_table_has_the_same_cells() -> None:
    from rich.console import Console

    evaluation = evaluate(TOP, TEST, train_documents=80)
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(evaluation.rich_table())
    text = console.export_text()
    for cell in str(evaluation).splitlines()[2].split():
        assert cell in text


def test_json_has_flat_percentages() -> None:
    evaluation = evaluate(TOP, TEST, train_documents=80)
    data = json.loads(json.dumps(evaluation.to_json(), allow_nan=False))
    for key in ("P@1", "P@3", "P@5", "R@5", "F1@5", "nDCG@5", "PSP@5", "PSnDCG@5"):
        assert data[key] == pytest.approx(evaluation.values[key], abs=1e-4)
    assert set(data["bands"]) == {"head", "middle", "tail"}
    assert data["documents"] == 4
    assert data["coverage_error"] == {"at_least": (2 + 2 + 0 + 3) / 4, "exact": False}
    assert data["documents_without_labels"] == 1


def test_per_label_rows_and_csv(tmp_path: Path) -> None:
    evaluation = evaluate(TOP, TEST, [2], train_documents=80)
    rows = {row.key: row for row in evaluation.per_label()}
    assert (rows["a"].name, rows["a"].train, rows["a"].test, rows["a"].predicted, rows["a"].hits) == (
        "Apple",
        60,
        2,
        3,
        1,
    )
    assert rows["a"].precision == pytest.approx(33.33)
    assert rows["a"].recall == 50
    assert rows["a"].f1 == 40
    assert (rows["new"].train, rows["new"].test, rows["new"].precision) == (0, 1, 0)
    evaluation.write_per_label_csv(tmp_path / "labels.csv")
    with open(tmp_path / "labels.csv", encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["key"] for row in written] == ["a", "b", "c", "new"]
    assert written[0]["f1"] == "40.0"


@pytest.mark.parametrize("k", [[], [0], [-1, 3]])
def test_impossible_k(k: list[int]) -> None:
    with pytest.raises(XmtcError, match="k ="):
        evaluate(TOP, TEST, k)


def test_both_psndcg_conventions() -> None:
    ours = evaluate(TOP, TEST, [2], train_documents=80).values
    theirs = evaluate(TOP, TEST, [2], train_documents=80, normalise_psndcg=False).values
    assert ours["PSnDCG@2"] != pytest.approx(theirs["PSnDCG@2"])
    assert {**ours, "PSnDCG@2": 0} == {**theirs, "PSnDCG@2": 0}


def test_importing_does_not_load_the_heavy_libraries() -> None:
    code = (
        "import sys, xmtc.evaluation.evaluate, xmtc.evaluation.reports.report, xmtc.evaluation.significance;"
        "print([name for name in ('numba', 'matplotlib', 'jinja2', 'rich', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
