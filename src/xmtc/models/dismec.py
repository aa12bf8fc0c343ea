"""`dismec`: one linear classifier per label, each against all documents that do not have it.

Babbar, Schölkopf: "DiSMEC: Distributed Sparse Machines for Extreme Multi-label Classification", WSDM 2017.

What it does: for each label an L2-regularised squared hinge classifier of "has it" against all other documents; labels
in blocks that are trained side by side; weights below 0.01 are dropped. A document's score for a label is w x + b, for
every label. Nothing is lost to a tree or a beam: accurate, and slower than trees.

Where it differs: dual coordinate descent instead of Newton steps with conjugate gradients; the same problem up to the
bias (see `xmtc.kernels.coordinate_descent`), in a small part of the time. A label that few documents have is trained on
the documents that matter to it, with a proof that all others are right within the tolerance
(`xmtc.kernels.active_documents`); a frequent one, and any with logistic loss, on all documents. A block has labels of
about equal frequency and is kept when it is finished: a killed run resumes with the next one.

`partial_fit` finds for every label the least change of its words' weights that suits the further documents; their new
words get weights too. Biases stay, since the share of a label among some further documents says little about its share
among all: a new label begins at the bias of a rare one, which is "no". `add_labels` trains only labels that are new.

Cost: training grows with labels x documents x words for frequent labels, with the documents that share words with the
label for others; memory and prediction grow with the weights that are not dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr, with_columns
from xmtc.kernels import cores
from xmtc.memory import give_back_memory
from xmtc.models.config import PRUNE, Capabilities, ModelConfig
from xmtc.models.label_classifiers import LabelClassifiers
from xmtc.predictions import ScoreKind
from xmtc.search.label_blocks import NEVER, Block, Classifiers, LabelBlock, by_frequency, train_blocks
from xmtc.search.linear_training import importance_of, linear_weights, memory_of_task, solver_of
from xmtc.search.linear_tree import NO_OFFSETS
from xmtc.search.sparse_index import SparseIndex
from xmtc.seeding import derived_seed
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

REST = -1.0  # score of a label for a document without any of its words: the kernel's own start
WORDS_READ, LEAST_WORK = 150, 1e10  # see `most_positives`


def most_positives(features: Csr, labels: int) -> int:
    """How many documents a label may have to be trained faster on its active documents than on all.

    A search reads the columns of the label's words, which grow with the words of its documents; eight labels together
    read all documents some three times. WORDS_READ is the measured ratio of the two. Where all labels are trained in
    seconds it is not worth compiling the second kernel.

    >>> from scipy.sparse import random_array
    >>> features = random_array((3000, 500), density=0.02, format="csr", rng=0)
    >>> most_positives(features, 1_000_000), most_positives(features, 1000)
    (2, 0)
    """
    if labels * features.nnz < LEAST_WORK:
        return 0
    documents = features.shape[0]
    return int(documents * documents / (WORDS_READ * max(1, features.nnz)))


class DismecConfig(ModelConfig):
    """The classifiers; recipes/dismec/paper has the paper's values."""

    loss: Literal["squared_hinge", "logistic"] = "squared_hinge"
    """Loss of the classifiers: squared_hinge (a linear SVM) or logistic."""
    cost: PositiveFloat = Field(0.4, allow_inf_nan=False)
    """Weight of errors against regularisation (C): higher fits the training documents more closely."""
    bias: PositiveFloat = Field(0.3, allow_inf_nan=False)
    """How freely a classifier's bias moves away from the answer no."""
    tolerance: PositiveFloat = 0.1
    """A classifier is finished when its gradients differ by no more: smaller is more exact and slower."""
    rounds: PositiveInt = 20
    """Passes over all documents for a classifier, at most."""
    smallest_weight: NonNegativeFloat = 0.01
    """Drop weights that are nearer to 0: a smaller and faster model."""
    block: PositiveInt = 1000
    """Labels, at most, that are trained together and kept as one checkpoint."""
    weights: Literal["float32", "float16"] = "float32"
    """How weights are saved: float16 halves the folder."""
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


@dataclass(frozen=True, eq=False)
class TrainLabels:
    """The task of an executor: the classifiers of a block of labels."""

    config: DismecConfig
    features: Csr
    columns: Any  # the features by columns, for labels with few documents; None if there are none
    most: int  # documents of such a label
    documents_of: Any  # documents x labels by columns: how much each positive example counts
    weights: NDArray[np.float32] | None  # of documents
    earlier: Classifiers | None  # that are to be changed

    def __call__(self, block: LabelBlock) -> Block:
        """The weights and biases of the labels."""
        from xmtc.kernels.active_documents import SEARCHES, train_on_active
        from xmtc.kernels.csr import CsrArrays

        own = self.documents_of[:, block.labels]
        positives = own.indptr.astype(np.int64), own.indices.astype(np.int64)
        importance, seed = importance_of(self.weights, own.data), derived_seed(self.config.seed, block.number)
        if self.columns is None or own.indptr[1] > self.most:  # documents of the block's most frequent label
            return self._train_on_all(positives, importance, block.labels, seed)
        matrix = CsrArrays.of(self.features), CsrArrays.of(self.columns)
        found = train_on_active(*matrix, *positives, importance, solver_of(self.config), SEARCHES, seed)
        return found[:4]  # without how many documents were active

    def _train_on_all(self, positives: tuple[Any, Any], importance: Any, labels: NDArray[np.int32], seed: int) -> Block:
        from xmtc.kernels.coordinate_descent import train_node
        from xmtc.kernels.csr import CsrArrays

        solver, offsets = solver_of(self.config), NO_OFFSETS
        if self.earlier is not None:
            known, biases = self.earlier
            scores = (self.features @ known[:, labels]).toarray() + biases[labels]
            offsets = np.ascontiguousarray(scores.T, np.float32)
            solver = solver._replace(smallest_weight=0.0, bias=0.0)
        rows, width = np.arange(self.features.shape[0], dtype=np.int32), self.features.shape[1]
        return train_node(CsrArrays.of(self.features), width, rows, *positives, offsets, importance, solver, seed)


class Dismec(LabelClassifiers):
    """One linear classifier for each label.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> Dismec().fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "dismec"
    capabilities = Capabilities(
        summary="one linear classifier per label, trained on all documents; accurate, a baseline for every network",
        input=frozenset({"text", "features"}),
        score=ScoreKind.RANKING,
        explain=True,
        partial_fit=True,
        weights=frozenset({"documents", "labels"}),
        shrink=PRUNE,
    )
    Config = DismecConfig
    config: DismecConfig

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: counting words; or the documents' matrix by rows and columns, what each core needs, and all weights.

        A core has a copy of the documents and eight labels' weights. A label's weights have the terms of its documents,
        and of some that resemble them; at the end they are turned around, which takes them twice.
        """
        vectors = DocumentVectors(self.config.tfidf)
        terms = vectors.terms_of(corpus)
        shared = terms * corpus.targets.nnz // max(1, len(corpus))
        each = memory_of_task(terms, len(corpus))
        return max(vectors.memory_needed(corpus), 20 * terms + each * cores() + 2 * 8 * shared)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        self.vectors_ = DocumentVectors(self.config.tfidf)
        features = self.vectors_.fit_transform(corpus)
        give_back_memory()
        weights, self.biases_ = self._train(features, corpus, checkpoints)
        self.index_ = SparseIndex(weights)

    def _train(
        self, features: Csr, corpus: Corpus, checkpoints: Checkpoints, earlier: Classifiers | None = None
    ) -> Classifiers:
        """A classifier for each label; or the change to `earlier` ones, but for labels whose bias is NEVER."""
        targets, importance = linear_weights(corpus)
        counts = np.bincount(targets.indices, minlength=targets.shape[1])
        order = by_frequency(counts)
        order = order[counts[order] > 0 if earlier is None else earlier[1][order] != NEVER]
        anew = earlier is None and self.config.loss == "squared_hinge"
        most = most_positives(features, len(order)) if anew else 0
        few = bool(len(order)) and counts[order[-1]] <= most
        columns = features.tocsc() if few else None
        task = TrainLabels(self.config, features, columns, most, targets.tocsc(), importance, earlier)
        shape, memory = (features.shape[1], targets.shape[1]), memory_of_task(features.nnz, features.shape[0])
        return train_blocks(task, order, self.config.block, shape, checkpoints, memory)

    def _partial_fit(self, corpus: Corpus) -> None:
        self._change(corpus, np.zeros(len(corpus.labels), bool))

    def add_labels(self, corpus: Corpus) -> Self:
        """Train the labels of a corpus that this model does not know yet; the others stay exactly as they are.

        The corpus should also have documents without the new labels, so that these can be told apart.
        """
        known = self._fitted()
        self._check_input(corpus)
        aligned = corpus.without_zero_weights().with_labels(known)
        self._change(aligned, np.arange(len(aligned.labels)) < len(known))
        counts = aligned.label_counts
        counts[: len(known)] = known.counts if known.counts is not None else 0
        self.labels_ = aligned.labels.with_counts(counts)
        return self

    def _change(self, corpus: Corpus, fixed: NDArray[np.bool_]) -> None:
        """Change the classifiers of the labels that are not fixed, old or new, as little as further documents need."""
        vectors, features = self.vectors_.extended(corpus, self.train_documents_)
        labels = len(corpus.labels)
        weights = with_columns(self.index_.widened(vectors.width).columns, labels)
        biases = np.pad(self.biases_, (0, labels - len(self.biases_)), constant_values=NEVER)
        # A label without documents so far is as good as new.
        first = (biases == NEVER) & (corpus.label_counts > 0) & ~fixed
        biases = np.where(first, self._first_biases(corpus), biases).astype(np.float32)
        earlier = weights, np.where(fixed, np.float32(NEVER), biases)
        changes, _ = self._train(features, corpus, Checkpoints(None, {}), earlier)
        total = weights + changes
        total.data[np.abs(total.data) < self.config.smallest_weight] = 0
        total.eliminate_zeros()
        # All at once, so that an interrupted update leaves the model as it was.
        index = SparseIndex(make_csr(total.data, total.indices, total.indptr, total.shape))
        self.vectors_, self.index_, self.biases_ = vectors, index, biases

    def _first_biases(self, corpus: Corpus) -> NDArray[np.float32]:
        """What each label would score for documents without any of its words, if all had come with this corpus."""
        if self.config.loss == "squared_hinge":
            return np.full(len(corpus.labels), REST, np.float32)
        counts = corpus.label_counts + 0.5
        odds = counts / (self.train_documents_ + len(corpus) + 1 - counts)
        return np.log(odds).astype(np.float32)
