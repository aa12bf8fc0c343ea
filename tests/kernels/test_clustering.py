"""Splits of sparse unit vectors: sizes, obvious clusters, and vectors that cannot be told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.corpus.sparse import Csr, unit_rows
from xmtc.kernels.clustering import balanced_split, kmeans_split
from xmtc.kernels.csr import CsrArrays

GAIN, ROUNDS = 1e-4, 50


def vectors(count: int, features: int = 12, seed: int = 0) -> Csr:
    rng = np.random.default_rng(seed)
    return unit_rows(
        csr_array((rng.random((count, features)) * (rng.random((count, features)) < 0.4)).astype(np.float32))
    )


def two_camps(size: int) -> Csr:
    """Even rows use the first half of the features, odd rows the second."""
    rng = np.random.default_rng(0)
    dense = rng.random((2 * size, 20)).astype(np.float32) + 0.1
    dense[::2, 10:] = 0
    dense[1::2, :10] = 0
    return unit_rows(csr_array(dense))


def halves(matrix: Csr, members: Any, seed: int = 0) -> tuple[list[int], list[int]]:
    found = balanced_split(CsrArrays.of(matrix), matrix.shape[1], members, GAIN, ROUNDS, seed).tolist()
    return found[: len(found) // 2], found[len(found) // 2 :]


def clusters(matrix: Csr, members: Any, count: int, seed: int = 0) -> list[int]:
    found = kmeans_split(CsrArrays.of(matrix), matrix.shape[1], members, count, GAIN, ROUNDS, seed)
    return [int(cluster) for cluster in found]


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 40), st.integers(0, 1000))
def test_balanced_split_is_a_balanced_split(count: int, seed: int) -> None:
    matrix = vectors(60, seed=seed)
    members = np.random.default_rng(seed).permutation(60)[:count]
    small, large = halves(matrix, members, seed)
    assert len(large) - len(small) in (0, 1)
    assert sorted(small + large) == sorted(members.tolist())
    assert halves(matrix, members, seed) == (small, large), "same seed, same result"


@pytest.mark.parametrize("seed", range(5))
def test_two_camps_are_found(seed: int) -> None:
    matrix = two_camps(15)
    for half in halves(matrix, np.arange(30), seed):
        assert len({row % 2 for row in half}) == 1


def test_two_camps_are_found_by_kmeans() -> None:
    """From one start in each camp it cannot miss them; from two in the same camp it may."""
    matrix = two_camps(15)
    found = [clusters(matrix, np.arange(30), 2, seed) for seed in range(10)]
    apart = [all(row[at] == row[at % 2] for at in range(30)) and row[0] != row[1] for row in found]
    assert sum(apart) >= 3


@pytest.mark.parametrize("value", [0.0, 1.0], ids=["no words", "one word"])
def test_vectors_that_are_all_alike(value: float) -> None:
    matrix = csr_array(np.full((9, 1), value, np.float32))
    small, large = halves(matrix, np.arange(9))
    assert (len(small), len(large)) == (4, 5)
    assert set(clusters(matrix, np.arange(9), 3)) == {0}, "ties go to the first"


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 40), st.integers(2, 10), st.integers(0, 1000))
def test_kmeans_leaves_no_cluster_of_one(count: int, wanted: int, seed: int) -> None:
    matrix = vectors(60, seed=seed)
    found = clusters(matrix, np.arange(count), min(wanted, count), seed)
    assert len(found) == count
    assert 0 <= min(found) <= max(found) < wanted
    sizes = np.bincount(found)
    if (sizes > 1).any():
        assert (sizes != 1).all()
    assert clusters(matrix, np.arange(count), min(wanted, count), seed) == found


def test_kmeans_with_a_cluster_for_each() -> None:
    """Nothing is joined where every cluster is of one: there would be nothing to join it to."""
    matrix = csr_array(np.eye(4, dtype=np.float32))
    assert sorted(clusters(matrix, np.arange(4), 4)) == [0, 1, 2, 3]


def test_kmeans_joins_a_single_one_to_the_nearest() -> None:
    dense = np.array([[1, 0, 0], [1, 0.1, 0], [0, 0, 1], [0, 0.1, 1], [0.6, 1, 0.1]], np.float32)
    matrix = unit_rows(csr_array(dense))
    for seed in range(20):
        found = clusters(matrix, np.arange(5), 3, seed)
        assert 1 not in np.bincount(found)
