"""Sparse nearest neighbours and votes against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.sparse_knn import FEW_VOTES, LITTLE_WORK, dense_columns, select_top, vote
from xmtc.search import sparse_index
from xmtc.search.sparse_index import QUERY_BLOCK, SparseIndex

# Small whole numbers: many ties and zeros, and sums that are exact in any order.
small = st.integers(0, 3).map(np.float32)


def matrices(rows: int, columns: int) -> Any:
    return hnp.arrays(np.float32, (rows, columns), elements=small)


def naive_top(values: list[float], k: int) -> list[tuple[int, float]]:
    ranked = sorted((-value, at) for at, value in enumerate(values) if value > 0)
    return [(at, -value) for value, at in ranked[:k]]


@given(st.lists(st.integers(-2, 4), max_size=30), st.integers(1, 12))
def test_select_top(values: list[int], k: int) -> None:
    ids, scores = np.full(k, -1, np.int32), np.zeros(k, np.float32)
    found = select_top(np.array(values, np.float32), 0.0, k, ids, scores)
    expected = naive_top([float(value) for value in values], k)
    assert list(zip(ids[:found].tolist(), scores[:found].tolist(), strict=True)) == expected
    assert (ids[found:] == -1).all()


@settings(deadline=None)
@given(matrices(7, 5), matrices(4, 5), st.integers(1, 9))
def test_nearest_rows(rows: np.ndarray[Any, Any], queries: np.ndarray[Any, Any], k: int) -> None:
    ids, scores = SparseIndex.of(csr_array(rows)).nearest(csr_array(queries), k)
    k = min(k, len(rows))
    assert ids.shape == scores.shape == (4, k)
    for query in range(4):
        expected = naive_top((rows @ queries[query]).tolist(), k)
        found = ids[query] >= 0
        assert list(zip(ids[query][found].tolist(), scores[query][found].tolist(), strict=True)) == expected


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.sampled_from([0.0, 0.3, 1.0]))
@settings(deadline=None, max_examples=40)
def test_columns_with_their_zeros_give_the_same_scores(seed: int, columns: int, share: float) -> None:
    """Whether none, some or all columns are dense, and however many of them follow each other in a query."""
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(20, columns)) * (rng.random((20, columns)) < rng.random(columns))).astype(np.float32)
    queries = csr_array((rng.normal(size=(5, columns)) * (rng.random((5, columns)) < 0.8)).astype(np.float32))
    start = rng.normal(size=20).astype(np.float32)
    sparse, mixed = SparseIndex.of(csr_array(rows)), SparseIndex.of(csr_array(rows))
    for index, memory in ((sparse, 0.0), (mixed, 10.0 * share)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sparse_index, "DENSE_MEMORY", memory)
            index.nearest(queries, 3)
    assert len(sparse._dense.values) == 0
    for one, other in zip(sparse.nearest(queries, 20, start), mixed.nearest(queries, 20, start), strict=True):
        np.testing.assert_array_equal(one, other)


def test_dense_columns_are_those_of_the_most_rows() -> None:
    # Column 0 has 2 of 4 rows, column 1 four, column 2 three, column 3 one of them twice.
    indices, indptr = np.array([0, 3, 0, 1, 2, 3, 0, 1, 2, 1, 1, 2], np.int32), np.array([0, 2, 6, 9, 12], np.int32)
    columns = CsrArrays(indptr, indices, np.arange(1, 13, dtype=np.float32))
    assert dense_columns(columns, 4, 3, 9)[0].tolist() == [-1, 0, 1, -1], "what is not in order stays as it is"
    assert dense_columns(columns, 4, 4, 9)[0].tolist() == [-1, 0, -1, -1]
    assert dense_columns(columns, 4, 1, 0)[1].shape == (0, 4), "no room"
    places, values = dense_columns(columns, 4, 1, 9)
    assert places.tolist() == [2, 0, 1, -1]
    assert values[:3].tolist() == [[3, 4, 5, 6], [7, 8, 9, 0], [1, 0, 0, 2]]


def test_dense_columns_take_a_part_of_the_memory() -> None:
    rows = csr_array(np.ones((16, 40), np.float32))
    index = SparseIndex.of(rows)
    index.nearest(rows[[0]], 1)
    assert 0 < index._dense.values.nbytes <= 8 * rows.nnz // 8


def test_more_queries_than_a_block() -> None:
    rng = np.random.default_rng(0)
    rows = csr_array(rng.integers(0, 3, (50, 20)).astype(np.float32))
    queries = csr_array(rng.integers(0, 3, (QUERY_BLOCK + 7, 20)).astype(np.float32))
    ids, scores = SparseIndex.of(rows).nearest(queries, 5)
    products = (queries @ rows.T).toarray()
    np.testing.assert_array_equal(scores, -np.sort(-products, axis=1)[:, :5])
    np.testing.assert_array_equal(np.take_along_axis(products, ids, 1), scores)


def test_extended_index_equals_one_made_at_once() -> None:
    rng = np.random.default_rng(1)
    rows = csr_array(rng.integers(0, 3, (30, 8)).astype(np.float32))
    grown, whole = SparseIndex.of(rows[:10]).extended(rows[10:]), SparseIndex.of(rows)
    for a, b in zip(grown.nearest(rows, 4), whole.nearest(rows, 4), strict=True):
        np.testing.assert_array_equal(a, b)


def test_shared_columns_add_up_to_the_product() -> None:
    rng = np.random.default_rng(2)
    rows = csr_array(rng.integers(0, 3, (12, 8)).astype(np.float32))
    query = rows[[3]]
    picked = np.array([0, 3, 7], np.int32)
    shares = SparseIndex.of(rows).shared(query, picked)
    np.testing.assert_allclose(shares.sum(axis=0), (rows[picked] @ query.T).toarray().ravel())


@settings(deadline=None)
@given(
    hnp.arrays(np.int32, (3, 4), elements=st.integers(-1, 4)),
    hnp.arrays(np.float32, (3, 4), elements=st.sampled_from([0.25, 0.5, 1.0]).map(np.float32)),
    hnp.arrays(np.bool_, (5, 6)),
    st.integers(1, 8),
)
def test_votes(
    neighbours: np.ndarray[Any, Any], weights: np.ndarray[Any, Any], carries: np.ndarray[Any, Any], k: int
) -> None:
    neighbours = -np.sort(-neighbours, axis=1)  # "no more" comes last
    targets = csr_array(carries.astype(np.float32))
    ids, scores = vote(neighbours, weights, targets.indptr, targets.indices, 6, k)
    for query in range(3):
        votes = [0.0] * 6
        total = 0.0
        for row, weight in zip(neighbours[query].tolist(), weights[query].tolist(), strict=True):
            if row >= 0:
                total += weight
                for label in np.flatnonzero(carries[row]).tolist():
                    votes[label] += weight
        shares = [float(np.float32(value / total)) if total else 0.0 for value in votes]
        expected = naive_top(shares, k)
        found = ids[query] >= 0
        assert ids[query][found].tolist() == [label for label, _ in expected]
        assert scores[query][found].tolist() == pytest.approx([share for _, share in expected])


def test_nothing_is_selected_that_is_not_above_zero() -> None:
    ids, scores = np.full(3, -1, np.int32), np.zeros(3, np.float32)
    assert select_top(np.array([np.nan, -1, 2, np.nan, 0], np.float32), 0.0, 3, ids, scores) == 1
    assert ids.tolist() == [2, -1, -1]
    assert select_top(np.ones(4, np.float32), 0.0, 0, ids[:0], scores[:0]) == 0


def test_votes_without_weight() -> None:
    """More neighbours without weight than there are labels: their votes must not be written down, nor divided by."""
    neighbours = np.arange(60, dtype=np.int32)[None]
    weights = np.zeros((1, 60), np.float32)
    indptr, indices = np.arange(61, dtype=np.int32), np.zeros(60, np.int32)
    ids, scores = vote(neighbours, weights, indptr, indices, 1, 1)
    assert (ids.tolist(), scores.tolist()) == ([[-1]], [[0.0]])
    weights[0, 3] = 0.5
    ids, scores = vote(neighbours, weights, indptr, indices, 1, 1)
    assert (ids.tolist(), scores.tolist()) == ([[0]], [[1.0]])


def test_queries_must_fit_the_index() -> None:
    index = SparseIndex.of(csr_array(np.eye(3, dtype=np.float32)))
    with pytest.raises(ValueError, match="queries with 4 columns for an index of 3"):
        index.nearest(csr_array(np.ones((1, 4), np.float32)), k=1)
    assert index.nearest(csr_array(np.zeros((0, 3), np.float32)), k=2)[0].shape == (0, 2)


def test_one_query_gets_the_same_answer_as_among_many() -> None:
    """One is answered without threads, many with them."""
    rng = np.random.default_rng(3)
    queries = csr_array(rng.random((FEW_VOTES + 1, 20), np.float32))
    index = SparseIndex.of(csr_array(rng.random((LITTLE_WORK // FEW_VOTES, 20), np.float32)))
    labels = csr_array((rng.random((len(index), 9)) < 0.2).astype(np.float32))
    ids, scores = index.nearest(queries, 7)
    together = ids, scores, *vote(ids, scores, labels.indptr, labels.indices, 9, 5)
    for at in range(queries.shape[0]):
        ids, scores = index.nearest(queries[[at]], 7)
        alone = ids, scores, *vote(ids, scores, labels.indptr, labels.indices, 9, 5)
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], other[at])
