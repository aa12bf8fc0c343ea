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

from typing import Any

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
def _chance(score: Any) -> Any:
    return F(1) / (F(1) + np.exp(-score))


@numba.njit(nogil=True, inline="always")
def _bounded(step: Any, square: Any) -> Any:
    # The step's size for labels' weights and a text's vector of this squared length. It cannot lead beyond the minimum
    # of the text's own loss, however large the step or the vector: an implicit step, to first order.
    return step / (F(1) + CURVATURE * step * square)


@jitted()
def _slopes(
    scores: Any, slopes: Any, together: int, labels: int, gram: Any, steps: Any, softmax: bool, order: Any, first: int,
    label_indptr: Any, label_indices: Any, picked: Any, base: Any,
) -> None:  # fmt: skip
    # What the loss of each text wants from each label's score, (texts, labels): target - chance. The scores are those
    # before the first text; each text sees what the ones before it change.
    for text in range(together):
        row = scores[text]
        for before in range(text):
            _add(row, slopes[before], steps[before] * gram[before, text])
        slope = slopes[text]
        if softmax:
            largest = row.max()
            total = 0.0
            for label in range(labels):
                slope[label] = np.exp(row[label] - largest)
                total += slope[label]
            for label in range(labels):
                slope[label] *= F(-1.0 / total)
            slope[picked[first + text]] += F(1)
        else:
            for label in range(labels):
                slope[label] = -_chance(row[label] + base)
            document = order[first + text]
            for place in range(label_indptr[document], label_indptr[document + 1]):
                slope[label_indices[place]] += F(1)


@compiled(writes=2)
def train_all_labels(
    rows: Ints, offsets: Ints, label_indptr: Ints, label_indices: Ints, order: Ints, picked: Ints, softmax: bool,
    base: float, rate: float, decay: float, together: int, table: Floats, weights: Floats,
) -> None:  # fmt: skip
    # Change `table` (features' vectors) and `weights` (labels) by the texts of `order`. Text i's features are
    # rows[offsets[i]:offsets[i + 1]], its labels label_indices[label_indptr[i]:...]; with softmax the one label of the
    # n-th of the order is picked[n], without it a chance is that of score + base. The step's size falls from `rate` by
    # `decay` for each text.
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
        _slopes(
            scores, slopes, count, labels, part, steps, softmax, order, first, label_indptr, label_indices, picked,
            F(base),
        )  # fmt: skip
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
    # The same with a few labels a text: of chosen[n] the first is right, and the others, drawn at random, are wrong
    # (unless it is the relevant one that was drawn).
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
            slope = F(place == 0) - _chance(dot(weights[label], mean))
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
