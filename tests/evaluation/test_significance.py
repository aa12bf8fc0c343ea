"""Intervals that cover, and p-values that are uniform when nothing is there."""

from __future__ import annotations

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError
from xmtc.evaluation import significance
from xmtc.evaluation.ranking import RankingMetrics
from xmtc.evaluation.significance import bootstrap_intervals, compare, holm
from xmtc.predictions import Predictions

LABELS = LabelSet.of(map(str, range(6))).with_counts(np.array([50, 20, 10, 5, 2, 0]))


def truth(documents: int, rng: np.random.Generator) -> Corpus:
    rows = [[str(at) for at in rng.choice(6, rng.integers(1, 4), replace=False)] for _ in range(documents)]
    return Corpus.of(["..."] * documents, rows, LABELS)


def guesses(corpus: Corpus, skill: float, rng: np.random.Generator) -> Predictions:
    scores = skill * corpus.targets.toarray() + rng.random((len(corpus), 6))
    ids = np.argsort(-scores, axis=1)[:, :3].astype(np.int32)
    return Predictions(ids, np.take_along_axis(scores, ids, 1).astype(np.float32), LABELS)


def test_p_values_are_uniform_when_the_models_are_equally_good() -> None:
    rng = np.random.default_rng(0)
    p_values = []
    for trial in range(300):
        corpus = truth(60, rng)
        a, b = guesses(corpus, 0.3, rng), guesses(corpus, 0.3, rng)
        p_values.append(compare(a, b, corpus, "nDCG@3", resamples=200, seed=trial).p_value)
    # 300 draws: the standard error of a share of 0.05 is 0.013, of 0.5 it is 0.029.
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.05, abs=0.04)
    assert np.mean(np.array(p_values) <= 0.5) == pytest.approx(0.5, abs=0.09)


@pytest.mark.parametrize("metric", ["P@1", "nDCG@3", "PSP@3", "PSnDCG@3"])
def test_a_true_difference_is_found(metric: str) -> None:
    rng = np.random.default_rng(1)
    corpus = truth(400, rng)
    better, worse = guesses(corpus, 0.8, rng), guesses(corpus, 0.2, rng)
    found = compare(better, worse, corpus, metric, train_documents=60, resamples=500)
    assert found.p_value < 0.01
    assert 0 < found.interval.low < found.difference < found.interval.high
    other_way = compare(worse, better, corpus, metric, train_documents=60, resamples=500)
    assert other_way.difference == pytest.approx(-found.difference)
    assert other_way.p_value == found.p_value


def test_a_model_does_not_differ_from_itself() -> None:
    rng = np.random.default_rng(2)
    corpus = truth(30, rng)
    top = guesses(corpus, 0.5, rng)
    same = compare(top, top, corpus, "P@3")
    assert (same.difference, same.interval.low, same.interval.high, same.p_value) == (0, 0, 0, 1)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    whole = truth(20_000, rng)
    top = guesses(whole, 0.4, rng)
    assert LABELS.counts is not None
    weights = 1 + 10 / (LABELS.counts + 1)
    values = RankingMetrics.of(top, whole, weights).metrics([3])
    inside = {"P@3": 0, "PSP@3": 0}
    for trial in range(150):
        rows = rng.choice(len(whole), 100, replace=False)
        ranking = RankingMetrics.of(top[rows], whole[rows], weights)
        for metric, interval in bootstrap_intervals(ranking, list(inside), resamples=300, seed=trial).items():
            inside[metric] += interval.low <= 100 * values[metric] <= interval.high
    for covered in inside.values():
        assert covered / 150 == pytest.approx(0.95, abs=0.06)


def test_same_seed_same_interval() -> None:
    rng = np.random.default_rng(4)
    corpus = truth(50, rng)
    ranking = RankingMetrics.of(guesses(corpus, 0.5, rng), corpus)
    one = bootstrap_intervals(ranking, ["P@1", "R@3"], seed=7)
    assert one == bootstrap_intervals(ranking, ["P@1", "R@3"], seed=7)
    assert one != bootstrap_intervals(ranking, ["P@1", "R@3"], seed=8)
    wide = bootstrap_intervals(ranking, ["P@1"], seed=7, level=0.99)["P@1"]
    assert wide.low <= one["P@1"].low < one["P@1"].high <= wide.high


def test_blocks_do_not_change_the_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    corpus = truth(40, rng)
    ranking = RankingMetrics.of(guesses(corpus, 0.5, rng), corpus)
    parts = [ranking.per_document("R@3")]
    whole = significance._resample(parts, resamples=50, seed=0)
    monkeypatch.setattr("xmtc.evaluation.significance.BLOCK", 100)
    # Sums over other blocks are rounded in another way, on some processors.
    np.testing.assert_allclose(significance._resample(parts, resamples=50, seed=0), whole, rtol=1e-9)


def test_only_like_is_compared() -> None:
    rng = np.random.default_rng(6)
    corpus = truth(10, rng)
    top = guesses(corpus, 0.5, rng)
    with pytest.raises(XmtcError, match="same documents"):
        compare(top, top[:5], corpus)
    with pytest.raises(XmtcError, match="different label sets"):
        compare(top, Predictions(top.ids, top.scores, LabelSet.of(list("uvwxyz"))), corpus)


def test_holm_by_hand() -> None:
    """m = 4: 0.005 x 4, 0.01 x 3, then 0.03 x 2, and 0.04 x 1 must not fall below it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


def test_holm_keeps_the_rate_of_false_stars() -> None:
    """Of twenty differences that are none, some is below 0.05 in most experiments; after the correction in few."""
    p = np.random.default_rng(0).uniform(size=(2000, 20))
    assert np.mean(p.min(axis=1) < 0.05) > 0.6
    assert np.mean([min(holm(row)) < 0.05 for row in p.tolist()]) < 0.07
