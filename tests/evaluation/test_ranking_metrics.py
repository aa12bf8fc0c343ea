"""The ranking metrics against loops that follow the formulas word for word, and their properties."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError
from xmtc.evaluation.ranking import RankingMetrics, align, parse_metric
from xmtc.labelspace.frequency_bands import Groups
from xmtc.predictions import Predictions

LABELS = 12
KS = (1, 2, 3, 5, 8)


@dataclass
class Case:
    truth: list[list[int]]
    lists: list[list[int]]
    weights: list[float]

    def ranking(self, *, normalise: bool = True) -> RankingMetrics:
        width = max(map(len, self.lists))
        ids = np.array([row + [-1] * (width - len(row)) for row in self.lists], np.int32).reshape(
            len(self.lists), width
        )
        labels = LabelSet.of(map(str, range(LABELS)))
        corpus = Corpus.of(["..."] * len(self.truth), [[str(at) for at in row] for row in self.truth], labels)
        scores = np.zeros(ids.shape, np.float32)
        return RankingMetrics.of(Predictions(ids, scores, labels), corpus, np.array(self.weights), normalise)


@st.composite
def cases(draw: st.DrawFn, min_truth: int = 0) -> Case:
    some = st.lists(st.integers(0, LABELS - 1), unique=True, max_size=7)
    truth = draw(st.lists(some.filter(lambda row: len(row) >= min_truth), min_size=1, max_size=6))
    lists = [draw(some) for _ in truth]
    return Case(truth, lists, draw(st.lists(st.floats(1, 20), min_size=LABELS, max_size=LABELS)))


def naive(case: Case, k: int, *, normalise: bool = True) -> dict[str, float]:
    documents = len(case.truth)
    sums = dict.fromkeys(("P", "R", "RP", "F1", "nDCG"), 0.0)
    psp = best_psp = psndcg = best_psndcg = 0.0
    for true, listed in zip(case.truth, case.lists, strict=True):
        if not true:
            continue
        hits = dcg = psdcg = 0.0
        for rank, label in enumerate(listed[:k], start=1):
            if label in true:
                hits += 1
                dcg += 1 / math.log2(rank + 1)
                psp += case.weights[label]
                psdcg += case.weights[label] / math.log2(rank + 1)
        ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(true)) + 1))
        best = sorted((case.weights[label] for label in true), reverse=True)[:k]
        precision, recall = hits / k, hits / len(true)
        sums["P"] += precision
        sums["R"] += recall
        sums["RP"] += hits / min(k, len(true))
        sums["F1"] += 2 * precision * recall / (precision + recall) if hits else 0
        sums["nDCG"] += dcg / ideal
        best_psp += sum(best)
        share = ideal if normalise else 1
        psndcg += psdcg / share
        best_psndcg += sum(weight / math.log2(rank + 1) for rank, weight in enumerate(best, start=1)) / share
    return {
        **{name: value / documents for name, value in sums.items()},
        "PSP": psp / best_psp,
        "PSnDCG": psndcg / best_psndcg,
    }


@given(cases(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_as_the_loop_says(case: Case, normalise: bool) -> None:
    if not any(case.truth):
        return
    metrics = case.ranking(normalise=normalise).metrics(KS)
    for k in KS:
        for name, value in naive(case, k, normalise=normalise).items():
            assert metrics[f"{name}@{k}"] == pytest.approx(value, abs=1e-12), (name, k)


@given(cases(min_truth=1))
@settings(max_examples=100, deadline=None)
def test_perfect_ranking_is_one(case: Case) -> None:
    case.lists = [sorted(row, key=lambda label: -case.weights[label]) for row in case.truth]
    metrics = case.ranking().metrics(KS)
    for k in KS:
        assert metrics[f"RP@{k}"] == pytest.approx(1)
        assert metrics[f"nDCG@{k}"] == pytest.approx(1)
        assert metrics[f"PSP@{k}"] == pytest.approx(1)
        assert metrics[f"PSnDCG@{k}"] == pytest.approx(1)
    assert metrics["R@8"] == pytest.approx(1)


@given(cases(min_truth=1), st.floats(0.01, 100))
@settings(max_examples=50, deadline=None)
def test_scaling_the_weights_changes_nothing(case: Case, factor: float) -> None:
    before = case.ranking().metrics(KS)
    case.weights = [factor * weight for weight in case.weights]
    assert case.ranking().metrics(KS) == pytest.approx(before)


@given(cases(min_truth=1), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_order_of_documents_does_not_matter(case: Case, seed: int) -> None:
    before = case.ranking().metrics(KS)
    order = np.random.default_rng(seed).permutation(len(case.truth)).tolist()
    shuffled = Case([case.truth[at] for at in order], [case.lists[at] for at in order], case.weights)
    assert shuffled.ranking().metrics(KS) == pytest.approx(before)


@given(cases(min_truth=1))
@settings(max_examples=100, deadline=None)
def test_bounds(case: Case) -> None:
    metrics = case.ranking().metrics(KS)
    assert all(0 <= value <= 1 + 1e-12 for value in metrics.values())
    sizes = np.array(list(map(len, case.truth)))
    for k in KS:
        # No more can be right than there are true labels.
        assert metrics[f"P@{k}"] <= np.minimum(sizes, k).mean() / k + 1e-12
        assert metrics[f"RP@{k}"] >= max(metrics[f"P@{k}"], metrics[f"R@{k}"]) - 1e-12
    assert metrics["nDCG@1"] == pytest.approx(metrics["P@1"])
    assert metrics["RP@1"] == pytest.approx(metrics["P@1"])
    assert [metrics[f"R@{k}"] for k in KS] == sorted(metrics[f"R@{k}"] for k in KS)


@given(cases(min_truth=1))
@settings(max_examples=50, deadline=None)
def test_groups_add_up_and_are_the_cut_truth(case: Case) -> None:
    of_label = np.array([label % 3 for label in range(LABELS)], np.int8)
    ranking = case.ranking()
    by_group = ranking.metrics_by_group(KS, Groups(("a", "b", "c"), of_label))
    for k in KS:
        assert sum(values[f"P@{k}"] for values in by_group.values()) == pytest.approx(ranking.metrics(KS)[f"P@{k}"])
    for group, values in enumerate(by_group.values()):
        rows = [row for row, true in enumerate(case.truth) if any(label % 3 == group for label in true)]
        if not rows:
            assert set(values) == {f"P@{k}" for k in KS}
            continue
        cut = Case(
            [[label for label in case.truth[row] if label % 3 == group] for row in rows],
            [case.lists[row] for row in rows],
            case.weights,
        )
        for k in KS:
            expected = naive(cut, k)
            for name in ("R", "RP", "nDCG", "PSP", "PSnDCG"):
                assert values[f"{name}@{k}"] == pytest.approx(expected[name]), name


@given(cases(min_truth=1))
@settings(max_examples=30, deadline=None)
def test_per_document_parts_make_the_whole(case: Case) -> None:
    ranking = case.ranking()
    for metric, value in ranking.metrics([3]).items():
        above, below = ranking.per_document(metric)
        assert above.sum() / below.sum() == pytest.approx(value)


def test_known_values() -> None:
    case = Case(truth=[[0, 1, 2], [3]], lists=[[0, 5, 1], [4, 3]], weights=[1.0, 2, 3, 4, *[1.0] * 8])
    metrics = case.ranking().metrics([1, 3])
    assert metrics["P@1"] == 0.5
    assert metrics["P@3"] == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert metrics["R@3"] == pytest.approx((2 / 3 + 1) / 2)
    assert metrics["RP@3"] == pytest.approx((2 / 3 + 1) / 2)
    assert case.ranking().metrics([2])["RP@2"] == pytest.approx((1 / 2 + 1) / 2)
    assert metrics["F1@3"] == pytest.approx((2 * 2 / 6 + 2 * 1 / 4) / 2)
    first = (1 + 1 / 2) / (1 + 1 / math.log2(3) + 1 / 2)
    assert metrics["nDCG@3"] == pytest.approx((first + 1 / math.log2(3)) / 2)
    assert metrics["PSP@1"] == pytest.approx(1 / (3 + 4))
    assert metrics["PSP@3"] == pytest.approx((1 + 2 + 4) / (1 + 2 + 3 + 4))


@pytest.mark.needs("sklearn")
def test_ndcg_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import ndcg_score

    # scikit-learn averages over tied scores and gives 0 to documents without labels; with distinct scores it agrees.
    rng = np.random.default_rng(0)
    truth: NDArray[np.bool_] = rng.random((40, LABELS)) < 0.3
    truth[7] = False
    scores = rng.permuted(np.tile(np.arange(LABELS), (40, 1)), axis=1)
    order = np.argsort(-scores, axis=1)
    case = Case([np.flatnonzero(row).tolist() for row in truth], order.tolist(), [1.0] * LABELS)
    for k in (1, 3, 5, LABELS):
        ours = case.ranking().metrics([k])[f"nDCG@{k}"]
        assert ours == pytest.approx(ndcg_score(truth.astype(int), scores, k=k))


def test_no_weights_no_propensity_scores() -> None:
    case = Case([[0]], [[0]], [1.0] * LABELS)
    ranking = case.ranking()
    bare = RankingMetrics(ranking.ids, ranking.hits, ranking.truth)
    assert not any(name.startswith("PS") for name in bare.metrics([1]))
    with pytest.raises(XmtcError, match="train_documents"):
        bare.per_document("PSP@1")


def test_labels_unknown_to_the_model_stay_in_the_truth() -> None:
    known = LabelSet.of(["a", "b"])
    top = Predictions(np.array([[0, 1]], np.int32), np.array([[2, 1]], np.float32), known)
    corpus = Corpus.of(["..."], [["new", "a"]])
    truth = align(top, corpus)
    metrics = RankingMetrics.of(top, truth, np.ones(3)).metrics([1, 2])
    assert metrics["P@1"] == 1
    assert metrics["R@2"] == 0.5
    assert metrics["PSP@2"] == 0.5


def test_what_cannot_be_aligned_is_refused() -> None:
    top = Predictions(np.array([[0]], np.int32), np.array([[1]], np.float32), LabelSet.of(["a"]))
    with pytest.raises(XmtcError, match="1 predictions for 2 documents"):
        align(top, Corpus.of(["x", "y"], [["a"], []]))
    with pytest.raises(XmtcError, match="no document has labels"):
        align(top, Corpus.of(["x"]))


@pytest.mark.parametrize("metric", ["P", "P@0", "Q@5", "P@-1", "P@5x"])
def test_unknown_metrics_are_named(metric: str) -> None:
    with pytest.raises(XmtcError, match="unknown metric"):
        parse_metric(metric)


def test_unsorted_truth_is_sorted() -> None:
    case = Case([[0, 3, 5]], [[3, 5]], [1.0] * LABELS)
    truth = case.ranking().truth.copy()
    truth.indices[:] = truth.indices[::-1].copy()
    truth.has_sorted_indices = False
    labels = LabelSet.of(map(str, range(LABELS)))
    top = Predictions(np.array([[3, 5]], np.int32), np.zeros((1, 2), np.float32), labels)
    assert RankingMetrics.of(top, Corpus(truth, labels)).hits.all()


def test_k_far_beyond_the_lists() -> None:
    """Neither time nor memory grows with k, only what it divides by."""
    truth = Corpus.of(["..."] * 50, [["a", "b"]] * 50)
    top = Predictions(np.zeros((50, 1), np.int32), np.ones((50, 1), np.float32), truth.labels)
    ranking = RankingMetrics.of(top, truth, np.ones(2))
    found = ranking.metrics([2, 2_000_000_000])
    assert found["P@2000000000"] == pytest.approx(0.5e-9)
    for name in ("R", "RP", "nDCG", "PSP", "PSnDCG"):
        assert found[f"{name}@2000000000"] == found[f"{name}@2"]
    assert ranking.per_document("R@2000000000")[0].tolist() == [0.5] * 50
