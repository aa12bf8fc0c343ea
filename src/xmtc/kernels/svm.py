"""Linear classifiers by dual coordinate descent, all labels of a node over the same documents.

For each label: min 1/2 |w|^2 + C sum_i loss(y_i (w x_i + b)); the bias b is the weight of a constant feature 1 and so
regularised too (Fan et al. 2008, LIBLINEAR; Hsieh et al. 2008 for squared hinge, Yu et al. 2011 for logistic loss).

Three things make it fast. The node's documents are copied once with features renumbered from 0, so that dense weights
stay in the processor's cache. Eight labels are trained side by side: a document's features are then read once for
all of them, and the arithmetic is done eight at a time. And each label starts from the solution for "no document has
the label", which is found once.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted

Ints = NDArray[Any]
Floats = NDArray[np.float32]

SQUARED_HINGE, LOGISTIC = 0, 1
_INNER_STEPS = 30
_SMALLEST = 1e-8
LANES = 8  # labels trained side by side: a vector of eight floats
FEW_LABELS = 2
FAST = {"reassoc", "nsz", "contract"}
U = np.uintp
QUIET_SHARE = 0.3  # of the tolerance: a document whose slope is smaller is as good as right


@jitted()
def local_rows(indptr: Any, indices: Any, data: Any, rows: Any) -> tuple[Any, Any, Any, Any]:
    # Rows of a CSR matrix as CSR of their own with features renumbered: (indptr, indices, data, original features).
    count = 0
    for row in rows:
        count += indptr[row + 1] - indptr[row]
    new_indptr = np.zeros(len(rows) + 1, np.int64)
    new_indices = np.empty(count, np.int32)
    new_data = np.empty(count, np.float32)
    room = 16
    while room < 2 * count:
        room *= 2
    mask = room - 1
    slots = np.full(room, -1, np.int32)
    features = np.empty(count, np.int32)
    known = 0
    place = 0
    for at in range(len(rows)):
        row = rows[at]
        for entry in range(indptr[row], indptr[row + 1]):
            feature = np.int64(indices[entry])
            slot = (feature * 2654435761) & mask
            while slots[slot] >= 0 and features[slots[slot]] != feature:
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot] = known
                features[known] = feature
                known += 1
            new_indices[place] = slots[slot]
            new_data[place] = data[entry]
            place += 1
        new_indptr[at + 1] = place
    return new_indptr, new_indices, new_data, features[:known].copy()


@numba.njit(nogil=True, inline="always")
def _logistic_step(old: float, score: float, square: float, cost: float) -> float:
    # The new alpha in (0, cost) that minimises alpha log alpha + (cost - alpha) log(cost - alpha) + ... by Newton.
    low = min(_SMALLEST, 0.001 * cost)
    high = cost - low
    base = min(max(old, low), high)
    # Derivative at a: log(a / (cost - a)) + score + square (a - old).
    a = base
    for _ in range(_INNER_STEPS):
        slope = np.log(a / (cost - a)) + score + square * (a - old)
        if abs(slope) < 1e-3:
            break
        step = slope / (cost / (a * (cost - a)) + square)
        new = a - step
        if new <= low:  # keep inside, approaching the border by a tenth
            new = max(low, 0.1 * a)
        elif new >= high:
            new = min(high, cost - 0.1 * (cost - a))
        if new == a:
            break
        a = new
    return a


@numba.njit(nogil=True, fastmath=FAST)  # cached with the kernel that calls it
def _scores(indices: Any, data: Any, first: int, last: int, weights: Any, stride: int, scores: Any) -> None:
    # The scores of a document, one or eight. The eight are written out, because only so are they eight-at-once
    # instructions: unsigned positions need no check for counting from the end, and the sums stay in registers.
    b = U(len(weights) - stride)
    if stride == 1:
        score = weights[b]
        for entry in range(first, last):
            score += data[U(entry)] * weights[U(indices[U(entry)])]
        scores[0] = score
        return
    s0, s1, s2, s3 = weights[b], weights[b + U(1)], weights[b + U(2)], weights[b + U(3)]
    s4, s5, s6, s7 = weights[b + U(4)], weights[b + U(5)], weights[b + U(6)], weights[b + U(7)]
    for entry in range(first, last):
        value = data[U(entry)]
        p = U(indices[U(entry)]) * U(LANES)
        s0 += value * weights[p]
        s1 += value * weights[p + U(1)]
        s2 += value * weights[p + U(2)]
        s3 += value * weights[p + U(3)]
        s4 += value * weights[p + U(4)]
        s5 += value * weights[p + U(5)]
        s6 += value * weights[p + U(6)]
        s7 += value * weights[p + U(7)]
    scores[0], scores[1], scores[2], scores[3] = s0, s1, s2, s3
    scores[4], scores[5], scores[6], scores[7] = s4, s5, s6, s7


@intrinsic
def _add_eight(_: Any, weights: Any, place: Any, value: Any, change: Any) -> Any:
    # weights[place : place + 8] += value * change[:8], all float32. Numba's compiler makes eight single loads and
    # stores of it however it is written, so the eight-at-once instructions are given to it: a third of the time.
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        eight = ir.VectorType(ir.FloatType(), LANES)

        def pointer(at: int, index: Any) -> Any:
            array = context.make_array(signature.args[at])(context, builder, arguments[at])
            return builder.bitcast(builder.gep(array.data, [index]), eight.as_pointer())

        where = pointer(0, arguments[1])
        one = builder.insert_element(ir.Constant(eight, ir.Undefined), arguments[2], ir.IntType(32)(0))
        factor = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
        changes = builder.load(pointer(3, arguments[1].type(0)), align=4)
        product = builder.fmul(factor, changes, flags=("contract",))
        builder.store(builder.fadd(builder.load(where, align=4), product, flags=("contract",)), where, align=4)
        return context.get_dummy_value()

    return types.void(weights, place, value, change), generate


@numba.njit(nogil=True, fastmath=FAST)  # cached with the kernel that calls it
def _add(indices: Any, data: Any, first: int, last: int, weights: Any, stride: int, change: Any) -> None:
    # Add a document, times the one or eight changes, to the weights.
    for lane in range(stride):
        weights[len(weights) - stride + lane] += change[lane]
    if stride == 1:
        for entry in range(first, last):
            weights[U(indices[U(entry)])] += change[0] * data[U(entry)]
        return
    for entry in range(first, last):
        _add_eight(weights, U(indices[U(entry)]) * U(LANES), data[U(entry)], change)


@numba.njit(nogil=True, fastmath=FAST)  # cached with the kernel that calls it
def _descend(
    indptr: Any, indices: Any, data: Any, square: Any, sign: Any, alpha: Any, weights: Any, lanes: int, stride: int,
    loss: int, cost: float, tolerance: float, most_rounds: int, seed: Any,
) -> None:  # fmt: skip
    # Coordinate descent for `lanes` labels side by side from the given alpha and weights; `stride` is 1 or LANES. alpha
    # and sign are documents x stride, weights (features + 1) x stride with the bias last, all flat: a feature's weights
    # for all labels lie together. A document that is as good as right for all labels is left out of the rounds that
    # follow, until the others are right too and a round over all of them confirms it.
    documents = len(indptr) - 1
    quiet = QUIET_SHARE * tolerance
    half = np.float32(0.5 / cost)
    order = np.arange(documents)
    active = documents
    everything = True
    scores = np.zeros(LANES, np.float32)
    change = np.zeros(LANES, np.float32)
    upper = np.zeros(LANES, np.float32)
    lower = np.zeros(LANES, np.float32)
    done = np.zeros(LANES, np.bool_)
    state = np.uint64(seed) * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    for _ in range(most_rounds):
        for at in range(active - 1, 0, -1):  # shuffle
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            other = np.int64((state >> np.uint64(33)) % np.uint64(at + 1))
            order[at], order[other] = order[other], order[at]
        upper[:] = 0
        lower[:] = 0
        at = 0
        while at < active:
            row = order[at]
            _scores(indices, data, indptr[row], indptr[row + 1], weights, stride, scores)
            loud = False
            for lane in range(lanes):
                here = row * stride + lane
                old = alpha[here]
                margin = scores[lane] * sign[here]
                if loss == SQUARED_HINGE:
                    slope = margin - np.float32(1) + old * half
                    new = max(old - slope / (square[row] + half), np.float32(0))
                    if old == 0 and slope > 0:
                        slope = np.float32(0)
                else:
                    new = np.float32(_logistic_step(old, margin, square[row], cost))
                    slope = (old - new) * square[row]
                if done[lane] or abs(slope) <= quiet:
                    change[lane] = 0
                    continue
                upper[lane], lower[lane] = max(upper[lane], slope), min(lower[lane], slope)
                loud = True
                change[lane] = (new - old) * sign[here]
                alpha[here] = new
            if not loud:
                active -= 1
                order[at], order[active] = order[active], order[at]
                continue
            _add(indices, data, indptr[row], indptr[row + 1], weights, stride, change)
            at += 1
        settled = True
        for lane in range(lanes):
            good = upper[lane] - lower[lane] <= tolerance
            if good and everything:
                done[lane] = True
            settled = settled and (good or done[lane])
        if settled:
            if everything:
                return
            active = documents
        everything = settled


@compiled()
def train_node(
    indptr: Ints, indices: Ints, data: Floats, rows: Ints, positive_indptr: Ints, positives: Ints,
    loss: int, cost: float, tolerance: float, most_rounds: int, smallest: float, seed: int,
) -> tuple[Ints, NDArray[np.int32], Floats, Floats]:  # fmt: skip
    # Train a classifier for each label of a node on the documents `rows` of a CSR matrix. positives[...] are positions
    # in `rows`, label by label. Returns (indptr, features, weights, biases): CSR of the weights that are not smaller
    # than `smallest`, features in the numbering of the matrix and ascending.
    labels = len(positive_indptr) - 1
    documents = len(rows)
    row_indptr, row_indices, row_data, features = local_rows(indptr, indices, data, rows)
    square = np.empty(documents, np.float32)
    for row in range(documents):
        total = np.float32(1)
        for entry in range(row_indptr[row], row_indptr[row + 1]):
            total += row_data[entry] * row_data[entry]
        square[row] = total
    by_feature = np.argsort(features)
    biases = np.zeros(labels, np.float32)
    out_indptr = np.zeros(labels + 1, np.int64)
    out_features = np.empty(1024, np.int32)
    out_weights = np.empty(1024, np.float32)
    kept = 0
    width = len(features) + 1

    # The common start: no document has the label.
    start = np.float32(0) if loss == SQUARED_HINGE else np.float32(min(_SMALLEST, 0.001 * cost))
    none_alpha = np.full(documents, start, np.float32)
    none_weights = np.zeros(width, np.float32)
    for row in range(documents):
        _add_row(row_indptr, row_indices, row_data, row, -start, none_weights, 1, 0)
    _descend(
        row_indptr, row_indices, row_data, square, np.full(documents, -1, np.float32), none_alpha, none_weights, 1, 1,
        loss, cost, tolerance, most_rounds, seed,
    )  # fmt: skip

    # Few labels over many documents, as at the top of a tree, are faster one by one: their weights fill less cache.
    stride = LANES if labels > FEW_LABELS else 1
    all_alpha = np.repeat(none_alpha, stride)
    all_weights = np.repeat(none_weights, stride)
    for first in range(0, labels, stride):
        lanes = min(stride, labels - first)
        alpha = all_alpha.copy()
        weights = all_weights.copy()
        sign = np.full(documents * stride, -1, np.float32)
        for lane in range(lanes):
            for place in range(positive_indptr[first + lane], positive_indptr[first + lane + 1]):
                # Take back what the document did as a negative one.
                row = positives[place]
                here = row * stride + lane
                _add_row(row_indptr, row_indices, row_data, row, alpha[here] + start, weights, stride, lane)
                alpha[here] = start
                sign[here] = 1
        _descend(
            row_indptr, row_indices, row_data, square, sign, alpha, weights, lanes, stride,
            loss, cost, tolerance, most_rounds, seed + first + 1,
        )  # fmt: skip
        for lane in range(lanes):
            if kept + width > len(out_features):
                room = max(2 * len(out_features), kept + width)
                more_features, more_weights = np.empty(room, np.int32), np.empty(room, np.float32)
                more_features[:kept], more_weights[:kept] = out_features[:kept], out_weights[:kept]
                out_features, out_weights = more_features, more_weights
            biases[first + lane] = weights[(width - 1) * stride + lane]
            for at in by_feature:
                weight = weights[at * stride + lane]
                if abs(weight) >= smallest and weight != 0:
                    out_features[kept] = features[at]
                    out_weights[kept] = weight
                    kept += 1
            out_indptr[first + lane + 1] = kept
    return out_indptr, out_features[:kept].copy(), out_weights[:kept].copy(), biases


@jitted()
def _add_row(indptr: Any, indices: Any, data: Any, row: int, change: Any, weights: Any, stride: int, lane: int) -> None:
    # Add a document to the weights of one lane.
    for entry in range(indptr[row], indptr[row + 1]):
        weights[indices[entry] * stride + lane] += change * data[entry]
    weights[len(weights) - stride + lane] += change
