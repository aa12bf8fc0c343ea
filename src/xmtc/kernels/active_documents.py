"""Linear classifiers for labels that few documents have, each trained on the documents that matter to it.

The problem is that of `xmtc.kernels.coordinate_descent` with the squared hinge. A document that is right by the margin
has an alpha of 0, and so no part in the weights; for a label that few documents have, that is nearly every document of
a large corpus. So a label begins with the documents that have it. After each descent a search finds documents that are
left out and wrong by more than a quiet slope; the worst join, and the descent goes on where it was. It ends when the
search finds none, and that proves the result: no document that was left out is wrong by more than the tolerance, which
is all that a descent over all documents promises. Where the searches are used up first, all documents join.

A search reads the columns of the label's words, not the documents. A document without these words scores the bias. Of
the others, only positive products can make one wrong. By Cauchy-Schwarz words with weights v add at most |v| |x| to any
score, so the columns of frequent words with small weights are not read as long as |v| stays below what the proof allows
for; a document whose sum over the other columns passes the line between is scored by its row.
"""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.coordinate_descent import QUIET_SHARE, REST, Importance, Labels, Solver, descend
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.vector_loops import prefetch, score_labels

Ints = NDArray[Any]
Floats = NDArray[np.float32]

FEWEST = 100  # documents that may join after a search, at least
GROWTH = 2  # or so many times as many as there are
ROUGH = 0.1  # share of the weights' norm that documents score which the first searches want; then a quarter of it
UNREAD = 0.5  # share of what the proof allows that is for columns which are not read
UNREAD_ROUGH = 4  # the same in a rough search, times its line
ROUNDS = 4  # over the documents found so far, before each search
SEARCHES = 30
BUCKETS, MIDDLE = 128, 100  # of columns by worth, in half powers of 2; where a worth of 1 goes


class Scratch(NamedTuple):
    """Numbers for all documents, or all features, that a search leaves as it found them."""

    scores: Floats
    found: NDArray[np.int32]
    excess: Floats
    is_active: NDArray[np.bool_]
    number_of: NDArray[np.int32]  # feature -> its number among the label's, or -1
    weights: Floats  # of all features, and how far the bias is above REST


@jitted()
def _grown(array: Any, needed: int) -> Any:
    # The array, or its content in a larger one.
    if needed <= len(array):
        return array
    larger = np.empty(2 * needed, array.dtype)
    larger[: len(array)] = array
    return larger


@jitted()
def _unread(
    columns: CsrArrays, features: Any, weights: Any, count: int, signed: bool, bound: float, bucket_of: Any
) -> int:
    # Puts the first `count` features into buckets by squared weight for each entry of their column, -1 for those that
    # make no score larger, and returns how many of the lowest buckets together have a norm within the bound.
    norms = np.zeros(BUCKETS)
    for at in range(count):
        weight = weights[at]
        bucket_of[at] = -1
        if weight > 0 or (signed and weight < 0):
            square = np.float64(weight) * weight
            entries = columns.indptr[features[at] + 1] - columns.indptr[features[at]]
            bucket = min(max(int(2 * np.log2(square / entries)) + MIDDLE, 0), BUCKETS - 1)
            bucket_of[at] = bucket
            norms[bucket] += square
    left = bound * bound
    lowest = 0
    while lowest < BUCKETS and norms[lowest] <= left:
        left -= norms[lowest]
        lowest += 1
    return lowest


@jitted()
def _passing(
    columns: CsrArrays,
    features: Any,
    weights: Any,
    count: int,
    bucket_of: Any,
    lowest: int,
    line: Any,
    scratch: Scratch,
) -> int:
    # How many documents have a sum of positive products, over the columns of the buckets from `lowest` on, above the
    # line; they are in scratch.found and their sums in scratch.scores.
    line = np.float32(line)
    passing = 0
    for at in range(count):
        if bucket_of[at] < lowest:
            continue
        weight = weights[at]
        for entry in range(columns.indptr[features[at]], columns.indptr[features[at] + 1]):
            row = np.uintp(columns.indices[entry])
            before = scratch.scores[row]
            after = before + max(weight * columns.data[entry], np.float32(0))
            scratch.scores[row] = after
            if after > line and before <= line:  # sums only rise, so it passes once
                scratch.found[passing] = row
                passing += 1
    return passing


@jitted()
def _worst(scratch: Scratch, count: int, most: int) -> int:
    # Leaves in scratch.found those with the largest scratch.excess, at most `most` (and equals of the last).
    if count <= most:
        return count
    enough = np.partition(scratch.excess[:count], count - most)[count - most]
    kept = 0
    for at in range(count):
        if scratch.excess[at] >= enough:
            scratch.found[kept], scratch.excess[kept] = scratch.found[at], scratch.excess[at]
            kept += 1
    return kept


@jitted()
def _search(
    rows: CsrArrays,
    columns: CsrArrays,
    features: Any,
    weights: Any,
    scan: int,
    signed: bool,
    longest: Any,
    tolerance: float,
    rough: float,
    most: int,
    bucket_of: Any,
    scratch: Scratch,
) -> tuple[int, bool]:
    # (how many documents outside of the active ones are wrong by more than a quiet slope, in scratch.found, at most
    # `most`, the worst; whether all others are proven to be right by the tolerance). `scan` features come in question.
    quiet = np.float32(QUIET_SHARE * tolerance)
    allowed = tolerance - scratch.weights[-1]  # a document may score so much more than the bias
    proven = allowed > 0
    allowed = max(allowed, quiet)
    bound, line = UNREAD * allowed / longest, (1 - UNREAD) * allowed
    squares = 0.0
    for at in range(scan):
        squares += weights[at] * weights[at]
    high = rough * np.sqrt(squares) * longest
    if high > line:  # only the worst documents: another search follows
        bound, line, proven = max(bound, UNREAD_ROUGH * high / longest), high, False
    lowest = _unread(columns, features, weights, scan, signed, bound, bucket_of)
    passing = _passing(columns, features, weights, scan, bucket_of, lowest, line, scratch)
    count = 0
    for at in range(passing):
        row = scratch.found[at]
        if not scratch.is_active[row]:
            scratch.found[count] = row
            scratch.excess[count] = scratch.scores[row]
            count += 1
    scratch.scores[:] = 0
    if not proven:
        count = _worst(scratch, count, 3 * most)
    wrong = 0
    above = np.zeros(1, np.float32)  # the answer no, of which a document's alpha is 0
    for at in range(count):
        row = scratch.found[at]
        if at + 1 < count:
            prefetch(rows, scratch.found[at + 1])
        score_labels(rows, row, scratch.weights, 1, above)
        if above[0] > quiet:
            scratch.found[wrong] = row
            scratch.excess[wrong] = above[0]
            wrong += 1
    return _worst(scratch, wrong, most), proven


@compiled()
def train_on_active(
    rows: CsrArrays,
    columns: CsrArrays,
    positive_indptr: Ints,
    positives: Ints,
    importance: Importance,
    solver: Solver,
    searches: int,
    seed: int,
) -> tuple[Ints, NDArray[np.int32], Floats, Floats, Ints]:
    # Train a classifier for each label with squared hinge; `rows` are all documents, `columns` the same by feature.
    # `positives` are the documents that have a label, label by label. Returns (indptr, features, weights, biases, how
    # many documents each label was trained on): CSR of the weights that are large enough, features ascending. With
    # `importance`, the cost is multiplied by that of the document and, for documents that have the label, by that of
    # the entry of `positives`. After so many `searches` all documents join.
    documents, width = len(rows.indptr) - 1, len(columns.indptr) - 1
    labels = len(positive_indptr) - 1
    weighted = len(importance.documents) > 0
    bias_square = np.float32(solver.bias * solver.bias)
    longest = np.float32(0)
    signed = False
    for row in range(documents):
        total = np.float32(0)
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            total += rows.data[entry] * rows.data[entry]
            signed = signed or rows.data[entry] < 0
        longest = max(longest, total)
    longest = max(np.sqrt(longest), np.float32(1e-6))
    scratch = Scratch(
        np.zeros(documents, np.float32),
        np.empty(documents, np.int32),
        np.empty(documents, np.float32),
        np.zeros(documents, np.bool_),
        np.full(width, -1, np.int32),
        np.zeros(width + 1, np.float32),
    )
    quick = Solver(solver.loss, solver.cost, solver.tolerance, ROUNDS, solver.smallest_weight, solver.bias)
    nothing = np.zeros(0, np.float32)
    # Of the active documents of a label: their numbers, and themselves with the label's features from 0 on.
    active = np.empty(1024, np.int32)
    order = np.empty(1024, np.int64)
    square, sign, costs, alpha = (
        np.empty(1024, np.float32),
        np.empty(1024, np.float32),
        np.empty(1024, np.float32),
        np.empty(1024, np.float32),
    )
    indptr = np.zeros(1025, np.int64)
    indices, data = np.empty(1024, np.int32), np.empty(1024, np.float32)
    features, weights, bucket_of = np.empty(1024, np.int32), np.empty(1024, np.float32), np.empty(1024, np.int16)
    biases = np.empty(labels, np.float32)
    sizes = np.empty(labels, np.int64)
    out_indptr = np.zeros(labels + 1, np.int64)
    out_features, out_weights = np.empty(1024, np.int32), np.empty(1024, np.float32)
    for label in range(labels):
        own = positives[positive_indptr[label] : positive_indptr[label + 1]]
        bias = REST
        count, width_here, scan = 0, 0, 0
        joining = len(own)
        rough, search = ROUGH, 0
        random = np.uint64(seed + label)
        while True:
            # Those that join.
            new = count + joining
            active, order, square, sign = (
                _grown(active, new),
                _grown(order, new),
                _grown(square, new),
                _grown(sign, new),
            )
            costs, alpha, indptr = _grown(costs, new), _grown(alpha, new), _grown(indptr, new + 1)
            for at in range(joining):
                document = np.int64(own[at]) if search == 0 else np.int64(scratch.found[at])
                first, last = rows.indptr[document], rows.indptr[document + 1]
                place = indptr[count]
                indices, data = _grown(indices, place + last - first), _grown(data, place + last - first)
                features = _grown(features, width_here + last - first)
                weights = _grown(weights, width_here + last - first + 1)
                total = bias_square
                for entry in range(first, last):
                    feature = rows.indices[entry]
                    number = scratch.number_of[feature]
                    if number < 0:
                        number = width_here
                        scratch.number_of[feature] = number
                        features[number] = feature
                        weights[number] = 0
                        width_here += 1
                    indices[place] = number
                    data[place] = rows.data[entry]
                    total += rows.data[entry] * rows.data[entry]
                    place += 1
                indptr[count + 1] = place
                active[count] = document
                scratch.is_active[document] = True
                square[count], alpha[count] = total, 0
                sign[count] = 1 if search == 0 else -1
                costs[count] = solver.cost
                if weighted:
                    costs[count] *= importance.documents[document]
                    if search == 0:
                        costs[count] *= importance.positives[positive_indptr[label] + at]
                count += 1
            if search == 0 or signed:
                scan = width_here  # only features of documents that have the label can have a positive weight
            bucket_of = _grown(bucket_of, width_here)
            weights[width_here] = bias
            local = CsrArrays(indptr[: count + 1], indices[: indptr[count]], data[: indptr[count]])
            given = costs[:count] if weighted else nothing
            state = Labels(sign[:count], nothing, given, alpha[:count], weights[: width_here + 1])
            everything = count == documents
            how = solver if everything else quick
            settled = descend(local, square, state, 1, 1, how, order, count, seed + 1000 * label + search)
            bias = weights[width_here]
            search += 1
            for at in range(width_here):
                scratch.weights[features[at]] = weights[at]
            scratch.weights[width] = bias - REST
            if everything:
                break
            most = max(FEWEST, GROWTH * count)
            joining, proven = _search(
                rows,
                columns,
                features,
                weights,
                scan,
                signed,
                longest,
                solver.tolerance,
                rough,
                most,
                bucket_of,
                scratch,
            )
            # If the bias itself is too high, any document tells; as many as usually put it right join.
            too_high = bias - REST > QUIET_SHARE * solver.tolerance
            if joining == 0 and proven and settled and not too_high:
                break
            if search > searches:
                joining = 0
                for row in range(documents):
                    if not scratch.is_active[row]:
                        scratch.found[joining] = row
                        joining += 1
            elif too_high and joining < most:
                for at in range(joining):
                    scratch.is_active[scratch.found[at]] = True
                random = random * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                start = np.int64((random >> np.uint64(33)) % np.uint64(documents))
                last = min(joining + FEWEST, most, documents - count)
                for step in range(documents):
                    document = (start + step) % documents
                    if joining == last:
                        break
                    if not scratch.is_active[document]:
                        scratch.found[joining] = document
                        joining += 1
            if joining < most // 4:
                rough = 0.25 * rough if rough == ROUGH else 0.0
        sizes[label] = count
        biases[label] = bias
        kept = out_indptr[label]
        out_features, out_weights = _grown(out_features, kept + width_here), _grown(out_weights, kept + width_here)
        first = kept
        for at in range(width_here):
            if abs(weights[at]) >= solver.smallest_weight and weights[at] != 0:
                out_features[kept] = features[at]
                kept += 1
        out_features[first:kept] = np.sort(out_features[first:kept])
        for at in range(first, kept):
            out_weights[at] = scratch.weights[out_features[at]]
        out_indptr[label + 1] = kept
        for at in range(width_here):
            scratch.number_of[features[at]] = -1
            scratch.weights[features[at]] = 0
        for at in range(count):
            scratch.is_active[active[at]] = False
    kept = out_indptr[labels]
    return out_indptr, out_features[:kept].copy(), out_weights[:kept].copy(), biases, sizes
