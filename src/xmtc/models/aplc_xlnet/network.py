"""APLC-XLNet's network: a pretrained encoder, a hidden layer, adaptive label clusters; and what it learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.models.aplc_xlnet.adaptive_clusters import START_DEVIATION, AdaptiveClusters, ClusterTargets
from xmtc.models.aplc_xlnet.label_clusters import FrequencyClusters
from xmtc.nn.batching import Batch, Ints
from xmtc.nn.datasets import LabelledTexts
from xmtc.nn.devices import device_of
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.encoders.encoder import Encoder, EncoderBatch, EncoderTexts, batches_of
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Cores, Worker
from xmtc.progress import progress

if TYPE_CHECKING:
    from xmtc.models.aplc_xlnet.model import AplcConfig

SMALLEST = 1e-6
READ_BATCH = 8192  # documents whose hidden states are kept until their labels are sought
SCORE_BATCH = 256  # documents that share the reading of the labels' weights
Found = tuple[NDArray[np.int32], NDArray[np.float32]]  # labels and probabilities, each (documents, k)


class AplcNetwork(nn.Module):
    """The call gives the hidden states (documents, hidden) of which `output` makes a loss or the best labels."""

    def __init__(self, encoder: Encoder, clusters: FrequencyClusters, config: AplcConfig) -> None:
        super().__init__()
        self.encoder = encoder
        self.hidden = nn.Linear(encoder.width, config.hidden or encoder.width)
        self.output = AdaptiveClusters(
            clusters,
            self.hidden.out_features,
            config.decay,
            plain_tails=config.tails == "plain",
            root_negatives=config.root_negatives,
            sums=config.loss_mean == "comparisons",
        )
        self.dropout = config.dropout
        nn.init.normal_(self.hidden.weight, std=START_DEVIATION)
        nn.init.zeros_(self.hidden.bias)

    def forward(self, batch: EncoderBatch, rng: DropoutRng | None = None) -> Tensor:
        """Hidden states (documents, hidden)."""
        return self.states(self.encoder(batch, rng), rng)

    def states(self, vectors: Tensor, rng: DropoutRng | None = None) -> Tensor:
        """What the hidden layer makes of the encoder's vectors, (documents, width) -> (documents, hidden)."""
        return dropout(torch.tanh(self.hidden(vectors)), self.dropout, rng)

    def scale_hidden(self, vectors: Tensor) -> None:
        """Scale the hidden layer for such vectors: before tanh, its values deviate by 1 from 0."""
        weight = self.hidden.weight
        with torch.no_grad():
            weight.div_(self.hidden(vectors.to(weight.device)).square().mean().sqrt().clamp(min=SMALLEST))


@dataclass(frozen=True)
class LabelledVectors:
    """Documents as the encoder's vectors (documents, width) in the CPU's memory, and which labels they have."""

    vectors: Tensor
    targets: Csr
    weights: NDArray[np.float32] | None = None  #: in training


@dataclass(frozen=True)
class AplcBatch(Batch):
    """Documents as the encoder reads them, and their labels."""

    texts: EncoderBatch
    targets: ClusterTargets


@dataclass(frozen=True)
class HeadBatch(Batch):
    """Documents as the encoder's vectors, and their labels."""

    vectors: Tensor
    targets: ClusterTargets


class AplcLearner(Learner[AplcNetwork]):
    """The network with its training and validation documents; see `xmtc.nn.learner.Learner`."""

    def __init__(self, network: AplcNetwork, train: LabelledTexts, valid: LabelledTexts) -> None:
        self.network, self.train, self.valid = network, train, valid
        self.lengths, self.valid_targets, self.document_weights = train.texts.lengths, valid.targets, train.weights
        self.divisor = loss_divisor(network.output, train.targets)

    def batch(self, documents: Ints, rng: np.random.Generator) -> AplcBatch:
        """Texts and labels."""
        network, targets = self.network, take_rows(self.train.targets, documents)
        texts = network.encoder.batch(self.train.texts, documents)
        return AplcBatch(texts, ClusterTargets.of(targets, network.output.clusters))

    def loss(self, batch: AplcBatch, worker: Worker) -> Tensor:
        """The mean over the documents, or (eq. 5) over all comparisons."""
        return worker.mean(self.network.output(self.network(batch.texts, worker.rng), batch.targets)) / self.divisor

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        return best_labels(self.network, self.valid.texts, k, cores, "evaluating")[0]


class HeadLearner(Learner[nn.ModuleDict]):
    """The network above the encoder, which learns from vectors that the encoder has made once and for all."""

    def __init__(self, whole: AplcNetwork, train: LabelledVectors, valid: LabelledVectors) -> None:
        self.whole, self.train, self.valid = whole, train, valid
        self.network = nn.ModuleDict({"hidden": whole.hidden, "output": whole.output})
        self.lengths, self.document_weights = np.ones(len(train.vectors), np.int64), train.weights
        self.valid_targets = valid.targets
        self.divisor = loss_divisor(whole.output, train.targets)

    def batch(self, documents: Ints, rng: np.random.Generator) -> HeadBatch:
        """Vectors and labels."""
        targets = ClusterTargets.of(take_rows(self.train.targets, documents), self.whole.output.clusters)
        return HeadBatch(self.train.vectors[torch.from_numpy(documents)], targets)

    def loss(self, batch: HeadBatch, worker: Worker) -> Tensor:
        """The mean over the documents, or (eq. 5) over all comparisons."""
        return (
            worker.mean(self.whole.output(self.whole.states(batch.vectors, worker.rng), batch.targets)) / self.divisor
        )

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        with torch.inference_mode():
            return self.whole.output.top_k(self.whole.states(self.valid.vectors.to(device_of(self.network))), k)[0]


def loss_divisor(output: AdaptiveClusters, targets: Csr) -> float:
    """What the documents' losses are divided by: where these are sums, the mean number of comparisons of a document."""
    if not output.sums:
        return 1.0
    return float(output.comparisons(ClusterTargets.of(targets, output.clusters)).double().mean())


def best_labels(network: AplcNetwork, texts: EncoderTexts, k: int, cores: Cores, what: str = "tagging") -> Found:
    """(labels, probabilities) of the k best labels of each document, best first; -1 and 0 for "no more"."""
    documents = len(texts.tokens)
    ids, scores = np.full((documents, k), -1, np.int32), np.zeros((documents, k), np.float32)
    batches = batches_of(texts)
    ends, device = np.cumsum([0, *map(len, batches)]), device_of(network)

    @torch.inference_mode()
    def read(some: Ints) -> Tensor:
        hidden: Tensor = network(network.encoder.batch(texts, some).to(device))
        return hidden

    with progress(what, len(batches)) as bar:
        first = 0
        while first < len(batches):
            last = max(first + 1, int(ends.searchsorted(ends[first] + READ_BATCH, "right")) - 1)
            states = []
            for hidden in cores.map(read, batches[first:last]):
                states.append(hidden)
                bar.advance()
            rows = np.concatenate(batches[first:last])
            ids[rows], scores[rows] = labels_of(network.output, torch.cat(states), k, cores)
            first = last
    return ids, scores


def labels_of(output: AdaptiveClusters, hidden: Tensor, k: int, cores: Cores) -> Found:
    """The same from hidden states (documents, hidden).

    An encoder reads few documents at once, but here many share the reading of the labels' weights: these may be a
    hundred times as many numbers as the documents have.
    """
    parts = hidden.tensor_split(max(cores.count, -(-len(hidden) // SCORE_BATCH)))
    found = list(cores.map(lambda part: output.top_k(part, k), parts))
    return np.concatenate([ids for ids, _ in found]), np.concatenate([scores for _, scores in found])
