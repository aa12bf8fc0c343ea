"""Beam search over a `LabelTree`: the same function for linear and for neural scorers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr
from xmtc.labelspace.tree import LabelTree
from xmtc.text.token_store import offsets_of

Ints = NDArray[np.int64]
#: (depth, documents, nodes) -> log-probabilities of the children of nodes[i] for documents[i], one after the other in
#: the tree's order; the pairs are sorted by document.
LevelScorer = Callable[[int, Ints, Ints], NDArray[np.float32]]


def beam_search(
    tree: LabelTree, score: LevelScorer, documents: int, beam: int, k: int, discount: float = 1.0
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """(label ids, log-probabilities), each (documents, k): best first, ties to the lower id, -1 where there are fewer.

    A child's log-probability is `discount` times its parent's plus its own; of each level the `beam` best nodes of a
    document are followed. With a beam as wide as the widest level the result is that of scoring every label.

    >>> tree = LabelTree.of([[[0, 1]], [[0, 2], [1]]])
    >>> own = [np.log([0.5, 0.4]), np.log([0.3, 0.6, 0.9])]
    >>> def score(depth, documents, nodes):
    ...     level = tree.levels[depth]
    ...     return np.concatenate([own[depth][level.indptr[n] : level.indptr[n + 1]] for n in nodes]).astype(np.float32)
    >>> ids, scores = beam_search(tree, score, documents=1, beam=2, k=2)
    >>> ids.tolist(), np.exp(scores.astype(float)).round(2).tolist()
    ([[1, 2]], [[0.36, 0.3]])
    """
    rows, nodes = np.arange(documents), np.zeros(documents, np.int64)
    so_far = np.zeros(documents, np.float32)
    ids = np.full((documents, k), -1, np.int32)
    scores = np.full((documents, k), -np.inf, np.float32)
    for depth, level in enumerate(tree.levels):
        keep = k if depth == tree.depth - 1 else beam
        ids, scores = descend(
            level, score(depth, rows, nodes), rows, nodes, so_far * np.float32(discount), documents, keep
        )
        rows, nodes, so_far = pairs(ids, scores)
    return ids, scores


def descend(
    level: Csr,
    values: NDArray[np.float32],
    rows: Ints,
    nodes: Ints,
    so_far: NDArray[np.float32],
    documents: int,
    keep: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """One step of the search: from pairs (document, node) to the `keep` best children of each document's nodes.

    `values` are the log-probabilities of the pairs' children, `so_far` those of the pairs. Returns ids and scores as
    `beam_search` does.
    """
    from xmtc.kernels.tree_scoring import best_of_groups

    sizes, children = children_of(level, nodes)
    offsets = offsets_of(np.bincount(rows, sizes, minlength=documents))
    return best_of_groups(offsets, children, values + np.repeat(so_far, sizes), keep)


def children_of(level: Csr, nodes: Ints) -> tuple[Ints, NDArray[np.int32]]:
    """(how many each node has, the children of all nodes one after the other).

    >>> sizes, children = children_of(LabelTree.of([[[0, 1]], [[0, 2], [1]]]).levels[1], np.array([1, 0]))
    >>> sizes.tolist(), children.tolist()
    ([1, 2], [1, 0, 2])
    """
    sizes = np.diff(level.indptr)[nodes].astype(np.int64)
    ends = np.cumsum(sizes)
    # Place i of the flat list of children belongs to a node whose children begin elsewhere in the level's indices.
    places = np.repeat(level.indptr[nodes] - (ends - sizes), sizes) + np.arange(ends[-1] if len(ends) else 0)
    return sizes, level.indices[places]


def pairs(ids: NDArray[np.int32], scores: NDArray[np.float32]) -> tuple[Ints, Ints, NDArray[np.float32]]:
    """The lists of a search as pairs (document, node) with their scores, sorted by document."""
    present = ids >= 0
    return np.nonzero(present)[0], ids[present].astype(np.int64), scores[present]
