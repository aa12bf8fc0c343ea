"""One elastic-net classifier for each label, by dual coordinate descent over an active set of documents.

For each label: min lambda |w|_1 + 1/2 |w|^2 + 1/2 v^2 + C sum_i loss(y_i (w x_i + b)) with the bias b = -1 + beta v.
The dual has an alpha_i >= 0 for each document: w is the soft threshold at lambda of u = sum_i alpha_i y_i x_i, and
alpha_i is at most C for the hinge loss. Both are sparse: few features pass the threshold, and few documents have an
alpha above 0. Without its words a document scores b, near the answer "no", so only the documents that share one of
the label's words can be wrong. The active set begins with the documents that have the label. A search goes through the
columns of the words with a weight; of the documents that are wrong the worst join the active set, at most as many as it
has: weights of common words, which a few of them put right, would else bring in most of the corpus.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.coordinate_descent import SQUARED_HINGE, Importance
from xmtc.kernels.csr import CsrArrays

Ints = NDArray[Any]
Floats = NDArray[np.float32]

HINGE = 2  # beside SQUARED_HINGE
REST = np.float32(-1)  # the bias of a label that no document has
FEWEST = 64  # documents that may join the active set after a search; or as many as it has, if these are more
ROWS_AT_ONCE = 256
SMALLEST_SQUARE = np.float32(1e-6)


class ElasticNet(NamedTuple):
    """How classifiers are trained."""

    loss: int  # SQUARED_HINGE or HINGE
    cost: float
    l1: float  # lambda
    bias: float  # beta
    tolerance: float
    searches: int  # for further documents, at most
    rounds: int  # over the active set after each search, at most


@jitted(relaxed=True, inlined=True)
def _soft(value: Any, threshold: Any) -> Any:
    return value - min(max(value, -threshold), threshold)


@jitted(relaxed=True)
def _score(rows: CsrArrays, row: int, sums: Any, l1: Any) -> Any:
    # w x of a document, of the sums before the threshold.
    total = np.float32(0)
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        total += _soft(sums[rows.indices[entry]], l1) * rows.data[entry]
    return total


@jitted()
def _descend(
    rows: CsrArrays, squares: Any, state: Any, active: Any, count: int, bias: Any, how: ElasticNet, seed: int
) -> Any:
    # Coordinate descent over the first `count` documents of `active`, in random order; returns the bias and whether no
    # document is wrong by more than the tolerance. A document at its bound is left out until all others are done.
    sign, costs, alpha, sums = state
    l1 = np.float32(how.l1)
    bias_square = np.float32(how.bias * how.bias)
    squared = how.loss == SQUARED_HINGE
    random = np.uint64(seed)
    here = count
    for _ in range(how.rounds):
        for at in range(here - 1, 0, -1):
            random = random * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            other = np.int64((random >> np.uint64(33)) % np.uint64(at + 1))
            active[at], active[other] = active[other], active[at]
        largest = np.float32(0)
        left = here
        at = 0
        while at < left:
            row = active[at]
            old = alpha[row]
            cost = costs[row]
            diagonal = np.float32(0.5) / cost if squared else np.float32(0)
            slope = sign[row] * (_score(rows, row, sums, l1) + bias) - np.float32(1) + old * diagonal
            if (old == 0 and slope > how.tolerance) or (not squared and old == cost and slope < -how.tolerance):
                left -= 1  # as it should be, and nothing presses it to move
                active[at], active[left] = active[left], row
                continue
            at += 1
            new = max(old - slope / (squares[row] + diagonal), np.float32(0))
            if not squared:
                new = min(new, cost)
            if new == old:
                continue
            largest = max(largest, abs(slope))
            alpha[row] = new
            change = (new - old) * sign[row]
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                sums[rows.indices[entry]] += change * rows.data[entry]
            bias += change * bias_square
        if largest <= how.tolerance:
            if here == count:
                return bias, True
            here = count  # all once more
        else:
            here = left
    return bias, False


@compiled()
def train_elastic_net_labels(
    rows: CsrArrays,
    columns: CsrArrays,
    positive_indptr: Ints,
    positives: Ints,
    importance: Importance,
    how: ElasticNet,
    seed: int,
) -> tuple[Ints, NDArray[np.int32], Floats, Floats]:
    # Train a classifier for each label on all documents, `rows` by document and `columns` by feature. `positives` are
    # the documents that have a label, label by label. Returns (indptr, features, weights, biases): CSR, features
    # ascending. With `importance`, the cost is multiplied by that of the document and, for documents that have the
    # label, by that of the entry of `positives`.
    documents, width = len(rows.indptr) - 1, len(columns.indptr) - 1
    labels = len(positive_indptr) - 1
    l1 = np.float32(how.l1)
    squares = np.full(documents, how.bias * how.bias, np.float32)
    for row in range(documents):
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            squares[row] += rows.data[entry] * rows.data[entry]
        squares[row] = max(squares[row], SMALLEST_SQUARE)
    base = np.full(documents, how.cost, np.float32)
    if len(importance.documents):
        base *= importance.documents
    costs = base.copy()
    sign = np.full(documents, -1, np.float32)
    alpha = np.zeros(documents, np.float32)
    sums = np.zeros(width, np.float32)
    state = (sign, costs, alpha, sums)
    scores = np.zeros(documents, np.float32)
    active = np.empty(documents, np.int32)
    is_active = np.zeros(documents, np.bool_)
    touched = np.empty(width, np.int32)
    is_touched = np.zeros(width, np.bool_)
    biases = np.empty(labels, np.float32)
    out_indptr = np.zeros(labels + 1, np.int64)
    out_features, out_weights = np.empty(1024, np.int32), np.empty(1024, np.float32)
    for label in range(labels):
        count = 0
        for place in range(positive_indptr[label], positive_indptr[label + 1]):
            row = positives[place]
            active[count] = row
            is_active[row] = True
            sign[row] = 1
            if len(importance.positives):
                costs[row] = base[row] * importance.positives[place]
            count += 1
        bias = REST
        features = 0
        for search in range(how.searches + 1):
            bias, settled = _descend(rows, squares, state, active, count, bias, how, seed + 1000 * label + search)
            for at in range(count):
                row = active[at]
                if alpha[row] != 0:
                    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                        feature = rows.indices[entry]
                        if not is_touched[feature]:
                            is_touched[feature] = True
                            touched[features] = feature
                            features += 1
            if search == how.searches:
                break
            before = count
            scores[:] = 0
            for at in range(features):
                weight = _soft(sums[touched[at]], l1)
                if weight != 0:
                    for entry in range(columns.indptr[touched[at]], columns.indptr[touched[at] + 1]):
                        scores[columns.indices[entry]] += weight * columns.data[entry]
            # No document that is left out has the label: it is wrong if it scores above -1.
            highest = np.float32(-1 + how.tolerance) - bias
            for start in range(0, documents, ROWS_AT_ONCE):
                end = min(documents, start + ROWS_AT_ONCE)
                found = False
                for row in range(start, end):  # without a branch, so that many are compared at once
                    found |= scores[row] > highest
                if found:
                    for row in range(start, end):
                        if scores[row] > highest and not is_active[row]:
                            active[count] = row
                            count += 1
            if count == before and settled:
                break
            most = max(FEWEST, before)
            if count > before + most:
                wrong = active[before:count].copy()
                enough = np.partition(scores[wrong], len(wrong) - most)[len(wrong) - most]
                count = before
                for row in wrong:
                    if scores[row] >= enough:
                        active[count] = row
                        count += 1
            for at in range(before, count):
                is_active[active[at]] = True
        biases[label] = bias
        for at in range(count):
            row = active[at]
            is_active[row] = False
            alpha[row] = 0
            sign[row] = -1
            costs[row] = base[row]
        kept = out_indptr[label]
        if kept + features > len(out_features):
            room = 2 * (kept + features)
            more_features, more_weights = np.empty(room, np.int32), np.empty(room, np.float32)
            more_features[:kept], more_weights[:kept] = out_features[:kept], out_weights[:kept]
            out_features, out_weights = more_features, more_weights
        for feature in np.sort(touched[:features]):
            weight = _soft(sums[feature], l1)
            if weight != 0:
                out_features[kept] = feature
                out_weights[kept] = weight
                kept += 1
            sums[feature] = 0
            is_touched[feature] = False
        out_indptr[label + 1] = kept
    kept = out_indptr[labels]
    return out_indptr, out_features[:kept].copy(), out_weights[:kept].copy(), biases
