"""What methods with a sparse linear classifier for each label share: scoring, explaining, saving and loading."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.sparse import pruned
from xmtc.models.base import Model
from xmtc.models.explanation import Explanation, strongest, words_of
from xmtc.predictions import Predictions
from xmtc.search.label_blocks import NEVER
from xmtc.search.sparse_index import SparseIndex
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors


class LabelClassifiers(Model):
    """A document's score for a label is w x + b, for every label; a subclass finds the weights and the biases."""

    config: Any  # a ModelConfig with `tfidf` and with `weights`, how they are saved

    vectors_: DocumentVectors
    index_: SparseIndex  # features x labels
    biases_: NDArray[np.float32]

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

    def _pruned(self, share: float) -> Self:
        made = copy(self)
        made.index_ = SparseIndex(pruned(self.index_.columns, share))
        return made

    def _save(self, folder: FolderWriter) -> None:
        self.vectors_.save(folder)
        folder.matrix("weights", self.index_.columns, weights=True)
        folder.arrays("biases", {"biases": self.biases_})

    def _load(self, folder: FolderReader) -> None:
        self.vectors_ = DocumentVectors.load(folder, self.config.tfidf)
        labels = len(self._fitted())
        self.index_ = SparseIndex(folder.matrix("weights", (self.vectors_.width, labels)))
        with folder.building("biases"):
            self.biases_ = folder.arrays("biases")["biases"]
            if self.biases_.dtype != np.float32 or self.biases_.shape != (labels,):
                raise ValueError(f"there are {self.biases_.shape} biases of {self.biases_.dtype} for {labels} labels")
