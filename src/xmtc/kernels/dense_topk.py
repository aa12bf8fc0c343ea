"""The best of all labels for dense vectors: a label's score is the product of its weights with the vector."""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled
from xmtc.kernels.topk import best_first, offer

Floats = NDArray[np.float32]

FAST = {"reassoc", "nsz", "contract"}
TEXTS_A_TILE = 8  # that share the reading of a label's weights
LITTLE_WORK = 1 << 18  # products; one core has done them before others would have begun
LONGEST_RUN = 64  # products of which only the largest is looked at first
LARGEST = np.float32(1e4)  # score, of either sign
NEARLY_ONE, LOGIT_OF_NEARLY_ONE = 0.99999, 11.0
ROUNDING = 0.02  # of a logit up to that, at most


@numba.njit(nogil=True, fastmath=FAST, forceinline=True)  # cached with the kernels that call it
def dot(a: Any, b: Any) -> Any:
    total = np.float32(0)
    for at in range(np.uintp(len(a))):
        total += a[at] * b[at]
    return total


@compiled(parallel=True, small=lambda vectors, weights, _k: len(vectors) * weights.size < LITTLE_WORK)
def best_labels(vectors: Floats, weights: Floats, k: int) -> tuple[NDArray[np.int32], Floats, NDArray[np.float64]]:
    # (ids, scores, log of the sum of exp(score) over all labels) of the k labels with the largest score, ties to the
    # lower id. A few texts share the reading of the weights, and no text depends on which others are asked with it.
    texts = len(vectors)
    ids = np.full((texts, k), -1, np.int32)
    scores = np.zeros((texts, k), np.float32)
    logs = np.empty(texts, np.float64)
    tiles = (texts + TEXTS_A_TILE - 1) // TEXTS_A_TILE
    for tile in numba.prange(tiles):
        first = tile * TEXTS_A_TILE
        count = min(TEXTS_A_TILE, texts - first)
        sizes = np.zeros(TEXTS_A_TILE, np.int64)
        totals = np.zeros(TEXTS_A_TILE, np.float64)
        largest = np.full(TEXTS_A_TILE, -np.inf, np.float32)
        for label in range(len(weights)):
            for at in range(count):
                text = first + at
                score = dot(weights[label], vectors[text])
                # A model file may hold any numbers; they must still give an order. NaN is not above anything.
                score = min(score, LARGEST) if score > -LARGEST else -LARGEST
                if score > largest[at]:
                    totals[at] *= np.exp(largest[at] - score)
                    largest[at] = score
                totals[at] += np.exp(score - largest[at])
                if sizes[at] < k or score > scores[text, 0]:
                    sizes[at] = offer(scores[text], ids[text], sizes[at], k, score, label)
        for at in range(count):
            best_first(scores[first + at], ids[first + at], sizes[at])
            logs[first + at] = np.log(totals[at]) + largest[at]
    return ids, scores, logs


@numba.njit(nogil=True, fastmath={"nnan", "nsz"}, forceinline=True)  # cached with the kernel that calls it
def largest_of(values: Any) -> Any:
    best = np.float32(-np.inf)
    for at in range(np.uintp(len(values))):
        best = max(best, values[at])
    return best


@compiled(parallel=True, small=lambda products, *_: products.size < LITTLE_WORK)
def best_of_products(
    products: Floats, queries: Floats, vectors: Floats, k: int, margin: float
) -> tuple[NDArray[np.int32], Floats]:
    # (ids, scores) of the k vectors with the largest product with each query, ties to the lower id; k is at most their
    # number. `products` are the same, rounded by at most half the margin in a way that may depend on which queries are
    # multiplied together; those near the k-th best are computed once more, so that the result does not.
    count = len(queries)
    ids = np.full((count, k), -1, np.int32)
    scores = np.zeros((count, k), np.float32)
    length = min(LONGEST_RUN, max(1, len(vectors) // (4 * k)))
    runs = (len(vectors) + length - 1) // length
    for query in numba.prange(count):
        row, found, best = products[query], ids[query], scores[query]
        # k runs of products have one that is no smaller than the k-th largest of the runs' largest ones.
        tops = np.empty(runs, np.float32)
        for run in range(runs):
            tops[run] = largest_of(row[run * length : (run + 1) * length])
        size = 0
        for run in range(runs):
            if size < k or tops[run] > best[0]:
                size = offer(best, found, size, k, tops[run], run)
        least = best[0] - np.float32(margin)
        found[:] = -1
        best[:] = 0
        size = 0
        for run in range(runs):
            if tops[run] < least:
                continue
            for at in range(run * length, min((run + 1) * length, len(row))):
                if row[at] >= least:
                    score = dot(vectors[at], queries[query])
                    if size < k or score > best[0]:
                        size = offer(best, found, size, k, score, at)
        best_first(best, found, size)
    return ids, scores


@compiled(parallel=True, small=lambda vectors, listed, *_: listed.size * vectors.shape[1] < LITTLE_WORK)
def best_listed(
    vectors: Floats, listed: NDArray[np.int32], weights: Floats, biases: Floats, k: int
) -> tuple[NDArray[np.int32], Floats]:
    # (ids, scores) of the k best of each text's listed labels (-1: no more), ties to the lower id.
    texts = len(vectors)
    ids = np.full((texts, k), -1, np.int32)
    scores = np.zeros((texts, k), np.float32)
    for text in numba.prange(texts):
        size = 0
        for place in range(listed.shape[1]):
            label = listed[text, place]
            if label < 0:
                break
            score = dot(weights[label], vectors[text]) + biases[label]
            size = offer(scores[text], ids[text], size, k, score, label)
        best_first(scores[text], ids[text], size)
    return ids, scores


@numba.njit(inline="always")
def least_logit(worst: Any, above: Any) -> Any:
    # A logit below this has a probability that, times `above`, is below `worst`; a little lower still, for rounding.
    if not worst > 0 or not above > 0:
        return np.float32(-np.inf)
    share = worst / above
    if share > NEARLY_ONE:
        return np.float32(LOGIT_OF_NEARLY_ONE)
    return np.float32(np.log(share / (1 - share)) - ROUNDING)


@compiled(writes=2)
def offer_labels(
    values: Floats, labels: NDArray[np.int32], texts: Any, above: Any, scores: Floats, ids: NDArray[np.int32]
) -> None:
    # Offer values[j, i], the score of labels[j] for texts[i], to the heap (scores, ids) of that text. With `above`
    # they are logits of probabilities that count above[i] times, of which few are ever computed. Heaps are full from
    # the start, with -inf where there is nothing yet. NaN is not above anything.
    k, count = scores.shape[1], len(texts)
    least = np.empty(count, np.float32)
    for at in range(count):
        worst = scores[texts[at], 0]
        least[at] = worst if above is None else least_logit(worst, above[at])
    for place in range(len(labels)):
        row = values[place]
        found = False
        for at in range(count):  # without a branch, so that many are compared at once
            found |= row[at] >= least[at]
        if not found:
            continue
        for at in range(count):
            if row[at] >= least[at]:
                text = texts[at]
                score = row[at] if above is None else above[at] / (np.float32(1) + np.exp(-row[at]))
                if score >= scores[text, 0]:
                    offer(scores[text], ids[text], k, k, score, labels[place])
                    worst = scores[text, 0]
                    least[at] = worst if above is None else least_logit(worst, above[at])
