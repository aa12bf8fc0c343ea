"""For each feature a hash table from labels to numbers: sparse weights that are read by feature and changed one by one.

All tables lie in one pool. A table that is half full moves to the pool's end, twice as large.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import jitted
from xmtc.kernels.csr import CsrArrays

SMALLEST = 4  # slots of a table, a power of 2 as all sizes


class LabelTables(NamedTuple):
    """Feature j has size[j] slots from start[j] on, of which taken[j] are taken; the label of a free slot is -1."""

    start: NDArray[np.int64]
    size: NDArray[np.int64]
    taken: NDArray[np.int64]
    labels: NDArray[np.int32]
    values: NDArray[np.float32]
    used: NDArray[np.int64]  # one number: slots of the pool that are given away


@jitted()
def label_tables(matrix: CsrArrays) -> LabelTables:
    # The tables of a features x labels matrix.
    features = len(matrix.indptr) - 1
    start, size, count = np.zeros(features, np.int64), np.zeros(features, np.int64), np.zeros(features, np.int64)
    used = np.zeros(1, np.int64)
    for feature in range(features):
        slots = np.int64(SMALLEST)
        while slots < 3 * (matrix.indptr[feature + 1] - matrix.indptr[feature]):
            slots *= 2
        start[feature], size[feature] = used[0], slots
        used[0] += slots
    room = used[0] + used[0] // 2 + 1024
    tables = LabelTables(start, size, count, np.full(room, -1, np.int32), np.zeros(room, np.float32), used)
    for feature in range(features):
        for entry in range(matrix.indptr[feature], matrix.indptr[feature + 1]):
            slot = slot_of(tables, feature, matrix.indices[entry])
            tables.labels[slot] = matrix.indices[entry]
            tables.values[slot] = matrix.data[entry]
            count[feature] += 1
    return tables


@jitted()
def slot_of(tables: LabelTables, feature: int, label: int) -> Any:
    # The slot of a label, or the free one where it is to go.
    mask = tables.size[feature] - 1
    first = tables.start[feature]
    slot = ((np.int64(label) * 2654435761) >> 7) & mask
    while tables.labels[first + slot] >= 0 and tables.labels[first + slot] != label:
        slot = (slot + 1) & mask
    return first + slot


@jitted()
def with_room(tables: LabelTables, feature: int) -> LabelTables:
    # The tables, in which a feature's has at least one more free slot than it needs to be searched.
    if 2 * tables.taken[feature] < tables.size[feature]:
        return tables
    first, old = tables.start[feature], tables.size[feature]
    labels, values = tables.labels, tables.values
    if tables.used[0] + 2 * old > len(labels):
        more_labels, more_values = (
            np.full(2 * len(labels) + 2 * old, -1, np.int32),
            np.zeros(2 * len(labels) + 2 * old, np.float32),
        )
        more_labels[: tables.used[0]], more_values[: tables.used[0]] = (
            labels[: tables.used[0]],
            values[: tables.used[0]],
        )
        labels, values = more_labels, more_values
    grown = LabelTables(tables.start, tables.size, tables.taken, labels, values, tables.used)
    grown.start[feature], grown.size[feature] = tables.used[0], 2 * old
    grown.used[0] += 2 * old
    for slot in range(first, first + old):
        if labels[slot] >= 0:
            place = slot_of(grown, feature, labels[slot])
            labels[place], values[place] = labels[slot], values[slot]
    return grown
