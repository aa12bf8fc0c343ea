"""Which words stand near each other, counted by sorting: pairs of a block of tokens, merged into all pairs so far.

A pair of words is one number, `rarer * words + commoner` (words are numbered by falling frequency, so the commoner one
has the lower id); which of them stood first does not matter. While a block waits to be sorted, the distance is the
lowest digit of that number, so that nothing but plain integers has to be sorted.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled

Codes = NDArray[np.int64]
Weights = NDArray[np.float32]


@compiled()
def pair_codes(
    ids: Any, offsets: Any, start: int, stop: int, window: int, special: int, words: int, contexts: int
) -> Codes:
    # The pairs whose first token is one of ids[start:stop] and whose second is at most `window` later in the same
    # document, as `pair * window + distance - 1`, unsorted. Ids below `special` are no words, but they take a place;
    # a pair counts only if its commoner word is below `contexts`.
    codes = np.empty((stop - start) * window, np.int64)  # pages that are never written take no memory
    count = 0
    document = np.searchsorted(offsets, start, side="right") - 1
    for first in range(start, stop):
        while offsets[document + 1] <= first:
            document += 1
        one = np.int64(ids[first])
        if one < special:
            continue
        for second in range(first + 1, min(first + window + 1, offsets[document + 1])):
            other = np.int64(ids[second])
            commoner = min(one, other)
            if special <= other and commoner < contexts:
                codes[count] = (max(one, other) * words + commoner) * window + (second - first - 1)
                count += 1
    return codes[:count]


@compiled()
def merge_pairs(pairs: Codes, weights: Weights, codes: Codes, window: int) -> tuple[Codes, Weights]:
    # (pairs, weights) in order, each pair once, with sorted new codes added: a code weighs 1 / distance.
    merged = np.empty(len(pairs) + len(codes), np.int64)
    sums = np.empty(len(pairs) + len(codes), np.float32)
    count = 0
    old = 0
    new = 0
    while old < len(pairs) or new < len(codes):
        if new == len(codes) or (old < len(pairs) and pairs[old] <= codes[new] // window):
            pair = pairs[old]
            weight = np.float64(weights[old])  # many small numbers are added: 4 bytes would lose them
            old += 1
        else:
            pair = codes[new] // window
            weight = np.float64(0)
        behind = (pair + 1) * window
        while new < len(codes) and codes[new] < behind:
            weight += 1.0 / (codes[new] - pair * window + 1)
            new += 1
        merged[count] = pair
        sums[count] = weight
        count += 1
    return merged[:count], sums[:count]
