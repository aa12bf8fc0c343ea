"""What the kernels that grow document trees share: the arrays of a tree, leaves, and how a node's documents part."""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import jitted
from xmtc.kernels.csr import CsrArrays


class TreeArrays(NamedTuple):
    """One tree or several, one after the other; children have higher numbers than their parent and follow each other.

    A document goes to the child with the highest score, ties to the first: its features times the child's row of
    `splits`, plus the child's bias. A leaf has a row of label shares.
    """

    first_child: NDArray[np.int32]  # of each node; -1: a leaf
    children: NDArray[np.int32]  # how many
    documents: NDArray[np.int32]  # training documents that came by
    biases: NDArray[np.float32]
    split_indptr: NDArray[np.int64]
    split_features: NDArray[np.int32]
    split_weights: NDArray[np.float32]
    leaf_indptr: NDArray[np.int64]
    leaf_labels: NDArray[np.int32]
    leaf_shares: NDArray[np.float32]


@jitted()
def leaf_of(targets: CsrArrays, members: Any, most: int) -> tuple[Any, Any]:
    # (labels, shares) of a leaf: the mean of its documents' rows, of which the `most` largest, ties to the lower label.
    count = 0
    for row in members:
        count += targets.indptr[row + 1] - targets.indptr[row]
    labels, values = np.empty(count, np.int32), np.empty(count, np.float32)
    count = 0
    for row in members:
        for entry in range(targets.indptr[row], targets.indptr[row + 1]):
            labels[count], values[count] = targets.indices[entry], targets.data[entry]
            count += 1
    order = np.argsort(labels, kind="mergesort")
    size = 0
    found, shares = np.empty(count, np.int32), np.zeros(count, np.float32)
    for at in order:
        if size == 0 or found[size - 1] != labels[at]:
            found[size] = labels[at]
            size += 1
        shares[size - 1] += values[at]
    found, shares = found[:size], shares[:size] / np.float32(len(members))
    if size > most:
        best = np.sort(np.argsort(-shares, kind="mergesort")[:most])
        found, shares = found[best], shares[best]
    return found.copy(), shares.copy()


@jitted()
def share_out(members: Any, sides: Any, count: int) -> Any:
    # Reorders members so that those of side 0 come first, and so on, each side in its order; where the sides end.
    ends = np.zeros(count + 1, np.int64)
    for side in sides:
        ends[side + 1] += 1
    for side in range(count):
        ends[side + 1] += ends[side]
    place = ends[:count].copy()
    moved = np.empty_like(members)
    for at in range(len(members)):
        moved[place[sides[at]]] = members[at]
        place[sides[at]] += 1
    members[:] = moved
    return ends


@jitted()
def by_column(rows: CsrArrays, width: int) -> CsrArrays:
    # The same matrix by columns (CSC), rows ascending.
    indptr, indices, data = rows
    ends = np.zeros(width + 2, np.int64)
    for column in indices:
        ends[column + 2] += 1
    for column in range(width):
        ends[column + 2] += ends[column + 1]
    row_of, values = np.empty(len(indices), np.int32), np.empty(len(indices), np.float32)
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            place = ends[indices[entry] + 1]
            row_of[place], values[place] = row, data[entry]
            ends[indices[entry] + 1] += 1
    return CsrArrays(ends[: width + 1], row_of, values)


@jitted()
def concatenated_ints(parts: Any) -> Any:
    # (where each of the parts ends, one after the other)
    ends = np.zeros(len(parts) + 1, np.int64)
    for at in range(len(parts)):
        ends[at + 1] = ends[at] + len(parts[at])
    together = np.empty(ends[-1], np.int32)
    for at in range(len(parts)):
        together[ends[at] : ends[at + 1]] = parts[at]
    return ends, together


@jitted()
def concatenated_floats(parts: Any) -> Any:
    # The same for floats, without the ends.
    count = 0
    for part in parts:
        count += len(part)
    together = np.empty(count, np.float32)
    count = 0
    for part in parts:
        together[count : count + len(part)] = part
        count += len(part)
    return together
