"""Documents as bags of weighed features, and the dual attention of Rank-AE that makes one vector of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.nn.batching import Batch, Entries, Ints
from xmtc.nn.layers import lookup

Pooling = Literal["mean", "sum", "root"]
NOISY_FEATURES = 2048  # features that get noise in a batch


@dataclass(frozen=True)
class Bags(Entries):
    """The features of some documents, one document after the other: no padding, whatever their lengths."""

    @classmethod
    def of(cls, matrix: Csr, documents: Ints | slice = slice(None), scaled: bool = True) -> Self:
        """Some rows of a matrix of documents x features.

        With `scaled`, values have a mean square of 1 in each document, so that the channel attention sees numbers of
        about the same size in long and in short ones.

        >>> from scipy.sparse import csr_array
        >>> bags = Bags.of(csr_array(np.array([[0.0, 0.0], [3.0, 4.0]], np.float32)), np.array([1, 0]))
        >>> bags.columns.tolist(), bags.rows.tolist(), bags.lengths.tolist()
        ([0, 1], [0, 0], [2, 0])
        """
        part = take_rows(matrix, documents)
        lengths = np.diff(part.indptr).astype(np.int64)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        values = part.data.astype(np.float32)
        if scaled:
            squares = np.bincount(rows, part.data.astype(np.float64) ** 2, minlength=len(lengths))
            scale = np.sqrt(np.divide(lengths, squares, out=np.zeros(len(lengths)), where=squares > 0))
            values = (part.data * scale[rows]).astype(np.float32)
        return cls(*map(torch.from_numpy, (rows, part.indices.astype(np.int64), values, lengths)))

    def some(self, rate: float, rng: np.random.Generator) -> Self:
        """The same after dropout of features."""
        if rate == 0:
            return self
        kept = torch.from_numpy(rng.random(len(self.values), np.float32) >= rate)
        return replace(self, values=self.values * kept / (1 - rate))


@dataclass(frozen=True)
class Noise(Batch):
    """Normal noise on features of documents, present or not; of many features some get it, with as much more noise."""

    shared: ClassVar[frozenset[str]] = frozenset({"features"})

    features: Tensor  # (some,)
    values: Tensor  # (documents, some)

    @classmethod
    def sampled(cls, documents: int, features: int, size: float, rng: np.random.Generator) -> Self:
        """Noise of this size, for documents of length 1 in the space of features.

        >>> Noise.sampled(3, 9, 0.1, np.random.default_rng(0)).values.shape
        torch.Size([3, 9])
        """
        some = min(features, NOISY_FEATURES)
        chosen = np.sort(rng.choice(features, some, replace=False))
        values = rng.standard_normal((documents, some), np.float32)
        values *= size * math.sqrt(features / some)
        return cls(torch.from_numpy(chosen), torch.from_numpy(values))


class DualAttention(nn.Module):
    """Spatial attention: each feature's vector is weighed by its value. Channel attention: an excitation network says
    for each feature how much each channel of its weighed vector counts. The document has the mean over its features
    (`pooling="mean"`), their sum ("sum"), which is a mean over a number of places that all documents share, or their
    sum divided by the square root of their number ("root"): a mean over many words is next to nothing.

    With `ratio=None` there is no channel attention: the variant that the paper calls "no attn".

    >>> from scipy.sparse import csr_array
    >>> bags = Bags.of(csr_array(np.array([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]], np.float32)), slice(None))
    >>> DualAttention(torch.ones(3, 8), ratio=4)(bags).shape
    torch.Size([2, 8])
    """

    def __init__(self, table: Tensor, ratio: int | None, pooling: Pooling = "root") -> None:
        super().__init__()
        self.pooling = pooling
        channels = table.shape[1]
        self.features = nn.Embedding(len(table), channels, sparse=True, _weight=table)
        self.excitation: nn.Sequential | None = None
        if ratio is not None:
            narrow = max(1, channels // ratio)
            self.excitation = nn.Sequential(
                nn.Linear(channels, narrow), nn.ReLU(), nn.Linear(narrow, channels), nn.Sigmoid()
            )

    def forward(self, bags: Bags) -> Tensor:
        """(documents, channels); zero for a document without features."""
        weighed = self.attended(self.weighed(bags))
        sums = weighed.new_zeros(bags.count, weighed.shape[1]).index_add(0, bags.rows, weighed)
        if self.pooling == "sum":
            return sums
        count = bags.lengths.clamp(min=1)[:, None]
        return sums / count if self.pooling == "mean" else sums * count.rsqrt()

    def noise(self, noise: Noise) -> Tensor:
        """What noise on features does to the vectors of documents, (documents, channels)."""
        return noise.values @ self.attended(lookup(self.features, noise.features))

    def weighed(self, bags: Bags) -> Tensor:
        """Spatial attention, (entries, channels)."""
        return lookup(self.features, bags.columns) * bags.values[:, None]

    def attended(self, weighed: Tensor) -> Tensor:
        """Channel attention, (entries, channels)."""
        return weighed if self.excitation is None else weighed * self.excitation(weighed)

    def channels(self, bags: Bags) -> Tensor:
        """How much each channel of each feature counts, (entries, channels), between 0 and 1."""
        weighed = self.weighed(bags)
        attention: Tensor = torch.ones_like(weighed) if self.excitation is None else self.excitation(weighed)
        return attention
