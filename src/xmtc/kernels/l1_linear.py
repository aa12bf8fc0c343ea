"""L1-regularised linear classifiers, logistic loss or squared hinge, by Newton steps with coordinate descent.

For documents x_i with signs y_i and costs c_i: min |w|_1 + |v| + sum_i c_i loss(y_i (w x_i + b)), b = rest + beta v.
With rest = 0 and beta = 1 this is liblinear's problem, bias included (Yuan, Ho, Lin 2012, "An improved GLMNET for
L1-regularized logistic regression"; for squared hinge with its generalised Hessian). With rest = -1 and squared hinge a
document without the label costs nothing until one of its words has a positive weight: a rare label never reads most.

A round takes the documents whose loss still has a slope, and the features whose weight is not 0 or has to become so; it
copies these columns together, minimises the quadratic approximation over them by coordinate descent, and goes that way
as far as the objective falls enough. All other features are compared again in the next round, so nothing is lost.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.coordinate_descent import LOGISTIC, SQUARED_HINGE, Importance
from xmtc.kernels.csr import CsrArrays

__all__ = ["LOGISTIC", "SQUARED_HINGE", "Importance", "L1Solver", "Workspace", "fit_l1", "train_l1_labels", "workspace"]

Ints = NDArray[Any]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

INNER = 0.1  # a quadratic problem is solved when its violation has fallen to this share of the round's
MAX_SWEEPS = 50  # of coordinate descent in a round
DECREASE = 0.01  # share of the promised decrease that a step must bring
MAX_HALVINGS = 20
LARGEST_STEP = 10.0  # of a coordinate
TINY = 1e-12


class L1Solver(NamedTuple):
    """How classifiers are trained."""

    loss: int  # SQUARED_HINGE or LOGISTIC
    cost: float  # C; `fit_l1` is given that of each document instead
    tolerance: float  # finished when the sum of violations has fallen to this share of the first round's
    max_rounds: int
    smallest_weight: float  # smaller ones are dropped by `train_l1_labels`
    bias: float  # beta; 0: no bias
    rest: float  # the bias to begin with


class Workspace(NamedTuple):
    """Arrays that one fit after the other uses; clean (0, or -1 in `place`) between them."""

    gradient: Doubles  # features + 1, as all up to `found`
    place: NDArray[np.int32]  # a feature's place among the round's candidates
    touched: NDArray[np.int32]  # features that have a gradient in this round
    found: NDArray[np.int32]  # features with a weight, after a fit
    active: NDArray[np.int32]  # documents with a slope, as all below
    slope: Doubles
    curve: Doubles
    ahead: Doubles  # what a whole step adds to each score


@jitted()
def workspace(documents: int, features: int) -> Workspace:
    # Room for fits of so many documents and features.
    return Workspace(
        np.zeros(features + 1, np.float64),
        np.full(features + 1, -1, np.int32),
        np.empty(features + 1, np.int32),
        np.empty(features + 1, np.int32),
        np.empty(documents, np.int32),
        np.empty(documents, np.float64),
        np.empty(documents, np.float64),
        np.empty(documents, np.float64),
    )


@jitted(inlined=True)
def _loss(loss: int, margin: float) -> Any:
    if loss == SQUARED_HINGE:
        gap = max(0.0, 1.0 - margin)
        return gap * gap
    if margin > 0:
        return np.log1p(np.exp(-margin))
    return np.log1p(np.exp(margin)) - margin


@jitted(inlined=True)
def _violation(weight: float, gradient: float) -> float:
    # How far a coordinate is from being at its best.
    if weight > 0:
        return abs(gradient + 1)
    if weight < 0:
        return abs(gradient - 1)
    return max(0.0, abs(gradient) - 1)


@jitted()
def _slopes(sign: Any, costs: Any, solver: L1Solver, scores: Doubles, room: Workspace) -> int:
    # Lists the documents whose loss has a slope, with first and second derivative by the score; returns how many.
    count = 0
    for row in range(len(sign)):
        margin = sign[row] * scores[row]
        if solver.loss == SQUARED_HINGE:
            if margin >= 1:
                continue
            room.slope[count] = -2 * costs[row] * sign[row] * (1 - margin)
            room.curve[count] = 2 * costs[row]
        else:
            wrong = 1 / (1 + np.exp(margin))
            room.slope[count] = -costs[row] * sign[row] * wrong
            room.curve[count] = costs[row] * max(wrong * (1 - wrong), TINY)
        room.active[count] = row
        count += 1
    return count


@jitted()
def _gradient(rows: CsrArrays, active: int, beta: float, kept: int, room: Workspace) -> int:
    # The gradient of all features of active documents, and of those that have a weight; returns how many are touched.
    indptr, indices, data = rows
    gradient, place, touched = room.gradient, room.place, room.touched
    count = 0
    for at in range(kept):
        touched[count] = room.found[at]
        place[room.found[at]] = 0
        count += 1
    total = 0.0
    for at in range(active):
        row, slope = room.active[at], room.slope[at]
        total += slope
        for entry in range(indptr[row], indptr[row + 1]):
            feature = indices[entry]
            if place[feature] < 0:
                place[feature] = 0
                touched[count] = feature
                count += 1
            gradient[feature] += slope * data[entry]
    last = len(gradient) - 1
    if beta > 0:
        if place[last] < 0:
            touched[count] = last
            count += 1
        gradient[last] = beta * total
    for at in range(count):
        place[touched[at]] = -1
    return count


@jitted()
def _candidate_columns(rows: CsrArrays, active: int, beta: float, count: int, room: Workspace) -> tuple[Any, Any, Any]:
    # The columns of `count` candidates over the active documents, bias included: (indptr, places in active, values).
    indptr, indices, data = rows
    place, last = room.place, len(room.place) - 1
    ends = np.zeros(count + 2, np.int64)
    for at in range(active):
        row = room.active[at]
        for entry in range(indptr[row], indptr[row + 1]):
            if place[indices[entry]] >= 0:
                ends[place[indices[entry]] + 2] += 1
    if place[last] >= 0:
        ends[place[last] + 2] += active
    for candidate in range(count):
        ends[candidate + 2] += ends[candidate + 1]
    places, values = np.empty(ends[count + 1], np.int32), np.empty(ends[count + 1], np.float32)
    for at in range(active):
        row = room.active[at]
        for entry in range(indptr[row], indptr[row + 1]):
            candidate = place[indices[entry]]
            if candidate >= 0:
                places[ends[candidate + 1]], values[ends[candidate + 1]] = at, data[entry]
                ends[candidate + 1] += 1
        if place[last] >= 0:
            candidate = place[last]
            places[ends[candidate + 1]], values[ends[candidate + 1]] = at, beta
            ends[candidate + 1] += 1
    return ends[: count + 1], places, values


@jitted()
def _descend(
    ends: Any, places: Any, values: Any, gradient: Any, weights: Any, curve: Any, active: int, goal: float, seed: int
) -> Doubles:
    # The step that minimises the quadratic approximation plus |weights + step|_1, nearly.
    count = len(gradient)
    step = np.zeros(count, np.float64)
    moved = np.zeros(active, np.float64)  # what the step adds to the scores, times the curve
    square = np.full(count, TINY, np.float64)
    for at in range(count):
        for entry in range(ends[at], ends[at + 1]):
            square[at] += curve[places[entry]] * values[entry] * values[entry]
    order = np.arange(count)
    state = np.uint64(seed)
    for _ in range(MAX_SWEEPS):
        for at in range(count - 1, 0, -1):  # shuffle
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            other = np.int64((state >> np.uint64(33)) % np.uint64(at + 1))
            order[at], order[other] = order[other], order[at]
        violation = 0.0
        for place in range(count):
            at = order[place]
            slope = gradient[at]
            for entry in range(ends[at], ends[at + 1]):
                slope += values[entry] * moved[places[entry]]
            now = weights[at] + step[at]
            violation += _violation(now, slope)
            if slope + 1 < square[at] * now:
                change = -(slope + 1) / square[at]
            elif slope - 1 > square[at] * now:
                change = -(slope - 1) / square[at]
            else:
                change = -now
            if abs(change) < TINY:
                continue
            change = min(max(change, -LARGEST_STEP), LARGEST_STEP)
            # Exactly 0 where it is to be 0.
            step[at] = -weights[at] if change == -now else step[at] + change
            for entry in range(ends[at], ends[at + 1]):
                moved[places[entry]] += change * values[entry] * curve[places[entry]]
        if violation <= goal:
            break
    return step


@jitted()
def fit_l1(
    rows: CsrArrays,
    columns: CsrArrays,
    sign: Any,
    costs: Any,
    solver: L1Solver,
    weights: Doubles,
    scores: Doubles,
    room: Workspace,
    seed: int,
) -> int:
    # Trains one classifier. `columns` is the same matrix as `rows`, by columns (CSC). `weights`, features + 1, must be
    # 0, and `scores` of the documents `solver.rest`: both are changed. Afterwards weights[-1] * solver.bias is to be
    # added to the rest, and room.found lists the features with a weight (the bias is the last); returns how many.
    last = len(weights) - 1
    ahead = room.ahead
    kept = 0
    first_violation = 0.0
    for round_ in range(solver.max_rounds):
        active = _slopes(sign, costs, solver, scores, room)
        touched = _gradient(rows, active, solver.bias, kept, room)
        count, violation = 0, 0.0
        for at in range(touched):
            feature = room.touched[at]
            wrong = _violation(weights[feature], room.gradient[feature])
            violation += wrong
            if wrong > 0 or weights[feature] != 0:
                room.place[feature] = count
                room.found[count] = feature
                count += 1
        candidates = room.found[:count]
        gradient, current = room.gradient[candidates], weights[candidates]
        for at in range(touched):
            room.gradient[room.touched[at]] = 0
        if round_ == 0:
            first_violation = violation
        if violation <= solver.tolerance * first_violation:
            for feature in candidates:
                room.place[feature] = -1
            kept = _with_weight(candidates, weights)
            break
        ends, places, values = _candidate_columns(rows, active, solver.bias, count, room)
        for feature in candidates:
            room.place[feature] = -1
        step = _descend(ends, places, values, gradient, current, room.curve, active, INNER * violation, seed + round_)
        ahead[:] = 0
        promised = 0.0
        for at in range(count):
            if step[at] == 0:
                continue
            promised += gradient[at] * step[at] + abs(current[at] + step[at]) - abs(current[at])
            feature = candidates[at]
            if feature == last:
                ahead += solver.bias * step[at]
                continue
            for entry in range(columns.indptr[feature], columns.indptr[feature + 1]):
                ahead[columns.indices[entry]] += step[at] * columns.data[entry]
        length = 1.0
        fell = False
        for _ in range(MAX_HALVINGS):
            change = 0.0
            for at in range(count):
                change += abs(current[at] + length * step[at]) - abs(current[at])
            for row in range(len(sign)):
                if ahead[row] != 0:
                    before = sign[row] * scores[row]
                    after = sign[row] * (scores[row] + length * ahead[row])
                    change += costs[row] * (_loss(solver.loss, after) - _loss(solver.loss, before))
            if change <= DECREASE * length * promised:
                fell = True
                break
            length /= 2
        if fell:
            for at in range(count):
                weights[candidates[at]] = current[at] + length * step[at]
            for row in range(len(sign)):
                scores[row] += length * ahead[row]
        kept = _with_weight(candidates, weights)
        if not fell:  # as near to the minimum as numbers allow
            break
    return kept


@jitted()
def _with_weight(features: Any, weights: Any) -> int:
    # Moves the features that have a weight to the front; returns how many.
    kept = 0
    for feature in features:
        if weights[feature] != 0:
            features[kept] = feature
            kept += 1
    return kept


@compiled()
def train_l1_labels(
    rows: CsrArrays,
    columns: CsrArrays,
    width: int,
    positive_indptr: Ints,
    positives: Ints,
    importance: Importance,
    solver: L1Solver,
    seed: int,
) -> tuple[Ints, NDArray[np.int32], Floats, Floats]:
    # A classifier for each label, on all documents of a matrix of `width` features, given by rows and by columns.
    # `positives` are its rows, label by label. Returns (indptr, features, weights, biases): CSR of the weights that are
    # large enough, features ascending. With `importance`, the cost is multiplied by that of the document and, for
    # documents that have the label, by that of the entry of `positives`.
    documents = len(rows.indptr) - 1
    labels = len(positive_indptr) - 1
    room = workspace(documents, width)
    sign = np.full(documents, -1, np.float32)
    base = np.full(documents, solver.cost, np.float64)
    weighted = len(importance.documents) > 0
    if weighted:
        base *= importance.documents
    costs = base.copy()
    weights = np.zeros(width + 1, np.float64)
    scores = np.empty(documents, np.float64)
    biases = np.empty(labels, np.float32)
    out_indptr = np.zeros(labels + 1, np.int64)
    out_features = np.empty(1024, np.int32)
    out_weights = np.empty(1024, np.float32)
    for label in range(labels):
        for at in range(positive_indptr[label], positive_indptr[label + 1]):
            sign[positives[at]] = 1
            if weighted:
                costs[positives[at]] *= importance.positives[at]
        scores[:] = solver.rest
        found = fit_l1(rows, columns, sign, costs, solver, weights, scores, room, seed + label)
        biases[label] = solver.rest + solver.bias * weights[width]
        for at in range(positive_indptr[label], positive_indptr[label + 1]):
            sign[positives[at]] = -1
            costs[positives[at]] = base[positives[at]]
        size = out_indptr[label]
        if size + found > len(out_features):
            more = max(2 * len(out_features), size + found)
            more_features, more_weights = np.empty(more, np.int32), np.empty(more, np.float32)
            more_features[:size], more_weights[:size] = out_features[:size], out_weights[:size]
            out_features, out_weights = more_features, more_weights
        for feature in np.sort(room.found[:found]):
            if feature < width and abs(weights[feature]) >= solver.smallest_weight:
                out_features[size], out_weights[size] = feature, weights[feature]
                size += 1
            weights[feature] = 0
        out_indptr[label + 1] = size
    kept = out_indptr[labels]
    return out_indptr, out_features[:kept].copy(), out_weights[:kept].copy(), biases
