"""The best labels of a text in label trees whose nodes are logistic classifiers of dense vectors."""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.dense_topk import dot, least_logit
from xmtc.kernels.topk import best_first, offer

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
D = np.float64
FEW_NODES = 64  # room for nodes that wait, at first


class LabelTrees(NamedTuple):
    """Trees over the same labels, their nodes in one list: roots, inner nodes and labels.

    Node n has the children first_child[n] to first_child[n] + children[n], or is the label labels[n], else -1.
    `leaves` are the nodes of each tree's labels, `levels` each node's distance from its root. The score of a node is
    base[n] + its weights x the text's vector; where `base` is infinite nothing was to be learned, and the probability
    is 0 or 1 whatever the text.
    """

    roots: Ints
    first_child: Ints
    children: Ints
    parents: Ints
    levels: Ints
    labels: Ints
    leaves: Ints  # (trees, labels)
    base: Floats


@jitted()
def _score(node: int, vector: Any, base: Any, weights: Any) -> Any:
    return base[node] + dot(weights[node], vector) if np.isfinite(base[node]) else base[node]


@jitted()
def _logistic(score: Any) -> Any:
    # A file may hold weights whose sum is no number; they must still give an order.
    probability = D(1) / (D(1) + np.exp(-D(score)))
    return probability if probability > 0 else D(0)


@jitted()
def _conditional(node: int, vector: Any, base: Any, weights: Any) -> Any:
    # The probability that a label below the node is relevant, if one below its parent is.
    return _logistic(_score(node, vector, base, weights))


@jitted()
def _path_probability(node: int, vector: Any, parents: Any, base: Any, weights: Any) -> Any:
    # The product of the probabilities from a node up to its root.
    product = D(1)
    while node >= 0 and product > 0:
        product *= _conditional(node, vector, base, weights)
        node = parents[node]
    return product


@jitted()
def _worse(values: Any, nodes: Any, a: int, b: int) -> Any:
    return values[a] < values[b] or (values[a] == values[b] and nodes[a] > nodes[b])


@jitted()
def _push(values: Any, nodes: Any, size: int, value: Any, node: int) -> None:
    # Into a heap with the best on top: the most probable, and on ties the one with the lower number.
    values[size], nodes[size] = value, node
    while size > 0:
        above = (size - 1) // 2
        if not _worse(values, nodes, above, size):
            return
        values[above], values[size] = values[size], values[above]
        nodes[above], nodes[size] = nodes[size], nodes[above]
        size = above


@jitted()
def _drop_first(values: Any, nodes: Any, size: int) -> None:
    # Take the best of a heap of `size` away.
    last = size - 1
    values[0], nodes[0] = values[last], nodes[last]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= last:
            return
        if child + 1 < last and _worse(values, nodes, child, child + 1):
            child += 1
        if not _worse(values, nodes, at, child):
            return
        values[at], values[child] = values[child], values[at]
        nodes[at], nodes[child] = nodes[child], nodes[at]
        at = child


@jitted()
def _search(
    trees: LabelTrees, root: int, vector: Any, weights: Any, beam: int, depth: int, scores: Any, ids: Any
) -> int:
    # Best-first: the k labels of a tree with the largest probability into the heap (scores, ids); returns how many.
    # No node is more probable than its parent, so when none that waits can beat the worst of the list, no other label
    # can. With a beam at most so many nodes of each level are expanded; they are the best ones of that level, because
    # nodes come in falling order.
    k = len(scores)
    values, nodes = np.empty(FEW_NODES, np.float64), np.empty(FEW_NODES, np.int32)
    expanded = np.zeros(depth, np.int64)
    _push(values, nodes, 0, _conditional(root, vector, trees.base, weights), root)
    waiting, found = 1, 0
    while waiting > 0:
        above, parent = values[0], nodes[0]
        if found == k and above < scores[0]:
            break
        _drop_first(values, nodes, waiting)
        waiting -= 1
        level = trees.levels[parent]
        if beam > 0 and expanded[level] == beam:
            continue
        expanded[level] += 1
        begin = trees.first_child[parent]
        count = trees.children[parent]
        if waiting + count > len(values):
            room = np.empty(2 * (waiting + count), np.float64)
            room[:waiting] = values[:waiting]
            values = room
            more = np.empty(2 * (waiting + count), np.int32)
            more[:waiting] = nodes[:waiting]
            nodes = more
        worst, least = D(-1), np.float32(-np.inf)
        for node in range(begin, begin + count):
            if found == k and scores[0] > worst:
                worst = scores[0]
                least = least_logit(worst, above)
            score = _score(node, vector, trees.base, weights)
            if score < least:
                continue
            probability = above * _logistic(score)
            if found == k and probability < scores[0]:
                continue
            if trees.labels[node] >= 0:
                found = offer(scores, ids, found, k, probability, trees.labels[node])
            else:
                _push(values, nodes, waiting, probability, node)
                waiting += 1
    return found


@compiled(parallel=True, small=lambda _trees, vectors, *_: len(vectors) == 1)
def best_in_trees(
    trees: LabelTrees, vectors: Floats, weights: Floats, beam: int, k: int
) -> tuple[Ints, NDArray[np.float64]]:
    # (ids, probabilities) of the k best labels of each vector, best first, ties to the lower id; then -1. With several
    # trees the labels that any of them lists get the mean of their probabilities in all trees.
    texts, count = len(vectors), len(trees.roots)
    ids = np.full((texts, k), -1, np.int32)
    probabilities = np.zeros((texts, k), np.float64)
    depth = int(trees.levels.max())
    for text in numba.prange(texts):
        vector = vectors[text]
        if count == 1:
            found = _search(trees, trees.roots[0], vector, weights, beam, depth, probabilities[text], ids[text])
            best_first(probabilities[text], ids[text], found)
            continue
        listed = np.empty(count * k, np.int32)
        size = 0
        for tree in range(count):
            scores, labels = np.empty(k, np.float64), np.empty(k, np.int32)
            found = _search(trees, trees.roots[tree], vector, weights, beam, depth, scores, labels)
            listed[size : size + found] = labels[:found]
            size += found
        listed = np.sort(listed[:size])
        found = 0
        for place in range(size):
            if place and listed[place] == listed[place - 1]:
                continue
            total = D(0)
            for tree in range(count):
                leaf = trees.leaves[tree, listed[place]]
                total += _path_probability(leaf, vector, trees.parents, trees.base, weights)
            found = offer(probabilities[text], ids[text], found, k, total / count, listed[place])
        best_first(probabilities[text], ids[text], found)
    return ids, probabilities


@compiled()
def path_probabilities(trees: LabelTrees, vector: Floats, weights: Floats, label: int) -> NDArray[np.float64]:
    # The probability of one label in each tree.
    found = np.empty(len(trees.roots), np.float64)
    for tree in range(len(trees.roots)):
        found[tree] = _path_probability(trees.leaves[tree, label], vector, trees.parents, trees.base, weights)
    return found
