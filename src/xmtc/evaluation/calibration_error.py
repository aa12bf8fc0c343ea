"""Do scores that claim to be chances mean what they say? Expected calibration error, and the groups behind it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Reliability(NamedTuple):
    """Labels in groups of about equal size by rising score: mean score, share of relevant ones, number of labels."""

    stated: Floats
    seen: Floats
    size: NDArray[np.int64]

    @classmethod
    def of(cls, scores: NDArray[np.floating[Any]], right: NDArray[np.bool_], groups: int = 10) -> Reliability:
        """Group listed labels; equal scores stay together, so there may be fewer groups.

        >>> found = Reliability.of(np.array([0.2, 0.2, 0.9, 0.7]), np.array([False, True, True, True]), groups=2)
        >>> found.stated.round(2), found.seen, round(found.error, 2)
        (array([0.2, 0.8]), array([0.5, 1. ]), 0.25)
        """
        flat = scores.astype(np.float64)
        borders = np.arange(1, groups) * len(flat) // groups
        edges = np.partition(flat, borders)[borders] if len(flat) else flat
        at = np.searchsorted(edges, flat, side="right")
        size = np.bincount(at, minlength=groups)
        filled = size > 0
        stated, seen = (np.bincount(at, what, groups)[filled] / size[filled] for what in (flat, right))
        return cls(stated, seen, size[filled])

    @property
    def error(self) -> float:
        """The expected calibration error: the mean distance between the two, each group by its size, in 0..1."""
        return float(np.abs(self.stated - self.seen) @ self.size / max(self.size.sum(), 1))
