"""Is it luck? Confidence intervals by the bootstrap, and a paired test of two models on the same documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.errors import XmtcError
from xmtc.evaluation.ranking import RankingMetrics, align
from xmtc.labelspace.propensity import Propensity, propensity_of
from xmtc.predictions import Predictions
from xmtc.progress import progress

Floats = NDArray[np.float64]

#: Resamples are drawn in blocks of at most this many numbers, which bounds the memory.
BLOCK = 4_000_000


@dataclass(frozen=True)
class Interval:
    """A confidence interval, in percent."""

    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """The first model's metric minus the second's, in percentage points.

    `interval` is the confidence interval of the difference, `p_value` the two-sided probability of a difference at
    least as large if the two models were equally good.
    """

    metric: str
    difference: float
    interval: Interval
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.metric}: {self.difference:+.2f} points"
            f" [{self.interval.low:+.2f}, {self.interval.high:+.2f}], p = {self.p_value:.4f}"
        )


def bootstrap_intervals(
    ranking: RankingMetrics, metrics: Sequence[str], *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> dict[str, Interval]:
    """Percentile bootstrap intervals over documents, for metrics like "P@5" and "PSP@5".

    Each resample draws as many documents as there are, with replacement, and computes the metric anew: for PSP and
    PSnDCG numerator and denominator are summed over the resample before dividing. All metrics are computed on the same
    resamples. Only the documents vary; the model and the propensities are fixed. Cost: documents x resamples, some tens
    of seconds for a million documents and a thousand resamples.

    >>> truth = Corpus.of(["..."] * 100, [["a"]] * 80 + [["b"]] * 20)
    >>> top = Predictions(np.zeros((100, 1), np.int32), np.ones((100, 1), np.float32), truth.labels)
    >>> bootstrap_intervals(RankingMetrics.of(top, truth), ["P@1"])["P@1"]
    Interval(low=72.0, high=88.0)
    """
    ratios = _resample([ranking.per_document(metric) for metric in metrics], resamples, seed)
    return {metric: _interval(ratios[:, at], level) for at, metric in enumerate(metrics)}


def compare(
    a: Predictions,
    b: Predictions,
    corpus: Corpus,
    metric: str = "P@5",
    *,
    train_documents: int | None = None,
    propensity: Propensity | str | tuple[float, float] = "default",
    level: float = 0.95,
    resamples: int = 5000,
    seed: int = 0,
) -> Comparison:
    """Compare two models by a metric on the same documents.

    The p-value is that of a paired randomisation test: if the models are equally good, swapping their predictions for
    a document makes no systematic difference, so the observed difference is compared with those under random swaps
    (two-sided; the observed one is counted in, so p is never 0). The interval is that of the paired bootstrap:
    documents are resampled, each with both models' predictions. Propensities come from the counts in a's labels.

    >>> truth = Corpus.of(["..."] * 50, [["a"]] * 40 + [["b"]] * 10)
    >>> one = Predictions(np.zeros((50, 1), np.int32), np.ones((50, 1), np.float32), truth.labels)
    >>> two = Predictions(np.ones((50, 1), np.int32), np.ones((50, 1), np.float32), truth.labels)
    >>> print(compare(one, two, truth, "P@1"))
    P@1: +60.00 points [+36.00, +80.00], p = 0.0002
    """
    if a.labels is not b.labels and list(a.labels.keys) != list(b.labels.keys):
        raise XmtcError("the two predictions are over different label sets; train both models on the same labels")
    truth = align(a, corpus)
    if len(b) != len(a):
        raise XmtcError(f"{len(a):,} predictions against {len(b):,}; both must be for the same documents")
    counts = truth.labels.counts
    constants = propensity_of(propensity)
    weights = None if counts is None or train_documents is None else constants.inverse(counts, train_documents)
    ours, below = RankingMetrics.of(a, truth, weights).per_document(metric)
    theirs, _ = RankingMetrics.of(b, truth, weights).per_document(metric)  # the denominator depends on the truth alone

    gain = ours - theirs
    return Comparison(
        metric,
        difference=100 * float(gain.sum() / below.sum()),
        interval=_interval(_resample([(gain, below)], resamples, seed)[:, 0], level),
        p_value=randomisation_p(gain, resamples, seed),
    )


def _resample(parts: Sequence[tuple[Floats, Floats]], resamples: int, seed: int) -> Floats:
    """Metrics on resampled documents, (resamples, metrics), from each document's (numerator, denominator)."""
    columns = np.stack([column for part in parts for column in part], axis=1)  # (documents, 2 * metrics)
    documents = len(columns)
    rng = np.random.default_rng(seed)
    block = max(1, min(resamples, BLOCK // documents))
    sums = np.empty((resamples, columns.shape[1]))
    with progress("resampling documents", resamples) as bar:
        for start in range(0, resamples, block):
            size = min(block, resamples - start)
            drawn = rng.integers(documents, size=(size, documents)) + np.arange(size)[:, None] * documents
            times = np.bincount(drawn.ravel(), minlength=size * documents).reshape(size, documents)
            sums[start : start + size] = times.astype(np.float64) @ columns
            bar.advance(size)
    return sums[:, ::2] / np.maximum(sums[:, 1::2], np.finfo(float).tiny)


def randomisation_p(gain: Floats, resamples: int = 5000, seed: int = 0) -> float:
    """The two-sided p-value of a difference, from each document's gain: a paired randomisation test.

    `scipy.stats.permutation_test` gives the same p-values within Monte-Carlo error and takes eight times as long.

    >>> randomisation_p(np.ones(20)) < 0.001, randomisation_p(np.array([1.0, -1.0] * 10)) > 0.5
    (True, True)
    """
    # Documents on which the models agree change nothing when swapped.
    gain = gain[gain != 0]
    if not len(gain):
        return 1.0
    rng = np.random.default_rng(seed)
    observed = abs(gain.sum())
    as_extreme = 0
    block = max(1, min(resamples, BLOCK // len(gain)))
    for done in range(0, resamples, block):
        swapped = rng.integers(2, size=(min(block, resamples - done), len(gain)), dtype=np.int8)
        differences = gain.sum() - 2 * (swapped @ gain)
        # A rounding error must not make an equal difference look smaller.
        as_extreme += int(np.count_nonzero(np.abs(differences) >= observed * (1 - 1e-9)))
    return (1 + as_extreme) / (1 + resamples)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number, in the same order: Holm, Scandinavian Journal of Statistics 6, 1979.

    Of m hypotheses the smallest p is multiplied by m, the next by m - 1, and so on; none may fall below one before it.
    If none of the differences is real, even one adjusted p below 0.05 has a probability of at most 5 %.

    >>> holm([0.04, 0.01, 0.5])
    [0.08, 0.03, 0.5]
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return [float(value) for value in adjusted]


def _interval(values: Floats, level: float) -> Interval:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(100 * float(low), 100 * float(high))
