"""Terms of texts, counted a document at a time, and their tf-idf weights; a term is known by its 64-bit key."""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.utf8_words import (
    LITTLE_TEXT,
    PIECES,
    Buckets,
    Ints,
    Spans,
    letter_ngrams,
    little_text,
    longest,
    most_words,
    read_letters,
    scan,
    word_ngrams,
    workspace,
)

LITTLE_TERMS = LITTLE_TEXT // 8

Keys = NDArray[np.uint64]


@numba.njit(inline="always")
def _table_size(terms: int) -> int:
    # Slots for a table of `terms` keys: a power of two, at most half of them taken.
    size = 16
    while size < 2 * terms:
        size *= 2
    return size


@numba.njit(inline="always")
def find_slot(table: Any, room: int, key: Any) -> Any:
    # Where the key is among the first `room` slots, or the empty slot for it; the address is a key's low bits, which
    # are well mixed.
    mask = np.uint64(room - 1)
    slot = key & mask
    while table[slot] != np.uint64(0) and table[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


# Numba takes what a parallel loop writes into an array of a tuple for dead code; so only functions do that.
@jitted()
def _count_distinct(found: Spans, size: int, terms: Spans, counts: Any, table: Any, places: Any) -> int:
    # Write the distinct ones of `size` terms to `terms`, which may be the same arrays, in order of their first place,
    # and count them; returns how many they are.
    room = _table_size(size)
    table[:room] = 0
    distinct = 0
    for at in range(size):
        key = found.keys[at]
        slot = find_slot(table, room, key)
        if table[slot] == key:
            counts[places[slot]] += 1
            continue
        table[slot] = key
        places[slot] = distinct
        terms.keys[distinct], terms.begins[distinct], terms.stops[distinct] = key, found.begins[at], found.stops[at]
        counts[distinct] = 1
        distinct += 1
    return distinct


@compiled(parallel=True, small=little_text)
def count_terms(
    buffer: Any, starts: Ints, ends: Ints, fold: Any, min_chars: int, min_size: int, max_size: int, of_letters: bool
) -> tuple[Keys, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Ints]:
    # (keys, counts, begins, stops, indptr): the distinct terms of each text, n-grams of `min_size` to `max_size` words
    # or letters, in order of their first place, which begins and stops at these bytes of the text. A word with fewer
    # letters than `min_size`, marks counted in, is one term.
    texts = len(starts)
    sizes = max_size - min_size + 1
    bound = np.zeros(texts + 1, np.int64)
    for text in range(texts):
        length = ends[text] - starts[text]
        # A word of n letters has at most n + 1 n-grams of each size above 1.
        bound[text + 1] = bound[text] + (length + 1 if of_letters else most_words(length)) * sizes
    all_keys = np.empty(bound[-1], np.uint64)
    all_counts = np.empty(bound[-1], np.int32)
    all_begins = np.empty(bound[-1], np.int32)
    all_stops = np.empty(bound[-1], np.int32)
    indptr = np.zeros(texts + 1, np.int64)
    pieces = min(PIECES, texts)
    for piece in numba.prange(pieces):
        first_text, last_text = piece * texts // pieces, (piece + 1) * texts // pieces
        words, letters = workspace(starts, ends, first_text, last_text)
        size = _table_size(longest(bound[:-1], bound[1:], first_text, last_text))
        no_buckets = Buckets(0, 0)
        table = np.empty(size, np.uint64)
        places = np.empty(size, np.int64)
        for text in range(first_text, last_text):
            start, here, behind = starts[text], bound[text], bound[text + 1]
            terms = Spans(all_keys[here:behind], all_begins[here:behind], all_stops[here:behind])
            found = scan(buffer, start, ends[text], fold, min_chars, words)
            counts = all_counts[here:behind]
            if max_size == 1:
                indptr[text + 1] = _count_distinct(words, found, terms, counts, table, places)
                continue
            count = 0
            if of_letters:
                for word in range(found):
                    size = read_letters(buffer, start, fold, words, word, letters)
                    count = letter_ngrams(letters, size, min(min_size, size), max_size, no_buckets, terms, count)
            else:
                count = word_ngrams(words, found, min_size, max_size, no_buckets, terms, count)
            indptr[text + 1] = _count_distinct(terms, count, terms, counts, table, places)
    for text in range(texts):
        indptr[text + 1] += indptr[text]
    keys = np.empty(indptr[-1], np.uint64)
    term_counts = np.empty(indptr[-1], np.int32)
    begins = np.empty(indptr[-1], np.int32)
    stops = np.empty(indptr[-1], np.int32)
    for text in numba.prange(texts):
        here, there = indptr[text], bound[text]
        for term in range(indptr[text + 1] - here):
            keys[here + term] = all_keys[there + term]
            term_counts[here + term] = all_counts[there + term]
            begins[here + term] = all_begins[there + term]
            stops[here + term] = all_stops[there + term]
    return keys, term_counts, begins, stops, indptr


@compiled()
def document_frequencies(keys: Keys) -> tuple[Keys, Ints, Ints]:
    # (distinct keys, how often each occurs, its first place), in order of first place.
    capacity = 1 << 15
    distinct = np.empty(capacity, np.uint64)
    frequency = np.empty(capacity, np.int64)
    first = np.empty(capacity, np.int64)
    table, places = _filled_table(distinct[:0], 2 * capacity)
    count = 0
    for place in range(len(keys)):
        key = keys[place]
        slot = find_slot(table, len(table), key)
        if table[slot] == key:
            frequency[places[slot]] += 1
            continue
        if count == capacity:  # the table is half full: double everything
            capacity *= 2
            distinct = np.concatenate((distinct, np.empty(count, np.uint64)))
            frequency = np.concatenate((frequency, np.empty(count, np.int64)))
            first = np.concatenate((first, np.empty(count, np.int64)))
            table, places = _filled_table(distinct[:count], 2 * capacity)
            slot = find_slot(table, len(table), key)
        table[slot] = key
        places[slot] = count
        distinct[count] = key
        frequency[count] = 1
        first[count] = place
        count += 1
    return distinct[:count].copy(), frequency[:count].copy(), first[:count].copy()


@jitted()
def _filled_table(keys: Any, size: int) -> tuple[Any, Any]:
    table = np.zeros(size, np.uint64)
    ids = np.full(size, -1, np.int32)
    for at in range(len(keys)):
        slot = find_slot(table, size, keys[at])
        table[slot] = keys[at]
        ids[slot] = at
    return table, ids


@compiled()
def make_table(keys: Keys) -> tuple[Keys, NDArray[np.int32]]:
    # An open-addressing table from key to its position.
    return _filled_table(keys, _table_size(len(keys)))


@compiled(parallel=True, small=lambda keys, *_: len(keys) < LITTLE_TERMS)
def weigh(
    keys: Keys,
    counts: NDArray[np.int32],
    indptr: Ints,
    table: Keys,
    table_ids: NDArray[np.int32],
    idf: NDArray[np.float64],
    log_tf: bool,
    unit_length: bool,
) -> tuple[NDArray[np.int32], NDArray[np.float32], Ints]:
    # CSR (indices, values, indptr) of the known terms: tf x idf, rows sorted by index and scaled to length 1.
    texts = len(indptr) - 1
    ids = np.empty(len(keys), np.int32)
    new_indptr = np.zeros(texts + 1, np.int64)
    for text in numba.prange(texts):
        known = 0
        for place in range(indptr[text], indptr[text + 1]):
            ids[place] = table_ids[find_slot(table, len(table), keys[place])]
            known += ids[place] >= 0
        new_indptr[text + 1] = known
    for text in range(texts):
        new_indptr[text + 1] += new_indptr[text]
    indices = np.empty(new_indptr[-1], np.int32)
    values = np.empty(new_indptr[-1], np.float32)
    for text in numba.prange(texts):
        base = new_indptr[text]
        size = new_indptr[text + 1] - base
        # Sort ids and counts together as one integer.
        packed = np.empty(size, np.int64)
        known = 0
        for place in range(indptr[text], indptr[text + 1]):
            if ids[place] >= 0:
                packed[known] = (np.int64(ids[place]) << 32) | np.int64(counts[place])
                known += 1
        packed.sort()
        weights = np.empty(size, np.float64)
        square = 0.0
        for term in range(size):
            id_ = packed[term] >> 32
            count = packed[term] & 0xFFFFFFFF
            tf = 1.0 + np.log(count) if log_tf else float(count)
            weights[term] = tf * idf[id_]
            square += weights[term] * weights[term]
            indices[base + term] = id_
        scale = 1.0 / np.sqrt(square) if unit_length and square > 0 else 1.0
        for term in range(size):
            values[base + term] = weights[term] * scale
    return indices, values, new_indptr
