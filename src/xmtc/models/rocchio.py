"""`rocchio`: a label is the mean of its documents' vectors and of the words of its own name; the nearest labels win.

Rocchio: "Relevance Feedback in Information Retrieval", in Salton (ed.): The SMART Retrieval System, 1971.

What it does: adds up the tf-idf vectors of each label's training documents (times their weights, if they have some),
scales the sum to length 1, adds the vector of the label's name (and of its other names) `names` times, and scales
again; a label's score is the cosine between its vector and the document's.

Where it differs: Rocchio subtracts documents without the label, which changes nothing with thousands of labels; and he
has no names. With names the model knows labels that no training document has, and finds what the text calls by its
name. Names alone (`documents=0`) are a poor tagger, but no other method uses them: a good member of a blend.

`vectors=encoder` compares documents and names by the vectors of a sentence encoder instead of their words: it finds
labels whose names say the same as the text in other words, or in another language.

Cost: training is one sparse product; a prediction adds up the index lists of its words; the model is a labels x terms
matrix without the entries below `smallest` times a label's largest. An encoder reads each document and each name; a
prediction compares the document with all labels.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeFloat, model_validator
from scipy.sparse import csr_array

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, label_matrix, take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import pruned, unit_rows
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError
from xmtc.labelspace.label_features import label_vectors
from xmtc.models.base import Model
from xmtc.models.config import PRUNE, Capabilities, ModelConfig, Shrinking
from xmtc.models.explanation import Explanation, strongest, words_of
from xmtc.models.neighbour_vectors import check_vectors, encoder_vectors, load_encoder, networks_of
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.predictions import Predictions, ScoreKind
from xmtc.search.dense_index import DenseIndex
from xmtc.search.neighbours import TextVectors
from xmtc.search.sparse_index import SparseIndex
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.mean_embeddings import unit
from xmtc.text.tfidf import TfIdfSettings

if TYPE_CHECKING:
    from torch import nn


class RocchioConfig(ModelConfig):
    """What a label's vector is made of: weights of its documents and of its names, and how texts become vectors."""

    documents: NonNegativeFloat = Field(1.0, allow_inf_nan=False)
    """Weight of a label's training documents; 0: known by its names alone."""
    names: NonNegativeFloat = Field(1.0, allow_inf_nan=False)
    """Weight of a label's names, which also make labels known that no document has."""
    smallest: float = Field(0.01, ge=0, lt=1)
    """Drop entries of a label's vector below this share of its largest: a smaller model."""
    vectors: Literal["tfidf", "encoder"] = "tfidf"
    """What documents and names are: tfidf (their words), or encoder (the vectors of a sentence encoder)."""
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1, idf="plain"))
    encoder: EncoderSettings = EncoderSettings(name="multilingual")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.documents and not self.names:
            raise ValueError("documents=0 and names=0 leave nothing that a label could be known by")
        return self


class Rocchio(Model):
    """Labels by the cosine between a document and what the label's documents and its name say.

    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky"], [["fruit"], ["fruit"], ["weather"]])
    >>> model = Rocchio().fit(corpus)
    >>> [model.predict([text], k=1).names()[0][0][0] for text in ("an apple", "the weather in May")]
    ['fruit', 'weather']
    """

    name = "rocchio"
    capabilities = Capabilities(
        summary="the labels whose documents and names are nearest on average; knows labels by name alone",
        input=frozenset({"text", "features"}),
        score=ScoreKind.RANKING,
        explain=True,
        weights=frozenset({"documents"}),
        shrink=PRUNE,
    )
    Config = RocchioConfig
    config: RocchioConfig

    vectors_: TextVectors
    index_: SparseIndex | DenseIndex  # of the labels

    def check_installed(self) -> None:
        """A MissingExtra if the encoder needs more than the core."""
        check_vectors(self.config.vectors, self.config.encoder)

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the documents' matrix, and twice the labels', where a label has the terms of all its documents."""
        if self.config.vectors == "encoder":
            return 8 * 512 * (len(corpus) + len(corpus.labels)) + (200 << 20)
        vectors = DocumentVectors(self.config.tfidf)
        shared = vectors.terms_of(corpus) * corpus.targets.nnz // max(1, len(corpus)) if self.config.documents else 0
        return vectors.memory_needed(corpus) + 2 * 8 * shared

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        config = self.config
        named = bool(config.names) and corpus.texts is not None
        if not named and not config.documents:
            raise XmtcError(f"{corpus.name} has features instead of texts, so names alone (documents=0) say nothing")
        if config.vectors == "encoder":
            self._fit_dense(corpus)
            return
        self.vectors_ = DocumentVectors(config.tfidf)
        # Words of names count as known, whether a training document has them or not.
        vectors = self.vectors_.fit_transform(with_names(corpus) if named else corpus)
        documents, names = (take_rows(vectors, part) for part in (slice(len(corpus)), slice(len(corpus), None)))
        parts: list[Csr] = []
        if config.documents:
            means = label_vectors(documents, corpus.weighted_targets, corpus.labels, "documents", config.smallest)
            parts.append(config.documents * means)
        if named:
            parts.append(config.names * names)
        self.index_ = SparseIndex.of(unit_rows(csr_array(sum(parts[1:], start=parts[0]))))

    def _fit_dense(self, corpus: Corpus) -> None:
        config = self.config
        if corpus.texts is None:
            raise XmtcError(f"vectors=encoder needs texts, which {corpus.name} does not have; take tfidf")
        self.vectors_ = encoder_vectors(config.encoder, "auto")
        labels = np.zeros((len(corpus.labels), self.vectors_.width), np.float32)
        if config.documents:
            sums = corpus.weighted_targets.T @ np.asarray(self.vectors_.transform(corpus))
            labels += config.documents * unit(np.asarray(sums, np.float32))
        if config.names:
            names = with_names(corpus)[len(corpus) :]
            labels += config.names * np.asarray(self.vectors_.transform(names))
        self.index_ = DenseIndex.of(unit(labels), "flat")

    def _networks(self) -> list[nn.Module]:
        return networks_of(self.vectors_) if self.config.vectors == "encoder" else []

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        ids, scores = self.index_.nearest(self.vectors_.transform(corpus), k)  # type: ignore[arg-type]
        return Predictions(ids, scores, self._fitted(), self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        """A cosine is the sum over shared words of the document's and the label's weight; an encoder has no words."""
        if isinstance(self.index_, DenseIndex):
            read = np.asarray(self.vectors_.transform(Corpus.of([text])))
            score, name = float((read @ self.index_.vectors[label]).item()), self._fitted().name(label)
            return Explanation(name, max(0.0, score), (), ("an encoder compares the text as a whole",), text=text)
        assert isinstance(self.vectors_, DocumentVectors)
        query, words = words_of(self.name, self.vectors_, text)
        parts = self.index_.shared(query, np.array([label], np.int32)).toarray()[:, 0]
        known = f"the label is known by {self.index_.columns[:, [label]].nnz:,} words"
        return Explanation(self._fitted().name(label), float(parts.sum()), strongest(words, parts), (known,))

    def _pruned(self, share: float) -> Self:
        made = copy(self)
        assert isinstance(self.index_, SparseIndex)
        made.index_ = SparseIndex(pruned(self.index_.columns, share))
        return made

    @property
    def shrinking(self) -> frozenset[Shrinking]:
        """Vectors of an encoder are not pruned."""
        return super().shrinking if self.config.vectors == "tfidf" else frozenset()

    def _save(self, folder: FolderWriter) -> None:
        self.vectors_.save(folder)
        if isinstance(self.index_, DenseIndex):
            folder.arrays("index", self.index_.to_arrays(), ["vectors"])
        else:
            folder.matrix("index", self.index_.columns, weights=True)

    def _load(self, folder: FolderReader) -> None:
        if self.config.vectors == "encoder":
            check_vectors("encoder", self.config.encoder)
            self.vectors_ = load_encoder(folder, self.config.encoder)
            with folder.building("index"):
                shape = len(self._fitted()), self.vectors_.width
                self.index_ = index = DenseIndex.from_arrays(folder.arrays("index"), shape)
                index.check()
            return
        self.vectors_ = DocumentVectors.load(folder, self.config.tfidf)
        self.index_ = SparseIndex(folder.matrix("index", (self.vectors_.width, len(self._fitted()))))


def with_names(corpus: Corpus) -> Corpus:
    """The texts of a corpus and behind them the names of each of its labels, all without labels.

    >>> from xmtc.corpus.labels import LabelSet
    >>> labels = LabelSet.of(["a", "b"], names=["Ale", ""], alternatives=[["Beer"], []])
    >>> list(with_names(Corpus.of(["A text."], [["a"]], labels)).texts)
    ['A text.', 'Ale Beer', 'b']
    """
    assert corpus.texts is not None
    labels = corpus.labels
    names = (" ".join([labels.name(at), *labels.alternatives(at)]) for at in range(len(labels)))
    texts = Strings.joined([corpus.texts, Strings.of(names)])
    nothing = label_matrix([], np.zeros(len(texts) + 1, np.int64), len(labels))
    return replace(corpus, targets=nothing, texts=texts, features=None, ids=None, fields={}, document_weights=None)
