"""One level of a label tree as something to learn: candidates, loss, and the step of the search through it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.nn.batching import Batch, Entries, Ints, by_length, padded
from xmtc.nn.datasets import Documents
from xmtc.nn.devices import device_of
from xmtc.nn.layers import as_tensor, finite
from xmtc.nn.learner import Learner
from xmtc.nn.metrics import is_relevant
from xmtc.nn.parallel import Cores, Worker
from xmtc.progress import progress
from xmtc.search.beam import children_of, descend, pairs
from xmtc.text.token_store import TokenStore

PREDICT_BATCH = 64  # documents scored at a time, fewer where each has very many scores
MAX_SCORES = 4_000_000
SAMPLED_FOR_SHARE = 10_000


@dataclass(frozen=True)
class Beam:
    """For each document the nodes of a level that are followed, -1 where there are fewer, and log-probabilities."""

    nodes: NDArray[np.int32]
    scores: NDArray[np.float32]

    @classmethod
    def at_root(cls, documents: int) -> Beam:
        """Before the first level every document is at the root.

        >>> Beam.at_root(2).nodes.tolist()
        [[0], [0]]
        """
        return cls(np.zeros((documents, 1), np.int32), np.zeros((documents, 1), np.float32))

    def with_positives(self, targets: Csr, width: int) -> Beam:
        """For training: all relevant nodes first, then the best others, `width` in all; scores are not kept.

        Of more relevant nodes than that, the ones that were found come first.

        >>> from xmtc.corpus.sparse import make_csr
        >>> relevant = make_csr(np.ones(1, np.float32), np.array([7]), np.array([0, 1]), (1, 9))
        >>> Beam(np.array([[3, 5]], np.int32), np.zeros((1, 2), np.float32)).with_positives(relevant, 2).nodes.tolist()
        [[7, 3]]
        """
        nodes = np.full((len(self.nodes), width), -1, np.int32)
        for row, found in enumerate(self.nodes):
            relevant = targets.indices[targets.indptr[row] : targets.indptr[row + 1]]
            is_hit = np.isin(found, relevant)
            missed = np.setdiff1d(relevant, found, assume_unique=True)
            irrelevant = found[~is_hit & (found >= 0)]
            chosen = np.concatenate([found[is_hit], missed, irrelevant])[:width]
            nodes[row, : len(chosen)] = chosen
        return Beam(nodes, np.zeros(nodes.shape, np.float32))

    def recall(self, targets: Csr) -> float:
        """The share of the documents' relevant nodes that the beam holds: the rest is lost to the levels below.

        >>> from xmtc.corpus.sparse import make_csr
        >>> relevant = make_csr(np.ones(3, np.float32), np.array([5, 7, 8]), np.array([0, 2, 3]), (2, 9))
        >>> round(Beam(np.array([[3, 5], [1, -1]], np.int32), np.zeros((2, 2), np.float32)).recall(relevant), 3)
        0.333
        """
        held = is_relevant(targets, np.maximum(self.nodes, 0)) & (self.nodes >= 0)
        return float(np.count_nonzero(held) / max(1, targets.nnz))


def children_scores(
    network: nn.Module, level: Csr, tokens: TokenStore, documents: Ints, rows: Ints, nodes: Ints, quantized: bool
) -> NDArray[np.float32]:
    """Log-probabilities of the children of nodes[i] for documents[rows[i]], one after the other; sorted by row.

    `quantized` is for networks that can predict with int8, and counts on a CPU alone.
    """
    device = device_of(network)
    options = {"quantized": True} if quantized and device.type == "cpu" else {}
    with torch.inference_mode():
        inputs = [part.to(device) for part in padded(tokens, documents)]
        if level.shape[0] == 1:  # all nodes are children of the root
            logits = network(*inputs, **options)[:, as_tensor(level.indices.astype(np.int64)).to(device)].flatten()
        else:
            sizes, children = children_of(level, nodes)
            each = np.bincount(rows, sizes, minlength=len(documents)).astype(np.int64)
            inside = np.arange(each.max(initial=1)) < each[:, None]
            candidates = np.zeros(inside.shape, np.int64)
            candidates[inside] = children
            logits = network(*inputs, torch.from_numpy(candidates).to(device), **options).cpu()[as_tensor(inside)]
        scores: NDArray[np.float32] = functional.logsigmoid(finite(logits.float())).cpu().numpy()
        return scores


def expand_beam(
    network: nn.Module,
    level: Csr,
    tokens: TokenStore,
    above: Beam,
    width: int,
    cores: Cores,
    name: str = "tagging",
    quantized: bool = False,
) -> Beam:
    """The `width` best children of the nodes that each document has reached."""
    result = Beam(np.full((len(tokens), width), -1, np.int32), np.full((len(tokens), width), -np.inf, np.float32))

    def work(documents: Ints) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        rows, nodes, so_far = pairs(above.nodes[documents], above.scores[documents])
        values = children_scores(network, level, tokens, documents, rows, nodes, quantized)
        return descend(level, values, rows, nodes, so_far, len(documents), width)

    scored = level.shape[1] if level.shape[0] == 1 else 1
    batches = by_length(tokens.lengths, max(1, min(PREDICT_BATCH, MAX_SCORES // scored)))
    with progress(name, len(batches)) as bar:
        for documents, (ids, scores) in zip(batches, cores.map(work, batches), strict=True):
            result.nodes[documents], result.scores[documents] = ids, scores
            bar.advance()
    return result


@dataclass(frozen=True)
class LevelBatch(Batch):
    """Documents with the labels that they have, or with candidates and whether they have these."""

    ids: Tensor
    lengths: Tensor
    relevant: Entries | None = None
    candidates: Tensor | None = None  #: (documents, candidates)
    is_relevant: Tensor | None = None  #: the same shape, 1 or 0


class LevelLearner(Learner[nn.Module]):
    """A level's network with its training and validation documents; see `xmtc.nn.learner.Learner`.

    On the first level every node is scored; further down only candidates: the children of the nodes in `beam`.
    """

    def __init__(
        self,
        network: nn.Module,
        level: Csr,
        train: Documents,
        beam: Beam,
        valid: Documents,
        valid_beam: Beam,
        quantized: bool = False,
    ) -> None:
        self.network, self.level, self.first = network, level, level.shape[0] == 1
        self.quantized = quantized  # whether validation documents are tagged with int8
        self.train, self.beam = train, beam
        self.valid, self.valid_beam = valid, valid_beam
        self.lengths, self.valid_targets, self.document_weights = train.tokens.lengths, valid.targets, train.weights
        self._largest = int(np.diff(level.indptr).max(initial=0))

    def share_of_positives(self) -> float:
        """Which share of what is scored is right, as far as a sample tells."""
        documents = np.arange(min(len(self.train.tokens), SAMPLED_FOR_SHARE))
        if self.first:
            return float(take_rows(self.train.targets, documents).nnz / (len(documents) * self.level.shape[1]))
        rng = np.random.default_rng(0)
        found = [self.candidates(part, rng)[1].mean() for part in np.array_split(documents, len(documents) // 500 + 1)]
        return float(np.mean(found))

    def candidates(self, documents: Ints, rng: np.random.Generator) -> tuple[Ints, NDArray[np.float32]]:
        """(candidates, whether they are right), each (documents, width): children of followed nodes, then random ones.

        A child that is drawn at random may be a relevant one; its target says so.
        """
        width = self.beam.nodes.shape[1] * self._largest
        total = self.level.shape[1]
        rows, nodes, _ = pairs(self.beam.nodes[documents], self.beam.scores[documents])
        sizes, children = children_of(self.level, nodes)
        each = np.bincount(rows, sizes, minlength=len(documents)).astype(np.int64)
        chosen = rng.integers(0, total, (len(documents), width))
        chosen[np.arange(width) < each[:, None]] = children
        return chosen, is_relevant(take_rows(self.train.targets, documents), chosen).astype(np.float32)

    def batch(self, documents: Ints, rng: np.random.Generator) -> LevelBatch:
        """Words, and labels or candidates."""
        words = padded(self.train.tokens, documents)
        if self.first:
            return LevelBatch(*words, relevant=Entries.of(take_rows(self.train.targets, documents)))
        chosen, relevant = self.candidates(documents, rng)
        return LevelBatch(*words, candidates=torch.from_numpy(chosen), is_relevant=torch.from_numpy(relevant))

    def loss(self, batch: LevelBatch, worker: Worker) -> Tensor:
        """Binary cross-entropy, the mean over all documents and labels (or candidates)."""
        logits: Tensor = self.network(batch.ids, batch.lengths, batch.candidates, worker.rng)
        wanted = batch.is_relevant
        if wanted is None:
            assert batch.relevant is not None
            wanted = torch.zeros_like(logits)
            wanted[batch.relevant.rows, batch.relevant.columns] = 1
        entropy = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")
        return entropy / (worker.documents * logits.shape[1])

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        network, level, tokens = self.network, self.level, self.valid.tokens
        return expand_beam(network, level, tokens, self.valid_beam, k, cores, "evaluating", self.quantized).nodes
