"""What TReaderXML's network learns from and scores: texts, teacher knowledge, votes; all labels or candidates only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.models.treaderxml.knowledge import TReaderInputs
from xmtc.models.treaderxml.network import TeacherBatch, TReaderNetwork
from xmtc.nn.batching import Ints, by_length, padded
from xmtc.nn.layers import as_tensor, finite
from xmtc.nn.learner import Learner
from xmtc.nn.level import MAX_SCORES, PREDICT_BATCH
from xmtc.nn.parallel import Cores
from xmtc.progress import progress
from xmtc.search.beam import children_of


@dataclass(frozen=True)
class Candidates:
    """Which labels are scored for a document: those of its neighbours, those of the best clusters, or both."""

    neighbours: bool
    clusters: Csr | None  #: clusters x labels
    beam_width: int  #: clusters that are followed
    usual: Ints  #: labels that are scored where there is no candidate: the most frequent ones


class TReaderScorer:
    """A network with the teacher's words, which scores all labels of documents, or candidates."""

    def __init__(self, network: TReaderNetwork, words: NDArray[np.int32], candidates: Candidates | None = None) -> None:
        self.network, self.words, self.candidates = network, words, candidates

    @property
    def labels(self) -> int:
        """Number of labels that it knows."""
        return self.network.output.rows.num_embeddings

    def hidden(
        self,
        inputs: TReaderInputs,
        documents: Ints,
        rng: np.random.Generator | None = None,
        knowledge_dropout: float = 0.0,
    ) -> Tensor:
        """What the network makes of documents, (B, bottleneck)."""
        ids, lengths = padded(inputs.tokens, documents)
        teacher_batch = self.teacher_batch(inputs, documents, rng, knowledge_dropout)
        return self.network.hidden(ids, lengths, teacher_batch, self.encoded(inputs, documents), rng)

    def encoded(self, inputs: TReaderInputs, documents: Ints) -> Tensor | None:
        """The encoder's vectors of documents, (B, width), for a network that sees them."""
        return None if inputs.encoded is None else torch.from_numpy(inputs.encoded[documents])

    def teacher_batch(
        self,
        inputs: TReaderInputs,
        documents: Ints,
        rng: np.random.Generator | None = None,
        knowledge_dropout: float = 0.0,
    ) -> TeacherBatch | None:
        """The teacher knowledge of documents, or None for a reader without a teacher; some is left out in training."""
        if inputs.knowledge is None:
            return None
        rows = take_rows(inputs.knowledge, documents)
        known = rows.data
        if rng is not None and knowledge_dropout:
            known = known * (rng.random(len(known)) >= knowledge_dropout)
        labels, columns = np.unique(rows.indices, return_inverse=True)
        weights = np.zeros((len(documents), len(labels)), np.float32)
        weights[_rows(rows), columns] = known
        words = self.words[labels]
        longest = max(1, int((words > 0).sum(1).max(initial=0)))
        return TeacherBatch(as_tensor(words[:, :longest].astype(np.int64)), torch.from_numpy(weights))

    def chosen(
        self, inputs: TReaderInputs, documents: Ints, hidden: Tensor, relevant: Csr | None = None
    ) -> tuple[Ints, NDArray[np.bool_], Tensor | None]:
        """(all candidates of these documents, whether they are each one's, (B, candidates); scores of clusters).

        In training the `relevant` labels are among them, and the clusters that these are in.
        """
        options = self.candidates
        assert options is not None
        parts = [] if relevant is None else [_rows(relevant) * self.labels + relevant.indices]
        if options.neighbours and inputs.votes is not None:
            for source in (inputs.votes, *([] if inputs.names is None else [inputs.names])):
                some = take_rows(source, documents)
                parts.append(_rows(some) * self.labels + some.indices)
        scores = None
        if options.clusters is not None:
            assert self.network.clusters is not None
            scores = self.network.clusters(hidden)
            nodes = scores.detach().topk(min(options.beam_width, scores.shape[1])).indices.numpy()
            rows = np.repeat(np.arange(len(nodes)), nodes.shape[1])
            sizes, children = children_of(options.clusters, nodes.ravel())
            parts.append(np.repeat(rows, sizes) * self.labels + children)
            if relevant is not None:
                above = (relevant @ options.clusters.T).tocsr()
                sizes, children = children_of(options.clusters, above.indices.astype(np.int64))
                parts.append(np.repeat(_rows(above), sizes) * self.labels + children)
        rows, found = np.divmod(np.unique(np.concatenate(parts).astype(np.int64)), self.labels)
        lacking = np.setdiff1d(np.arange(len(documents)), rows)
        rows = np.concatenate([rows, np.repeat(lacking, len(options.usual))])
        found = np.concatenate([found, np.tile(options.usual, len(lacking))])
        labels, columns = np.unique(found, return_inverse=True)
        own = np.zeros((len(documents), len(labels)), np.bool_)
        own[rows, columns] = True
        return labels, own, scores

    def scores(self, inputs: TReaderInputs, documents: Ints, hidden: Tensor, labels: Ints | None) -> Tensor:
        """Logits of labels, all or some, (B, labels), from what the network made of documents and what is known."""

        def part(known: Csr | None, scale: Tensor | None) -> Tensor | None:
            if scale is None or known is None:
                return None
            return torch.from_numpy(dense_part(take_rows(known, documents), labels))

        network = self.network
        votes, names = part(inputs.votes, network.vote_scale), part(inputs.names, network.name_scale)
        return network.scores(hidden, votes, None if labels is None else as_tensor(labels), names)

    def best(self, inputs: TReaderInputs, k: int, cores: Cores) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(labels, probabilities) of the k best labels of each document; -1 where there are fewer candidates."""
        k = min(k, self.labels)
        ids = np.full((len(inputs), k), -1, np.int32)
        probabilities = np.zeros((len(inputs), k), np.float32)

        def work(documents: Ints) -> tuple[Ints, NDArray[np.float32]]:
            with torch.inference_mode():
                labels, scores = self._scored(inputs, documents)
                top = scores.topk(min(k, scores.shape[1]))
                found = top.indices.numpy() if labels is None else labels[top.indices.numpy()]
                return np.where(top.values.isneginf().numpy(), -1, found), top.values.sigmoid().numpy()

        scored = self.labels if self.candidates is None else 1
        batches = by_length(inputs.tokens.lengths, max(1, min(PREDICT_BATCH, MAX_SCORES // scored)))
        with progress("tagging", len(batches)) as bar:
            for documents, (found, sure) in zip(batches, cores.map(work, batches), strict=True):
                ids[documents, : found.shape[1]] = found
                probabilities[documents, : found.shape[1]] = sure
                bar.advance()
        return ids, probabilities

    def _scored(self, inputs: TReaderInputs, documents: Ints) -> tuple[Ints | None, Tensor]:
        """(labels, None for all; their scores, minus infinity where they are no candidates of a document)."""
        hidden = self.hidden(inputs, documents)
        labels, own = None, None
        if self.candidates is not None:
            labels, own, _ = self.chosen(inputs, documents, hidden)
        scores = self.scores(inputs, documents, hidden, labels)
        scores = finite(scores)
        return labels, scores if own is None else scores.masked_fill(~torch.from_numpy(own), -torch.inf)


class TReaderLearner(Learner[TReaderNetwork]):
    """A scorer with its training and validation documents; see `xmtc.nn.learner.Learner`."""

    def __init__(
        self,
        scorer: TReaderScorer,
        train: TReaderInputs,
        targets: Csr,
        valid: TReaderInputs,
        valid_targets: Csr,
        knowledge_dropout: float = 0.0,
    ) -> None:
        self.scorer, self.network = scorer, scorer.network
        self.train, self.targets = train, targets
        self.valid, self.valid_targets = valid, valid_targets
        self.knowledge_dropout = knowledge_dropout  # the share of the teacher's labels that is left out in each step
        self.lengths = train.tokens.lengths

    def loss(self, documents: Ints, rng: np.random.Generator) -> Tensor:
        """Binary cross-entropy, the mean over all documents and labels (or candidates of any of the documents).

        With clusters, theirs is added, so that a cluster counts as much as a label.
        """
        scorer, relevant = self.scorer, take_rows(self.targets, documents)
        hidden = scorer.hidden(self.train, documents, rng, self.knowledge_dropout)
        labels, of_clusters = None, None
        if scorer.candidates is not None:
            labels, _, of_clusters = scorer.chosen(self.train, documents, hidden, relevant)
        scores = scorer.scores(self.train, documents, hidden, labels)
        loss = functional.binary_cross_entropy_with_logits(scores, torch.from_numpy(dense_part(relevant, labels)))
        if of_clusters is not None:
            assert scorer.candidates is not None and scorer.candidates.clusters is not None
            above = (relevant @ scorer.candidates.clusters.T).toarray() > 0
            further = functional.binary_cross_entropy_with_logits(of_clusters, torch.from_numpy(above).float())
            loss = loss + further * (of_clusters.shape[1] / scores.shape[1])
        return loss

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        return self.scorer.best(self.valid, k, cores)[0]


def dense_part(matrix: Csr, columns: Ints | None) -> NDArray[np.float32]:
    """Some columns (rising) of a few rows, dense; None for all.

    >>> from xmtc.corpus.sparse import make_csr
    >>> rows = make_csr(np.array([3, 5], np.float32), np.array([1, 4]), np.array([0, 2]), (1, 6))
    >>> dense_part(rows, np.array([0, 4])).tolist()
    [[0.0, 5.0]]
    """
    found = np.zeros((matrix.shape[0], matrix.shape[1] if columns is None else len(columns)), np.float32)
    if columns is None:
        found[_rows(matrix), matrix.indices] = matrix.data
    elif len(columns):
        places = np.minimum(np.searchsorted(columns, matrix.indices), len(columns) - 1)
        there = columns[places] == matrix.indices
        found[_rows(matrix)[there], places[there]] = matrix.data[there]
    return found


def _rows(matrix: Csr) -> Ints:
    """The row of each entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
