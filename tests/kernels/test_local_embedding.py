"""The loops of local embeddings against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.local_embedding import learn_partition, learn_ranking, pair_products


def two_topics(documents: int = 60, seed: int = 0) -> tuple[Any, np.ndarray[Any, Any]]:
    """(documents x 8 features, their topic): the first four features are of one topic, the others of the other."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 2, documents)
    dense = np.zeros((documents, 8), np.float32)
    for row in range(documents):
        dense[row, 4 * topic[row] + rng.permutation(4)[:2]] = np.sqrt(0.5)
    return csr_array(dense), topic


def neighbours_of(topic: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(1)
    graph = np.empty((len(topic), k), np.int32)
    for row in range(len(topic)):
        same = np.flatnonzero((topic == topic[row]) & (np.arange(len(topic)) != row))
        graph[row] = rng.permutation(same)[:k]
    return graph


@settings(deadline=None)
@given(st.integers(0, 99), st.integers(1, 9), st.integers(1, 5))
def test_products_of_pairs(seed: int, count: int, dimensions: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = csr_array(rng.integers(0, 2, (count, count)).astype(np.float32))
    vectors = rng.standard_normal((count, dimensions)).astype(np.float32)
    rows = np.repeat(np.arange(count), np.diff(pairs.indptr))
    found = pair_products(pairs.indptr, pairs.indices, vectors)
    np.testing.assert_allclose(found, (vectors @ vectors.T)[rows, pairs.indices], rtol=1e-4, atol=1e-5)


def test_a_partition_keeps_neighbours_together() -> None:
    features, topic = two_topics()
    graph = neighbours_of(topic, 5)
    weights = learn_partition(CsrArrays.of(features), 8, graph, 2, 10, 0.1, 0.0, 3)
    home = (features @ weights.T).argmax(axis=1)
    together = np.mean(home[graph] == home[:, None])
    assert together > 0.9
    np.testing.assert_array_equal(
        weights, learn_partition(CsrArrays.of(features), 8, graph, 2, 10, 0.1, 0.0, 3), "the same seed"
    )


def test_the_l1_penalty_shrinks_the_weights_of_the_partition_to_zero() -> None:
    features, topic = two_topics()
    graph = neighbours_of(topic, 5)
    sizes = [
        np.abs(learn_partition(CsrArrays.of(features), 8, graph, 2, 3, 0.1, l1, 0)).max() for l1 in (1.0, 5.0, 20.0)
    ]
    assert sizes[0] > sizes[1] > sizes[2] == 0


def test_ranking_brings_neighbours_nearer_than_others() -> None:
    features, topic = two_topics()
    graph = neighbours_of(topic, 5)

    def cosines(epochs: int) -> tuple[float, float]:
        table = learn_ranking(CsrArrays.of(features), 8, graph, 4, 5, 10.0, 0.1, epochs, 7)
        vectors = features @ table
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        products = vectors @ vectors.T
        same = topic[:, None] == topic[None]
        return float(products[same].mean()), float(products[~same].mean())

    near, far = cosines(10)
    assert near > 0.9
    assert far < 0.2
    assert near - far > cosines(1)[0] - cosines(1)[1]


def _loss(table: Any, features: Any, own: int, right: list[int], wrong: list[int], gamma: float) -> float:
    vectors = features.toarray().astype(np.float64) @ table
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors[own]
    return float(sum(np.log1p(sum(np.exp(gamma * (cosines[n] - cosines[p])) for n in wrong)) for p in right))


def test_a_step_goes_down_the_gradient() -> None:
    """Two documents, the one's neighbour and the one that is none: the first step is against the numeric gradient."""
    features = csr_array(np.eye(3, dtype=np.float32))
    graph = np.array([[1], [-1], [-1]], np.int32)
    arguments = (CsrArrays.of(features), 3, graph, 4, 20, 10.0)
    start = learn_ranking(*arguments, 1e-12, 1, 5).astype(np.float64)
    moved = learn_ranking(*arguments, 1e-4, 1, 5) - start
    # Of 20 random documents those that are neither the document nor its neighbour are negatives: all of them the third.
    numeric = np.zeros_like(start)
    for at in np.ndindex(start.shape):
        for sign in (1, -1):
            other = start.copy()
            other[at] += sign * 1e-5
            numeric[at] += sign * _loss(other, features, 0, [1], [2] * 7, 10.0) / 2e-5
    for row in range(3):
        cosine = -np.sum(moved[row] * numeric[row]) / np.linalg.norm(moved[row]) / np.linalg.norm(numeric[row])
        assert cosine == pytest.approx(1, abs=1e-2)
