"""The text of an explanation in pieces, each with the weight of its words: what pages and terminals shade."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from xmtc.text.word_rules import WordRules

if TYPE_CHECKING:
    from xmtc.models.explanation import Explanation

Span = tuple[int, int, float]


class Piece(NamedTuple):
    """A stretch of text with its weight, and `shade`: the weight relative to the strongest one, -1 to 1."""

    text: str
    weight: float
    shade: float


def shaded(why: Explanation) -> list[Piece]:
    """The text of an explanation in pieces; those between words, and words without a weight, weigh 0.

    >>> from xmtc.models.explanation import Explanation
    >>> why = Explanation("fruit", 0.5, (("apple", 0.5), ("red", -0.25)), text="Red apple!")
    >>> [tuple(piece) for piece in shaded(why)]
    [('Red', -0.25, -0.5), (' ', 0.0, 0.0), ('apple', 0.5, 1.0), ('!', 0.0, 0.0)]
    """
    pieces, done = [], 0
    for start, end, weight in weighed_places(why):
        pieces += [(why.text[done:start], 0.0), (why.text[start:end], weight)]
        done = end
    return relative((text, weight) for text, weight in [*pieces, (why.text[done:], 0.0)] if text)


def weighed_places(why: Explanation) -> list[Span]:
    """The places of the text that have a weight, in order: its spans, or wherever its words stand.

    >>> from xmtc.models.explanation import Explanation
    >>> weighed_places(Explanation("fruit", 0.5, (("apple", 0.5),), text="Red apple!"))
    [(4, 9, 0.5)]
    """
    return _apart(why.spans) if why.spans else places(why.text, why.words)


def places(text: str, words: Iterable[tuple[str, float]]) -> list[Span]:
    """The places in a text of words that have weights; each place gets the whole weight of its word.

    A term of several words gives each of them an equal part, and a word in several terms gets all their parts.

    >>> places("Mail, mail server", [("mail", 0.5), ("mail server", 0.25)])
    [(0, 4, 0.5), (6, 10, 0.625), (11, 17, 0.125)]
    """
    weights = dict(words)
    rules = _rules_of(weights)
    spans = rules.spans(text)
    folded = [rules.folded(text[start:end]) for start, end in spans]
    parts: list[dict[str, float]] = [{} for _ in spans]  # of each word: its terms and their weights
    for length in {term.count(" ") + 1 for term in weights}:
        for first in range(len(spans) - length + 1):
            term = " ".join(folded[first : first + length])
            if term in weights:
                for part in parts[first : first + length]:
                    part[term] = weights[term] / length
    return [(start, end, sum(part.values())) for (start, end), part in zip(spans, parts, strict=True) if part]


def _rules_of(terms: Collection[str]) -> WordRules:
    """The strictest rules that all these terms obey: those of the model, as far as its words in this text show."""

    def unchanged_by(rules: WordRules) -> bool:
        return all(rules.folded(term) == term for term in terms)

    return WordRules(
        lowercase=unchanged_by(WordRules(lowercase=True)),
        strip_accents=unchanged_by(WordRules(lowercase=False, strip_accents=True)),
        min_chars=min((len(word) for term in terms for word in term.split(" ")), default=1),
    )


def _apart(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, empty ones left out, and overlapping ones (two tokens of one character) as one."""
    apart: list[Span] = []
    for start, end, weight in sorted(spans):
        if apart and start < apart[-1][1] and start < end:
            first, last, before = apart.pop()
            apart.append((first, max(last, end), before + weight))
        elif start < end:
            apart.append((start, end, weight))
    return apart


def relative(weighed: Iterable[tuple[str, float]]) -> list[Piece]:
    """Texts and their weights as pieces.

    >>> [piece.shade for piece in relative([("mail", 0.5), ("sky", -0.25)])]
    [1.0, -0.5]
    """
    weighed = list(weighed)
    strongest = max((abs(weight) for _, weight in weighed), default=0.0) or 1.0
    return [Piece(text, weight, weight / strongest) for text, weight in weighed]
