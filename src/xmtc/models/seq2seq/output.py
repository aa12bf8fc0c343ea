"""The decoder's output layer: a softmax over labels and the end, with clusters of rare labels where there are many.

Grave et al., "Efficient softmax approximation for GPUs", ICML 2017: frequent labels, the head, have a logit each, and
each cluster of rare ones, a tail, has one logit there; a label of a tail has the product of two probabilities. In
training a tail is computed only for the steps whose label it has. Torch's own layer asks the device at each step which
these are, and cannot leave out labels that were emitted before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.nn.batching import Batch
from xmtc.nn.layers import finite

SHRINK, NARROWEST = 4, 16  # a tail is computed from so many times fewer numbers than the one before
HEAD_SHARE = 5  # of the labels that one softmax may have


def cluster_ends(labels: int, adaptive_above: int) -> tuple[int, ...]:
    """Where clusters of symbols end, the head first; one cluster up to `adaptive_above` labels.

    >>> cluster_ends(4000, 10_000), cluster_ends(24_473, 10_000)
    ((4000,), (2000, 10000, 24473))
    """
    if labels <= adaptive_above:
        return (labels,)
    return (*sorted({max(1, adaptive_above // HEAD_SHARE), adaptive_above}), labels)


@dataclass(frozen=True)
class Targets(Batch):
    """Label sequences as the output layer learns them; which steps need which tail is known on the CPU."""

    symbols: Tensor  #: (documents, steps), labels, then the end, then -1
    columns: Tensor  #: the same shape: the column of the head that is right, -1 after the end
    steps: Tensor  #: the steps, numbered through, that need the first tail, then those that need the second, and so on
    places: Tensor  #: which label of its tail each of these needs
    counts: tuple[int, ...]  #: how many steps need each tail
    ends: tuple[int, ...]  #: of the clusters

    @classmethod
    def of(cls, symbols: Tensor, ends: Sequence[int]) -> Self:
        """From symbols (documents, steps).

        >>> targets = Targets.of(torch.tensor([[0, 3, 4], [4, -1, -1]]), (2, 4))
        >>> targets.columns.tolist(), targets.steps.tolist(), targets.places.tolist(), targets.counts
        ([[0, 3, 2], [2, -1, -1]], [1], [1], (1,))
        """
        head, labels = ends[0], ends[-1]
        columns = torch.where(symbols == labels, head, symbols)
        steps, places, flat = [], [], symbols.flatten()
        for tail, (first, last) in enumerate(pairwise(ends)):
            inside = (symbols >= first) & (symbols < last)
            columns = torch.where(inside, head + 1 + tail, columns)
            found = inside.flatten().nonzero()[:, 0]
            steps.append(found)
            places.append(flat[found] - first)
        none = torch.zeros(0, dtype=torch.int64)
        counts = tuple(map(len, steps))
        return cls(symbols, columns, torch.cat([none, *steps]), torch.cat([none, *places]), counts, tuple(ends))

    def part(self, documents: slice) -> Self:
        """Some of the documents, one after the other."""
        return type(self).of(self.symbols[documents], self.ends)

    @property
    def inputs(self) -> Tensor:
        """(documents, steps): the symbol before each; before the first, and after the end, that of the end."""
        before = functional.pad(self.symbols[:, :-1], (1, 0), value=self.ends[-1])
        return before.masked_fill(before < 0, self.ends[-1])

    @property
    def emitted(self) -> Tensor:
        """(documents, steps, steps): the symbols emitted before each step, -1 elsewhere."""
        count = self.symbols.shape[1]
        steps = torch.arange(count, device=self.symbols.device)
        later = steps[None, :] >= steps[:, None]  # (step, symbol)
        return self.symbols[:, None].masked_fill(later, -1)


class ClusteredSoftmax(nn.Module):
    """Log-probabilities of labels and the end from vectors of the decoder.

    Wherever `emitted` is given, symbols that are in it (-1: none) have the probability 0.

    >>> layer = ClusteredSoftmax(width=8, ends=(2, 5))
    >>> found = layer(torch.randn(3, 8), torch.tensor([[0], [4], [-1]]))
    >>> found.shape, found.exp().sum(1).round(decimals=4).tolist(), found[1, 4].item()
    (torch.Size([3, 6]), [1.0, 1.0, 1.0], -inf)
    """

    def __init__(self, width: int, ends: Sequence[int]) -> None:
        super().__init__()
        self.ends = tuple(ends)
        tails = list(pairwise(ends))
        self.head = nn.Linear(width, ends[0] + 1 + len(tails))  # labels, the end, tails
        self.tails = nn.ModuleList()
        for at, (first, last) in enumerate(tails, 1):
            own = max(min(width, NARROWEST), width // SHRINK**at)
            self.tails.append(nn.Sequential(nn.Linear(width, own, bias=False), nn.Linear(own, last - first)))

    def forward(self, vectors: Tensor, emitted: Tensor | None = None) -> Tensor:
        """(..., width) -> log-probabilities (..., labels and the end); `emitted` is (..., any number)."""
        head = self._head(vectors, emitted)
        first = self.ends[0]
        parts = [head[..., :first]]
        for at, own in enumerate(self.tails):
            above = head[..., first + 1 + at, None]
            parts.append(above + self._tail(at, own(vectors), emitted).masked_fill(above == -torch.inf, -torch.inf))
        return torch.cat([*parts, head[..., first, None]], -1)

    def losses(self, vectors: Tensor, targets: Targets, emitted: Tensor | None = None) -> Tensor:
        """The negative log-probability of each document's sequence, (documents,); vectors are of all steps."""
        head = self._head(vectors, emitted)
        right = head.gather(2, targets.columns.clamp(min=0)[..., None]).squeeze(-1)
        found = right.masked_fill(targets.columns < 0, 0).flatten()
        flat = vectors.flatten(0, 1)
        before = None if emitted is None else emitted.flatten(0, 1)
        steps, places = (each.split_with_sizes(targets.counts) for each in (targets.steps, targets.places))
        for at, own in enumerate(self.tails):
            if targets.counts[at]:
                some = None if before is None else before[steps[at]]
                scores = self._tail(at, own(flat[steps[at]]), some)
                found = found.index_add(0, steps[at], scores.gather(1, places[at][:, None]).squeeze(1))
        return -found.view(targets.columns.shape).sum(1)

    def expected(self, vectors: Tensor, emitted: Tensor | None, table: Tensor, of_tails: Tensor) -> Tensor:
        """The mean embedding under the distribution; (labels and the end, size) and (tails, size) -> (..., size).

        A tail counts as one vector: the labels of all tails would be compared at each step.
        """
        head, end = self.ends[0], self.ends[-1]
        return self._head(vectors, emitted).exp() @ torch.cat([table[:head], table[end : end + 1], of_tails])

    def init_bias(self, counts: NDArray[np.integer[Any]]) -> None:
        """Start with the frequencies of labels and of the end; saves hundreds of steps."""
        some = torch.from_numpy(counts + 0.5)  # (labels and the end,)
        first, *tails = [some[start:end] for start, end in pairwise((0, *self.ends))]
        head = torch.cat([first, some[-1:], *(tail.sum(0, keepdim=True) for tail in tails)]).log()
        with torch.no_grad():
            self.head.bias.copy_(head - head.max())
            for own, tail in zip(self.tails, tails, strict=True):
                own.get_parameter("1.bias").copy_((tail / tail.max()).log())

    def _head(self, vectors: Tensor, emitted: Tensor | None) -> Tensor:
        logits = _single(self.head(vectors))
        if emitted is not None:
            parts = [without(logits[..., : self.ends[0]], emitted), logits[..., self.ends[0], None]]
            for at, (first, last) in enumerate(pairwise(self.ends)):
                used_up = ((emitted >= first) & (emitted < last)).sum(-1, keepdim=True) >= last - first
                parts.append(logits[..., self.ends[0] + 1 + at, None].masked_fill(used_up, -torch.inf))
            logits = torch.cat(parts, -1)
        return logits.log_softmax(-1)

    def _tail(self, at: int, scores: Tensor, emitted: Tensor | None) -> Tensor:
        scores = _single(scores)
        if emitted is not None:
            scores = without(scores, emitted - self.ends[at])
        return scores.log_softmax(-1)


def _single(logits: Tensor) -> Tensor:
    """In single precision at least, and numbers, whatever a model file holds."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if logits.requires_grad else finite(logits)


def without(scores: Tensor, places: Tensor) -> Tensor:
    """Scores (..., labels) with -inf at `places` (..., any number); places beyond all labels mean none.

    >>> without(torch.zeros(2, 3), torch.tensor([[0, 2], [-1, 3]])).tolist()
    [[-inf, 0.0, -inf], [0.0, 0.0, 0.0]]
    """
    labels = scores.shape[-1]
    inside = (places >= 0) & (places < labels)
    blocked = torch.zeros((*scores.shape[:-1], labels + 1), dtype=torch.bool, device=scores.device)
    blocked = blocked.scatter(-1, torch.where(inside, places, labels), True)
    return scores.masked_fill(blocked[..., :labels], -torch.inf)
