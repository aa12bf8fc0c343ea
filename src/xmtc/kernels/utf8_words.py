"""Words and n-grams of UTF-8 texts as 64-bit keys.

A word is identified by a 64-bit hash of its folded code points; an n-gram of words by a hash of its words' hashes, an
n-gram of letters by a hash of the folded code points of one word between two marks, so that a beginning, an end and an
inside differ. Two of ten million terms share a key with probability 3e-6, so no string is ever made or compared.

`fold` is the table of `xmtc.text.word_rules`: for each code point the folded code point if it belongs to a word, with
IDEOGRAPH added if it is a word by itself; SEPARATOR; or DROPPED for a mark that vanishes.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

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
BEGIN, END = 1, 2  # marks around a word's letters; no text has them as letters
PIECES = 64  # of parallel work; each has working memory of its own
LITTLE_TEXT = 1 << 15  # bytes; one core has read them before others would have begun

Ints = NDArray[np.int64]

_HASH_STEP = np.uint64(0x9E3779B97F4A7C15)
_GRAM_STEP = np.uint64(0xC2B2AE3D27D4EB4F)


class Spans(NamedTuple):
    """Terms of a text: their keys, and at which bytes of the text they begin and stop."""

    keys: NDArray[np.uint64]
    begins: NDArray[Any]
    stops: NDArray[Any]


class Buckets(NamedTuple):
    """N-grams become `first` + one of `size` buckets in place of their keys; a size of 0 leaves the keys."""

    first: int
    size: int


class Letters(NamedTuple):
    """The code points of a word between its marks, and where they begin; one place more, behind the last."""

    codes: NDArray[np.int32]
    places: NDArray[np.int64]


def little_text(_buffer: Any, starts: Ints, ends: Ints, *_: Any) -> bool:
    """Whether starting threads would take longer than reading the texts."""
    return len(starts) < 2 or (len(starts) < LITTLE_TEXT and int((ends - starts).sum()) < LITTLE_TEXT)


@numba.njit(inline="always")
def longest(starts: Any, ends: Any, first: int, last: int) -> int:
    # Length of the longest of some spans.
    most = 0
    for at in range(first, last):
        most = max(most, ends[at] - starts[at])
    return most


@numba.njit(inline="always")
def most_words(size: int) -> int:
    # Words are at least a byte with a byte between them, ideographs three bytes.
    return size // 2 + 1


@jitted()
def workspace(starts: Any, ends: Any, first: int, last: int) -> tuple[Spans, Letters]:
    # Room for the words of any of some texts, and for the letters of a word.
    size = longest(starts, ends, first, last)
    words = most_words(size)
    spans = Spans(np.empty(words, np.uint64), np.empty(words, np.int64), np.empty(words, np.int64))
    return spans, Letters(np.empty(size + 2, np.int32), np.empty(size + 3, np.int64))


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
def _encode(code: int, out: Any, place: int, writing: bool) -> int:
    # Write a code point as UTF-8 (if `writing`) and return its number of bytes.
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


@numba.njit(inline="always")
def _hashed(key: Any, code: Any) -> Any:
    # The hash of some code points and one more.
    key = (key ^ np.uint64(code)) * _HASH_STEP
    return key ^ (key >> np.uint64(32))


@numba.njit(inline="always")
def _mixed(key: Any) -> Any:
    # Spread the bits (the finaliser of splitmix64); 0 marks an empty slot in tables, so no key is 0.
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    key = key ^ (key >> np.uint64(31))
    return key if key != np.uint64(0) else np.uint64(1)


@numba.njit(inline="always")
def _in_bucket(key: Any, buckets: Buckets) -> Any:
    return np.uint64(buckets.first) + key % np.uint64(buckets.size) if buckets.size else key


@jitted()
def scan(buffer: Any, start: int, end: int, fold: Any, min_chars: int, words: Spans) -> int:
    # Find the words of the text buffer[start:end]; returns how many.
    found = 0
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
                words.keys[found], words.begins[found], words.stops[found] = _mixed(key), begin - start, at - start
                found += 1
            chars = 0
            key = _HASH_STEP
        if folded != SEPARATOR:
            if chars == 0:
                begin = at
            key = _hashed(key, folded)
            chars += 1
            if ideograph:
                words.keys[found], words.begins[found], words.stops[found] = _mixed(key), at - start, behind - start
                found += 1
                chars = 0
                key = _HASH_STEP
        at = behind
    if chars >= min_chars and chars > 0:
        words.keys[found], words.begins[found], words.stops[found] = _mixed(key), begin - start, end - start
        found += 1
    return found


@jitted()
def word_ngrams(
    words: Spans, found: int, min_size: int, max_size: int, buckets: Buckets, terms: Spans, count: int
) -> int:
    # Add the n-grams of a text's words to `count` terms; returns how many terms there are then.
    for size in range(min_size, max_size + 1):
        for first in range(found - size + 1):
            key = words.keys[first]
            for word in range(first + 1, first + size):
                key = _mixed(key * _GRAM_STEP + words.keys[word])
            terms.keys[count] = _in_bucket(key, buckets)
            terms.begins[count] = words.begins[first]
            terms.stops[count] = words.stops[first + size - 1]
            count += 1
    return count


@jitted()
def read_letters(buffer: Any, start: int, fold: Any, words: Spans, word: int, letters: Letters) -> int:
    # The letters of a word of the text at `start`, folded; returns how many there are, marks included.
    begin, stop = words.begins[word], words.stops[word]
    letters.codes[0], letters.places[0] = BEGIN, begin
    count = 1
    at = start + begin
    while at < start + stop:
        code, behind = _decode(buffer, at, start + stop)
        folded = np.int64(fold[code])
        if folded >= 0 and folded & CODE_POINT != SEPARATOR:
            letters.codes[count], letters.places[count] = folded & CODE_POINT, at - start
            count += 1
        at = behind
    letters.codes[count], letters.places[count], letters.places[count + 1] = END, stop, stop
    return count + 1


@jitted()
def letter_ngrams(
    letters: Letters, found: int, min_size: int, max_size: int, buckets: Buckets, terms: Spans, count: int
) -> int:
    # Add the n-grams of a word's letters to `count` terms; returns how many terms there are then. Marks take no bytes.
    for size in range(min_size, min(max_size, found) + 1):
        for first in range(found - size + 1):
            if size == 1 and (first == 0 or first == found - 1):
                continue  # a mark alone says nothing
            key = _HASH_STEP
            for at in range(first, first + size):
                key = _hashed(key, letters.codes[at])
            terms.keys[count] = _in_bucket(_mixed(key), buckets)
            terms.begins[count] = letters.places[first]
            terms.stops[count] = letters.places[first + size]
            count += 1
    return count


@compiled(parallel=True, small=little_text)
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


@compiled(parallel=True, small=little_text)
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
            words, _ = workspace(starts, ends, first_span, last_span)
            for span in range(first_span, last_span):
                start = starts[span]
                found = scan(buffer, start, ends[span], fold, min_chars, words)
                place = offsets[span] if writing else 0
                for word in range(found):
                    if word:
                        if writing:
                            out[place] = 32
                        place += 1
                    at, stop = start + words.begins[word], start + words.stops[word]
                    while at < stop:
                        code, at = _decode(buffer, at, stop)
                        folded = np.int64(fold[code])
                        if folded != DROPPED and (folded & CODE_POINT) != SEPARATOR:
                            place += _encode(folded & CODE_POINT, out, place, writing == 1)
                if not writing:
                    offsets[span + 1] = place
    return out, offsets
