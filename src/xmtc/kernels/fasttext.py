"""Stochastic gradient descent for fastText: a text is the mean of its features' vectors, labels are rows of weights.

One text after the other is what fastText does. Here `together` texts share the reading of all labels' weights, as three
products of matrices, which is many times as fast. For the labels' weights the result is
still that of one text after the other: what the first text changes in the score of the second is the step's size x its
slope x the product of the two texts' vectors, so the slopes are found in order before any weight is touched. Only the
features' vectors wait until all texts of the group are done. No thread writes where another one reads, so the same
numbers always give the same result.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.dense_topk import FAST, dot

Ints = NDArray[Any]
Floats = NDArray[np.float32]

TILE = 4096  # labels whose weights are changed at a time: bounds the room for the change
CURVATURE = np.float32(0.25)  # the largest second derivative of the logistic loss
F = np.float32
U = np.uintp


@numba.njit(nogil=True, fastmath=FAST)  # cached with the kernels that call it, as the three below
def _add(total: Any, vector: Any, factor: Any) -> None:
    for at in range(U(len(total))):
        total[at] += factor * vector[at]


@numba.njit(nogil=True)
def _mean(table: Any, rows: Any, first: int, last: int, mean: Any) -> None:
    mean[:] = 0
    share = F(1) / F(max(1, last - first))
    for place in range(first, last):
        _add(mean, table[rows[place]], share)


@numba.njit(nogil=True)
def _spread(table: Any, rows: Any, first: int, last: int, change: Any, rate: Any) -> None:
    # The inverse of the mean: each feature of the text takes its share of the change.
    share = rate / F(max(1, last - first))
    for place in range(first, last):
        _add(table[rows[place]], change, share)


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
    """Text i has the features rows[offsets[i] : offsets[i + 1]], and likewise its labels."""

    rows: NDArray[np.int32]
    offsets: NDArray[np.int64]
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
    rows, offsets = documents.rows, documents.offsets
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
            _mean(table, rows, offsets[document], offsets[document + 1], means[text])
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
            _spread(table, rows, offsets[document], offsets[document + 1], changes[text], step)


@compiled(writes=2)
def train_sampled_labels(
    rows: Ints, offsets: Ints, order: Ints, chosen: Ints, rate: float, decay: float, table: Floats, weights: Floats
) -> None:
    # The same with a few labels a text: the first of chosen[n] is relevant; the others, drawn at random, are negatives
    # unless they are that one.
    size = weights.shape[1]
    mean = np.empty(size, np.float32)
    change = np.empty(size, np.float32)
    for at in range(len(order)):
        document = order[at]
        step = F(rate - decay * at)
        _mean(table, rows, offsets[document], offsets[document + 1], mean)
        bounded = _bounded(step, dot(mean, mean))
        change[:] = 0
        for place in range(chosen.shape[1]):
            label = chosen[at, place]
            if place > 0 and label == chosen[at, 0]:
                continue
            slope = F(place == 0) - _probability(dot(weights[label], mean))
            _add(change, weights[label], slope)
            _add(weights[label], mean, bounded * slope)
        _spread(table, rows, offsets[document], offsets[document + 1], change, step)


@compiled(parallel=True, small=lambda _rows, offsets, *_: len(offsets) <= 2)
def text_vectors(rows: Ints, offsets: Ints, table: Floats) -> Floats:
    # The mean of the vectors of each text's features.
    texts = len(offsets) - 1
    means = np.empty((texts, table.shape[1]), np.float32)
    for text in numba.prange(texts):
        _mean(table, rows, offsets[text], offsets[text + 1], means[text])
    return means
