"""`centroid`: a label is the mean of its documents' tf-idf vectors, a document gets the nearest labels.

What it does: adds up the tf-idf vectors of each label's training documents and scales the sum to length 1; a label's
score is the cosine between its vector and the document's (Rocchio's classifier). What it is for: the complete small
model of docs/development/add-a-model.md.
Cost: training is one sparse product; a prediction is one too, for some rows at a time; the model is a labels x terms
matrix.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from pydantic import PositiveInt
from scipy.sparse import csr_array

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.models.base import Model
from xmtc.models.config import Capabilities, ModelConfig
from xmtc.predictions import Predictions, ScoreKind
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.tfidf import TfIdf, TfIdfSettings


class CentroidConfig(ModelConfig):
    """How texts become vectors, and how they are scored."""

    batch: PositiveInt = 256
    """Documents that are scored at a time."""
    tfidf: TfIdfSettings = TfIdfSettings()


class Centroid(Model):
    """Labels by the cosine between a document and the mean document of each label."""

    name = "centroid"
    capabilities = Capabilities(
        summary="the labels whose mean document is nearest (tf-idf, cosine)",
        input=frozenset({"text"}),
        score=ScoreKind.RANKING,
    )
    Config = CentroidConfig
    config: CentroidConfig

    tfidf_: TfIdf
    centroids_: Csr  # (labels, terms), rows of length 1

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes of the tf-idf matrix and of the centroids, which each have at most so many entries."""
        assert corpus.texts is not None
        words = corpus.texts.nbytes // 6
        labels_a_document = corpus.targets.nnz / max(len(corpus), 1)
        return int(12 * words * (1 + labels_a_document))

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        assert corpus.texts is not None
        self.tfidf_ = TfIdf(self.config.tfidf)
        vectors = self.tfidf_.fit_transform(corpus.texts)  # (documents, terms)
        sums = cast(Csr, csr_array(corpus.targets.T @ vectors))  # (labels, terms)
        lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1))).ravel()
        sums.data /= np.repeat(lengths, np.diff(sums.indptr))
        self.centroids_ = sums

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        assert corpus.texts is not None
        vectors = self.tfidf_.transform(corpus.texts)
        ids = np.full((len(corpus), k), -1, np.int32)
        scores = np.zeros((len(corpus), k), np.float32)
        by_term = csr_array(self.centroids_.T)  # (terms, labels)
        for start in range(0, len(corpus), self.config.batch):
            # Sparse: only labels that share a word with the document have an entry. Never a dense N x L.
            cosines = csr_array(vectors[start : start + self.config.batch] @ by_term)
            for row in range(cosines.shape[0]):
                a, b = cosines.indptr[row], cosines.indptr[row + 1]
                found, cosine = cosines.indices[a:b], cosines.data[a:b]
                best = np.lexsort((found, -cosine))[:k]  # falling score, ties to the lower id
                ids[start + row, : len(best)] = found[best]
                scores[start + row, : len(best)] = cosine[best]
        return Predictions(ids, scores, self._fitted(), self.score_kind)

    def _save(self, folder: FolderWriter) -> None:
        folder.matrix("centroids", self.centroids_)
        folder.arrays("tfidf", self.tfidf_.to_arrays())

    def _load(self, folder: FolderReader) -> None:
        with folder.building("tfidf"):  # arrays that make no tf-idf become an error that names the file
            self.tfidf_ = TfIdf.from_arrays(self.config.tfidf, folder.arrays("tfidf"))
        self.centroids_ = folder.matrix("centroids", (len(self._fitted()), len(self.tfidf_)))
