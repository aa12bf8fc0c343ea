"""Linear classifiers by dual coordinate descent, all labels of a node over the same documents.

For each label: min 1/2 |w|^2 + 1/2 v^2 + C sum_i loss(y_i (w x_i + b)) with the bias b = r + beta v (Fan et al. 2008,
LIBLINEAR; Hsieh et al. 2008 for squared hinge, Yu et al. 2011 for logistic loss). With r = 0 and beta = 1 this is
liblinear's problem. Here r = -1 for squared hinge, because that is the answer "no" of a label without documents: every
label starts from it, and the many documents that have nothing to do with a label never need to be touched. A small
beta keeps documents from pushing each other through the bias, so that fewer rounds are needed; the result is the same.
With weights, C is multiplied by that of the document and, for the documents that have the label, by that of the label.

Four things make it fast. The node's documents are copied once with features renumbered from 0, so that dense weights
stay in the processor's cache. Eight labels are trained side by side: a document's features are then read once for
all of them, and the arithmetic is done eight at a time. A label that few documents have is fitted to these before the
others. And documents that are right for all eight labels are left alone until the end.
"""

# ruff: noqa: D103, NPY002 - kernels; what each does stands in its first comment, and numba compiles np.random's calls
from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.csr import CsrArrays, copy_to, local_rows
from xmtc.kernels.dense_topk import FAST
from xmtc.kernels.vector_loops import LANES, add_document, prefetch, score_labels

Ints = NDArray[Any]
Floats = NDArray[np.float32]

SQUARED_HINGE, LOGISTIC = 0, 1
_INNER_STEPS = 30
_SMALLEST = 1e-8
REST = np.float32(-1)  # the bias of a label that no document has
FEW = 0.05  # share of documents that have a label: such a label is first fitted to these
QUIET_SHARE = 0.3  # of the tolerance: a document whose slope is smaller is as good as right


class Solver(NamedTuple):
    """How classifiers are trained."""

    loss: int  # SQUARED_HINGE or LOGISTIC
    cost: float
    tolerance: float
    max_rounds: int
    smallest_weight: float  # smaller ones are dropped
    bias: float  # beta


class Importance(NamedTuple):
    """What the cost is multiplied by; both empty if it is the same for all, which takes no time."""

    documents: NDArray[np.float32]  # one for each
    positives: NDArray[np.float32]  # one for each entry of `positives`, beside that of its document


class Labels(NamedTuple):
    """The state of some labels side by side: documents x stride, or (features + 1) x stride with the bias last, flat.

    So a feature's weights for all labels lie together. `known`, unless it is empty, is added to the scores; `costs`,
    unless it is empty, holds in place of the solver's cost.
    """

    sign: NDArray[np.float32]
    known: NDArray[np.float32]
    costs: NDArray[np.float32]
    alpha: NDArray[np.float32]
    weights: NDArray[np.float32]


@numba.njit(nogil=True, inline="always")
def logistic_step(old: float, score: float, square: float, cost: float) -> float:
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


@numba.njit(nogil=True, fastmath=FAST, forceinline=True)  # cached with the kernel that calls it
def descend(
    rows: CsrArrays,
    square: Any,
    labels: Labels,
    lanes: int,
    stride: int,
    solver: Solver,
    order: Any,
    active: int,
    seed: int,
) -> bool:
    # Coordinate descent for `lanes` labels side by side from the given alpha and weights; `stride` is 1, 2 or LANES.
    # The first rounds are over the first `active` documents of `order`. Once these are right for all labels, a round
    # over all documents finds others that are not, and so on until there are none. A document that is as good as right
    # for all labels is left out of the rounds that follow. A round over all is in the order in which they lie in
    # memory, which is random; the others are shuffled each time.
    sign, known, costs, alpha, weights = labels
    loss, cost, tolerance = solver.loss, solver.cost, solver.tolerance
    documents = len(rows.indptr) - 1
    bias_square = np.float32(solver.bias * solver.bias)
    quiet = QUIET_SHARE * tolerance
    half = np.float32(0.5 / cost)
    left = solver.max_rounds * documents
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
                prefetch(rows, order[at + 1])
            score_labels(rows, row, weights, stride, scores)
            loud = False
            for lane in range(lanes):
                here = row * stride + lane
                old = alpha[here]
                score = scores[lane]
                if len(known):
                    score += known[here]
                margin = score * sign[here]
                if loss == SQUARED_HINGE:
                    diagonal = half
                    if len(costs):
                        diagonal = np.float32(0.5) / costs[here]
                    slope = margin - np.float32(1) + old * diagonal
                    new = max(old - slope / (square[row] + diagonal), np.float32(0))
                    if old == 0 and slope > 0:
                        slope = np.float32(0)
                else:
                    highest = cost
                    if len(costs):
                        highest = np.float64(costs[here])
                    new = np.float32(logistic_step(old, margin, square[row], highest))
                    slope = (old - new) * square[row]
                if done[lane] or abs(slope) <= quiet:
                    change[lane] = 0
                    continue
                upper[lane], lower[lane] = max(upper[lane], slope), min(lower[lane], slope)
                loud = True
                change[lane] = (new - old) * sign[here]
                alpha[here] = new
            if loud:
                add_document(rows, row, weights, stride, change, bias_square)
                order[kept] = row  # a place that this round has passed
                kept += 1
        settled = True
        for lane in range(lanes):
            good = upper[lane] - lower[lane] <= tolerance
            if good and everything:
                done[lane] = True
            settled = settled and (good or done[lane])
        if settled and everything:
            return True
        everything = settled
        active = documents if settled else kept
    return False


@compiled()
def train_node(
    matrix: CsrArrays,
    width: int,
    rows: Ints,
    positive_indptr: Ints,
    positives: Ints,
    offsets: Floats,
    importance: Importance,
    solver: Solver,
    seed: int,
) -> tuple[Ints, NDArray[np.int32], Floats, Floats]:
    # Train a classifier for each label of a node on the documents `rows` of a matrix of `width` features. `positives`
    # are positions in `rows`, label by label. Returns (indptr, features, weights, biases): CSR of the weights that are
    # large enough, features in the numbering of the matrix and ascending. If `offsets`, labels x documents, is not
    # empty, it holds scores of earlier classifiers, and the result is to be added to these: the least change that suits
    # the documents. `importance` is that of `rows` and of `positives`.
    smallest = solver.smallest_weight
    labels = len(positive_indptr) - 1
    documents = len(rows)
    # In memory the documents lie in random order: going through them from first to last is then as good as shuffling.
    np.random.seed(seed)
    shuffled = np.random.permutation(documents)
    place_of = np.empty(documents, np.int64)
    for at in range(documents):
        place_of[shuffled[at]] = at
    local, features = local_rows(matrix, rows[shuffled], width)
    bias_square = np.float32(solver.bias * solver.bias)
    square = np.empty(documents, np.float32)
    for row in range(documents):
        total = bias_square
        for entry in range(local.indptr[row], local.indptr[row + 1]):
            total += local.data[entry] * local.data[entry]
        square[row] = total
    by_feature = np.argsort(features, kind="mergesort")  # see the package: not quicksort
    biases = np.zeros(labels, np.float32)
    out_indptr = np.zeros(labels + 1, np.int64)
    out_features = np.empty(1024, np.int32)
    out_weights = np.empty(1024, np.float32)
    kept = 0
    columns = len(features) + 1
    order = np.arange(documents)

    nothing_known = np.zeros(0, np.float32)
    weighted = len(importance.documents) > 0
    none_costs = nothing_known
    if weighted:
        none_costs = np.empty(documents, np.float32)
        for at in range(documents):
            none_costs[place_of[at]] = solver.cost * importance.documents[at]

    # The common start: no document has the label. (Numba compiles all loops once more for a 1 that it knows.)
    single: Any = np.int64(1)
    first_lane: Any = np.int64(0)
    start = np.float32(0) if solver.loss == SQUARED_HINGE else np.float32(min(_SMALLEST, 0.001 * solver.cost))
    none_alpha = np.full(documents, start, np.float32)
    none_weights = np.zeros(columns, np.float32)
    for row in range(documents):
        _add_row(local, row, -start, none_weights, single, first_lane, bias_square)
    if not offsets.size:
        if solver.loss == SQUARED_HINGE:
            none_weights[columns - 1] = REST
        none = Labels(np.full(documents, -1, np.float32), nothing_known, none_costs, none_alpha, none_weights)
        descend(local, square, none, single, single, solver, order, documents, seed)

    # The weights of few labels, as at the top of a binary tree, fill less cache if there is no room for eight.
    stride = LANES if labels > 2 else labels
    all_alpha = np.repeat(none_alpha, stride)
    all_weights = np.repeat(none_weights, stride)
    alpha, weights = np.empty_like(all_alpha), np.empty_like(all_weights)
    sign = np.empty(documents * stride, np.float32)
    counts = np.empty(LANES, np.int64)
    for first in range(0, labels, max(1, stride)):
        lanes = min(stride, labels - first)
        copy_to(alpha, all_alpha)
        copy_to(weights, all_weights)
        sign[:] = -1
        known = nothing_known
        if offsets.size:
            known = np.zeros(documents * stride, np.float32)
            for lane in range(lanes):
                for at in range(documents):
                    known[place_of[at] * stride + lane] = offsets[first + lane, at]
        costs = np.repeat(none_costs, stride)
        has_label = np.zeros(documents, np.bool_)
        for lane in range(lanes):
            for place in range(positive_indptr[first + lane], positive_indptr[first + lane + 1]):
                # Take back what the document did as a negative one.
                row = place_of[positives[place]]
                here = row * stride + lane
                _add_row(local, row, alpha[here] + start, weights, stride, lane, bias_square)
                alpha[here] = start
                sign[here] = 1
                has_label[row] = True
                if weighted:
                    costs[here] *= importance.positives[place]
        active = 0
        for row in range(documents):
            if has_label[row]:
                order[active] = row
                active += 1
        if active > FEW * documents:
            active = documents
        state = Labels(sign, known, costs, alpha, weights)
        descend(local, square, state, lanes, stride, solver, order, active, seed + first + 1)
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
            copy_to(more_features, out_features[: out_indptr[first]])
            copy_to(more_weights, out_weights[: out_indptr[first]])
            out_features, out_weights = more_features, more_weights
        copy_to(counts, out_indptr[first : first + lanes])
        for at in by_feature:
            for lane in range(lanes):
                weight = weights[at * stride + lane]
                if abs(weight) >= smallest and weight != 0:
                    out_features[counts[lane]] = features[at]
                    out_weights[counts[lane]] = weight
                    counts[lane] += 1
    return out_indptr, out_features[:kept].copy(), out_weights[:kept].copy(), biases


@jitted()
def _add_row(rows: CsrArrays, row: int, change: Any, weights: Any, stride: int, lane: int, bias_square: Any) -> None:
    # Add a document to the weights of one lane.
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        weights[rows.indices[entry] * stride + lane] += change * rows.data[entry]
    weights[len(weights) - stride + lane] += change * bias_square
