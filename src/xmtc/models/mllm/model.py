"""`mllm`: labels whose names stand in the text, ranked by what training documents say about such matches.

Medelyan: "Human-competitive automatic topic indexing", PhD thesis, University of Waikato, 2009 (Maui); Suominen,
Inkinen, Lehtinen: "Annif and Finto AI: Developing and Implementing Automated Subject Indexing", JLIS.it 13(1), 2022
(Maui-like lexical matching, MLLM).

What it does: finds each label's names (and other names and short descriptions) in the text, word stem by word stem, in
any order of a term's words; a match becomes a candidate with features: how often, where first, how far apart, how long
the name is, how many labels share it, whether a longer name covers it, and of the training documents with such a match
how many have the label. Logistic regression over ranges of these features says how likely the candidate is.

Where it differs: Maui and Annif learn with bagged decision trees, whose features also are the links of a thesaurus;
here it is a logistic regression over binned features and pairs of them. Names also match as a part of a compound
(`compounds`), as "Energie" in "Energiepolitik". A text is stemmed in each of the corpus' languages.

Cost: a label is known by its name, so it needs no training document of its own: the only method here, beside `rocchio`,
for labels that no training document has. Training reads each text once; the model has a weight for some hundred ranges
and three numbers for each label.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.languages import count_languages
from xmtc.extras import missing
from xmtc.models.base import Model
from xmtc.models.config import Capabilities, ModelConfig
from xmtc.models.explanation import Explanation
from xmtc.models.mllm.binned_logistic import BinnedLogistic
from xmtc.models.mllm.candidates import FEATURES, PAIRS, Candidates, LabelFacts
from xmtc.models.mllm.matching import RULES, Ints, Terms
from xmtc.models.mllm.stemming import STEMMERS, check_languages
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import track
from xmtc.storage import FolderReader, FolderWriter

TOGETHER = 2048  # texts that are matched at a time
MOST_EXAMPLES = 1_000_000  # candidates that the regression learns from; facts about labels are of all documents
SAMPLE, LEAST_SHARE = 1000, 0.05  # texts whose languages are looked at; a language with this share of them is stemmed


class MllmConfig(ModelConfig):
    """How names are compared with texts."""

    languages: tuple[str, ...] | None = Field(None, max_length=5)
    """Languages whose stems are compared, such as [de, en]; null: those of the texts; []: words as they are."""
    compounds: bool = True
    """Find a label of one word also at the beginning or the end of longer words."""


class Mllm(Model):
    """Labels whose names stand in the text.

    >>> texts = ["Green apples are a fruit", "The weather in May", "Old fruit trees", "Bad weather at sea"]
    >>> corpus = Corpus.of(texts * 9, [["fruit"], ["weather"]] * 18)
    >>> Mllm(languages=[]).fit(corpus).predict(["What fruit is that?"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "mllm"
    capabilities = Capabilities(
        summary="labels whose names stand in the text, weighed by how often such a match is right; no documents needed",
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
    )
    Config = MllmConfig
    config: MllmConfig

    languages_: list[str]
    terms_: Terms
    facts_: LabelFacts
    ranking_: BinnedLogistic

    def check_installed(self) -> None:
        """An error if a language was named that cannot be stemmed."""
        check_languages(self.name, self.config.languages or ())

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the examples' features and ranges, and a label's terms."""
        assert corpus.texts is not None
        texts = min(len(corpus), TOGETHER) * corpus.texts.nbytes // max(1, len(corpus))
        return 400 * min(MOST_EXAMPLES, corpus.texts.nbytes) + 1000 * len(corpus.labels) + 100 * texts

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        self.languages_ = self._languages(corpus)
        self.terms_ = self._terms(corpus)
        labels = len(corpus.labels)
        matched, confirmed = np.zeros(labels, np.int64), np.zeros(labels, np.int64)
        examples: list[Candidates] = []
        relevance: list[NDArray[np.bool_]] = []
        order = np.random.default_rng(self.config.seed).permutation(len(corpus))
        for rows, found in self._candidates(corpus, order, "matching names"):
            relevant = is_relevant(corpus, rows[found.texts], found.labels)
            matched += np.bincount(found.labels, minlength=labels)
            confirmed += np.bincount(found.labels, relevant, minlength=labels).astype(np.int64)
            if sum(map(len, relevance)) < MOST_EXAMPLES:
                examples.append(found)
                relevance.append(relevant)
        self.facts_ = LabelFacts(matched, confirmed, corpus.label_counts)
        if not matched.sum():
            print(
                f"mllm: {corpus.name}: no name of a label stands in any text, so nothing will be found", file=sys.stderr
            )
        values = [self.facts_.values(*each) for each in zip(examples, relevance, strict=True)]
        self.ranking_ = BinnedLogistic.fit(np.concatenate(values), np.concatenate(relevance), PAIRS)

    def _languages(self, corpus: Corpus) -> list[str]:
        """The languages to stem: those that were named, or those of a sample of the texts."""
        if self.config.languages is not None:
            return list(self.config.languages)
        assert corpus.texts is not None
        rows = np.random.default_rng(self.config.seed).permutation(len(corpus))[:SAMPLE]
        counts = count_languages(corpus.texts[int(row)] for row in rows)
        found = sorted(each for each in STEMMERS if counts.get(each, 0) >= max(1, LEAST_SHARE * len(rows)))
        if found and missing("Stemmer"):
            print(
                f"mllm: words are compared as they are; for stems of {', '.join(found)}: pip install 'xmtc[stemming]'",
                file=sys.stderr,
            )
            return []
        return found

    def _terms(self, corpus: Corpus) -> Terms:
        return Terms(corpus.labels, self.languages_ or [None], self.config.compounds)

    def _candidates(self, corpus: Corpus, rows: Ints, what: str) -> Iterator[tuple[Ints, Candidates]]:
        """(rows, their candidates) for some documents after the other; a candidate's text is a place in its rows."""
        assert corpus.texts is not None
        for start in track(range(0, len(rows), TOGETHER), what):
            some = rows[start : start + TOGETHER]
            yield some, Candidates.of(self.terms_.matches(corpus.texts[some]), len(corpus.labels))

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        labels = self._fitted()
        ids, scores = np.full((len(corpus), k), -1, np.int32), np.zeros((len(corpus), k), np.float32)
        documents = corpus.with_labels(labels)
        for rows, found in self._candidates(documents, np.arange(len(corpus)), "matching names"):
            logits = self.ranking_.logits(self.facts_.values(found))
            order = np.lexsort((found.labels, -logits, found.texts))
            texts = found.texts[order]
            place = np.arange(len(order)) - np.searchsorted(texts, texts)
            best = place < k
            ids[rows[texts[best]], place[best]] = found.labels[order[best]]
            scores[rows[texts[best]], place[best]] = 1 / (1 + np.exp(-logits[order[best]]))
        return Predictions(ids, scores, labels, self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        """Where the label's names stand, and what training documents say about such a match."""
        labels = self._fitted()
        matches = self.terms_.matches(Corpus.of([text]).texts)  # type: ignore[arg-type]
        found = Candidates.of(matches, len(labels))
        at = np.flatnonzero(found.labels == label)
        if not len(at):
            return Explanation(
                labels.name(label), 0.0, (), ("none of the label's names stands in the text",), text=text
            )
        score = 1 / (1 + np.exp(-self.ranking_.logits(self.facts_.values(found))[at[0]]))
        words = RULES.spans(text)
        own = np.flatnonzero(matches.labels == label)
        places = zip(matches.starts[own].tolist(), matches.sizes[own].tolist(), strict=True)
        spans = [(words[start][0], words[start + size - 1][1], 1 / len(own)) for start, size in places]
        matched, right = int(self.facts_.matched[label]), int(self.facts_.confirmed[label])
        evidence = f"a name of the label stands in {matched:,} training documents, {right:,} of which have the label"
        return Explanation.of_spans(labels.name(label), float(score), text, spans, (evidence,))

    def _save(self, folder: FolderWriter) -> None:
        folder.json("languages", self.languages_)
        folder.arrays("facts", {"matched": self.facts_.matched, "confirmed": self.facts_.confirmed})
        folder.arrays("ranking", self.ranking_.to_arrays())

    def _load(self, folder: FolderReader) -> None:
        labels = self._fitted()
        self.languages_ = folder.json("languages")
        with folder.building("languages"):
            if not isinstance(self.languages_, list) or not set(self.languages_) <= STEMMERS.keys():
                raise ValueError("not a list of languages")
        check_languages(f"{folder.folder}: {self.name}", self.languages_)
        with folder.building("facts"):
            facts = folder.arrays("facts")
            assert labels.counts is not None
            self.facts_ = LabelFacts(facts["matched"], facts["confirmed"], labels.counts)
        with folder.building("ranking"):
            self.ranking_ = BinnedLogistic.from_arrays(folder.arrays("ranking"))
            if len(self.ranking_.limits) != len(FEATURES):
                raise ValueError(f"weights of {len(self.ranking_.limits)} features in place of {len(FEATURES)}")
        self.terms_ = Terms(labels, self.languages_ or [None], self.config.compounds)


def is_relevant(corpus: Corpus, documents: Ints, labels: Ints) -> NDArray[np.bool_]:
    """Whether each document has its label.

    >>> is_relevant(Corpus.of(["x", "y"], [["a"], ["b"]]), np.array([0, 1, 1]), np.array([0, 0, 1])).tolist()
    [True, False, True]
    """
    width = len(corpus.labels)
    rows = np.repeat(np.arange(len(corpus)), np.diff(corpus.targets.indptr))
    have = np.sort(rows * width + corpus.targets.indices)
    asked = documents * width + labels
    place = np.minimum(np.searchsorted(have, asked), max(0, len(have) - 1))
    relevant: NDArray[np.bool_] = have[place] == asked
    return relevant
