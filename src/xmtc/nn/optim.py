"""Adam that updates only the rows that a batch touched, stochastic weight averaging, and gradient clipping."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

WINDOW, GROWTH, LARGEST_CAP = 5, 2.0, 1.0
EPSILON = 1e-8
PIECE = 1 << 17  # numbers


class WeightAverage:
    """The mean of the weights at several moments of training.

    >>> weight = torch.zeros(1)
    >>> average = WeightAverage({"w": weight})
    >>> _ = weight.fill_(3.0)
    >>> average.add({"w": weight})
    >>> average.mean["w"].item(), average.count
    (1.5, 2)
    """

    def __init__(self, weights: Mapping[str, Tensor], count: int = 1) -> None:
        self.mean = {name: weight.detach().clone() for name, weight in weights.items()}
        self.count = count

    def add(self, weights: Mapping[str, Tensor]) -> None:
        """Take the weights as they are now into the mean."""
        self.count += 1
        with torch.no_grad():
            for name, mean in self.mean.items():
                mean.lerp_(weights[name], 1 / self.count)

    @contextmanager
    def in_place_of(self, weights: Mapping[str, Tensor]) -> Iterator[None]:
        """Within the block the network has the mean weights."""
        self._swap(weights)
        try:
            yield
        finally:
            self._swap(weights)

    def _swap(self, weights: Mapping[str, Tensor]) -> None:
        # The tensors change hands instead of their contents: no copying of large tables.
        for name, mean in self.mean.items():
            weight = weights[name]
            self.mean[name], weight.data = weight.data, mean


class FixedClip:
    """Cut gradients to a norm, that of all of them together.

    >>> gradient = torch.tensor([30.0, 40.0])
    >>> FixedClip(1.0)([gradient]), [round(value, 2) for value in gradient.tolist()]
    (50.0, [0.6, 0.8])
    """

    caps: Sequence[float] = ()  # nothing to remember

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, gradients: Sequence[Tensor]) -> float:
        """Scale the gradients in place if they are too large; returns their norm before."""
        norm = norm_of(gradients)
        if norm > self.limit:
            for gradient in gradients:
                gradient.mul_(self.limit / norm)
        return norm


def norm_of(gradients: Sequence[Tensor]) -> float:
    """The norm of gradients, some of them sparse, together.

    >>> norm_of([torch.tensor([3.0]), torch.tensor([4.0])])
    5.0
    """
    values = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in gradients]
    return float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(value) for value in values])))


class MovingClip:
    """Clip gradients at `factor` times the largest of the last norms; each norm counts as at most 1.

    >>> clip = MovingClip(5.0)
    >>> gradient = torch.tensor([30.0, 40.0])
    >>> [round(clip([gradient.clone()]), 1) for _ in range(2)], list(clip.caps)
    ([50.0, 50.0], [inf, 1.0, 1.0])
    """

    def __init__(self, factor: float, caps: Sequence[float] = (torch.inf,)) -> None:
        self.factor = factor
        self.caps = deque(caps, WINDOW)

    def __call__(self, gradients: Sequence[Tensor]) -> float:
        """Scale the gradients in place where they are too large; returns their norm before."""
        norm = norm_of(gradients)
        largest = max(self.caps)
        if norm > self.factor * largest:
            for gradient in gradients:
                gradient.mul_(self.factor * largest / norm)
        self.caps.append(min(norm, GROWTH * largest, LARGEST_CAP))
        return norm


class RowAdam(Optimizer):
    """Adam for dense and for sparse gradients (as AttentionXML's own code has it).

    Of a sparse gradient only the rows that it has are updated, their moments too; the bias correction counts all steps.
    The moments start as untouched zero pages: rows that never occur take no memory. `weight_decay` is the weight decay
    of AdamW, for dense gradients of matrices alone.

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
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(weights, {"lr": learning_rate, "betas": betas, "shrinking": weight_decay})

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
