"""The labels that a text may be about, because their names stand in it, with what is known of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.models.mllm.matching import Ints, Matches

SMOOTHING = 10.0  # matches that a label's precision begins with, at the precision of all labels together
MOST_SHARING = 5

Floats = NDArray[np.float32]

#: The features of a candidate. Those of the text come first, in the order of `Candidates.of`.
FEATURES = (
    "count",
    "frequency",
    "first",
    "first_share",
    "spread",
    "words",
    "kind",
    "sharing",
    "covered",
    "text_length",
    "candidates",
    "precision",
    "matches",
    "documents",
)
OF_TEXT = FEATURES.index("precision")
#: What is looked at together: how sure a match is with how it stands in the text, and how frequent a label is.
PAIRS = tuple(
    (FEATURES.index(one), FEATURES.index(other))
    for one, other in (
        ("precision", "count"),
        ("precision", "first"),
        ("precision", "covered"),
        ("precision", "matches"),
        ("precision", "frequency"),
        ("precision", "kind"),
        ("documents", "words"),
        ("first", "count"),
    )
)


@dataclass(frozen=True)
class Candidates:
    """Each pair of a text and a label that match: the text, the label, and the features that the text alone tells."""

    texts: Ints
    labels: Ints
    values: Floats  # candidates x OF_TEXT

    @classmethod
    def of(cls, matches: Matches, labels: int) -> Candidates:
        """Bring the matches of a text and a label together."""
        pairs, pair = np.unique(matches.texts * labels + matches.labels, return_inverse=True)
        texts, number = pairs // labels, len(pairs)
        count = np.bincount(pair, minlength=number)

        def least(values: NDArray[Any]) -> Ints:
            found = np.full(number, np.iinfo(np.int64).max)
            np.minimum.at(found, pair, values)
            return found

        first, last = least(matches.starts), -least(-matches.starts)
        length = matches.lengths[texts]
        features = {
            "count": np.log1p(count),
            "frequency": np.log(count / np.maximum(length, 1)),
            "first": np.log1p(first),
            "first_share": first / np.maximum(length, 1),
            "spread": np.log1p(last - first),
            "words": -least(-matches.sizes),
            "kind": least(matches.kinds),
            "sharing": np.minimum(least(matches.sharing), MOST_SHARING),
            "covered": np.bincount(pair, matches.covered, minlength=number) / np.maximum(count, 1),
            "text_length": np.log1p(length),
            "candidates": np.log1p(np.bincount(texts, minlength=len(matches.lengths))[texts]),
        }
        values = np.stack([features[name] for name in FEATURES[:OF_TEXT]], axis=1).astype(np.float32)
        return cls(texts, pairs % labels, values)


@dataclass(frozen=True)
class LabelFacts:
    """Of each label: training documents in which its name stands, those of them that have it, and all that have it."""

    matched: Ints
    confirmed: Ints
    documents: Ints

    def __post_init__(self) -> None:
        if not len(self.matched) == len(self.confirmed) == len(self.documents):
            raise ValueError("facts about different numbers of labels")
        if (self.confirmed < 0).any() or (self.confirmed > self.matched).any():
            raise ValueError("more matches are right than there are")

    def values(self, candidates: Candidates, relevant: NDArray[np.bool_] | None = None) -> Floats:
        """All features of candidates. `relevant` is for those that were counted: each is left out of its own facts."""
        labels = candidates.labels
        own = np.zeros(len(labels)) if relevant is None else relevant.astype(np.float64)
        matched = self.matched[labels] - (relevant is not None)
        usual = (self.confirmed.sum() + 1) / (self.matched.sum() + 2)
        precision = (self.confirmed[labels] - own + SMOOTHING * usual) / (matched + SMOOTHING)
        features = {
            "precision": np.log(precision),
            "matches": np.log1p(matched),
            "documents": np.log1p(self.documents[labels] - own),
        }
        return np.column_stack([candidates.values, *(features[name] for name in FEATURES[OF_TEXT:])]).astype(np.float32)
