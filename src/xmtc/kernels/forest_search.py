"""Prediction by document trees: each document's leaf in each tree, and the mean of the leaves' label shares."""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.clustered_tree import hashed
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.sparse_knn import select_top
from xmtc.kernels.tree_growth import TreeArrays, share_out

Ints = NDArray[Any]
Floats = NDArray[np.float32]


class Tail(NamedTuple):
    """PfastreXML's classifiers: a label's score is share^alpha x exp(-gamma / 2 |x - centroid|^2)^(1 - alpha)."""

    centroids: CsrArrays  # labels x features
    squares: Floats  # of each centroid's length; empty: there are no such classifiers
    alpha: float
    gamma: float


@jitted()
def _of_tree(rows: CsrArrays, width: int, seeds: Any, tree: int) -> CsrArrays:
    # The features as this tree knows them.
    if len(seeds):
        return hashed(rows, width, seeds[tree])
    return CsrArrays(rows.indptr, rows.indices.copy(), rows.data.copy())


@jitted()
def _send(trees: TreeArrays, root: int, rows: CsrArrays, table: Floats, leaves: Any) -> None:
    # The leaf below `root` of each document. A node's weights are laid out in `table`, features x children, which is 0
    # before and after, so that its documents read them together.
    documents = len(rows.indptr) - 1
    members = np.arange(documents)
    sides = np.empty(documents, np.int64)
    stack = [(root, 0, documents)]
    while len(stack):
        node, begin, end = stack.pop()
        first, count = trees.first_child[node], trees.children[node]
        if count == 0:
            for at in range(begin, end):
                leaves[members[at]] = node
            continue
        for child in range(count):
            for entry in range(trees.split_indptr[first + child], trees.split_indptr[first + child + 1]):
                table[trees.split_features[entry] * count + child] = trees.split_weights[entry]
        scores = np.empty(count, np.float32)
        for at in range(begin, end):
            row = members[at]
            scores[:] = trees.biases[first : first + count]
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                place, value = np.int64(rows.indices[entry]) * count, rows.data[entry]
                for child in range(count):
                    scores[child] += value * table[place + child]
            sides[at] = np.argmax(scores)
        for child in range(count):
            for entry in range(trees.split_indptr[first + child], trees.split_indptr[first + child + 1]):
                table[trees.split_features[entry] * count + child] = 0
        borders = share_out(members[begin:end], sides[begin:end], count)
        for child in range(count):
            if borders[child] < borders[child + 1]:
                below = first + child, begin + borders[child], begin + borders[child + 1]
                stack.append(below)


@compiled()
def find_leaves(
    trees: TreeArrays, roots: Ints, rows: CsrArrays, width: int, seeds: NDArray[np.uint64]
) -> NDArray[np.int32]:
    # Trees x documents: the node where each document ends. `width` columns of features; if there are `seeds`, one for
    # each tree, features are hashed to that many.
    leaves = np.empty((len(roots), len(rows.indptr) - 1), np.int32)
    most = np.int64(0)
    for count in trees.children:
        most = max(most, np.int64(count))
    table = np.zeros(width * most, np.float32)
    for tree in range(len(roots)):
        _send(trees, roots[tree], _of_tree(rows, width, seeds, tree), table, leaves[tree])
    return leaves


@compiled()
def leaf_labels(
    leaves: NDArray[np.int32], trees: TreeArrays, labels: int, k: int, rows: CsrArrays, width: int, tail: Tail
) -> tuple[NDArray[np.int32], Floats]:
    # (ids, scores) of the k labels with the largest mean share in the documents' leaves, trees x documents; or, with a
    # tail, with the best score of both. -1 where the leaves have fewer. `rows` are the documents' features.
    count, documents = leaves.shape
    ids = np.full((documents, k), -1, np.int32)
    scores = np.zeros((documents, k), np.float32)
    sums = np.zeros(labels, np.float64)
    touched = np.empty(labels, np.int32)
    values = np.zeros(width if len(tail.squares) else 0, np.float32)
    for document in range(documents):
        found = 0
        for tree in range(count):
            leaf = leaves[tree, document]
            for entry in range(trees.leaf_indptr[leaf], trees.leaf_indptr[leaf + 1]):
                label = trees.leaf_labels[entry]
                if sums[label] == 0:
                    touched[found] = label
                    found += 1
                sums[label] += trees.leaf_shares[entry]
        candidates = np.sort(touched[:found])  # so that ties go to the lower id
        shares = np.empty(found, np.float32)
        for at in range(found):
            shares[at] = sums[candidates[at]] / count
            sums[candidates[at]] = 0
        if len(tail.squares):
            _with_tail(rows, document, values, candidates, shares, tail)
        listed = select_top(shares, 0.0, k, ids[document], scores[document])
        for at in range(listed):
            ids[document, at] = candidates[ids[document, at]]
    return ids, scores


@jitted()
def _with_tail(rows: CsrArrays, row: int, values: Floats, candidates: Any, shares: Floats, tail: Tail) -> None:
    # Changes the shares of the candidates to the scores of forest and tail together; `values` is 0 before and after.
    square = 0.0
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        values[rows.indices[entry]] = rows.data[entry]
        square += rows.data[entry] * rows.data[entry]
    indptr, indices, data = tail.centroids
    for at in range(len(candidates)):
        label = candidates[at]
        product = 0.0
        for entry in range(indptr[label], indptr[label + 1]):
            product += data[entry] * values[indices[entry]]
        away = square + tail.squares[label] - 2 * product
        shares[at] = np.exp(tail.alpha * np.log(shares[at]) - (1 - tail.alpha) * 0.5 * tail.gamma * away)
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        values[rows.indices[entry]] = 0


@compiled()
def label_shares(trees: TreeArrays, label: int) -> Floats:
    # The label's share of each node's training documents, as far as the leaves below have kept it.
    nodes = len(trees.children)
    sums = np.zeros(nodes, np.float64)
    for node in range(nodes - 1, -1, -1):  # children have higher numbers than their parent
        if trees.children[node] == 0:
            for entry in range(trees.leaf_indptr[node], trees.leaf_indptr[node + 1]):
                if trees.leaf_labels[entry] == label:
                    sums[node] = trees.leaf_shares[entry] * np.float64(trees.documents[node])
        else:
            for child in range(trees.children[node]):
                sums[node] += sums[trees.first_child[node] + child]
    shares = np.empty(nodes, np.float32)
    for node in range(nodes):
        shares[node] = sums[node] / max(trees.documents[node], 1)
    return shares


@compiled()
def path_words(
    trees: TreeArrays, roots: Ints, row: CsrArrays, width: int, seeds: NDArray[np.uint64], shares: Floats
) -> tuple[NDArray[np.float64], float, float]:
    # How the mean share of a label comes about for one document, of which each tree's path tells: (what each of its
    # features adds, what no feature adds, the mean share at the roots). A step changes the share from the node's to the
    # child's. Features, and the bias, that speak for this child rather than the mean of the others divide the change
    # by how much they do. `shares` are those of all nodes.
    words = np.zeros(len(row.indices), np.float64)
    parts = np.empty(len(row.indices), np.float64)
    rest, start = 0.0, 0.0
    for tree in range(len(roots)):
        features = _of_tree(row, width, seeds, tree)
        node = roots[tree]
        start += shares[node]
        while trees.children[node] > 0:
            first, count = np.int64(trees.first_child[node]), np.int64(trees.children[node])
            scores = trees.biases[first : first + count].astype(np.float64)
            own = np.zeros((len(features.indices), count), np.float64)
            for child in range(count):
                begin, end = trees.split_indptr[first + child], trees.split_indptr[first + child + 1]
                for at in range(len(features.indices)):
                    entry = begin + np.searchsorted(trees.split_features[begin:end], features.indices[at])
                    if entry < end and trees.split_features[entry] == features.indices[at]:
                        own[at, child] = features.data[at] * trees.split_weights[entry]
                        scores[child] += own[at, child]
            best = np.argmax(scores)
            bias = (trees.biases[first + best] - trees.biases[first : first + count].mean()) * count / (count - 1)
            total = max(bias, 0.0)
            for at in range(len(parts)):
                parts[at] = max((own[at, best] - own[at].mean()) * count / (count - 1), 0.0)
                total += parts[at]
            change = np.float64(shares[first + best]) - shares[node]
            if total > 0:
                rest += change * max(bias, 0.0) / total
                for at in range(len(parts)):
                    words[at] += change * parts[at] / total
            else:
                rest += change
            node = first + best
    return words / len(roots), rest / len(roots), start / len(roots)
