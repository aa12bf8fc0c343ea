"""A learner small enough to be followed by hand: a table of words and a linear layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.nn.batching import Batch, Ints
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.layers import lookup
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Cores, Worker
from xmtc.nn.settings import TrainingSettings

Weights = dict[str, Tensor]
WORDS, LABELS, RATE = 12, 3, 0.05


class Killed(Exception):
    """A run that was stopped from outside."""


def short(**options: object) -> TrainingSettings:
    """Settings with steps large enough to see."""
    standard = TrainingSettings(
        epochs=4, batch_size=4, learning_rate=RATE, swa_start_epoch=None, evaluate_every=1000, device="cpu"
    )
    return TrainingSettings.model_validate(standard.model_dump() | options)


class ToyNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.words = nn.Embedding(WORDS, 4, sparse=True)
            self.output = nn.Linear(4, LABELS)

    def forward(self, ids: Tensor, rate: float = 0.0, rng: DropoutRng | None = None) -> Tensor:
        scores: Tensor = self.output(dropout(lookup(self.words, ids).mean(1), rate, rng))
        return scores


@dataclass(frozen=True)
class ToyBatch(Batch):
    documents: Tensor
    ids: Tensor
    targets: Tensor


class ToyLearner(Learner[ToyNetwork]):
    """Learns from `documents` documents and is validated on others.

    `qualities` are what it says when it is evaluated, one after the other, the last one again and again; without them
    it is evaluated by its loss, and with `valid=False` not at all. `seen` has the weights with which it was evaluated,
    `batches` the documents of each batch that the first worker has.

    `noise` is the share of words that a batch replaces by others; a `gathering` toy compares all documents of a batch,
    and has a term that every worker computes. From the batch numbered `killed_at` on the run ends by `killed_by`, at
    `nan_at` the loss is no number.
    """

    def __init__(
        self,
        documents: int = 24,
        *,
        dropout: float = 0.0,
        noise: float = 0.0,
        gathering: bool = False,
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
        self.dropout, self.noise, self.gathering = dropout, noise, gathering
        self.valid, self.qualities = valid, qualities
        self.killed_at, self.killed_by, self.nan_at = killed_at, killed_by, nan_at
        self.batches: list[list[int]] = []
        self.seen: list[Weights] = []

    def batch(self, documents: Ints, rng: np.random.Generator) -> ToyBatch:
        ids = self.ids[documents]
        others = torch.from_numpy(rng.integers(0, WORDS - 1, ids.shape))
        replaced = torch.from_numpy(rng.random(ids.shape) < self.noise)
        return ToyBatch(torch.from_numpy(documents), torch.where(replaced, others, ids), self.targets[documents])

    def loss(self, batch: ToyBatch, worker: Worker) -> Tensor:
        loss = self._loss(batch, worker)
        if worker.rank:
            return loss
        call = len(self.batches)
        self.batches.append(batch.documents.tolist())
        if 0 <= self.killed_at <= call:
            raise self.killed_by
        return loss * math.nan if call == self.nan_at else loss

    def validation_ndcg(self, cores: Cores) -> float | None:
        self.seen.append(self.weights())
        if self.qualities:
            return self.qualities[min(len(self.seen), len(self.qualities)) - 1]
        batch = ToyBatch(*(each[len(self.lengths) :] for each in (torch.arange(len(self.ids)), self.ids, self.targets)))
        with torch.no_grad():
            return math.exp(-self._loss(batch, Worker(10))) if self.valid else None

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        raise AssertionError("this learner says by itself how good it is")

    def _loss(self, batch: ToyBatch, worker: Worker) -> Tensor:
        scores = self.network(batch.ids, self.dropout, worker.rng)
        if not self.gathering:
            losses = functional.binary_cross_entropy_with_logits(scores, batch.targets, reduction="none")
            return worker.mean(losses.mean(1))
        everyone, targets = worker.gather(scores), worker.gather(batch.targets)
        scores = (scores - everyone.mean(0)) / (1 + everyone.var(0, correction=0))
        losses = functional.binary_cross_entropy_with_logits(scores, batch.targets, reduction="none")
        return worker.mean(losses.mean(1)) + (everyone.T @ (everyone - targets)).square().mean() / worker.size

    def weights(self) -> Weights:
        return {name: weight.detach().clone() for name, weight in self.network.named_parameters()}
