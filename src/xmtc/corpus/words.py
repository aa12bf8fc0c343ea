"""Counting words in the UTF-8 buffer itself: some three times faster than splitting each text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.strings import Strings

# White space beyond ASCII, as str.split() takes it: two or three bytes long in UTF-8, with few different first bytes.
WIDE_SPACES = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_FIRST_BYTES = sorted({space.encode()[0] for space in WIDE_SPACES})
_WIDE_CODES = {
    size: [int.from_bytes(space.encode(), "big") for space in WIDE_SPACES if len(space.encode()) == size]
    for size in (2, 3)
}

# Work in pieces, so that the arrays beside the text stay in the processor's cache however long it is.
PIECE_BYTES = 1 << 18


def word_counts(texts: Strings) -> NDArray[np.int64]:
    """The number of white-space separated words of each text, as `len(text.split())` gives it.

    >>> word_counts(Strings.of(["red  fruit", "", " Ünlü\\u00a0söz "])).tolist()
    [2, 0, 2]
    """
    counts = np.zeros(len(texts), np.int64)
    sizes = np.cumsum(texts.lengths)
    first = 0
    while first < len(texts):
        before = int(sizes[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(sizes, before + PIECE_BYTES, side="right")))
        counts[first:last] = _counts(*texts[first:last].compact())
        first = last
    return counts


def _counts(buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    space = _spaces(buffer)
    # A word starts where no space stands and before it a space or the text's beginning.
    starts = ~space
    starts[1:] &= space[:-1]
    begins = offsets[:-1][offsets[:-1] < offsets[1:]]
    starts[begins] = ~space[begins]
    words_before = np.searchsorted(np.flatnonzero(starts), offsets)
    return np.diff(words_before).astype(np.int64)


def _spaces(buffer: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which bytes belong to white space."""
    # Tab to carriage return and the four separators, as ranges: a byte below the range wraps around to a large one.
    space: NDArray[np.bool_] = (buffer == 32) | (buffer - np.uint8(9) <= 13 - 9) | (buffer - np.uint8(28) <= 31 - 28)
    may_be_wide = np.zeros(len(buffer), bool)
    for byte in _FIRST_BYTES:
        may_be_wide |= buffer == byte
    at = np.flatnonzero(may_be_wide)
    for size, codes in _WIDE_CODES.items():
        at = at[at + size <= len(buffer)]
        code = sum(buffer[at + i].astype(np.int64) << 8 * (size - 1 - i) for i in range(size))
        found = at[np.isin(code, codes)]
        for i in range(size):
            space[found + i] = True
    return space
