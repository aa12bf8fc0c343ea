"""`knn`: the labels of the most similar training documents.

What it does: tf-idf vectors (or given features, scaled to length 1), the exact `neighbours` nearest training documents
by cosine, and each votes for its labels with similarity ** power; a label's score is its share of all votes.
A document without any word known from training has no neighbours, and so no labels. Instead of tf-idf the documents can
be compared by the mean of their word vectors, as in the paper of `treaderxml`, or by an encoder (`search.vectors`).

Cost: training counts words and builds an inverted index; a prediction adds up the index lists of its words; the model
is the training set's tf-idf matrix. With word vectors the model is one vector a document, which all are compared with
up to 100,000 documents; above that those of some cells are (see `xmtc.search.dense_index`).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import AllowInfNan, Field, PositiveFloat, PositiveInt
from scipy.sparse import csr_array, vstack

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.errors import XmtcError
from xmtc.models.base import Capabilities, Model, ModelConfig
from xmtc.models.explanation import Explanation
from xmtc.nn.settings import EncoderSettings
from xmtc.predictions import Predictions, ScoreKind
from xmtc.search.neighbours import DocumentSearch, SearchSettings, VectorKind
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.embedding_table import WordSettings
from xmtc.text.tfidf import TfIdf, TfIdfSettings


class KnnSearch(SearchSettings):
    """How the neighbours are found; duplicates of a text are its neighbours too."""

    vectors: VectorKind = "tfidf"
    same_texts: bool = True


class KnnConfig(ModelConfig):
    """How many neighbours vote, how much closeness counts, and how texts become vectors.

    The defaults were chosen on validation documents of `tibkat` and `cooking` (`benchmarks/speed/knn.py --validate`): a
    steep idf, which mutes the words that all documents share, lets the votes be less steep than similarity cubed.
    `words` is for `search.vectors` mean and tfidf_mean, `encoder` for encoder.
    """

    neighbours: PositiveInt = 50
    power: Annotated[PositiveFloat, AllowInfNan(False)] = 2.0
    search: KnnSearch = KnnSearch()
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(idf="plain"))
    words: WordSettings = WordSettings()
    encoder: EncoderSettings = EncoderSettings(name="minilm")


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

    search_: DocumentSearch
    targets_: Csr

    def check_installed(self) -> None:
        """A MissingExtra if the vectors that documents are compared by need more than the core."""
        from xmtc.models.neighbour_vectors import check_vectors

        check_vectors(self.config.search.vectors)

    def memory_needed(self, corpus: Corpus) -> int:
        """Word keys and counts while counting, the matrix, and its transpose; all grow with the non-zeros."""
        if self.config.search.vectors == "tfidf" or corpus.texts is None:
            return DocumentVectors(self.config.tfidf).memory_needed(corpus)
        words = min(self.config.words.max_words, corpus.texts.nbytes // 30 + 1000)
        return corpus.texts.nbytes + 8 * (len(corpus) + words) * self.config.words.dimensions

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        from xmtc.models.neighbour_vectors import fit_vectors

        config, search = self.config, self.config.search
        vectors, matrix = fit_vectors(search.vectors, corpus, config.tfidf, config.words, config.encoder, config.seed)
        self.search_ = DocumentSearch.of(search, vectors, matrix, corpus.texts, config.seed)
        self.targets_ = corpus.targets

    def _partial_fit(self, corpus: Corpus) -> None:
        """Further documents become neighbours; the vocabulary and its weights stay as they were fitted."""
        self.search_ = self.search_.extended(corpus)
        width = corpus.targets.shape[1]
        old = csr_array(
            (self.targets_.data, self.targets_.indices, self.targets_.indptr), shape=(self.targets_.shape[0], width)
        )
        self.targets_ = csr_array(vstack([old, corpus.targets], format="csr"))

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.kernels.sparse_knn import vote

        near = self.search_.nearest(corpus, self.config.neighbours)
        labels, targets = self._fitted(), self.targets_
        top = vote(near.ids, near.votes(self.config.power), targets.indptr, targets.indices, len(labels), k)
        return Predictions(*top, labels, self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        if isinstance(self.search_.vectors, DocumentVectors) and self.tfidf_ is None:
            raise XmtcError("this knn model was trained on features without words, so no words explain its answers")
        labels = self._fitted()
        found = self.search_.nearest(Corpus.of([text]), self.config.neighbours)
        near = found.ids[0] >= 0
        rows, closeness = found.ids[0][near], found.similarities[0][near].astype(float)
        weights = found.votes(self.config.power)[0][near].astype(float)
        bounds = zip(self.targets_.indptr[rows], self.targets_.indptr[rows + 1], strict=True)
        carries = np.array([label in self.targets_.indices[start:end] for start, end in bounds], bool)
        if not carries.any():
            return Explanation(labels.name(label), 0.0, (), (f"none of {len(rows)} neighbours has this label",))
        # A vote is its weight / similarity x (sum over words): words share it exactly.
        words, parts = self.search_.shares(text, rows[carries])
        shares = parts @ (weights / closeness)[carries] / weights.sum()
        order = np.argsort(-shares)
        listed = tuple((words[at], float(shares[at])) for at in order if shares[at] != 0)
        said = f"{int(carries.sum())} of {len(rows)} neighbours have this label; the nearest of them is"
        nearest = f"{said} training document {int(rows[carries][0])} (similarity {closeness[carries][0]:.2f})"
        return Explanation(labels.name(label), float(weights[carries].sum() / weights.sum()), listed, (nearest,))

    def _save(self, folder: FolderWriter) -> None:
        self.search_.save(folder)
        folder.matrix("targets", self.targets_)

    def _load(self, folder: FolderReader) -> None:
        from xmtc.models.neighbour_vectors import load_vectors

        self.targets_ = folder.matrix("targets", (None, len(self._fitted())))
        config, documents = self.config, self.targets_.shape[0]
        vectors = load_vectors(folder, config.search.vectors, config.tfidf, config.words, config.encoder)
        self.search_ = DocumentSearch.load(folder, config.search, vectors, documents)

    @property
    def tfidf_(self) -> TfIdf | None:
        """The fitted tf-idf, unless the model was trained on features or compares means of word vectors."""
        vectors = self.search_.vectors
        return vectors.tfidf if isinstance(vectors, DocumentVectors) else None
