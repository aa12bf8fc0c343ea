"""Stochastic weight averaging, and gradient clipping by the norms of the last steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

WINDOW, GROWTH, LARGEST_CAP = 5, 2.0, 1.0


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
