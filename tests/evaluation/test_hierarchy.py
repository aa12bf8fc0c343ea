"""Hierarchical scores against sets."""

from __future__ import annotations

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.evaluation.hierarchy import ancestor_closure, hierarchical_metrics
from xmtc.evaluation.ranking import RankingMetrics
from xmtc.predictions import Predictions

# a > b > d, a > c > d (two parents), e on its own
LABELS = LabelSet.of(["a", "b", "c", "d", "e"], parents=[[], ["a"], ["a"], ["b", "c"], []])
ANCESTORS: list[set[int]] = [set(), {0}, {0}, {0, 1, 2}, set()]


def test_closure_holds_each_label_and_all_above() -> None:
    assert LABELS.parents is not None
    closure = ancestor_closure(LABELS.parents).toarray()
    for label in range(5):
        assert set(np.flatnonzero(closure[label])) == {label, *ANCESTORS[label]}
    assert set(np.unique(closure)) == {0, 1}


def test_near_miss_costs_less_than_a_far_one() -> None:
    assert LABELS.parents is not None
    closure = ancestor_closure(LABELS.parents)
    corpus = Corpus.of(["..."], [["d"]], LABELS)

    def scores(label: int) -> dict[str, float]:
        top = Predictions(np.array([[label]], np.int32), np.ones((1, 1), np.float32), LABELS)
        return hierarchical_metrics(RankingMetrics.of(top, corpus), closure, 1)

    assert scores(3) == {"hP": 1.0, "hR": 1.0, "hF1": 1.0}
    assert scores(1) == pytest.approx({"hP": 1.0, "hR": 0.5, "hF1": 2 / 3})  # {b, a} of {d, b, c, a}
    assert scores(4) == {"hP": 0.0, "hR": 0.0, "hF1": 0.0}


def test_against_sets() -> None:
    assert LABELS.parents is not None
    rng = np.random.default_rng(0)
    truth = [sorted(rng.choice(5, size, replace=False).tolist()) for size in rng.integers(0, 4, 30)]
    ids = np.argsort(rng.random((30, 5)), axis=1)[:, :3].astype(np.int32)
    ids[4, 1:] = -1
    corpus = Corpus.of(["..."] * 30, [[LABELS.key(at) for at in row] for row in truth], LABELS)
    ranking = RankingMetrics.of(Predictions(ids, np.zeros(ids.shape, np.float32), LABELS), corpus)
    ours = hierarchical_metrics(ranking, ancestor_closure(LABELS.parents), 2)

    def up(row: list[int]) -> set[int]:
        return {above for label in row if label >= 0 for above in (label, *ANCESTORS[label])}

    shared = given = true = 0
    for row, listed in zip(truth, ids[:, :2].tolist(), strict=True):
        shared += len(up(row) & up(listed))
        given += len(up(listed))
        true += len(up(row))
    assert ours["hP"] == pytest.approx(shared / given)
    assert ours["hR"] == pytest.approx(shared / true)
    assert ours["hF1"] == pytest.approx(2 * ours["hP"] * ours["hR"] / (ours["hP"] + ours["hR"]))
