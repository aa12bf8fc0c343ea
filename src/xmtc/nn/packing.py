"""Labels' rows in two bytes or one a number: for tables of millions of labels, on disk and in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

LARGEST = 127


def packed(rows: NDArray[np.float32], kind: str) -> dict[str, NDArray[Any]]:
    """Rows as "float16" or as "int8", which has a scale for each row.

    >>> parts = packed(np.array([[1.0, -0.5]], np.float32), "int8")
    >>> parts["values"].tolist(), (parts["values"] * parts["scales"]).round(2).tolist()
    ([[127, -64]], [[1.0, -0.5]])
    """
    if kind == "float16":
        largest = np.finfo(np.float16).max
        return {"values": rows.clip(-largest, largest).astype(np.float16), "scales": np.ones((0, 1), np.float32)}
    scales = np.maximum(np.abs(rows).max(1, keepdims=True, initial=0), 1e-30).astype(np.float32) / LARGEST
    return {"values": np.rint(rows / scales).astype(np.int8), "scales": scales}


class PackedRows(nn.Module):
    """Rows as `packed` made them, in place of an embedding whose rows are not to be changed any more."""

    values: Tensor
    scales: Tensor

    def __init__(self, values: Tensor, scales: Tensor) -> None:
        super().__init__()
        if values.ndim != 2 or values.dtype not in (torch.float16, torch.int8):
            raise ValueError(f"labels' rows of the type {values.dtype} and the shape {tuple(values.shape)}")
        if values.dtype == torch.int8 and scales.shape != (len(values), 1):
            raise ValueError("the labels' rows and their scales do not fit")
        self.register_buffer("values", values)
        self.register_buffer("scales", scales)
        self.num_embeddings, self.embedding_dim = values.shape

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of some labels, as float32."""
        rows = self.values[ids].float()
        return rows if self.values.dtype == torch.float16 else rows * self.scales[ids]
