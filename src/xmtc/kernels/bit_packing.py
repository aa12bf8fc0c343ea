"""Whole numbers in as few bits as each block of them needs: how indices are stored, see `xmtc.packing`.

Block b has `BLOCK` numbers (the last one is filled up with zeros) of widths[b] bits each, one after the other in 64-bit
words; a block begins with a word of its own. A number is what it exceeds `base` by; with `steps` what it exceeds the
number before it by, and so much is counted modulo a power of two: a step back is a long step forward, which needs no
sign.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled

BLOCK = 128  # a multiple of 64
WIDEST = 56  # bits of a number, so that shifting it within a signed word is safe

Words = NDArray[np.int64]


@compiled()
def pack_bits(values: Words, before: int, base: int, mask: int, steps: bool) -> tuple[NDArray[np.uint8], Words]:
    # (widths, words) of some numbers; `before` is the number in front of them, `mask` the largest difference to base.
    blocks = (len(values) + BLOCK - 1) // BLOCK
    widths = np.zeros(blocks, np.uint8)
    stored = np.zeros(blocks * BLOCK, np.int64)
    previous = before
    for at in range(len(values)):
        value = values[at]
        stored[at] = (value - previous) & mask if steps else value - base
        previous = value
    size: Any = 0
    for block in range(blocks):
        bits = np.int64(0)
        for at in range(block * BLOCK, (block + 1) * BLOCK):
            bits |= stored[at]
        width = np.int64(0)
        while bits > 0:
            bits >>= 1
            width += 1
        widths[block] = width
        size += width
    words = np.zeros(size * (BLOCK // 64), np.int64)
    start: Any = 0
    for block in range(blocks):
        width = np.int64(widths[block])
        place = np.int64(0)
        for at in range(block * BLOCK, (block + 1) * BLOCK if width > 0 else 0):
            word, shift = start + (place >> 6), place & 63
            words[word] |= stored[at] << shift
            if shift + width > 64:
                words[word + 1] |= stored[at] >> (64 - shift)
            place += width
        start += width * (BLOCK // 64)
    return widths, words


@compiled(writes=1)
def unpack_bits(
    widths: NDArray[np.uint8], words: Words, base: int, mask: int, steps: bool, values: NDArray[Any]
) -> None:
    # The numbers again; the caller has seen that there are as many words as the widths need.
    start = np.int64(0)
    previous = np.int64(base)
    for block in range(len(widths)):
        width = np.int64(widths[block])
        low = (np.int64(1) << width) - 1
        place = np.int64(0)
        for at in range(block * BLOCK, min((block + 1) * BLOCK, len(values))):
            word, shift = start + (place >> 6), place & 63
            value = np.int64(0)
            if width > 0:
                value = words[word] >> shift  # signed: what comes in from the left is cut off or overwritten
                if shift + width > 64:
                    value = (value & ((np.int64(1) << (64 - shift)) - 1)) | (words[word + 1] << (64 - shift))
                value &= low
            place += width
            if steps:
                previous = base + ((previous - base + value) & mask)
                values[at] = previous
            else:
                values[at] = base + value
        start += width * (BLOCK // 64)
