"""Max-margin multi-label classifiers with L1 and L2 regularisation, by block-coordinate Frank-Wolfe.

min sum_k (lambda |w_k|_1 + 1/2 |w_k|^2) + C sum_i max over labels p that document i has, n that it has not, of
(1 + w_n x_i - w_p x_i)_+. In the dual a document has a number for each label, at least 0 for p and at most 0 for n,
which sum to 0 with at most C on either side; w_k is the soft threshold at lambda of u_k = sum_i alpha_ik x_i. Nearly
all alphas and weights are 0. A document's block is solved over its active labels: those that it has, those with an
alpha, and the labels that violate the margin most.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.label_tables import LabelTables, label_tables, slot_of, with_room

Ints = NDArray[Any]
Floats = NDArray[np.float32]
HALVINGS = 60
SMALLEST_CHANGE = 1e-7
OUT = np.float32(-np.inf)


class MaxMargin(NamedTuple):
    """How the problem is solved."""

    cost: float
    l1: float
    violators: int  # labels that join a document's active ones at a visit, at most
    sampled: int  # features of a document that a search for them draws; 0: takes all
    fixed: bool  # only the weights that are given may differ from 0


@jitted(inlined=True)
def _soft(value: Any, threshold: Any) -> Any:
    return value - min(max(value, -threshold), threshold)


@jitted()
def _threshold(values: Any, total: float) -> float:
    # The number t for which sum (values - t)_+ is `total`.
    high = np.max(values)
    low = high - total
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        found = 0.0
        for value in values:
            found += max(value - middle, 0.0)
        if found > total:
            low = middle
        else:
            high = middle
    inside, count = 0.0, 0
    for value in values:
        if value > low:
            inside += value
            count += 1
    return (inside - total) / count


@jitted()
def project(right: Any, wrong: Any, gain: Any, cost: float) -> None:
    # Replaces both by the nearest points, all at least 0, whose sums s are the same and at most `cost`, where
    # s * gain is taken off half the squared distance.
    if np.max(right) + np.max(wrong) + gain <= 0:
        right[:] = 0
        wrong[:] = 0
        return
    low, high = -(gain + np.max(wrong)), np.max(right)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        difference = 0.0
        for value in right:
            difference += max(value - middle, 0.0)
        for value in wrong:
            difference -= max(value + gain + middle, 0.0)
        if difference > 0:
            low = middle
        else:
            high = middle
    total = 0.0
    for value in right:
        total += max(value - high, 0.0)
    lower, upper = high, -gain - high
    if total > cost:
        lower, upper = _threshold(right, cost), _threshold(wrong, cost)
    for at in range(len(right)):
        right[at] = max(right[at] - lower, 0.0)
    for at in range(len(wrong)):
        wrong[at] = max(wrong[at] - upper, 0.0)


@jitted()
def _add_scores(tables: LabelTables, feature: int, value: Any, l1: Any, scores: Any) -> None:
    # Adds value * weight to the scores of all labels that have a weight for the feature.
    first = tables.start[feature]
    for slot in range(first, first + tables.size[feature]):
        label = tables.labels[slot]
        if label >= 0:
            scores[label] += value * _soft(tables.values[slot], l1)


@jitted()
def _search(rows: CsrArrays, row: int, tables: LabelTables, how: MaxMargin, scores: Any, random: Any) -> Any:
    # Scores of all labels: exact, or an unbiased estimate of features drawn by their size. Returns the random state.
    l1 = np.float32(how.l1)
    first, last = rows.indptr[row], rows.indptr[row + 1]
    scores[:] = 0
    if how.sampled == 0 or last - first <= how.sampled:
        for entry in range(first, last):
            _add_scores(tables, rows.indices[entry], rows.data[entry], l1, scores)
        return random
    ends = np.cumsum(np.abs(rows.data[first:last]))
    for _ in range(how.sampled):
        random = random * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        share = np.float64(random >> np.uint64(11)) / np.float64(np.uint64(1) << np.uint64(53))
        entry = first + min(np.searchsorted(ends, share * ends[-1]), last - first - 1)
        value = np.sign(rows.data[entry]) * ends[-1] / np.float32(how.sampled)
        _add_scores(tables, rows.indices[entry], value, l1, scores)
    return random


@jitted()
def _exact(rows: CsrArrays, row: int, tables: LabelTables, label: Any, l1: Any) -> Any:
    total = np.float32(0)
    for entry in range(rows.indptr[row], rows.indptr[row + 1]):
        slot = slot_of(tables, rows.indices[entry], label)
        if tables.labels[slot] >= 0:
            total += rows.data[entry] * _soft(tables.values[slot], l1)
    return total


@compiled()
def frank_wolfe_epoch(
    rows: CsrArrays, targets: CsrArrays, alpha: CsrArrays, sums: CsrArrays, costs: Floats, how: MaxMargin, seed: int
) -> tuple[Ints, NDArray[np.int32], Floats]:
    # One visit to each document, in random order. `targets` and `alpha` are documents x labels, `sums` features x
    # labels: the u of alpha. `costs`, unless it is empty, are multiplied with the cost. Returns the next alpha as CSR.
    documents = len(rows.indptr) - 1
    labels = np.int64(0)
    for each in targets.indices:
        labels = max(labels, np.int64(each) + 1)
    tables = label_tables(sums)
    l1 = np.float32(how.l1)
    random = np.uint64(seed)
    order = np.arange(documents)
    for at in range(documents - 1, 0, -1):
        random = random * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        other = np.int64((random >> np.uint64(33)) % np.uint64(at + 1))
        order[at], order[other] = order[other], order[at]
    # Room for each document's active labels; what is left free is taken out at the end.
    start = np.zeros(documents + 1, np.int64)
    for row in range(documents):
        most = targets.indptr[row + 1] - targets.indptr[row] + alpha.indptr[row + 1] - alpha.indptr[row]
        start[row + 1] = start[row] + most + how.violators
    sizes = np.zeros(documents, np.int64)
    active, values = np.empty(start[documents], np.int32), np.zeros(start[documents], np.float32)
    scores = np.empty(labels, np.float32)
    for row in order:
        has = targets.indices[targets.indptr[row] : targets.indptr[row + 1]]
        right = len(has)
        square = np.float32(0)
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            square += rows.data[entry] * rows.data[entry]
        if right == 0 or right == labels or square == 0:
            continue  # nothing to rank, or nothing to rank by
        random = _search(rows, row, tables, how, scores, random)
        mine, old = active[start[row] :], values[start[row] :]
        count = right
        mine[:right] = has
        for entry in range(alpha.indptr[row], alpha.indptr[row + 1]):
            label, value = alpha.indices[entry], alpha.data[entry]
            if value < 0:
                mine[count], old[count] = label, value
                count += 1
            else:
                for at in range(right):
                    if mine[at] == label:
                        old[at] = value
        now = np.empty(count + how.violators, np.float64)
        lowest = np.inf
        for at in range(count):
            now[at] = scores[mine[at]] if how.sampled == 0 else _exact(rows, row, tables, mine[at], l1)
            if at < right:
                lowest = min(lowest, now[at])
        for at in range(count):
            scores[mine[at]] = OUT
        for _ in range(how.violators):
            label = np.argmax(scores)
            if not scores[label] > lowest - 1:
                break
            now[count] = scores[label] if how.sampled == 0 else _exact(rows, row, tables, label, l1)
            scores[label] = OUT
            mine[count] = label
            count += 1
        if count == right:
            continue
        cost = how.cost * costs[row] if len(costs) else how.cost
        best = np.empty(count, np.float64)
        for at in range(count):
            side = 1.0 if at < right else -1.0
            best[at] = side * (old[at] - now[at] / square)
        project(best[:right], best[right:], 1.0 / square, cost)
        kept = 0
        for at in range(count):
            new = np.float32(best[at] if at < right else -best[at])
            change = new - old[at]
            label = mine[at]
            if abs(change) > SMALLEST_CHANGE:
                for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                    feature = rows.indices[entry]
                    slot = slot_of(tables, feature, label)
                    if tables.labels[slot] < 0:
                        if how.fixed:
                            continue
                        tables = with_room(tables, feature)
                        slot = slot_of(tables, feature, label)
                        tables.labels[slot] = label
                        tables.values[slot] = 0
                        tables.taken[feature] += 1
                    tables.values[slot] += change * rows.data[entry]
            if new != 0:
                mine[kept], old[kept] = label, new
                kept += 1
        sizes[row] = kept
    indptr = np.zeros(documents + 1, np.int64)
    for row in range(documents):
        indptr[row + 1] = indptr[row] + sizes[row]
        active[indptr[row] : indptr[row + 1]] = active[start[row] : start[row] + sizes[row]]
        values[indptr[row] : indptr[row + 1]] = values[start[row] : start[row] + sizes[row]]
    return indptr, active[: indptr[documents]].copy(), values[: indptr[documents]].copy()
