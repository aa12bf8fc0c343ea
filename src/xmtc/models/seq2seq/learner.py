"""Training with the right labels before each step, and the ranking of labels by beam search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from xmtc.models.seq2seq.beam import emission_probabilities
from xmtc.models.seq2seq.network import Seq2SeqNetwork
from xmtc.models.seq2seq.output import Targets
from xmtc.models.seq2seq.sequences import Ints
from xmtc.nn.batching import Batch, by_tokens, padded
from xmtc.nn.datasets import Documents
from xmtc.nn.devices import device_of
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Cores, Worker
from xmtc.progress import progress
from xmtc.text.token_store import TokenStore

PREDICT_BATCH, MAX_NUMBERS = 64, 4_000_000  # documents; documents x beam x (tokens x attention, or labels)


@dataclass(frozen=True)
class Ranker:
    """How a network's probabilities become lists of labels."""

    labels: Ints  #: the label of each symbol
    beam_width: int
    max_labels: int

    def best(
        self, network: Seq2SeqNetwork, tokens: TokenStore, k: int, cores: Cores, what: str = "tagging"
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(labels, probabilities) of the k labels that each document most probably gets; then -1 and 0."""
        from xmtc.kernels.tree_scoring import best_of_groups

        device = device_of(network)
        inner = network.decoder.attention.score.in_features
        most = max(1, MAX_NUMBERS // (self.beam_width * len(self.labels)))
        batches = by_tokens(tokens.lengths, MAX_NUMBERS // (self.beam_width * inner), min(PREDICT_BATCH, most))
        ids, scores = np.full((len(tokens), k), -1, np.int32), np.zeros((len(tokens), k), np.float32)

        def work(documents: Ints) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
            words, lengths = (each.to(device) for each in padded(tokens, documents))
            found = emission_probabilities(network, words, lengths, self.beam_width, self.max_labels).cpu().numpy()
            offsets = np.arange(len(documents) + 1) * len(self.labels)
            each = np.tile(self.labels.astype(np.int32), len(documents))
            return best_of_groups(offsets, each, found.ravel(), k)

        with progress(what, len(batches)) as bar:
            for documents, found in zip(batches, cores.map(work, batches), strict=True):
                ids[documents], scores[documents] = found[0], np.where(found[0] < 0, 0, found[1])
                bar.advance()
        return ids, scores


@dataclass(frozen=True)
class SequenceBatch(Batch):
    """Words and label sequences."""

    ids: Tensor
    lengths: Tensor
    targets: Targets


class Seq2SeqLearner(Learner[Seq2SeqNetwork]):
    """The network with its training and validation documents; see `xmtc.nn.learner.Learner`."""

    def __init__(
        self, network: Seq2SeqNetwork, train: Documents, sequences: TokenStore, valid: Documents, ranker: Ranker
    ) -> None:
        self.network, self.train, self.sequences = network, train, sequences
        self.valid, self.ranker = valid, ranker
        self.lengths, self.valid_targets, self.document_weights = train.tokens.lengths, valid.targets, train.weights

    def batch(self, documents: Ints, rng: np.random.Generator) -> SequenceBatch:
        """Words, and labels in their order."""
        symbols, _ = padded(self.sequences, documents, padding=-1)
        return SequenceBatch(*padded(self.train.tokens, documents), Targets.of(symbols, self.network.output.ends))

    def loss(self, batch: SequenceBatch, worker: Worker) -> Tensor:
        """The negative log-probability of the sequences, the mean over the documents."""
        return worker.mean(self.network.losses(batch.ids, batch.lengths, batch.targets, worker.rng))

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        return self.ranker.best(self.network, self.valid.tokens, k, cores, "evaluating")[0]
