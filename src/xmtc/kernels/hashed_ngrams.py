"""Words, word n-grams and character n-grams of UTF-8 texts as numbers: words by a table, n-grams by hashing.

N-grams of words are made of words that are not in the table too. Both kinds of n-grams share the buckets: two n-grams
in one bucket cannot be told apart.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.term_counts import Keys, find_slot
from xmtc.kernels.utf8_words import (
    PIECES,
    Buckets,
    Ints,
    Letters,
    Spans,
    letter_ngrams,
    little_text,
    most_words,
    read_letters,
    scan,
    word_ngrams,
    workspace,
)


class FeatureKinds(NamedTuple):
    """The features of a text: known words, and n-grams of 2 to `max_words` words or of letters, by bucket.

    `table` and `table_ids`, from `xmtc.kernels.term_counts.make_table`, number the words; a `max_letters` of 0 means no
    n-grams of letters.
    """

    table: Keys
    table_ids: NDArray[np.int32]
    words: int
    max_words: int
    min_letters: int
    max_letters: int
    buckets: int


# Numba takes what a parallel loop writes into an array of a tuple for dead code; so only functions do that.
@jitted()
def _find_features(
    buffer: Any, start: int, fold: Any, kinds: FeatureKinds, words: Spans, found: int, letters: Letters, out: Spans
) -> int:
    # Write the features of a text with `found` words, ids in place of keys; returns how many.
    out.keys[0], out.begins[0], out.stops[0] = 0, 0, 0
    count = 1
    buckets = Buckets(1 + kinds.words, kinds.buckets)
    for word in range(found):
        id_ = kinds.table_ids[find_slot(kinds.table, len(kinds.table), words.keys[word])]
        if id_ >= 0:
            out.keys[count], out.begins[count], out.stops[count] = 1 + id_, words.begins[word], words.stops[word]
            count += 1
        if kinds.max_letters:
            size = read_letters(buffer, start, fold, words, word, letters)
            count = letter_ngrams(letters, size, kinds.min_letters, kinds.max_letters, buckets, out, count)
    return word_ngrams(words, found, 2, kinds.max_words, buckets, out, count)


@compiled(parallel=True, small=little_text)
def feature_ids(
    buffer: Any, starts: Ints, ends: Ints, fold: Any, kinds: FeatureKinds
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Ints]:
    # (ids, begins, stops, indptr): the features of each text and which bytes of it they are. First 0, which stands for
    # the text as such; then each known word, 1 + its number, with its n-grams of letters; then the n-grams of words. An
    # n-gram is 1 + the number of known words + its bucket.
    texts = len(starts)
    letter_sizes = kinds.max_letters - kinds.min_letters + 1 if kinds.max_letters else 0
    bound = np.zeros(texts + 1, np.int64)
    for text in range(texts):
        length = ends[text] - starts[text]
        bound[text + 1] = bound[text] + 1 + most_words(length) * kinds.max_words + (length + 1) * letter_sizes
    all_ids = np.empty(bound[-1], np.uint64)
    all_begins = np.empty(bound[-1], np.int32)
    all_stops = np.empty(bound[-1], np.int32)
    indptr = np.zeros(texts + 1, np.int64)
    pieces = min(PIECES, texts)
    for piece in numba.prange(pieces):
        first_text, last_text = piece * texts // pieces, (piece + 1) * texts // pieces
        words, letters = workspace(starts, ends, first_text, last_text)
        for text in range(first_text, last_text):
            start, here, behind = starts[text], bound[text], bound[text + 1]
            out = Spans(all_ids[here:behind], all_begins[here:behind], all_stops[here:behind])
            found = scan(buffer, start, ends[text], fold, 1, words)
            indptr[text + 1] = _find_features(buffer, start, fold, kinds, words, found, letters, out)
    for text in range(texts):
        indptr[text + 1] += indptr[text]
    ids = np.empty(indptr[-1], np.int32)
    begins = np.empty(indptr[-1], np.int32)
    stops = np.empty(indptr[-1], np.int32)
    for text in numba.prange(texts):
        here, there = indptr[text], bound[text]
        for at in range(indptr[text + 1] - here):
            ids[here + at] = all_ids[there + at]
            begins[here + at] = all_begins[there + at]
            stops[here + at] = all_stops[there + at]
    return ids, begins, stops, indptr
