"""CSR matrices with the narrowest index type: scipy would widen all indices to 64 bits for one wide array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

if TYPE_CHECKING:
    Csr = csr_array[Any, tuple[int, int]]
else:
    Csr = csr_array  # which takes no parameters before scipy 1.16
INT32_MAX = np.iinfo(np.int32).max


def make_csr(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]) -> Csr:
    """A CSR matrix with 32-bit indices wherever possible; arrays of the right type are not copied.

    >>> make_csr(np.ones(2), np.array([0, 1]), np.array([0, 1, 2]), (2, 3)).indices.dtype
    dtype('int32')
    """
    kind = np.int32 if max(len(data), *shape) <= INT32_MAX else np.int64
    matrix: Csr = csr_array(
        (data, indices.astype(kind, copy=False), indptr.astype(kind, copy=False)), shape=shape, copy=False
    )
    return matrix


def unit_rows(matrix: Csr) -> Csr:
    """The rows scaled to Euclidean length 1; empty rows stay empty.

    >>> unit_rows(make_csr(np.array([3.0, 4.0]), np.array([0, 1]), np.array([0, 2, 2]), (2, 2))).toarray().round(1)
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    sizes = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    lengths = np.sqrt(np.bincount(rows, matrix.data.astype(np.float64) ** 2, minlength=len(sizes)))
    scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return make_csr((matrix.data * scale[rows]).astype(np.float32), matrix.indices, matrix.indptr, matrix.shape)


def checked_csr(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]) -> Csr:
    """As `make_csr`, for arrays from a file: a ValueError unless every index lies within the matrix.

    Not scipy's `check_format`, which takes a matrix for empty if its last row ends at 0, whatever the other rows say.

    >>> checked_csr(np.ones(1), np.array([3]), np.array([0, 1]), (1, 3))
    Traceback (most recent call last):
    ValueError: a column is outside of 0 to 2
    """
    check_arrays(data, indices, indptr, shape)
    check_indices(data, indices, indptr, shape)
    return make_csr(data, indices, indptr, shape)


def check_arrays(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]) -> None:
    """A ValueError unless the arrays have the sizes and types of such a matrix; takes no time."""
    rows, columns = shape
    if data.ndim != 1 or indices.shape != data.shape or indptr.shape != (rows + 1,) or columns < 0:
        raise ValueError(f"arrays of {data.shape}, {indices.shape} and {indptr.shape} make no matrix of {shape}")
    if {indices.dtype, indptr.dtype} - {np.dtype(np.int32), np.dtype(np.int64)}:
        raise ValueError("indices are not of an integer type")
    if indptr[0] != 0 or indptr[-1] != len(data):
        raise ValueError(f"the ends of rows do not rise from 0 to {len(data)}")


def check_indices(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]) -> None:
    """A ValueError unless all rows and columns lie within the matrix; reads all of it."""
    if np.any(indptr[1:] < indptr[:-1]):
        raise ValueError(f"the ends of rows do not rise from 0 to {len(data)}")
    if len(indices) and not 0 <= indices.min() <= indices.max() < shape[1]:
        raise ValueError(f"a column is outside of 0 to {shape[1] - 1}")


def with_columns(matrix: Csr, width: int) -> Csr:
    """The matrix with its first `width` columns, or padded with empty ones; itself if it has that width.

    >>> with_columns(csr_array(np.eye(2, 3, dtype=np.float32)), 1).toarray().tolist()
    [[1.0], [0.0]]
    """
    if matrix.shape[1] == width:
        return matrix
    if matrix.shape[1] > width:
        cut: Csr = matrix[:, :width]
        return cut
    return make_csr(matrix.data, matrix.indices, matrix.indptr, (matrix.shape[0], width))


def smallest_of(weights: NDArray[np.float32], share: float) -> float:
    """The magnitude that the largest weights, this share of them, have at least.

    >>> smallest_of(np.array([0.5, -3, 1, 2], np.float32), 0.5)
    2.0
    """
    dropped = len(weights) - max(1, round(share * len(weights)))
    if dropped <= 0:
        return 0.0
    return float(np.partition(np.abs(weights), dropped)[dropped])


def pruned(matrix: Csr, share: float) -> Csr:
    """The matrix with its largest entries only, this share of them.

    >>> pruned(csr_array(np.array([[0.5, -3], [1, 2]], np.float32)), 0.5).toarray().tolist()
    [[0.0, -3.0], [0.0, 2.0]]
    """
    kept = np.abs(matrix.data) >= smallest_of(matrix.data, share)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
    return make_csr(matrix.data[kept], matrix.indices[kept], before[matrix.indptr], matrix.shape)


def dense_csr(dense: NDArray[np.float32]) -> Csr:
    """A dense matrix in CSR form, zeros included.

    >>> dense_csr(np.zeros((3, 2), np.float32)).nnz
    6
    """
    rows, width = dense.shape
    return make_csr(dense.ravel(), np.tile(np.arange(width), rows), np.arange(rows + 1) * width, dense.shape)


def with_dense(matrix: Csr, dense: NDArray[np.float32]) -> Csr:
    """The matrix with the columns of a dense one after its own, zeros included.

    >>> with_dense(csr_array(np.eye(2, dtype=np.float32)), np.array([[5], [6]], np.float32)).toarray().tolist()
    [[1.0, 0.0, 5.0], [0.0, 1.0, 6.0]]
    """
    both: Csr = hstack([matrix, dense_csr(dense)], format="csr")
    return both
