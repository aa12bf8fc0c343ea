"""Classifiers trained on active documents against those trained on all, which are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from xmtc.kernels.active_documents import SEARCHES, train_on_active
from xmtc.kernels.coordinate_descent import SQUARED_HINGE, Importance, Solver, train_node
from xmtc.kernels.csr import CsrArrays

NOTHING = np.zeros(0, np.float32)
Array = np.ndarray[Any, Any]


def short_texts(documents: int, features: int, seed: int, signed: bool = False) -> csr_array[Any, Any]:
    """Unit rows in which some features are in many documents; the last row is empty."""
    rng = np.random.default_rng(seed)
    common = rng.random((documents, features)) < 0.5 / np.arange(1, features + 1) ** 0.7
    dense = common * rng.random((documents, features)) * np.sqrt(np.arange(1, features + 1))
    if signed:
        dense *= rng.choice([-1, 1], dense.shape)
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-9)
    dense[-1] = 0
    return csr_array(dense.astype(np.float32))


def topical(matrix: Any, labels: int, seed: int) -> tuple[Array, Array]:
    """(ends, documents) of labels: those that a rare feature marks, and one document at random."""
    rng = np.random.default_rng(seed)
    found = []
    for label in range(labels):
        marked = matrix[:, [matrix.shape[1] - 1 - label]].tocoo().coords[0]
        found.append(np.union1d(marked, rng.integers(0, matrix.shape[0], 1)))
    return np.cumsum([0, *map(len, found)]), np.concatenate(found).astype(np.int64)


def both(
    matrix: Any, positives: tuple[Array, Array], importance: Importance, searches: int = SEARCHES, tight: bool = True
) -> tuple[list[tuple[Array, Array]], Array]:
    """((dense weights, biases) trained on all documents, and on active ones; how many were active)."""
    tolerance, rounds = (1e-4, 20_000) if tight else (0.1, 20)
    solver = Solver(SQUARED_HINGE, 0.4, tolerance, rounds, 0.0, 0.3)
    rows, everyone = CsrArrays.of(matrix), np.arange(matrix.shape[0], dtype=np.int32)
    offsets = np.zeros((0, 0), np.float32)
    whole = train_node(rows, matrix.shape[1], everyone, *positives, offsets, importance, solver, 0)
    *part, sizes = train_on_active(rows, CsrArrays.of(matrix.tocsc()), *positives, importance, solver, searches, 0)
    found = []
    for ends, features, weights, biases in (whole, part):
        for label in range(len(ends) - 1):
            assert (np.diff(features[ends[label] : ends[label + 1]]) > 0).all(), "features ascend"
        shape = (len(ends) - 1, matrix.shape[1])
        found.append((csr_array((weights, features, ends), shape=shape).toarray(), biases))
    return found, sizes


@given(st.integers(0, 50), st.integers(2, 60), st.integers(1, 12), st.booleans(), st.booleans())
def test_the_same_classifiers_as_on_all_documents(
    seed: int, documents: int, labels: int, signed: bool, weighted: bool
) -> None:
    matrix = short_texts(documents, 30, seed, signed)
    positives = topical(matrix, labels, seed)
    rng = np.random.default_rng(seed)
    weights = (
        rng.uniform(0.2, 3, documents).astype(np.float32),
        rng.uniform(0.5, 2, len(positives[1])).astype(np.float32),
    )
    importance = Importance(*weights) if weighted else Importance(NOTHING, NOTHING)
    ((all_weights, all_biases), (weights_, biases)), _ = both(matrix, positives, importance)
    np.testing.assert_allclose(weights_, all_weights, atol=2e-3)
    np.testing.assert_allclose(biases, all_biases, atol=2e-3)


@pytest.mark.parametrize("signed", [False, True])
def test_few_documents_of_many_are_enough(signed: bool) -> None:
    matrix = short_texts(20_000, 400, 1, signed)
    positives = topical(matrix, 10, 1)
    ((all_weights, all_biases), (weights, biases)), sizes = both(
        matrix, positives, Importance(NOTHING, NOTHING), tight=False
    )
    assert sizes.max() < (15_000 if signed else 10_000)
    scores, others = matrix @ all_weights.T + all_biases, matrix @ weights.T + biases
    assert np.abs(scores - others).max() < 0.25, "the tolerance is 0.1, for either"
    assert np.sqrt(np.mean((scores - others) ** 2)) < 0.05


def test_without_a_proof_all_documents_join() -> None:
    matrix = short_texts(3000, 50, 2)
    positives = topical(matrix, 3, 2)
    ((all_weights, _), (weights, _)), sizes = both(matrix, positives, Importance(NOTHING, NOTHING), searches=0)
    assert sizes.tolist() == [3000, 3000, 3000]
    np.testing.assert_allclose(weights, all_weights, atol=2e-3)


def test_documents_of_any_length() -> None:
    matrix = csr_array(random_array((500, 40), density=0.1, rng=0, dtype=np.float32) * 3)
    positives = topical(matrix, 4, 3)
    ((all_weights, all_biases), (weights, biases)), _ = both(matrix, positives, Importance(NOTHING, NOTHING))
    np.testing.assert_allclose(weights, all_weights, atol=5e-3)
    np.testing.assert_allclose(biases, all_biases, atol=5e-3)
