"""A threshold for each label, chosen on validation documents for a high F1: a document gets the labels that reach it.

The best threshold for the few documents that carry a label ("SCut", Yang 2001) is mostly luck: on three corpora it is 4
to 10 points of micro-F1 worse for new documents than one threshold for all labels (`benchmarks/ablations/scores.py
--validate`). So a label's own documents count together with `smoothing` pseudo-documents, on which it does as labels do
on average: rare labels get a threshold near the common one, frequent labels their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.errors import ConfigError
from xmtc.models.calibration import Pairs

#: Raises macro-F1 over that of a common threshold and costs no micro-F1, on the same three corpora.
SMOOTHING = 20.0

Scores = NDArray[np.float32]


class Thresholds(NamedTuple):
    """One threshold for each label, and the common one that gives the best micro-F1 for all labels."""

    each: Scores
    common: np.float32

    @classmethod
    def fit(cls, pairs: Pairs, smoothing: float = SMOOTHING) -> Thresholds:
        """Choose for each label the threshold with the best smoothed F1.

        That is 2 (hits + s H) / (taken + carriers + s (T + 1)), where H and T are the hits and the taken pairs of all
        labels at this threshold, divided by the assignments. A threshold lies midway between two scores of the label,
        or is the common one; of equally good ones the nearest to the common one is chosen.

        >>> score, relevant = np.array([0.8, 0.6, 0.4, 0.2], np.float32), np.array([True, True, False, True])
        >>> pairs = Pairs(np.array([0, 0, 0, 1], np.int32), score, relevant, np.array([2, 1, 0]), 3)
        >>> Thresholds.fit(pairs, smoothing=0.1).each
        array([0.5, 0.2, 0.2], dtype=float32)
        """
        if not isinstance(smoothing, (int, float, np.number)) or not 0 < smoothing < np.inf:
            raise ConfigError(f"smoothing must be a number above 0 and finite, not {smoothing!r}")
        order = np.argsort(-pairs.score, kind="stable")
        score = pairs.score[order]
        hits = np.append(0, np.cumsum(pairs.relevant[order])) / pairs.assignments
        taken = np.arange(len(score) + 1) / pairs.assignments
        cut, threshold = cuts(np.zeros_like(order), score)
        common = threshold[np.argmax(2 * hits[cut + 1] / (taken[cut + 1] + 1))]

        label, threshold, found, reached = _candidates(pairs, common)
        over_all = np.searchsorted(-score, -threshold, side="right")  # pairs of all labels that reach the threshold
        above = found + smoothing * hits[over_all]
        f1 = 2 * above / (reached + pairs.carriers[label] + smoothing * (taken[over_all] + 1))
        best = np.lexsort((np.abs(threshold - common), -f1, label))
        return cls(threshold[best][np.append(True, np.diff(label[best]) > 0)], common)

    def extended(self, labels: int) -> Thresholds:
        """The thresholds of a larger label set; new labels come last and get the common threshold."""
        new = np.full(labels - len(self.each), self.common, np.float32)
        return Thresholds(np.concatenate([self.each, new]), self.common)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The thresholds as arrays, for storage."""
        return {"each": self.each, "common": np.array([self.common])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], labels: int) -> Thresholds:
        """The inverse of `to_arrays`; KeyError or ValueError if they are not for this number of labels."""
        each, common = arrays["each"], arrays["common"]
        if each.shape != (labels,) or common.shape != (1,):
            raise ValueError(f"there are {each.shape} thresholds for {labels} labels")
        for array in (each, common):
            if array.dtype != np.float32 or not np.isfinite(array).all():
                raise ValueError("a threshold is no finite number of the type float32")
        return cls(each, common[0])


def _candidates(
    pairs: Pairs, common: np.float32
) -> tuple[NDArray[np.int32], Scores, NDArray[np.int64], NDArray[np.int64]]:
    """(label, threshold, relevant pairs that reach it, pairs that reach it) of all thresholds to choose from.

    Each label has one threshold for each of its scores, and the common one.
    """
    labels = len(pairs.carriers)
    order = np.lexsort((-pairs.score, pairs.label))
    label, relevant = pairs.label[order], pairs.relevant[order]
    first = np.searchsorted(label, np.arange(labels))
    before = np.append(0, np.cumsum(relevant, dtype=np.int64))
    cut, threshold = cuts(label, pairs.score[order])
    own = label[cut]
    reach = pairs.score >= common
    common_hits = np.bincount(pairs.label[reach & pairs.relevant], minlength=labels)
    return (
        np.append(own, np.arange(labels, dtype=np.int32)),
        np.append(threshold, np.full(labels, common, np.float32)),
        np.append(before[cut + 1] - before[first[own]], common_hits),
        np.append(cut + 1 - first[own], np.bincount(pairs.label[reach], minlength=labels)),
    )


def cuts(group: NDArray[np.integer[Any]], score: Scores) -> tuple[NDArray[np.int64], Scores]:
    """Where scores, falling within each group, can be cut, and the threshold there; equal scores stay together.

    >>> cuts(np.array([0, 0, 0, 1]), np.array([4, 2, 2, 7], np.float32))
    (array([0, 2, 3]), array([3., 2., 7.], dtype=float32))
    """
    following = np.append(score[1:], score[-1:])
    ends = np.append(group[1:] != group[:-1], True)
    middle = ((score.astype(np.float64) + following) / 2).astype(np.float32)
    # There is no float between two neighbouring ones, and no score after the last.
    threshold = np.where(ends | (middle <= following), score, middle)
    cut = np.flatnonzero(ends | (score > following))
    return cut, threshold[cut]
