"""What TReaderXML's network learns from and scores: texts, teacher knowledge, votes; all labels or candidates only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.models.treaderxml.knowledge import TReaderInputs
from xmtc.models.treaderxml.network import TeacherBatch, TReaderNetwork
from xmtc.nn.batching import Batch, Entries, Ints, by_length, padded
from xmtc.nn.devices import device_of
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.layers import finite
from xmtc.nn.learner import Learner
from xmtc.nn.level import MAX_SCORES, PREDICT_BATCH
from xmtc.nn.parallel import Cores, Worker
from xmtc.progress import progress
from xmtc.search.beam import children_of


@dataclass(frozen=True)
class Candidates:
    """Which labels are scored for a document: those of its neighbours, those of the best clusters, or both."""

    neighbours: bool
    clusters: Csr | None  #: clusters x labels
    beam_width: int  #: clusters that are followed
    usual: Ints  #: labels that are scored where there is no candidate: the most frequent ones


@dataclass(frozen=True)
class TReaderBatch(Batch):
    """Documents as the network reads them, and what is added to their labels' scores."""

    ids: Tensor  #: (B, n)
    lengths: Tensor  #: (B,)
    teacher: TeacherBatch | None  #: None for a network without a teacher
    encoded: Tensor | None  #: (B, width): the encoder's vectors, for a network that sees them
    votes: Entries | None
    names: Entries | None


class TReaderScorer:
    """A network with the teacher's words, which scores all labels of documents, or candidates."""

    def __init__(
        self,
        network: TReaderNetwork,
        words: NDArray[np.int32],
        candidates: Candidates | None = None,
        softmax: bool = False,
    ) -> None:
        self.network, self.words, self.candidates = network, words, candidates
        self.softmax = softmax  # whether a label's probability is its share of all labels scored

    @property
    def labels(self) -> int:
        """Number of labels that it knows."""
        return self.network.output.rows.num_embeddings

    def batch(
        self,
        inputs: TReaderInputs,
        documents: Ints,
        rng: np.random.Generator | None = None,
        knowledge_dropout: float = 0.0,
    ) -> TReaderBatch:
        """Documents as tensors, in the CPU's memory."""

        def part(known: Csr | None, scale: Tensor | None) -> Entries | None:
            return None if scale is None or known is None else Entries.of(take_rows(known, documents))

        ids, lengths = padded(inputs.tokens, documents)
        return TReaderBatch(
            ids,
            lengths,
            self.teacher_batch(inputs, documents, rng, knowledge_dropout),
            None if inputs.encoded is None else torch.from_numpy(inputs.encoded[documents]),
            part(inputs.votes, self.network.vote_scale),
            part(inputs.names, self.network.name_scale),
        )

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
        known = rows.data != 0
        if rng is not None and knowledge_dropout:
            known &= rng.random(len(known)) >= knowledge_dropout
        labels, columns = np.unique(rows.indices[known], return_inverse=True)
        weights = np.zeros((len(documents), len(labels)), np.float32)
        weights[_rows(rows)[known], columns] = rows.data[known]
        words = self.words[labels]
        longest = max(1, int((words > 0).sum(1).max(initial=0)))
        return TeacherBatch(torch.from_numpy(words[:, :longest].astype(np.int64)), torch.from_numpy(weights))

    def hidden(self, batch: TReaderBatch, rng: DropoutRng | None = None) -> Tensor:
        """What the network makes of documents, (B, bottleneck)."""
        return self.network.hidden(batch.ids, batch.lengths, batch.teacher, batch.encoded, rng)

    def scores(self, batch: TReaderBatch, hidden: Tensor, labels: Tensor | None = None) -> Tensor:
        """Logits of labels, all or some (rising), (B, labels), from what the network made of documents."""
        votes, names = (
            None if known is None else dense_part(known, self.labels, labels) for known in (batch.votes, batch.names)
        )
        return self.network.scores(hidden, votes, labels, names)

    def best_clusters(self, scores: Tensor) -> Tensor:
        """The clusters that are followed, (B, at most `beam_width`), from the scores of all."""
        assert self.candidates is not None
        return scores.detach().topk(min(self.candidates.beam_width, scores.shape[1])).indices

    def pairs(
        self, inputs: TReaderInputs, documents: Ints, followed: tuple[Ints, Ints], relevant: Csr | None = None
    ) -> tuple[Ints, Ints]:
        """(rows, labels): which labels are candidates of which of these documents; some pairs more than once.

        `followed` are (rows, clusters). In training the `relevant` labels are candidates, and the network has yet to
        say which clusters it follows: so no document need be without candidates, if there are clusters.
        """
        options = self.candidates
        assert options is not None
        sources = [] if relevant is None else [relevant]
        if options.neighbours:
            sources += [take_rows(each, documents) for each in (inputs.votes, inputs.names) if each is not None]
        rows, labels = [_rows(each) for each in sources], [each.indices for each in sources]
        if options.clusters is not None:
            sizes, children = children_of(options.clusters, followed[1])
            rows.append(np.repeat(followed[0], sizes))
            labels.append(children)
        if relevant is None or options.clusters is None:
            lacking = np.setdiff1d(np.arange(len(documents)), np.concatenate(rows))
            rows.append(np.repeat(lacking, len(options.usual)))
            labels.append(np.tile(options.usual, len(lacking)))
        return np.concatenate(rows), np.concatenate(labels).astype(np.int64)

    def chosen(self, inputs: TReaderInputs, documents: Ints, hidden: Tensor) -> tuple[Ints, NDArray[np.bool_]]:
        """(all candidates of these documents, rising; whether they are each one's, (B, candidates))."""
        followed = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if self.network.clusters is not None:
            nodes = self.best_clusters(self.network.clusters(hidden)).cpu().numpy()
            followed = np.repeat(np.arange(len(nodes)), nodes.shape[1]), nodes.ravel()
        rows, found = self.pairs(inputs, documents, followed)
        labels, columns = np.unique(found, return_inverse=True)
        own = np.zeros((len(documents), len(labels)), np.bool_)
        own[rows, columns] = True
        return labels, own

    def best(self, inputs: TReaderInputs, k: int, cores: Cores) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(labels, probabilities) of the k best labels of each document; -1 where there are fewer candidates."""
        k = min(k, self.labels)
        ids = np.full((len(inputs), k), -1, np.int32)
        probabilities = np.zeros((len(inputs), k), np.float32)

        def work(documents: Ints) -> tuple[Ints, NDArray[np.float32]]:
            with torch.inference_mode():
                labels, scores = self._scored(inputs, documents)
                top = scores.topk(min(k, scores.shape[1]))
                places, values = top.indices.cpu().numpy(), top.values.cpu()
                found = places if labels is None else labels[places]
                all_of_them = scores.logsumexp(1, keepdim=True).cpu()
                sure = (values - all_of_them).exp() if self.softmax else values.sigmoid()
                return np.where(values.isneginf().numpy(), -1, found), sure.numpy()

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
        device = device_of(self.network)
        batch = self.batch(inputs, documents).to(device)
        hidden = self.hidden(batch)
        if self.candidates is None:
            return None, finite(self.scores(batch, hidden))
        labels, own = self.chosen(inputs, documents, hidden)
        scores = finite(self.scores(batch, hidden, torch.from_numpy(labels).to(device)))
        return labels, scores.masked_fill(~torch.from_numpy(own).to(device), -torch.inf)


@dataclass(frozen=True)
class TReaderTrainingBatch(Batch):
    """Documents with their labels, and what else is known about candidates before the network has read them."""

    shared: ClassVar[frozenset[str]] = frozenset({"labels"})

    texts: TReaderBatch
    relevant: Entries
    labels: Tensor | None  #: candidates of any of the documents; None if all labels are scored
    clusters: Entries | None  #: those that the relevant labels are in, if clusters are scored


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
        sum_over_labels: bool = False,
    ) -> None:
        self.scorer, self.network = scorer, scorer.network
        self.train, self.targets = train, targets
        self.valid, self.valid_targets = valid, valid_targets
        self.knowledge_dropout = knowledge_dropout  # the share of the teacher's labels that is left out in each step
        self.sum_over_labels = sum_over_labels  # else the loss is a mean over labels too
        self.lengths = train.tokens.lengths
        if scorer.candidates is not None and scorer.candidates.clusters is not None:
            # It goes where the network goes, and is not saved with it.
            self.network.register_buffer("members", _members(scorer.candidates.clusters), persistent=False)

    def batch(self, documents: Ints, rng: np.random.Generator) -> TReaderTrainingBatch:
        """See `Learner`."""
        scorer, relevant = self.scorer, take_rows(self.targets, documents)
        texts = scorer.batch(self.train, documents, rng, self.knowledge_dropout)
        labels = clusters = None
        if scorer.candidates is not None:
            followed = np.zeros(0, np.int64), np.zeros(0, np.int64)
            if scorer.candidates.clusters is not None:
                above: Csr = (relevant @ scorer.candidates.clusters.T).tocsr()
                above.data = np.ones(above.nnz, np.float32)
                clusters = Entries.of(above)
                followed = _rows(above), above.indices.astype(np.int64)
            labels = torch.from_numpy(np.unique(scorer.pairs(self.train, documents, followed, relevant)[1]))
        return TReaderTrainingBatch(texts, Entries.of(relevant), labels, clusters)

    def loss(self, batch: TReaderTrainingBatch, worker: Worker) -> Tensor:
        """Binary cross-entropy, the mean over all documents and labels (or candidates of any of the documents).

        Over labels it is the sum, if that was chosen. Of softmaxed scores it is the paper's eqs. 18 and 19 as printed.

        With clusters, theirs is added, so that a cluster counts as much as a label.
        """
        scorer, network = self.scorer, self.network
        hidden = scorer.hidden(batch.texts, worker.rng)
        labels, of_clusters = batch.labels, None
        if network.clusters is not None:
            of_clusters = network.clusters(hidden).float()
            labels = self.candidates(batch, of_clusters, worker)
        scores = scorer.scores(batch.texts, hidden, labels).float()  # also where it computes with fewer digits
        if scorer.softmax:
            scores = scores.softmax(1)
        wanted = dense_part(batch.relevant, scorer.labels, labels)
        loss = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum")
        if of_clusters is not None and batch.clusters is not None:
            above = dense_part(batch.clusters, of_clusters.shape[1])
            loss = loss + functional.binary_cross_entropy_with_logits(of_clusters, above, reduction="sum")
        return loss / (worker.documents * (1 if self.sum_over_labels else scores.shape[1]))

    def candidates(self, batch: TReaderTrainingBatch, of_clusters: Tensor, worker: Worker) -> Tensor:
        """The labels that are scored, rising: those that are known, and all of the best clusters of any document."""
        assert batch.labels is not None
        nodes = worker.gather(self.scorer.best_clusters(of_clusters))
        scored = torch.zeros(self.scorer.labels + 1, dtype=torch.bool, device=nodes.device)
        scored[batch.labels] = True
        scored[self.network.members[nodes]] = True
        # Once in a step the CPU has to wait for a device: it cannot know by itself how many candidates there are.
        return scored[:-1].nonzero()[:, 0]

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        return self.scorer.best(self.valid, k, cores)[0]


def dense_part(entries: Entries, width: int, columns: Tensor | None = None) -> Tensor:
    """Some columns (rising) of sparse rows, which have `width` of them, dense; None for all.

    >>> from xmtc.corpus.sparse import make_csr
    >>> rows = make_csr(np.array([3, 5], np.float32), np.array([1, 4]), np.array([0, 2]), (1, 6))
    >>> dense_part(Entries.of(rows), 6, torch.tensor([0, 4])).tolist()
    [[0.0, 5.0]]
    """
    places, values = entries.columns, entries.values
    if columns is not None:
        width = len(columns)
        if not width:
            return values.new_zeros(entries.count, 0)
        places = torch.searchsorted(columns, entries.columns).clamp(max=width - 1)
        values = values * (columns[places] == entries.columns)  # what is in no such column adds nothing to another one
    found = values.new_zeros(entries.count * width)
    return found.index_add_(0, entries.rows * width + places, values).view(entries.count, width)


def _members(clusters: Csr) -> Tensor:
    """(clusters, most labels of one): the labels of each cluster, then the number of all labels."""
    sizes = np.diff(clusters.indptr)
    labels = np.full((clusters.shape[0], sizes.max(initial=0)), clusters.shape[1])
    labels[np.arange(labels.shape[1]) < sizes[:, None]] = clusters.indices
    return torch.from_numpy(labels)


def _rows(matrix: Csr) -> Ints:
    """The row of each entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
