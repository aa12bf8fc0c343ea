"""Adam for tables of which a batch needs few rows, stochastic weight averaging, and gradient clipping."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from xmtc.nn.settings import TrainingSettings

WINDOW, GROWTH, LARGEST_CAP = 5, 2.0, 1.0
EPSILON = 1e-8


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


class GradientClip:
    """Cut gradients to a norm, that of all together: `limit`, else `factor` times the largest of the last norms.

    In the second form, that of AttentionXML's authors, each of the last norms counts as at most 1. Nothing is copied to
    the CPU: there a multiplication by 1 is left out.

    >>> gradient = torch.tensor([30.0, 40.0])
    >>> GradientClip(limit=1.0)([gradient])
    >>> gradient.round(decimals=3).tolist()
    [0.6000000238418579, 0.800000011920929]
    >>> clip = GradientClip(factor=5.0)
    >>> clip([torch.tensor([30.0, 40.0])])
    >>> [float(cap) for cap in clip.caps]
    [inf, 1.0]
    """

    def __init__(self, limit: float | None = None, factor: float | None = None) -> None:
        self.limit, self.factor = limit, None if limit is not None else factor
        self.caps: deque[Tensor] = deque([torch.tensor(math.inf)], WINDOW)

    def __call__(self, gradients: Sequence[Tensor]) -> None:
        """Scale the gradients in place where they are too large."""
        if self.limit is None and self.factor is None:
            return
        values = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in gradients]
        device = values[-1].device  # tables may be elsewhere, and come first
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each).to(device) for each in values]))
        largest: Tensor | float = self.limit or math.inf
        if self.factor is not None:
            cap = torch.stack([each.to(device) for each in self.caps]).max()
            largest = self.factor * cap
            self.caps.append(torch.minimum(norm, GROWTH * cap).clamp(max=LARGEST_CAP))
        if device.type != "cpu" or norm > largest:
            scale = (largest / norm).clamp(max=1)
            for gradient in gradients:
                gradient.mul_(scale.to(gradient.device))


def is_table(part: nn.Module) -> bool:
    """Whether a part of a network is a table of which a batch needs few rows: its gradients are sparse."""
    return isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.sparse


class RowAdam(AdamW):
    """Torch's fused AdamW; of a weight whose gradient is sparse only the rows are updated that the gradient has.

    For rows it is torch's SparseAdam at a third of its time (500,000 x 300, 3,000 rows: 2.6 ms against 8.3; 200,000 x
    512, 2,500 rows: 3.9 against 14.6; one thread of an EPYC): their moments are those of the rows, the bias correction
    counts all steps. Weight decay is for matrices alone, and not for tables.

    >>> words = nn.Embedding(2, 1, sparse=True)
    >>> optimiser = RowAdam(words, TrainingSettings(learning_rate=0.1))
    >>> before = words.weight.detach().clone()
    >>> words(torch.tensor([1])).sum().backward()
    >>> optimiser.step()
    >>> (before - words.weight.detach()).flatten().round(decimals=3).tolist()
    [0.0, 0.10000000149011612]
    """

    def __init__(self, network: nn.Module, settings: TrainingSettings) -> None:
        tables = {part.weight for part in network.modules() if is_table(part)}
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for name, weight in network.named_parameters():
            if weight.requires_grad:
                decay = settings.weight_decay if weight.dim() > 1 and weight not in tables else 0.0
                groups.setdefault((settings.rate_of(name, weight in tables), decay), []).append(weight)
        super().__init__(
            [{"params": some, "lr": lr, "weight_decay": decay} for (lr, decay), some in groups.items()], fused=True
        )
        self.rates = [lr for lr, _ in groups]
        self._step_supports_amp_scaling = False  # torch's kernel skips a step that overflowed, `_update_rows` would not

    def scale_rates(self, factor: float) -> None:
        """Set the learning rates to this multiple of what they were in the beginning."""
        for group, rate in zip(self.param_groups, self.rates, strict=True):
            group["lr"] = factor * rate

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move the weights against their gradients."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None and weight.grad.is_sparse:
                    self._update_rows(weight, weight.grad.coalesce(), group["lr"], *group["betas"])
                    weight.grad = None
        super().step()

    def _update_rows(self, weight: Tensor, gradient: Tensor, lr: float, first: float, second: float) -> None:
        state: dict[str, Any] = self.state[weight]
        if not state:
            state.update(step=torch.tensor(0.0), exp_avg=torch.zeros_like(weight), exp_avg_sq=torch.zeros_like(weight))
        state["step"] = state["step"].cpu() + 1  # from a checkpoint it may come to the weight's device
        steps = float(state["step"])
        rows, values = gradient.indices()[0], gradient.values()
        means = state["exp_avg"].index_select(0, rows).lerp_(values, 1 - first)
        squares = state["exp_avg_sq"].index_select(0, rows).mul_(second).addcmul_(values, values, value=1 - second)
        state["exp_avg"].index_copy_(0, rows, means)
        state["exp_avg_sq"].index_copy_(0, rows, squares)
        size = lr * math.sqrt(1 - second**steps) / (1 - first**steps)
        weight.index_add_(0, rows, means.div_(squares.sqrt_().add_(EPSILON)), alpha=-size)
