"""What ProXML and PPD-Sparse share: each label is trained by itself, on all documents by rows and by columns."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.kernels import cores
from xmtc.memory import give_back_memory
from xmtc.models.label_classifiers import LabelClassifiers
from xmtc.search.label_blocks import Block, by_frequency, train_blocks
from xmtc.search.linear_training import importance_of, linear_weights
from xmtc.search.sparse_index import SparseIndex
from xmtc.seeding import derived_seed
from xmtc.text.document_features import DocumentVectors


class SeparableClassifiers(LabelClassifiers):
    """A classifier for each label that has documents, in blocks of labels of about the same frequency."""

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the documents' matrix twice, each core's numbers for all documents and terms, and all weights twice.

        A label's weights have, at most, about the terms of its documents.
        """
        vectors = DocumentVectors(self.config.tfidf)
        terms = vectors.terms_of(corpus)
        shared = terms * corpus.targets.nnz // max(1, len(corpus))
        return vectors.memory_needed(corpus) + 8 * terms + (50 * len(corpus) + 40 * terms // 10) * cores() + 16 * shared

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        from xmtc.kernels.csr import CsrArrays

        self.vectors_ = DocumentVectors(self.config.tfidf)
        features = self.vectors_.fit_transform(corpus)
        columns = features.tocsc()
        give_back_memory()
        targets, weights = linear_weights(corpus)
        targets, weights = self._weighted(corpus, targets, weights)
        order = by_frequency(corpus.label_counts)
        order = order[corpus.label_counts[order] > 0]
        documents_of = targets.tocsc()

        def train(labels: NDArray[np.int32], at: int) -> Block:
            own = documents_of[:, labels]
            positives = own.indptr.astype(np.int64), own.indices.astype(np.int64)
            importance = importance_of(weights, own.data)
            matrix = CsrArrays.of(features), CsrArrays.of(columns)
            return self._train_labels(matrix, positives, importance, derived_seed(self.config.seed, at))

        shape = (features.shape[1], targets.shape[1])
        matrix, self.biases_ = train_blocks(train, order, self.config.block, shape, checkpoints)
        self.index_ = SparseIndex(matrix)

    def _weighted(self, corpus: Corpus, targets: Any, weights: Any) -> tuple[Any, Any]:
        """How much each positive example counts, and each document: those of the corpus, unless a method changes it."""
        return targets, weights

    @abstractmethod
    def _train_labels(self, matrix: Any, positives: Any, importance: Any, seed: int) -> Block:
        """The classifiers of some labels: documents by rows and by columns, (ends, documents) of the labels."""
