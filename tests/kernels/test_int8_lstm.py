"""Steps of an LSTM against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from xmtc.kernels.int8_lstm import UNIT, lstm_document, lstm_step, round_states, scaled_sums, tanh

WORDS, HIDDEN, TOKENS = 5, 3, 4
Floats = NDArray[np.float32]


def sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-values))


class Plain:
    """One document's LSTM, gate by gate."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.weights = rng.integers(-UNIT, UNIT + 1, (4 * HIDDEN, HIDDEN)).astype(np.int8)
        self.scales = rng.uniform(0, 1e-4, (3, 4 * HIDDEN)).astype(np.float32)
        self.input_projection = rng.integers(-9000, 9000, (WORDS, 4 * HIDDEN)).astype(np.int32)
        self.units = rng.uniform(0, 1, WORDS).astype(np.float32)
        self.cells = rng.normal(size=HIDDEN).astype(np.float32)
        self.first = rng.integers(-9000, 9000, 4 * HIDDEN).astype(np.int32)

    def states(self, words: NDArray[np.int64]) -> NDArray[np.float64]:
        """(tokens, hidden)."""
        cells, sums, found = self.cells.astype(np.float64), self.first.astype(np.float64), []
        for word in words:
            values = (
                sums * self.scales[0]
                + self.input_projection[word] * (self.units[word] * self.scales[1])
                + self.scales[2]
            )
            enter, keep, fresh, show = values.reshape(4, HIDDEN)
            # `scales` of all gates but "fresh" are halved by the caller.
            cells = sigmoid(2 * keep) * cells + sigmoid(2 * enter) * np.tanh(fresh)
            found.append(sigmoid(2 * show) * np.tanh(cells))
            rounded = np.floor(np.abs(found[-1]) * UNIT + 0.5) * np.sign(found[-1])
            sums = self.weights.astype(np.float64) @ rounded
        return np.array(found)


@pytest.mark.parametrize("values", [np.linspace(-12, 12, 4001), np.linspace(-0.01, 0.01, 101)])
def test_tanh(values: NDArray[np.float64]) -> None:
    found = np.array([tanh(value) for value in values.astype(np.float32)])
    np.testing.assert_allclose(found, np.tanh(values), atol=5e-7)


def test_what_is_not_a_number_stays_in_bounds() -> None:
    for value in (np.nan, np.inf, -np.inf):
        assert abs(tanh(np.float32(value))) <= 1


@given(st.integers(0, 10_000), st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=TOKENS))
@settings(max_examples=50)
def test_a_document(seed: int, read: list[int]) -> None:
    plain, words = Plain(np.random.default_rng(seed)), np.array(read)
    places = np.arange(len(words))[::-1].copy()
    states, rounded = np.zeros((TOKENS, HIDDEN + 2), np.float32), np.zeros(HIDDEN, np.int8)
    lstm_document(
        plain.first.copy(), plain.scales, plain.input_projection, plain.units, words, places, 1, plain.cells.copy(),
        rounded, states, plain.weights,
    )  # fmt: skip
    # A state halfway between two whole numbers may be rounded the other way, which changes later ones a little.
    np.testing.assert_allclose(states[places, 1:-1], plain.states(words), atol=2e-3)
    assert not states[:, 0].any() and not states[:, -1].any()


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=25)
def test_several_documents_are_read_as_one_alone(seed: int, documents: int) -> None:
    rng = np.random.default_rng(seed)
    plain, words = Plain(rng), rng.integers(0, WORDS, (TOKENS, documents))
    together = np.zeros((documents, TOKENS, HIDDEN), np.float32)
    sums, cells = np.repeat(plain.first[None], documents, 0), np.repeat(plain.cells[None], documents, 0)
    rounded = np.zeros((documents, HIDDEN), np.int8)
    for step in range(TOKENS):
        places = np.full(documents, step)
        if step:
            sums[:] = rounded.astype(np.int32) @ plain.weights.T.astype(np.int32)
        lstm_step(
            sums,
            plain.scales,
            plain.input_projection,
            plain.units,
            words[step].copy(),
            places,
            0,
            cells,
            rounded,
            together,
        )
    for row in range(documents):
        alone = np.zeros((TOKENS, HIDDEN), np.float32)
        lstm_document(
            plain.first.copy(), plain.scales, plain.input_projection, plain.units, words[:, row].copy(),
            np.arange(TOKENS), 0, plain.cells.copy(), np.zeros(HIDDEN, np.int8), alone, plain.weights,
        )  # fmt: skip
        np.testing.assert_array_equal(together[row], alone)


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=9))
def test_rounded_states_are_the_nearest(values: list[float]) -> None:
    states = np.array(values, np.float32)
    assert np.abs(round_states(states) - states.astype(np.float64) * UNIT).max() <= 0.5 + 1e-4


def test_sums_have_a_unit_for_each_column() -> None:
    rng = np.random.default_rng(0)
    sums, units = rng.integers(-1000, 1000, (7, 33)).astype(np.int32), rng.normal(size=33).astype(np.float32)
    np.testing.assert_allclose(scaled_sums(sums, units), sums * units, rtol=1e-6)
