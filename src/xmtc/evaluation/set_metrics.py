"""Precision, recall and F1 of label *sets*: micro, macro and example-based, at a threshold or for the first k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.evaluation.ranking import RankingMetrics
from xmtc.predictions import Predictions

Counts = NDArray[np.integer[Any]]


def label_averages(true: Counts, predicted: Counts, hits: Counts) -> dict[str, float]:
    """Micro and macro precision, recall and F1 from the counts of each label, in 0..1.

    Micro: P = sum hits / sum predicted, R = sum hits / sum true, F1 their harmonic mean. Macro: the mean over labels
    of P_l = hits_l / predicted_l, R_l = hits_l / true_l and F1_l = 2 hits_l / (predicted_l + true_l), 0 where there is
    nothing to divide by, over the labels that occur in the truth (what scikit-learn does when it is given those
    labels). Macro F1 is the mean of the F1_l, not the harmonic mean of the other two. Without such labels: {}.

    >>> found = label_averages(np.array([2, 1, 0]), np.array([2, 0, 2]), np.array([2, 0, 0]))
    >>> {name: round(value, 3) for name, value in found.items()}
    {'micro-P': 0.5, 'micro-R': 0.667, 'micro-F1': 0.571, 'macro-P': 0.5, 'macro-R': 0.5, 'macro-F1': 0.5}
    """
    occurs = true > 0
    if not occurs.any():
        return {}
    totals = (hits.sum(), predicted.sum(), true.sum())
    t, p, h = true[occurs], predicted[occurs], hits[occurs]
    return {
        "micro-P": float(_ratio(totals[0], totals[1])),
        "micro-R": float(_ratio(totals[0], totals[2])),
        "micro-F1": float(_ratio(2 * totals[0], totals[1] + totals[2])),
        "macro-P": float(_ratio(h, p).mean()),
        "macro-R": float(_ratio(h, t).mean()),
        "macro-F1": float(_ratio(2 * h, p + t).mean()),
    }


def example_averages(ranking: RankingMetrics) -> dict[str, float]:
    """Precision, recall and F1 of each document's whole list, averaged over documents, in 0..1.

    P_i = hits_i / listed_i, R_i = hits_i / |y_i|, F1_i = 2 hits_i / (listed_i + |y_i|); 0 where there is nothing to
    divide by. This is scikit-learn's average="samples".
    """
    hits, listed = ranking.hits.sum(axis=1), (ranking.ids >= 0).sum(axis=1)
    true = np.diff(ranking.truth.indptr)
    return {
        "example-P": float(_ratio(hits, listed).mean()),
        "example-R": float(_ratio(hits, true).mean()),
        "example-F1": float(_ratio(2 * hits, listed + true).mean()),
    }


class ThresholdPoints(NamedTuple):
    """Micro-averaged precision, recall and F1 at rising thresholds, in 0..1."""

    threshold: NDArray[np.float64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]

    @classmethod
    def of(cls, predictions: Predictions, ranking: RankingMetrics, points: int = 200) -> ThresholdPoints:
        """At thresholds from the lowest to the highest score of a listed label, in equal steps; none without labels.

        >>> from xmtc.corpus.corpus import Corpus
        >>> truth = Corpus.of(["...", "..."], [["a", "b"], ["a"]])
        >>> scores = np.array([[4, 3], [2, 0]], np.float32)
        >>> top = Predictions(np.array([[0, 1], [1, 0]], np.int32), scores, truth.labels)
        >>> found = ThresholdPoints.of(top, RankingMetrics.of(top, truth), points=3)
        >>> found.threshold.tolist(), found.precision.round(2).tolist(), found.recall.round(2).tolist()
        ([0.0, 2.0, 4.0], [0.75, 0.67, 1.0], [1.0, 0.67, 0.33])
        """
        listed = ranking.ids >= 0
        scores = np.sort(predictions.scores[listed].astype(np.float64))
        if not len(scores):
            return cls(*[np.zeros(0)] * 4)
        # The highest score itself is the last threshold: rounding must not put it above all labels.
        threshold = np.linspace(scores[0], scores[-1], points).clip(max=scores[-1])
        assigned = len(scores) - np.searchsorted(scores, threshold)
        right = np.sort(predictions.scores[ranking.hits].astype(np.float64))
        hits = len(right) - np.searchsorted(right, threshold)
        true = ranking.truth.nnz
        return cls(threshold, hits / assigned, hits / true, 2 * hits / (assigned + true))


def label_coverage(true: Counts, hits: Counts) -> float:
    """The share of the labels in the truth that have at least one hit, in 0..1.

    >>> label_coverage(np.array([4, 1, 0, 2]), np.array([3, 0, 0, 1]))
    0.6666666666666666
    """
    return float(np.count_nonzero(hits) / np.count_nonzero(true))


@dataclass(frozen=True)
class CoverageError:
    """The mean list length that covers all true labels of a document (scikit-learn's `coverage_error`)."""

    at_least: float
    exact: bool


def coverage_error(ranking: RankingMetrics) -> CoverageError:
    """The coverage error as far as lists of k labels show it: a lower bound, exact if they hold all true labels.

    A document with m true labels outside its list needs at least (length of its list) + m places. There are no ties:
    the list is an order. Documents without labels count as 0.
    """
    positions = np.arange(1, ranking.ids.shape[1] + 1)
    last_hit = np.max(ranking.hits * positions, axis=1, initial=0)
    missing = np.diff(ranking.truth.indptr) - ranking.hits.sum(axis=1)
    listed = (ranking.ids >= 0).sum(axis=1)
    return CoverageError(float(np.where(missing, listed + missing, last_hit).mean()), not missing.any())


def _ratio(above: Any, below: Any) -> NDArray[np.float64]:
    above, below = np.asarray(above, np.float64), np.asarray(below, np.float64)
    ratio: NDArray[np.float64] = np.divide(above, below, out=np.zeros_like(below), where=below > 0)
    return ratio
