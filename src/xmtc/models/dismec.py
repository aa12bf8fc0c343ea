"""`dismec`: one linear classifier per label, each trained on all documents.

Babbar, Schölkopf: "DiSMEC: Distributed Sparse Machines for Extreme Multi-label Classification", WSDM 2017.

What it does: for each label an L2-regularised squared hinge classifier of "has it" against all other documents; labels
in blocks that are trained side by side; weights below 0.01 are dropped. A document's score for a label is w x + b, for
every label. Nothing is lost to a tree or a beam: the most accurate of the linear methods here, and the slowest.

Where it differs: dual coordinate descent instead of Newton steps with conjugate gradients; the same problem up to the
bias (see `xmtc.kernels.coordinate_descent`), in a small part of the time. A block has labels of about equal frequency
and is kept when it is finished: a killed run resumes with the next one. `partial_fit` finds for every label the least
change of its classifier that suits the further documents; `add_labels` trains only labels that are new.

Cost: training grows with labels x documents x words; memory and prediction with the weights that are not dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from scipy.sparse import csc_array

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr, with_columns
from xmtc.kernels import cores, in_threads
from xmtc.memory import give_back_memory
from xmtc.models.base import Capabilities, Model, ModelConfig
from xmtc.models.explanation import Explanation, strongest, words_of
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import progress
from xmtc.search.linear_training import solver_of
from xmtc.search.linear_tree import NO_OFFSETS
from xmtc.search.sparse_index import SparseIndex
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings
from xmtc.text.token_store import offsets_of

NEVER = -10.0  # score of a label that no document has: below any other
BLOCKS_A_CORE = 8  # at least, so that no core waits long for the last block of another


class DismecConfig(ModelConfig):
    """The classifiers; recipes/dismec/paper.yaml has the paper's values."""

    loss: Literal["squared_hinge", "logistic"] = "squared_hinge"
    cost: PositiveFloat = Field(0.4, allow_inf_nan=False)
    bias: PositiveFloat = Field(0.3, allow_inf_nan=False)
    tolerance: PositiveFloat = 0.1
    rounds: PositiveInt = 20
    smallest_weight: NonNegativeFloat = 0.01
    block: PositiveInt = 1000
    weights: Literal["float32", "float16"] = "float32"
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


class Dismec(Model):
    """One linear classifier for each label.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> Dismec().fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "dismec"
    capabilities = Capabilities(
        summary="one linear classifier per label, trained on all documents; the most accurate of the linear methods",
        input=frozenset({"text", "features"}),
        score=ScoreKind.RANKING,
        explain=True,
        partial_fit=True,
    )
    Config = DismecConfig
    config: DismecConfig

    vectors_: DocumentVectors
    index_: SparseIndex  # features x labels
    biases_: NDArray[np.float32]

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the documents' matrix, a copy and eight labels' weights for each core, and all weights twice.

        A label's weights have the terms of its documents, and of some that resemble them.
        """
        vectors = DocumentVectors(self.config.tfidf)
        terms = vectors.terms_of(corpus)
        shared = terms * corpus.targets.nnz // max(1, len(corpus))
        return vectors.memory_needed(corpus) + 12 * terms * cores() + 64 * terms // 10 * cores() + 2 * 16 * shared

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        self.vectors_ = DocumentVectors(self.config.tfidf)
        features = self.vectors_.fit_transform(corpus)
        give_back_memory()
        weights, self.biases_ = self._train(features, corpus.targets, checkpoints)
        self.index_ = SparseIndex(weights)

    def _train(self, features: Csr, targets: Csr, checkpoints: Checkpoints, earlier: bool = False) -> Classifiers:
        """A classifier for each label; or, if there are `earlier` ones, the change to them."""
        counts = np.bincount(targets.indices, minlength=targets.shape[1])
        # Labels that are about equally frequent take about equally long; the long ones first.
        order = np.argsort(-counts, kind="stable").astype(np.int32)
        if not earlier:
            order = order[counts[order] > 0]
        size = min(self.config.block, max(8, -(-len(order) // (BLOCKS_A_CORE * cores()))))
        blocks = [order[start : start + size] for start in range(0, len(order), size)]
        documents_of = targets.tocsc()
        with progress("training classifiers", len(order)) as bar:

            def train(at: int) -> Mapping[str, NDArray[Any]]:
                found = checkpoints.get(f"block{at}")
                if found is None:
                    found = self._train_block(features, documents_of, blocks[at], at, earlier)
                    checkpoints.put(f"block{at}", found)
                bar.advance(len(blocks[at]))
                return found

            parts = in_threads(train, range(len(blocks)))
        biases = np.full(targets.shape[1], 0.0 if earlier else NEVER, np.float32)
        biases[order] = np.concatenate([np.zeros(0, np.float32), *(part["biases"] for part in parts)])
        ends = offsets_of(np.concatenate([np.zeros(0, np.int64), *(np.diff(part["ends"]) for part in parts)]))
        terms = np.concatenate([np.zeros(0, np.int32), *(part["features"] for part in parts)])
        weights = np.concatenate([np.zeros(0, np.float32), *(part["weights"] for part in parts)])
        del parts
        by_feature = csc_array((weights, terms, ends), shape=(features.shape[1], len(order))).tocsr()
        shape = (features.shape[1], targets.shape[1])
        matrix = make_csr(by_feature.data, order[by_feature.indices], by_feature.indptr, shape)
        matrix.sort_indices()
        return matrix, biases

    def _train_block(
        self, features: Csr, documents_of: Any, labels: NDArray[np.int32], at: int, earlier: bool
    ) -> dict[str, NDArray[Any]]:
        from xmtc.kernels.coordinate_descent import train_node
        from xmtc.kernels.csr import CsrArrays

        config, solver = self.config, solver_of(self.config)
        own, offsets = documents_of[:, labels], NO_OFFSETS
        if earlier:
            scores = (features @ self.index_.columns[:, labels]).toarray() + self.biases_[labels]
            offsets = np.ascontiguousarray(scores.T, np.float32)
            solver = solver._replace(smallest_weight=0.0)
        rows, width = np.arange(features.shape[0], dtype=np.int32), features.shape[1]
        positives = own.indptr.astype(np.int64), own.indices.astype(np.int64)
        seed = derived_seed(config.seed, at)
        trained = train_node(CsrArrays.of(features), width, rows, *positives, offsets, solver, seed)
        return dict(zip(("ends", "features", "weights", "biases"), trained, strict=True))

    def _partial_fit(self, corpus: Corpus) -> None:
        known, targets = len(self._fitted()), corpus.targets
        self._widen(targets.shape[1])
        features = self.vectors_.transform(corpus)
        # A label without documents so far has no classifier to change: it is trained like a new one.
        has_one = (self.biases_ != NEVER) & (np.arange(len(self.biases_)) < known)
        changes, bias_changes = self._train(features, _only(targets, has_one), Checkpoints(None, {}), earlier=True)
        self._merge(changes, np.where(has_one, bias_changes, 0))
        self._add(features, targets, ~has_one)

    def add_labels(self, corpus: Corpus) -> Self:
        """Train the labels of a corpus that this model does not know yet; the others stay exactly as they are.

        The corpus should also have documents without the new labels, so that these can be told apart.
        """
        labels = self._fitted()
        self._check_input(corpus)
        aligned = corpus.with_labels(labels)
        new = np.arange(len(aligned.labels)) >= len(labels)
        self._widen(len(new))
        self._add(self.vectors_.transform(aligned), aligned.targets, new)
        counts = aligned.label_counts
        counts[: len(labels)] = labels.counts if labels.counts is not None else 0
        self.labels_ = aligned.labels.with_counts(counts)
        return self

    def _widen(self, labels: int) -> None:
        """Make room for new labels, which have no classifiers yet."""
        self.index_ = SparseIndex(with_columns(self.index_.columns, labels))
        self.biases_ = np.concatenate([self.biases_, np.full(labels - len(self.biases_), NEVER, np.float32)])

    def _add(self, features: Csr, targets: Csr, new: NDArray[np.bool_]) -> None:
        """Train the labels that are new."""
        weights, biases = self._train(features, _only(targets, new), Checkpoints(None, {}))
        self._merge(weights, np.where(new, biases - self.biases_, 0))

    def _merge(self, changes: Csr, bias_changes: NDArray[np.float32]) -> None:
        """Add to the classifiers, and drop weights that have become too small."""
        total = self.index_.columns + changes
        total.data[np.abs(total.data) < self.config.smallest_weight] = 0
        total.eliminate_zeros()
        self.index_ = SparseIndex(make_csr(total.data, total.indices, total.indptr, total.shape))
        self.biases_ = (self.biases_ + bias_changes).astype(np.float32)

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        ids, scores = self.index_.nearest(self.vectors_.transform(corpus), k, self.biases_)
        return Predictions(ids, scores, self._fitted(), self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        """A score is the sum over the text's words of weight x value, and the label's bias."""
        query, words = words_of(self.name, self.vectors_, text)
        parts = self.index_.shared(query, np.array([label], np.int32)).toarray()[:, 0]
        bias = float(self.biases_[label])
        start = "no document had this label" if bias == NEVER else f"without any of its words the score is {bias:.3f}"
        return Explanation(self._fitted().name(label), float(parts.sum()) + bias, strongest(words, parts), (start,))

    def _save(self, folder: FolderWriter) -> None:
        self.vectors_.save(folder)
        folder.matrix("weights", self.index_.columns, half=self.config.weights == "float16")
        folder.arrays("biases", {"biases": self.biases_})

    def _load(self, folder: FolderReader) -> None:
        self.vectors_ = DocumentVectors.load(folder, self.config.tfidf)
        labels = len(self._fitted())
        self.index_ = SparseIndex(folder.matrix("weights", (self.vectors_.width, labels)))
        with folder.building("biases"):
            self.biases_ = folder.arrays("biases")["biases"]
            if self.biases_.dtype != np.float32 or self.biases_.shape != (labels,):
                raise ValueError(f"there are {self.biases_.shape} biases of {self.biases_.dtype} for {labels} labels")


#: Weights, features x labels, and a bias for each label
Classifiers = tuple[Csr, NDArray[np.float32]]


def _only(targets: Csr, wanted: NDArray[np.bool_]) -> Csr:
    """The label matrix without entries in the columns of other labels."""
    only = targets.copy()
    only.data *= wanted[only.indices]
    only.eliminate_zeros()
    return only
