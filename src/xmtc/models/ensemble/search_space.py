"""The methods that `auto` chooses from: which corpora they are for, with which settings, and what they cost.

Seconds are those of two cores of 2021; only their proportions matter, since `auto` measures how fast the first methods
are on this machine and corpus. A further method is one line in CANDIDATES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xmtc.corpus.corpus import Corpus
from xmtc.models.registry import model_class
from xmtc.text.word_rules import WordRules

SAMPLE = 400  # documents that are searched for the names of their labels


@dataclass(frozen=True)
class Facts:
    """What is known about a corpus before training; `words` may be features, `named` is a share of the labels."""

    documents: int
    labels: int
    labels_a_document: float
    words_a_document: float
    texts: bool
    hierarchy: bool
    named: float

    @classmethod
    def of(cls, corpus: Corpus, seed: int = 0) -> Facts:
        """Measure a corpus.

        >>> Facts.of(Corpus.of(["red fruit", "blue sky"], [["fruit"], ["weather"]])).named
        0.5
        """
        if corpus.texts is not None:
            words = corpus.texts.nbytes / 6 / len(corpus)
        else:
            words = corpus.features.nnz / len(corpus) if corpus.features is not None else 0.0
        return cls(
            documents=len(corpus),
            labels=int(np.count_nonzero(corpus.label_counts)),
            labels_a_document=corpus.targets.nnz / len(corpus),
            words_a_document=words,
            texts=corpus.texts is not None,
            hierarchy=corpus.labels.parents is not None,
            named=_named(corpus, seed),
        )

    def __str__(self) -> str:
        kind = "words" if self.texts else "features"
        parts = [
            f"{self.documents:,} documents, {self.labels:,} labels",
            f"{self.labels_a_document:.1f} labels and {self.words_a_document:.0f} {kind} a document",
        ]
        if self.texts:
            parts.append(f"{self.named:.0%} of the labels are called by their names in the text")
        if self.hierarchy:
            parts.append("labels have parents")
        return "; ".join(parts)

    @property
    def words(self) -> float:
        """The words of all documents."""
        return self.documents * self.words_a_document

    @property
    def pairs(self) -> float:
        """Documents x labels, the work of one-vs-all methods."""
        return self.documents * self.labels


def _named(corpus: Corpus, seed: int) -> float:
    """The share of labels whose name is in the document, all its words in any order; from a sample."""
    if corpus.texts is None:
        return 0.0
    rules, found, relevant = WordRules(), 0, 0
    rows = np.random.default_rng(seed).permutation(len(corpus))[:SAMPLE]
    names: dict[int, frozenset[str]] = {}
    for row in rows.tolist():
        labels = corpus.labels_of(row)
        words = set(rules.words(corpus.texts[row])) if labels else set()
        for label in labels:
            if label not in names:
                names[label] = frozenset(rules.words(corpus.labels.name(label)))
            relevant += 1
            found += bool(names[label]) and names[label] <= words
    return found / max(1, relevant)


@dataclass(frozen=True)
class Candidate:
    """A method with settings that `auto` may try.

    `seconds` is what training takes, without the time in which an encoder reads the documents, `refusal` why it does
    not suit a corpus ("" if it does). A network improves with time: it is tried if it gets at least the share `least`
    of its time, and may be stopped early. `trainings` is the number of networks that it trains one after the other,
    `seeded` whether another seed makes another model.
    """

    name: str
    model: str
    seconds: Callable[[Facts], float]
    settings: Mapping[str, Any] = field(default_factory=dict)
    refusal: Callable[[Facts], str] = lambda _: ""
    network: bool = False
    least: float = 1.0
    trainings: Callable[[Facts], int] = lambda _: 1
    seeded: bool = False

    @property
    def encoder(self) -> str | None:
        """The encoder that reads its documents beforehand, if any."""
        name: str | None = self.settings.get("encoder", {}).get("name")
        return name

    def check_installed(self) -> None:
        """A MissingExtra if its training needs more than there is."""
        model_class(self.model)(**self.settings).check_installed()


def _texts(facts: Facts) -> str:
    return "" if facts.texts else "needs texts"


def _names(facts: Facts) -> str:
    return _texts(facts) or ("" if facts.named >= 0.02 else "the names of labels do not stand in the texts")


def _parents(facts: Facts) -> str:
    return "" if facts.hierarchy else "labels have no parents"


def _few_labels(facts: Facts) -> str:
    return _texts(facts) or ("" if facts.labels <= 10_000 else "is for at most 10,000 labels")


def _one_vs_all(facts: Facts) -> float:
    return 0.3 + 4e-7 * facts.words + 6.5e-9 * facts.pairs * float(np.sqrt(facts.words_a_document))


def _trees(facts: Facts) -> float:
    return 0.3 + 1e-6 * facts.words * facts.labels_a_document


def _attention(facts: Facts) -> float:
    tokens = min(500.0, facts.words_a_document)
    return 10 * _levels(facts) * facts.documents * (1.3e-3 + 3.5e-5 * tokens)


def _levels(facts: Facts) -> int:
    return 1 if facts.labels <= 2400 else 2 if facts.labels <= 130_000 else 3


def _ranking(facts: Facts) -> float:
    return 50 * facts.documents * (9e-7 * facts.words_a_document + 1.3e-7 * min(facts.labels, 100_000))


def reading(facts: Facts) -> float:
    """Seconds in which an encoder reads the beginning of each document, once for all methods that compare by it."""
    return facts.documents * (3e-3 + 5e-5 * min(128.0, facts.words_a_document))


def _dense(facts: Facts) -> float:
    return 1 + 1e-4 * facts.documents


MULTILINGUAL = {"encoder": {"name": "multilingual"}}
PAIRS = {"ngrams": [1, 2], "min_chars": 1, "min_df": 2}
LETTERS = {"letters": [3, 5], "min_chars": 1, "min_df": 3}
#: What an extra is worth that is not installed, by its name.
WORTH = {
    "multilingual": "compares documents and names of labels by what they mean, across 16 languages",
    "neural": "has networks, which learn what matters in a text, if there is an hour",
}

#: In no particular order: see `xmtc.models.ensemble.search`.
CANDIDATES: tuple[Candidate, ...] = (
    Candidate("prior", "prior", lambda _: 0.0),
    Candidate("knn", "knn", lambda facts: 0.3 + 4e-7 * facts.words),
    Candidate("names", "rocchio", lambda facts: 0.3 + 4e-7 * facts.words, {"documents": 0.0}, _names),
    Candidate("mllm", "mllm", lambda facts: 3 + 8e-6 * facts.words, {}, _names),
    Candidate("rocchio", "rocchio", lambda facts: 0.3 + 2e-7 * facts.words * (2 + facts.labels_a_document)),
    Candidate("knn, multilingual", "knn", _dense, {"search": {"vectors": "encoder"}, **MULTILINGUAL}, _texts),
    Candidate("rocchio, multilingual", "rocchio", _dense, {"vectors": "encoder", **MULTILINGUAL}, _texts),
    Candidate(
        "names, multilingual", "rocchio", _dense, {"vectors": "encoder", "documents": 0.0, **MULTILINGUAL}, _texts
    ),
    Candidate(
        "slice, multilingual",
        "slice",
        lambda facts: 1 + 1e-3 * facts.documents,
        {"vectors": "encoder", **MULTILINGUAL},
        _texts,
    ),
    Candidate("dismec", "dismec", _one_vs_all),
    Candidate("dismec, word pairs", "dismec", lambda facts: 2.5 * _one_vs_all(facts), {"tfidf": PAIRS}, _texts),
    Candidate("dismec, letters", "dismec", lambda facts: 10 * _one_vs_all(facts), {"tfidf": LETTERS}, _texts),
    Candidate("parabel", "parabel", _trees, seeded=True),
    Candidate("parabel, given tree", "parabel", _trees, {"tree": "given", "trees": 1}, _parents),
    Candidate("parabel, letters", "parabel", lambda facts: 8 * _trees(facts), {"tfidf": LETTERS}, _texts, seeded=True),
    Candidate("bonsai", "bonsai", lambda facts: 2 * _trees(facts), seeded=True),
    Candidate(
        "fasttext", "fasttext", lambda facts: 1 + 8e-7 * facts.pairs + 2e-5 * facts.words, {}, _few_labels, seeded=True
    ),
    Candidate("rank_ae", "rank_ae", _ranking, network=True, least=0.4, trainings=lambda _: 2, seeded=True),
    Candidate(
        "attentionxml", "attentionxml", _attention, {}, _texts, network=True, least=0.25, trainings=_levels, seeded=True
    ),
)
