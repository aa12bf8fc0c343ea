"""Scoring the children of tree nodes for documents, and keeping the best of each document.

The weights of all nodes are the six arrays of `xmtc.search.linear_tree.NodeWeights`.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.coordinate_descent import SQUARED_HINGE
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.topk import best_first, offer

Ints = NDArray[Any]
Floats = NDArray[np.float32]

PIECES = 8  # of parallel work; each has a table of all features
WIDEST_GAP = np.float32(1e16)
U = np.uintp
SEARCH_COST = 12  # a binary search costs about as much as this many table entries written


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


@compiled(parallel=True)
def score_children(
    vectors: CsrArrays,
    feature_count: int,
    weights: Any,
    child_starts: Ints,
    documents: Ints,
    nodes: Ints,
    out_starts: Ints,
    out_size: int,
    loss: int,
) -> Floats:
    # Log-probabilities of all children of nodes[i] for documents[i], from place out_starts[i] on; pairs are sorted by
    # node.
    doc_indptr, doc_indices, doc_data = vectors
    node_rows, row_features, row_entries, entry_children, entry_weights, biases = weights
    pairs = len(nodes)
    out = np.empty(out_size, np.float32)
    pieces = min(PIECES, pairs)
    for piece in numba.prange(pieces):
        row_of = np.zeros(feature_count, np.int64)  # feature -> 1 + row in the node at hand
        pair = piece * pairs // pieces
        last = (piece + 1) * pairs // pieces
        while pair < last:
            node = nodes[pair]
            run_end = pair
            terms = 0
            while run_end < last and nodes[run_end] == node:
                terms += doc_indptr[documents[run_end] + 1] - doc_indptr[documents[run_end]]
                run_end += 1
            first_row, last_row = node_rows[node], node_rows[node + 1]
            as_table = terms * SEARCH_COST > last_row - first_row
            if as_table:
                for row in range(first_row, last_row):
                    row_of[row_features[row]] = row + 1
            first_child = child_starts[node]
            children = child_starts[node + 1] - first_child
            while pair < run_end:
                document = documents[pair]
                base = out_starts[pair]
                for child in range(children):
                    out[base + child] = biases[first_child + child]
                for term in range(doc_indptr[document], doc_indptr[document + 1]):
                    feature = doc_indices[term]
                    if as_table:
                        row = row_of[feature] - 1
                    else:
                        row = _find(row_features, first_row, last_row, feature)
                    if row < 0:
                        continue
                    value = doc_data[term]
                    for entry in range(row_entries[row], row_entries[row + 1]):
                        out[base + entry_children[entry]] += value * entry_weights[entry]
                for child in range(children):
                    out[base + child] = _log_probability(out[base + child], loss)
                pair += 1
            if as_table:
                for row in range(first_row, last_row):
                    row_of[row_features[row]] = 0
    return out


@compiled()
def follow_beam(
    vectors: CsrArrays,
    weights: Any,
    level_starts: Ints,
    child_starts: Ints,
    child_ids: Ints,
    loss: int,
    beam: int,
    k: int,
    discount: float,
) -> tuple[NDArray[np.int32], Floats]:
    # What xmtc.search.beam.beam_search does, to the same numbers, for few documents: starting threads, filling tables
    # and calling from level to level would take longer than the search itself.
    doc_indptr, doc_indices, doc_data = vectors
    node_rows, row_features, row_entries, entry_children, entry_weights, biases = weights
    documents = len(doc_indptr) - 1
    ids = np.full((documents, k), -1, np.int32)
    values = np.full((documents, k), -np.inf, np.float32)
    width = max(beam, k)
    best, so_far = np.zeros(width, np.int32), np.zeros(width, np.float32)
    for document in range(documents):
        first, last = doc_indptr[document], doc_indptr[document + 1]
        rows, terms = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
        begins, stops = np.empty(last - first, np.int64), np.empty(last - first, np.int64)
        best[0], so_far[0] = 0, 0
        count = 1
        for level in range(len(level_starts)):
            size = 0
            for at in range(count):
                node = level_starts[level] + best[at]
                size += child_starts[node + 1] - child_starts[node]
            candidates, scores = np.empty(size, np.int32), np.empty(size, np.float32)
            base = 0
            for at in range(count):
                node = level_starts[level] + best[at]
                first_child = child_starts[node]
                children = child_starts[node + 1] - first_child
                for child in range(children):
                    candidates[base + child] = child_ids[first_child + child]
                    scores[base + child] = biases[first_child + child]
                hits = _find_all(
                    row_features, node_rows[node], node_rows[node + 1], doc_indices[first:last], rows, terms
                )
                for hit in range(hits):
                    begins[hit], stops[hit] = row_entries[rows[hit]], row_entries[rows[hit] + 1]
                for hit in range(hits):
                    value = doc_data[first + terms[hit]]
                    for entry in range(begins[hit], stops[hit]):
                        scores[base + entry_children[entry]] += value * entry_weights[entry]
                above = so_far[at] * np.float32(discount)
                for child in range(children):
                    scores[base + child] = _log_probability(scores[base + child], loss) + above
                base += children
            is_last = level == len(level_starts) - 1
            count = _select(candidates, scores, 0, size, k if is_last else beam, best, so_far)
        for at in range(count):
            ids[document, at], values[document, at] = best[at], so_far[at]
    return ids, values


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


@numba.njit(inline="always")
def _find(values: Any, first: int, last: int, wanted: int) -> int:
    # Where `wanted` stands between two places of rising values, or -1. A sum instead of an if: the processor would
    # guess half of the branches wrong, and each wrong guess costs more than a step.
    left = last - first
    if left <= 0:
        return -1
    while left > 1:
        half = left >> 1
        first += half * (values[U(first + half)] <= wanted)
        left -= half
    return first if values[U(first)] == wanted else -1


@jitted()
def _find_all(values: Any, first: int, last: int, wanted: Any, places: Any, which: Any) -> int:
    # As _find for each of `wanted`: the places of those that are there, and which these are; returns how many. All
    # searches go in step, so that the processor waits for the memory once a step and not once for each of them.
    left = last - first
    if left <= 0:
        return 0
    for at in range(len(wanted)):
        places[at] = first
    while left > 1:
        half = left >> 1
        for at in range(len(wanted)):
            place = places[at]
            places[at] = place + half * (values[U(place + half)] <= wanted[at])
        left -= half
    hits = 0
    for at in range(len(wanted)):
        if values[U(places[at])] == wanted[at]:
            places[hits], which[hits] = places[at], at
            hits += 1
    return hits


@numba.njit(inline="always")
def _log_probability(score: Any, loss: int) -> Any:
    # Never infinite and always a number, also where a sum of huge weights was not: sums over a path stay so too.
    if loss == SQUARED_HINGE:
        gap = max(np.float32(0), np.float32(1) - score)
        return -gap * gap if gap < WIDEST_GAP else -WIDEST_GAP * WIDEST_GAP
    if score > -80:
        return -np.log1p(np.exp(-score))
    return score if score > -WIDEST_GAP else -WIDEST_GAP


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
