"""Local embeddings: products of pairs of vectors (SLEEC), learned partitions and pairwise ranking (AnnexML)."""

# ruff: noqa: D103, NPY002 - kernels; what each does stands in its first comment, and numba compiles np.random's calls
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.dense_topk import FAST, dot

Floats = NDArray[np.float32]
Graph = NDArray[np.int32]  # documents x neighbours, -1 where there are fewer

LARGEST = np.float32(20)  # exponent: beyond it a sigmoid is 0 or 1


@compiled()
def pair_products(indptr: Any, indices: Any, vectors: Floats) -> Floats:
    # For each entry (i, j) of a sparse matrix the product of vectors i and j.
    products = np.empty(len(indices), np.float32)
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            products[entry] = dot(vectors[row], vectors[indices[entry]])
    return products


@numba.njit(nogil=True, inline="always")
def _sigmoid(score: Any) -> Any:
    score = min(max(score, -LARGEST), LARGEST)
    return np.float32(1) / (np.float32(1) + np.exp(-score))


@numba.njit(nogil=True, inline="always")
def _score(documents: CsrArrays, row: int, weights: Any, cluster: int) -> Any:
    total = np.float32(0)
    for entry in range(documents.indptr[row], documents.indptr[row + 1]):
        total += documents.data[entry] * weights[cluster, documents.indices[entry]]
    return total


@numba.njit(nogil=True, forceinline=True)  # cached with the kernel that calls it
def _follow_gradient(
    documents: CsrArrays, row: int, slope: Any, weights: Any, sums: Any, squares: Any, rate: Any, l1: Any
) -> None:
    # A step of FTRL-proximal (McMahan et al. 2013) for one document: `sums` and `squares` are of its gradients so far.
    for entry in range(documents.indptr[row], documents.indptr[row + 1]):
        feature = documents.indices[entry]
        gradient = slope * documents.data[entry]
        before = np.sqrt(squares[feature])
        squares[feature] += gradient * gradient
        after = np.sqrt(squares[feature])
        sums[feature] += gradient - (after - before) / rate * weights[feature]
        size = abs(sums[feature]) - l1
        if size <= 0:
            weights[feature] = 0
        elif sums[feature] > 0:
            weights[feature] = -size * rate / (np.float32(1) + after)
        else:
            weights[feature] = size * rate / (np.float32(1) + after)


@compiled()
def learn_partition(
    documents: CsrArrays, width: int, graph: Graph, clusters: int, epochs: int, rate: float, l1: float, seed: int
) -> Floats:
    # Weights, clusters x features, by which a document and its neighbours come into the same cluster. Each document in
    # turn: its neighbours are examples for the cluster that it is in, and as many random documents are examples against
    # it. Clusters begin as random sets of documents.
    count = len(graph)
    weights = np.zeros((clusters, width), np.float32)
    sums = np.zeros((clusters, width), np.float32)
    squares = np.zeros((clusters, width), np.float32)
    step, shrinkage = np.float32(rate), np.float32(l1)
    np.random.seed(seed)
    begin = np.random.randint(0, clusters, count)
    for epoch in range(epochs):
        for row in np.random.permutation(count):
            cluster = begin[row]
            if epoch:
                best = np.float32(-np.inf)
                for other in range(clusters):
                    score = _score(documents, row, weights, other)
                    if score > best:
                        best, cluster = score, other
            for place in range(graph.shape[1]):
                near = graph[row, place]
                if near < 0:
                    break
                for example in range(2):
                    at = near if example == 0 else np.random.randint(count)
                    slope = _sigmoid(_score(documents, at, weights, cluster))
                    if example == 0:
                        slope -= np.float32(1)
                    _follow_gradient(
                        documents, at, slope, weights[cluster], sums[cluster], squares[cluster], step, shrinkage
                    )
    return weights


@numba.njit(nogil=True, fastmath=FAST, forceinline=True)  # cached with the kernel that calls it
def _embed(documents: CsrArrays, row: int, table: Any, out: Any) -> Any:
    # The sum of the vectors of a document's features, scaled to length 1; returns its length.
    out[:] = 0
    for entry in range(documents.indptr[row], documents.indptr[row + 1]):
        value = documents.data[entry]
        vector = table[documents.indices[entry]]
        for at in range(len(out)):
            out[at] += value * vector[at]
    length = np.sqrt(dot(out, out))
    if length > 0:
        out *= np.float32(1) / length
    return length


@numba.njit(nogil=True, fastmath=FAST, forceinline=True)  # cached with the kernel that calls it
def _move(documents: CsrArrays, row: int, gradient: Any, square: Any, table: Any, squares: Any, rate: Any) -> None:
    # A step of AdaGrad for the vectors of a document's features, with one rate for all numbers of a vector; `square` is
    # the mean square of the gradient's numbers.
    for entry in range(documents.indptr[row], documents.indptr[row + 1]):
        feature, value = documents.indices[entry], documents.data[entry]
        squares[feature] += value * value * square
        step = rate * value / np.sqrt(squares[feature])
        vector = table[feature]
        for at in range(len(gradient)):
            vector[at] -= step * gradient[at]


@compiled()
def learn_ranking(
    documents: CsrArrays,
    width: int,
    graph: Graph,
    dimensions: int,
    negatives: int,
    gamma: float,
    rate: float,
    epochs: int,
    seed: int,
) -> Any:
    # A vector for each feature, so that a document (the sum of its features' vectors) has a higher cosine with its
    # neighbours than with random documents: sum over neighbours of log(1 + sum of exp(-gamma (cosine - random's))).
    count, neighbours = graph.shape
    np.random.seed(seed)
    entries = max(1, documents.indptr[count])
    spread = np.sqrt(count / entries)
    table = (np.random.random((width, dimensions)) * (2 * spread) - spread).astype(np.float32)
    squares = np.ones(width, np.float32)  # 1 to begin with: features that are seldom met take small steps
    sharp, step = np.float32(gamma), np.float32(rate)
    own, gradient = np.empty(dimensions, np.float32), np.empty(dimensions, np.float32)
    others = np.empty((neighbours + negatives, dimensions), np.float32)
    rows = np.empty(neighbours + negatives, np.int64)
    lengths = np.empty(neighbours + negatives, np.float32)
    cosines = np.empty(neighbours + negatives, np.float32)
    slopes = np.empty(neighbours + negatives, np.float32)
    for _ in range(epochs):
        for row in np.random.permutation(count):
            right = 0
            while right < neighbours and graph[row, right] >= 0:
                rows[right] = graph[row, right]
                right += 1
            total = right
            for _ in range(negatives):
                wrong = np.random.randint(count)
                known = wrong == row
                for at in range(right):
                    known |= rows[at] == wrong
                if not known:
                    rows[total] = wrong
                    total += 1
            length = _embed(documents, row, table, own)
            if right == 0 or total == right or length == 0:
                continue
            for at in range(total):
                lengths[at] = _embed(documents, rows[at], table, others[at])
                cosines[at] = dot(own, others[at])
            slopes[:] = 0
            for near in range(right):
                odds = np.float32(0)
                for far in range(right, total):
                    odds += np.exp(min(sharp * (cosines[far] - cosines[near]), LARGEST))
                slopes[near] = -sharp * odds / (np.float32(1) + odds)
                for far in range(right, total):
                    share = np.exp(min(sharp * (cosines[far] - cosines[near]), LARGEST))
                    slopes[far] += sharp * share / (np.float32(1) + odds)
            gradient[:] = 0
            square = np.float32(0)  # of the pairs' gradients, each for itself
            for at in range(total):
                scale = slopes[at] / length
                for place in range(dimensions):
                    change = scale * (others[at, place] - cosines[at] * own[place])
                    gradient[place] += change
                    square += change * change
            for at in range(total):
                if lengths[at] > 0 and slopes[at] != 0:
                    scale = slopes[at] / lengths[at]
                    for place in range(dimensions):
                        others[at, place] = scale * (own[place] - cosines[at] * others[at, place])
                    mean = dot(others[at], others[at]) / np.float32(dimensions)
                    _move(documents, rows[at], others[at], mean, table, squares, step)
            _move(documents, row, gradient, square / np.float32(dimensions), table, squares, step)
    return table
