"""Neighbours among dense vectors: exact against a sort of all products, approximate against exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xmtc.search import dense_index as dense
from xmtc.search.dense_index import DenseIndex, Kind
from xmtc.text.mean_embeddings import unit

KINDS: list[Kind] = ["flat", "ivf"]


def clustered(count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    rng = np.random.default_rng(seed)
    return unit((rng.normal(size=(20, 12))[rng.integers(0, 20, count)] + rng.normal(0, 0.3, (count, 12))).astype("f4"))


def naive(vectors: Any, query: Any, k: int) -> list[int]:
    products = (vectors.astype(float) @ query.astype(float)).astype(np.float32)
    ranked = sorted((-product, at) for at, product in enumerate(products.tolist()) if product > 0)[:k]
    return [at for _, at in ranked] + [-1] * (min(k, len(vectors)) - len(ranked))


# Few different directions: many equal vectors, so ties, and products that are below zero.
@settings(deadline=None, max_examples=50)
@given(hnp.arrays(np.float32, (9, 2), elements=st.integers(-1, 1).map(np.float32)), st.integers(1, 12))
def test_exact(rows: np.ndarray[Any, Any], k: int) -> None:
    vectors = unit(rows)
    ids, similarities = DenseIndex.of(vectors).nearest(vectors, k)
    assert ids.tolist() == [naive(vectors, query, k) for query in vectors]
    for row, query in enumerate(vectors):
        near = ids[row] >= 0
        np.testing.assert_allclose(similarities[row][near], vectors[ids[row][near]] @ query, rtol=1e-6)
        assert not similarities[row][~near].any()


@pytest.mark.parametrize("kind", KINDS)
def test_approximate_finds_nearly_all(kind: Kind) -> None:
    vectors, queries = np.split(clustered(3100), [3000])
    index = DenseIndex.of(vectors, kind)
    assert index.kind == kind
    ids, _ = index.nearest(queries, 10)
    hits = [len({*naive(vectors, query, 10)} & {*row}) for query, row in zip(queries, ids.tolist(), strict=True)]
    assert np.mean(hits) >= (10 if kind == "flat" else 9.5)
    if index.centres is not None:
        assert index.probes < len(index.centres) / 2, "it looks into some cells only"


@pytest.mark.parametrize("kind", KINDS)
def test_one_by_one_or_in_blocks_or_all_at_once(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(700)
    index = DenseIndex.of(vectors, kind)
    ids, similarities = index.nearest(vectors[:50], 7)
    monkeypatch.setattr(dense, "QUERY_BLOCK", 8)
    monkeypatch.setattr(dense, "CELL_BLOCK", 8)
    monkeypatch.setattr(dense, "MOST_PRODUCTS", 64)
    for found, near in (index.nearest(vectors[:50], 7), _one_by_one(index, vectors[:50], 7)):
        np.testing.assert_array_equal(found, ids)
        np.testing.assert_array_equal(near, similarities)


def _one_by_one(index: DenseIndex, queries: Any, k: int) -> tuple[Any, Any]:
    each = [index.nearest(query[None], k) for query in queries]
    return np.concatenate([ids for ids, _ in each]), np.concatenate([near for _, near in each])


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_index_and_back_from_arrays(kind: Kind) -> None:
    vectors = clustered(700)
    one, other = (DenseIndex.of(vectors, kind, seed=3) for _ in range(2))
    again = DenseIndex.from_arrays({key: array.copy() for key, array in one.to_arrays().items()}, vectors.shape)
    again.check()
    for index in (other, again):
        assert index.kind == kind
        for a, b in zip(index.nearest(vectors, 5), one.nearest(vectors, 5), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_further_vectors(kind: Kind) -> None:
    vectors = clustered(900)
    index = DenseIndex.of(vectors[:600], kind).extended(vectors[600:])
    ids, similarities = index.nearest(vectors[600:], 1)
    assert np.mean(ids[:, 0] == np.arange(600, 900)) > 0.95
    assert similarities[:, 0].max() == pytest.approx(1)


def test_the_number_of_vectors_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "MOST_FLAT", 100)
    assert [DenseIndex.of(clustered(count)).kind for count in (100, 200)] == KINDS


def test_few_vectors_and_no_query() -> None:
    nothing = np.zeros((0, 3), np.float32)
    assert DenseIndex.of(nothing).nearest(np.ones((2, 3), np.float32), 4)[0].shape == (2, 0)
    assert DenseIndex.of(clustered(3), "ivf").kind == "flat"
    assert DenseIndex.of(clustered(5)).nearest(clustered(0), 4)[0].shape == (0, 4)
    with pytest.raises(ValueError, match="queries of 3 numbers"):
        DenseIndex.of(clustered(5)).nearest(np.ones((2, 3), np.float32), 4)


def test_vectors_in_a_file_are_used_in_place(tmp_path: Any) -> None:
    vectors = clustered(300)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = DenseIndex.of(mapped)
    assert index.vectors is mapped
    np.testing.assert_array_equal(index.nearest(mapped, 5)[0], DenseIndex.of(vectors).nearest(vectors, 5)[0])


def test_stored_arrays_are_checked() -> None:
    arrays: dict[str, Any] = DenseIndex.of(clustered(300), "ivf").to_arrays()
    shape, cells = arrays["vectors"].shape, arrays["cells"]
    for wrong in (
        {"vectors": arrays["vectors"][1:]},
        {"vectors": arrays["vectors"].astype(float)},
        {"cells": cells[1:]},
        {"cells": cells.astype(float)},
        {"centres": arrays["centres"][:, 1:]},
        {"probes": np.array([0])},
        {"probes": np.array([10**6])},
    ):
        with pytest.raises(ValueError, match="of"):
            DenseIndex.from_arrays({**arrays, **wrong}, shape)
    for wrong in (
        {"cells": cells + 1000},
        {"cells": cells - 1000},
        {"vectors": arrays["vectors"] * np.nan},
        {"centres": arrays["centres"] * np.inf},
    ):
        with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=r"outside|finite"):
            DenseIndex.from_arrays({**arrays, **wrong}, shape).check()
