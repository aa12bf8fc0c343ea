"""Precision and recall at each threshold, on validation documents: what is stored to choose a threshold later.

A threshold is for all labels alike; precision and recall are micro-averaged: of all labels that reach it the share that
is relevant, and of all true labels the share that reaches it. Only points that no other beats in both are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.errors import ConfigError, XmtcError
from xmtc.models.calibration import Pairs
from xmtc.models.thresholds import Scores, cuts

POINTS = 1000  # of a stored curve


class Choice(NamedTuple):
    """A threshold, and the precision and recall that it had on the validation documents."""

    threshold: float
    precision: float
    recall: float


class ThresholdCurve(NamedTuple):
    """The best trade-offs: from point to point the threshold and the precision fall and the recall rises.

    >>> score, relevant = np.array([1, 0.75, 0.5, 0.25], np.float32), np.array([True, False, True, False])
    >>> curve = ThresholdCurve.fit(Pairs(np.zeros(4, np.int32), score, relevant, np.array([2]), 2))
    >>> curve.reaching(recall=0.8)
    Choice(threshold=0.375, precision=0.667, recall=1.0)
    >>> curve.reaching(precision=0.7).threshold
    0.875
    """

    threshold: Scores
    precision: NDArray[np.float32]
    recall: NDArray[np.float32]

    @classmethod
    def fit(cls, pairs: Pairs) -> ThresholdCurve:
        """Measure every threshold that the scores allow."""
        order = np.argsort(-pairs.score, kind="stable")
        cut, threshold = cuts(np.zeros_like(order), pairs.score[order])
        hits = np.cumsum(pairs.relevant[order])[cut]
        precision, recall = hits / (cut + 1), hits / pairs.assignments
        # A point is worth keeping if every point after it, of higher or equal recall, has a lower precision.
        best_after = np.append(np.maximum.accumulate(precision[::-1])[::-1][1:], -1.0)
        best = np.flatnonzero((precision > best_after) & (hits > 0))
        if len(best) > POINTS:
            # Evenly over precision and over recall: by number, nearly all would be of thresholds that nobody wants.
            best = best[np.union1d(_evenly(-precision[best]), _evenly(recall[best]))]
        return cls(threshold[best], precision[best].astype(np.float32), recall[best].astype(np.float32))

    def reaching(self, *, precision: float | None = None, recall: float | None = None) -> Choice:
        """The threshold with the highest recall of those that reach a precision, or the other way round."""
        wanted = {"precision": precision, "recall": recall}
        given = {name: share for name, share in wanted.items() if share is not None}
        if len(given) != 1:
            raise ConfigError("give either a precision or a recall to reach, one of them")
        [(name, share)] = given.items()
        if isinstance(share, bool) or not isinstance(share, (int, float, np.number)) or not 0 < share <= 1:
            raise ConfigError(f"{name} {share}: a share above 0 and at most 1 was expected, such as 0.8")
        values = self.precision if name == "precision" else self.recall
        reached = np.flatnonzero(values >= np.float32(share))
        if not len(reached):
            best = self._at(0 if name == "precision" else -1)
            raise XmtcError(
                f"{name} {share:g}: no threshold reaches it on the validation documents; the highest is "
                f"{float(values.max()):.3f}, at the threshold {best.threshold:.4g} (precision {best.precision:.3f}, "
                f"recall {best.recall:.3f})"
            )
        return self._at(int(reached[-1] if name == "precision" else reached[0]))

    def _at(self, point: int) -> Choice:
        threshold, precision, recall = (float(str(column[point])) for column in self)
        return Choice(threshold, round(precision, 3), round(recall, 3))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The curve as arrays, for storage."""
        return self._asdict()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ThresholdCurve:
        """The inverse of `to_arrays`; KeyError or ValueError for arrays that are no such curve."""
        curve = cls(arrays["threshold"], arrays["precision"], arrays["recall"])
        for column in curve:
            if column.dtype != np.float32 or column.shape != curve.threshold.shape or not np.isfinite(column).all():
                raise ValueError("a curve has as many finite thresholds, precisions and recalls, all float32")
        if curve.threshold.ndim != 1 or not len(curve.threshold):
            raise ValueError("a curve needs at least one point")
        for share in (curve.precision, curve.recall):
            if share.min() < 0 or share.max() > 1:
                raise ValueError("precision and recall lie between 0 and 1")
        if (np.diff(curve.threshold) > 0).any() or (np.diff(curve.precision) > 0).any():
            raise ValueError("thresholds and precisions of a curve do not rise")
        if (np.diff(curve.recall) < 0).any():
            raise ValueError("the recall of a curve does not fall")
        return curve


def _evenly(rising: NDArray[np.float64]) -> NDArray[np.int64]:
    """Places of values that are evenly spread from the first to the last, half of POINTS at most."""
    wanted = np.linspace(rising[0], rising[-1], POINTS // 2)
    return np.minimum(np.searchsorted(rising, wanted), len(rising) - 1).astype(np.int64)
