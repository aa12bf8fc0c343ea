"""Stochastic gradient descent for fastText: a text is the mean of its features' vectors, labels are rows of weights.

One text after the other is what fastText does. Here `together` texts share the reading of all labels' weights, as three
products of matrices, which is many times as fast. For the labels' weights the result is
still that of one text after the other: what the first text changes in the score of the second is the step's size x its
slope x the product of the two texts' vectors, so the slopes are found in order before any weight is touched. Only the
features' vectors wait until all texts of the group are done. No thread writes where another one reads, so the same
numbers always give the same result.

With a label tree as output (`train_label_trees`) a text needs a few hundred of the weights, so there is no product of
matrices to gain from, and one text really follows the other.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.dense_topk import FAST, dot
from xmtc.kernels.label_trees import LabelTrees

Ints = NDArray[Any]
Floats = NDArray[np.float32]

TILE = 4096  # labels whose weights are changed at a time: bounds the room for the change
CURVATURE = np.float32(0.25)  # the largest second derivative of the logistic loss
F = np.float32
U = np.uintp


@numba.njit(nogil=True, fastmath=FAST, forceinline=True)  # cached with the kernels that call it, as the three below
def _add(total: Any, vector: Any, factor: Any) -> None:
    for at in range(U(len(total))):
        total[at] += factor * vector[at]


@numba.njit(nogil=True, fastmath=FAST, forceinline=True)
def _step(weights: Any, vector: Any, factor: Any, change: Any, slope: Any, keep: Any) -> None:
    # change += slope x weights, and then weights = keep x weights + factor x vector.
    for at in range(U(len(weights))):
        old = weights[at]
        change[at] += slope * old
        weights[at] = keep * old + factor * vector[at]


@numba.njit(nogil=True, forceinline=True)
def _mean(table: Any, rows: Any, shares: Any, first: int, last: int, mean: Any) -> None:
    # Of the features' vectors, each with its share; without shares all count the same.
    mean[:] = 0
    equal = F(1) / F(max(1, last - first))
    for place in range(first, last):
        _add(mean, table[rows[place]], shares[place] if len(shares) else equal)


@numba.njit(nogil=True, forceinline=True)
def _spread(table: Any, rows: Any, shares: Any, first: int, last: int, change: Any, rate: Any) -> None:
    # The inverse of the mean: each feature of the text takes its share of the change.
    equal = rate / F(max(1, last - first))
    for place in range(first, last):
        _add(table[rows[place]], change, rate * shares[place] if len(shares) else equal)


@numba.njit(nogil=True, inline="always")
def _probability(score: Any) -> Any:
    return F(1) / (F(1) + np.exp(-score))


@numba.njit(nogil=True, inline="always")
def _bounded(step: Any, square: Any) -> Any:
    # The step's size for labels' weights and a text's vector of this squared length. It cannot lead beyond the minimum
    # of the text's own loss, however large the step or the vector: an implicit step, to first order.
    return step / (F(1) + CURVATURE * step * square)


@jitted()
def _softmax_slopes(scores: Any, label: int, slopes: Any) -> None:
    largest = scores.max()
    total = 0.0
    for at in range(len(scores)):
        slopes[at] = np.exp(scores[at] - largest)
        total += slopes[at]
    for at in range(len(scores)):
        slopes[at] *= F(-1.0 / total)
    slopes[label] += F(1)


@jitted()
def _logistic_slopes(scores: Any, base: Any, labels: Any, slopes: Any) -> None:
    for at in range(len(scores)):
        slopes[at] = -_probability(scores[at] + base)
    for label in labels:
        slopes[label] += F(1)


class Documents(NamedTuple):
    """Text i has the features rows[offsets[i] : offsets[i + 1]], each with its share, and likewise its labels.

    Without any shares all features of a text count the same.
    """

    rows: NDArray[np.int32]
    offsets: NDArray[np.int64]
    shares: NDArray[np.float32]
    labels: NDArray[np.int32]
    label_ends: NDArray[np.int64]


class Loss(NamedTuple):
    """Softmax over all labels, or a logistic loss for each, in which `base` is added to every score."""

    softmax: bool
    base: float


@compiled(writes=2)
def train_all_labels(
    documents: Documents,
    order: Ints,
    picked: Ints,
    loss: Loss,
    rate: float,
    decay: float,
    together: int,
    table: Floats,
    weights: Floats,
) -> None:
    # Change `table` (features' vectors) and `weights` (labels) by the texts of `order`. With softmax the one label of
    # the n-th of the order is picked[n]. The learning rate falls from `rate` by `decay` for each text.
    rows, offsets, shares = documents.rows, documents.offsets, documents.shares
    labels, size = weights.shape
    means = np.empty((together, size), np.float32)
    changes = np.empty((together, size), np.float32)
    steps = np.empty(together, np.float32)
    gram = np.empty((together, together), np.float32)
    scores = np.empty((together, labels), np.float32)
    slopes = np.empty((together, labels), np.float32)
    tile_slopes = np.empty(together * min(TILE, labels), np.float32)
    tile_change = np.empty((min(TILE, labels), size), np.float32)
    for first in range(0, len(order), together):
        count = min(together, len(order) - first)
        step = F(rate - decay * first)
        for text in range(count):
            document = order[first + text]
            _mean(table, rows, shares, offsets[document], offsets[document + 1], means[text])
        np.dot(means[:count], means[:count].T, gram.ravel()[: count * count].reshape(count, count))
        part = gram.ravel()[: count * count].reshape(count, count)
        for text in range(count):
            steps[text] = _bounded(step, part[text, text])
        np.dot(means[:count], weights.T, scores[:count])
        # Slopes, target - probability, are what the loss of each text wants from each label's score. The scores are
        # those before the first text; each text sees what the ones before it change.
        for text in range(count):
            for before in range(text):
                _add(scores[text], slopes[before], steps[before] * part[before, text])
            if loss.softmax:
                _softmax_slopes(scores[text], picked[first + text], slopes[text])
            else:
                document = order[first + text]
                ends = documents.label_ends[document], documents.label_ends[document + 1]
                _logistic_slopes(scores[text], F(loss.base), documents.labels[ends[0] : ends[1]], slopes[text])
        np.dot(slopes[:count], weights, changes[:count])
        for start in range(0, labels, TILE):
            stop = min(start + TILE, labels)
            here = tile_slopes[: count * (stop - start)].reshape(count, stop - start)
            for text in range(count):
                here[text] = slopes[text, start:stop] * steps[text]
            change = tile_change[: stop - start]
            np.dot(here.T, means[:count], change)
            for label in range(stop - start):
                _add(weights[start + label], change[label], F(1))
        # A text's change is made of the weights that it saw: those at first, and what the texts before it added.
        np.dot(slopes[:count], slopes[:count].T, part)
        for text in range(count):
            for before in range(text):
                _add(changes[text], means[before], steps[before] * part[before, text])
        for text in range(count):
            document = order[first + text]
            _spread(table, rows, shares, offsets[document], offsets[document + 1], changes[text], step)


@compiled(writes=2)
def train_sampled_labels(
    documents: Documents, order: Ints, chosen: Ints, rate: float, decay: float, table: Floats, weights: Floats
) -> None:
    # The same with a few labels a text: the first of chosen[n] is relevant; the others, drawn at random, are negatives
    # unless they are that one.
    rows, offsets, shares = documents.rows, documents.offsets, documents.shares
    size = weights.shape[1]
    mean = np.empty(size, np.float32)
    change = np.empty(size, np.float32)
    for at in range(len(order)):
        document = order[at]
        step = F(rate - decay * at)
        _mean(table, rows, shares, offsets[document], offsets[document + 1], mean)
        bounded = _bounded(step, dot(mean, mean))
        change[:] = 0
        for place in range(chosen.shape[1]):
            label = chosen[at, place]
            if place > 0 and label == chosen[at, 0]:
                continue
            slope = F(place == 0) - _probability(dot(weights[label], mean))
            _add(change, weights[label], slope)
            _add(weights[label], mean, bounded * slope)
        _spread(table, rows, shares, offsets[document], offsets[document + 1], change, step)


@jitted()
def _decide(node: int, relevant: bool, mean: Any, step: Any, keep: Any, base: Any, weights: Any, change: Any) -> None:
    # One decision of a tree learns from one text whether a label of it is below `node`.
    slope = F(relevant) - _probability(dot(weights[node], mean) + base[node])
    _step(weights[node], mean, step * slope, change, slope, keep)


@compiled(writes=2)
def train_label_trees(
    documents: Documents,
    order: Ints,
    trees: LabelTrees,
    rate: float,
    decay: float,
    weight_decay: float,
    table: Floats,
    weights: Floats,
) -> None:
    # Change `table` (features' vectors) and `weights` (nodes of label trees) by the texts of `order`, one after the
    # other. A text is a positive example of all nodes above its labels, and a negative one of their other children; a
    # text without labels is a negative example of the roots. Weights of these nodes, and vectors of the text's
    # features, shrink by step x `weight_decay`.
    rows, offsets, shares = documents.rows, documents.offsets, documents.shares
    size = weights.shape[1]
    mean = np.empty(size, np.float32)
    change = np.empty(size, np.float32)
    marked = np.full(len(weights), -1, np.int64)  # the last text with a label below the node
    waiting = np.empty(len(weights), np.int32)
    for at in range(len(order)):
        document = order[at]
        step = F(rate - decay * at)
        first, last = offsets[document], offsets[document + 1]
        _mean(table, rows, shares, first, last, mean)
        bounded = _bounded(step, dot(mean, mean))
        keep = max(F(0), F(1) - step * F(weight_decay))
        change[:] = 0
        for place in range(documents.label_ends[document], documents.label_ends[document + 1]):
            for tree in range(len(trees.roots)):
                node = trees.leaves[tree, documents.labels[place]]
                while node >= 0 and marked[node] != at:
                    marked[node] = at
                    node = trees.parents[node]
        for root in trees.roots:
            if np.isfinite(trees.base[root]):
                _decide(root, marked[root] == at, mean, bounded, keep, trees.base, weights, change)
            waiting[0] = root
            count = int(marked[root] == at)
            while count > 0:
                count -= 1
                parent = waiting[count]
                begin = trees.first_child[parent]
                for node in range(begin, begin + trees.children[parent]):
                    relevant = marked[node] == at
                    if np.isfinite(trees.base[node]):
                        _decide(node, relevant, mean, bounded, keep, trees.base, weights, change)
                    if relevant and trees.labels[node] < 0:
                        waiting[count] = node
                        count += 1
        if weight_decay > 0:
            for place in range(first, last):
                table[rows[place]] *= keep
        _spread(table, rows, shares, first, last, change, step)


@compiled(parallel=True, small=lambda _rows, offsets, *_: len(offsets) <= 2)
def text_vectors(rows: Ints, offsets: Ints, shares: Floats, table: Floats) -> Floats:
    # The mean of the vectors of each text's features.
    texts = len(offsets) - 1
    means = np.empty((texts, table.shape[1]), np.float32)
    for text in numba.prange(texts):
        _mean(table, rows, shares, offsets[text], offsets[text + 1], means[text])
    return means
