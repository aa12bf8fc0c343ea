"""Document trees: the split of a node against its definition, the tree's parts against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.kernels import clustered_tree, ranking_tree, tree_growth
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.ranking_tree import RankingTree, grow_ranking_tree

Array = np.ndarray[Any, Any]


def plain(kernel: Any) -> Any:
    """The kernel as it stands, in Python: nothing has to be compiled for a test of a few rows."""
    return getattr(kernel, "py_func", kernel)


def sparse(dense: Array) -> csr_array[Any, Any]:
    """A matrix of 32-bit floats."""
    return csr_array(dense.astype(np.float32))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 6))
def test_no_document_would_gain_on_the_other_side(seed: int, documents: int, labels: int) -> None:
    rng = np.random.default_rng(seed)
    gains = rng.uniform(0.1, 1, (documents, labels)) * (rng.random((documents, labels)) < 0.5)
    discounts = (1 / np.log2(np.arange(labels) + 2)).astype(np.float32)
    np.random.seed(seed)  # noqa: NPY002 - of the kernel's own random numbers
    sides = plain(ranking_tree.ranking_sides)(CsrArrays.of(sparse(gains)), labels, discounts, 500)
    value = np.zeros((2, labels))
    for side in range(2):
        sums = gains[sides == side].sum(axis=0)
        order = np.argsort(-sums.astype(np.float32), kind="stable")
        value[side, order] = discounts
        value[side, sums == 0] = 0
    earned = gains @ value.T
    own, other = earned[np.arange(documents), sides], earned[np.arange(documents), 1 - sides]
    assert (own >= other - 1e-4).all()


def test_a_column_without_the_pull_to_get_a_weight_is_left_out() -> None:
    rows = sparse(np.array([[0.5, 0.9, 0.0], [0.6, 0.0, 0.4], [0.0, 0.0, -0.7]]))
    kept, numbers = plain(ranking_tree._with_chances)(CsrArrays.of(rows), 3, np.ones(3))
    assert numbers.tolist() == [0, 2]
    made = csr_array((kept.data, kept.indices, kept.indptr), shape=(3, 2)).toarray()
    np.testing.assert_array_equal(made, rows.toarray()[:, [0, 2]])
    _, all_ = plain(ranking_tree._with_chances)(CsrArrays.of(rows), 3, np.full(3, 2.0))
    assert all_.tolist() == [0, 1, 2]


def test_a_leaf_has_the_mean_of_its_documents_largest_first() -> None:
    targets = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]])
    labels, shares = plain(tree_growth.leaf_of)(CsrArrays.of(sparse(targets)), np.arange(4), 2)
    assert labels.tolist() == [0, 2]
    assert shares.tolist() == [0.75, 0.5]
    tied, _ = plain(tree_growth.leaf_of)(CsrArrays.of(sparse(targets)), np.array([1, 3]), 2)
    assert tied.tolist() == [0, 1], "ties to the lower label"


def test_documents_part_in_their_order() -> None:
    members = np.array([7, 3, 9, 4, 5])
    ends = plain(tree_growth.share_out)(members, np.array([2, 0, 2, 0, 0]), 3)
    assert members.tolist() == [3, 4, 5, 7, 9]
    assert ends.tolist() == [0, 3, 3, 5]


def test_a_matrix_by_columns() -> None:
    rng = np.random.default_rng(0)
    matrix = sparse(rng.random((6, 5)) * (rng.random((6, 5)) < 0.5))
    turned = plain(tree_growth.by_column)(CsrArrays.of(matrix), 5)
    for made, expected in zip(turned, CsrArrays.of(matrix.tocsc()), strict=True):
        np.testing.assert_array_equal(made, expected)


def test_first_centres_are_rows_apart_from_each_other() -> None:
    rows = sparse(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]))
    centres = plain(clustered_tree._first_centres)(CsrArrays.of(rows), 3, 5)
    assert sorted(map(tuple, centres.T.tolist())) == [(0, 0, 1), (0, 1, 0), (1, 0, 0)], "no more than there are"


def test_the_largest_entries_of_a_centroid_are_kept() -> None:
    centres = np.array([[0.5, 0], [-0.8, 0], [0.1, 0.3], [0, 0], [0.2, 0.1]], np.float32)
    plain(clustered_tree._keep_largest)(centres, 2)
    assert np.flatnonzero(centres[:, 0]).tolist() == [0, 1]
    assert np.flatnonzero(centres[:, 1]).tolist() == [2, 4]


@pytest.mark.parametrize("buckets", [1, 7, 1000])
def test_hashing_keeps_products_nearly(buckets: int) -> None:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(4, 300))
    made = plain(clustered_tree.hashed)(CsrArrays.of(sparse(dense)), buckets, 5)
    projected = csr_array((made.data, made.indices, made.indptr), shape=(4, buckets)).toarray()
    assert abs(projected).sum() > 0
    if buckets == 1000:
        np.testing.assert_allclose(projected @ projected.T, dense @ dense.T, atol=120)
    assert 100 < (made.data * dense.ravel() > 0).sum() < 1100, "signs are random"


def test_two_topics_part_at_the_root() -> None:
    rng = np.random.default_rng(0)
    topic = np.arange(60) % 2
    dense = np.zeros((60, 20))
    for row in range(60):
        dense[row, rng.choice(10, 4, replace=False) + 10 * topic[row]] = 0.5
    matrix, targets = sparse(dense), sparse(np.eye(2)[topic])
    how = RankingTree(30, 100, 50, 1.0, True, 1.0, 0.01, 20)
    gains = np.ones(60, np.float32)
    tree = grow_ranking_tree(CsrArrays.of(matrix), 20, CsrArrays.of(targets), gains, 2, how, 0)
    assert tree.documents.tolist()[:3] == [60, 30, 30]
    assert [tree.leaf_labels[tree.leaf_indptr[node]] for node in (1, 2)] in ([0, 1], [1, 0])
    assert tree.leaf_shares[tree.leaf_indptr[1]] == 1
