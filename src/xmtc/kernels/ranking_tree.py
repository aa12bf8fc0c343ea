"""A document tree whose nodes split by rankings (FastXML): each side's documents want the same labels on top.

A node's documents start on random sides. Each side ranks the labels by its documents' gains; each document moves to the
side whose ranking gives it the higher discounted gain; again, until none moves. Then an L1-regularised logistic
regression learns the sides, and what it says about the documents is the split. Only few words can get a weight at all:
those with cost x value above 1 in sum over the node's documents, since no document can pull harder than its cost; the
others are left out from the start, which changes nothing and is most of the speed.
"""

# ruff: noqa: D103, NPY002 - kernels; what each does stands in its first comment, and numba compiles np.random's calls
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.csr import CsrArrays, local_rows
from xmtc.kernels.l1_linear import LOGISTIC, L1Solver, fit_l1, workspace
from xmtc.kernels.tree_growth import TreeArrays, by_column, concatenated_floats, concatenated_ints, leaf_of, share_out

Floats = NDArray[np.float32]
EQUAL = 1e-6  # gains that differ by no more: the document stays where it is


class RankingTree(NamedTuple):
    """How a tree is grown."""

    max_leaf: int  # documents
    leaf_labels: int  # a leaf keeps
    ranking_rounds: int  # at most
    cost: float  # of a wrong document in the logistic regression
    even_sides: bool  # each document's cost is divided by its side's share of the node's documents
    bias: float
    tolerance: float
    rounds: int  # of the logistic regression, at most


@jitted()
def ranking_sides(gains: CsrArrays, labels: int, discounts: Any, rounds: int) -> Any:
    # The side, 0 or 1, of each document of a node; `gains` are those of its labels, numbered from 0.
    indptr, indices, data = gains
    documents = len(indptr) - 1
    sides = np.empty(documents, np.int64)
    for row in range(documents):
        sides[row] = np.random.randint(2)
    weight = np.empty((2, labels), np.float32)  # of a label in the discounted gain
    for _ in range(rounds):
        weight[:] = 0
        for row in range(documents):
            for entry in range(indptr[row], indptr[row + 1]):
                weight[sides[row], indices[entry]] += data[entry]
        for side in range(2):
            order = np.argsort(-weight[side], kind="mergesort")
            for at in range(labels):
                if weight[side, order[at]] > 0:  # else no document of this side has the label
                    weight[side, order[at]] = discounts[at]
        moved = False
        for row in range(documents):
            lead = 0.0
            for entry in range(indptr[row], indptr[row + 1]):
                lead += data[entry] * (weight[1, indices[entry]] - weight[0, indices[entry]])
            better = 1 if lead > EQUAL else 0 if lead < -EQUAL else sides[row]
            moved = moved or better != sides[row]
            sides[row] = better
        if not moved:
            break
    return sides


@jitted()
def _with_chances(rows: CsrArrays, width: int, costs: Any) -> tuple[CsrArrays, Any]:
    # (the matrix with only the columns that may get a weight, renumbered; their old numbers).
    indptr, indices, data = rows
    pull = np.zeros(width, np.float64)
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            pull[indices[entry]] += costs[row] * abs(data[entry])
    numbers = np.full(width, -1, np.int32)
    kept = np.flatnonzero(pull > 1).astype(np.int32)
    for at in range(len(kept)):
        numbers[kept[at]] = at
    ends = np.zeros(len(indptr), np.int64)
    columns, values = np.empty(len(indices), np.int32), np.empty(len(indices), np.float32)
    place = 0
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            if numbers[indices[entry]] >= 0:
                columns[place], values[place] = numbers[indices[entry]], data[entry]
                place += 1
        ends[row + 1] = place
    return CsrArrays(ends, columns[:place], values[:place]), kept


@jitted()
def _learn_sides(
    matrix: CsrArrays, width: int, members: Any, sides: Any, tree: RankingTree, seed: int
) -> tuple[Any, Any, float]:
    # Changes the sides to those that words tell; (features, weights, bias) of the score, above 0 for side 1.
    count = len(members)
    ones = 0
    for side in sides:
        ones += side
    costs = np.full(count, tree.cost, np.float64)
    if tree.even_sides:
        for at in range(count):
            costs[at] *= count / (ones if sides[at] else count - ones)
    node, features = local_rows(matrix, members, width)
    rows, kept = _with_chances(node, len(features), costs)
    columns = by_column(rows, len(kept))
    sign = np.empty(count, np.float32)
    for at in range(count):
        sign[at] = 2 * sides[at] - 1
    solver = L1Solver(LOGISTIC, tree.cost, tree.tolerance, tree.rounds, 0.0, tree.bias, 0.0)
    weights, scores = np.zeros(len(kept) + 1, np.float64), np.zeros(count, np.float64)
    room = workspace(count, len(kept))
    found = np.sort(room.found[: fit_l1(rows, columns, sign, costs, solver, weights, scores, room, seed)])
    for at in range(count):
        sides[at] = 1 if scores[at] > 0 else 0
    if len(found) and found[-1] == len(kept):
        found = found[:-1]
    used = features[kept[found]].astype(np.int32)
    order = np.argsort(used, kind="mergesort")  # a hash table has not kept the order
    return used[order], weights[found][order].astype(np.float32), tree.bias * weights[len(kept)]


@compiled()
def grow_ranking_tree(
    matrix: CsrArrays, width: int, targets: CsrArrays, gains: Floats, labels: int, tree: RankingTree, seed: int
) -> TreeArrays:
    # `targets` are what leaves average, and `gains` the gain of each of its entries when labels are ranked. Documents
    # without labels have no place in the tree.
    np.random.seed(seed)
    members = np.flatnonzero(targets.indptr[1:] > targets.indptr[:-1])
    gain_rows = CsrArrays(targets.indptr, targets.indices, gains)
    discounts = np.empty(labels, np.float32)
    for rank in range(labels):
        discounts[rank] = 1 / np.log2(rank + 2)
    no_ints, no_floats = np.zeros(0, np.int32), np.zeros(0, np.float32)
    begins, ends = [0], [len(members)]
    first_child, children, biases = [-1], [0], [np.float32(0)]
    features, weights = [no_ints], [no_floats]
    leaves, shares = [no_ints], [no_floats]
    node = 0
    while node < len(begins):
        own = members[begins[node] : ends[node]]
        if node:
            leaves.append(no_ints)
            shares.append(no_floats)
        split = len(own) > tree.max_leaf
        if split:
            node_gains, found = local_rows(gain_rows, own, labels)
            # Where all documents have the same labels, leaves would all be the same.
            split = len(node_gains.indices) < len(own) * len(found)
            if split:
                sides = ranking_sides(node_gains, len(found), discounts, tree.ranking_rounds)
                split = 0 < sides.sum() < len(own)
            if split:
                used, values, bias = _learn_sides(matrix, width, own, sides, tree, seed + node)
                split = 0 < sides.sum() < len(own)
        if not split:
            leaves[node], shares[node] = leaf_of(targets, own, tree.leaf_labels)
            node += 1
            continue
        borders = share_out(own, sides, 2)
        first_child[node], children[node] = len(begins), 2
        for side in range(2):
            begins.append(begins[node] + borders[side])
            ends.append(begins[node] + borders[side + 1])
            first_child.append(-1)
            children.append(0)
            biases.append(np.float32(bias if side else 0))
            features.append(used if side else no_ints)
            weights.append(values if side else no_floats)
        node += 1
    split_indptr, split_features = concatenated_ints(features)
    leaf_indptr, leaf_labels = concatenated_ints(leaves)
    return TreeArrays(
        np.array(first_child, np.int32),
        np.array(children, np.int32),
        (np.array(ends) - np.array(begins)).astype(np.int32),
        np.array(biases, np.float32),
        split_indptr,
        split_features,
        concatenated_floats(weights),
        leaf_indptr,
        leaf_labels,
        concatenated_floats(shares),
    )
