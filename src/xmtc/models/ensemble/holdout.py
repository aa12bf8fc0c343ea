"""Held-out documents that stand for the texts to come, and what they can tell: how good, how sure, which is better.

Nobody knows how alike the texts to come are to those at hand. Neighbours in a file are often alike (one author, one
day), so documents that are drawn one by one are easier than texts of another source will be, and whole blocks can be
harder than more texts of the same sources. Half of the held-out documents are of each kind, and a blend must not lose
on either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.splits import split_rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: A tenth of the documents is held out for the weights, but at least 500 (or a fifth, if that is less), at most 2000.
MIN_HOLDOUT, MAX_HOLDOUT = 500, 2000
#: With fewer held-out documents that have labels, nothing can be learned.
FEWEST = 10
ONE_BY_ONE, IN_BLOCKS = "one by one", "in blocks"
#: Normal quantiles: of an interval of 95 %, and of a one-sided test that is wrong in one of ten cases. It need not be
#: stricter, since a blend that is no better than its best member does no harm.
INTERVAL, PREFERRED = 1.96, 1.2816


@dataclass(frozen=True, eq=False)
class Holdout:
    """Documents that no member was trained on.

    `run` is equal for documents that stand side by side in the file: what they say is not independent. `kinds` are the
    rows that were held out one by one, and those in blocks; none if the documents were given.
    """

    corpus: Corpus
    run: Ints
    kinds: Mapping[str, Ints] = field(default_factory=dict)

    @classmethod
    def given(cls, corpus: Corpus) -> Holdout:
        """Validation documents that somebody else chose."""
        return cls(corpus, np.arange(len(corpus)))

    def __len__(self) -> int:
        return len(self.corpus)

    def with_labels(self, labels: LabelSet) -> Holdout:
        """The same documents with the ids of these labels."""
        return replace(self, corpus=self.corpus.with_labels(labels))

    def mean(self, values: Floats, rows: Ints | None = None) -> Estimate:
        """The mean of a value of each document, or of those in some rows."""
        run = self.run
        if rows is not None:
            values, run = values[rows], run[rows]
        mean = float(values.mean())
        sums = np.bincount(run, values - mean)  # documents of a run vary together
        sums = sums[np.bincount(run) > 0]
        spread = len(sums) / max(1, len(sums) - 1)
        return Estimate(mean, float(np.sqrt(spread * np.sum(sums**2)) / len(values)))

    def means(self, values: Floats) -> dict[str, Estimate]:
        """The same for each kind of documents."""
        return {kind: self.mean(values, rows) for kind, rows in self.kinds.items() if len(rows)}

    def prefers(self, gain: Floats) -> bool:
        """Whether a blend that gains so much for each document is better than what it is compared with.

        A paired test over all documents has to say so, and neither kind of documents may speak against it.

        >>> holdout = Holdout.given(Corpus.of(["..."] * 100, [["a"]] * 100))
        >>> holdout.prefers(np.full(100, 0.1)), holdout.prefers(np.array([0.5, -0.45] * 50))
        (True, False)
        """
        whole = self.mean(gain)
        against = [each for each in self.means(gain).values() if each.mean < -each.error]
        return whole.mean > PREFERRED * whole.error and not against


@dataclass(frozen=True)
class Estimate:
    """A mean over documents with its standard error, both in 0..1."""

    mean: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """In which the mean over very many such documents lies with a probability of 95 %."""
        return max(0.0, self.mean - INTERVAL * self.error), min(1.0, self.mean + INTERVAL * self.error)

    def in_percent(self) -> dict[str, float | list[float]]:
        """For a report.

        >>> Estimate(0.5, 0.01).in_percent()
        {'mean': 50.0, 'interval': [48.04, 51.96]}
        """
        return {"mean": round(100 * self.mean, 2), "interval": [round(100 * each, 2) for each in self.interval]}

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.mean:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def split_holdout(corpus: Corpus, seed: int) -> tuple[Corpus, Holdout | None]:
    """(documents to train members on, documents to learn weights on); all and none if there are too few.

    >>> train, holdout = split_holdout(Corpus.of(["..."] * 3000, [["a"]] * 3000), seed=0)
    >>> len(train), len(holdout), {kind: len(rows) for kind, rows in holdout.kinds.items()}
    (2500, 500, {'one by one': 260, 'in blocks': 240})
    """
    size = min(MAX_HOLDOUT, max(len(corpus) // 10, min(MIN_HOLDOUT, len(corpus) // 5)))
    if size < FEWEST:
        return corpus, None
    others, block = split_rows(corpus, size // 2, seed=seed, method="blocks")
    single = np.random.default_rng(seed).permutation(others)[: size - len(block)]
    rows = np.sort(np.concatenate([block, single]))
    in_block = np.isin(rows, block)
    # A document that was drawn is a run of its own, and so is each stretch of a block.
    starts = ~in_block | ~np.roll(in_block, 1) | (np.diff(rows, prepend=-2) > 1)
    kinds = {ONE_BY_ONE: np.flatnonzero(~in_block), IN_BLOCKS: np.flatnonzero(in_block)}
    return corpus[np.setdiff1d(others, single)], Holdout(corpus[rows], np.cumsum(starts) - 1, kinds)
