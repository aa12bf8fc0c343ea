"""Words of UTF-8 texts as 64-bit keys, counted a document at a time.

A word is identified by a 64-bit hash of its folded code points; an n-gram by a hash of its words' hashes. Two of ten
million terms share a key with probability 3e-6, which is why no string is ever made or compared here.

`fold` is the table that `xmtc.text.word_rules` makes: for each code point the folded code point if it belongs to a
word, with IDEOGRAPH added if it is a word by itself; SEPARATOR; or DROPPED for a mark that vanishes.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted

SEPARATOR = 0
DROPPED = -1
IDEOGRAPH = 1 << 24
SUSPECT = 1 << 25  # may not be in Unicode normal form C; set beside any of the above
CODE_POINT = (1 << 21) - 1
REPLACEMENT = np.int64(0xFFFD)  # Unicode's sign for what cannot be decoded; a separator
PIECES = 64  # of parallel work; each has working memory of its own
LITTLE_TEXT = 1 << 15  # bytes; one core has read them before others would have begun
LITTLE_TERMS = LITTLE_TEXT // 8

Keys = NDArray[np.uint64]
Ints = NDArray[np.int64]

_HASH_STEP = np.uint64(0x9E3779B97F4A7C15)
_GRAM_STEP = np.uint64(0xC2B2AE3D27D4EB4F)


@numba.njit(inline="always")
def _decode(buffer: Any, at: int, end: int) -> tuple[Any, int]:
    # (code point, position behind it). Texts are valid UTF-8; should one not be, nothing is read beyond its end, and
    # no code point is outside of the fold table.
    lead = np.int64(buffer[at])
    if lead < 0x80:
        return lead, at + 1
    if lead > 0xF4 or at + 2 + (lead >= 0xE0) + (lead >= 0xF0) > end:
        return REPLACEMENT, at + 1
    if lead < 0xE0:
        return ((lead & 0x1F) << 6) | (np.int64(buffer[at + 1]) & 0x3F), at + 2
    if lead < 0xF0:
        middle = (np.int64(buffer[at + 1]) & 0x3F) << 6
        return ((lead & 0x0F) << 12) | middle | (np.int64(buffer[at + 2]) & 0x3F), at + 3
    high = ((np.int64(buffer[at + 1]) & 0x3F) << 12) | ((np.int64(buffer[at + 2]) & 0x3F) << 6)
    code = ((lead & 0x07) << 18) | high | (np.int64(buffer[at + 3]) & 0x3F)
    return min(code, np.int64(0x10FFFF)), at + 4


@numba.njit(inline="always")
def _mixed(key: Any) -> Any:
    # Spread the bits (the finaliser of splitmix64); 0 marks an empty slot in tables, so no key is 0.
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    key = key ^ (key >> np.uint64(31))
    return key if key != np.uint64(0) else np.uint64(1)


@jitted()
def scan(buffer: Any, start: int, end: int, fold: Any, min_chars: int, keys: Any, begins: Any, ends: Any) -> int:
    # Find the words of buffer[start:end]: their keys and where they stand; returns how many.
    words = 0
    key = _HASH_STEP
    chars = 0
    begin = start
    at = start
    while at < end:
        code, behind = _decode(buffer, at, end)
        folded = np.int64(fold[code])
        if folded == DROPPED:
            at = behind
            continue
        ideograph = (folded & IDEOGRAPH) != 0
        folded &= CODE_POINT
        if (folded == SEPARATOR or ideograph) and chars > 0:
            if chars >= min_chars:
                keys[words] = _mixed(key)
                begins[words] = begin
                ends[words] = at
                words += 1
            chars = 0
            key = _HASH_STEP
        if folded != SEPARATOR:
            if chars == 0:
                begin = at
            key = (key ^ np.uint64(folded)) * _HASH_STEP
            key ^= key >> np.uint64(32)
            chars += 1
            if ideograph:
                keys[words] = _mixed(key)
                begins[words] = at
                ends[words] = behind
                words += 1
                chars = 0
                key = _HASH_STEP
        at = behind
    if chars >= min_chars and chars > 0:
        keys[words] = _mixed(key)
        begins[words] = begin
        ends[words] = end
        words += 1
    return words


@numba.njit(inline="always")
def _gram_key(keys: Any, first: int, size: int) -> Any:
    key = keys[first]
    for word in range(first + 1, first + size):
        key = _mixed(key * _GRAM_STEP + keys[word])
    return key


def _little_text(_buffer: Any, starts: Ints, ends: Ints, *_: Any) -> bool:
    return len(starts) < 2 or (len(starts) < LITTLE_TEXT and int((ends - starts).sum()) < LITTLE_TEXT)


@compiled(parallel=True, small=_little_text)
def suspects(buffer: Any, starts: Ints, ends: Ints, fold: Any) -> NDArray[np.bool_]:
    # Which texts hold a code point that Unicode normalisation might change.
    found = np.zeros(len(starts), np.bool_)
    for text in numba.prange(len(starts)):
        at = starts[text]
        while at < ends[text]:
            # Code points below U+0300, two bytes led by at most 0xCB, are always in normal form.
            if buffer[at] < 0xCC:
                at += 1
                continue
            code, at = _decode(buffer, at, ends[text])
            folded = np.int64(fold[code])
            if folded >= 0 and folded & SUSPECT:
                found[text] = True
                break
    return found


@numba.njit(inline="always")
def _slot(table: Any, room: int, key: Any) -> Any:
    # Where the key is among the first `room` slots, or the empty slot for it; the address is a key's low bits, which
    # are well mixed.
    mask = np.uint64(room - 1)
    slot = key & mask
    while table[slot] != np.uint64(0) and table[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)


@numba.njit(inline="always")
def _longest(starts: Any, ends: Any, first: int, last: int) -> int:
    # Length in bytes of the longest of some texts.
    longest = 0
    for text in range(first, last):
        longest = max(longest, ends[text] - starts[text])
    return longest


@compiled(parallel=True, small=_little_text)
def count_terms(
    buffer: Any, starts: Ints, ends: Ints, fold: Any, min_chars: int, shortest: int, longest: int
) -> tuple[Keys, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Ints]:
    # (keys, counts, begins, stops, indptr): the distinct terms of each text, n-grams of `shortest` to `longest` words,
    # in order of their first place, which begins and stops at these bytes of the text.
    texts = len(starts)
    sizes = longest - shortest + 1
    bound = np.zeros(texts + 1, np.int64)
    for text in range(texts):
        # Words are at least a byte with a byte between them, ideographs three bytes.
        bound[text + 1] = bound[text] + ((ends[text] - starts[text]) // 2 + 1) * sizes
    all_keys = np.empty(bound[-1], np.uint64)
    all_counts = np.empty(bound[-1], np.int32)
    all_begins = np.empty(bound[-1], np.int32)
    all_stops = np.empty(bound[-1], np.int32)
    indptr = np.zeros(texts + 1, np.int64)
    pieces = min(PIECES, texts)
    for piece in numba.prange(pieces):
        first_text, last_text = piece * texts // pieces, (piece + 1) * texts // pieces
        most = _longest(starts, ends, first_text, last_text) // 2 + 1
        words = np.empty(most, np.uint64)
        begins = np.empty(most, np.int64)
        stops = np.empty(most, np.int64)
        room = 16
        while room < 2 * most * sizes:
            room *= 2
        table = np.empty(room, np.uint64)
        places = np.empty(room, np.int64)
        for text in range(first_text, last_text):
            found = scan(buffer, starts[text], ends[text], fold, min_chars, words, begins, stops)
            room = 16
            while room < 2 * found * sizes:
                room *= 2
            table[:room] = 0
            base = bound[text]
            distinct = 0
            for size in range(shortest, longest + 1):
                for first in range(found - size + 1):
                    key = _gram_key(words, first, size)
                    slot = _slot(table, room, key)
                    if table[slot] == key:
                        all_counts[base + places[slot]] += 1
                        continue
                    table[slot] = key
                    places[slot] = distinct
                    all_keys[base + distinct] = key
                    all_counts[base + distinct] = 1
                    all_begins[base + distinct] = begins[first] - starts[text]
                    all_stops[base + distinct] = stops[first + size - 1] - starts[text]
                    distinct += 1
            indptr[text + 1] = distinct
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


@compiled()
def document_frequencies(keys: Keys) -> tuple[Keys, Ints, Ints]:
    # (distinct keys, in how many places each stands, its first place), in order of first place.
    table = np.zeros(1 << 16, np.uint64)
    places = np.zeros(1 << 16, np.int64)
    capacity = 1 << 15
    distinct = np.empty(capacity, np.uint64)
    frequency = np.empty(capacity, np.int64)
    first = np.empty(capacity, np.int64)
    count = 0
    for place in range(len(keys)):
        key = keys[place]
        slot = _slot(table, len(table), key)
        if table[slot] == key:
            frequency[places[slot]] += 1
            continue
        if count == capacity:  # the table is half full: double everything
            capacity *= 2
            distinct = np.concatenate((distinct, np.empty(count, np.uint64)))
            frequency = np.concatenate((frequency, np.empty(count, np.int64)))
            first = np.concatenate((first, np.empty(count, np.int64)))
            table = np.zeros(capacity * 2, np.uint64)
            places = np.zeros(capacity * 2, np.int64)
            for old in range(count):
                slot = _slot(table, len(table), distinct[old])
                table[slot] = distinct[old]
                places[slot] = old
            slot = _slot(table, len(table), key)
        table[slot] = key
        places[slot] = count
        distinct[count] = key
        frequency[count] = 1
        first[count] = place
        count += 1
    return distinct[:count].copy(), frequency[:count].copy(), first[:count].copy()


@compiled()
def make_table(keys: Keys) -> tuple[Keys, NDArray[np.int32]]:
    # An open-addressing table from key to its position.
    size = 16
    while size < 2 * len(keys):
        size *= 2
    table = np.zeros(size, np.uint64)
    ids = np.full(size, -1, np.int32)
    for at in range(len(keys)):
        slot = _slot(table, len(table), keys[at])
        table[slot] = keys[at]
        ids[slot] = at
    return table, ids


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
            ids[place] = table_ids[_slot(table, len(table), keys[place])]
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


@compiled(parallel=True, small=_little_text)
def folded_terms(buffer: Any, starts: Ints, ends: Ints, fold: Any, min_chars: int) -> tuple[NDArray[np.uint8], Ints]:
    # The words in each span of the buffer, folded, joined by spaces, as one UTF-8 buffer with offsets.
    spans = len(starts)
    pieces = min(PIECES, spans)
    offsets = np.zeros(spans + 1, np.int64)
    out = np.empty(0, np.uint8)
    for writing in range(2):  # first the lengths, then the bytes
        if writing:
            for span in range(spans):
                offsets[span + 1] += offsets[span]
            out = np.empty(offsets[-1], np.uint8)
        for piece in numba.prange(pieces):
            first_span, last_span = piece * spans // pieces, (piece + 1) * spans // pieces
            most = _longest(starts, ends, first_span, last_span) // 2 + 1
            words = np.empty(most, np.uint64)
            begins = np.empty(most, np.int64)
            stops = np.empty(most, np.int64)
            for span in range(first_span, last_span):
                found = scan(buffer, starts[span], ends[span], fold, min_chars, words, begins, stops)
                place = offsets[span] if writing else 0
                for word in range(found):
                    if word:
                        if writing:
                            out[place] = 32
                        place += 1
                    at = begins[word]
                    while at < stops[word]:
                        code, at = _decode(buffer, at, stops[word])
                        folded = np.int64(fold[code])
                        if folded != DROPPED and (folded & CODE_POINT) != SEPARATOR:
                            place += _encode(folded & CODE_POINT, out, place, writing == 1)
                if not writing:
                    offsets[span + 1] = place
    return out, offsets


@numba.njit(inline="always")
def _encode(code: int, out: Any, place: int, writing: bool) -> int:
    # Write a code point as UTF-8 (if asked to) and return its number of bytes.
    size = 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
    if writing:
        if size == 1:
            out[place] = code
        else:
            for byte in range(size - 1, 0, -1):
                out[place + byte] = 0x80 | (code & 0x3F)
                code >>= 6
            out[place] = ((0xF00 >> size) & 0xFF) | code
    return size
