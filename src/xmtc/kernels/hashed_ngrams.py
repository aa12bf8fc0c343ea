"""Words, word n-grams and character n-grams of UTF-8 texts as numbers: words by a table, n-grams by hashing.

Word n-grams of a text are hashed from its words' 64-bit keys (see `xmtc.kernels.term_counts`), those that are not in
the table too; character n-grams from the folded code points of a word between two marks, so that a beginning, an end
and an inside differ. Both share the buckets: two n-grams in one bucket cannot be told apart.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.term_counts import (
    _HASH_STEP,
    CODE_POINT,
    PIECES,
    SEPARATOR,
    Keys,
    _decode,
    _gram_key,
    _mixed,
    _slot,
    scan,
)
from xmtc.kernels.term_counts import _little_text as little_text
from xmtc.kernels.term_counts import _longest as longest_of

Ints = NDArray[np.int64]
BEGIN, END = 1, 2  # marks around a word; no letters, so that no text has them


@jitted()
def letters_of(buffer: Any, begin: int, stop: int, fold: Any, codes: Any, places: Any) -> int:
    # The folded code points of a word between its marks, and where each stands in bytes (and one place more, behind the
    # last); returns how many there are.
    codes[0], places[0] = BEGIN, begin
    count = 1
    at = begin
    while at < stop:
        code, behind = _decode(buffer, at, stop)
        folded = np.int64(fold[code])
        if folded >= 0 and folded & CODE_POINT != SEPARATOR:
            codes[count], places[count] = folded & CODE_POINT, at
            count += 1
        at = behind
    codes[count], places[count], places[count + 1] = END, stop, stop
    return count + 1


@numba.njit(inline="always")
def _letters_key(codes: Any, first: int, size: int) -> Any:
    key = _HASH_STEP
    for at in range(first, first + size):
        key = (key ^ np.uint64(codes[at])) * _HASH_STEP
        key ^= key >> np.uint64(32)
    return _mixed(key)


@compiled(parallel=True, small=little_text)
def feature_ids(
    buffer: Any, starts: Ints, ends: Ints, fold: Any, table: Keys, table_ids: NDArray[np.int32], known: int,
    words_together: int, shortest: int, longest: int, buckets: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Ints]:  # fmt: skip
    # (ids, begins, stops, indptr): the features of each text and which bytes of it they are. First 0, which stands for
    # the text as such; then each word, 1 + its number in the table of `known` words, with its n-grams of `shortest` to
    # `longest` letters; then the n-grams of 2 to `words_together` words. An n-gram is 1 + known + its bucket.
    texts = len(starts)
    indptr = np.zeros(texts + 1, np.int64)
    ids = np.empty(0, np.int32)
    begins = np.empty(0, np.int32)
    stops = np.empty(0, np.int32)
    pieces = min(PIECES, texts)
    base = np.int64(1 + known)
    for writing in range(2):  # first how many, then what
        if writing:
            for text in range(texts):
                indptr[text + 1] += indptr[text]
            ids = np.empty(indptr[-1], np.int32)
            begins = np.empty(indptr[-1], np.int32)
            stops = np.empty(indptr[-1], np.int32)
        for piece in numba.prange(pieces):
            first_text, last_text = piece * texts // pieces, (piece + 1) * texts // pieces
            bytes_ = longest_of(starts, ends, first_text, last_text)
            keys = np.empty(bytes_ // 2 + 1, np.uint64)
            word_begins = np.empty(bytes_ // 2 + 1, np.int64)
            word_stops = np.empty(bytes_ // 2 + 1, np.int64)
            codes = np.empty(bytes_ + 2 if longest else 0, np.int32)
            places = np.empty(bytes_ + 3 if longest else 0, np.int64)
            for text in range(first_text, last_text):
                start = starts[text]
                found = scan(buffer, start, ends[text], fold, 1, keys, word_begins, word_stops)
                at = indptr[text]
                if writing:
                    ids[at], begins[at], stops[at] = 0, 0, 0
                count = 1
                for word in range(found):
                    id_ = table_ids[_slot(table, len(table), keys[word])]
                    if id_ >= 0:
                        if writing:
                            ids[at + count] = 1 + id_
                            begins[at + count] = word_begins[word] - start
                            stops[at + count] = word_stops[word] - start
                        count += 1
                    if longest == 0:
                        continue
                    letters = letters_of(buffer, word_begins[word], word_stops[word], fold, codes, places)
                    for size in range(shortest, min(longest, letters) + 1):
                        for first in range(letters - size + 1):
                            if size == 1 and (first == 0 or first == letters - 1):
                                continue  # a mark alone says nothing
                            if writing:
                                bucket = _letters_key(codes, first, size) % np.uint64(buckets)
                                ids[at + count] = base + np.int64(bucket)
                                begins[at + count] = places[first] - start
                                stops[at + count] = places[first + size] - start
                            count += 1
                for size in range(2, min(words_together, found) + 1):
                    for first in range(found - size + 1):
                        if writing:
                            bucket = _gram_key(keys, first, size) % np.uint64(buckets)
                            ids[at + count] = base + np.int64(bucket)
                            begins[at + count] = word_begins[first] - start
                            stops[at + count] = word_stops[first + size - 1] - start
                        count += 1
                if not writing:
                    indptr[text + 1] = count
    return ids, begins, stops, indptr
