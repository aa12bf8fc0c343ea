"""Logistic regression over binned features and pairs of them: a weight for each range of values.

A feature's ranges hold about as many examples each, so no feature has to be scaled, and a weight's course over the
ranges need not be a line. A pair of features has a weight for each combination of two ranges of half as many bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

BINS = 20
STEPS = 80  # of L-BFGS

Floats = NDArray[np.float32]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class BinnedLogistic:
    """What was learned: the limits of each feature's ranges, the pairs of features, and a weight for each range.

    >>> rng = np.random.default_rng(0)
    >>> values = rng.random((500, 2), np.float32)
    >>> model = BinnedLogistic.fit(values, abs(values[:, 0] - 0.5) < 0.2, ())
    >>> [bool(logit > 0) for logit in model.logits(np.array([[0.5, 0], [0.1, 0], [0.9, 0]], np.float32))]
    [True, False, False]
    """

    limits: tuple[Floats, ...]
    pairs: Pairs
    weights: NDArray[np.float64]
    bias: float

    @classmethod
    def fit(cls, values: Floats, relevant: NDArray[np.bool_], pairs: Pairs, l2: float = 3.0) -> BinnedLogistic:
        """Learn from examples x features; the squared weights are penalised by half of `l2`."""
        quantiles = np.linspace(0, 1, BINS + 1)[1:-1]
        columns = values.T if len(values) else np.zeros((values.shape[1], 1), np.float32)
        limits = tuple(np.unique(np.quantile(column, quantiles)).astype(np.float32) for column in columns)
        empty = cls(limits, pairs, np.zeros(0), 0.0)
        matrix = empty._ranges(values)
        sign = np.where(relevant, 1.0, -1.0)

        def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            weights, bias = parameters[:-1], parameters[-1]
            margins = sign * (matrix @ weights + bias)
            slopes = -sign / (1 + np.exp(np.minimum(margins, 500)))
            value = np.logaddexp(0, -margins).sum() + l2 / 2 * weights @ weights
            return float(value), np.append(matrix.T @ slopes + l2 * weights, slopes.sum())

        share = (relevant.sum() + 1) / (len(relevant) + 2)
        start = np.append(np.zeros(matrix.shape[1]), np.log(share / (1 - share)))
        found: Any = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
        return cls(limits, pairs, found.x[:-1], float(found.x[-1]))

    def logits(self, values: Floats) -> NDArray[np.float64]:
        """The log-odds of each example."""
        logits: NDArray[np.float64] = self._ranges(values) @ self.weights + self.bias
        return logits

    def _ranges(self, values: Floats) -> csr_array:
        """Examples x ranges, a 1 for each feature's and each pair's."""
        columns = [
            np.searchsorted(limits, column, "right") for limits, column in zip(self.limits, values.T, strict=True)
        ]
        sizes = [len(limits) + 1 for limits in self.limits]
        for one, other in self.pairs:
            width = (sizes[other] + 1) // 2
            columns.append(columns[one] // 2 * width + columns[other] // 2)
            sizes.append((sizes[one] + 1) // 2 * width)
        first = np.cumsum(sizes) - sizes
        indices = np.stack([column + at for column, at in zip(columns, first.tolist(), strict=True)], axis=1)
        indptr = np.arange(0, indices.size + 1, indices.shape[1])
        ones = np.ones(indices.size, np.float32)
        return csr_array((ones, indices.ravel().astype(np.int32), indptr), shape=(len(values), int(sum(sizes))))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """For storage; `from_arrays` is the way back."""
        ends = np.cumsum([len(each) for each in self.limits])
        return {
            "limits": np.concatenate(self.limits),
            "limits_ends": ends,
            "pairs": np.array(self.pairs, np.int64).reshape(-1, 2),
            "weights": self.weights,
            "bias": np.array([self.bias]),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> BinnedLogistic:
        """What `to_arrays` gave; a ValueError if it does not fit together."""
        limits = tuple(np.split(arrays["limits"], arrays["limits_ends"][:-1]))
        pairs = tuple((one, other) for one, other in arrays["pairs"].tolist())
        model = cls(limits, pairs, arrays["weights"], float(arrays["bias"][0]))
        if model._ranges(np.zeros((1, len(limits)), np.float32)).shape[1] != len(model.weights):
            raise ValueError("the number of weights is not that of the ranges")
        if not all(np.isfinite(each).all() and (np.diff(each) > 0).all() for each in limits):
            raise ValueError("limits of ranges that do not rise")
        if not np.isfinite(np.append(model.weights, model.bias)).all():
            raise ValueError("weights that are no numbers")
        return model
