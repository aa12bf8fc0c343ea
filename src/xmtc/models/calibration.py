"""Scores that mean something: a monotone map from a model's scores to the chance that a label is right.

It is fitted on validation documents: of all labels that the model lists for them, which are right? "platt" (Platt 1999,
as Lin, Lin and Weng 2007 write it) fits a sigmoid, two numbers; "isotonic" (Zadrozny and Elkan 2002) fits any rising
curve. The map is one for all labels, so the order of a document's labels stays as it is.
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

#: Labels asked for each validation document.
LIST_LENGTH = 100
#: No chance is below this or above one minus this.
MIN_PROBABILITY = 1e-6
#: How far beyond the fitted curve, in its widths, the remaining distance to 0 or 1 has shrunk by a factor e.
REACH = 10.0


class Pairs(NamedTuple):
    """The labels listed for validation documents, all documents in one row: label, score, and is it right?

    `carriers` says for each label of the model how many documents carry it, listed or not; `assignments` is the number
    of all labels of all documents, those included that the model does not know.
    """

    label: NDArray[np.int32]
    score: NDArray[np.float32]
    relevant: NDArray[np.bool_]
    carriers: NDArray[np.int64]
    assignments: int

    @classmethod
    def of(cls, top: Predictions, valid: Corpus) -> Pairs:
        """Hold lists against the labels of the same documents.

        >>> valid = Corpus.of(["...", "..."], [["a", "b"], ["b"]])
        >>> top = Predictions(np.array([[1], [0]], np.int32), np.array([[0.9], [0.4]], np.float32), valid.labels)
        >>> Pairs.of(top, valid).relevant.tolist()
        [True, False]
        """
        from xmtc.kernels.ranking_metrics import find_hits

        truth = valid.with_labels(top.labels).targets
        # One type each, whatever scipy chose, so that the kernel is compiled once.
        indptr, indices = truth.indptr.astype(np.int64, copy=False), truth.indices.astype(np.int32, copy=False)
        relevant = find_hits(np.ascontiguousarray(top.ids, np.int32), indptr, indices)
        if not relevant.any():
            raise XmtcError(
                f"{valid.name}: no label that the model lists for these documents is right, so nothing can be learned "
                "from them; are their labels called as in training?"
            )
        listed = top.ids >= 0
        carriers = np.bincount(indices, minlength=len(top.labels))[: len(top.labels)]
        return cls(top.ids[listed], top.scores[listed], relevant[listed], carriers, truth.nnz)


class Calibration(ABC):
    """A map from scores to chances that never puts a lower score above a higher one."""

    @staticmethod
    def fit(pairs: Pairs, method: Method, kind: ScoreKind) -> Calibration:
        """Fit a map by its name; `kind` is what the scores are before."""
        if method == "isotonic":
            return Isotonic.fit_curve(pairs.score, pairs.relevant)
        if method == "platt":
            return Platt.fit_sigmoid(pairs.score, pairs.relevant, of_probabilities=kind is not ScoreKind.RANKING)
        raise ConfigError(f"there is no calibration {method!r}; there are: {', '.join(METHODS)}")

    @abstractmethod
    def probabilities(self, scores: Floats) -> Floats:
        """The chance that a label with this score is right, for each score."""

    @abstractmethod
    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of which `from_arrays` makes it again."""

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Calibration:
        """The map in stored arrays; KeyError or ValueError if they are none."""
        return (Platt if "slope" in arrays else Isotonic).from_arrays(arrays)

    def one(self, score: float) -> float:
        """The chance for one score."""
        return float(self.probabilities(np.array([score]))[0])

    def apply(self, top: Predictions) -> Predictions:
        """The same lists with chances for scores.

        >>> labels = Corpus.of([""], [["a", "b"]]).labels
        >>> top = Predictions(np.array([[1, 0]], np.int32), np.array([[0.75, 0.5]], np.float32), labels)
        >>> Platt(2.0, 0.0, of_probabilities=True).apply(top).names()
        [[('b', 0.9), ('a', 0.5)]]
        """
        probabilities = np.clip(self.probabilities(top.scores.astype(np.float64)), MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        # Where rounding makes two different scores of a document equal, their order would be lost to the rule for ties.
        # As whole numbers, the bits of positive floats are in the order of the floats: count the lower one down by one.
        bits = probabilities.astype(np.float32).view(np.int32)
        steps = np.zeros(bits.shape, np.int32)
        np.cumsum(top.scores[:, 1:] < top.scores[:, :-1], axis=1, out=steps[:, 1:])
        bits = np.minimum.accumulate(bits + steps, axis=1) - steps
        scores = np.where(top.ids < 0, np.float32(0), bits.view(np.float32))
        return Predictions(top.ids, scores, top.labels, ScoreKind.CALIBRATED)


@dataclass(frozen=True)
class Platt(Calibration):
    """chance = sigmoid(slope x t + offset), where t is the score, or its log-odds if scores are probabilities.

    >>> Platt(slope=2.0, offset=0.0, of_probabilities=False).chances(np.array([-1.0, 0.0, 1.0])).round(3)
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
        """The sigmoid of the greatest likelihood, with Platt's targets, which keep it from being ever too sure."""
        from scipy.optimize import minimize

        t = cls._input(np.asarray(scores, np.float64), of_probabilities)
        hits = np.count_nonzero(relevant)
        target = np.where(relevant, (hits + 1) / (hits + 2), 1 / (len(relevant) - hits + 2))
        middle, width = float(t.mean()), float(t.std())
        flat = cls(0.0, float(_log_odds(target.mean())), of_probabilities)
        if width == 0:
            return flat
        t = (t - middle) / width

        def loss(line: Floats) -> tuple[float, Floats]:
            z = line[0] * t + line[1]
            gap = _sigmoid(z) - target
            return float(np.mean(np.logaddexp(0, z) - target * z)), np.array([np.mean(gap * t), np.mean(gap)])

        def curvature(line: Floats) -> Floats:
            probability = _sigmoid(line[0] * t + line[1])
            weight = probability * (1 - probability)
            mixed = np.mean(weight * t)
            return np.array([[np.mean(weight * t * t), mixed], [mixed, np.mean(weight)]])

        start = np.array([0.0, flat.offset])
        a, b = minimize(loss, start, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-8}).x
        # The loss is convex: if its lowest point has a falling line, the best line that does not fall is the flat one.
        return flat if a <= 0 else cls(float(a / width), float(b - a * middle / width), of_probabilities)

    def probabilities(self, scores: Floats) -> Floats:
        """As `Calibration.chances`."""
        with np.errstate(over="ignore"):
            return _sigmoid(self.slope * self._input(scores, self.of_probabilities) + self.offset)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As `Calibration.to_arrays`."""
        return {
            "slope": np.array([self.slope]),
            "offset": np.array([self.offset]),
            "of_probabilities": np.array([self.of_probabilities], np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Platt:
        """As `Calibration.from_arrays`."""
        slope, offset, of_probabilities = (arrays[key] for key in ("slope", "offset", "of_probabilities"))
        if not slope.shape == offset.shape == of_probabilities.shape == (1,) or of_probabilities[0] not in (0, 1):
            raise ValueError("a sigmoid has one slope, one offset, and 0 or 1 for what its scores are")
        return cls(float(slope[0]), float(offset[0]), bool(of_probabilities[0]))

    @staticmethod
    def _input(scores: Floats, of_probabilities: bool) -> Floats:
        return _log_odds(np.clip(scores, MIN_PROBABILITY, 1 - MIN_PROBABILITY)) if of_probabilities else scores


@dataclass(frozen=True, eq=False)
class Isotonic(Calibration):
    """A rising curve through points (score, chance), straight between them; beyond them it nears 0 and 1 slowly.

    >>> curve = Isotonic(np.array([0.2, 0.6]), np.array([0.1, 0.5]))
    >>> curve.chances(np.array([0.1, 0.2, 0.4, 0.7])).round(3)
    array([0.098, 0.1  , 0.3  , 0.512])
    """

    at: Floats
    probability: Floats

    def __post_init__(self) -> None:
        if self.at.dtype != np.float64 or self.probability.dtype != np.float64:
            raise ValueError("the points of a curve are of the type float64")
        if self.at.ndim != 1 or self.at.shape != self.probability.shape or not len(self.at):
            raise ValueError(f"{self.at.shape} scores and {self.probability.shape} chances are no points of a curve")
        if not (np.abs(self.at) <= np.finfo(np.float32).max).all() or not (np.diff(self.at) > 0).all():
            raise ValueError("the scores of a curve's points must be finite and rising")
        if not ((self.probability > 0) & (self.probability < 1)).all() or not (np.diff(self.probability) >= 0).all():
            raise ValueError("the chances of a curve's points must lie between 0 and 1 and not fall")

    @classmethod
    def fit_curve(cls, scores: NDArray[np.floating[Any]], relevant: NDArray[np.bool_]) -> Isotonic:
        """The rising steps that are nearest to what is right, each step given by its middle.

        One irrelevant label with the highest score and one relevant label with the lowest are put in, so that no step,
        however few labels it has, says 0 or 1.
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
        """As `Calibration.chances`."""
        low, high = self.at[0], self.at[-1]
        reach = max(REACH * (high - low), 1e-12) if high > low else REACH
        probabilities = np.interp(scores, self.at, self.probability)
        # Flat ends would make a document's best labels equal whenever they score more than any validation document's.
        probabilities *= np.exp(np.minimum(scores - low, 0) / reach)
        probabilities += (1 - probabilities) * -np.expm1(np.minimum(high - scores, 0) / reach)
        return probabilities

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As `Calibration.to_arrays`."""
        return {"at": self.at, "probability": self.probability}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Isotonic:
        """As `Calibration.from_arrays`."""
        return cls(arrays["at"], arrays["probability"])


def fitted_on(valid: Corpus, **settings: Any) -> dict[str, Any]:
    """What a manifest says of something that was fitted on validation documents."""
    return {**settings, "documents": len(valid), "fingerprint": valid.fingerprint()}


def _log_odds(probability: Any) -> Any:
    return np.log(probability) - np.log1p(-probability)


def _sigmoid(z: Floats) -> Floats:
    sigmoid: Floats = 1 / (1 + np.exp(-np.clip(z, -40, 40)))
    return sigmoid
