"""The nearest of many dense unit vectors by cosine: exact, or through cells where there are very many (with faiss)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from xmtc.extras import require
from xmtc.progress import progress
from xmtc.search.exact_search import nearest_exactly
from xmtc.text.token_store import offsets_of

Kind = Literal["flat", "ivf"]
Floats = NDArray[np.float32]

MOST_FLAT = 100_000  # vectors that every query is compared with
QUERY_BLOCK = 4096  # queries that are compared with all vectors at once
CELL_BLOCK = 1 << 16  # queries that search cells together: the more, the more share the reading of a cell
MOST_PRODUCTS = 1 << 20  # at once; more would not stay in the processor's cache
MOST_NUMBERS = 1 << 24  # of the vectors that queries are compared with once more, at once
SPARE = 8  # neighbours found beyond k: which of two equal ones comes first is decided afterwards
RECALL, RECALL_K, RECALL_SAMPLE = 0.97, 10, 512  # share of the k nearest to find, measured on a sample of the vectors


class DenseIndex:
    """Unit vectors, and cells that they lie in unless the search is exact.

    "flat" compares a query with every vector. "ivf" puts the vectors into about 4 x sqrt(their number) cells (k-means)
    and searches those nearest to the query, as many as find 97 % of the ten nearest, which is measured when the index
    is made. Without a `kind` the number of vectors decides. Vectors in a memory-mapped file stay there.

    >>> vectors = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    >>> ids, similarities = DenseIndex.of(vectors).nearest(vectors[:1], k=3)
    >>> ids.tolist(), similarities.round(1).tolist()
    ([[0, 2, -1]], [[1.0, 0.6000000238418579, 0.0]])
    """

    def __init__(
        self, vectors: Floats, centres: Floats | None = None, cells: NDArray[np.int32] | None = None, probes: int = 0
    ) -> None:
        self.vectors, self.centres, self.cells, self.probes = vectors, centres, cells, probes

    @classmethod
    def of(cls, vectors: Floats, kind: Kind | None = None, seed: int = 0) -> DenseIndex:
        """Index unit vectors (or zeros, which are near to nothing)."""
        if kind is None:
            kind = "flat" if len(vectors) <= MOST_FLAT else "ivf"
        if kind == "flat" or len(vectors) < 4:
            return cls(vectors)
        count = min(4 * math.isqrt(len(vectors)), len(vectors))
        index = cls(vectors, _centres(vectors, count, seed), probes=1)
        index.cells = index._cells_of(vectors)
        index._choose_probes(seed)
        return index

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def kind(self) -> Kind:
        """How it searches."""
        return "flat" if self.centres is None else "ivf"

    def nearest(self, queries: Floats, k: int) -> tuple[NDArray[np.int32], Floats]:
        """(ids, similarities), each (queries, k): falling, ties to the lower id; -1 where fewer are above 0."""
        if queries.shape[1] != self.vectors.shape[1]:
            raise ValueError(f"queries of {queries.shape[1]} numbers for vectors of {self.vectors.shape[1]}")
        k = min(k, len(self))
        ids = np.full((len(queries), k), -1, np.int32)
        similarities = np.zeros((len(queries), k), np.float32)
        with progress("searching", len(queries)) as bar:
            size = QUERY_BLOCK if self.centres is None else CELL_BLOCK
            for start in range(0, len(queries), size):
                block = slice(start, start + size)
                ids[block], similarities[block] = self._best(np.ascontiguousarray(queries[block]), k)
                bar.advance(len(ids[block]))
        return ids, similarities

    def _best(self, queries: Floats, k: int) -> tuple[NDArray[Any], Floats]:
        wanted = min(k + SPARE, len(self))
        found: NDArray[Any]
        if self.centres is None:
            found, _ = nearest_exactly(queries, self.vectors, wanted)
        else:
            found = self._best_of_cells(queries, wanted)
        # The library adds up in an order that depends on how many queries there are. Once more, the same for all:
        products = np.empty(found.shape, np.float32)
        step = max(1, MOST_NUMBERS // max(1, found.shape[1] * self.vectors.shape[1]))
        for start in range(0, len(queries), step):
            block = slice(start, start + step)
            exact = np.einsum("qd,qkd->qk", queries[block], self.vectors[found[block]], dtype=np.float64)
            products[block] = np.clip(exact, -1, 1)
        near = (found >= 0) & (products > 0)
        products = np.where(near, products, 0)
        order = np.lexsort((found, -products, ~near), axis=-1)[:, :k]
        found = np.take_along_axis(np.where(near, found, -1), order, 1)
        return found, np.take_along_axis(products, order, 1)

    def _best_of_cells(self, queries: Floats, k: int) -> NDArray[np.int32]:
        """The k nearest in the cells nearest to each query, in any order; -1 where there are fewer.

        Cell by cell, for all queries that search it: one matrix product, many times faster than comparing each query
        with each vector.
        """
        from xmtc.kernels.dense_topk import offer_labels

        assert self.centres is not None
        cells = self._quantizer.search(queries, self.probes)[1]
        rows, places = np.nonzero(cells >= 0)  # a query that is not finite has none
        ones = np.ones(len(rows), np.int8)
        probed = csc_array((ones, (rows, cells[rows, places])), (len(queries), len(self.centres)))
        members, ends, vectors = self._lists
        similarities = np.full((len(queries), k), -np.inf, np.float32)  # of each query a heap
        ids = np.full((len(queries), k), -1, np.int32)
        for cell in np.flatnonzero(np.diff(ends) * np.diff(probed.indptr)).tolist():
            inside, here = slice(ends[cell], ends[cell + 1]), probed.indices[slice(*probed.indptr[cell : cell + 2])]
            step = max(1, MOST_PRODUCTS // (inside.stop - inside.start))
            for start in range(0, len(here), step):
                some = here[start : start + step]
                offer_labels(vectors[inside] @ queries[some].T, members[inside], some, None, similarities, ids)
        return ids

    @cached_property
    def _quantizer(self) -> Any:
        """A faiss index of the centres: finds the cells of a query."""
        faiss = _faiss()
        assert self.centres is not None
        index = faiss.IndexFlatIP(self.centres.shape[1])
        index.add(np.ascontiguousarray(self.centres))
        return index

    @cached_property
    def _lists(self) -> tuple[NDArray[np.int32], NDArray[np.int64], Floats]:
        """(ids, cell by cell; where the cells end; the vectors in this order)."""
        assert self.centres is not None and self.cells is not None
        members = np.argsort(self.cells, kind="stable").astype(np.int32)
        ends = offsets_of(np.bincount(self.cells, minlength=len(self.centres)))
        return members, ends, self.vectors[members]

    def _cells_of(self, vectors: Floats) -> NDArray[np.int32]:
        cells = np.empty(len(vectors), np.int32)
        with progress("putting vectors into cells", len(vectors)) as bar:
            for start in range(0, len(vectors), QUERY_BLOCK):
                block = np.ascontiguousarray(vectors[start : start + QUERY_BLOCK])
                cells[start : start + len(block)] = self._quantizer.search(block, 1)[1][:, 0]
                bar.advance(len(block))
        return cells

    def _choose_probes(self, seed: int) -> None:
        """Raise the number of cells that are searched until it reaches the recall on a sample of the vectors."""
        assert self.centres is not None
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.permutation(len(self))[:RECALL_SAMPLE])
        exact = _others(DenseIndex(self.vectors).nearest(self.vectors[rows], RECALL_K + 1)[0], rows)
        while True:
            found = _others(self.nearest(self.vectors[rows], RECALL_K + 1)[0], rows)
            hits = sum(len(wanted & seen) for wanted, seen in zip(exact, found, strict=True))
            if hits >= RECALL * sum(map(len, exact)) or self.probes >= len(self.centres):
                return
            self.probes = min(len(self.centres), max(self.probes + 1, self.probes * 9 // 8))

    def extended(self, vectors: Floats) -> DenseIndex:
        """This index with further vectors at the end; the cells stay."""
        both = np.concatenate([self.vectors, vectors])
        if self.centres is None or self.cells is None:
            return DenseIndex(both)
        cells = np.concatenate([self.cells, self._cells_of(vectors)])
        return DenseIndex(both, self.centres, cells, self.probes)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for storage; the library's own structures are made from them again."""
        if self.centres is None or self.cells is None:
            return {"vectors": self.vectors}
        probes = np.array([self.probes], np.int64)
        return {"vectors": self.vectors, "centres": self.centres, "cells": self.cells, "probes": probes}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, int]) -> DenseIndex:
        """The inverse of `to_arrays`, of vectors of this shape; a KeyError or ValueError if the arrays do not fit."""
        vectors = arrays["vectors"]
        if vectors.dtype != np.float32 or vectors.shape != shape:
            raise ValueError(f"vectors of {vectors.dtype} {vectors.shape}, not {shape}")
        if len(arrays) == 1:
            return cls(vectors)
        centres, cells = arrays["centres"], arrays["cells"]
        probes, *_ = map(int, arrays["probes"])  # a second number was written until there was one kind of cells
        if centres.dtype != np.float32 or centres.ndim != 2 or centres.shape[1] != shape[1] or not len(centres):
            raise ValueError(f"centres of {centres.dtype} {centres.shape}")
        if cells.dtype != np.int32 or cells.shape != shape[:1] or not 1 <= probes <= len(centres):
            raise ValueError(f"cells of {cells.dtype} {cells.shape}, of which {probes} are searched")
        return cls(vectors, centres, cells, probes)

    def check(self) -> None:
        """A ValueError unless all numbers are finite and all cells exist; reads all of them."""
        if not np.isfinite(self.vectors).all():
            raise ValueError("a vector has numbers that are not finite")
        if self.centres is not None and self.cells is not None:
            if not np.isfinite(self.centres).all():
                raise ValueError("a centre has numbers that are not finite")
            if len(self.cells) and not 0 <= self.cells.min() <= self.cells.max() < len(self.centres):
                raise ValueError(f"a cell is outside of 0 to {len(self.centres) - 1}")


def _faiss() -> Any:
    require("the search among dense vectors", "neural", "faiss")
    import faiss

    return faiss


def _centres(vectors: Floats, count: int, seed: int) -> Floats:
    """The centres of cells, unit vectors, by k-means on a sample."""
    faiss = _faiss()
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(vectors))[: 50 * count])
    options = {"niter": 10, "spherical": True, "min_points_per_centroid": 1, "max_points_per_centroid": 50}
    means = faiss.Kmeans(vectors.shape[1], count, seed=seed % 2**31, **options)
    means.train(np.ascontiguousarray(vectors[rows]))
    return np.asarray(means.centroids, np.float32)


def _others(found: NDArray[np.int32], rows: NDArray[np.int64]) -> list[set[int]]:
    """Of each list the ids that are neither the query itself nor none, at most RECALL_K."""
    lists = zip(found.tolist(), rows.tolist(), strict=True)
    return [set([at for at in ids if at >= 0 and at != own][:RECALL_K]) for ids, own in lists]
