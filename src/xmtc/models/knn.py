"""`knn`: the labels of the most similar training documents.

What it does: tf-idf vectors (or given features, scaled to length 1), the exact `neighbours` nearest training documents
by cosine, and each votes for its labels with similarity ** power; a label's score is its share of all votes.
A document without any word known from training has no neighbours, and so no labels.

Cost: training counts words and builds an inverted index; a prediction adds up the index lists of its words; the model
is the training set's tf-idf matrix.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AllowInfNan, Field, PositiveFloat, PositiveInt
from scipy.sparse import csr_array, vstack

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError
from xmtc.models.base import Capabilities, Explanation, Model, ModelConfig
from xmtc.predictions import Predictions, ScoreKind
from xmtc.search.sparse import SparseIndex
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.documents import DocumentVectors
from xmtc.text.tfidf import TfIdf, TfIdfSettings


class KnnConfig(ModelConfig):
    """How many neighbours vote, how much closeness counts, and how texts become vectors.

    The defaults were chosen on validation documents of `tibkat` and `cooking` (`benchmarks/knn.py --validate`): a steep
    idf, which mutes the words that all documents share, lets the votes be less steep than similarity cubed.
    """

    neighbours: PositiveInt = 50
    power: Annotated[PositiveFloat, AllowInfNan(False)] = 2.0
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(idf="plain"))


class NearestNeighbours(Model):
    """Votes of the nearest training documents.

    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky"], [["fruit"], ["fruit"], ["weather"]])
    >>> NearestNeighbours().fit(corpus).predict(["an apple in the bowl"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "knn"
    capabilities = Capabilities(
        summary="votes of the most similar training documents (tf-idf, cosine)",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        partial_fit=True,
    )
    Config = KnnConfig
    config: KnnConfig

    vectors_: DocumentVectors
    index_: SparseIndex
    targets_: Csr

    def memory_needed(self, corpus: Corpus) -> int:
        """Word keys and counts while counting, the matrix, and its transpose; all grow with the non-zeros."""
        return DocumentVectors(self.config.tfidf).memory_needed(corpus)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        self.vectors_ = DocumentVectors(self.config.tfidf)
        self.index_ = SparseIndex.of(self.vectors_.fit_transform(corpus))
        self.targets_ = corpus.targets

    def _partial_fit(self, corpus: Corpus) -> None:
        """Further documents become neighbours; the vocabulary and its weights stay as they were fitted."""
        self.index_ = self.index_.extended(self._vectors(corpus))
        width = corpus.targets.shape[1]
        old = csr_array(
            (self.targets_.data, self.targets_.indices, self.targets_.indptr), shape=(self.targets_.shape[0], width)
        )
        self.targets_ = csr_array(vstack([old, corpus.targets], format="csr"))

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.kernels.neighbours import vote

        ids, similarities = self.index_.nearest(self._vectors(corpus), self.config.neighbours)
        labels = self._fitted()
        top = vote(ids, self._weights(similarities), self.targets_.indptr, self.targets_.indices, len(labels), k)
        return Predictions(*top, labels, self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        if self.tfidf_ is None:
            raise XmtcError("this knn model was trained on features without words, so no words explain its answers")
        labels = self._fitted()
        query = self.tfidf_.transform(Strings.of([text]))
        ids, similarities = self.index_.nearest(query, self.config.neighbours)
        near = ids[0] >= 0
        rows, closeness = ids[0][near], similarities[0][near].astype(float)
        weights = self._weights(closeness[None])[0]
        bounds = zip(self.targets_.indptr[rows], self.targets_.indptr[rows + 1], strict=True)
        carries = np.array([label in self.targets_.indices[start:end] for start, end in bounds], bool)
        if not carries.any():
            return Explanation(labels.name(label), 0.0, (), (f"none of {len(rows)} neighbours has this label",))
        # A vote is its weight / similarity x (sum over shared words): words share it exactly.
        products = self.index_.shared(query, rows[carries]) @ (weights / closeness)[carries]
        shares = products / weights.sum()
        order = np.argsort(-shares)
        words = tuple((self.tfidf_.terms[int(query.indices[i])], float(shares[i])) for i in order if shares[i] > 0)
        said = f"{int(carries.sum())} of {len(rows)} neighbours have this label; the nearest of them is"
        nearest = f"{said} training document {int(rows[carries][0])} (similarity {closeness[carries][0]:.2f})"
        return Explanation(labels.name(label), float(weights[carries].sum() / weights.sum()), words, (nearest,))

    def _save(self, folder: FolderWriter) -> None:
        folder.matrix("index", self.index_.columns)
        folder.matrix("targets", self.targets_)
        folder.arrays("tfidf", self.vectors_.to_arrays())

    def _load(self, folder: FolderReader) -> None:
        self.targets_ = folder.matrix("targets", (None, len(self._fitted())))
        with folder.building("tfidf"):
            self.vectors_ = DocumentVectors.from_arrays(self.config.tfidf, folder.arrays("tfidf"))
        self.index_ = SparseIndex(folder.matrix("index", (self.vectors_.width, self.targets_.shape[0])))

    @property
    def tfidf_(self) -> TfIdf | None:
        """The fitted tf-idf, unless the model was trained on features."""
        return self.vectors_.tfidf

    def _weights(self, similarities: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """What each neighbour's vote weighs, similarity ** power, relative to the nearest so that it cannot vanish."""
        nearest = similarities[:, :1].astype(np.float64)
        relative = np.divide(similarities, nearest, out=np.zeros(similarities.shape), where=nearest > 0)
        weights: NDArray[np.float32] = (relative**self.config.power).astype(np.float32)
        return weights

    def _vectors(self, corpus: Corpus) -> Csr:
        return self.vectors_.transform(corpus)
