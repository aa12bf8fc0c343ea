"""The words of UTF-8 texts in their order, as 64-bit keys with their places."""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.utf8_words import PIECES, Ints, Spans, little_text, most_words, scan, workspace


# Numba takes what a parallel loop writes into an array of a tuple for dead code; so only functions do that.
@jitted()
def _copy(words: Spans, found: int, start: int, keys: Any, begins: Any, stops: Any) -> None:
    # Copy the words of the text at `start`, places counted from the beginning of the buffer.
    for word in range(found):
        keys[word] = words.keys[word]
        begins[word], stops[word] = start + words.begins[word], start + words.stops[word]


@compiled(parallel=True, small=little_text)
def word_sequence(
    buffer: Any, starts: Ints, ends: Ints, fold: Any, min_chars: int
) -> tuple[NDArray[np.uint64], Ints, Ints, Ints]:
    # (keys, begins, stops, indptr): the words of each text; each begins and stops at these bytes of the buffer.
    texts = len(starts)
    bound = np.zeros(texts + 1, np.int64)
    for text in range(texts):
        bound[text + 1] = bound[text] + most_words(ends[text] - starts[text])
    all_keys = np.empty(bound[-1], np.uint64)
    all_begins = np.empty(bound[-1], np.int64)
    all_stops = np.empty(bound[-1], np.int64)
    indptr = np.zeros(texts + 1, np.int64)
    pieces = min(PIECES, texts)
    for piece in numba.prange(pieces):
        first_text, last_text = piece * texts // pieces, (piece + 1) * texts // pieces
        words, _ = workspace(starts, ends, first_text, last_text)
        for text in range(first_text, last_text):
            here, behind = bound[text], bound[text + 1]
            found = scan(buffer, starts[text], ends[text], fold, min_chars, words)
            _copy(words, found, starts[text], all_keys[here:behind], all_begins[here:behind], all_stops[here:behind])
            indptr[text + 1] = found
    for text in range(texts):
        indptr[text + 1] += indptr[text]
    keys = np.empty(indptr[-1], np.uint64)
    begins = np.empty(indptr[-1], np.int64)
    stops = np.empty(indptr[-1], np.int64)
    for text in numba.prange(texts):
        here, there = indptr[text], bound[text]
        for at in range(indptr[text + 1] - here):
            keys[here + at] = all_keys[there + at]
            begins[here + at], stops[here + at] = all_begins[there + at], all_stops[there + at]
    return keys, begins, stops, indptr
