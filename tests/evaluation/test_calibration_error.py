"""ECE@k: what it is for scores that are right, too sure and too modest, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.calibration_error import Reliability
from xmtc.evaluation.evaluate import evaluate
from xmtc.predictions import Predictions, ScoreKind


def test_scores_that_are_right_have_next_to_no_error_and_others_have() -> None:
    rng = np.random.default_rng(0)
    probability = rng.random(100_000) ** 3
    right = rng.random(len(probability)) < probability
    assert Reliability.of(probability, right).error < 0.005
    assert Reliability.of(probability / 2, right).error == pytest.approx(probability.mean() / 2, abs=0.005)


def test_groups_are_of_equal_size() -> None:
    scores = np.random.default_rng(0).permutation(103) / 103
    sizes = Reliability.of(scores, np.ones(103, bool)).size.tolist()
    assert sizes == [10, 10, 10, 11, 10, 10, 11, 10, 10, 11]


@given(st.lists(st.tuples(st.integers(0, 8).map(lambda eighths: eighths / 8), st.booleans()), max_size=60))
def test_groups_are_a_partition_by_score(pairs: list[tuple[float, bool]]) -> None:
    scores, right = np.array([s for s, _ in pairs], np.float32), np.array([r for _, r in pairs], bool)
    found = Reliability.of(scores, right)
    assert found.size.sum() == len(pairs)
    assert len(found.size) <= 10
    assert (np.diff(found.stated) > 0).all()
    assert found.stated @ found.size == pytest.approx(scores.sum())
    assert found.observed @ found.size == pytest.approx(right.sum())
    # Grouping can hide errors, never make them: it is at most the error score by score, at least the total one.
    each = [(right[scores == s].sum(), (scores == s).sum(), s) for s in set(scores.tolist())]
    assert found.error * len(pairs) <= sum(abs(hits - n * s) for hits, n, s in each) + 1e-6
    assert found.error * len(pairs) >= abs(scores.sum() - right.sum()) - 1e-6


def test_evaluate_gives_it_for_the_first_k_of_scores_that_are_chances() -> None:
    corpus = Corpus.of(["1", "2"], [["a"], ["b"]])
    ids, scores = np.array([[0, 1], [0, -1]], np.int32), np.array([[0.9, 0.4], [0.9, 0]], np.float32)
    top = Predictions(ids, scores, corpus.labels, ScoreKind.CALIBRATED)
    values = evaluate(top, corpus, [1, 2]).values
    assert values["ECE@1"] == pytest.approx(40)
    assert values["ECE@2"] == pytest.approx(100 * (2 * 0.4 + 0.4) / 3)
    assert "ECE@1" not in evaluate(Predictions(ids, scores, corpus.labels), corpus, [1]).values
