"""C2AE's network: documents and their labels go into one latent space, and labels are read from it.

Ragged rows, no padding: a document is its features and their values, its labels are a bag of label ids.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.nn.batching import Ints
from xmtc.nn.datasets import Examples
from xmtc.nn.dropout import dropout
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Cores

PREDICT_BATCH = 256  # documents that go through the network at a time in prediction


class Bag(nn.Module):
    """A linear layer for sparse rows; gradients have rows only for what occurs.

    >>> rows = Csr(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 1.0]], np.float32))
    >>> Bag(3, 4)(rows).shape
    torch.Size([2, 4])
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        # The rows have length 1, so that entries of variance 1 make outputs of variance 1.
        self.weights = nn.EmbeddingBag(inputs, outputs, mode="sum", sparse=True)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, rows: Csr) -> Tensor:
        """(documents, inputs), sparse -> (documents, outputs)."""
        ids, values = torch.from_numpy(rows.indices.astype(np.int64)), torch.tensor(rows.data)
        summed: Tensor = self.weights(ids, torch.from_numpy(rows.indptr[:-1].astype(np.int64)), values)
        return summed + self.bias


class CoupledAutoencoder(nn.Module):
    """F_x from features and F_e from labels to the latent space, F_d from there to scores of labels."""

    def __init__(self, features: int, labels: int, latent: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.features, self.features2 = Bag(features, hidden), nn.Linear(hidden, hidden)
        self.features_latent = nn.Linear(hidden, latent)
        self.labels, self.labels_latent = Bag(labels, hidden), nn.Linear(hidden, latent)
        self.decoder, self.output = nn.Linear(latent, hidden), nn.Linear(hidden, labels)
        self.dropout = dropout

    def of_features(self, rows: Csr, rng: np.random.Generator | None = None) -> Tensor:
        """F_x, (documents, latent)."""
        hidden = dropout(functional.leaky_relu(self.features(rows)), self.dropout, rng)
        hidden = dropout(functional.leaky_relu(self.features2(hidden)), self.dropout, rng)
        latent: Tensor = self.features_latent(hidden)
        return latent

    def of_labels(self, rows: Csr) -> Tensor:
        """F_e, (documents, latent)."""
        latent: Tensor = self.labels_latent(functional.leaky_relu(self.labels(rows)))
        return latent

    def decoded(self, latent: Tensor) -> Tensor:
        """F_d without its last layer, (documents, hidden)."""
        return functional.leaky_relu(self.decoder(latent))

    def best(self, rows: Csr, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(ids, scores) of the k labels with the best scores F_d(F_x) of each document; never documents x labels."""
        from xmtc.kernels.dense_topk import best_labels

        with torch.inference_mode():
            bias = self.output.bias.numpy()[:, None]
            weights = np.concatenate([self.output.weight.numpy(), bias], axis=1)  # (labels, hidden + 1)
            parts = [(np.zeros((0, k), np.int32), np.zeros((0, k), np.float32))]
            for start in range(0, rows.shape[0], PREDICT_BATCH):
                hidden = self.decoded(self.of_features(take_rows(rows, slice(start, start + PREDICT_BATCH)))).numpy()
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
    """The mean over documents of exp(irrelevant label's score - relevant one's), itself the mean over all such pairs.

    The sum over pairs is a product of two sums. Documents without right or without irrelevant labels count as 0.

    >>> round(pair_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, False]])).item(), 4)
    0.3679
    """
    counts = relevant.sum(1)
    both = (counts > 0) & (counts < relevant.shape[1])
    scores, relevant, counts = scores[both], relevant[both], counts[both]
    ours = torch.logsumexp((-scores).masked_fill(~relevant, -torch.inf), 1) - counts.log()
    others = torch.logsumexp(scores.masked_fill(relevant, -torch.inf), 1) - (relevant.shape[1] - counts).log()
    return (ours + others).exp().sum() / len(both)


class CoupledLearner(Learner[CoupledAutoencoder]):
    """The network with its training and validation documents; see `xmtc.nn.learner.Learner`."""

    def __init__(
        self, network: CoupledAutoencoder, train: Examples, valid: Examples, alpha: float, lagrange: float
    ) -> None:
        self.network, self.train, self.valid = network, train, valid
        self.alpha, self.lagrange = alpha, lagrange
        self.lengths, self.valid_targets = np.diff(train.features.indptr).astype(np.int64), valid.targets

    def loss(self, documents: Ints, rng: np.random.Generator) -> Tensor:
        """How far both latents are apart, and how far irrelevant labels stand above relevant ones."""
        rows = take_rows(self.train.targets, documents)
        counts = np.diff(rows.indptr)
        relevant = torch.zeros(rows.shape, dtype=torch.bool)
        relevant[torch.from_numpy(np.repeat(np.arange(len(documents)), counts)), torch.from_numpy(rows.indices)] = True
        bags = rows.copy()
        bags.data = (1 / np.sqrt(np.repeat(counts, counts))).astype(np.float32)  # else many labels would count more
        latent = self.network.of_labels(bags)
        scores = self.network.output(self.network.decoded(latent))
        features = self.network.of_features(take_rows(self.train.features, documents), rng)
        # The paper adds up over latent dimensions what is a mean here, and alpha is meant beside that sum.
        weight = self.alpha / latent.shape[1]
        return link_loss(features, latent, self.lagrange) + weight * pair_loss(scores, relevant)

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        return self.network.best(self.valid.features, min(k, self.valid.targets.shape[1]))[0]
