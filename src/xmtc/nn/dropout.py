"""Dropout that does not depend on how a batch is split over threads, also inside of networks that others wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

WIDEST = 1 << 32  # hashes have 32 bits


class DropoutRng:
    """The dropout masks of one training step on a CPU, for documents of a batch from number `first` on.

    A mask depends on the seed, on how many were made before, and on the document's number in the whole batch: so it is
    the same whatever thread or process has the document. Torch's generator is shared by all threads.

    >>> whole, part = DropoutRng(1), DropoutRng(1, first=2)
    >>> torch.equal(whole.mask(torch.Size([3, 5]), 0.5)[2:], part.mask(torch.Size([1, 5]), 0.5))
    True
    """

    def __init__(self, seed: int, first: int = 0) -> None:
        self.seed, self.first, self.calls = seed, first, 0

    def mask(self, shape: torch.Size, rate: float, axis: int = 0) -> Tensor:
        """0 for the share `rate` of the numbers, for the others the factor that keeps their mean.

        Documents lie along `axis`, or nowhere (-1): then all workers have the same mask.
        """
        from xmtc.kernels.dropout import keep_mask

        seeds = np.random.SeedSequence((self.seed, self.calls)).generate_state(2)
        self.calls += 1
        documents = shape[axis] if axis >= 0 else 1
        others = [*shape[:axis], *shape[axis + 1 :]] if axis >= 0 else [*shape]
        size = int(np.prod(others))
        start = self.first * size if axis >= 0 else 0
        limit, scale = np.uint32(round(rate * WIDEST)), np.float32(1 / (1 - rate))
        values = keep_mask(seeds[0], seeds[1], start % WIDEST, documents * size, limit, scale)
        mask = torch.from_numpy(values).view(documents, *others)
        return mask.movedim(0, axis) if axis >= 0 else mask[0]

    def copy(self) -> DropoutRng:
        """One that makes the same masks from here on."""
        twin = DropoutRng(self.seed, self.first)
        twin.calls = self.calls
        return twin


def dropout(values: Tensor, rate: float, rng: DropoutRng | None, axis: int = 0) -> Tensor:
    """Dropout of values whose documents lie along `axis`; without `rng` nothing happens.

    On a CPU the masks come from `rng`, elsewhere from the device's own generator, which each step seeds.

    >>> dropout(torch.ones(3), 0.5, None).tolist()
    [1.0, 1.0, 1.0]
    """
    if rng is None or rate == 0:
        return values
    if values.device.type != "cpu":
        return functional.dropout(values, rate)
    return values * rng.mask(values.shape, rate, axis)


class RngDropoutMode(TorchFunctionMode):
    """Within the block, dropout of the layers called in this thread takes its masks from `rng`.

    `axis` says along which axis of a tensor the documents lie. Attention with dropout becomes the four operations that
    it stands for, as in torch on a CPU.

    >>> layer = torch.nn.Dropout(0.5)
    >>> with RngDropoutMode(DropoutRng(0)):
    ...     one = layer(torch.ones(99))
    >>> with RngDropoutMode(DropoutRng(0)):
    ...     print(torch.equal(one, layer(torch.ones(99))))
    True
    """

    def __init__(self, rng: DropoutRng, axis: Callable[[Tensor], int] = lambda _: 0) -> None:
        super().__init__()
        self.rng, self.axis = rng, axis

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
        return dropout(values, p, self.rng, self.axis(values)) if training else values

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
