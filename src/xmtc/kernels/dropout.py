"""Dropout masks whose values depend on a seed and on their place alone, so that a batch may be split in any way.

Each value is a hash of its place: three rounds of shift and product (constants of Wellons' triple32), one seed before
the first and one after it. A processor hashes many places at once, and there is no state that has to be passed on.
"""

# ruff: noqa: D103 - a kernel; what it does stands in its first comment
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled

FACTOR_1, FACTOR_2, FACTOR_3 = np.uint32(0xED5AD4BB), np.uint32(0xAC4C1B51), np.uint32(0x31848BAB)
SHIFT_1, SHIFT_2, SHIFT_3, SHIFT_4 = np.uint32(17), np.uint32(11), np.uint32(15), np.uint32(14)
ZERO = np.float32(0)


@compiled()
def keep_mask(seed: Any, second_seed: Any, start: int, count: int, limit: Any, scale: Any) -> NDArray[np.float32]:
    # For the places from `start` on: 0 where the hash is below `limit`, else `scale`. All but start and count: 32 bits.
    mask = np.empty(count, np.float32)
    first = np.uint32(start) + seed
    for place in range(count):
        code = np.uint32(first + np.uint32(place))
        code = np.uint32((code ^ (code >> SHIFT_1)) * FACTOR_1) + second_seed
        code = np.uint32(code)
        code = np.uint32((code ^ (code >> SHIFT_2)) * FACTOR_2)
        code = np.uint32((code ^ (code >> SHIFT_3)) * FACTOR_3)
        code = code ^ (code >> SHIFT_4)
        mask[place] = scale if code >= limit else ZERO
    return mask
