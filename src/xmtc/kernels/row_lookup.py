"""Which rows of a tree node's weights belong to a document's features: by bitmap, or by binary search.

Frequent features have low numbers (see `xmtc.text.tfidf`), so a node has most of the first features and few of the
last. The first ones are looked up in a bitmap of 32 features a word, whose upper half counts the rows before it: one
load says whether the feature has a row and which. The others, few of a document, are searched among the node's
remaining rows. A bitmap ends where it would take more memory than the features that it stands for, so a node with few
features has a short one or none.
"""

# ruff: noqa: ARG001, D103 - kernels; what each does stands in its first comment, and an intrinsic has arguments that
# only the code that it generates uses
from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted

U, W = np.uintp, np.uint64
WORD = 32  # features in a word of a bitmap
SHIFT = 5
BYTES_A_ROW = 4  # of a bitmap, at most: as many as the features of the rows themselves take


class Bitmaps(NamedTuple):
    """Node n's bitmap is words[starts[n]:starts[n + 1]], for the features below 32 times its length."""

    starts: NDArray[np.int64]
    words: NDArray[np.uint64]


def _count_ones(word: Any) -> Any:
    return W(int(word).bit_count())


@intrinsic
def _count_ones_compiled(_: Any, word: Any) -> Any:
    return types.uint64(types.uint64), lambda _context, build, _signature, arguments: build.ctpop(arguments[0])


count_ones = _count_ones if numba.config.DISABLE_JIT else _count_ones_compiled


@compiled()
def make_bitmaps(node_rows: Any, features: Any) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    # The arrays of `Bitmaps` for nodes whose features rise in node_rows[n]:node_rows[n + 1].
    nodes = len(node_rows) - 1
    starts = np.zeros(nodes + 1, np.int64)
    for node in range(nodes):
        first, row = node_rows[node], node_rows[node + 1] - 1
        while row >= first and 8 * ((features[row] >> SHIFT) + 1) > BYTES_A_ROW * (row + 1 - first):
            row -= 1
        starts[node + 1] = starts[node] + ((features[row] >> SHIFT) + 1 if row >= first else 0)
    words = np.zeros(starts[-1], np.uint64)
    for node in range(nodes):
        start, stop = starts[node], starts[node + 1]
        for row in range(node_rows[node], node_rows[node + 1]):
            place = start + (features[row] >> SHIFT)
            if place >= stop:
                break
            words[place] |= W(1) << W(features[row] & (WORD - 1))
        before = W(0)
        for place in range(start, stop):
            ones = count_ones(words[place])
            words[place] |= before << W(WORD)
            before += ones
    return starts, words


@numba.njit(inline="always")
def _find(values: Any, first: int, last: int, wanted: int) -> int:
    # Where `wanted` stands between two places of rising values, or -1. A sum instead of an if: the processor would
    # guess half of the branches wrong, and each wrong guess costs more than a step.
    left = last - first
    if left <= 0:
        return -1
    while left > 1:
        half = left >> 1
        first += half * (values[U(first + half)] <= wanted)
        left -= half
    return first if values[U(first)] == wanted else -1


@jitted()
def find_rows(
    node: int, node_rows: Any, features: Any, bitmaps: Bitmaps, vectors: Any, document: int, rows: Any, values: Any
) -> int:
    # The node's rows for the features of a document, and the features' values, in the document's order; returns how
    # many there are. Each is written, and counted only if there is such a row: again no branch to guess.
    doc_indptr, doc_indices, doc_data = vectors
    starts, words = bitmaps
    start, length = U(starts[node]), U(starts[node + 1] - starts[node])
    base, end = node_rows[node], node_rows[node + 1]
    tail = np.int64(base)
    if length > U(0):
        last = words[start + length - U(1)]
        tail += np.int64((last >> W(WORD)) + count_ones(last & W(0xFFFFFFFF)))
    hits = 0
    for term in range(doc_indptr[document], doc_indptr[document + 1]):
        feature = doc_indices[U(term)]
        values[U(hits)] = doc_data[U(term)]
        place = U(feature) >> U(SHIFT)
        if place >= length:
            row = _find(features, tail, end, feature)
            rows[U(hits)] = row
            hits += row >= 0
            continue
        word = words[start + place]
        bit = W(feature) & W(WORD - 1)
        rows[U(hits)] = base + np.int64((word >> W(WORD)) + count_ones(word & ((W(1) << bit) - W(1))))
        hits += ((word >> bit) & W(1)) != W(0)
    return hits
