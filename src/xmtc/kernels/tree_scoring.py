"""The weights at tree nodes, turned round and checked; and the best of each document's candidates.

The weights of all nodes are the six arrays of `xmtc.search.linear_tree.NodeWeights`.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.topk import best_first, offer

Ints = NDArray[Any]
Floats = NDArray[np.float32]


@compiled()
def by_feature(indptr: Ints, features: NDArray[np.int32], weights: Floats) -> tuple[Any, Any, Any, Any]:
    # Turn a node's weights from children x features into features x children: (features, indptr, children, weights).
    order = np.argsort(features, kind="mergesort")
    child_of = np.empty(len(features), np.int32)
    for child in range(len(indptr) - 1):
        child_of[indptr[child] : indptr[child + 1]] = child
    rows = np.empty(len(features), np.int32)
    row_indptr = np.zeros(len(features) + 1, np.int64)
    children = np.empty(len(features), np.int32)
    values = np.empty(len(features), weights.dtype)
    count = 0
    for place in range(len(order)):
        entry = order[place]
        if place == 0 or features[entry] != rows[count - 1]:
            rows[count] = features[entry]
            row_indptr[count] = place
            count += 1
        children[place] = child_of[entry]
        values[place] = weights[entry]
    row_indptr[count] = len(order)
    return rows[:count].copy(), row_indptr[: count + 1].copy(), children, values


@compiled()
def sound_weights(weights: Any, child_starts: Ints, feature_count: int) -> bool:
    # Whether arrays from a file can be followed without leaving them, and hold finite numbers only.
    node_rows, row_features, row_entries, entry_children, entry_weights, biases = weights
    nodes, rows = len(child_starts) - 1, len(row_features)
    if len(node_rows) != nodes + 1 or len(row_entries) != rows + 1 or len(biases) != child_starts[-1]:
        return False
    if len(entry_children) != len(entry_weights):
        return False
    if node_rows[0] != 0 or node_rows[-1] != rows or row_entries[0] != 0 or row_entries[-1] != len(entry_weights):
        return False
    # First all ends, then what lies between them: a falling end further on could send a loop outside.
    for node in range(nodes):
        if node_rows[node] > node_rows[node + 1]:
            return False
    for row in range(rows):
        if row_entries[row] > row_entries[row + 1] or not 0 <= row_features[row] < feature_count:
            return False
    for bias in biases:
        if not np.isfinite(bias):
            return False
    for node in range(nodes):
        children = child_starts[node + 1] - child_starts[node]
        for row in range(node_rows[node], node_rows[node + 1]):
            if row > node_rows[node] and row_features[row] <= row_features[row - 1]:
                return False
            for entry in range(row_entries[row], row_entries[row + 1]):
                if not (0 <= entry_children[entry] < children and np.isfinite(entry_weights[entry])):
                    return False
    return True


@jitted()
def _select(ids: Any, values: Any, first: int, last: int, k: int, top_ids: Any, top_values: Any) -> int:
    # The k largest of values[first:last], falling, ties to the lower id; returns how many there are.
    size = 0
    for at in range(first, last):
        size = offer(top_values, top_ids, size, k, values[at], ids[at])
    best_first(top_values, top_ids, size)
    return size


@compiled(parallel=True)
def best_of_groups(offsets: Ints, ids: Ints, values: Floats, k: int) -> tuple[NDArray[np.int32], Floats]:
    # (ids, values) of the k best of each group offsets[g] to offsets[g + 1], best first; then -1.
    groups = len(offsets) - 1
    top_ids = np.full((groups, k), -1, np.int32)
    top_values = np.full((groups, k), -np.inf, np.float32)
    for group in numba.prange(groups):
        _select(ids, values, offsets[group], offsets[group + 1], k, top_ids[group], top_values[group])
    return top_ids, top_values
