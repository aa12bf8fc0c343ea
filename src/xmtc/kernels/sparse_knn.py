"""The best of many sparse rows by dot product, through an inverted index, and votes of neighbours' labels."""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.topk import best_first, offer

Ints = NDArray[Any]
Floats = NDArray[np.float32]

BLOCKS = 64  # pieces of parallel work; each holds one row of scores
LITTLE_WORK = 1 << 15  # scores to look through; one core has done so before others would have begun
FEW_VOTES = 32  # queries, for the same reason


@jitted()
def select_top(values: Any, floor: Any, k: int, top_ids: Any, top_scores: Any) -> int:
    # The k largest values above the floor, falling, ties to the lower position; returns how many there are.
    size = 0
    for at in range(len(values)):
        value = values[at]
        # "Not above" rather than "at most": so NaN, which a damaged model may bring, is never selected.
        if not value > floor or (size == k and size > 0 and value <= top_scores[0]):
            continue
        size = offer(top_scores, top_ids, size, k, value, at)
    best_first(top_scores, top_ids, size)
    return size


def _little_search(queries: CsrArrays, _columns: CsrArrays, start: Floats, *_: Any) -> bool:
    count = len(queries.indptr) - 1
    return count < 2 or count * len(start) < LITTLE_WORK


@compiled(parallel=True, small=_little_search)
def nearest_rows(
    query_rows: CsrArrays, columns: CsrArrays, start: Floats, floor: float, k: int
) -> tuple[NDArray[np.int32], Floats]:
    # (ids, scores) of the k indexed rows with the largest start + dot product with each query; -1 where fewer are above
    # the floor. The index lists for each column the rows that have it (a CSC matrix).
    query_indptr, query_indices, query_data = query_rows
    index_indptr, index_rows, index_data = columns
    queries = len(query_indptr) - 1
    ids = np.full((queries, k), -1, np.int32)
    scores = np.zeros((queries, k), np.float32)
    blocks = min(BLOCKS, queries)
    for block in numba.prange(blocks):
        sums = np.empty(len(start), np.float32)
        for query in range(block * queries // blocks, (block + 1) * queries // blocks):
            sums[:] = start
            for place in range(query_indptr[query], query_indptr[query + 1]):
                column = query_indices[place]
                weight = query_data[place]
                for entry in range(index_indptr[column], index_indptr[column + 1]):
                    sums[index_rows[entry]] += weight * index_data[entry]
            select_top(sums, floor, k, ids[query], scores[query])
    return ids, scores


@compiled(parallel=True, small=lambda neighbours, *_: len(neighbours) <= FEW_VOTES)
def vote(
    neighbours: NDArray[np.int32], weights: Floats, target_indptr: Ints, target_indices: Ints, labels: int, k: int
) -> tuple[NDArray[np.int32], Floats]:
    # (ids, scores) of the k labels with the most votes; a neighbour votes with its weight for each of its labels,
    # and the score is the share of all weight. -1 where fewer labels got a vote.
    queries = len(neighbours)
    ids = np.full((queries, k), -1, np.int32)
    scores = np.zeros((queries, k), np.float32)
    blocks = min(BLOCKS, queries)
    for block in numba.prange(blocks):
        votes = np.zeros(labels, np.float64)
        touched = np.empty(labels, np.int32)
        for query in range(block * queries // blocks, (block + 1) * queries // blocks):
            total = 0.0
            count = 0
            for nearby in range(neighbours.shape[1]):
                row = neighbours[query, nearby]
                if row < 0:
                    break
                weight = np.float64(weights[query, nearby])
                if not weight > 0:
                    continue
                total += weight
                for place in range(target_indptr[row], target_indptr[row + 1]):
                    label = target_indices[place]
                    if votes[label] == 0:
                        touched[count] = label
                        count += 1
                    votes[label] += weight
            # In order of label, so that ties go to the lower id.
            voted = np.sort(touched[:count])
            shares = np.empty(count, np.float32)
            for at in range(count):
                shares[at] = votes[voted[at]] / total
                votes[voted[at]] = 0
            found = select_top(shares, 0.0, k, ids[query], scores[query])
            for at in range(found):
                ids[query, at] = voted[ids[query, at]]
    return ids, scores
