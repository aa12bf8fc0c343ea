"""The exact search among dense vectors, against all products sorted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmtc.kernels.dense_topk import best_listed, best_of_products
from xmtc.search import exact_search
from xmtc.search.exact_search import nearest_exactly


@settings(deadline=None)
@given(st.integers(0, 999), st.integers(1, 9), st.integers(1, 20), st.integers(1, 25))
def test_finds_the_nearest_with_ties_to_the_lower_id(seed: int, queries: int, vectors: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    asked = rng.integers(-1, 2, (queries, 3)).astype(np.float32)  # few distinct ones, so that there are ties
    others = rng.integers(-1, 2, (vectors, 3)).astype(np.float32)
    ids, products = nearest_exactly(asked, others, k)
    every = asked @ others.T
    order = np.argsort(-every, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(products, np.take_along_axis(every, order, 1))


def test_a_query_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((500, 30)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[100:200] = vectors[0]  # many ties
    whole = nearest_exactly(vectors[:50], vectors, 20)
    monkeypatch.setattr(exact_search, "MOST_QUERIES", 7)
    for one, other in zip(whole, nearest_exactly(vectors[:50], vectors, 20), strict=True):
        np.testing.assert_array_equal(one, other)
    single = [nearest_exactly(vectors[at : at + 1], vectors, 20)[0][0] for at in range(50)]
    np.testing.assert_array_equal(whole[0], single)


def test_no_vectors() -> None:
    ids, products = nearest_exactly(np.ones((2, 3), np.float32), np.zeros((0, 3), np.float32), 5)
    assert ids.shape == products.shape == (2, 0)


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(0)
    queries, vectors = rng.normal(size=(9, 5)).astype(np.float32), rng.normal(size=(40, 5)).astype(np.float32)
    parallel, serial = best_of_products.versions  # type: ignore[attr-defined]
    arguments = (queries @ vectors.T, queries, vectors, 7, 1e-4)
    for one, other in zip(parallel(*arguments), serial(*arguments), strict=True):
        np.testing.assert_array_equal(one, other)


@settings(deadline=None)
@given(st.integers(0, 999), st.integers(1, 6))
def test_the_best_of_listed_labels(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(4, 3)).astype(np.float32)
    weights, biases = rng.normal(size=(9, 3)).astype(np.float32), rng.normal(size=9).astype(np.float32)
    listed = np.array([rng.permutation(9)[:5] for _ in range(4)], np.int32)
    listed[2, 3:] = -1
    ids, scores = best_listed(vectors, listed, weights, biases, k)
    for text in range(4):
        there = listed[text][listed[text] >= 0]
        every = weights[there] @ vectors[text] + biases[there]
        order = np.argsort(-every)[:k]
        assert ids[text, : len(order)].tolist() == there[order].tolist()
        assert (ids[text, len(order) :] == -1).all()
        np.testing.assert_allclose(scores[text, : len(order)], every[order], rtol=1e-4, atol=1e-5)
