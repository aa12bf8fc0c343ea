"""A made-up corpus of any size, with the shape of the field's large ones, in which there is something to learn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sparse import Csr, make_csr, unit_rows
from xmtc.corpus.strings import Strings

TOPIC_LABELS = 100  # labels that share a topic
FIELD_TOPICS = 50  # topics that share a field
GENERAL_SHARE = 300  # one label in so many is too frequent for a topic: it stands in documents of all of them
GENERAL_EACH, TOPIC_EACH = 1.4, 1.4  # labels a document, on average and before one more of its topic
LABEL_WORDS, TOPIC_WORDS, FIELD_WORDS = 6, 30, 60
FROM_LABEL, FROM_TOPIC, FROM_ANYWHERE = 6, 22, 29  # words drawn for each label of a document, and for the document

Ints = NDArray[np.int64]
Words = NDArray[np.int32]


def zipf_corpus(labels: int, documents: int | None = None, seed: int = 0, *, held_out: bool = False) -> Corpus:
    """Documents (half as many as labels, unless told) of about 60 words with 4 to 5 labels, both by Zipf's law.

    Related labels share the words of a topic and stand in the same documents; each has a few words of its own besides.
    Every label has a document, and most have one or two. `held_out` gives further documents about the same labels with
    the same words, in which not every label need occur.

    >>> corpus = zipf_corpus(1000, seed=3)
    >>> corpus, int(corpus.label_counts.min())
    (Corpus(zipf-1000: 500 documents with features, 1,000 labels), 1)
    """
    language = Language(labels, seed)
    rng = np.random.default_rng([seed, 2 if held_out else 1])
    count = max(1, labels // 2) if documents is None else documents
    topic = rng.choice(language.topics, count, p=language.topic_share)
    targets = _targets(language, topic, rng, every_label=not held_out)
    features = _features(language, topic, targets, rng)
    return Corpus(targets, LabelSet(Strings.of(map(str, range(labels)))), features=features, name=f"zipf-{labels}")


@dataclass(frozen=True)
class Language:
    """Which labels belong together and which words speak of them; a label's number is its rank by frequency."""

    labels: int
    seed: int

    @property
    def words(self) -> int:
        """Size of the vocabulary; a word's number is its rank by frequency, too."""
        return min(500_000, max(20_000, self.labels // 2))

    @property
    def topics(self) -> int:
        """Number of topics."""
        return -(-self.labels // TOPIC_LABELS)

    @property
    def general(self) -> int:
        """So many labels, the most frequent ones, have no topic."""
        return self.labels // GENERAL_SHARE

    @cached_property
    def topic_of(self) -> Ints:
        """The topic of each label."""
        return np.random.default_rng([self.seed, 0]).permutation(self.labels) % self.topics

    @cached_property
    def by_topic(self) -> Ints:
        """All labels, topic by topic."""
        return np.argsort(self.topic_of, kind="stable")

    @cached_property
    def reach(self) -> NDArray[np.float64]:
        """Expected frequencies of the labels in `by_topic`, added up; from 0."""
        ranks = np.arange(1, self.labels + 1)
        frequency = 1 + 1.25 * self.labels / (np.log(self.labels + 1) * ranks)
        frequency[: self.general] = 0  # they are drawn without regard to topics
        return np.concatenate([[0], np.cumsum(frequency[self.by_topic])])

    @cached_property
    def topic_ends(self) -> NDArray[np.float64]:
        """Where each topic begins and ends in `reach`."""
        sizes = np.bincount(self.topic_of, minlength=self.topics)
        ends: NDArray[np.float64] = self.reach[np.concatenate([[0], np.cumsum(sizes)])]
        return ends

    @property
    def topic_share(self) -> NDArray[np.float64]:
        """The share of documents that each topic has."""
        share: NDArray[np.float64] = np.diff(self.topic_ends) / self.topic_ends[-1]
        return share

    @cached_property
    def of_labels_and_topics(self) -> tuple[Words, Words]:
        """The words of each label, and of each topic; a topic has half of its words from its field."""
        rng = np.random.default_rng([self.seed, 3])
        # No word of a label or topic is among the very frequent ones, which are in all documents anyway.
        own = zipf_draws(rng, self.words, (self.labels, LABEL_WORDS), rarest_from=0.4)
        fields = -(-self.topics // FIELD_TOPICS)
        shared = zipf_draws(rng, self.words, (fields, FIELD_WORDS), rarest_from=0.25)
        topical = zipf_draws(rng, self.words, (self.topics, TOPIC_WORDS), rarest_from=0.3)
        half = TOPIC_WORDS // 2
        field = np.arange(self.topics) // FIELD_TOPICS
        topical[:, :half] = shared[field[:, None], rng.integers(0, FIELD_WORDS, (self.topics, half))]
        return own, topical


def zipf_draws(rng: np.random.Generator, size: int, shape: tuple[int, ...], rarest_from: float = 0.0) -> Words:
    """Ranks from 0 to size - 1, rank r with a probability of about 1 / (r + 1), without those below size**rarest_from.

    >>> draws = zipf_draws(np.random.default_rng(0), 1000, (10_000,))
    >>> round(np.mean(draws == 0) / np.mean(draws == 9))
    7
    """
    exponent = rng.random(shape, np.float32) * np.float32(1 - rarest_from) + np.float32(rarest_from)
    # The logarithm of a rank is uniform; the last rank absorbs what rounding pushes beyond it.
    ranks: Words = np.minimum(np.power(np.float32(size + 1), exponent).astype(np.int32) - 1, size - 1)
    return ranks


def _targets(language: Language, topic: Ints, rng: np.random.Generator, every_label: bool) -> Csr:
    """Documents x labels: some general ones, some of the document's topic, and where asked those still missing."""
    documents = np.arange(len(topic), dtype=np.int32)
    general_rows = np.repeat(documents, rng.poisson(GENERAL_EACH, len(topic)))
    general = zipf_draws(rng, max(1, language.general), (len(general_rows),))
    rows = np.repeat(documents, 1 + rng.poisson(TOPIC_EACH, len(topic)))
    start, end = language.topic_ends[topic[rows]], language.topic_ends[topic[rows] + 1]
    places = np.searchsorted(language.reach, start + rng.random(len(rows)) * (end - start), "right") - 1
    topical = language.by_topic[np.minimum(places, language.labels - 1)].astype(np.int32)
    if every_label:
        found = np.bincount(topical, minlength=language.labels) + np.bincount(general, minlength=language.labels)
        missing = np.flatnonzero(found == 0).astype(np.int32)
        rows = np.concatenate([rows, _document_of_topic(topic, language.topic_of[missing], language.topics, rng)])
        topical = np.concatenate([topical, missing])
    rows, columns = np.concatenate([general_rows, rows]), np.concatenate([general, topical])
    targets = _counts(rows, columns, (len(topic), language.labels))
    targets.data[:] = 1  # also where a label was drawn twice
    return targets


def _document_of_topic(topic: Ints, wanted: Ints, topics: int, rng: np.random.Generator) -> Words:
    """For each topic wanted a random document of it, or any document if it has none."""
    order = np.argsort(topic, kind="stable")
    sizes = np.bincount(topic, minlength=topics)
    inside = (np.cumsum(sizes) - sizes)[wanted] + (rng.random(len(wanted)) * sizes[wanted]).astype(np.int64)
    return order[np.where(sizes[wanted] > 0, inside, rng.integers(0, len(topic), len(wanted)))].astype(np.int32)


def _features(language: Language, topic: Ints, targets: Csr, rng: np.random.Generator) -> Csr:
    """Documents x words: unit rows of (1 + log count) times how much a word of this rank says."""
    own, topical = language.of_labels_and_topics
    documents = np.arange(len(topic), dtype=np.int32)
    tagged = np.repeat(documents, np.diff(targets.indptr))
    places = rng.integers(0, LABEL_WORDS, (targets.nnz, FROM_LABEL), np.int8)
    of_labels = own[targets.indices[:, None], places]
    places = rng.integers(0, TOPIC_WORDS, (len(topic), FROM_TOPIC), np.int8)
    of_topics = topical[topic[:, None], places]
    others = zipf_draws(rng, language.words, (len(topic), FROM_ANYWHERE))
    rows = np.concatenate([np.repeat(tagged, FROM_LABEL), np.repeat(documents, FROM_TOPIC + FROM_ANYWHERE)])
    columns = np.concatenate([of_labels.ravel(), np.concatenate([of_topics, others], axis=1).ravel()])
    del of_labels, of_topics, others, places, tagged
    counts = _counts(rows, columns, (len(topic), language.words))
    del rows, columns
    # By Zipf's law the logarithm of a word's rank is its inverse document frequency, up to a constant.
    tells = np.log(np.arange(2, language.words + 2, dtype=np.float32))
    weights = (1 + np.log(counts.data)) * tells[counts.indices]
    return unit_rows(make_csr(weights, counts.indices, counts.indptr, counts.shape))


def _counts(rows: Words, columns: Words, shape: tuple[int, int]) -> Csr:
    """How often each pair of row and column occurs."""
    counts: Csr = coo_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape).tocsr()
    return make_csr(counts.data, counts.indices, counts.indptr, shape)
