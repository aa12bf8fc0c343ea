"""C2AE's network: documents and their labels go into one latent space, and labels are read from it.

Ragged rows, no padding: a document is its features and their values, its labels are a bag of label ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.nn.batching import Batch, Entries, Ints
from xmtc.nn.datasets import Examples
from xmtc.nn.devices import device_of
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Cores, Worker

PREDICT_BATCH = 256  # documents that go through the network at a time in prediction


class Bag(nn.Module):
    """A linear layer for sparse rows; gradients have rows only for what occurs.

    >>> rows = Csr(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 1.0]], np.float32))
    >>> Bag(3, 4)(Entries.of(rows)).shape
    torch.Size([2, 4])
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        # The rows have length 1, so that entries of variance 1 make outputs of variance 1.
        self.weights = nn.EmbeddingBag(inputs, outputs, mode="sum", sparse=True)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, rows: Entries) -> Tensor:
        """(documents, inputs), sparse -> (documents, outputs)."""
        device = self.weights.weight.device  # the table may lie in the CPU's memory while all else is on a device
        ids, starts, values = (each.to(device) for each in (rows.columns, rows.starts, rows.values))
        summed: Tensor = self.weights(ids, starts, values)
        return summed.to(self.bias.device) + self.bias


class CoupledAutoencoder(nn.Module):
    """F_x from features and F_e from labels to the latent space, F_d from there to scores of labels."""

    def __init__(self, features: int, labels: int, latent: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.features, self.features2 = Bag(features, hidden), nn.Linear(hidden, hidden)
        self.features_latent = nn.Linear(hidden, latent)
        self.labels, self.labels_latent = Bag(labels, hidden), nn.Linear(hidden, latent)
        self.decoder, self.output = nn.Linear(latent, hidden), nn.Linear(hidden, labels)
        self.dropout = dropout

    def of_features(self, rows: Entries, rng: DropoutRng | None = None) -> Tensor:
        """F_x, (documents, latent)."""
        hidden = dropout(functional.leaky_relu(self.features(rows)), self.dropout, rng)
        hidden = dropout(functional.leaky_relu(self.features2(hidden)), self.dropout, rng)
        latent: Tensor = self.features_latent(hidden)
        return latent

    def of_labels(self, rows: Entries) -> Tensor:
        """F_e, (documents, latent)."""
        latent: Tensor = self.labels_latent(functional.leaky_relu(self.labels(rows)))
        return latent

    def decoded(self, latent: Tensor) -> Tensor:
        """F_d without its last layer, (documents, hidden)."""
        return functional.leaky_relu(self.decoder(latent))

    def best(self, rows: Csr, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(ids, scores) of the k labels with the best scores F_d(F_x) of each document; never documents x labels."""
        from xmtc.kernels.dense_topk import best_labels

        device = device_of(self)
        with torch.inference_mode():
            bias = self.output.bias.cpu().numpy()[:, None]
            weights = np.concatenate([self.output.weight.cpu().numpy(), bias], axis=1)  # (labels, hidden + 1)
            parts = [(np.zeros((0, k), np.int32), np.zeros((0, k), np.float32))]
            for start in range(0, rows.shape[0], PREDICT_BATCH):
                some = Entries.of(take_rows(rows, slice(start, start + PREDICT_BATCH))).to(device)
                hidden = self.decoded(self.of_features(some)).cpu().numpy()
                ones = np.ones((len(hidden), 1), np.float32)
                parts.append(best_labels(np.concatenate([hidden, ones], axis=1), weights, k)[:2])
        return np.concatenate([ids for ids, _ in parts]), np.concatenate([scores for _, scores in parts])


def link_loss(features: Tensor, labels: Tensor, lagrange: float) -> Tensor:
    """Both latents of a document shall be the same, and the latent dimensions uncorrelated, with variance 1.

    The mean over dimensions of (F_x - F_e)^2, and `lagrange` x the squared distance of both covariances from identity.

    >>> link_loss(torch.eye(2) * 2**0.5, torch.eye(2) * 2**0.5, lagrange=0.5).item() < 1e-9
    True
    """
    apart = (features - labels).square().mean()
    return apart + lagrange * (_correlation(features) + _correlation(labels))


def _correlation(latent: Tensor) -> Tensor:
    """|F'F / n - I|^2 / K of latents (n, K); by way of F F', which is the smaller matrix with few documents."""
    count, size = latent.shape
    gram = (latent @ latent.T if count < size else latent.T @ latent) / count
    return (gram.square().sum() - 2 * latent.square().sum() / count + size) / size


def pair_loss(scores: Tensor, relevant: Tensor) -> Tensor:
    """For each document the mean over all pairs of exp(irrelevant label's score - relevant one's), (documents,).

    The sum over pairs is a product of two sums. Documents without relevant or without irrelevant labels have 0.

    >>> losses = pair_loss(torch.tensor([[1.0, 0.0], [2.0, 3.0]]), torch.tensor([[True, False], [True, True]]))
    >>> [round(loss, 4) for loss in losses.tolist()]
    [0.3679, 0.0]
    """
    counts = relevant.sum(1)
    others = relevant.shape[1] - counts
    no_pairs = (counts == 0) | (others == 0)
    # All their labels are taken, so that there is no sum of nothing: its gradient would be no number.
    all_taken = no_pairs[:, None]
    of_relevant = torch.logsumexp((-scores).masked_fill(~(relevant | all_taken), -torch.inf), 1)
    of_others = torch.logsumexp(scores.masked_fill(relevant & ~all_taken, -torch.inf), 1)
    means = of_relevant - counts.clamp(min=1).log() + of_others - others.clamp(min=1).log()
    return means.masked_fill(no_pairs, -torch.inf).exp()


@dataclass(frozen=True)
class CoupledBatch(Batch):
    """Documents and their labels, as the networks learn from them."""

    features: Entries
    labels: Entries  #: of length 1: else documents with many labels would count more


class CoupledLearner(Learner[CoupledAutoencoder]):
    """The network with its training and validation documents; see `xmtc.nn.learner.Learner`."""

    def __init__(
        self, network: CoupledAutoencoder, train: Examples, valid: Examples, alpha: float, lagrange: float
    ) -> None:
        self.network, self.train, self.valid = network, train, valid
        self.alpha, self.lagrange = alpha, lagrange
        self.lengths, self.document_weights = np.diff(train.features.indptr).astype(np.int64), train.weights
        self.valid_targets = valid.targets

    def batch(self, documents: Ints, rng: np.random.Generator) -> CoupledBatch:
        """See `Learner`."""
        labels = take_rows(self.train.targets, documents)
        counts = np.diff(labels.indptr)
        labels.data = (1 / np.sqrt(np.repeat(counts, counts))).astype(np.float32)
        return CoupledBatch(Entries.of(take_rows(self.train.features, documents)), Entries.of(labels))

    def loss(self, batch: CoupledBatch, worker: Worker) -> Tensor:
        """How far both latents are apart, and how far irrelevant labels stand above relevant ones."""
        latent = self.network.of_labels(batch.labels)
        scores = self.network.output(self.network.decoded(latent)).float()  # also where it computes with fewer digits
        relevant = torch.zeros_like(scores, dtype=torch.bool)
        relevant[batch.labels.rows, batch.labels.columns] = True
        features = self.network.of_features(batch.features, worker.rng)
        # The covariance is that of all documents.
        all_features, all_labels = worker.gather(torch.cat([features, latent], 1).float()).chunk(2, 1)
        linked = link_loss(all_features, all_labels, self.lagrange) / worker.size
        # The paper adds up over latent dimensions what is a mean here, and alpha is meant beside that sum.
        weight = self.alpha / latent.shape[1]
        return linked + weight * worker.mean(pair_loss(scores, relevant))

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        return self.network.best(self.valid.features, min(k, self.valid.targets.shape[1]))[0]
