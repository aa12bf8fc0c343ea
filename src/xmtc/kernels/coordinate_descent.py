"""Linear classifiers by dual coordinate descent, all labels of a node over the same documents.

For each label: min 1/2 |w|^2 + 1/2 v^2 + C sum_i loss(y_i (w x_i + b)) with the bias b = r + beta v (Fan et al. 2008,
LIBLINEAR; Hsieh et al. 2008 for squared hinge, Yu et al. 2011 for logistic loss). With r = 0 and beta = 1 this is
liblinear's problem. Here r = -1 for squared hinge, because that is the answer "no" of a label without documents: every
label starts from it, and the many documents that have nothing to do with a label never need to be touched. A small
beta keeps documents from pushing each other through the bias, so that fewer rounds are needed; the result is the same.

Four things make it fast. The node's documents are copied once with features renumbered from 0, so that dense weights
stay in the processor's cache. Eight labels are trained side by side: a document's features are then read once for
all of them, and the arithmetic is done eight at a time. A label that few documents have is fitted to these before the
others are looked at. And documents that are right for all eight labels are left alone until the end.
"""

# ruff: noqa: ARG001, D103, NPY002 - kernels; what each does stands in its first comment, numba compiles np.random's
# calls, and an intrinsic has arguments that only the code that it generates uses
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted

Ints = NDArray[Any]
Floats = NDArray[np.float32]

SQUARED_HINGE, LOGISTIC = 0, 1
_INNER_STEPS = 30
_SMALLEST = 1e-8
REST = np.float32(-1)  # the bias of a label that no document has
FEW = 0.05  # share of documents that have a label: such a label is first fitted to these
LANES = 8  # labels trained side by side: a vector of eight floats
FAST = {"reassoc", "nsz", "contract"}
U = np.uintp
QUIET_SHARE = 0.3  # of the tolerance: a document whose slope is smaller is as good as right


@jitted()
def local_rows(indptr: Any, indices: Any, data: Any, rows: Any, width: int) -> tuple[Any, Any, Any, Any]:
    # Rows of a CSR matrix with `width` columns as CSR of their own with features renumbered: (indptr, indices, data,
    # original features).
    count = 0
    for row in rows:
        count += indptr[row + 1] - indptr[row]
    new_indptr = np.zeros(len(rows) + 1, np.int64)
    new_indices = np.empty(count, np.int32)
    new_data = np.empty(count, np.float32)
    if 4 * count > width:  # many: a table of all features, and they keep their order
        numbers = np.zeros(width, np.int32)
        for row in rows:
            for entry in range(indptr[row], indptr[row + 1]):
                numbers[indices[entry]] = 1
        features = np.flatnonzero(numbers).astype(np.int32)
        for at in range(len(features)):
            numbers[features[at]] = at
        place = 0
        for at in range(len(rows)):
            for entry in range(indptr[rows[at]], indptr[rows[at] + 1]):
                new_indices[place] = numbers[indices[entry]]
                new_data[place] = data[entry]
                place += 1
            new_indptr[at + 1] = place
        return new_indptr, new_indices, new_data, features
    room = 16  # few: a hash table of those that there are
    while room < 2 * count:
        room *= 2
    mask = room - 1
    slots = np.full(room, -1, np.int32)
    found = np.empty(count, np.int32)
    known = 0
    place = 0
    for at in range(len(rows)):
        row = rows[at]
        for entry in range(indptr[row], indptr[row + 1]):
            feature = np.int64(indices[entry])
            slot = (feature * 2654435761) & mask
            while slots[slot] >= 0 and found[slots[slot]] != feature:
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot] = known
                found[known] = feature
                known += 1
            new_indices[place] = slots[slot]
            new_data[place] = data[entry]
            place += 1
        new_indptr[at + 1] = place
    return new_indptr, new_indices, new_data, found[:known].copy()


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


# Numba's compiler makes single loads and stores of anything that is written for several labels side by side. So the
# loops over a document's features are given to LLVM as vectors: a third of the time.
UNROLLED = 4  # sums side by side: each addition waits for the one before it in the same sum
LONG = ir.IntType(64)
CACHE_LINE = 16  # numbers of four bytes
INDICES, DATA, FIRST, LAST, WEIGHTS, OTHER = range(6)  # the arguments of both loops


class _Loop:
    """What both loops need: a document's entries, and the weights of its features for all lanes."""

    def __init__(self, lanes: int, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.lanes, self.vector = lanes, ir.VectorType(ir.FloatType(), lanes)
        self.context, self.builder, self.signature, self.arguments = context, builder, signature, arguments

    def item(self, at: int, index: Any) -> Any:
        """A pointer to an item of an argument that is an array."""
        array = self.context.make_array(self.signature.args[at])(self.context, self.builder, self.arguments[at])
        return self.builder.gep(array.data, [index])

    def lanes_at(self, at: int, index: Any) -> Any:
        """The same, as a pointer to as many items as there are lanes."""
        return self.builder.bitcast(self.item(at, index), self.vector.as_pointer())

    def feature(self, entry: Any) -> tuple[Any, Any]:
        """Of a document's entry: (pointer to the feature's weights for all lanes, the value as often)."""
        build = self.builder
        index = build.zext(build.load(self.item(INDICES, entry)), LONG)
        where = self.lanes_at(WEIGHTS, build.mul(index, LONG(self.lanes)))
        value = build.load(self.item(DATA, entry))
        one = build.insert_element(ir.Constant(self.vector, ir.Undefined), value, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return where, build.shuffle_vector(one, one, zeros)

    def plus_product(self, total: Any, a: Any, b: Any) -> Any:
        """Total + a * b, in one instruction where there is one."""
        return self.builder.fadd(total, self.builder.fmul(a, b, flags=("contract",)), flags=("contract",))


def _scores_of(lanes: int) -> Any:
    """A loop: scores[:lanes] += sum over entries of data[entry] * weights[lanes * indices[entry] :][:lanes]."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        loop = _Loop(lanes, context, build, signature, arguments)
        scores = loop.lanes_at(OTHER, LONG(0))
        sums = [cgutils.alloca_once_value(build, ir.Constant(loop.vector, None)) for _ in range(UNROLLED)]
        build.store(build.load(scores, align=4), sums[0])

        def add(entry: Any, total: Any) -> None:
            weights, value = loop.feature(entry)
            build.store(loop.plus_product(build.load(total), value, build.load(weights, align=4)), total)

        first, last, many = arguments[FIRST], arguments[LAST], LONG(UNROLLED)
        whole = build.add(first, build.mul(build.sdiv(build.sub(last, first), many), many))
        with cgutils.for_range_slice(build, first, whole, many) as (entry, _count):
            for at, total in enumerate(sums):
                add(build.add(entry, LONG(at)), total)
        with cgutils.for_range_slice(build, whole, last, LONG(1)) as (entry, _count):
            add(entry, sums[0])
        result = build.load(sums[0])
        for total in sums[1:]:
            result = build.fadd(result, build.load(total))
        build.store(result, scores, align=4)
        return context.get_dummy_value()

    @intrinsic
    def scores_of(_: Any, indices: Any, data: Any, first: Any, last: Any, weights: Any, scores: Any) -> Any:
        return types.void(indices, data, types.int64, types.int64, weights, scores), generate

    return scores_of


def _add_to(lanes: int) -> Any:
    """A loop: weights[lanes * indices[entry] :][:lanes] += data[entry] * change[:lanes] for all entries."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        loop = _Loop(lanes, context, build, signature, arguments)
        change = build.load(loop.lanes_at(OTHER, LONG(0)), align=4)
        with cgutils.for_range_slice(build, arguments[FIRST], arguments[LAST], LONG(1)) as (entry, _count):
            weights, value = loop.feature(entry)
            build.store(loop.plus_product(build.load(weights, align=4), value, change), weights, align=4)
        return context.get_dummy_value()

    @intrinsic
    def add_to(_: Any, indices: Any, data: Any, first: Any, last: Any, weights: Any, change: Any) -> Any:
        return types.void(indices, data, types.int64, types.int64, weights, change), generate

    return add_to


@intrinsic
def _fetch(_: Any, indices: Any, data: Any, first: Any, last: Any) -> Any:
    # Have the processor bring a document's entries into its cache while it works on another one.
    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        loop = _Loop(1, context, build, signature, arguments)
        anything = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [anything, number, number, number])
        fetch = cgutils.get_or_insert_function(build.module, kind, "llvm.prefetch.p0")
        reading, keep, is_data = (number(flag) for flag in (0, 3, 1))
        with cgutils.for_range_slice(build, arguments[FIRST], arguments[LAST], LONG(CACHE_LINE)) as (entry, _count):
            for at in (INDICES, DATA):
                build.call(fetch, [build.bitcast(loop.item(at, entry), anything), reading, keep, is_data])
        return context.get_dummy_value()

    return types.void(indices, data, types.int64, types.int64), generate


def _scores_in_python(lanes: int) -> Any:
    """What `_scores_of` does, for kernels that are not compiled."""

    def scores_of(indices: Any, data: Any, first: int, last: int, weights: Any, scores: Any) -> None:
        for entry in range(first, last):
            scores[:lanes] += data[entry] * weights[lanes * int(indices[entry]) :][:lanes]

    return scores_of


def _add_in_python(lanes: int) -> Any:
    """What `_add_to` does, for kernels that are not compiled."""

    def add_to(indices: Any, data: Any, first: int, last: int, weights: Any, change: Any) -> None:
        for entry in range(first, last):
            weights[lanes * int(indices[entry]) :][:lanes] += data[entry] * change[:lanes]

    return add_to


if numba.config.DISABLE_JIT:
    _scores_of, _add_to, _fetch = _scores_in_python, _add_in_python, lambda *_: None

_scores_of_1, _scores_of_2, _scores_of_8 = _scores_of(1), _scores_of(2), _scores_of(LANES)
_add_to_1, _add_to_2, _add_to_8 = _add_to(1), _add_to(2), _add_to(LANES)


@numba.njit(nogil=True)  # cached with the kernel that calls it
def _scores(indices: Any, data: Any, first: int, last: int, weights: Any, stride: int, scores: Any) -> None:
    # The scores of a document for one, two or eight labels.
    for lane in range(stride):
        scores[lane] = weights[len(weights) - stride + lane]
    if stride == LANES:
        _scores_of_8(indices, data, first, last, weights, scores)
    elif stride == 2:
        _scores_of_2(indices, data, first, last, weights, scores)
    else:
        _scores_of_1(indices, data, first, last, weights, scores)


@numba.njit(nogil=True)  # cached with the kernel that calls it
def _add(
    indices: Any, data: Any, first: int, last: int, weights: Any, stride: int, change: Any, bias_square: Any
) -> None:
    # Add a document, times the one, two or eight changes, to the weights.
    for lane in range(stride):
        weights[len(weights) - stride + lane] += change[lane] * bias_square
    if stride == LANES:
        _add_to_8(indices, data, first, last, weights, change)
    elif stride == 2:
        _add_to_2(indices, data, first, last, weights, change)
    else:
        _add_to_1(indices, data, first, last, weights, change)


@numba.njit(nogil=True, fastmath=FAST)  # cached with the kernel that calls it
def _descend(
    indptr: Any, indices: Any, data: Any, square: Any, sign: Any, known: Any, alpha: Any, weights: Any, lanes: int,
    stride: int, loss: int, cost: float, tolerance: float, most_rounds: int, bias_square: Any, order: Any, active: int,
    seed: int,
) -> None:  # fmt: skip
    # Coordinate descent for `lanes` labels side by side from the given alpha and weights; `stride` is 1, 2 or LANES.
    # alpha and sign are documents x stride, weights (features + 1) x stride with the bias last, all flat: a feature's
    # weights for all labels lie together. `known`, unless it is empty, holds what is added to the scores. The first
    # rounds are over the first `active` documents of `order`. Once these are right for all labels, a round over all
    # documents finds others that are not, and so on until there are none. A document that is as good as right for all
    # labels is left out of the rounds that follow. A round over all is in the order in which they lie in memory, which
    # is random; the others are shuffled each time.
    documents = len(indptr) - 1
    quiet = QUIET_SHARE * tolerance
    half = np.float32(0.5 / cost)
    left = most_rounds * documents
    everything = active == documents
    scores = np.zeros(LANES, np.float32)
    change = np.zeros(LANES, np.float32)
    upper = np.zeros(LANES, np.float32)
    lower = np.zeros(LANES, np.float32)
    done = np.zeros(LANES, np.bool_)
    state = np.uint64(seed)
    while left > 0:
        if everything:
            for at in range(documents):
                order[at] = at
        else:
            for at in range(active - 1, 0, -1):  # shuffle
                state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                other = np.int64((state >> np.uint64(33)) % np.uint64(at + 1))
                order[at], order[other] = order[other], order[at]
        upper[:] = 0
        lower[:] = 0
        left -= active
        kept = 0
        for at in range(active):
            row = order[at]
            if at + 1 < active:
                _fetch(indices, data, indptr[order[at + 1]], indptr[order[at + 1] + 1])
            _scores(indices, data, indptr[row], indptr[row + 1], weights, stride, scores)
            loud = False
            for lane in range(lanes):
                here = row * stride + lane
                old = alpha[here]
                score = scores[lane]
                if len(known):
                    score += known[here]
                margin = score * sign[here]
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
            if loud:
                _add(indices, data, indptr[row], indptr[row + 1], weights, stride, change, bias_square)
                order[kept] = row  # a place that this round has passed
                kept += 1
        settled = True
        for lane in range(lanes):
            good = upper[lane] - lower[lane] <= tolerance
            if good and everything:
                done[lane] = True
            settled = settled and (good or done[lane])
        if settled and everything:
            return
        everything = settled
        active = documents if settled else kept


@compiled()
def train_node(
    indptr: Ints, indices: Ints, data: Floats, width: int, rows: Ints, positive_indptr: Ints, positives: Ints,
    offsets: Floats, loss: int, cost: float, tolerance: float, most_rounds: int, smallest: float, bias: float,
    seed: int,
) -> tuple[Ints, NDArray[np.int32], Floats, Floats]:  # fmt: skip
    # Train a classifier for each label of a node on the documents `rows` of a CSR matrix of `width` features.
    # positives[...] are positions in `rows`, label by label. Returns (indptr, features, weights, biases): CSR of the
    # weights that are not smaller than `smallest`, features in the numbering of the matrix and ascending. If `offsets`,
    # labels x documents, is not empty, it holds scores of earlier classifiers, and what is to be added to these
    # classifiers is found: the least change that suits the documents.
    labels = len(positive_indptr) - 1
    documents = len(rows)
    # In memory the documents lie in random order: going through them from first to last is then as good as shuffling.
    np.random.seed(seed)
    shuffled = np.random.permutation(documents)
    place_of = np.empty(documents, np.int64)
    for at in range(documents):
        place_of[shuffled[at]] = at
    row_indptr, row_indices, row_data, features = local_rows(indptr, indices, data, rows[shuffled], width)
    bias_square = np.float32(bias * bias)
    square = np.empty(documents, np.float32)
    for row in range(documents):
        total = bias_square
        for entry in range(row_indptr[row], row_indptr[row + 1]):
            total += row_data[entry] * row_data[entry]
        square[row] = total
    by_feature = np.argsort(features, kind="mergesort")  # see the package: not quicksort
    biases = np.zeros(labels, np.float32)
    out_indptr = np.zeros(labels + 1, np.int64)
    out_features = np.empty(1024, np.int32)
    out_weights = np.empty(1024, np.float32)
    kept = 0
    columns = len(features) + 1
    order = np.arange(documents)

    # The common start: no document has the label.
    start = np.float32(0) if loss == SQUARED_HINGE else np.float32(min(_SMALLEST, 0.001 * cost))
    none_alpha = np.full(documents, start, np.float32)
    none_weights = np.zeros(columns, np.float32)
    nothing_known = np.zeros(0, np.float32)
    for row in range(documents):
        _add_row(row_indptr, row_indices, row_data, row, -start, none_weights, 1, 0, bias_square)
    if not offsets.size:
        if loss == SQUARED_HINGE:
            none_weights[columns - 1] = REST
        _descend(
            row_indptr, row_indices, row_data, square, np.full(documents, -1, np.float32), nothing_known, none_alpha,
            none_weights, 1, 1, loss, cost, tolerance, most_rounds, bias_square, order, documents, seed,
        )  # fmt: skip

    # The weights of few labels, as at the top of a binary tree, fill less cache if there is no room for eight.
    stride = LANES if labels > 2 else labels
    all_alpha = np.repeat(none_alpha, stride)
    all_weights = np.repeat(none_weights, stride)
    alpha, weights = np.empty_like(all_alpha), np.empty_like(all_weights)
    sign = np.empty(documents * stride, np.float32)
    counts = np.empty(LANES, np.int64)
    for first in range(0, labels, max(1, stride)):
        lanes = min(stride, labels - first)
        alpha[:] = all_alpha
        weights[:] = all_weights
        sign[:] = -1
        known = nothing_known
        if offsets.size:
            known = np.zeros(documents * stride, np.float32)
            for lane in range(lanes):
                for at in range(documents):
                    known[place_of[at] * stride + lane] = offsets[first + lane, at]
        has_label = np.zeros(documents, np.bool_)
        for lane in range(lanes):
            for place in range(positive_indptr[first + lane], positive_indptr[first + lane + 1]):
                # Take back what the document did as a negative one.
                row = place_of[positives[place]]
                here = row * stride + lane
                _add_row(
                    row_indptr, row_indices, row_data, row, alpha[here] + start, weights, stride, lane, bias_square
                )
                alpha[here] = start
                sign[here] = 1
                has_label[row] = True
        active = 0
        for row in range(documents):
            if has_label[row]:
                order[active] = row
                active += 1
        if active > FEW * documents:
            active = documents
        _descend(
            row_indptr, row_indices, row_data, square, sign, known, alpha, weights, lanes, stride,
            loss, cost, tolerance, most_rounds, bias_square, order, active, seed + first + 1,
        )  # fmt: skip
        # Once over the weights to count those that are large enough, label by label, and once more to take them.
        counts[:] = 0
        for at in range(len(features)):
            for lane in range(lanes):
                weight = weights[at * stride + lane]
                if abs(weight) >= smallest and weight != 0:
                    counts[lane] += 1
        for lane in range(lanes):
            biases[first + lane] = weights[len(features) * stride + lane]
            out_indptr[first + lane + 1] = out_indptr[first + lane] + counts[lane]
        kept = out_indptr[first + lanes]
        if kept > len(out_features):
            room = max(2 * len(out_features), kept)
            more_features, more_weights = np.empty(room, np.int32), np.empty(room, np.float32)
            more_features[: out_indptr[first]] = out_features[: out_indptr[first]]
            more_weights[: out_indptr[first]] = out_weights[: out_indptr[first]]
            out_features, out_weights = more_features, more_weights
        counts[:lanes] = out_indptr[first : first + lanes]
        for at in by_feature:
            for lane in range(lanes):
                weight = weights[at * stride + lane]
                if abs(weight) >= smallest and weight != 0:
                    out_features[counts[lane]] = features[at]
                    out_weights[counts[lane]] = weight
                    counts[lane] += 1
    return out_indptr, out_features[:kept].copy(), out_weights[:kept].copy(), biases


@jitted()
def _add_row(
    indptr: Any, indices: Any, data: Any, row: int, change: Any, weights: Any, stride: int, lane: int, bias_square: Any
) -> None:
    # Add a document to the weights of one lane.
    for entry in range(indptr[row], indptr[row + 1]):
        weights[indices[entry] * stride + lane] += change * data[entry]
    weights[len(weights) - stride + lane] += change * bias_square
