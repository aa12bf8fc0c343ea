"""Label trees as the flat arrays that kernels follow, with the score at which each node begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr
from xmtc.labelspace.tree import LabelTree

if TYPE_CHECKING:
    from xmtc.kernels.label_trees import LabelTrees

Floats = NDArray[np.float32]


def nodes_of(tree: LabelTree) -> int:
    """How many nodes a tree has, with its root and its labels."""
    return 1 + sum(level.shape[1] for level in tree.levels)


def flat_trees(trees: Sequence[LabelTree], base: Floats) -> LabelTrees:
    """All nodes of trees over the same labels in one list, tree after tree and level after level.

    >>> tree = LabelTree.of([[[0, 1]], [[0, 2], [1]]])
    >>> flat = flat_trees([tree, tree], np.zeros(12, np.float32))
    >>> flat.first_child[:6].tolist(), flat.labels[:6].tolist(), flat.parents[:6].tolist()
    ([1, 3, 5, 0, 0, 0], [-1, -1, -1, 0, 2, 1], [-1, 0, 0, 1, 1, 2])
    >>> flat.roots.tolist(), flat.leaves.tolist()
    ([0, 6], [[3, 5, 4], [9, 11, 10]])
    """
    from xmtc.kernels.label_trees import LabelTrees

    count = sum(map(nodes_of, trees))
    first_child, children, levels = (np.zeros(count, np.int32) for _ in range(3))
    parents, labels = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    roots, leaves = [], []
    start = 0  # of the level at hand
    for tree in trees:
        roots.append(start)
        ids = np.zeros(1, np.int64)  # of the nodes of the level at hand, in the order of their numbers
        for depth, level in enumerate(tree.levels):
            below = start + len(ids)
            here, next_ones = slice(start, below), slice(below, below + level.shape[1])
            first_child[here] = below + level.indptr[ids]
            children[here] = np.diff(level.indptr)[ids]
            number = np.empty(len(ids), np.int32)
            number[ids] = np.arange(start, below)
            parents[next_ones] = np.repeat(number, np.diff(level.indptr))
            levels[next_ones] = depth + 1
            start, ids = below, level.indices.astype(np.int64)
        labels[start : start + len(ids)] = ids
        leaf = np.empty(len(ids), np.int32)
        leaf[ids] = np.arange(start, start + len(ids))
        leaves.append(leaf)
        start += len(ids)
    return LabelTrees(np.array(roots, np.int32), first_child, children, parents, levels, labels, np.stack(leaves), base)


def first_scores(trees: Sequence[LabelTree], targets: Csr, weights: Floats | None = None) -> Floats:
    """The score at which each node of `flat_trees` begins: log-odds of a label below it, given one below its parent.

    Infinite where training documents leave no doubt. A document without labels counts for the root only; `weights` are
    how much each document counts.

    >>> from xmtc.corpus.corpus import Corpus
    >>> from xmtc.corpus.labels import LabelSet
    >>> tree = LabelTree.of([[[0, 1]], [[0], [1, 2]]])
    >>> corpus = Corpus.of([""] * 4, [["a"], ["a", "b"], ["a"], []], label_set=LabelSet.of(["a", "b", "c"]))
    >>> [round(score, 2) for score in first_scores([tree], corpus.targets).tolist()]
    [1.1, inf, -0.69, inf, inf, -inf]
    """
    each = np.ones(targets.shape[0]) if weights is None else weights.astype(np.float64)
    labelled = each[np.diff(targets.indptr) > 0].sum()
    parts = [_log_odds(np.array([labelled]), np.array([each.sum()]))]
    for tree in trees:
        if len(parts) > 1:
            parts.append(parts[0])
        above = np.array([labelled])
        for level, relevant in zip(tree.levels, tree.targets(targets), strict=True):
            of_entry = np.repeat(each, np.diff(relevant.indptr))
            count: NDArray[np.float64] = np.bincount(relevant.indices, of_entry, minlength=level.shape[1])
            parts.append(_log_odds(count[level.indices], np.repeat(above, np.diff(level.indptr))))
            above = count
    return np.concatenate(parts)


def _log_odds(count: NDArray[Any], above: NDArray[Any]) -> Floats:
    with np.errstate(divide="ignore"):
        odds: Floats = (np.log(count) - np.log(np.maximum(above - count, 0))).astype(np.float32)
    odds[count <= 0] = -np.inf  # also where there is nothing above
    return odds
