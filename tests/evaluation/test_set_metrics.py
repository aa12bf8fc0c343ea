"""Micro, macro and example-based scores and coverage against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.evaluation.ranking import RankingMetrics
from xmtc.evaluation.set_metrics import (
    ThresholdPoints,
    coverage_error,
    example_averages,
    label_averages,
    label_coverage,
)
from xmtc.predictions import Predictions


def made_up(seed: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64], RankingMetrics, Predictions, Corpus]:
    rng = np.random.default_rng(seed)
    truth = (rng.random((60, 15)) < rng.random(15) * 0.5).astype(np.int64)
    truth[3] = 0
    truth[:, 4] = 0
    scores = rng.random((60, 15))
    labels = LabelSet.of(map(str, range(15)))
    corpus = Corpus(csr_array(truth.astype(np.float32)), labels)
    ids = np.argsort(-scores, axis=1)
    top = Predictions.sorted(ids, np.take_along_axis(scores, ids, 1), labels, k=k)
    return truth, scores, RankingMetrics.of(top, corpus), top, corpus


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.needs("sklearn")
def test_first_k_as_in_scikit_learn(seed: int) -> None:
    from sklearn.metrics import precision_recall_fscore_support

    truth, _, ranking, top, _ = made_up(seed, k=4)
    given = np.zeros_like(truth)
    np.put_along_axis(given, top.ids.astype(np.int64), 1, axis=1)
    ours = label_averages(*ranking.label_counts(4)) | example_averages(ranking)
    occurring = np.flatnonzero(truth.sum(axis=0))
    for prefix, average, labels in (
        ("micro", "micro", None),
        ("macro", "macro", occurring),
        ("example", "samples", None),
    ):
        expected = precision_recall_fscore_support(truth, given, average=average, labels=labels, zero_division=0)
        for part, value in zip(("P", "R", "F1"), expected[:3], strict=True):
            assert ours[f"{prefix}-{part}"] == pytest.approx(value), (prefix, part)


@pytest.mark.needs("sklearn")
def test_threshold_as_in_scikit_learn() -> None:
    from sklearn.metrics import precision_recall_fscore_support

    truth, scores, _, top, corpus = made_up(0, k=15)
    given = (scores.astype(np.float32) >= np.float32(0.8)).astype(int)
    ranking = RankingMetrics.of(top.threshold(0.8), corpus)
    ours = label_averages(*ranking.label_counts(15)) | example_averages(ranking)
    for prefix, average in (("micro", "micro"), ("example", "samples")):
        expected = precision_recall_fscore_support(truth, given, average=average, zero_division=0)
        for part, value in zip(("P", "R", "F1"), expected[:3], strict=True):
            assert ours[f"{prefix}-{part}"] == pytest.approx(value), (prefix, part)


@pytest.mark.needs("sklearn")
def test_coverage_error_of_full_lists_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import coverage_error as sklearn_coverage_error

    truth, scores, ranking, _, _ = made_up(1, k=15)
    ours = coverage_error(ranking)
    assert ours.exact
    assert ours.at_least == pytest.approx(sklearn_coverage_error(truth, scores))


@pytest.mark.needs("sklearn")
def test_coverage_error_of_short_lists_is_a_lower_bound() -> None:
    from sklearn.metrics import coverage_error as sklearn_coverage_error

    truth, scores, ranking, _, _ = made_up(1, k=3)
    ours = coverage_error(ranking)
    assert not ours.exact
    assert 3 < ours.at_least <= sklearn_coverage_error(truth, scores)


def test_label_coverage_counts_labels_once() -> None:
    truth, _, ranking, top, _ = made_up(2, k=2)
    true, _, hits = ranking.label_counts(2)
    found = {int(label) for row, ids in enumerate(top.ids) for label in ids if truth[row, label]}
    assert label_coverage(true, hits) == pytest.approx(len(found) / np.count_nonzero(truth.sum(axis=0)))


def test_nothing_true_nothing_said() -> None:
    nothing = np.zeros(3, np.int64)
    assert label_averages(nothing, nothing + 1, nothing) == {}


@pytest.mark.parametrize("k", [3, 15])
def test_points_of_the_curve_are_the_figures_at_these_thresholds(k: int) -> None:
    _, _, ranking, top, corpus = made_up(1, k)
    points = ThresholdPoints.of(top, ranking, points=25)
    for threshold, precision, recall, f1 in zip(*points, strict=True):
        # Compared as they are, not rounded to 32 bits: the first and the last threshold are scores.
        assigned = RankingMetrics.of(top.keep(top.scores.astype(np.float64) >= threshold), corpus)
        found = label_averages(*assigned.label_counts())
        assert (precision, recall, f1) == pytest.approx([found[f"micro-{part}"] for part in ("P", "R", "F1")])
    assert points.threshold[[0, -1]].tolist() == [top.scores.min(), top.scores.max()]
    assert np.all(np.diff(points.recall) <= 0)
