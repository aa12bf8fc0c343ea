"""The best of all labels, against all scores sorted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xmtc.kernels import dense_topk as kernel


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


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 40), st.integers(1, 9), st.booleans())
def test_offered_labels(seed: int, texts: int, labels: int, k: int, as_logits: bool) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.integers(-3, 4, (labels, texts)) * rng.choice([1, 4, 9])).astype(np.float32)  # with ties
    above = rng.choice([0, 1e-30, 0.3, 1], texts).astype(np.float32) if as_logits else None
    scores, ids = np.full((texts + 2, k), -np.inf, np.float32), np.full((texts + 2, k), 99, np.int32)
    rows, names = np.arange(texts) + 1, np.arange(labels, dtype=np.int32)[::-1].copy()
    for part in np.array_split(np.arange(labels), 3):
        kernel.offer_labels(values[part], names[part], rows, above, scores, ids)
    expected = values if above is None else above / (1 + np.exp(-values))
    for at in range(texts):
        ranked = sorted(zip((-expected[:, at]).tolist(), names.tolist(), strict=True))[:k]
        found = sorted(zip((-scores[rows[at]]).tolist(), ids[rows[at]].tolist(), strict=True))[: len(ranked)]
        np.testing.assert_allclose([score for score, _ in found], [score for score, _ in ranked], rtol=1e-6)
        assert [label for _, label in found] == [label for _, label in ranked]
    assert (ids[[0, -1]] == 99).all(), "texts that are not asked for stay as they are"
