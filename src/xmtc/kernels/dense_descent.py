"""Linear classifiers of dense vectors by dual coordinate descent, each on documents of its own.

The problem is that of `xmtc.kernels.coordinate_descent`; a label has few documents here, and all features of each.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled
from xmtc.kernels.coordinate_descent import QUIET_SHARE, REST, SQUARED_HINGE, Solver, logistic_step
from xmtc.kernels.dense_topk import FAST, dot

Floats = NDArray[np.float32]
SMALLEST = 1e-8  # alpha of a document to begin with, for logistic loss


@numba.njit(nogil=True, fastmath=FAST, forceinline=True)  # cached with the kernel that calls it
def _add(weights: Any, change: Any, vector: Any) -> None:
    for at in range(np.uintp(len(vector))):
        weights[at] += change * vector[at]


@compiled()
def train_on_lists(
    vectors: Floats, indptr: Any, documents: Any, signs: Floats, solver: Solver, seed: int
) -> tuple[Floats, Floats]:
    # (weights, biases) of a classifier for each label, from its list of documents, which have the label where the sign
    # is 1 and do not where it is -1. A document that is as good as right is left out until all others are.
    labels, width = len(indptr) - 1, vectors.shape[1]
    weights, biases = np.zeros((labels, width), np.float32), np.zeros(labels, np.float32)
    loss, cost = solver.loss, solver.cost
    bias_square, half = np.float32(solver.bias * solver.bias), np.float32(0.5 / cost)
    quiet = np.float32(QUIET_SHARE * solver.tolerance)
    state = np.uint64(seed)
    for label in range(labels):
        first = indptr[label]
        count = indptr[label + 1] - first
        own = weights[label]
        start = np.float32(0) if loss == SQUARED_HINGE else np.float32(min(SMALLEST, 0.001 * cost))
        bias = REST if loss == SQUARED_HINGE else np.float32(0)
        alpha = np.full(count, start, np.float32)
        square = np.empty(count, np.float32)
        order = np.arange(count)
        for at in range(count):
            vector, sign = vectors[documents[first + at]], signs[first + at]
            square[at] = dot(vector, vector) + bias_square
            if start > 0:
                _add(own, sign * start, vector)
                bias += sign * start * bias_square
        active, left = count, solver.max_rounds * count
        while left > 0:
            everything = active == count
            left -= active
            for at in range(active - 1, 0, -1):  # shuffle
                state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                other = np.int64((state >> np.uint64(33)) % np.uint64(at + 1))
                order[at], order[other] = order[other], order[at]
            upper, lower, kept = np.float32(0), np.float32(0), 0
            for at in range(active):
                place = order[at]
                vector, sign, old = vectors[documents[first + place]], signs[first + place], alpha[place]
                margin = sign * (dot(own, vector) + bias)
                if loss == SQUARED_HINGE:
                    slope = margin - np.float32(1) + old * half
                    new = max(old - slope / (square[place] + half), np.float32(0))
                    if old == 0 and slope > 0:
                        slope = np.float32(0)
                else:
                    new = np.float32(logistic_step(old, margin, square[place], cost))
                    slope = (old - new) * square[place]
                if abs(slope) <= quiet:
                    continue
                upper, lower = max(upper, slope), min(lower, slope)
                change = (new - old) * sign
                _add(own, change, vector)
                bias += change * bias_square
                alpha[place] = new
                order[at], order[kept] = order[kept], place  # a place that this round has passed
                kept += 1
            settled = upper - lower <= solver.tolerance
            if settled and everything:
                break
            active = count if settled or kept == 0 else kept
        biases[label] = bias
        for at in range(width):
            if abs(own[at]) < solver.smallest_weight:
                own[at] = 0
    return weights, biases
