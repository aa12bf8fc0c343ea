"""Embeddings that keep the similarities of neighbours: singular value projection (Jain, Meka, Dhillon, NIPS 2010)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr

Floats = NDArray[np.float32]
SPARE = 10  # dimensions of the subspace beyond those that are kept: its last ones are the least exact
TURNS = 2  # products with the matrix by which the subspace follows it from one iteration to the next
SMALL_GAIN = 1e-3  # of the error; an iteration that gains less is the last


def preserve_similarities(pairs: Csr, dimensions: int, iterations: int, rng: np.random.Generator) -> Floats:
    """Vectors, a row a document, whose products are those in `pairs` (symmetric) as nearly as possible.

    Each iteration takes a step along the gradient, which is zero but for the pairs, and then the nearest matrix of
    this rank without negative eigenvalues. Its eigenvectors are followed by subspace iteration, so no documents x
    documents matrix is ever there: the products so far are vectors @ vectors.T, and the step is as sparse as `pairs`.

    >>> some = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    >>> from scipy.sparse import csr_array
    >>> vectors = preserve_similarities(csr_array(some @ some.T), 2, 20, np.random.default_rng(0))
    >>> np.abs(vectors @ vectors.T).round(2).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    from xmtc.kernels.local_embedding import pair_products

    count = pairs.shape[0]
    kept = min(dimensions, count)
    vectors = np.zeros((count, dimensions), np.float32)
    basis = orthonormal(rng.standard_normal((count, min(count, kept + SPARE)), np.float32))
    before = np.inf
    for _ in range(iterations):
        errors = pairs.data - pair_products(pairs.indptr, pairs.indices, vectors)
        error = float(np.square(errors, dtype=np.float64).sum())
        if before - error < SMALL_GAIN * before:
            break
        before = error
        step = make_csr(errors, pairs.indices, pairs.indptr, pairs.shape)
        for _ in range(TURNS):
            basis = orthonormal(step @ basis + vectors @ (vectors.T @ basis))
        small = basis.T @ (step @ basis + vectors @ (vectors.T @ basis))
        values, axes = np.linalg.eigh((small + small.T).astype(np.float64) / 2)
        largest = np.maximum(values[::-1][:kept], 0)
        vectors[:, : len(largest)] = basis @ (axes[:, ::-1][:, :kept] * np.sqrt(largest)).astype(np.float32)
    return vectors


def orthonormal(block: Floats) -> Floats:
    """A basis of the space that the columns of a tall block span.

    >>> np.abs(orthonormal(np.array([[3], [4]], np.float32))).round(1)
    array([[0.6],
           [0.8]], dtype=float32)
    """
    basis: Floats = np.linalg.qr(block)[0]
    return basis
