"""Beam search against scoring every label."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xmtc.labelspace.tree import LabelTree
from xmtc.search.beam import LevelScorer, beam_search

Array = np.ndarray[Any, Any]


@st.composite
def trees(draw: st.DrawFn) -> LabelTree:
    """Random trees of one to three levels; some inner nodes have one child, some leaves none."""
    widths = draw(st.lists(st.integers(1, 5), min_size=0, max_size=2))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    above, levels = 1, []
    for width in [*widths, draw(st.integers(1, 12))]:
        owners = rng.integers(above, size=width)
        levels.append([rng.permutation(np.flatnonzero(owners == node)).tolist() for node in range(above)])
        above = width
    return LabelTree.of(levels)


def scorer(tree: LabelTree, own: list[Array]) -> LevelScorer:
    """Scores from tables: own[depth][document, child]."""

    def score(depth: int, documents: Array, nodes: Array) -> Array:
        assert (np.diff(documents) >= 0).all(), "pairs come sorted by document"
        parts = [
            own[depth][document, tree.children(depth, node)] for document, node in zip(documents, nodes, strict=True)
        ]
        return np.concatenate([*parts, np.zeros(0, np.float32)]).astype(np.float32)

    return score


def exhaustive(tree: LabelTree, own: list[Array], discount: float) -> Array:
    """Documents x labels: the chain of every label."""
    total = np.zeros((len(own[0]), 1))
    for depth, level in enumerate(tree.levels):
        below = np.zeros((len(total), level.shape[1]))
        for node in range(level.shape[0]):
            for child in tree.children(depth, node).tolist():
                below[:, child] = discount * total[:, node] + own[depth][:, child]
        total = below
    return total


def tables(tree: LabelTree, documents: int, seed: int) -> list[Array]:
    """Whole and half numbers: many ties, and sums that are exact in any order."""
    rng = np.random.default_rng(seed)
    return [-rng.integers(0, 5, (documents, level.shape[1])).astype(np.float32) / 2 for level in tree.levels]


@settings(deadline=None, max_examples=150)
@given(trees(), st.integers(1, 4), st.integers(0, 99), st.integers(1, 14), st.sampled_from([1.0, 0.5]))
def test_wide_beam_is_exhaustive(tree: LabelTree, documents: int, seed: int, k: int, discount: float) -> None:
    own = tables(tree, documents, seed)
    ids, scores = beam_search(tree, scorer(tree, own), documents, 12, k, discount)
    expected = exhaustive(tree, own, discount)
    for row in range(documents):
        ranked = sorted(range(tree.labels), key=lambda label: (-expected[row, label], label))[:k]
        assert ids[row].tolist() == ranked + [-1] * (k - len(ranked))
        np.testing.assert_array_equal(scores[row, : len(ranked)], expected[row, ranked])
        assert (scores[row, len(ranked) :] == -np.inf).all()


@settings(deadline=None, max_examples=150)
@given(trees(), st.integers(1, 3), st.integers(0, 99), st.sampled_from([1.0, 0.5]))
def test_narrow_beam_misses_but_never_lies(tree: LabelTree, beam: int, seed: int, discount: float) -> None:
    own = tables(tree, 3, seed)
    ids, scores = beam_search(tree, scorer(tree, own), 3, beam, 5, discount)
    expected = exhaustive(tree, own, discount)
    for row in range(3):
        found = ids[row][ids[row] >= 0].tolist()
        assert len(set(found)) == len(found)
        np.testing.assert_array_equal(scores[row, : len(found)], expected[row, found])
        assert (np.diff(scores[row, : len(found)]) <= 0).all()


def test_no_documents() -> None:
    tree = LabelTree.of([[[0, 1]], [[0, 2], [1]]])
    ids, scores = beam_search(tree, scorer(tree, tables(tree, 0, 0)), 0, 2, 3)
    assert ids.shape == scores.shape == (0, 3)
