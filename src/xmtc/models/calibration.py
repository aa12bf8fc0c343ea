"""Calibration: a monotone map from a model's scores to the probability that a label is relevant.

It is fitted on the labels that the model lists for validation documents. "platt" (Platt 1999, as Lin, Lin and Weng 2007
write it) fits a sigmoid, two numbers; "isotonic" (Zadrozny and Elkan 2002) fits any rising curve. All labels share one
map, so the order of a document's labels stays as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.errors import ConfigError, XmtcError
from xmtc.predictions import Predictions, ScoreKind

Method = Literal["isotonic", "platt"]
METHODS: tuple[Method, ...] = get_args(Method)
Floats = NDArray[np.float64]

#: Labels that a model lists for each validation document.
LIST_LENGTH = 100
#: No probability is below this or above one minus this.
MIN_PROBABILITY = 1e-6
#: Distance beyond the fitted curve, in its widths, at which the remaining gap to 0 or 1 has shrunk by a factor e.
REACH = 10.0


class Pairs(NamedTuple):
    """The labels listed for validation documents, all documents in one row: label, score, and is it relevant?

    `carriers` says for each label of the model how many documents carry it, listed or not; `assignments` is the number
    of all labels of all documents, including those that the model does not know.
    """

    label: NDArray[np.int32]
    score: NDArray[np.float32]
    relevant: NDArray[np.bool_]
    carriers: NDArray[np.int64]
    assignments: int

    @classmethod
    def of(cls, top: Predictions, valid: Corpus) -> Pairs:
        """Compare lists with the labels of the same documents.

        >>> valid = Corpus.of(["...", "..."], [["a", "b"], ["b"]])
        >>> top = Predictions(np.array([[1], [0]], np.int32), np.array([[0.9], [0.4]], np.float32), valid.labels)
        >>> Pairs.of(top, valid).relevant.tolist()
        [True, False]
        """
        from xmtc.kernels.ranking_metrics import csr_rows, find_hits

        truth = valid.with_labels(top.labels).targets
        relevant = find_hits(np.ascontiguousarray(top.ids, np.int32), *csr_rows(truth))
        if not relevant.any():
            raise XmtcError(
                f"{valid.name}: no label that the model lists for these documents is relevant, so nothing can be "
                "learned from them; are their labels called as in training?"
            )
        listed = top.ids >= 0
        carriers = np.bincount(truth.indices, minlength=len(top.labels))[: len(top.labels)]
        return cls(top.ids[listed], top.scores[listed], relevant[listed], carriers, truth.nnz)


class Calibration(ABC):
    """A map from scores to probabilities that never puts a lower score above a higher one."""

    @staticmethod
    def fit(pairs: Pairs, method: Method, kind: ScoreKind) -> Calibration:
        """Fit the map of this name; `kind` is what the scores are before."""
        if method == "isotonic":
            return Isotonic.fit_curve(pairs.score, pairs.relevant)
        if method == "platt":
            return Platt.fit_sigmoid(pairs.score, pairs.relevant, of_probabilities=kind is not ScoreKind.RANKING)
        raise ConfigError(f"there is no calibration {method!r}; there are: {', '.join(METHODS)}")

    @abstractmethod
    def probabilities(self, scores: Floats) -> Floats:
        """The probability that a label with this score is relevant, for each score."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The map as arrays, for storage."""
        return {key: np.atleast_1d(value) for key, value in vars(self).items()}

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Calibration:
        """The inverse of `to_arrays`; KeyError or ValueError for arrays that are no such map."""
        return Platt.from_arrays(arrays) if "slope" in arrays else Isotonic(arrays["at"], arrays["probability"])

    def one(self, score: float) -> float:
        """The probability for one score."""
        return float(self.probabilities(np.array([score]))[0])

    def apply(self, top: Predictions) -> Predictions:
        """The same lists with probabilities for scores.

        >>> labels = Corpus.of([""], [["a", "b"]]).labels
        >>> top = Predictions(np.array([[1, 0]], np.int32), np.array([[0.75, 0.5]], np.float32), labels)
        >>> Platt(2.0, 0.0, of_probabilities=True).apply(top).names()
        [[('b', 0.9), ('a', 0.5)]]
        """
        probabilities = np.clip(self.probabilities(top.scores.astype(np.float64)), MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        # Rounding must not make two different scores of a document equal: ties go to the lower label.
        # The bits of positive floats, as integers, are in the order of the floats: count the lower one down by one.
        bits = probabilities.astype(np.float32).view(np.int32)
        steps = np.zeros(bits.shape, np.int32)
        np.cumsum(top.scores[:, 1:] < top.scores[:, :-1], axis=1, out=steps[:, 1:])
        bits = np.minimum.accumulate(bits + steps, axis=1) - steps
        scores = np.where(top.ids < 0, np.float32(0), bits.view(np.float32))
        return Predictions(top.ids, scores, top.labels, ScoreKind.CALIBRATED)


@dataclass(frozen=True)
class Platt(Calibration):
    """probability = sigmoid(slope x t + offset), where t is the score, or its log-odds if scores are probabilities.

    >>> Platt(slope=2.0, offset=0.0, of_probabilities=False).probabilities(np.array([-1.0, 0.0, 1.0])).round(3)
    array([0.119, 0.5  , 0.881])
    """

    slope: float
    offset: float
    of_probabilities: bool

    def __post_init__(self) -> None:
        if not (0 <= self.slope < np.inf and np.isfinite(self.offset)):
            raise ValueError(f"a sigmoid with slope {self.slope} and offset {self.offset} is no calibration")

    @classmethod
    def fit_sigmoid(
        cls, scores: NDArray[np.floating[Any]], relevant: NDArray[np.bool_], *, of_probabilities: bool
    ) -> Platt:
        """The maximum likelihood sigmoid for Platt's targets, which keep it from being too confident."""
        from scipy.optimize import minimize

        t = cls._input(np.asarray(scores, np.float64), of_probabilities)
        hits = np.count_nonzero(relevant)
        target = np.where(relevant, (hits + 1) / (hits + 2), 1 / (len(relevant) - hits + 2))
        mean, std = float(t.mean()), float(t.std())
        flat = cls(0.0, float(log_odds(target.mean())), of_probabilities)
        if std == 0:
            return flat
        t = (t - mean) / std

        def loss(line: Floats) -> tuple[float, Floats]:
            z = line[0] * t + line[1]
            error = _sigmoid(z) - target
            return float(np.mean(np.logaddexp(0, z) - target * z)), np.array([np.mean(error * t), np.mean(error)])

        def hessian(line: Floats) -> Floats:
            probability = _sigmoid(line[0] * t + line[1])
            weight = probability * (1 - probability)
            mixed = np.mean(weight * t)
            return np.array([[np.mean(weight * t * t), mixed], [mixed, np.mean(weight)]])

        start = np.array([0.0, flat.offset])
        a, b = minimize(loss, start, jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-8}).x
        # The loss is convex: if its minimum is a falling line, the best line that does not fall is the flat one.
        return flat if a <= 0 else cls(float(a / std), float(b - a * mean / std), of_probabilities)

    def probabilities(self, scores: Floats) -> Floats:
        """As `Calibration.probabilities`."""
        with np.errstate(over="ignore"):
            return _sigmoid(self.slope * self._input(scores, self.of_probabilities) + self.offset)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Platt:
        """As `Calibration.from_arrays`."""
        slope, offset, of_probabilities = (arrays[key] for key in ("slope", "offset", "of_probabilities"))
        if not slope.shape == offset.shape == of_probabilities.shape == (1,) or of_probabilities[0] not in (0, 1):
            raise ValueError("a sigmoid has one slope, one offset, and 0 or 1 for what its scores are")
        return cls(float(slope[0]), float(offset[0]), bool(of_probabilities[0]))

    @staticmethod
    def _input(scores: Floats, of_probabilities: bool) -> Floats:
        return log_odds(scores) if of_probabilities else scores


@dataclass(frozen=True, eq=False)
class Isotonic(Calibration):
    """A rising curve through points (score, probability), linear between them; beyond them it nears 0 and 1 slowly.

    >>> curve = Isotonic(np.array([0.2, 0.6]), np.array([0.1, 0.5]))
    >>> curve.probabilities(np.array([0.1, 0.2, 0.4, 0.7])).round(3)
    array([0.098, 0.1  , 0.3  , 0.512])
    """

    at: Floats
    probability: Floats

    def __post_init__(self) -> None:
        if self.at.dtype != np.float64 or self.probability.dtype != np.float64:
            raise ValueError("the points of a curve are of the type float64")
        if self.at.ndim != 1 or self.at.shape != self.probability.shape or not len(self.at):
            raise ValueError(f"{self.at.shape} scores and {self.probability.shape} probabilities are no curve")
        if not (np.abs(self.at) <= np.finfo(np.float32).max).all() or not (np.diff(self.at) > 0).all():
            raise ValueError("the scores of a curve's points must be finite and rising")
        if not ((self.probability > 0) & (self.probability < 1)).all() or not (np.diff(self.probability) >= 0).all():
            raise ValueError("the probabilities of a curve's points must lie between 0 and 1 and not fall")

    @classmethod
    def fit_curve(cls, scores: NDArray[np.floating[Any]], relevant: NDArray[np.bool_]) -> Isotonic:
        """Isotonic regression on relevance; each step becomes the point in its middle.

        One irrelevant label with the highest score and one relevant label with the lowest are added, so that no step is
        0 or 1.
        """
        from scipy.optimize import isotonic_regression

        points, place = np.unique(np.asarray(scores, np.float64), return_inverse=True)
        labels = np.bincount(place).astype(np.float64)
        hits = np.bincount(place, relevant)
        hits[0] += 1
        labels[0] += 1
        labels[-1] += 1
        steps = isotonic_regression(hits / labels, weights=labels)
        first = steps.blocks[:-1]
        return cls(np.add.reduceat(points * labels, first) / np.add.reduceat(labels, first), steps.x[first])

    def probabilities(self, scores: Floats) -> Floats:
        """As `Calibration.probabilities`."""
        low, high = self.at[0], self.at[-1]
        reach = max(REACH * (high - low), 1e-12) if high > low else REACH
        probabilities = np.interp(scores, self.at, self.probability)
        # With flat ends, labels that score higher than all validation documents would tie.
        probabilities *= np.exp(np.minimum(scores - low, 0) / reach)
        probabilities += (1 - probabilities) * -np.expm1(np.minimum(high - scores, 0) / reach)
        return probabilities


def fitted_on(valid: Corpus, **settings: Any) -> dict[str, Any]:
    """What a manifest says about a fit on validation documents."""
    return {**settings, "documents": len(valid), "fingerprint": valid.fingerprint()}


def log_odds(probability: Any) -> Any:
    """log(p / (1 - p)) of probabilities, which are clipped so that it is finite."""
    clipped = np.clip(probability, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.log(clipped) - np.log1p(-clipped)


def _sigmoid(z: Floats) -> Floats:
    sigmoid: Floats = 1 / (1 + np.exp(-np.clip(z, -40, 40)))
    return sigmoid
