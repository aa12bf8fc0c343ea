"""Rank-AE's network, documents and labels as points of one latent space, and what it learns from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.models.rank_ae.dual_attention import Bags, DualAttention, Noise
from xmtc.models.rank_ae.loss import ranking_loss
from xmtc.nn.batching import Batch, Entries, Ints
from xmtc.nn.datasets import Examples
from xmtc.nn.devices import device_of
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.layers import finite, lookup
from xmtc.nn.learner import Learner
from xmtc.nn.level import MAX_SCORES
from xmtc.nn.parallel import Cores, Worker

if TYPE_CHECKING:
    from xmtc.models.rank_ae.model import RankAeConfig

PREDICT_BATCH = 256  # documents scored at a time, fewer where each has very many scores
SMALLEST_VARIANCE = 1e-5

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}
Loss = Literal["ranking", "bce"]


class AutoEncoder(nn.Module):
    """F: features to a point of the latent space. E: labels to such a point. D: from there to a score for each label.

    The tables with a row for each label have, if `sparse`, gradients for the labels that occur only.

    >>> from scipy.sparse import csr_array
    >>> from xmtc.models.rank_ae.model import RankAeConfig
    >>> network = AutoEncoder(torch.ones(3, 8), 5, RankAeConfig(latent=4, hidden=6), sparse=False)
    >>> network(Bags.of(csr_array(np.eye(2, 3, dtype=np.float32)), slice(None))).shape
    torch.Size([2, 5])
    """

    def __init__(self, table: Tensor, labels: int, config: RankAeConfig, sparse: bool) -> None:
        super().__init__()
        latent, hidden = config.latent, config.hidden
        self.attention = DualAttention(table, config.ratio if config.attention else None, config.pooling)  # F
        self.scaled = config.values == "scaled"
        self.activation = ACTIVATIONS[config.activation]
        self.to_latent = nn.Linear(table.shape[1], latent)
        self.encoder = nn.Embedding(labels, hidden, sparse=sparse)  # E
        self.encoder_bias = nn.Parameter(torch.zeros(hidden))
        self.encoded = nn.Linear(hidden, latent)
        self.decoder = nn.Linear(latent, hidden)  # D
        self.scores = nn.Embedding(labels, hidden, sparse=sparse)
        self.biases = nn.Embedding(labels, 1, sparse=sparse)
        nn.init.normal_(self.encoder.weight, std=1 / math.sqrt(hidden))
        bound = 1 / math.sqrt(hidden)
        nn.init.uniform_(self.scores.weight, -bound, bound)
        nn.init.zeros_(self.biases.weight)

    def init_output_bias(self, shares: NDArray[np.floating[Any]]) -> None:
        """Start with scores that fit if each label is relevant for this share of documents.

        Small steps would take a thousand of them to learn how rare labels are.
        """
        with torch.no_grad():
            self.biases.weight[:, 0] = torch.from_numpy(np.log(shares / (1 - shares)).astype(np.float32))

    def forward(self, bags: Bags) -> Tensor:
        """Scores of all labels, (documents, labels)."""
        return self.decode(self.place(bags))

    def place(self, bags: Bags, noise: Noise | None = None, rate: float = 0.0, rng: DropoutRng | None = None) -> Tensor:
        """F: (documents, latent)."""
        documents = self.attention(bags)
        if noise is not None:
            documents = documents + self.attention.noise(noise)
        latent: Tensor = self.to_latent(dropout(documents, rate, rng))
        return latent

    def encode(self, labels: Entries) -> Tensor:
        """E: (documents, latent)."""
        table = self.encoder.weight  # may lie in the CPU's memory while all else is on a device
        ids, starts = labels.columns.to(table.device), labels.starts.to(table.device)
        sums = functional.embedding_bag(ids, table, starts, mode="sum", sparse=self.encoder.sparse)
        latent: Tensor = self.encoded(self.activation(sums.to(labels.columns.device) + self.encoder_bias))
        return latent

    def decode(self, latent: Tensor, candidates: Tensor | None = None) -> Tensor:
        """D: (documents, labels), or (documents, candidates) for candidates that all documents share.

        Scores of all labels are computed where their table is.
        """
        hidden = self.activation(self.decoder(latent))
        if candidates is None:
            table = self.scores.weight
            return functional.linear(hidden.to(table.device), table, self.biases.weight[:, 0])
        return functional.linear(hidden, lookup(self.scores, candidates), lookup(self.biases, candidates)[:, 0])


@dataclass(frozen=True)
class AutoEncoderBatch(Batch):
    """Documents and their labels, as the network learns from them."""

    shared: ClassVar[frozenset[str]] = frozenset({"candidates"})

    bags: Bags
    noise: Noise | None
    seen: Entries  #: labels that E sees
    relevant: Entries  #: all labels of the documents, by their place among the candidates
    candidates: Tensor | None  #: labels that are scored; None for all
    mean_labels: float  #: of a document, in the whole batch


class AutoEncoderLearner(Learner[AutoEncoder]):
    """Learns Lh + balance * Lae(D(E(y))) + x_decode * Lae(D(F(x))); see `xmtc.models.rank_ae.model`."""

    def __init__(self, network: AutoEncoder, train: Examples, valid: Examples, config: RankAeConfig) -> None:
        self.network, self.train, self.valid, self.config = network, train, valid, config
        # Nothing is padded, so all documents count as equally long, and batches are drawn at random.
        documents = train.features.shape[0]
        self.lengths = np.full(documents, 1 + train.features.nnz // documents)
        self.valid_targets, self.document_weights = valid.targets, train.weights

    def batch(self, documents: Ints, rng: np.random.Generator) -> AutoEncoderBatch:
        """See `Learner`."""
        config, features = self.config, self.train.features
        bags = Bags.of(features, documents, self.network.scaled).some(config.feature_dropout, rng)
        noise = None
        if config.feature_noise:
            noise = Noise.sampled(len(documents), features.shape[1], config.feature_noise, rng)
        relevant = take_rows(self.train.targets, documents)
        # The encoder sees some of the relevant labels only, and the decoder is to find all: else it learns to copy.
        seen = relevant.copy()
        seen.data = (rng.random(seen.nnz) >= config.denoise).astype(np.float32)
        seen.eliminate_zeros()
        candidates, columns = self.candidates(relevant, rng)
        places = replace(Entries.of(relevant), columns=torch.from_numpy(columns))
        return AutoEncoderBatch(bags, noise, Entries.of(seen), places, candidates, relevant.nnz / len(documents))

    def loss(self, batch: AutoEncoderBatch, worker: Worker) -> Tensor:
        """The mean over the documents."""
        config, network = self.config, self.network
        points = network.place(batch.bags, batch.noise, config.dropout, worker.rng)
        codes = network.encode(batch.seen)
        if config.standardise:
            codes = standardised(codes, worker.gather(codes))

        def reconstruction(loss: Loss, latent: Tensor) -> Tensor:
            return worker.mean(self.reconstruction(loss, network.decode(latent, batch.candidates), batch))

        apart = functional.mse_loss(points, codes, reduction="sum") / (worker.documents * points.shape[1])
        loss = apart + config.balance * reconstruction(config.loss, codes)
        return loss + config.x_decode * reconstruction(config.x_loss, points) if config.x_decode else loss

    def reconstruction(self, loss: Loss, scores: Tensor, batch: AutoEncoderBatch) -> Tensor:
        """Lae of each document; one whose labels are all relevant, or none, has a loss of 0."""
        config, rows, columns = self.config, batch.relevant.rows, batch.relevant.columns
        scores = scores.float()  # also where the network computes with fewer digits
        if loss == "ranking":
            shown = torch.sigmoid(scores) if config.output == "sigmoid" else scores
            return ranking_loss(shown, rows, columns, config.margin, config.normalise)
        wanted = torch.zeros_like(scores)
        wanted[rows, columns] = 1
        found = batch.relevant.lengths
        counted = (found > 0) & (found < scores.shape[1])
        each = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none").sum(1) * counted
        return each / max(1.0, batch.mean_labels) if config.normalise else each

    def candidates(self, relevant: Csr, rng: np.random.Generator) -> tuple[Tensor | None, Ints]:
        """(labels that are scored, None for all; where among them each relevant label is).

        With very many labels, whose tables are sparse, those are the relevant ones of a batch and some at random.
        """
        labels = relevant.indices.astype(np.int64)
        if not self.network.scores.sparse:
            return None, labels
        sampled = rng.integers(0, relevant.shape[1], self.config.negative_samples)
        chosen = np.unique(np.concatenate([labels, sampled]))
        return torch.from_numpy(chosen), np.searchsorted(chosen, labels)

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        return best_labels(self.network, self.valid.features, k, cores)[0]


def standardised(codes: Tensor, of_batch: Tensor) -> Tensor:
    """Mean 0 and variance 1 in each dimension of the latent space, over all documents of a batch.

    Without this the loss between the two latents can be brought to nothing by making both of them small.

    >>> codes = torch.tensor([[1.0], [3.0]])
    >>> standardised(codes, codes).round(decimals=3).tolist()
    [[-1.0], [1.0]]
    """
    of_batch = of_batch.float()
    variance, mean = torch.var_mean(of_batch, 0, correction=0)
    return (codes - mean) * (variance + SMALLEST_VARIANCE).rsqrt()


def best_labels(
    network: AutoEncoder, features: Csr, k: int, cores: Cores
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """(labels, scores) of the k best labels of each document, best first; fewer where there are fewer labels."""
    labels = network.scores.num_embeddings
    k = min(k, labels)
    ids, scores = np.zeros((features.shape[0], k), np.int32), np.zeros((features.shape[0], k), np.float32)
    size = max(1, min(PREDICT_BATCH, MAX_SCORES // labels))
    starts, device = range(0, features.shape[0], size), device_of(network)

    def work(start: int) -> tuple[Tensor, Tensor]:
        with torch.inference_mode():
            found = network(Bags.of(features, slice(start, start + size), network.scaled).to(device))
            return finite(found, 1e30).topk(k)

    for start, (values, which) in zip(starts, cores.map(work, starts), strict=True):
        ids[start : start + size], scores[start : start + size] = which.cpu().numpy(), values.cpu().numpy()
    return ids, scores
