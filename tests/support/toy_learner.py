"""A learner small enough to be followed by hand: a table of words and a linear layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.nn.batching import Ints
from xmtc.nn.dropout import dropout
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Cores
from xmtc.nn.settings import TrainingSettings

Weights = dict[str, Tensor]
WORDS, LABELS, RATE = 12, 3, 0.05


class Killed(Exception):
    """A run that was stopped from outside."""


def short(**options: object) -> TrainingSettings:
    """Settings with steps large enough to see."""
    standard = TrainingSettings(epochs=4, batch_size=4, learning_rate=RATE, swa_start_epoch=None, evaluate_every=1000)
    return TrainingSettings.model_validate(standard.model_dump() | options)


class ToyNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.words = nn.Embedding(WORDS, 4, sparse=True)
            self.output = nn.Linear(4, LABELS)

    def forward(self, ids: Tensor, share: float = 0.0, rng: np.random.Generator | None = None) -> Tensor:
        scores: Tensor = self.output(dropout(self.words(ids).mean(1), share, rng))
        return scores


class ToyLearner(Learner[ToyNetwork]):
    """Learns from `documents` documents and is judged by others.

    `qualities` are what it says when it is judged, one after the other, the last one again and again; without them it
    is judged by its loss, and with `valid=False` not at all. `seen` has the weights with which it was judged, `batches`
    the documents of each call of `loss`. From the call numbered `killed_at` on the run ends by `killed_by`, at `nan_at`
    the loss is no number.
    """

    def __init__(
        self,
        documents: int = 24,
        *,
        dropout: float = 0.0,
        valid: bool = True,
        qualities: Sequence[float] = (),
        killed_at: int = -1,
        killed_by: type[BaseException] = Killed,
        nan_at: int = -1,
    ) -> None:
        rng = np.random.default_rng(0)
        self.network = ToyNetwork()
        self.lengths: Ints = rng.integers(1, 9, documents)
        self.ids = torch.from_numpy(rng.integers(0, WORDS - 1, (documents + 10, 5)))  # the last word never occurs
        self.targets = torch.from_numpy((rng.random((documents + 10, LABELS)) < 0.4).astype(np.float32))
        self.dropout, self.valid, self.qualities = dropout, valid, qualities
        self.killed_at, self.killed_by, self.nan_at = killed_at, killed_by, nan_at
        self.batches: list[list[int]] = []
        self.seen: list[Weights] = []

    def loss(self, documents: Ints, rng: np.random.Generator) -> Tensor:
        call = len(self.batches)
        self.batches.append(documents.tolist())
        if 0 <= self.killed_at <= call:
            raise self.killed_by
        loss = self._loss(documents, rng)
        return loss * math.nan if call == self.nan_at else loss

    def validation_ndcg(self, cores: Cores) -> float | None:
        self.seen.append(self.weights())
        if self.qualities:
            return self.qualities[min(len(self.seen), len(self.qualities)) - 1]
        with torch.no_grad():
            return math.exp(-self._loss(np.arange(10) + len(self.lengths))) if self.valid else None

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        raise AssertionError("this learner says by itself how good it is")

    def _loss(self, documents: Ints, rng: np.random.Generator | None = None) -> Tensor:
        scores = self.network(self.ids[documents], self.dropout, rng)
        return functional.binary_cross_entropy_with_logits(scores, self.targets[documents])

    def weights(self) -> Weights:
        return {name: weight.detach().clone() for name, weight in self.network.named_parameters()}
