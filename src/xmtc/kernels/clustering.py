"""Splitting sparse unit vectors into clusters: balanced 2-means and k-means, both by cosine."""

# ruff: noqa: D103, NPY002 - kernels; what each does stands in its first comment, and numba compiles np.random's calls
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.csr import CsrArrays, local_rows

Ints = NDArray[Any]

PIECES = 8  # of parallel work


@compiled()
def balanced_split(
    vectors: CsrArrays, width: int, members: Ints, smallest_gain: float, max_rounds: int, seed: int
) -> NDArray[np.int64]:
    # Reorder `members` (rows of a matrix of `width` columns) so that the first half and the rest are two spherical
    # clusters whose sizes differ by at most 1 (the first half is the smaller one). Starts from two random members.
    rows, features = local_rows(vectors, members, width)
    count = len(members)
    np.random.seed(seed)
    first = np.random.randint(count)
    second = (first + 1 + np.random.randint(count - 1)) % count
    centres = np.zeros((2, len(features)), np.float32)
    for entry in range(rows.indptr[first], rows.indptr[first + 1]):
        centres[0, rows.indices[entry]] = rows.data[entry]
    for entry in range(rows.indptr[second], rows.indptr[second + 1]):
        centres[1, rows.indices[entry]] = rows.data[entry]
    lead = np.empty(count, np.float32)
    nearness = np.empty((2, count), np.float32)
    order = np.arange(count)
    half = count // 2
    before = -np.inf
    for _ in range(max_rounds):
        for row in range(count):
            a, b = np.float32(0), np.float32(0)
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                feature = rows.indices[entry]
                a += rows.data[entry] * centres[0, feature]
                b += rows.data[entry] * centres[1, feature]
            nearness[0, row], nearness[1, row] = a, b
            lead[row] = b - a
        order = np.argsort(lead, kind="mergesort")
        objective = 0.0
        for at in range(count):
            objective += nearness[0 if at < half else 1, order[at]]
        objective /= count
        if objective - before < smallest_gain:
            break
        before = objective
        centres[:] = 0
        for at in range(count):
            side = 0 if at < half else 1
            row = order[at]
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                centres[side, rows.indices[entry]] += rows.data[entry]
        for side in range(2):
            square = 0.0
            for feature in range(len(features)):
                square += centres[side, feature] * centres[side, feature]
            if square > 0:
                scale = np.float32(1 / np.sqrt(square))
                for feature in range(len(features)):
                    centres[side, feature] *= scale
    split = np.empty(count, np.int64)
    for at in range(count):
        split[at] = members[order[at]]
    return split


@compiled(parallel=True)
def kmeans_split(
    vectors: CsrArrays, width: int, members: Ints, clusters: int, smallest_gain: float, max_rounds: int, seed: int
) -> NDArray[np.int32]:
    # The cluster of each member, 0 to clusters - 1: spherical k-means from distinct random members; clusters that end
    # with a single member are dissolved into the nearest others. Some numbers may stay unused.
    rows, features = local_rows(vectors, members, width)
    count = len(members)
    np.random.seed(seed)
    centres = np.zeros((len(features), clusters), np.float32)  # a feature's row is read at once for all clusters
    chosen = np.random.permutation(count)[:clusters]
    for cluster in range(clusters):
        row = chosen[cluster]
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            centres[rows.indices[entry], cluster] = rows.data[entry]
    scale = np.ones(clusters, np.float32)
    assigned = np.zeros(count, np.int32)
    objective = _assign(rows, centres, scale, assigned)
    for _ in range(max_rounds):
        scale = _move_centres(rows, centres, assigned)
        before = objective
        objective = _assign(rows, centres, scale, assigned)
        if objective - before < smallest_gain:
            break
    sizes = np.bincount(assigned, minlength=clusters)
    if sizes.max() > 1:
        for cluster in range(clusters):
            if sizes[cluster] <= 1:
                scale[cluster] = np.nan
        _assign(rows, centres, scale, assigned)
    return assigned


@jitted(parallel=True)
def _assign(rows: CsrArrays, centres: Any, scale: Any, assigned: Any) -> float:
    # Give each row to the nearest cluster, ties to the lower number; returns the mean cosine. A centre is a column of
    # `centres` times its scale, which is NaN for a cluster that gets no rows.
    indptr, indices, data = rows
    count, clusters = len(assigned), centres.shape[1]
    nearness = np.empty(count, np.float32)
    pieces = min(PIECES, count)
    for piece in numba.prange(pieces):
        scores = np.empty(clusters, np.float32)
        for row in range(piece * count // pieces, (piece + 1) * count // pieces):
            scores[:] = 0
            for entry in range(indptr[row], indptr[row + 1]):
                value = data[entry]
                feature = indices[entry]
                for cluster in range(clusters):
                    scores[cluster] += value * centres[feature, cluster]
            best, highest = 0, np.float32(-np.inf)
            for cluster in range(clusters):
                score = scores[cluster] * scale[cluster]
                if score > highest:  # never so for NaN
                    best, highest = cluster, score
            assigned[row] = best
            nearness[row] = highest
    total = 0.0
    for row in range(count):
        total += nearness[row]
    return total / count


@jitted(parallel=True)
def _move_centres(rows: CsrArrays, centres: Any, assigned: Any) -> Any:
    # Make each column of `centres` the sum of its cluster's rows; returns by what they are to be scaled to length 1.
    indptr, indices, data = rows
    features, clusters = centres.shape
    pieces = min(PIECES, clusters)
    for piece in numba.prange(PIECES):
        for feature in range(piece * features // PIECES, (piece + 1) * features // PIECES):
            for cluster in range(clusters):
                centres[feature, cluster] = 0
    for piece in numba.prange(pieces):  # each piece of work has clusters of its own, so none gets into another's way
        for row in range(len(assigned)):
            if assigned[row] % pieces == piece:
                for entry in range(indptr[row], indptr[row + 1]):
                    centres[indices[entry], assigned[row]] += data[entry]
    squares = np.zeros((PIECES, clusters), np.float64)
    for piece in numba.prange(PIECES):
        for feature in range(piece * features // PIECES, (piece + 1) * features // PIECES):
            for cluster in range(clusters):
                squares[piece, cluster] += centres[feature, cluster] * centres[feature, cluster]
    scale = np.empty(clusters, np.float32)
    for cluster in range(clusters):
        scale[cluster] = 1 / np.sqrt(max(squares[:, cluster].sum(), 1e-30))
    return scale
