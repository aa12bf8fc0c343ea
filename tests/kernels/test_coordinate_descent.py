"""Classifiers by coordinate descent against a general minimiser, and against scikit-learn's liblinear."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array, csr_matrix

from xmtc.kernels.coordinate_descent import LOGISTIC, SQUARED_HINGE, Importance, Solver, train_node
from xmtc.kernels.csr import CsrArrays, local_rows
from xmtc.kernels.vector_loops import LANES

Array = np.ndarray[Any, Any]
#: Where the regulariser draws the bias
NOTHING: Array = np.zeros(0, np.float32)
REST = {SQUARED_HINGE: -1.0, LOGISTIC: 0.0}


def documents(count: int = 80, features: int = 40, seed: int = 0) -> csr_array[Any, Any]:
    """Sparse unit rows, the last of them empty."""
    rng = np.random.default_rng(seed)
    dense = rng.random((count, features)) * (rng.random((count, features)) < 0.2)
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-9)
    dense[-1] = 0
    return csr_array(dense.astype(np.float32))


def labels(matrix: Any, count: int, seed: int = 1) -> Array:
    """Documents x labels: noisy linear, so that neither class is ever empty."""
    rng = np.random.default_rng(seed)
    scores = matrix @ rng.normal(size=(matrix.shape[1], count)) + rng.normal(scale=0.3, size=(matrix.shape[0], count))
    found: Array = scores > 0.4
    return found


def train(
    matrix: Any,
    rows: Array,
    wanted: Array,
    loss: int = SQUARED_HINGE,
    tight: bool = True,
    smallest: float = 0.0,
    **more: Any,
) -> tuple[Array, Array]:
    """(dense weights, biases) for wanted[rows x labels]."""
    lists = [np.flatnonzero(wanted[:, label]) for label in range(wanted.shape[1])]
    indptr = np.concatenate([[0], np.cumsum([len(found) for found in lists])])
    tolerance, rounds = (1e-5, 20_000) if tight else (0.1, 20)
    solver = Solver(loss, more.get("cost", 1.0), tolerance, rounds, smallest, more.get("bias", 1.0))
    ends, features, weights, biases = train_node(
        CsrArrays.of(matrix),
        matrix.shape[1],
        rows.astype(np.int32),
        indptr,
        np.concatenate([*lists, np.zeros(0, np.int64)]),
        more.get("offsets", np.zeros((0, 0), np.float32)),
        more.get("importance", Importance(NOTHING, NOTHING)),
        solver,
        more.get("seed", 0),
    )
    for label in range(len(ends) - 1):
        assert (np.diff(features[ends[label] : ends[label + 1]]) > 0).all(), "features ascend"
    return csr_array((weights, features, ends), shape=(wanted.shape[1], matrix.shape[1])).toarray(), biases


def minimised(
    matrix: Any, wanted: Array, loss: int, cost: float | Array, bias: float, known: Array | None = None
) -> tuple[Array, Array]:
    """What the descent is to find, by a method that knows nothing of it; `known`: earlier scores of all documents.

    The cost may be another for each document and label.
    """
    dense = matrix.toarray().astype(np.float64)
    weights, biases = [], []
    for label in range(wanted.shape[1]):
        sign = np.where(wanted[:, label], 1.0, -1.0)
        costs = np.broadcast_to(cost, wanted.shape)[:, label]
        rest = REST[loss] if known is None else 0.0
        offset = rest if known is None else known[:, label]

        def objective(
            point: Array, sign: Array = sign, offset: Any = offset, costs: Array = costs
        ) -> tuple[float, Array]:
            margin = sign * (dense @ point[:-1] + offset + bias * point[-1])
            if loss == SQUARED_HINGE:
                gaps = np.maximum(0, 1 - margin)
                total, slope = (costs * gaps**2).sum(), -2 * costs * gaps * sign
            else:
                total, slope = (costs * np.logaddexp(0, -margin)).sum(), -costs * sign / (1 + np.exp(margin))
            gradient = point + np.append(dense.T @ slope, bias * slope.sum())
            return float(0.5 * point @ point + total), gradient

        options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}
        start = np.zeros(dense.shape[1] + 1)
        found: Any = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
        weights.append(found.x[:-1])
        biases.append(rest + bias * found.x[-1])
    return np.array(weights), np.array(biases)


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC], ids=["squared hinge", "logistic"])
@pytest.mark.parametrize("count", [1, 2, LANES + 3], ids=["one", "two", "more than lanes"])
@pytest.mark.parametrize(("cost", "bias"), [(1.0, 1.0), (0.1, 1.0), (1.0, 0.3)])
def test_it_finds_the_minimum(loss: int, count: int, cost: float, bias: float) -> None:
    matrix = documents()
    rows = np.arange(10, 80)
    wanted = labels(matrix[rows], count)
    weights, biases = train(matrix, rows, wanted, loss, cost=cost, bias=bias)
    expected, expected_biases = minimised(matrix[rows], wanted, loss, cost, bias)
    close = 1e-4 if loss == SQUARED_HINGE else 1e-3
    np.testing.assert_allclose(weights, expected, atol=close)
    np.testing.assert_allclose(biases, expected_biases, atol=close)


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC], ids=["squared hinge", "logistic"])
@pytest.mark.parametrize("count", [1, 2, LANES + 3], ids=["one", "two", "more than lanes"])
def test_it_finds_the_least_change_of_earlier_classifiers(loss: int, count: int) -> None:
    matrix = documents()
    rows = np.arange(10, 80)
    wanted = labels(matrix[rows], count)
    known: Array = np.random.default_rng(5).normal(size=wanted.shape)  # type: ignore[assignment]
    weights, biases = train(matrix, rows, wanted, loss, bias=0.5, offsets=known.T.astype(np.float32).copy())
    expected, expected_biases = minimised(matrix[rows], wanted, loss, 1.0, 0.5, known)
    close = 1e-4 if loss == SQUARED_HINGE else 1e-3
    np.testing.assert_allclose(weights, expected, atol=close)
    np.testing.assert_allclose(biases, expected_biases, atol=close)


def weighted(wanted: Array, seed: int = 3) -> tuple[Importance, Array]:
    """Weights of documents and labels, and what the cost of each document is then for each label."""
    rng = np.random.default_rng(seed)
    of_documents = rng.choice([0.25, 1, 2, 5], len(wanted)).astype(np.float32)
    of_labels = rng.choice([0.5, 1, 4], wanted.shape[1]).astype(np.float32)
    positives = np.concatenate([np.repeat(each, wanted[:, label].sum()) for label, each in enumerate(of_labels)])
    return Importance(of_documents, positives), of_documents[:, None] * np.where(wanted, of_labels, 1)


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC], ids=["squared hinge", "logistic"])
@pytest.mark.parametrize("count", [1, 2, LANES + 3], ids=["one", "two", "more than lanes"])
@pytest.mark.parametrize("changed", [False, True], ids=["from nothing", "a change"])
def test_weights_multiply_the_cost(loss: int, count: int, changed: bool) -> None:
    matrix = documents()
    rows = np.arange(10, 80)
    wanted = labels(matrix[rows], count)
    importance, costs = weighted(wanted)
    known: Array | None = np.random.default_rng(5).normal(size=wanted.shape) if changed else None  # type: ignore[assignment]
    more: dict[str, Any] = {"offsets": known.T.astype(np.float32).copy()} if known is not None else {}
    weights, biases = train(matrix, rows, wanted, loss, bias=0.5, cost=0.7, importance=importance, **more)
    expected, expected_biases = minimised(matrix[rows], wanted, loss, 0.7 * costs, 0.5, known)
    close = 1e-4 if loss == SQUARED_HINGE else 1e-3
    np.testing.assert_allclose(weights, expected, atol=close)
    np.testing.assert_allclose(biases, expected_biases, atol=close)


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
def test_weights_of_1_change_nothing(loss: int) -> None:
    matrix = documents()
    wanted = labels(matrix, LANES + 3)
    ones = Importance(np.ones(80, np.float32), np.ones(int(wanted.sum()), np.float32))
    plain = train(matrix, np.arange(80), wanted, loss)
    same = train(matrix, np.arange(80), wanted, loss, importance=ones)
    np.testing.assert_allclose(same[0], plain[0], atol=1e-5)
    np.testing.assert_allclose(same[1], plain[1], atol=1e-5)


@pytest.mark.needs("sklearn")
def test_logistic_regression_is_that_of_liblinear() -> None:
    from sklearn.linear_model import LogisticRegression

    matrix = documents()
    wanted = labels(matrix, 3)
    weights, biases = train(matrix, np.arange(80), wanted, LOGISTIC)
    for label in range(3):
        model = LogisticRegression(solver="liblinear", dual=True, tol=1e-6, max_iter=100_000, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(csr_matrix(matrix.astype(np.float64)), wanted[:, label])
        np.testing.assert_allclose(weights[label], model.coef_[0], atol=1e-3)
        assert biases[label] == pytest.approx(model.intercept_[0], abs=1e-3)


def primal(matrix: Any, wanted: Array, weights: Array, biases: Array) -> Array:
    sign = np.where(wanted, 1, -1)
    gaps = np.maximum(0, 1 - sign * (matrix @ weights.T + biases))
    total: Array = 0.5 * ((weights**2).sum(1) + (biases + 1) ** 2) + (gaps**2).sum(0)
    return total


def test_papers_tolerance_is_near_the_optimum() -> None:
    matrix = documents()
    wanted = labels(matrix, 10)
    best = primal(matrix, wanted, *train(matrix, np.arange(80), wanted))
    quick = primal(matrix, wanted, *train(matrix, np.arange(80), wanted, tight=False))
    assert (quick >= best - 1e-3).all()
    assert (quick <= 1.02 * best).all()


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
def test_neither_neighbours_nor_order_matter(loss: int) -> None:
    """One at a time, in eights, the last eight only half filled, backwards, another seed: the same classifiers."""
    matrix = documents()
    rows = np.arange(80)
    wanted = labels(matrix, LANES + 5)
    weights, biases = train(matrix, rows, wanted, loss)
    backwards, biases_backwards = train(matrix, rows, wanted[:, ::-1], loss, seed=9)
    np.testing.assert_allclose(backwards[::-1], weights, atol=1e-3)
    np.testing.assert_allclose(biases_backwards[::-1], biases, atol=1e-3)
    for label in (0, LANES, LANES + 4):
        alone, bias = train(matrix, rows, wanted[:, label : label + 1], loss)
        np.testing.assert_allclose(alone[0], weights[label], atol=1e-3)
        assert bias[0] == pytest.approx(biases[label], abs=1e-3)


def test_same_seed_same_bits() -> None:
    matrix = documents()
    wanted = labels(matrix, 10)
    one, two = (train(matrix, np.arange(80), wanted, tight=False, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


def test_pruning_drops_small_weights_only() -> None:
    matrix = documents()
    wanted = labels(matrix, 9)
    whole, biases = train(matrix, np.arange(80), wanted, tight=False)
    pruned, same_biases = train(matrix, np.arange(80), wanted, tight=False, smallest=0.2)
    np.testing.assert_array_equal(pruned, np.where(np.abs(whole) >= 0.2, whole, 0))
    np.testing.assert_array_equal(biases, same_biases)
    assert 0 < np.count_nonzero(pruned) < np.count_nonzero(whole)


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
@pytest.mark.parametrize("count", [1, LANES + 1])
def test_labels_that_all_or_no_documents_have(loss: int, count: int) -> None:
    matrix = documents()
    none, all_ = np.zeros((80, count), bool), np.ones((80, count), bool)
    for wanted, sign in ((none, -1), (all_, 1)):
        weights, biases = train(matrix, np.arange(80), wanted, loss)
        assert np.isfinite(weights).all()
        assert (sign * (matrix @ weights.T + biases) > 0).all()
    if loss == LOGISTIC:
        np.testing.assert_allclose(train(matrix, np.arange(80), none, loss)[0], -weights, atol=1e-3)


def test_one_document_and_empty_ones() -> None:
    matrix = csr_array(np.array([[0.6, 0.8], [0, 0]], np.float32))
    weights, biases = train(matrix, np.array([0]), np.array([[True, False]]))
    # With b = c - 1: 1/2 |w|^2 + 1/2 c^2 + (2 - w x - c)^2, and |x|^2 + 1 = 2, so that (w, c) = 4/5 (x, 1).
    np.testing.assert_allclose(weights, [[0.48, 0.64], [0.0, 0.0]], atol=1e-5)
    np.testing.assert_allclose(biases, [-0.2, -1.0], atol=1e-5)
    weights, biases = train(matrix, np.array([1]), np.array([[True, False]]))
    assert not weights.any()
    np.testing.assert_allclose(biases, [1 / 3, -1.0], atol=1e-5)
    weights, biases = train(matrix, np.zeros(0, np.int64), np.zeros((0, 2), bool))
    assert not weights.any()
    np.testing.assert_array_equal(biases, [-1, -1])


@pytest.mark.parametrize("width", [40, 4000], ids=["table", "hash table"])
def test_local_rows(width: int) -> None:
    matrix = documents()
    rows = np.array([5, 79, 3])
    (indptr, indices, data), features = local_rows(CsrArrays.of(matrix), rows, width)
    assert len(set(features.tolist())) == len(features)
    dense = np.zeros((3, 40), np.float32)
    for row in range(3):
        for entry in range(indptr[row], indptr[row + 1]):
            dense[row, features[indices[entry]]] = data[entry]
    np.testing.assert_array_equal(dense, matrix.toarray()[rows])
