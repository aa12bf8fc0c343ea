"""The elastic-net and the Frank-Wolfe solver against general minimisers, projections and tables against naive ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array

from xmtc.kernels.coordinate_descent import SQUARED_HINGE, Importance
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.elastic_net import HINGE, ElasticNet, train_elastic_net_labels
from xmtc.kernels.frank_wolfe import MaxMargin, frank_wolfe_epoch, project
from xmtc.kernels.label_tables import label_tables, slot_of, with_room

Array = np.ndarray[Any, Any]
NOTHING = np.zeros(0, np.float32)


def documents(count: int = 60, features: int = 25, seed: int = 0) -> Any:
    """Sparse unit rows, the last of them empty."""
    rng = np.random.default_rng(seed)
    rows = rng.random((count, features)) * (rng.random((count, features)) < 0.2)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    rows[-1] = 0
    return csr_array(rows.astype(np.float32))


def wanted_labels(matrix: Any, count: int, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    scores = matrix @ rng.normal(size=(matrix.shape[1], count)) + rng.normal(scale=0.3, size=(matrix.shape[0], count))
    found: Array = scores > 0.5
    return found


@pytest.mark.parametrize("loss", [SQUARED_HINGE, HINGE])
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_elastic_net_is_at_the_minimum(loss: int, bias: float) -> None:
    matrix = documents()
    wanted = wanted_labels(matrix, 3)
    importance = np.random.default_rng(3).random(60).astype(np.float32) + 0.5
    lists = wanted.T.nonzero()
    ends = np.concatenate([[0], np.cumsum(wanted.sum(0))])
    heavy = np.full(len(lists[1]), 2, np.float32)
    how = ElasticNet(loss, 2.0, 0.1, bias, 1e-5, 200, 2000)
    columns = CsrArrays.of(matrix.tocsc())
    given_ = ends, lists[1].astype(np.int64), Importance(importance, heavy)
    indptr, features, weights, biases = train_elastic_net_labels(CsrArrays.of(matrix), columns, *given_, how, 0)
    dense = matrix.toarray().astype(np.float64)
    for label in range(3):
        sign = np.where(wanted[:, label], 1.0, -1.0)
        costs = 2.0 * importance * np.where(wanted[:, label], 2, 1)
        ours = np.zeros(25)
        ours[features[indptr[label] : indptr[label + 1]]] = weights[indptr[label] : indptr[label + 1]]

        def objective(w: Array, v: float, sign: Array = sign, costs: Array = costs) -> float:
            gap = np.maximum(0, 1 - sign * (dense @ w - 1 + bias * v))
            losses = gap if loss == HINGE else gap**2
            return float(0.1 * np.abs(w).sum() + 0.5 * (w**2).sum() + 0.5 * v * v + (costs * losses).sum())

        v = (biases[label] + 1) / bias if bias else 0.0
        best = objective(ours, v)
        rng = np.random.default_rng(label)
        for _ in range(300):  # a convex function: no point near by is lower
            near = ours + rng.normal(scale=0.02, size=25) * (rng.random(25) < 0.3)
            assert objective(near, v + (rng.normal(scale=0.02) if bias else 0.0)) > best - 1e-4
        if loss == SQUARED_HINGE:
            split = minimize(
                lambda p, f=objective: f(p[:25] - p[25:50], p[50] if bias else 0.0),
                np.zeros(51),
                bounds=[(0, None)] * 50 + [(None, None)],
                options={"maxfun": 100_000},
            )
            assert best <= split.fun + 1e-2


@settings(max_examples=50)
@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 5), st.floats(0.1, 3))
def test_projection_is_nearest_among_many(seed: int, rights: int, wrongs: int, cost: float) -> None:
    rng = np.random.default_rng(seed)
    a, b, gain = rng.normal(size=rights), rng.normal(size=wrongs), float(rng.random()) + 0.1
    right, wrong = a.copy(), b.copy()
    project(right, wrong, gain, cost)
    assert min(right.min(), wrong.min()) >= 0
    assert right.sum() == pytest.approx(wrong.sum(), abs=1e-6)
    assert right.sum() <= cost + 1e-6

    def value(p: Array, q: Array) -> float:
        return float(((p - a) ** 2).sum() / 2 + ((q - b) ** 2).sum() / 2 - p.sum() * gain)

    for _ in range(50):
        total = rng.random() * cost
        p, q = rng.dirichlet(np.ones(rights)) * total, rng.dirichlet(np.ones(wrongs)) * total
        assert value(right, wrong) <= value(p, q) + 1e-6


@pytest.mark.parametrize("sampled", [0, 3])
def test_frank_wolfe_closes_the_duality_gap(sampled: int) -> None:
    matrix = documents()
    wanted = wanted_labels(matrix, 6)
    targets, l1, cost = csr_array(wanted.astype(np.float32)), 0.05, 2.0
    alpha: Any = csr_array((60, 6), dtype=np.float32)
    how = MaxMargin(cost, l1, 2, sampled, False)
    for epoch in range(150):
        sums = csr_array(matrix.T @ alpha)
        sums.sort_indices()
        rows, has, dual, known = map(CsrArrays.of, (matrix, targets, alpha, sums))
        indptr, labels, values = frank_wolfe_epoch(rows, has, dual, known, NOTHING, how, epoch)
        alpha = csr_array((values, labels, indptr), shape=(60, 6))
    found = alpha.toarray()
    np.testing.assert_allclose(found.sum(1), 0, atol=1e-4)
    assert np.all((found >= 0) == (wanted | (found == 0)))
    sums = (matrix.T @ alpha).toarray()
    weights = np.sign(sums) * np.maximum(np.abs(sums) - l1, 0)
    scores = matrix @ weights
    both = wanted.any(1) & ~wanted.all(1) & (np.diff(matrix.indptr) > 0)
    highest = np.where(wanted, -np.inf, scores).max(1)[both]
    lowest = np.where(wanted, scores, np.inf).min(1)[both]
    primal = l1 * np.abs(weights).sum() + (weights**2).sum() / 2 + cost * np.maximum(0, 1 + highest - lowest).sum()
    gain = np.maximum(found, 0).sum() - (weights**2).sum() / 2
    assert gain <= primal + 1e-3
    assert primal - gain < 0.02 * primal


def test_tables_grow_and_keep_what_they_have() -> None:
    rng = np.random.default_rng(0)
    matrix = csr_array(rng.random((4, 50)) * (rng.random((4, 50)) < 0.1), dtype=np.float32)
    expected, tables = matrix.toarray(), label_tables(CsrArrays.of(matrix))
    for _ in range(400):
        feature, label = int(rng.integers(4)), int(rng.integers(50))
        tables = with_room(tables, feature)
        slot = slot_of(tables, feature, label)
        if tables.labels[slot] < 0:
            tables.labels[slot] = label
            tables.taken[feature] += 1
        tables.values[slot] += 1
        expected[feature, label] += 1
    for feature in range(4):
        for label in range(50):
            slot = slot_of(tables, feature, label)
            found = tables.values[slot] if tables.labels[slot] >= 0 else 0
            assert found == pytest.approx(expected[feature, label])
