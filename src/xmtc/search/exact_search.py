"""The nearest of many dense unit vectors, exactly: by matrix products, and the same result however queries come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

MOST_PRODUCTS = 1 << 22  # at once
MOST_QUERIES = 1024
MARGIN = 1e-4  # twice what products of unit vectors are rounded by, at most


def nearest_exactly(queries: Floats, vectors: Floats, k: int) -> tuple[NDArray[np.int32], Floats]:
    """(ids, products) of the k vectors nearest to each query, all of length 1 or 0: falling, ties to the lower id.

    >>> ids, products = nearest_exactly(np.eye(2, dtype=np.float32), np.array([[0, 1], [1, 0]], np.float32), k=1)
    >>> ids.tolist(), products.tolist()
    ([[1], [0]], [[1.0], [1.0]])
    """
    from xmtc.kernels.dense_topk import best_of_products

    k = min(k, len(vectors))
    ids, products = np.full((len(queries), k), -1, np.int32), np.zeros((len(queries), k), np.float32)
    if k:
        step = max(1, min(MOST_QUERIES, MOST_PRODUCTS // len(vectors)))
        # Fresh memory for each product would take as long again.
        room = np.empty((min(step, len(queries)), len(vectors)), np.float32)
        for start in range(0, len(queries), step):
            block = np.ascontiguousarray(queries[start : start + step])
            block_products = np.matmul(block, vectors.T, out=room[: len(block)])
            found = best_of_products(block_products, block, vectors, k, MARGIN)
            ids[start : start + step], products[start : start + step] = found
    return ids, products
