"""The best of many sparse rows for sparse queries, by dot product: nearest neighbours, and one classifier a label."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr
from xmtc.progress import progress

if TYPE_CHECKING:
    from xmtc.kernels.sparse_knn import DenseColumns

QUERY_BLOCK = 2048
DENSE = 1 / 3  # of all rows: from here on a column is quicker with its zeros
DENSE_MEMORY = 1 / 8  # that such columns may take, of what the index itself takes


class SparseIndex:
    """An inverted index: for each column the rows that have it.

    >>> rows = csr_array(np.array([[1, 0, 1], [0, 1, 0], [0, 1, 1]], np.float32))
    >>> ids, scores = SparseIndex.of(rows).nearest(rows[[0]], k=2)
    >>> ids.tolist(), scores.tolist()
    ([[0, 2]], [[2.0, 1.0]])
    """

    def __init__(self, columns: Csr) -> None:
        self.columns = columns  # columns x rows: the transposed matrix

    @classmethod
    def of(cls, matrix: Csr) -> SparseIndex:
        """Index the rows of a matrix."""
        return cls(matrix.T.tocsr().astype(np.float32))

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    @cached_property
    def _dense(self) -> DenseColumns:
        """The columns of so many rows that adding up all is quicker; their copies take little memory."""
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.sparse_knn import DenseColumns, dense_columns

        most = int(DENSE_MEMORY * 8 * self.columns.nnz) // (4 * max(1, len(self)))
        least = max(1, int(DENSE * len(self)))
        return DenseColumns(*dense_columns(CsrArrays.of(self.columns), len(self), least, most))

    def nearest(
        self, queries: Csr, k: int, start: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(ids, scores), each (queries, k): falling scores, ties to the lower row; -1 where fewer rows have a score.

        A row's score is the dot product, which must be above 0; or, with `start`, start[row] plus the dot product.
        """
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.sparse_knn import nearest_rows

        if queries.shape[1] != self.columns.shape[0]:
            # The kernel would read beyond the end of the index.
            raise ValueError(f"queries with {queries.shape[1]} columns for an index of {self.columns.shape[0]}")
        k = min(k, len(self))
        floor = 0.0 if start is None else -np.inf
        sums = np.zeros(len(self), np.float32) if start is None else start

        def search(block: Csr) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
            rows = CsrArrays(block.indptr, block.indices, block.data.astype(np.float32, copy=False))
            found: tuple[NDArray[np.int32], NDArray[np.float32]] = nearest_rows(
                rows, CsrArrays.of(self.columns), self._dense, sums, floor, k
            )
            return found

        if queries.shape[0] <= QUERY_BLOCK:  # the way of single texts, where microseconds count
            return search(queries)
        parts = []
        with progress("searching", queries.shape[0]) as bar:
            for first in range(0, queries.shape[0], QUERY_BLOCK):
                parts.append(search(take_rows(queries, slice(first, first + QUERY_BLOCK))))
                bar.advance(len(parts[-1][0]))
        return np.concatenate([ids for ids, _ in parts]), np.concatenate([scores for _, scores in parts])

    def widened(self, width: int) -> SparseIndex:
        """This index with further columns, which no row has yet; itself if it has that width."""
        if width == self.columns.shape[0]:
            return self
        indptr = np.pad(self.columns.indptr, (0, width - self.columns.shape[0]), "edge")
        return SparseIndex(make_csr(self.columns.data, self.columns.indices, indptr, (width, len(self))))

    def extended(self, matrix: Csr) -> SparseIndex:
        """This index with further rows at the end, which may have further columns."""
        wider = self.widened(matrix.shape[1])
        return SparseIndex(hstack([wider.columns, matrix.T], format="csr").astype(np.float32))

    def shared(self, query: Csr, rows: NDArray[np.int32]) -> Csr:
        """What each of the query's columns adds to its product with each of `rows`: (query's columns, rows)."""
        picked = self.columns[query.indices][:, rows]
        products: Csr = csr_array(picked.multiply(query.data[:, None]))
        return products
