"""What ProXML and PPD-Sparse share: each label is trained by itself, on all documents by rows and by columns."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.kernels import cores
from xmtc.memory import give_back_memory
from xmtc.models.label_classifiers import LabelClassifiers
from xmtc.search.label_blocks import Block, LabelBlock, by_frequency, train_blocks
from xmtc.search.linear_training import importance_of, linear_weights
from xmtc.search.sparse_index import SparseIndex
from xmtc.seeding import derived_seed
from xmtc.text.document_features import DocumentVectors

Pair = tuple[Any, Any]


class LabelSolver(Protocol):
    """Finds the classifiers of some labels, with a method's kernel and its settings."""

    def __call__(self, matrix: Pair, positives: Pair, importance: Any, seed: int) -> Block:
        """From documents by rows and by columns, and the labels' (ends, documents)."""


@dataclass(frozen=True, eq=False)
class TrainLabels:
    """The task of an executor: the classifiers of a block of labels."""

    solve: LabelSolver
    features: Csr
    columns: Any  # the features by columns
    documents_of: Any  # documents x labels by columns: how much each positive example counts
    weights: NDArray[np.float32] | None  # of documents
    seed: int

    def __call__(self, block: LabelBlock) -> Block:
        """The weights and biases of the labels."""
        from xmtc.kernels.csr import CsrArrays

        own = self.documents_of[:, block.labels]
        positives = own.indptr.astype(np.int64), own.indices.astype(np.int64)
        matrix = CsrArrays.of(self.features), CsrArrays.of(self.columns)
        importance = importance_of(self.weights, own.data)
        return self.solve(matrix, positives, importance, derived_seed(self.seed, block.number))


def memory_of_task(terms: int, documents: int) -> int:
    """Bytes that a block takes: numbers for all documents and terms."""
    return 50 * documents + 40 * terms // 10


class SeparableClassifiers(LabelClassifiers):
    """A classifier for each label that has documents, in blocks of labels of about the same frequency."""

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the documents' matrix twice, each core's numbers for all documents and terms, and all weights twice.

        A label's weights have, at most, about the terms of its documents.
        """
        vectors = DocumentVectors(self.config.tfidf)
        terms = vectors.terms_of(corpus)
        shared = terms * corpus.targets.nnz // max(1, len(corpus))
        each = memory_of_task(terms, len(corpus))
        return vectors.memory_needed(corpus) + 8 * terms + each * cores() + 16 * shared

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        self.vectors_ = DocumentVectors(self.config.tfidf)
        features = self.vectors_.fit_transform(corpus)
        columns = features.tocsc()
        give_back_memory()
        targets, weights = linear_weights(corpus)
        targets, weights = self._weighted(corpus, targets, weights)
        order = by_frequency(corpus.label_counts)
        order = order[corpus.label_counts[order] > 0]
        task = TrainLabels(self._solver(), features, columns, targets.tocsc(), weights, self.config.seed)
        shape, memory = (features.shape[1], targets.shape[1]), memory_of_task(features.nnz, features.shape[0])
        matrix, self.biases_ = train_blocks(task, order, self.config.block, shape, checkpoints, memory)
        self.index_ = SparseIndex(matrix)

    def _weighted(self, corpus: Corpus, targets: Any, weights: Any) -> tuple[Any, Any]:
        """How much each positive example counts, and each document: those of the corpus, unless a method changes it."""
        return targets, weights

    @abstractmethod
    def _solver(self) -> LabelSolver:
        """The method's kernel with its settings."""
