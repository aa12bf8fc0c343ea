"""Label trees: their shape for every option, targets of nodes, and the hierarchy that was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sparse import Csr, unit_rows
from xmtc.errors import ConfigError, XmtcError
from xmtc.labelspace.tree import LabelTree, build_tree, given_tree


def vectors(count: int, seed: int = 0, features: int = 30, words: int = 4) -> Csr:
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, features, count * words)
    matrix = csr_array(
        (np.ones(count * words, np.float32), indices, np.arange(0, count * words + 1, words)), shape=(count, features)
    )
    matrix.sum_duplicates()
    return unit_rows(matrix)


def assert_tree(tree: LabelTree, labels: int) -> None:
    """One root; every node of every level has exactly one parent; the leaves share out the labels."""
    assert tree.levels[0].shape[0] == 1
    for above, below in zip(tree.levels, tree.levels[1:], strict=False):
        assert above.shape[1] == below.shape[0]
    for level in tree.levels:
        assert sorted(level.indices.tolist()) == list(range(level.shape[1]))
    assert tree.labels == labels


options = st.fixed_dictionaries(
    {
        "balanced": st.booleans(),
        "arity": st.sampled_from([2, 4, 8]),
        "max_leaf": st.integers(1, 9),
        "levels": st.sampled_from([None, 1, 2, 3]),
        "seed": st.integers(0, 99),
    }
)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), options)
def test_every_option_gives_a_tree(labels: int, chosen: dict[str, Any]) -> None:
    tree = build_tree(vectors(labels), **chosen)
    assert_tree(tree, labels)
    sizes = np.diff(tree.levels[-1].indptr)
    if chosen["levels"] is None:
        assert sizes.max() <= chosen["max_leaf"]
    else:
        assert tree.depth <= chosen["levels"] + 1
    if chosen["balanced"]:
        assert sizes.max() - sizes.min() <= 1
        for level in tree.levels[1:-1]:
            assert (np.diff(level.indptr) == chosen["arity"]).all()
    again = build_tree(vectors(labels), **chosen).to_arrays()
    for name, array in tree.to_arrays().items():
        np.testing.assert_array_equal(array, again[name])


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.integers(0, 99), st.booleans())
def test_targets_are_true_where_a_child_is(labels: int, seed: int, balanced: bool) -> None:
    tree = build_tree(vectors(labels, seed), balanced=balanced, arity=2, max_leaf=3, seed=seed)
    rng = np.random.default_rng(seed)
    wanted = csr_array((rng.random((10, labels)) < 0.1).astype(np.float32))
    found = tree.targets(wanted)
    assert len(found) == tree.depth
    np.testing.assert_array_equal(found[-1].toarray(), wanted.toarray())
    for depth in range(tree.depth - 1):
        below = found[depth + 1].toarray()
        for node in range(tree.levels[depth].shape[1]):
            expected = below[:, tree.children(depth + 1, node)].max(1, initial=0)
            np.testing.assert_array_equal(found[depth].toarray()[:, node], expected)
        assert found[depth].has_sorted_indices


def test_attentionxml_example() -> None:
    """The paper's Fig. 1b: 8,000 labels, K = M = 8, H = 3. Ten rounds of splits; depths 4, 7 and 10 are kept."""
    tree = build_tree(vectors(8000, features=500), balanced=True, arity=8, max_leaf=8, levels=3)
    assert [level.shape for level in tree.levels] == [(1, 16), (16, 128), (128, 1024), (1024, 8000)]
    assert np.diff(tree.levels[-1].indptr).max() <= 8
    for level in tree.levels[:-1]:  # breadth-first: the children of node i are K i to K i + K - 1
        np.testing.assert_array_equal(level.indices, np.arange(level.shape[1]))


def test_bonsai_tree_is_shallow() -> None:
    tree = build_tree(vectors(500, features=200), balanced=False, arity=20, max_leaf=5, levels=2)
    assert tree.depth == 3
    assert 2 <= tree.levels[0].shape[1] <= 20


@pytest.mark.parametrize("balanced", [True, False])
def test_similar_labels_share_a_leaf(balanced: bool) -> None:
    noise = np.random.default_rng(0).random((20, 12)) / 10
    dense = (np.kron(np.eye(4), np.ones((5, 3))) + noise).astype(np.float32)  # four topics of five labels each
    found = []
    for seed in range(5):
        tree = build_tree(unit_rows(csr_array(dense)), balanced=balanced, arity=4, max_leaf=5, seed=seed)
        leaves = [tree.children(tree.depth - 1, leaf) for leaf in range(tree.levels[-1].shape[0])]
        found.append(np.mean([len({label // 5 for label in leaf.tolist()}) == 1 for leaf in leaves]))
    assert max(found) == 1


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("value", [0.0, 1.0], ids=["no documents", "the same documents"])
def test_labels_that_are_all_alike(balanced: bool, value: float) -> None:
    tree = build_tree(csr_array(np.full((50, 1), value, np.float32)), balanced=balanced, arity=4, max_leaf=5)
    assert_tree(tree, 50)
    assert np.diff(tree.levels[-1].indptr).max() <= 5


def test_options_that_make_no_tree() -> None:
    with pytest.raises(ConfigError, match="power of 2, not 6"):
        build_tree(vectors(9), arity=6, max_leaf=2)
    with pytest.raises(ConfigError, match="no tree has 0 labels"):
        build_tree(csr_array(np.zeros((0, 3), np.float32)))


def test_stored_and_read_again() -> None:
    tree = build_tree(vectors(50), max_leaf=3)
    arrays = tree.to_arrays()
    again = LabelTree.from_arrays(arrays)
    assert again.depth == tree.depth
    for one, two in zip(tree.levels, again.levels, strict=True):
        np.testing.assert_array_equal(one.toarray(), two.toarray())
    for broken in ({"0.indices": np.array([0, 7])}, {"0.indptr": np.array([0, 5])}, {"0.indices": np.array([0, 0])}):
        with pytest.raises((ValueError, XmtcError)):
            LabelTree.from_arrays({**arrays, **broken})
    with pytest.raises(ValueError, match="no level"):
        LabelTree.from_arrays({})


@pytest.mark.parametrize(
    "levels",
    [[[[0, 1]], [[0], [0]]], [[[0, 1]], [[0, 1]]], [[[0], [1]]]],
    ids=["two parents", "too few nodes", "two roots"],
)
def test_what_is_no_tree(levels: list[list[list[int]]]) -> None:
    with pytest.raises(XmtcError, match="label tree"):
        LabelTree.of(levels)


def test_given_hierarchy() -> None:
    """Of different depths; several parents (the first counts); labels that stand alone."""
    keys = ["animal", "cat", "tiger", "plant", "oak", "alone", "lonely"]
    parents = [[], ["animal"], ["cat", "plant"], [], ["plant"], [], []]
    labels = LabelSet.of(keys, parents=parents)
    tree = given_tree(labels)
    assert_tree(tree, 7)
    leaves = [sorted(keys[i] for i in tree.children(tree.depth - 1, n)) for n in range(tree.levels[-1].shape[0])]
    assert sorted(leaves) == [["alone", "lonely"], ["animal"], ["cat", "tiger"], ["oak", "plant"]]
    # animal, cat and tiger lie under one child of the root, the rest not.
    top = tree.targets(csr_array(np.eye(7, dtype=np.float32)))[0].toarray().argmax(1)
    assert len({top[0], top[1], top[2]}) == 1
    assert len({top[0], top[3], top[5]}) == 3


def test_no_hierarchy_was_given() -> None:
    with pytest.raises(XmtcError, match="no hierarchy"):
        given_tree(LabelSet.of(["a", "b"]))
