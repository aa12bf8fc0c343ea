"""Labels cut by frequency into a head and tails: the clusters of APLC-XLNet (Ye et al., ICML 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.errors import ConfigError
from xmtc.models.aplc_xlnet.costs import access_reach, check_decay

Ints = NDArray[np.int64]
Counts = NDArray[np.integer[Any]]

CHOICES = 512  # for each cut-off in a round of the search


@dataclass(frozen=True, eq=False)
class FrequencyClusters:
    """Which cluster each label is in and at which place: cluster 0 is the head, the tails are 1 to K.

    >>> clusters = FrequencyClusters.by_proportions(np.array([1, 9, 5, 7]), [0.5, 0.5])
    >>> clusters.members(0).tolist(), clusters.members(1).tolist()
    ([1, 3], [2, 0])
    >>> clusters.cluster_of.tolist(), clusters.place_of.tolist()
    ([1, 0, 1, 0], [1, 0, 0, 1])
    """

    order: NDArray[np.int32]  #: all labels, cluster after cluster, the most frequent first
    ends: Ints  #: where each cluster ends in `order`

    def __post_init__(self) -> None:
        if self.order.dtype != np.int32 or self.ends.dtype != np.int64 or self.ends.ndim != 1:
            raise ValueError("clusters are not of an integer type, or of another shape")
        if not np.array_equal(np.sort(self.order), np.arange(len(self.order))):
            raise ValueError("clusters must have every label once")
        if not len(self.ends) or np.any(np.diff(self.ends, prepend=0) < 1) or self.ends[-1] != len(self.order):
            raise ValueError(f"ends {self.ends.tolist()} do not cut {len(self.order)} labels into a head and tails")

    @classmethod
    def head_only(cls, counts: Counts) -> FrequencyClusters:
        """No tails: all labels are in the head, as in a flat layer.

        >>> FrequencyClusters.head_only(np.array([1, 9, 5])).sizes
        [3]
        """
        return cls(_by_frequency(counts), np.array([len(counts)]))

    @classmethod
    def by_proportions(cls, counts: Counts, proportions: Sequence[float]) -> FrequencyClusters:
        """Clusters with these shares of the labels, which are told by how often each of them occurs.

        A cut-off that falls between two labels is rounded down.
        """
        if not all(share > 0 for share in proportions) or abs(sum(proportions) - 1) > 1e-6:
            raise ConfigError(f"the proportions of clusters must be above 0 and add up to 1, not {list(proportions)}")
        _check_number(len(proportions), len(counts))
        # Rounding first: 0.1 + 0.7 is a little below 0.8.
        cuts = [math.floor(round(share * len(counts), 6)) for share in np.cumsum(proportions)[:-1].tolist()]
        if any(end <= start for start, end in pairwise([0, *cuts, len(counts)])):
            raise ConfigError(
                f"the proportions {list(proportions)} leave a cluster of the {len(counts):,} labels empty; take fewer "
                "clusters or a larger share"
            )
        return cls.by_cut_offs(counts, cuts)

    @classmethod
    def by_cut_offs(cls, counts: Counts, cut_offs: Sequence[int]) -> FrequencyClusters:
        """Clusters that end before these ranks: [100, 400] makes a head of 100 labels, a tail of 300 and a last one.

        >>> FrequencyClusters.by_cut_offs(np.array([1, 9, 5, 7]), [1, 2]).sizes
        [1, 1, 2]
        """
        labels = len(counts)
        _check_number(len(cut_offs) + 1, labels)
        ends = np.array([*cut_offs, labels], np.int64)
        if np.any(np.diff(ends, prepend=0) < 1):
            raise ConfigError(
                f"the cut-offs {list(cut_offs)} leave a cluster of the {labels:,} labels empty; they must rise, "
                f"from at least 1 to at most {labels - 1:,}"
            )
        return cls(_by_frequency(counts), ends)

    @classmethod
    def cheapest(
        cls, counts: Counts, documents: int, tails: int, decay: float = 2, batch: int = 1
    ) -> FrequencyClusters:
        """The clusters with the lowest expected cost, equation 12 of the paper, for labels that occur so often.

        With `batch` 1 a tail costs nothing for a document that has none of its labels, as in `AdaptiveClusters`. The
        paper counts a tail for a whole batch as soon as one of its documents needs it: that is `batch` above 1.

        >>> counts = 10_000 // np.arange(1, 1001)
        >>> FrequencyClusters.cheapest(counts, documents=20_000, tails=2).sizes
        [18, 146, 836]
        """
        _check_number(tails + 1, len(counts))
        check_decay(decay)
        order = _by_frequency(counts)
        reach = access_reach(counts[order] / max(documents, 1), batch)
        return cls(order, np.append(_cheapest_cut_offs(reach, tails, decay), len(order)))

    @property
    def labels(self) -> int:
        """Number of labels."""
        return len(self.order)

    @property
    def tails(self) -> int:
        """Number of tail clusters."""
        return len(self.ends) - 1

    @property
    def sizes(self) -> list[int]:
        """Number of labels of each cluster, the head first."""
        sizes: list[int] = np.diff(self.ends, prepend=0).tolist()
        return sizes

    def members(self, cluster: int) -> NDArray[np.int32]:
        """The labels of a cluster, by place."""
        return np.split(self.order, self.ends[:-1])[cluster]

    @cached_property
    def cluster_of(self) -> Ints:
        """The cluster of each label."""
        return np.searchsorted(self.ends, self._rank_of, "right")

    @cached_property
    def place_of(self) -> Ints:
        """The place of each label in its cluster."""
        starts = np.append(0, self.ends[:-1])
        place: Ints = self._rank_of - starts[self.cluster_of]
        return place

    @cached_property
    def _rank_of(self) -> Ints:
        rank = np.empty(len(self.order), np.int64)
        rank[self.order] = np.arange(len(self.order))
        return rank

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as flat arrays, for storage."""
        return {"order": self.order, "ends": self.ends}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> FrequencyClusters:
        """The inverse of `to_arrays`; a ValueError for arrays that make no clusters."""
        return cls(arrays["order"], arrays["ends"])


def _check_number(clusters: int, labels: int) -> None:
    if clusters < 2:
        raise ConfigError(f"{clusters} cluster: there must be a head and one tail at the least")
    if clusters > labels:
        raise ConfigError(f"{labels:,} labels cannot fill {clusters} clusters; take fewer")


def _by_frequency(counts: Counts) -> NDArray[np.int32]:
    """Labels by falling count, ties to the lower id."""
    return np.argsort(-counts.astype(np.int64), kind="stable").astype(np.int32)


def _cheapest_cut_offs(reach: NDArray[np.float64], tails: int, decay: float) -> Ints:
    """The cut-offs that minimise equation 12.

    Trying all of them by dynamic programming takes labels^2 steps. So the first round has few choices, in even ratios,
    and each further one has choices between the neighbours of the best so far, until they are next to each other. Up to
    CHOICES labels the result is exact; beyond, the cost hardly changes from one choice of the first round to the next,
    which are 3 % apart at 3,000,000 labels.
    """
    last = len(reach) - 2  # the highest cut-off, which leaves one label to the last tail
    few = np.arange(1, last + 1)
    if last > CHOICES:
        few = np.unique(np.geomspace(1, last, CHOICES).round().astype(np.int64))
        few = np.union1d(few, np.arange(last - tails, last + 1))  # room for all cut-offs
    choices = [few] * tails
    while True:
        best = _best_choices(reach, choices, decay)
        if all(np.ptp(each) == len(each) - 1 for each in choices):
            return np.array([each[at] for each, at in zip(choices, best, strict=True)])
        choices = [_between_neighbours(each, at) for each, at in zip(choices, best, strict=True)]


def _between_neighbours(choices: Ints, best: int) -> Ints:
    low, high = choices[max(best - 1, 0)], choices[min(best + 1, len(choices) - 1)]
    return np.union1d(np.linspace(low, high, CHOICES).round().astype(np.int64), choices[best])


def _best_choices(reach: NDArray[np.float64], choices: Sequence[Ints], decay: float) -> list[int]:
    """For each cut-off which of its choices is best, all of them together, found from the last to the first."""
    following: Ints = np.array([len(reach) - 1])  # the last tail ends with the labels
    cost = np.zeros(1)  # of all that comes after the choices in `following`
    pointers: list[Ints] = []
    for tail in range(len(choices), 0, -1):
        start = choices[tail - 1][:, None]
        # (choices, choices of the next cut-off); where the next is not behind, exp could overflow.
        access = -np.expm1(np.minimum(reach[start] - reach[following], 0))
        total = np.where(following > start, access * (following - start) / decay**tail + cost, np.inf)
        pointers.append(total.argmin(1))
        cost, following = total.min(1), choices[tail - 1]
    found = [int((following + cost).argmin())]
    for pointer in reversed(pointers[1:]):
        found.append(int(pointer[found[-1]]))
    return found
