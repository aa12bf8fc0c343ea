"""`Explanation`: why a document got a label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.errors import XmtcError
from xmtc.text.document_features import DocumentVectors


@dataclass(frozen=True)
class Explanation:
    """Why a document got a label: the score as a sum over words, strongest first, and sentences of evidence.

    If the model is calibrated, the words add up to the score before calibration. A model with attention gives `text`
    and, in the order of the text, `spans` of it: start and end in characters, and the attention weight. Then `words`
    are the weights of each word added up, the largest first; both add up to 1.

    >>> why = Explanation("fruit", 0.75, (("apple", 0.5), ("red", 0.25)), ("like document 7",))
    >>> print(why)
    fruit: 0.750
      apple                     0.500
      red                       0.250
      like document 7
    >>> why.to_json()["words"]
    [{'word': 'apple', 'weight': 0.5}, {'word': 'red', 'weight': 0.25}]
    """

    label: str
    score: float
    words: tuple[tuple[str, float], ...]
    evidence: tuple[str, ...] = ()
    text: str = ""
    spans: tuple[tuple[int, int, float], ...] = ()

    def __post_init__(self) -> None:
        if not all(0 <= start <= end <= len(self.text) for start, end, _ in self.spans):
            raise ValueError(f"spans must lie within the text, which has {len(self.text)} characters")

    @classmethod
    def of_spans(
        cls, label: str, score: float, text: str, spans: Iterable[tuple[int, int, float]], evidence: Iterable[str]
    ) -> Explanation:
        """An explanation by attention weights of spans of the text.

        >>> Explanation.of_spans("fruit", 0.9, "Red red apple", [(0, 3, 0.25), (4, 7, 0.25), (8, 13, 0.5)], ()).words
        (('red', 0.5), ('apple', 0.5))
        """
        spans, totals = tuple(spans), dict[str, float]()
        for start, end, share in spans:
            word = text[start:end].lower()
            totals[word] = totals.get(word, 0.0) + share
        words = tuple(sorted(totals.items(), key=lambda entry: -entry[1]))
        return cls(label, score, words, tuple(evidence), text, spans)

    def __str__(self) -> str:
        words = [f"  {word:<25} {weight:.3f}" for word, weight in self.words]
        return "\n".join([f"{self.label}: {self.score:.3f}", *words, *(f"  {line}" for line in self.evidence)])

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain data; the label is called `name`, as in predictions."""
        return {
            "name": self.label,
            "score": self.score,
            "text": self.text,
            "words": [{"word": word, "weight": weight} for word, weight in self.words],
            "spans": [{"start": start, "end": end, "weight": weight} for start, end, weight in self.spans],
            "evidence": list(self.evidence),
        }


def words_of(model: str, vectors: DocumentVectors, text: str) -> tuple[Csr, list[str]]:
    """(the tf-idf vector of a text, the words of its entries); an error if the model was trained on features."""
    if vectors.tfidf is None:
        raise XmtcError(f"this {model} model was trained on features, so no words explain its answers")
    query, terms = vectors.transform(Corpus.of([text])), vectors.tfidf.terms
    return query, [terms[at] for at in query.indices.tolist()]


def strongest(words: Sequence[str], weights: NDArray[np.floating[Any]]) -> tuple[tuple[str, float], ...]:
    """The words with their weights, the largest first, without those that weigh nothing.

    >>> strongest(["a", "red", "apple"], np.array([0.0, 0.25, -0.5]))
    (('apple', -0.5), ('red', 0.25))
    """
    order = np.argsort(-np.abs(weights), kind="stable").tolist()
    return tuple((words[at], float(weights[at])) for at in order if weights[at] != 0)
