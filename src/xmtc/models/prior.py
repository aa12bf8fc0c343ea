"""`prior`: every document gets the most frequent labels.

What it does: counts labels. What it is for: the line in every table that a method must beat to have learned anything.
Cost: training is one pass over the labels, prediction is free, the model is one number per label.
"""

from __future__ import annotations

import numpy as np

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.models.base import Capabilities, Model, ModelConfig
from xmtc.predictions import Predictions, ScoreKind
from xmtc.storage import FolderReader, FolderWriter


class Prior(Model):
    """Label frequencies as scores.

    >>> corpus = Corpus.of(["one", "two"], [["a", "b"], ["b"]])
    >>> Prior().fit(corpus).predict(["anything"], k=2).names()
    [[('b', 1.0), ('a', 0.5)]]
    """

    name = "prior"
    capabilities = Capabilities(
        summary="the most frequent labels, whatever the document",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        partial_fit=True,
    )
    Config = ModelConfig

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        """Nothing: every model keeps the label counts in `labels_`."""

    def _partial_fit(self, corpus: Corpus) -> None:
        """As `_fit`."""

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        labels = self._fitted()
        assert labels.counts is not None
        best = np.lexsort((np.arange(len(labels)), -labels.counts))[:k]
        scores = (labels.counts[best] / self.train_documents_).astype(np.float32)
        shape = (len(corpus), 1)
        return Predictions(np.tile(best.astype(np.int32), shape), np.tile(scores, shape), labels, self.score_kind)

    def _save(self, folder: FolderWriter) -> None:
        """Nothing beside the labels."""

    def _load(self, folder: FolderReader) -> None:
        """Nothing beside the labels."""
