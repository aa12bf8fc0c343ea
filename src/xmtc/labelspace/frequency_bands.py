"""Groups of labels by how often they occur in training: head, middle and tail, and deciles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Head and middle each hold a third of all label assignments of the training documents; the tail has the rest.
THIRDS = (1 / 3, 2 / 3)


@dataclass(frozen=True, eq=False)
class Groups:
    """Label l is in the group `names[of_label[l]]`."""

    names: tuple[str, ...]
    of_label: NDArray[np.int8]


def frequency_bands(counts: NDArray[np.integer[Any]], cuts: tuple[float, float] = THIRDS) -> Groups:
    """Head, middle and tail labels by training counts.

    Let s be the share of all training assignments that belongs to labels *more* frequent than label l. Then l is head
    if s < cuts[0], middle if s < cuts[1], else tail. So labels of equal count share a band, the head is never empty,
    and labels that were never seen in training are tail. Thirds of the assignments, rather than of the labels, give
    every band about the same weight of evidence.

    >>> frequency_bands(np.array([60, 30, 20, 10, 10, 0])).of_label.tolist()
    [0, 1, 2, 2, 2, 2]
    """
    if not 0 < cuts[0] <= cuts[1] <= 1:
        raise ValueError(f"cuts {cuts} must rise within 0..1")
    distinct, where, times = np.unique(counts, return_inverse=True, return_counts=True)
    mass = (distinct * times).astype(np.float64)
    more_frequent = mass.sum() - np.cumsum(mass)
    share = more_frequent / max(mass.sum(), 1.0)
    band = np.digitize(share, cuts)
    band[distinct == 0] = 2  # also when rounding leaves their share a little below the cut
    return Groups(("head", "middle", "tail"), band[where].astype(np.int8))


def frequency_deciles(counts: NDArray[np.integer[Any]]) -> Groups:
    """Ten groups of equally many labels by training counts, "1" the most frequent; ties go by id.

    Labels never seen in training have a group of their own, "unseen": a label set may hold any number of them.

    >>> groups = frequency_deciles(np.array([5, 0, 9, 7]))
    >>> [groups.names[g] for g in groups.of_label]
    ['7', 'unseen', '1', '4']
    """
    seen = np.flatnonzero(counts)
    falling = seen[np.argsort(-np.asarray(counts)[seen], kind="stable")]
    of_label = np.full(len(counts), 10, np.int8)
    of_label[falling] = np.arange(len(falling)) * 10 // max(len(falling), 1)
    return Groups((*map(str, range(1, 11)), "unseen"), of_label)
