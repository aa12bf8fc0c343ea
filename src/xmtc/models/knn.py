"""`knn`: the labels of the most similar training documents.

What it does: tf-idf vectors (or given features, scaled to length 1), the exact `neighbours` nearest training documents
by cosine, and each votes for its labels with similarity ** power, times its weight if documents were given weights; a
label's score is its share of all votes. `neighbours` counts documents, whatever their weights.
A document without any word known from training has no neighbours, and so no labels. `search.vectors` compares documents
by the mean of their word vectors, as in the paper of `treaderxml`, or by an encoder, instead of tf-idf.

Cost: training counts words and builds an inverted index; a prediction adds up the index lists of its words; the model
is the training set's tf-idf matrix. With dense vectors the model is one vector per document; a query is compared with
all of them, or above 100,000 documents with those of some cells (see `xmtc.search.dense_index`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AllowInfNan, Field, PositiveFloat, PositiveInt
from scipy.sparse import csr_array, vstack

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import with_columns
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError
from xmtc.models.base import Model
from xmtc.models.config import Capabilities, ModelConfig
from xmtc.models.explanation import Explanation
from xmtc.models.neighbour_vectors import fit_vectors, load_vectors, networks_of
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.predictions import Predictions, ScoreKind
from xmtc.search.neighbours import DocumentSearch, Neighbours, SearchSettings, VectorKind
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.embedding_table import WordSettings
from xmtc.text.tfidf import TfIdfSettings

if TYPE_CHECKING:
    from torch import nn

IDS = "documents"


class KnnSearch(SearchSettings):
    """How the neighbours are found; duplicates of a text are its neighbours too."""

    vectors: VectorKind = "tfidf"
    same_texts: bool = True


class KnnConfig(ModelConfig):
    """How many neighbours vote, how much similarity counts, and how texts become vectors.

    The defaults were chosen on validation documents of `tibkat` and `cooking` (`benchmarks/speed/knn.py --validate`).
    `words` is for `search.vectors` mean and tfidf_mean, `encoder` for encoder.
    """

    neighbours: PositiveInt = 50
    """How many of the most similar training documents vote."""
    power: Annotated[PositiveFloat, AllowInfNan(False)] = 2.0
    """A neighbour's vote is its similarity to this power: higher, and the nearest count more."""
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
        weights=frozenset({"documents"}),
    )
    Config = KnnConfig
    config: KnnConfig

    search_: DocumentSearch
    targets_: Csr
    weights_: NDArray[np.float32] | None = None  # of the training documents
    ids_: Strings | None = None  # of the training documents, if they have some: explanations name them

    def check_installed(self) -> None:
        """A MissingExtra if the vectors that documents are compared by need more than the core."""
        from xmtc.models.neighbour_vectors import check_vectors

        check_vectors(self.config.search.vectors, self.config.encoder)

    def memory_needed(self, corpus: Corpus) -> int:
        """Word keys and counts while counting, the matrix, and its transpose; all grow with the non-zeros."""
        if self.config.search.vectors == "tfidf" or corpus.texts is None:
            return DocumentVectors(self.config.tfidf).memory_needed(corpus)
        words = min(self.config.words.max_words, corpus.texts.nbytes // 30 + 1000)
        return corpus.texts.nbytes + 8 * (len(corpus) + words) * self.config.words.dimensions

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        vectors, matrix = fit_vectors(self.config, corpus, device="auto")
        self.search_ = DocumentSearch.of(self.config.search, vectors, matrix, corpus.texts, self.config.seed)
        self.targets_, self.weights_, self.ids_ = corpus.targets, corpus.document_weights, corpus.ids

    def _networks(self) -> list[nn.Module]:
        return networks_of(self.search_.vectors) if self.config.search.vectors == "encoder" else []

    def _partial_fit(self, corpus: Corpus) -> None:
        """Further documents become neighbours, and their new words count; old words keep their weights."""
        self.search_ = self.search_.extended(corpus)
        if self.weights_ is not None or corpus.document_weights is not None:
            both = (self.weights_, self.targets_.shape[0]), (corpus.document_weights, len(corpus))
            parts = [np.ones(size, np.float32) if given is None else given for given, size in both]
            self.weights_ = np.concatenate(parts)
        self.ids_ = joined_ids(self.ids_, self.targets_.shape[0], corpus)
        wider = with_columns(self.targets_, corpus.targets.shape[1])
        self.targets_ = csr_array(vstack([wider, corpus.targets], format="csr"))

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.kernels.sparse_knn import vote

        near = self.search_.nearest(corpus, self.config.neighbours)
        labels, targets = self._fitted(), self.targets_
        top = vote(near.ids, self._votes(near), targets.indptr, targets.indices, len(labels), k)
        return Predictions(*top, labels, self.score_kind)

    def _votes(self, near: Neighbours) -> NDArray[np.float32]:
        """What each neighbour's vote weighs."""
        votes = near.votes(self.config.power)
        return votes if self.weights_ is None else votes * self.weights_[near.ids]

    def _explain(self, text: str, label: int) -> Explanation:
        if isinstance(self.search_.vectors, DocumentVectors) and self.search_.vectors.tfidf is None:
            raise XmtcError("this knn model was trained on features without words, so no words explain its answers")
        labels = self._fitted()
        found = self.search_.nearest(Corpus.of([text]), self.config.neighbours)
        near = found.ids[0] >= 0
        rows, similarity = found.ids[0][near], found.similarities[0][near].astype(float)
        weights = self._votes(found)[0][near].astype(float)
        carries = self.targets_[rows][:, [label]].toarray()[:, 0] > 0
        if not carries.any():
            return Explanation(labels.name(label), 0.0, (), (f"none of {len(rows)} neighbours has this label",))
        # A similarity is a sum over words, so a vote is divided among them.
        words, parts = self.search_.shares(text, rows[carries])
        shares = parts @ (weights / similarity)[carries] / weights.sum()
        order = np.argsort(-shares)
        listed = tuple((words[at], float(shares[at])) for at in order if shares[at] != 0)
        nearest = int(rows[carries][0])
        evidence = (
            f"{int(carries.sum())} of {len(rows)} neighbours have this label; the nearest of them is training document "
            f"{nearest if self.ids_ is None else self.ids_[nearest]} (similarity {similarity[carries][0]:.2f})",
        )
        return Explanation(labels.name(label), float(weights[carries].sum() / weights.sum()), listed, evidence)

    def _save(self, folder: FolderWriter) -> None:
        self.search_.save(folder)
        folder.matrix("targets", self.targets_)
        if self.weights_ is not None:
            folder.arrays("weights", {"weights": self.weights_})
        if self.ids_ is not None:
            folder.strings(IDS, self.ids_)

    def _load(self, folder: FolderReader) -> None:
        self.targets_ = folder.matrix("targets", (None, len(self._fitted())))
        vectors = load_vectors(folder, self.config)
        documents = self.targets_.shape[0]
        self.search_ = DocumentSearch.load(folder, self.config.search, vectors, documents)
        if folder.has("weights.safetensors"):
            with folder.building("weights"):
                self.weights_ = weights = folder.arrays("weights")["weights"]
                sound = weights.dtype == np.float32 and weights.shape == (documents,)
                if not sound or not ((weights > 0) & np.isfinite(weights)).all():
                    raise ValueError(f"weights of {weights.dtype} {weights.shape} for {documents} documents")
        # Models of earlier versions do not have them.
        self.ids_ = folder.strings(IDS, documents) if folder.has(f"{IDS}.safetensors") else None


def joined_ids(known: Strings | None, documents: int, corpus: Corpus) -> Strings | None:
    """The ids of the documents so far, then those of a corpus; where only one side has ids, the other has its numbers.

    >>> more = Corpus.of(["blue sky"])
    >>> list(joined_ids(Strings.of(["d7", "d9"]), 2, more)), joined_ids(None, 2, more)
    (['d7', 'd9', '2'], None)
    """
    if known is None and corpus.ids is None:
        return None
    before = known if known is not None else Strings.of(map(str, range(documents)))
    after = corpus.ids
    if after is None:
        after = Strings.of(map(str, range(documents, documents + len(corpus))))
    return Strings.joined([before, after])
