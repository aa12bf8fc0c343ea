"""The best of many sparse rows by dot product, through an inverted index, and votes of neighbours' labels."""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.topk import best_first, offer

Ints = NDArray[Any]
Floats = NDArray[np.float32]

U = np.uintp
TOGETHER = 4  # dense columns that are added at a time
BLOCKS = 64  # pieces of parallel work; each holds one row of scores
LITTLE_WORK = 1 << 15  # scores to look through; one core has done so before others would have begun
FEW_VOTES = 32  # queries, for the same reason


class DenseColumns(NamedTuple):
    """Columns of an index that many rows have, with their zeros: column c is values[places[c]] unless that is -1."""

    places: NDArray[np.int32]
    values: Floats


@compiled()
def dense_columns(columns: CsrArrays, rows: int, least: int, most: int) -> tuple[NDArray[np.int32], Floats]:
    # The arrays of `DenseColumns` for at most `most` columns, those with the most rows, `least` at the least. A column
    # whose rows do not rise may have one twice and stays as it is.
    indptr, indices, data = columns
    counts = indptr[1:] - indptr[:-1]
    places = np.full(len(counts), -1, np.int32)
    order = np.argsort(-counts, kind="mergesort")
    chosen = 0
    while chosen < min(most, len(order)) and counts[order[chosen]] >= least:
        chosen += 1
    values = np.zeros((chosen, rows), np.float32)
    place = 0
    for column in order[:chosen]:
        rising = True
        for entry in range(indptr[column] + 1, indptr[column + 1]):
            rising = rising and indices[entry - 1] < indices[entry]
        if rising:
            for entry in range(indptr[column], indptr[column + 1]):
                values[place, indices[entry]] = data[entry]
            places[column] = place
            place += 1
    return places, values


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


@jitted()
def _add_columns(queries: CsrArrays, query: int, index: CsrArrays, dense: DenseColumns, sums: Any) -> None:
    # Add the products of a query with all rows, in the order of the query's columns: of dense columns four at a time,
    # of the others only the rows that have them.
    query_indptr, query_indices, query_data = queries
    index_indptr, index_rows, index_data = index
    at, stop = query_indptr[query], query_indptr[query + 1]
    while at < stop:
        column, weight = query_indices[at], query_data[at]
        if dense.places[column] < 0:
            for entry in range(index_indptr[column], index_indptr[column + 1]):
                sums[U(index_rows[U(entry)])] += weight * index_data[U(entry)]
            at += 1
            continue
        first = dense.values[dense.places[column]]
        run = at + 1
        while run < min(at + TOGETHER, stop) and dense.places[query_indices[run]] >= 0:
            run += 1
        if run - at < TOGETHER:
            for row in range(len(sums)):
                sums[row] += weight * first[row]
            at += 1
            continue
        second = dense.values[dense.places[query_indices[at + 1]]]
        third = dense.values[dense.places[query_indices[at + 2]]]
        fourth = dense.values[dense.places[query_indices[at + 3]]]
        weight_2, weight_3, weight_4 = query_data[at + 1], query_data[at + 2], query_data[at + 3]
        for row in range(len(sums)):
            total = sums[row] + weight * first[row] + weight_2 * second[row]
            sums[row] = total + weight_3 * third[row] + weight_4 * fourth[row]
        at += TOGETHER


def _little_search(queries: CsrArrays, _columns: CsrArrays, _dense: DenseColumns, start: Floats, *_: Any) -> bool:
    count = len(queries.indptr) - 1
    return count < 2 or count * len(start) < LITTLE_WORK


@compiled(parallel=True, small=_little_search)
def nearest_rows(
    queries: CsrArrays, columns: CsrArrays, dense: DenseColumns, start: Floats, floor: float, k: int
) -> tuple[NDArray[np.int32], Floats]:
    # (ids, scores) of the k indexed rows with the largest start + dot product with each query; -1 where fewer are above
    # the floor. The index lists for each column the rows that have it (a CSC matrix).
    count = len(queries.indptr) - 1
    ids = np.full((count, k), -1, np.int32)
    scores = np.zeros((count, k), np.float32)
    blocks = min(BLOCKS, count)
    for block in numba.prange(blocks):
        sums = np.empty(len(start), np.float32)
        for query in range(block * count // blocks, (block + 1) * count // blocks):
            sums[:] = start
            _add_columns(queries, query, columns, dense, sums)
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
