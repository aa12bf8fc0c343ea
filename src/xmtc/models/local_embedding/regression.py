"""From features to embeddings: ridge regression, and with an L1 penalty on the embeddings that come out (ADMM)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr

Floats = NDArray[np.float32]
STEPS = 50  # of conjugate gradients, at most
CLOSE = 1e-3  # of the first residual, where they stop


def ridge(features: Csr, wanted: Floats, shrinkage: float, start: Floats | None = None) -> Floats:
    """The map, features x dimensions, with the least |wanted - features @ map|^2 + shrinkage |map|^2.

    Conjugate gradients, for all dimensions side by side: nothing of the size features x features.

    >>> from scipy.sparse import csr_array
    >>> ridge(csr_array(np.eye(2, dtype=np.float32)), np.array([[2], [4]], np.float32), 1.0).round(3).tolist()
    [[1.0], [2.0]]
    """
    by_feature = features.T.tocsr()
    found = np.zeros((features.shape[1], wanted.shape[1]), np.float32) if start is None else start.copy()
    target = by_feature @ wanted
    rest = target - by_feature @ (features @ found) - np.float32(shrinkage) * found
    direction = rest.copy()
    square = _squares(rest)
    enough = CLOSE**2 * _squares(target)
    for _ in range(STEPS):
        if (square <= enough).all():
            break
        moved = by_feature @ (features @ direction) + np.float32(shrinkage) * direction
        slope = np.einsum("fd,fd->d", direction, moved, dtype=np.float64)
        size = np.divide(square, slope, out=np.zeros_like(square), where=slope > 0).astype(np.float32)
        found += size * direction
        rest -= size * moved
        after = _squares(rest)
        direction = (
            rest + np.divide(after, square, out=np.zeros_like(after), where=square > 0).astype(np.float32) * direction
        )
        square = after
    return found


def sparse_embeddings(features: Csr, wanted: Floats, shrinkage: float, l1: float, rounds: int) -> Floats:
    """The same with l1 |features @ map|_1 added to what is to be small: ADMM, SLEEC's algorithm 3.

    >>> from scipy.sparse import csr_array
    >>> sparse_embeddings(csr_array(np.eye(2, dtype=np.float32)), np.ones((2, 1), np.float32), 1e-6, 1.0, 50).round(2)
    array([[0.5],
           [0.5]], dtype=float32)
    """
    copies, duals = wanted.copy(), np.zeros_like(wanted)
    found = None
    for _ in range(rounds):
        found = ridge(features, copies - duals, 2 * shrinkage, found)
        made = features @ found
        mean = (2 * wanted + made + duals) / np.float32(3)
        copies = np.sign(mean) * np.maximum(np.abs(mean) - np.float32(l1 / 3), 0)
        duals += made - copies
    assert found is not None
    return found


def _squares(block: Floats) -> NDArray[np.float64]:
    """The squared length of each column."""
    squares: NDArray[np.float64] = np.einsum("fd,fd->d", block, block, dtype=np.float64)
    return squares
