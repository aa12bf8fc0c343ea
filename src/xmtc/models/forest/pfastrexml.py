"""`pfastrexml`: FastXML for rare labels.

Jain, Prabhu, Varma: "Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking & Other Missing Label
Applications", KDD 2016.

What it does: labels earn their inverse propensity when a node ranks them, and a document's gain is not divided by its
ideal one. The labels of the leaves are then ranked anew: a label's score is P^alpha x s^(1 - alpha), where P is the
mean share in the leaves and s = exp(-gamma / 2 |x - m|^2) says how near the document x is to the mean m of the label's
training documents, so that a rare label is not lost among the frequent ones of a leaf.

Cost: that of `fastxml`, and in prediction the mean documents of some hundred labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr, pruned
from xmtc.labelspace.propensity import Propensity
from xmtc.models.config import PRUNE, Capabilities
from xmtc.models.explanation import Explanation, strongest, words_of
from xmtc.models.forest.fastxml import FastXml, FastXmlConfig
from xmtc.predictions import ScoreKind
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors

if TYPE_CHECKING:
    from xmtc.kernels.forest_search import Tail


class PfastreXmlConfig(FastXmlConfig):
    """The trees, their splits and the re-ranking; recipes/pfastrexml/paper has the paper's values."""

    propensity_a: NonNegativeFloat = Field(0.55, allow_inf_nan=False)
    """A of the propensity model, by which rare labels weigh more; 0.6 for Amazon's product sets, 0.5 for Wikipedia."""
    propensity_b: PositiveFloat = Field(1.5, allow_inf_nan=False)
    """B of the propensity model; 2.6 for Amazon's product sets, 0.4 for Wikipedia."""
    alpha: float = Field(0.8, ge=0, le=1)
    """How much the trees count in a score, beside the nearness to the label's documents; 1: only the trees."""
    gamma: PositiveFloat = Field(30.0, allow_inf_nan=False)
    """How fast nearness to the label's documents falls with the distance."""


class PfastreXml(FastXml):
    """FastXML with propensity-scored gains, re-ranked by the nearness to each label's documents.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 8, tags * 8)
    >>> PfastreXml(trees=5).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "pfastrexml"
    capabilities = Capabilities(
        summary="fastxml with weights for rare labels, re-ranked by the nearness to each label's documents",
        input=frozenset({"text", "features"}),
        score=ScoreKind.RANKING,
        explain=True,
        shrink=PRUNE,
    )
    Config = PfastreXmlConfig
    config: PfastreXmlConfig

    centroids_: Csr  # labels x features: the mean of each label's documents
    squares_: NDArray[np.float32]  # of the centroids' lengths

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: those of the trees, and the mean documents, which have at most the terms of all their documents."""
        terms = DocumentVectors(self.config.tfidf).terms_of(corpus)
        labels_a_document = corpus.targets.nnz // max(1, len(corpus)) + 1
        return super().memory_needed(corpus) + 16 * terms * labels_a_document

    def _gains(self, corpus: Corpus) -> NDArray[np.float32]:
        """The inverse propensity of each label of each document."""
        propensity = Propensity(self.config.propensity_a, self.config.propensity_b)
        inverse = propensity.inverse(corpus.label_counts, len(corpus))
        return inverse[corpus.targets.indices].astype(np.float32)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        super()._fit(corpus, valid, checkpoints)
        targets = corpus.targets.T.tocsr().astype(np.float32)
        counts = np.diff(targets.indptr)
        targets.data /= np.repeat(counts, counts)
        centroids = targets @ self.vectors_.transform(corpus)
        self.centroids_ = make_csr(centroids.data, centroids.indices, centroids.indptr, centroids.shape)
        rows = np.repeat(np.arange(len(counts)), np.diff(centroids.indptr))
        squares = np.bincount(rows, np.square(centroids.data, dtype=np.float64), len(counts))
        self.squares_ = squares.astype(np.float32)

    def _tail(self) -> Tail:
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.forest_search import Tail

        return Tail(CsrArrays.of(self.centroids_), self.squares_, self.config.alpha, self.config.gamma)

    def _explain(self, text: str, label: int) -> Explanation:
        """The words add up to the logarithm of the score, less what does not depend on them.

        The trees' logarithm is divided among the words as the share is that it is of.
        """
        query, words = words_of(self.name, self.vectors_, text)
        parts, rest, start, found = self._path_words(query, label)
        share, name = float(parts.sum()) + rest + start, self._fitted().name(label)
        if not found:
            return Explanation(name, 0.0, (), ("no tree leads to a leaf that has the label",))
        slope = (np.log(share) - np.log(start)) / (share - start) if share != start else 1 / share
        alpha, gamma, centroid = self.config.alpha, self.config.gamma, self.centroids_[[label]].toarray()[0]
        products = query.data * centroid[query.indices]
        away = float(np.square(query.data).sum() + self.squares_[label] - 2 * products.sum())
        score = share**alpha * np.exp(-(1 - alpha) * gamma / 2 * away)
        total = alpha * slope * parts + (1 - alpha) * gamma * products
        evidence = (
            *self._evidence(found, start),
            f"the trees say {share:.3f}; the squared distance to the mean of its documents is {away:.3f}",
            "a word's weight is what it adds to the logarithm of the score",
        )
        return Explanation(name, float(score), strongest(words, total), evidence)

    def _pruned(self, share: float) -> Self:
        made = super()._pruned(share)
        made.centroids_ = pruned(self.centroids_, share)  # `squares_` stay: the lengths are those of whole centroids
        return made

    def _save(self, folder: FolderWriter) -> None:
        super()._save(folder)
        folder.matrix("centroids", self.centroids_, weights=True)
        folder.arrays("squares", {"squares": self.squares_})

    def _load(self, folder: FolderReader) -> None:
        super()._load(folder)
        labels = len(self._fitted())
        self.centroids_ = folder.matrix("centroids", (labels, self.vectors_.width))
        with folder.building("squares"):
            self.squares_ = folder.arrays("squares")["squares"]
            if self.squares_.dtype != np.float32 or self.squares_.shape != (labels,):
                raise ValueError(f"it has {self.squares_.shape} squares of {self.squares_.dtype} for {labels} labels")
