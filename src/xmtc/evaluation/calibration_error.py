"""Do scores that claim to be probabilities mean what they say? Expected calibration error and its groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Reliability(NamedTuple):
    """Labels in groups of about equal size by rising score: mean score, share of relevant ones, number of labels."""

    stated: Floats
    observed: Floats
    size: NDArray[np.int64]

    @classmethod
    def of(cls, scores: NDArray[np.floating[Any]], relevant: NDArray[np.bool_], groups: int = 10) -> Reliability:
        """Group listed labels; equal scores stay together, so there may be fewer groups.

        >>> found = Reliability.of(np.array([0.2, 0.2, 0.9, 0.7]), np.array([False, True, True, True]), groups=2)
        >>> found.stated.round(2), found.observed, round(found.error, 2)
        (array([0.2, 0.8]), array([0.5, 1. ]), 0.25)
        """
        flat = scores.astype(np.float64)
        borders = np.arange(1, groups) * len(flat) // groups
        edges = np.partition(flat, borders)[borders] if len(flat) else flat
        at = np.searchsorted(edges, flat, side="right")
        size = np.bincount(at, minlength=groups)
        filled = size > 0
        stated, observed = (np.bincount(at, what, groups)[filled] / size[filled] for what in (flat, relevant))
        return cls(stated, observed, size[filled])

    @property
    def error(self) -> float:
        """The expected calibration error in 0..1: the mean distance between the two, weighted by the groups' sizes."""
        return float(np.abs(self.stated - self.observed) @ self.size / max(self.size.sum(), 1))
