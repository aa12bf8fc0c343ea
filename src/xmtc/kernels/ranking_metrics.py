"""Compiled loops of the ranking metrics: which listed labels are relevant, and the metrics of each document.

All take the truth as the two arrays of a CSR matrix with sorted rows (`indptr` int64, `indices` int32). The metrics
themselves are explained in `xmtc.evaluation.ranking`; `_measure` is the one place where they are computed.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.sparse import Csr
from xmtc.kernels import compiled, jitted

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]

#: What `_measure` writes for a document and a k; PSP and PSnDCG are ratios of sums, so both parts are needed.
COLUMNS = ("P", "R", "RP", "F1", "nDCG", "PSP", "best PSP", "PSnDCG", "best PSnDCG")
WIDTH = len(COLUMNS)


@compiled(parallel=True)
def find_hits(ids: Ints, indptr: Ints, indices: Ints) -> NDArray[np.bool_]:
    """Whether each listed label, `ids[n, k]` with -1 for none, is among the document's true labels."""
    documents, k = ids.shape
    hits = np.zeros((documents, k), np.bool_)
    for document in numba.prange(documents):
        for position in range(k):
            label = ids[document, position]
            if label < 0:
                continue
            low, high = indptr[document], indptr[document + 1]
            while low < high:
                middle = (low + high) // 2
                if indices[middle] < label:
                    low = middle + 1
                else:
                    high = middle
            hits[document, position] = low < indptr[document + 1] and indices[low] == label
    return hits


@jitted()
def _measure(
    ids: Ints,
    hits: NDArray[np.bool_],
    truth: Ints,
    weights: Floats,
    group: Ints,
    wanted: int,
    ks: Ints,
    normalise: bool,
    best: Floats,
    out: Floats,
) -> None:
    """Write the COLUMNS of one document to `out[len(ks), WIDTH]`, counting only true labels of the wanted group.

    `ks` rises; `best` is scratch space for the weights of as many true labels as count at `ks[-1]`.
    """
    depth = ks[-1]
    size = 0
    kept = 0
    # The `depth` largest weights of the true labels, in falling order: what an ideal list would collect.
    for label in truth:
        if group[label] != wanted:
            continue
        size += 1
        weight = weights[label]
        if kept < depth:
            place = kept
            kept += 1
        elif weight > best[depth - 1]:
            place = depth - 1
        else:
            continue
        while place > 0 and best[place - 1] < weight:
            best[place] = best[place - 1]
            place -= 1
        best[place] = weight

    out[:] = 0.0
    if size == 0:
        return
    found = 0
    dcg = ideal_dcg = gain = ideal_gain = discounted = ideal_discounted = 0.0
    last = max(len(ids), kept)  # behind this place nothing is listed and nothing could be: k may be far larger
    position = 0
    for row in range(len(ks)):
        k = ks[row]
        while position < min(k, last):
            discount = 1.0 / np.log2(position + 2.0)
            if position < kept:
                ideal_dcg += discount
                ideal_gain += best[position]
                ideal_discounted += best[position] * discount
            if position < len(ids) and hits[position] and group[ids[position]] == wanted:
                weight = weights[ids[position]]
                found += 1
                dcg += discount
                gain += weight
                discounted += weight * discount
            position += 1
        share = ideal_dcg if normalise else 1.0
        out[row, 0] = found / k
        out[row, 1] = found / size
        out[row, 2] = found / min(k, size)
        out[row, 3] = 2.0 * found / (k + size)
        out[row, 4] = dcg / ideal_dcg
        out[row, 5] = gain
        out[row, 6] = ideal_gain
        out[row, 7] = discounted / share
        out[row, 8] = ideal_discounted / share


@jitted()
def _most_counted(indptr: Ints, ks: Ints) -> Any:
    """How many true labels of a document can count at the largest k."""
    longest = 0
    for document in range(len(indptr) - 1):
        longest = max(longest, indptr[document + 1] - indptr[document])
    return min(longest, ks[-1])


@compiled(parallel=True)
def measure_documents(
    ids: Ints,
    hits: NDArray[np.bool_],
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    ks: Ints,
    normalise: bool,
) -> Floats:
    """The COLUMNS of each document: an array (documents, len(ks), WIDTH)."""
    documents = len(ids)
    values = np.empty((documents, len(ks), WIDTH))
    everything = np.zeros(len(weights), np.int8)
    room = _most_counted(indptr, ks)
    chunks = (documents + 1023) // 1024
    for chunk in numba.prange(chunks):
        best = np.empty(room)
        for document in range(chunk * 1024, min(documents, (chunk + 1) * 1024)):
            truth = indices[indptr[document] : indptr[document + 1]]
            _measure(
                ids[document], hits[document], truth, weights, everything, 0, ks, normalise, best, values[document]
            )
    return values


@compiled(parallel=True)
def sum_by_group(
    ids: Ints,
    hits: NDArray[np.bool_],
    indptr: Ints,
    indices: Ints,
    weights: Floats,
    group: Ints,
    groups: int,
    ks: Ints,
    normalise: bool,
) -> tuple[Floats, Ints]:
    """The COLUMNS summed over documents for each group of labels, and the documents that carry a label of the group.

    `group` holds the group of each label, -1 for none. The result does not depend on the number of threads: each chunk
    of documents has its own sums, added up in order at the end.
    """
    documents = len(ids)
    chunks = min(256, (documents + 1023) // 1024)
    sums = np.zeros((chunks, groups, len(ks), WIDTH))
    carriers = np.zeros((chunks, groups), np.int64)
    room = _most_counted(indptr, ks)
    for chunk in numba.prange(chunks):
        best = np.empty(room)
        values = np.empty((len(ks), WIDTH))
        last_seen = np.full(groups, -1, np.int64)  # the last document in which a group was met
        for document in range(documents * chunk // chunks, documents * (chunk + 1) // chunks):
            truth = indices[indptr[document] : indptr[document + 1]]
            for label in truth:
                wanted = group[label]
                if wanted < 0 or last_seen[wanted] == document:
                    continue
                last_seen[wanted] = document
                _measure(ids[document], hits[document], truth, weights, group, wanted, ks, normalise, best, values)
                carriers[chunk, wanted] += 1
                _add_table(values, sums[chunk, wanted])
    # Added up here: numba's own sum of arrays takes five seconds to compile, most of it for errors that cannot happen.
    total, carrying = np.zeros((groups, len(ks), WIDTH)), np.zeros(groups, np.int64)
    for chunk in range(chunks):
        for at in range(groups):
            carrying[at] += carriers[chunk, at]
            _add_table(sums[chunk, at], total[at])
    return total, carrying


@jitted()
def _add_table(table: Any, total: Any) -> None:
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            total[row, column] += table[row, column]


def csr_rows(matrix: Csr) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(indptr, indices) of one type each, whatever scipy chose, so that a kernel is compiled once."""
    return matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False)


def ndcg_of_lists(ids: NDArray[np.integer], targets: Csr) -> NDArray[np.float64]:
    """nDCG of each document's list of labels at its full length; 0 for a document without labels.

    >>> from xmtc.corpus.sparse import make_csr
    >>> relevant = make_csr(np.ones(1, np.float32), np.array([7]), np.array([0, 1, 1]), (2, 9))
    >>> ndcg_of_lists(np.array([[7, 3], [4, 5]]), relevant).tolist()
    [1.0, 0.0]
    """
    lists, truth = np.ascontiguousarray(ids, np.int32), csr_rows(targets)
    ks, weights = np.array([lists.shape[1]], np.int64), np.ones(targets.shape[1])
    values = measure_documents(lists, find_hits(lists, *truth), *truth, weights, ks, True)
    return values[:, 0, COLUMNS.index("nDCG")]
