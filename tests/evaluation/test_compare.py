"""`xmtc.compare`: methods, settings and models side by side, in one process."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.errors import XmtcError
from xmtc.evaluation.leaderboard import Leaderboard
from xmtc.models.base import Model
from xmtc.models.prior import Prior

WORDS = ["apple", "boat", "cloud", "drum", "eagle"]


def documents(start: int, stop: int) -> Corpus:
    rng = np.random.default_rng(start)
    chosen = [rng.permutation(5)[:2].tolist() for _ in range(start, stop)]
    texts = [f"{WORDS[a]} and {WORDS[b]}, number{at}" for at, (a, b) in enumerate(chosen, start)]
    return Corpus.of(texts, [[WORDS[a], WORDS[b]] for a, b in chosen], name="words")


TRAIN, TEST = documents(0, 60), documents(100, 140)


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    fitted = xmtc.make("prior").fit(documents(200, 230))
    entries: list[Any] = [
        "prior",
        ("knn", {"neighbours": 3, "tfidf": {"min_chars": 1}}),
        xmtc.make("rocchio", seed=5),
        fitted,
    ]
    return xmtc.compare(TRAIN, TEST, entries, seeds=2)


def test_rows_are_called_for_what_they_are(board: Leaderboard) -> None:
    runs = {row.system: [run.seed for run in row.runs] for row in board.rows}
    assert runs == {
        "knn neighbours=3, tfidf.min_chars=1": [0, 1],
        "rocchio": [0],
        "prior": [0, 1],
        "prior (fitted)": [0],
    }
    assert [row.runs[0].settings["seed"] for row in board.rows if row.system == "rocchio"] == [5], "a seed set stays"
    assert {row.system: row.runs[0].origin for row in board.rows}["prior (fitted)"] == "folder"


def test_values_are_those_of_evaluate(board: Leaderboard) -> None:
    model = xmtc.make("knn", neighbours=3, tfidf={"min_chars": 1}).fit(TRAIN)
    alone = xmtc.evaluate(model, TEST).values
    row = next(row for row in board.rows if row.system.startswith("knn"))
    assert {name: alone[name] for name in ("P@1", "nDCG@5", "PSP@5")} == pytest.approx(
        {name: row.values[name] for name in ("P@1", "nDCG@5", "PSP@5")}
    )
    assert set(row.costs) == {"training", "documents/s"}, "memory and size are measured by processes and folders"


def test_it_says_which_constants_psp_has() -> None:
    board = xmtc.compare(TRAIN, TEST, ["prior"], propensity="amazon")
    assert board.to_json()["propensity"] == {"A": 0.6, "B": 2.6}
    assert "PSP with A = 0.6 and B = 2.6" in str(board)


def test_it_prints_as_a_table(board: Leaderboard) -> None:
    text = str(board)
    head = text.splitlines()[0].split()
    assert head == ["model", "P@1", "P@3", "P@5", "nDCG@5", "RP@5", "PSP@5", "tail", "P@5", "training", "documents/s"]
    assert "\x1b" not in text
    assert "knn neighbours=3, tfidf.min_chars=1" in text
    assert "Holm's correction for 3 rows" in " ".join(text.split())
    assert "pairs documents" in text


def test_it_shows_in_a_notebook(board: Leaderboard) -> None:
    html = board._repr_html_()
    assert html.count("<tr>") == 5
    assert "<strong>" in html
    assert "<button" not in html, "nothing there would sort it"


@pytest.mark.needs("pandas")
def test_it_becomes_a_frame(board: Leaderboard) -> None:
    frame = board.to_frame()
    assert list(frame.index) == [row.system for row in board.rows]
    assert frame.index.name == "model"
    assert frame.loc["prior", "P@1"] == pytest.approx({row.system: row.values["P@1"] for row in board.rows}["prior"])
    assert frame.loc["prior", "P@1 ±"] == 0
    assert list(frame.columns[-4:]) == ["training", "documents/s", "runs", "note"]


def test_it_becomes_json(board: Leaderboard) -> None:
    found = json.loads(json.dumps(board.to_json()))
    assert [row["system"] for row in found["rows"]] == [row.system for row in board.rows]
    assert len(found["runs"]) == 6


def test_a_dictionary_names_the_rows() -> None:
    board = xmtc.compare(TRAIN, TEST, {"a": "prior", "b": xmtc.make("prior")})
    assert {row.system for row in board.rows} == {"a", "b"}
    assert board.rows[0].values == board.rows[1].values


def test_an_unfitted_model_stays_as_it_is() -> None:
    model = xmtc.make("prior")
    xmtc.compare(TRAIN, TEST, [model])
    assert model.labels_ is None


def test_one_that_fails_says_why_and_the_rest_goes_on() -> None:
    board = xmtc.compare(TRAIN, TEST, [("parabel", {"tree": "given"}), "prior"])
    prior, parabel = board.rows
    assert prior.values
    assert (parabel.values, parabel.note[:7]) == ({}, "failed:")


def test_a_mistake_of_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Prior, "_fit", broken)
    with pytest.raises(ZeroDivisionError):
        xmtc.compare(TRAIN, TEST, ["prior"])


def test_a_model_that_knows_the_test_documents_is_marked() -> None:
    fitted = xmtc.make("prior").fit(TEST)
    with pytest.warns(UserWarning, match=r"prior \(fitted\): 100 % of the test documents were in its training"):
        (row,) = xmtc.compare(TRAIN, TEST, [fitted]).rows
    assert "too good" in row.remark
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not xmtc.compare(TRAIN, TEST, ["prior"]).rows[0].remark


def test_counts_are_of_the_training_documents_whatever_a_model_knows() -> None:
    """A fitted model with other labels, in another order: PSP is by the same propensities, unknown labels are wrong."""
    texts = ["apple", "boat", "zebra"] * 4
    other = xmtc.make("knn").fit(Corpus.of(texts, [[text] for text in texts][::-1]))
    board = xmtc.compare(TRAIN, TEST, [other, "prior"])
    fitted = next(row for row in board.rows if row.system == "knn (fitted)")
    assert fitted.evaluation is not None
    labels = board.truth.labels
    assert list(labels.keys) == [*TRAIN.labels.keys, "zebra"]
    assert labels.counts is not None
    assert labels.counts.tolist() == [*TRAIN.label_counts.tolist(), 0]
    top, mine = other.predict(TEST, k=3).names(), fitted.evaluation.predictions.names()
    assert [[name for name, _ in row] for row in mine] == [[name for name, _ in row] for row in top]
    hits = np.mean([bool(row) and row[0][0] in map(labels.key, board.truth.labels_of(n)) for n, row in enumerate(top)])
    assert fitted.values["P@1"] == pytest.approx(100 * hits)


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ([], "nothing to compare"),
        ("knn", "takes a list"),
        (["knm"], "did you mean 'knn'"),
        ([("knn", {"neighbors": 3})], "did you mean 'neighbours'"),
        (["prior", "prior"], "prior would be in the table twice; name the rows"),
        ([3], "give a name, a pair"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(
    models: Any, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Model, "fit", lambda *_: pytest.fail("trained"))
    with pytest.raises(XmtcError, match=expected):
        xmtc.compare(TRAIN, TEST, models)
    with pytest.raises(XmtcError, match="compare takes a corpus, not a string"):
        xmtc.compare("corpus", TEST, ["prior"])


def test_tables_are_taken_too() -> None:
    rows = [{"text": "red apple", "labels": ["red"]}, {"text": "blue sky", "labels": ["blue"]}]
    assert xmtc.compare(rows * 3, rows, ["prior"]).rows[0].values["P@1"] == 50


def test_the_name_is_the_function_whatever_was_imported_before() -> None:
    code = (
        "import xmtc, xmtc.evaluation.compare, xmtc.cli.compare; assert callable(xmtc.compare); xmtc.compare.__name__"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert "compare" in dir(xmtc)
