"""L1-regularised classifiers against a general minimiser, and against scikit-learn's liblinear."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array, csr_matrix

from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.l1_linear import LOGISTIC, SQUARED_HINGE, Importance, L1Solver, train_l1_labels

Array = np.ndarray[Any, Any]
NOTHING: Array = np.zeros(0, np.float32)
LOSSES = pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC], ids=["squared hinge", "logistic"])


def documents(count: int = 80, features: int = 30, seed: int = 0) -> csr_array[Any, Any]:
    """Sparse unit rows, the last of them empty."""
    rng = np.random.default_rng(seed)
    dense = rng.random((count, features)) * (rng.random((count, features)) < 0.2)
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-9)
    dense[-1] = 0
    return csr_array(dense.astype(np.float32))


def labels(matrix: Any, count: int = 3, seed: int = 1) -> Array:
    """Documents x labels: noisy linear."""
    rng = np.random.default_rng(seed)
    scores = matrix @ rng.normal(size=(matrix.shape[1], count)) + rng.normal(scale=0.3, size=(matrix.shape[0], count))
    found: Array = scores > 0.3
    return found


def train(matrix: Any, wanted: Array, loss: int, **more: Any) -> tuple[Array, Array]:
    """(dense weights, biases) for wanted[documents x labels]."""
    lists = [np.flatnonzero(wanted[:, label]) for label in range(wanted.shape[1])]
    indptr = np.concatenate([[0], np.cumsum([len(found) for found in lists])])
    solver = L1Solver(
        loss,
        more.get("cost", 1.0),
        more.get("tolerance", 1e-7),
        more.get("rounds", 500),
        more.get("smallest", 0.0),
        more.get("bias", 1.0),
        more.get("rest", 0.0),
    )
    ends, features, weights, biases = train_l1_labels(
        CsrArrays.of(matrix),
        CsrArrays.of(matrix.tocsc()),
        matrix.shape[1],
        indptr,
        np.concatenate([*lists, np.zeros(0, np.int64)]),
        more.get("importance", Importance(NOTHING, NOTHING)),
        solver,
        more.get("seed", 0),
    )
    for label in range(len(ends) - 1):
        assert (np.diff(features[ends[label] : ends[label + 1]]) > 0).all(), "features ascend"
    return csr_array((weights, features, ends), shape=(wanted.shape[1], matrix.shape[1])).toarray(), biases


def minimised(matrix: Any, sign: Array, costs: Array, loss: int, bias: float, rest: float) -> tuple[Array, float]:
    """(weights, bias) by a method that knows nothing of the kernel's: weights as differences of two positive parts."""
    dense = np.hstack([matrix.toarray().astype(np.float64), np.full((matrix.shape[0], 1), bias)])

    def objective(point: Array) -> tuple[float, Array]:
        weights = point[: dense.shape[1]] - point[dense.shape[1] :]
        margin = sign * (dense @ weights + rest)
        if loss == SQUARED_HINGE:
            gaps = np.maximum(0, 1 - margin)
            total, slope = (costs * gaps**2).sum(), -2 * costs * gaps * sign
        else:
            total, slope = (costs * np.logaddexp(0, -margin)).sum(), -costs * sign / (1 + np.exp(margin))
        back = dense.T @ slope
        return float(point.sum() + total), np.concatenate([1 + back, 1 - back])

    start = np.zeros(2 * dense.shape[1])
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 20_000, "maxfun": 100_000}
    found: Any = minimize(  # type: ignore[call-overload]
        objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start), options=options
    )
    weights = found.x[: dense.shape[1]] - found.x[dense.shape[1] :]
    return weights[:-1], rest + bias * weights[-1]


@LOSSES
@pytest.mark.parametrize(("cost", "bias", "rest"), [(1.0, 1.0, 0.0), (5.0, 0.3, -1.0), (5.0, 0.0, 0.0)])
def test_it_finds_the_minimum(loss: int, cost: float, bias: float, rest: float) -> None:
    matrix = documents()
    wanted = labels(matrix)
    weights, biases = train(matrix, wanted, loss, cost=cost, bias=bias, rest=rest)
    assert (weights != 0).any()
    for label in range(wanted.shape[1]):
        sign = np.where(wanted[:, label], 1.0, -1.0)
        expected, expected_bias = minimised(matrix, sign, np.full(len(sign), cost), loss, bias, rest)
        np.testing.assert_allclose(weights[label], expected, atol=2e-4)
        assert biases[label] == pytest.approx(expected_bias, abs=2e-4)


@LOSSES
def test_documents_and_positives_weigh_what_they_are_given(loss: int) -> None:
    matrix = documents()
    wanted = labels(matrix, 1)
    rng = np.random.default_rng(2)
    importance = Importance(
        rng.uniform(0.5, 2, 80).astype(np.float32), rng.uniform(1, 4, int(wanted.sum())).astype(np.float32)
    )
    weights, biases = train(matrix, wanted, loss, importance=importance)
    costs = importance.documents.astype(np.float64)
    costs[wanted[:, 0]] *= importance.positives
    expected, expected_bias = minimised(matrix, np.where(wanted[:, 0], 1.0, -1.0), costs, loss, 1.0, 0.0)
    np.testing.assert_allclose(weights[0], expected, atol=2e-4)
    assert biases[0] == pytest.approx(expected_bias, abs=2e-4)


@LOSSES
def test_as_liblinear(loss: int) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    matrix = documents(200)
    wanted = labels(matrix, 1)
    weights, _ = train(matrix, wanted, loss, cost=3.0, bias=0.0)
    more: dict[str, Any] = {"C": 3.0, "fit_intercept": False, "tol": 1e-8, "max_iter": 100_000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model: Any = (
            LinearSVC(penalty="l1", dual=False, **more)
            if loss == SQUARED_HINGE
            else LogisticRegression(penalty="l1", solver="liblinear", **more)
        )
        model.fit(csr_matrix(matrix), wanted[:, 0])
    np.testing.assert_allclose(weights[0], model.coef_[0], atol=1e-3)


@LOSSES
def test_most_weights_are_exactly_zero_where_errors_cost_little(loss: int) -> None:
    matrix = documents()
    few, _ = train(matrix, labels(matrix), loss, cost=0.5)
    many, _ = train(matrix, labels(matrix), loss, cost=50.0)
    assert (few != 0).sum() < (many != 0).sum()
    nothing, biases = train(matrix, labels(matrix), loss, cost=1e-4)
    assert not nothing.any()
    assert not biases.any()


def test_a_label_that_no_document_has_keeps_the_resting_bias() -> None:
    matrix = documents()
    weights, biases = train(matrix, np.zeros((80, 2), bool), SQUARED_HINGE, rest=-1.0)
    assert not weights.any()
    assert biases.tolist() == [-1, -1]


def test_labels_do_not_depend_on_the_ones_before_them() -> None:
    matrix = documents()
    wanted = labels(matrix, 4)
    together, biases = train(matrix, wanted, SQUARED_HINGE)
    for label in range(4):
        alone, bias = train(matrix, wanted[:, [label]], SQUARED_HINGE, seed=label)
        np.testing.assert_array_equal(alone[0], together[label])
        assert bias[0] == biases[label]


def test_small_weights_are_dropped() -> None:
    matrix = documents()
    all_, _ = train(matrix, labels(matrix), LOGISTIC, cost=10.0)
    large, _ = train(matrix, labels(matrix), LOGISTIC, cost=10.0, smallest=0.5)
    np.testing.assert_array_equal(large, np.where(np.abs(all_) >= 0.5, all_, 0))


def test_few_rounds_already_come_near() -> None:
    matrix = documents()
    wanted = labels(matrix, 1)
    rough, _ = train(matrix, wanted, LOGISTIC, tolerance=0.01)
    exact, _ = train(matrix, wanted, LOGISTIC)
    assert np.abs(rough - exact).max() < 0.1
    stopped, _ = train(matrix, wanted, LOGISTIC, rounds=1)
    assert stopped.any()
