"""Dropout that takes its random numbers from a generator of its own, also inside of networks that others wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def dropout_rng(seed: int) -> np.random.Generator:
    """A fast random generator for dropout and the like.

    >>> int(dropout_rng(1).integers(10)) == int(dropout_rng(1).integers(10))
    True
    """
    return np.random.Generator(np.random.SFC64(seed))


def dropout(values: Tensor, share: float, rng: np.random.Generator | None) -> Tensor:
    """Dropout with random numbers from `rng`, so that threads do not share one generator; without one, nothing happens.

    Torch's own draws one number after the other in double precision; two random bytes a value are three times as fast.

    >>> dropout(torch.ones(3), 0.5, None).tolist()
    [1.0, 1.0, 1.0]
    """
    limit = round(share * 65536)
    if rng is None or limit == 0:
        return values
    keep = np.frombuffer(rng.bytes(2 * values.numel()), np.uint16) >= limit
    scaled = keep.astype(np.float32)
    scaled *= 65536 / (65536 - limit)
    return values * torch.from_numpy(scaled).view(values.shape)


class RngDropoutMode(TorchFunctionMode):
    """Within the block, dropout of the layers called in this thread takes its random numbers from `rng`.

    Torch has one generator for all threads, so that with two of them no run would be reproducible. `dropout` is faster,
    too. Attention with dropout becomes the four operations that it stands for, as in torch on a CPU.

    >>> layer = torch.nn.Dropout(0.5)
    >>> with RngDropoutMode(np.random.default_rng(0)):
    ...     one = layer(torch.ones(99))
    >>> with RngDropoutMode(np.random.default_rng(0)):
    ...     print(torch.equal(one, layer(torch.ones(99))))
    True
    """

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rng = rng

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Torch calls this in place of each of its functions."""
        kwargs = kwargs or {}
        if function is functional.dropout:
            return self._dropout(*args, **kwargs)
        if function is functional.scaled_dot_product_attention and kwargs.get("dropout_p"):
            return self._attention(*args, **kwargs)
        return function(*args, **kwargs)

    def _dropout(self, values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return dropout(values, p, self.rng) if training else values

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if is_causal or enable_gqa:
            raise NotImplementedError("attention of a decoder")
        scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        return dropout(scores.softmax(-1), dropout_p, self.rng) @ value
