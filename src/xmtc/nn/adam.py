"""Adam that treats row-sparse gradients row by row, so that a step costs the same whatever the size of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

EPSILON = 1e-8
PIECE = 1 << 17  # numbers


class RowAdam(Optimizer):
    """Adam for dense and for sparse gradients (as AttentionXML's own code has it).

    Of a sparse gradient only the rows that it has are updated, their moments too; the bias correction counts all steps.
    The moments start as untouched zero pages: rows that never occur take no memory. `shrinking` is the weight decay of
    AdamW, for dense gradients of matrices alone.

    >>> weight = torch.nn.Parameter(torch.zeros(2, 1))
    >>> optimiser = RowAdam([weight], learning_rate=0.1)
    >>> torch.nn.functional.embedding(torch.tensor([1]), weight, sparse=True).sum().backward()
    >>> optimiser.step()
    >>> [round(value, 3) for value in weight.flatten().tolist()]
    [0.0, -0.1]
    """

    def __init__(
        self,
        weights: Iterable[Tensor] | Iterable[dict[str, Any]],
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        shrinking: float = 0.0,
    ) -> None:
        super().__init__(weights, {"lr": learning_rate, "betas": betas, "shrinking": shrinking})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move the weights against their gradients."""
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            first, second = group["betas"]
            for weight in group["params"]:
                if weight.grad is not None:
                    state = self._state(weight)
                    state["step"] += 1
                    size = group["lr"] * math.sqrt(1 - second ** state["step"]) / (1 - first ** state["step"])
                    if group["shrinking"] and weight.dim() > 1 and not weight.grad.is_sparse:
                        weight.mul_(1 - group["lr"] * group["shrinking"])
                    update = self._rows if weight.grad.is_sparse else self._whole
                    update(weight, weight.grad, state["mean"], state["square"], size, first, second)
        return loss

    def _state(self, weight: Tensor) -> dict[str, Any]:
        state: dict[str, Any] = self.state[weight]
        if not state:
            state.update(step=0, mean=torch.zeros_like(weight), square=torch.zeros_like(weight))
        return state

    @staticmethod
    def _whole(
        weight: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, size: float, first: float, second: float
    ) -> None:
        # Piece by piece, each of which stays in the processor's cache from one operation to the next.
        whole = (weight, gradient.contiguous(), mean, square)
        pieces = (part.view(-1).split(PIECE) for part in whole)  # type: ignore[no-untyped-call]
        for w, g, m, s in zip(*pieces, strict=True):
            m.lerp_(g, 1 - first)
            s.mul_(second).addcmul_(g, g, value=1 - second)
            w.addcdiv_(m, s.sqrt().add_(EPSILON), value=-size)

    @staticmethod
    def _rows(
        weight: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, size: float, first: float, second: float
    ) -> None:
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        means = mean.index_select(0, rows).lerp_(values, 1 - first)
        squares = square.index_select(0, rows).mul_(second).addcmul_(values, values, value=1 - second)
        mean.index_copy_(0, rows, means)
        square.index_copy_(0, rows, squares)
        weight.index_add_(0, rows, means.div_(squares.sqrt_().add_(EPSILON)), alpha=-size)
