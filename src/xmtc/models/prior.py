"""`prior`: every document gets the most frequent labels.

What it does: counts labels, or adds up the weights of their documents. What it is for: the line in every table that a
method must beat to have learned anything.
Cost: training is one pass over the labels, prediction is free, the model is one number per label.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.models.base import Model
from xmtc.models.config import Capabilities, ModelConfig
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
        weights=frozenset({"documents"}),
    )
    Config = ModelConfig

    shares_: NDArray[np.float64] | None = None  # of all weight, for each label; without weights the counts tell
    weight_: float = 0.0  # of all documents

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        """Without weights nothing: every model keeps the label counts in `labels_`."""
        self.shares_, self.weight_ = None, 0.0
        if corpus.document_weights is not None:
            self._count(corpus, np.zeros(len(corpus.labels)))

    def _count(self, corpus: Corpus, before: NDArray[np.float64]) -> None:
        """Add the weight of documents to the sums `before`."""
        weights = corpus.document_weights
        counted = np.asarray(corpus.weighted_targets.sum(axis=0), np.float64)
        total = self.weight_ + (float(weights.sum(dtype=np.float64)) if weights is not None else len(corpus))
        self.shares_, self.weight_ = (counted + before) / total, total

    def _partial_fit(self, corpus: Corpus) -> None:
        """Only if weights have been or are given; else as `_fit`."""
        if self.shares_ is None:
            if corpus.document_weights is None:
                return
            known = self._fitted().counts
            assert known is not None
            self.weight_ = self.train_documents_
            before = known.astype(np.float64)
        else:
            before = self.shares_ * self.weight_
        self._count(corpus, np.pad(before, (0, len(corpus.labels) - len(before))))

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        labels = self._fitted()
        assert labels.counts is not None
        shares = labels.counts / self.train_documents_ if self.shares_ is None else self.shares_
        best = np.lexsort((np.arange(len(labels)), -shares))[:k]
        scores = shares[best].astype(np.float32)
        shape = (len(corpus), 1)
        return Predictions(np.tile(best.astype(np.int32), shape), np.tile(scores, shape), labels, self.score_kind)

    def _save(self, folder: FolderWriter) -> None:
        """Nothing beside the labels, unless documents had weights."""
        if self.shares_ is not None:
            folder.arrays("shares", {"shares": self.shares_, "weight": np.array([self.weight_])})

    def _load(self, folder: FolderReader) -> None:
        """What `_save` wrote."""
        if not folder.has("shares.safetensors"):
            return
        with folder.building("shares"):
            arrays, labels = folder.arrays("shares"), len(self._fitted())
            self.shares_, (self.weight_,) = arrays["shares"], arrays["weight"].tolist()
            if self.shares_.dtype != np.float64 or self.shares_.shape != (labels,):
                raise ValueError(f"there are {self.shares_.shape} shares of {self.shares_.dtype} for {labels} labels")
            if not np.isfinite(self.shares_).all() or not 0 < self.weight_ < np.inf:
                raise ValueError("a share or the weight of all documents is no finite number")
