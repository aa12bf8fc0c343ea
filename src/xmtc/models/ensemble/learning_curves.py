"""Learning curves on a sample: how long a method will take on all documents, and how good it may become.

A method is trained on a sample of the documents and on half of it. Time grows as the method's own formula says, from
what the sample took; quality by as much for each doubling of the documents as from the half to the sample. Real curves
flatten, but those of all methods do: the numbers are for the order in which methods are tried, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xmtc.corpus.corpus import Corpus
from xmtc.models.ensemble.search_space import Candidate, Facts

#: A sample is an eighth of the documents, or less if that is too slow, but never fewer than these.
LARGEST_SHARE, FEWEST = 8, 1000


@dataclass(frozen=True)
class Curve:
    """What a method reached on a sample and on half of it: seconds of training, and nDCG@5 in 0..1."""

    sample: Facts
    seconds: float
    half_ndcg: float
    ndcg: float

    def seconds_for(self, candidate: Candidate, facts: Facts) -> float:
        """Seconds of training on a corpus, as foreseen."""
        return self.seconds * candidate.seconds(facts) / max(1e-9, candidate.seconds(self.sample))

    def promise(self, documents: int) -> float:
        """The nDCG@5 that it may reach with this many documents.

        >>> facts = Facts(1000, 100, 2.0, 50.0, texts=True, hierarchy=False, named=0.0)
        >>> round(Curve(facts, 1.0, half_ndcg=0.3, ndcg=0.34).promise(4000), 2)
        0.42
        """
        doublings = np.log2(documents / self.sample.documents)
        return min(1.0, self.ndcg + max(0.0, self.ndcg - self.half_ndcg) * float(doublings))


def sample_for(
    train: Corpus, candidates: Sequence[Candidate], seconds: float, speed: float, seed: int
) -> tuple[Corpus, Corpus, Facts] | None:
    """(a sample, half of it, its facts) on which all candidates can be trained in this time; None if there is none.

    `speed` is how long a method takes for each second of its formula.
    """
    order = np.random.default_rng(seed).permutation(len(train))
    size = len(train) // LARGEST_SHARE
    while size >= FEWEST:
        sample, half = (train[np.sort(order[:many])] for many in (size, size // 2))
        facts, less = Facts.of(sample, seed), Facts.of(half, seed)
        if speed * sum(each.seconds(facts) + each.seconds(less) for each in candidates) <= seconds:
            return sample, half, facts
        size //= 2
    return None
