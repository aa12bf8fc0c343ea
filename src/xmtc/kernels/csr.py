"""CSR matrices as kernels take them."""

# ruff: noqa: D103 - kernels; what each does stands in its first comment
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import jitted


class CsrArrays(NamedTuple):
    """The arrays of a CSR (or CSC) matrix."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: NDArray[np.float32]

    @classmethod
    def of(cls, matrix: Any) -> CsrArrays:
        """The arrays of scipy's matrix."""
        return cls(matrix.indptr, matrix.indices, matrix.data)


@jitted()
def copy_to(target: Any, source: Any) -> None:
    # As target[:] = source, whose error messages take numba a second to compile.
    for at in range(len(source)):
        target[at] = source[at]


@jitted()
def local_rows(matrix: CsrArrays, rows: Any, width: int) -> tuple[CsrArrays, Any]:
    # (some rows of a matrix with `width` columns as a matrix of their own with features renumbered, original features).
    indptr, indices, data = matrix
    count = 0
    for row in rows:
        count += indptr[row + 1] - indptr[row]
    new_indptr = np.zeros(len(rows) + 1, np.int64)
    new_indices = np.empty(count, np.int32)
    new_data = np.empty(count, np.float32)
    if 4 * count > width:  # many: a table of all features, and they keep their order
        numbers = np.zeros(width, np.int32)
        for row in rows:
            for entry in range(indptr[row], indptr[row + 1]):
                numbers[indices[entry]] = 1
        features = np.empty(numbers.sum(), np.int32)
        last = 0
        for column in range(width):
            if numbers[column]:
                features[last] = column
                numbers[column] = last
                last += 1
        place = 0
        for at in range(len(rows)):
            for entry in range(indptr[rows[at]], indptr[rows[at] + 1]):
                new_indices[place] = numbers[indices[entry]]
                new_data[place] = data[entry]
                place += 1
            new_indptr[at + 1] = place
        return CsrArrays(new_indptr, new_indices, new_data), features
    room = 16  # few: a hash table
    while room < 2 * count:
        room *= 2
    mask = room - 1
    slots = np.full(room, -1, np.int32)
    found = np.empty(count, np.int32)
    known = 0
    place = 0
    for at in range(len(rows)):
        row = rows[at]
        for entry in range(indptr[row], indptr[row + 1]):
            feature = np.int64(indices[entry])
            slot = (feature * 2654435761) & mask
            while slots[slot] >= 0 and found[slots[slot]] != feature:
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot] = known
                found[known] = feature
                known += 1
            new_indices[place] = slots[slot]
            new_data[place] = data[entry]
            place += 1
        new_indptr[at + 1] = place
    return CsrArrays(new_indptr, new_indices, new_data), found[:known].copy()
