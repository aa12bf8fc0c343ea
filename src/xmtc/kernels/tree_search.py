"""Beam search over a tree with linear classifiers: many documents grouped by the nodes that they visit, or one alone.

The weights are the six arrays of `xmtc.search.linear_tree.NodeWeights`: those of a node's children stand together, so
that one pass over a document's features scores all of them. A document's scores are the same sums in the same order
whatever documents it comes with.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.coordinate_descent import SQUARED_HINGE
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.row_lookup import Bitmaps, find_rows
from xmtc.kernels.topk import best_first, offer

Ints = NDArray[Any]
Floats = NDArray[np.float32]

WIDEST_GAP = np.float32(1e16)
U = np.uintp


class TreeArrays(NamedTuple):
    """A label tree as `xmtc.search.linear_tree.LinearTree` numbers its nodes and children."""

    level_starts: Ints
    child_starts: Ints
    child_ids: NDArray[np.int32]


class Beam(NamedTuple):
    """For each document the nodes of a level that are followed, sizes[d] of them, with their log-probabilities."""

    sizes: Ints
    ids: NDArray[np.int32]
    scores: Floats


@numba.njit(inline="always")
def log_probability(score: Any, loss: int) -> Any:
    # Never infinite and always a number, also where a sum of huge weights was not: sums over a path stay so too.
    if loss == SQUARED_HINGE:
        gap = max(np.float32(0), np.float32(1) - score)
        return -gap * gap if gap < WIDEST_GAP else -WIDEST_GAP * WIDEST_GAP
    if score > -80:
        return -np.log1p(np.exp(-score))
    return score if score > -WIDEST_GAP else -WIDEST_GAP


@jitted()
def _empty_beam(documents: int, width: int) -> Beam:
    shape = documents, width
    return Beam(np.zeros(documents, np.int64), np.zeros(shape, np.int32), np.zeros(shape, np.float32))


@jitted()
def _first_beam(ids: Any, scores: Any) -> Beam:
    # The nodes at which the search begins; -1 stands for none.
    beam = _empty_beam(*ids.shape)
    for document in range(len(ids)):
        for at in range(ids.shape[1]):
            if ids[document, at] >= 0:
                size = beam.sizes[document]
                beam.ids[document, size], beam.scores[document, size] = ids[document, at], scores[document, at]
                beam.sizes[document] = size + 1
    return beam


@jitted()
def _visits(beam: Beam, first_node: int, nodes: int) -> tuple[Any, Any, Any]:
    # (node, document, its log-probability so far) of all pairs. Those of a node follow each other, so that its weights
    # are read into the processor's cache once; few pairs have few nodes in common and stay as they are.
    pairs = 0
    for document in range(len(beam.sizes)):
        pairs += beam.sizes[document]
    places = np.zeros(nodes + 1 if pairs >= nodes else 0, np.int64)
    if len(places):
        for document in range(len(beam.sizes)):
            for at in range(beam.sizes[document]):
                places[beam.ids[document, at] + 1] += 1
        for node in range(nodes):
            places[node + 1] += places[node]
    visited, owners, so_far = np.empty(pairs, np.int64), np.empty(pairs, np.int64), np.empty(pairs, np.float32)
    count = 0
    for document in range(len(beam.sizes)):
        for at in range(beam.sizes[document]):
            node = beam.ids[document, at]
            place = count
            if len(places):
                place = places[node]
                places[node] += 1
            visited[place], owners[place] = first_node + node, document
            so_far[place] = beam.scores[document, at]
            count += 1
    return visited, owners, so_far


@jitted()
def _add_up(weights: Any, rows: Any, values: Any, hits: int, sums: Any) -> None:
    # Add the weights in some rows, times the document's values, to its children's sums.
    _, _, row_entries, entry_children, entry_weights, _ = weights
    for hit in range(hits):
        row, value = U(rows[U(hit)]), values[U(hit)]
        for entry in range(row_entries[row], row_entries[row + U(1)]):
            sums[U(entry_children[U(entry)])] += value * entry_weights[U(entry)]


@jitted()
def _to_log_probabilities(sums: Any, children: int, above: Any, loss: int) -> None:
    # Turn sums into log-probabilities of paths; the compiler makes vectors of the first loop.
    if loss == SQUARED_HINGE:
        for child in range(children):
            sums[U(child)] = log_probability(sums[U(child)], SQUARED_HINGE) + above
    else:
        for child in range(children):
            sums[U(child)] = log_probability(sums[U(child)], loss) + above


@jitted()
def _offer_children(sums: Any, ids: Any, first_child: int, children: int, beam: Beam, document: int) -> None:
    # Take into a document's beam those of a node's children that are among its best.
    top_scores, top_ids, size = beam.scores[document], beam.ids[document], beam.sizes[document]
    keep = len(top_scores)
    for child in range(children):
        if size < keep or sums[U(child)] >= top_scores[0]:
            size = offer(top_scores, top_ids, size, keep, sums[U(child)], ids[U(first_child + child)])
    beam.sizes[document] = size


@compiled(writes=2)
def search_tree(
    vectors: CsrArrays,
    first: int,
    weights: Any,
    bitmaps: Bitmaps,
    tree: TreeArrays,
    loss: int,
    beam: int,
    discount: float,
    first_level: int,
    begin_ids: NDArray[np.int32],
    begin_scores: Floats,
    ids: NDArray[np.int32],
    scores: Floats,
) -> None:
    # Write to ids and scores, (documents, k) from document `first` on, the k best labels of each, best first. The
    # search begins at these nodes of a level (-1: no more), which have these log-probabilities.
    documents, levels = len(ids), len(tree.level_starts)
    node_rows, features, biases = weights[0], weights[1], weights[5]
    longest = 1
    for document in range(first, first + documents):
        longest = max(longest, vectors.indptr[document + 1] - vectors.indptr[document] + 1)
    widest = 0
    for node in range(len(tree.child_starts) - 1):
        widest = max(widest, tree.child_starts[node + 1] - tree.child_starts[node])
    rows, values = np.empty(longest, np.int64), np.empty(longest, np.float32)
    sums = np.empty(widest, np.float32)
    now = _first_beam(begin_ids[first : first + documents], begin_scores[first : first + documents])
    for level in range(first_level, levels):
        first_node, is_last = tree.level_starts[level], level == levels - 1
        nodes = (len(tree.child_starts) - 1 if is_last else tree.level_starts[level + 1]) - first_node
        visited, owners, so_far = _visits(now, first_node, nodes)
        if is_last:
            now = Beam(np.zeros(documents, np.int64), ids, scores)
        else:
            below = tree.child_starts[first_node + nodes] - tree.child_starts[first_node]
            now = _empty_beam(documents, min(beam, below))
        for visit in range(len(visited)):
            node, document = visited[visit], owners[visit]
            hits = find_rows(node, node_rows, features, bitmaps, vectors, first + document, rows, values)
            first_child = tree.child_starts[node]
            children = tree.child_starts[node + 1] - first_child
            for child in range(children):
                sums[U(child)] = biases[U(first_child + child)]
            _add_up(weights, rows, values, hits, sums)
            _to_log_probabilities(sums, children, so_far[visit] * np.float32(discount), loss)
            _offer_children(sums, tree.child_ids, first_child, children, now, document)
    for document in range(documents):
        best_first(now.scores[document], now.ids[document], now.sizes[document])
