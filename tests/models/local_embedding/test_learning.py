"""The parts of the embeddings: graphs of labels, singular value projection, regression with and without L1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.models.local_embedding import label_graph
from xmtc.models.local_embedding.label_graph import label_neighbours, similarity_pairs
from xmtc.models.local_embedding.learner import known_features
from xmtc.models.local_embedding.regression import ridge, sparse_embeddings
from xmtc.models.local_embedding.sleec import Sleec
from xmtc.models.local_embedding.svp import preserve_similarities


def labels(seed: int, documents: int = 30, count: int = 8) -> Any:
    rng = np.random.default_rng(seed)
    dense = rng.random((documents, count)) < 0.3
    dense[:, 0] |= ~dense.any(axis=1)
    return csr_array(dense.astype(np.float32))


def cosines(targets: Any) -> np.ndarray[Any, Any]:
    dense = targets.toarray()
    unit = dense / np.linalg.norm(dense, axis=1, keepdims=True)
    products: np.ndarray[Any, Any] = unit @ unit.T
    return products


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(1, 12))
def test_neighbours_are_those_with_the_most_similar_labels(seed: int, k: int) -> None:
    targets = labels(seed)
    ids, near = label_neighbours(targets, k, np.random.default_rng(seed))
    every = cosines(targets)
    np.fill_diagonal(every, -1)
    for row in range(len(ids)):
        expected = -np.sort(-every[row])[:k]
        found = ids[row] >= 0
        assert row not in ids[row]
        assert len(set(ids[row][found].tolist())) == found.sum()
        np.testing.assert_allclose(near[row][found], every[row][ids[row][found]], atol=1e-5)
        np.testing.assert_allclose(near[row], np.maximum(expected, 0), atol=1e-5)


def test_many_documents_are_searched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_graph, "SHARD", 8)
    targets = labels(0)
    ids, near = label_neighbours(targets, 3, np.random.default_rng(0))
    found = ids >= 0
    rows = np.repeat(np.arange(30), 3).reshape(30, 3)
    np.testing.assert_allclose(near[found], cosines(targets)[rows[found], ids[found]], atol=1e-5)
    assert found.sum(axis=1).max() == 3


def test_pairs_are_symmetric_similarities_of_neighbours() -> None:
    targets = labels(3)
    pairs = similarity_pairs(targets, 5, np.random.default_rng(0)).toarray()
    np.testing.assert_array_equal(pairs, pairs.T)
    there = pairs > 0
    np.testing.assert_allclose(pairs[there], cosines(targets)[there], atol=1e-5)
    assert there.sum(axis=1).min() >= 5
    assert np.allclose(np.diag(pairs), 1, atol=1e-5)


def test_projection_finds_vectors_with_the_given_products() -> None:
    """All pairs are given and there are enough dimensions: then the products are exact."""
    targets = labels(1)
    every = cosines(targets).astype(np.float32)
    vectors = preserve_similarities(csr_array(every), 8, 100, np.random.default_rng(0))
    np.testing.assert_allclose(vectors @ vectors.T, every, atol=1e-3)


def test_projection_fills_in_what_is_not_given() -> None:
    """With some of the products of vectors of rank 2, the others are found."""
    rng = np.random.default_rng(0)
    hidden = rng.random((40, 2)).astype(np.float32) + 0.1
    given_pairs = np.triu(rng.random((40, 40)) < 0.6)
    every = hidden @ hidden.T
    pairs = csr_array((every * (given_pairs | given_pairs.T)).astype(np.float32))
    vectors = preserve_similarities(pairs, 2, 300, rng)
    np.testing.assert_allclose(vectors @ vectors.T, every, atol=0.15)


def test_fewer_documents_than_dimensions_leave_zeros() -> None:
    vectors = preserve_similarities(csr_array(np.eye(2, dtype=np.float32)), 5, 10, np.random.default_rng(0))
    assert vectors.shape == (2, 5)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(2), atol=1e-3)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 99), st.floats(0.1, 5))
def test_ridge_regression_is_the_closed_form(seed: int, shrinkage: float) -> None:
    rng = np.random.default_rng(seed)
    features, wanted = rng.random((12, 5)).astype(np.float32), rng.random((12, 3)).astype(np.float32)
    exact = np.linalg.solve(features.T @ features + shrinkage * np.eye(5), features.T @ wanted)
    np.testing.assert_allclose(ridge(csr_array(features), wanted, shrinkage), exact, atol=5e-3)


def test_an_l1_penalty_makes_vectors_small_and_sparse() -> None:
    rng = np.random.default_rng(0)
    features, wanted = rng.random((40, 30)).astype(np.float32), rng.normal(size=(40, 3)).astype(np.float32)
    matrix = csr_array(features)

    def cost(table: Any, l1: float) -> float:
        made = features @ table
        return float(np.sum((wanted - made) ** 2) + 0.1 * np.sum(table**2) + l1 * np.abs(made).sum())

    plain = ridge(matrix, wanted, 0.1)
    for l1 in (0.1, 1.0):
        sparse = sparse_embeddings(matrix, wanted, 0.1, l1, 40)
        assert cost(sparse, l1) < cost(plain, l1)
        assert np.abs(features @ sparse).sum() < np.abs(features @ plain).sum()


def test_sleec_learns_with_the_l1_penalty() -> None:
    from xmtc.corpus.corpus import Corpus

    corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 5, [["a"], ["a"], ["b"], ["b"]] * 5)
    model = Sleec(learners=1, dimensions=4, l1=0.01).fit(corpus)
    assert [row[0][0] for row in model.predict(["apple", "sky"], k=1).names()] == ["a", "b"]


def test_unknown_features_count_for_nothing() -> None:
    rows = csr_array(np.array([[1, 2, 3], [0, 0, 4]], np.float32))
    assert known_features(rows, np.array([2], np.int32)).toarray().tolist() == [[3], [4]]
    assert known_features(rows, np.zeros(0, np.int32)).shape == (2, 0)
