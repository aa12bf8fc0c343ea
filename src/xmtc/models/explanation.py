"""`Explanation`: why a document got a label; `Explanations`: of several labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.display import escaped, further, html_box, html_table, plain, printable
from xmtc.errors import XmtcError
from xmtc.models.shading import Piece, relative, shaded, weighed_places
from xmtc.text.document_features import DocumentVectors

LISTED = 10  # words that are shown
LONGEST_TEXT = 10_000  # characters of a text that a notebook shows
FOR, AGAINST = "45 135 215", "225 110 25"  # blue and orange: legible below the letters of light and of dark pages


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a document got a label: the score as a sum over words, strongest first, and sentences of evidence.

    `label` is the label's name, `key` its key. `print` shows all words, `repr` the strongest, a notebook colours the
    text.

    If the model is calibrated, the words add up to the score before calibration. A model with attention gives, in the
    order of the text, `spans` of it: start and end in characters, and the attention weight. Then `words` are the
    weights of each word added up, the largest first; both add up to 1.

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
    key: str = ""

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

    def __repr__(self) -> str:
        """As `print` shows it, with the strongest words only, and safe on a terminal."""
        rest = [weight for _, weight in self.words[LISTED:]]
        words = [(printable(word), weight) for word, weight in self.words[:LISTED]]
        words += [(f"further words ({len(rest):,})", sum(rest))] if rest else []
        evidence = tuple(map(printable, self.evidence))
        return str(replace(self, label=printable(self.label), words=tuple(words), evidence=evidence))

    def _repr_html_(self) -> str:
        return html_box(self.label, f"score {self.score:.3f}", *_parts(self))

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain data; label and name as in predictions.

        `places` are what to shade: wherever in the text a word with a weight stands, or the spans, none overlapping.
        """
        return {
            "label": self.key or self.label,
            "name": self.label,
            "score": self.score,
            "text": self.text,
            "words": [{"word": word, "weight": weight} for word, weight in self.words],
            "spans": [{"start": start, "end": end, "weight": weight} for start, end, weight in self.spans],
            "places": [{"start": start, "end": end, "weight": weight} for start, end, weight in weighed_places(self)],
            "evidence": list(self.evidence),
        }


class Explanations(tuple[Explanation, ...]):
    """Why a document got several labels, best first; prints as its explanations do, one below the other.

    >>> Explanations([Explanation("fruit", 0.75, (("apple", 0.75),)), Explanation("sky", 0.0, ())])
    fruit: 0.750
      apple                     0.750
    <BLANKLINE>
    sky: 0.000
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self)) or "no label"

    def __str__(self) -> str:
        return "\n\n".join(map(str, self)) or "no label"

    def _repr_html_(self) -> str:
        return "".join(why._repr_html_() for why in self) or html_box("no label", "")


def _parts(why: Explanation) -> Iterator[str]:
    """The shaded text, a bar for each word, and the evidence, as HTML."""
    cut = replace(why, text=why.text[:LONGEST_TEXT], spans=tuple(s for s in why.spans if s[1] <= LONGEST_TEXT))
    if pieces := shaded(cut):
        yield f'<div class="shaded" dir="auto">{"".join(map(_marked, pieces))}</div>'
        for line in further(LONGEST_TEXT, len(why.text), "character"):
            yield f'<div class="soft">{line}</div>'
    rows = [[escaped(bar.text), _bar(bar), f"{bar.weight:.3f}"] for bar in relative(why.words[:LISTED])]
    if rest := why.words[LISTED:]:
        rows.append([f"further words ({len(rest):,})", "", f"{sum(weight for _, weight in rest):.3f}"])
    if rows:
        yield html_table([], rows)
    else:
        yield '<div class="soft">No word of this text counts for or against this label.</div>'
    if why.evidence:
        yield f"<ul>{''.join(f'<li>{escaped(line)}</li>' for line in why.evidence)}</ul>"


def _marked(piece: Piece) -> str:
    if not piece.weight:
        return plain(piece.text)
    side = ' class="against"' if piece.weight < 0 else ""
    ground = _ground(piece.weight, 0.55 * abs(piece.shade))
    return f'<mark{side} style="{ground}" title="{piece.weight:.4g}">{plain(piece.text)}</mark>'


def _bar(piece: Piece) -> str:
    return f'<span class="bar" style="{_ground(piece.weight, 0.8)}; width: {16 * abs(piece.shade):.2f}em"></span>'


def _ground(weight: float, share: float) -> str:
    return f"background: rgb({FOR if weight > 0 else AGAINST} / {100 * share:.1f}%)"


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
