"""The best of all labels, against all scores sorted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xmtc.kernels import labels as kernel


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 40), st.integers(1, 9))
def test_best_labels(seed: int, texts: int, labels: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, (texts, 3)).astype(np.float32)  # small whole numbers, so that there are ties
    weights = rng.integers(-2, 3, (labels, 3)).astype(np.float32)
    ids, scores, logs = kernel.best_labels(vectors, weights, min(k, labels))
    every = vectors @ weights.T
    np.testing.assert_allclose(logs, np.log(np.exp(every.astype(float)).sum(axis=1)), rtol=1e-6, atol=1e-6)
    order = np.argsort(-every, axis=1, kind="stable")[:, : min(k, labels)]
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(scores, np.take_along_axis(every, order, axis=1))


def test_numbers_beyond_all_bounds_still_give_an_order() -> None:
    vectors = np.array([[1e38, 1e38]], np.float32)
    weights = np.array([[np.nan, 0], [-1e38, -1], [1e38, 1], [0, 0]], np.float32)
    ids, scores, logs = kernel.best_labels(vectors, weights, 4)
    assert ids.tolist() == [[2, 3, 0, 1]]
    assert np.isfinite(scores).all()
    assert np.isfinite(logs).all()


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(0)
    vectors, weights = rng.normal(size=(50, 9)).astype(np.float32), rng.normal(size=(99, 9)).astype(np.float32)
    parallel, serial = kernel.best_labels.versions  # type: ignore[attr-defined]
    for one, other in zip(parallel(vectors, weights, 7), serial(vectors, weights, 7), strict=True):
        np.testing.assert_array_equal(one, other)
