"""Labels' rows in fewer bytes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xmtc.nn.packing import PackedRows, packed

ROWS = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32) * np.float32(10) ** np.arange(-4, 5)[:, None]


@pytest.mark.parametrize(("kind", "error"), [("float16", 2**-11), ("int8", 0.5 / 127)])
def test_rows_come_back_nearly_as_they_were(kind: str, error: float) -> None:
    rows = np.where(np.abs(ROWS) > 6e4, 0, ROWS) if kind == "float16" else ROWS
    parts = packed(rows, kind)
    assert parts["values"].dtype == kind
    ids = torch.tensor([[8, 0], [4, 4]])
    found = PackedRows(*map(torch.from_numpy, parts.values()))(ids).numpy()
    largest = np.abs(rows).max(1, keepdims=True)[ids.numpy()]
    assert (np.abs(found - rows[ids.numpy()]) <= 1.01 * error * largest).all()
    assert found.dtype == np.float32


def test_a_row_of_zeros_stays_one() -> None:
    parts = packed(np.zeros((1, 3), np.float32), "int8")
    assert PackedRows(*map(torch.from_numpy, parts.values()))(torch.tensor([0])).tolist() == [[0, 0, 0]]


def test_numbers_too_large_for_two_bytes_stay_finite() -> None:
    assert np.isfinite(packed(np.array([[1e30, -1e30]], np.float32), "float16")["values"]).all()


@pytest.mark.parametrize(
    ("values", "scales"),
    [
        (torch.zeros(2, 3), torch.ones(2, 1)),
        (torch.zeros(2, dtype=torch.int8), torch.ones(2, 1)),
        (torch.zeros(2, 3, dtype=torch.int8), torch.ones(1, 1)),
        (torch.zeros(2, 3, dtype=torch.int8), torch.ones(2)),
    ],
)
def test_rows_that_are_none(values: torch.Tensor, scales: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="rows"):
        PackedRows(values, scales)
