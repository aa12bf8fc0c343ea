"""N-grams of letters, counted a document at a time, as `xmtc.kernels.term_counts.count_terms` counts words.

They are taken from the folded code points of each word between two marks, so that a beginning, an end and an inside
differ; see `xmtc.kernels.hashed_ngrams`.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.hashed_ngrams import _letters_key, letters_of
from xmtc.kernels.term_counts import PIECES, Ints, Keys, _longest, _slot, scan
from xmtc.kernels.term_counts import _little_text as little_text


@jitted()
def _room(terms: int) -> int:
    # Slots of a table for so many terms: a power of two, at most half of them taken.
    room = 16
    while room < 2 * terms:
        room *= 2
    return room


@jitted()
def _how_many(
    buffer: Any, fold: Any, shortest: int, longest: int, found: int, begins: Any, stops: Any, codes: Any, places: Any
) -> int:
    # N-grams of the `found` words of a text, those that occur again counted again.
    count = 0
    for word in range(found):
        letters = letters_of(buffer, begins[word], stops[word], fold, codes, places)
        for size in range(min(shortest, letters), min(longest, letters) + 1):
            count += letters - size + 1
    return count


@jitted()
def _distinct(
    buffer: Any, fold: Any, shortest: int, longest: int, found: int, begins: Any, stops: Any, codes: Any, places: Any,
    start: int, base: int, room: int, table: Any, slots: Any, keys: Any, counts: Any, firsts: Any, lasts: Any,
) -> int:  # fmt: skip
    # Write the distinct n-grams of a text that begins at the byte `start`, from the place `base` on; returns how many.
    table[:room] = 0
    distinct = 0
    for word in range(found):
        letters = letters_of(buffer, begins[word], stops[word], fold, codes, places)
        for size in range(min(shortest, letters), min(longest, letters) + 1):
            for first in range(letters - size + 1):
                key = _letters_key(codes, first, size)
                slot = _slot(table, room, key)
                if table[slot] == key:
                    counts[base + slots[slot]] += 1
                    continue
                table[slot] = key
                slots[slot] = distinct
                keys[base + distinct] = key
                counts[base + distinct] = 1
                firsts[base + distinct] = places[first] - start
                lasts[base + distinct] = places[first + size] - start
                distinct += 1
    return distinct


@compiled(parallel=True, small=little_text)
def count_letters(
    buffer: Any, starts: Ints, ends: Ints, fold: Any, min_chars: int, shortest: int, longest: int
) -> tuple[Keys, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Ints]:
    # (keys, counts, begins, stops, indptr): the distinct n-grams of `shortest` to `longest` letters of each text, marks
    # counted in, in order of their first place, which begins and stops at these bytes of the text. The marks of a
    # word's ends take no byte. A word that is shorter than `shortest` is one term.
    texts = len(starts)
    pieces = min(PIECES, texts)
    bound = np.zeros(texts + 1, np.int64)
    for piece in numba.prange(pieces):
        first_text, last_text = piece * texts // pieces, (piece + 1) * texts // pieces
        most = _longest(starts, ends, first_text, last_text)
        words = np.empty(most // 2 + 1, np.uint64)
        begins = np.empty(most // 2 + 1, np.int64)
        stops = np.empty(most // 2 + 1, np.int64)
        codes = np.empty(most + 2, np.int32)
        places = np.empty(most + 3, np.int64)
        for text in range(first_text, last_text):
            found = scan(buffer, starts[text], ends[text], fold, min_chars, words, begins, stops)
            bound[text + 1] = _how_many(buffer, fold, shortest, longest, found, begins, stops, codes, places)
    for text in range(texts):
        bound[text + 1] += bound[text]
    all_keys = np.empty(bound[-1], np.uint64)
    all_counts = np.empty(bound[-1], np.int32)
    all_begins = np.empty(bound[-1], np.int32)
    all_stops = np.empty(bound[-1], np.int32)
    indptr = np.zeros(texts + 1, np.int64)
    for piece in numba.prange(pieces):
        first_text, last_text = piece * texts // pieces, (piece + 1) * texts // pieces
        most = _longest(starts, ends, first_text, last_text)
        words = np.empty(most // 2 + 1, np.uint64)
        begins = np.empty(most // 2 + 1, np.int64)
        stops = np.empty(most // 2 + 1, np.int64)
        codes = np.empty(most + 2, np.int32)
        places = np.empty(most + 3, np.int64)
        largest = _room(_longest(bound[:-1], bound[1:], first_text, last_text))
        table = np.empty(largest, np.uint64)
        slots = np.empty(largest, np.int64)
        for text in range(first_text, last_text):
            found = scan(buffer, starts[text], ends[text], fold, min_chars, words, begins, stops)
            indptr[text + 1] = _distinct(
                buffer, fold, shortest, longest, found, begins, stops, codes, places, starts[text], bound[text],
                _room(bound[text + 1] - bound[text]), table, slots, all_keys, all_counts, all_begins, all_stops,
            )  # fmt: skip
    for text in range(texts):
        indptr[text + 1] += indptr[text]
    keys = np.empty(indptr[-1], np.uint64)
    counts = np.empty(indptr[-1], np.int32)
    term_begins = np.empty(indptr[-1], np.int32)
    term_stops = np.empty(indptr[-1], np.int32)
    for text in numba.prange(texts):
        here, there = indptr[text], bound[text]
        for term in range(indptr[text + 1] - here):
            keys[here + term] = all_keys[there + term]
            counts[here + term] = all_counts[there + term]
            term_begins[here + term] = all_begins[there + term]
            term_stops[here + term] = all_stops[there + term]
    return keys, counts, term_begins, term_stops, indptr
