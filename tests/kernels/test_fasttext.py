"""The steps of fastText's gradient descent against one text after the other in plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.kernels import fasttext as kernel

Arrays = dict[str, Any]
BASE = -0.7


def problem(seed: int, texts: int, labels: int, size: int = 5, features: int = 12) -> Arrays:
    """Random texts, some features of which occur several times in one text, and weights that are not zero."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 6, texts))])
    indptr = np.concatenate([[0], np.cumsum(rng.integers(1, 3, texts))])
    return {
        "rows": rng.integers(0, features, offsets[-1]).astype(np.int32),
        "offsets": offsets,
        "indptr": indptr,
        "indices": rng.integers(0, labels, indptr[-1]).astype(np.int32),
        "order": rng.permutation(texts),
        "table": rng.normal(0, 1, (features, size)).astype(np.float32),
        "weights": rng.normal(0, 1, (labels, size)).astype(np.float32),
    }


def with_own_features(given: Arrays) -> Arrays:
    """The same texts without a feature in common."""
    count = len(given["rows"])
    vectors = np.random.default_rng(1).normal(0, 1, (count, given["table"].shape[1])).astype(np.float32)
    return {**given, "rows": np.arange(count, dtype=np.int32), "table": vectors}


def sigmoid(score: Any) -> Any:
    return 1 / (1 + np.exp(-score))


def bounded(step: float, mean: Any) -> Any:
    """Labels' weights take a smaller step for a longer vector: never beyond the minimum of the text's own loss."""
    return step / (1 + step * (mean @ mean) / 4)


def one_after_the_other(given: Arrays, picked: Any, softmax: bool, rate: float, decay: float) -> tuple[Any, Any]:
    table, weights = given["table"].astype(float), given["weights"].astype(float)
    for at, text in enumerate(given["order"]):
        rows = given["rows"][given["offsets"][text] : given["offsets"][text + 1]]
        mean = table[rows].mean(axis=0)
        scores = weights @ mean
        target = np.zeros(len(weights))
        if softmax:
            probabilities = np.exp(scores - scores.max())
            probabilities /= probabilities.sum()
            target[picked[at]] = 1
        else:
            probabilities = sigmoid(scores + BASE)
            for label in given["indices"][given["indptr"][text] : given["indptr"][text + 1]]:
                target[label] += 1
        step = rate - decay * at
        slopes = target - probabilities
        change = slopes @ weights
        weights += bounded(step, mean) * np.outer(slopes, mean)
        for row in rows:
            table[row] += step * change / len(rows)
    return table, weights


def documents_of(given: Arrays) -> kernel.Documents:
    shares = given.get("shares", np.zeros(0, np.float32))
    return kernel.Documents(given["rows"], given["offsets"], shares, given["indices"], given["indptr"])


def trained(given: Arrays, picked: Any, softmax: bool, rate: float, decay: float, together: int) -> tuple[Any, Any]:
    table, weights = given["table"].copy(), given["weights"].copy()
    documents = documents_of(given)
    loss = kernel.Loss(softmax, BASE)
    kernel.train_all_labels(documents, given["order"], picked, loss, rate, decay, together, table, weights)
    return table, weights


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 7), st.booleans())
def test_one_text_at_a_time_is_plain_gradient_descent(seed: int, texts: int, labels: int, softmax: bool) -> None:
    given = problem(seed, texts, labels)
    picked = np.random.default_rng(seed).integers(0, labels, texts)
    expected = one_after_the_other(given, picked, softmax, 0.3, 0.01)
    for found, right in zip(trained(given, picked, softmax, 0.3, 0.01, 1), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4)


@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(1, 7), st.integers(2, 8), st.booleans())
def test_texts_without_common_features_may_go_together(
    seed: int, texts: int, labels: int, together: int, softmax: bool
) -> None:
    """Then the vectors that a text would find changed are not its own, and nothing is different."""
    given = with_own_features(problem(seed, texts, labels))
    picked = np.random.default_rng(seed).integers(0, labels, texts)
    expected = one_after_the_other(given, picked, softmax, 0.3, 0.0)
    found = trained(given, picked, softmax, 0.3, 0.0, together)
    for part, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, right, rtol=1e-3, atol=1e-4)


def test_more_labels_than_fit_into_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    given = with_own_features(problem(3, 9, labels=kernel.TILE + 7))
    picked = np.zeros(9, np.int64)
    for found, right in zip(
        trained(given, picked, False, 0.1, 0.0, 4), one_after_the_other(given, picked, False, 0.1, 0.0), strict=True
    ):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4)


def test_the_step_falls_with_each_group() -> None:
    """Within a group of texts the step is that of the first."""
    given = with_own_features(problem(4, 4, 3))
    picked = np.zeros(4, np.int64)
    first = {**given, "order": given["order"][:2]}
    table, weights = one_after_the_other(first, picked, False, 0.4, 0.0)
    expected = one_after_the_other(
        {**given, "order": given["order"][2:], "table": table, "weights": weights}, picked, False, 0.2, 0.0
    )
    for found, right in zip(trained(given, picked, False, 0.4, 0.1, 2), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-4)


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(2, 6))
def test_sampled_labels(seed: int, texts: int, labels: int) -> None:
    given = problem(seed, texts, labels)
    chosen = np.random.default_rng(seed).integers(0, labels, (texts, 4))
    table, weights = given["table"].astype(float), given["weights"].astype(float)
    for at, text in enumerate(given["order"]):
        rows = given["rows"][given["offsets"][text] : given["offsets"][text + 1]]
        mean, step, change = table[rows].mean(axis=0), 0.3 - 0.01 * at, np.zeros(table.shape[1])
        for place, label in enumerate(chosen[at]):
            if place and label == chosen[at, 0]:
                continue
            slope = (place == 0) - sigmoid(weights[label] @ mean)
            change += slope * weights[label]
            weights[label] += bounded(step, mean) * slope * mean
        for row in rows:
            table[row] += step * change / len(rows)
    found = given["table"].copy(), given["weights"].copy()
    kernel.train_sampled_labels(documents_of(given), given["order"], chosen, 0.3, 0.01, *found)
    np.testing.assert_allclose(found[0], table, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[1], weights, rtol=1e-3, atol=1e-4)


def test_text_vectors() -> None:
    given = problem(5, 7, 2)
    none = np.zeros(0, np.float32)
    found = kernel.text_vectors(given["rows"], given["offsets"], none, given["table"])
    for text in range(7):
        rows = given["rows"][given["offsets"][text] : given["offsets"][text + 1]]
        np.testing.assert_allclose(found[text], given["table"][rows].mean(axis=0), rtol=1e-5, atol=1e-6)
