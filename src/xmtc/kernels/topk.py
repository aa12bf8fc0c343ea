"""The k best of many as a bounded heap, worst on top: lowest score, and on ties the highest id."""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba


@numba.njit(inline="always")
def _sift_down(scores: Any, ids: Any, size: int, at: int) -> None:
    # Restore the heap below `at`.
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        other = child + 1
        if other < size and (
            scores[other] < scores[child] or (scores[other] == scores[child] and ids[other] > ids[child])
        ):
            child = other
        if scores[at] < scores[child] or (scores[at] == scores[child] and ids[at] > ids[child]):
            return
        scores[at], scores[child] = scores[child], scores[at]
        ids[at], ids[child] = ids[child], ids[at]
        at = child


@numba.njit(inline="always")
def offer(scores: Any, ids: Any, size: int, k: int, score: Any, id_: int) -> int:
    # Take an entry into a heap of `size` if it is among the k best so far; returns the heap's new size.
    if size < k:
        place = size
        while place > 0:
            parent = (place - 1) // 2
            if scores[parent] < score or (scores[parent] == score and ids[parent] > id_):
                break
            scores[place], ids[place] = scores[parent], ids[parent]
            place = parent
        scores[place], ids[place] = score, id_
        return size + 1
    if size > 0 and (score > scores[0] or (score == scores[0] and id_ < ids[0])):
        scores[0], ids[0] = score, id_
        _sift_down(scores, ids, size, 0)
    return size


@numba.njit(inline="always")
def best_first(scores: Any, ids: Any, size: int) -> None:
    # Turn the heap into a list: the worst goes to the end, again and again.
    for last in range(size - 1, 0, -1):
        scores[0], scores[last] = scores[last], scores[0]
        ids[0], ids[last] = ids[last], ids[0]
        _sift_down(scores, ids, last, 0)
