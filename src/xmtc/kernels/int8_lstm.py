"""An LSTM that only reads: gates, cells and states of a step in one pass over them, on products of whole numbers.

Torch has an operation for each of a dozen parts, and numba has no `tanh` of many numbers at once; a quotient of
polynomials is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted

UNIT = 127  # states are in -1..1, and are multiplied as whole numbers of 1 / UNIT
HALF, ONE, WHOLE = np.float32(0.5), np.float32(1), np.float32(UNIT)
FLAT = np.float32(7.905)  # beyond it tanh is 1 in single precision
# tanh(x) = x P(x^2) / Q(x^2) within 3e-7, the coefficients that numerical libraries use in single precision.
P0, P1, P2, P3, P4, P5, P6 = (
    np.float32(value)
    for value in (
        4.89352455891786e-03, 6.37261928875436e-04, 1.48572235717979e-05, 5.12229709037114e-08, -8.60467152213735e-11,
        2.00018790482477e-13, -2.76076847742355e-16,
    )
)  # fmt: skip
Q0, Q1, Q2, Q3 = (
    np.float32(value)
    for value in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)
)


@jitted(inlined=True)
def tanh(x: Any) -> Any:
    """In single precision; written so that compilers do many at once.

    >>> bool(abs(tanh(np.float32(0.3)) - np.tanh(0.3)) < 1e-6)
    True
    """
    x = x if x < FLAT else FLAT  # also for what is not a number
    x = x if x > -FLAT else -FLAT
    square = x * x
    above = square * P6 + P5
    above = above * square + P4
    above = above * square + P3
    above = above * square + P2
    above = above * square + P1
    above = above * square + P0
    below = square * Q3 + Q2
    below = below * square + Q1
    below = below * square + Q0
    return x * above / below


# Each loop has few arrays: with many, compilers cannot be sure that they do not overlap, and do one number at a time.


@jitted(relaxed=True)
def _open_gates(sums: Any, input_projection: Any, unit: Any, scales: Any, gates: Any) -> None:
    of_sums, of_input_projection, biases = scales[0], scales[1], scales[2]
    for at in range(len(gates)):
        gates[at] = tanh(
            np.float32(sums[at]) * of_sums[at]
            + np.float32(input_projection[at]) * (unit * of_input_projection[at])
            + biases[at]
        )


@jitted(relaxed=True)
def _change_cells(enter: Any, keep: Any, fresh: Any, cells: Any) -> None:
    for at in range(len(cells)):
        cells[at] = HALF * ((keep[at] + ONE) * cells[at] + (enter[at] + ONE) * fresh[at])


@jitted(relaxed=True)
def _show(show: Any, cells: Any, states: Any) -> None:
    for at in range(len(cells)):
        states[at] = HALF * (show[at] + ONE) * tanh(cells[at])


@jitted(relaxed=True)
def _round(states: Any, rounded: Any) -> None:
    for at in range(len(states)):
        rounded[at] = np.int8(WHOLE * states[at] + (HALF if states[at] > 0 else -HALF))


@jitted()
def _one_step(
    sums: Any, scales: Any, input_projection: Any, unit: Any, gates: Any, cells: Any, shown: Any, rounded: Any
) -> None:
    hidden = len(cells)
    _open_gates(sums, input_projection, unit, scales, gates)
    _change_cells(gates[:hidden], gates[hidden : 2 * hidden], gates[2 * hidden : 3 * hidden], cells)
    _show(gates[3 * hidden :], cells, shown)
    _round(shown, rounded)


@jitted()
def _product(weights: Any, states: Any, sums: Any) -> None:
    for at in range(len(sums)):
        row, total = weights[at], np.int32(0)
        for place in range(len(states)):
            total += np.int32(row[place]) * np.int32(states[place])
        sums[at] = total


@compiled()
def round_states(states: NDArray[np.float32]) -> NDArray[np.int8]:
    """States as whole numbers of 1 / UNIT.

    >>> round_states(np.array([1.0, -0.5, 0.0], np.float32)).tolist()
    [127, -64, 0]
    """
    rounded = np.empty(len(states), np.int8)
    _round(states, rounded)
    return rounded


@jitted(relaxed=True)
def _scale(sums: Any, units: Any, scaled: Any) -> None:
    for at in range(len(sums)):
        scaled[at] = np.float32(sums[at]) * units[at]


@compiled()
def scaled_sums(sums: NDArray[np.int32], units: NDArray[np.float32]) -> NDArray[np.float32]:
    """Products of whole numbers (any number, columns) times the unit of each column.

    >>> scaled_sums(np.array([[2, 3]], np.int32), np.array([0.5, 2], np.float32)).tolist()
    [[1.0, 6.0]]
    """
    scaled = np.empty(sums.shape, np.float32)
    for row in range(len(sums)):
        _scale(sums[row], units, scaled[row])
    return scaled


@compiled(writes=10)
def lstm_step(
    sums: NDArray[np.int32],
    scales: NDArray[np.float32],
    input_projection: NDArray[np.int32],
    units: NDArray[np.float32],
    words: NDArray[np.int64],
    places: NDArray[np.int64],
    first: int,
    cells: NDArray[np.float32],
    rounded: NDArray[np.int8],
    states: NDArray[np.float32],
) -> None:
    """One step of an LSTM for several documents.

    `sums` (documents, 4 * hidden) is the product of the last states and the weights, `input_projection` (distinct
    words, 4 * hidden) that of the words and their weights, in whole numbers, and `words` says which word each document
    reads. A gate is scales[0] * sums + scales[1] * units[word] * entered + scales[2]; the four are those of torch:
    enter, keep, fresh and show. sigmoid(x) = (tanh(x / 2) + 1) / 2, so that the scales of all but fresh are halved.
    `cells` and `rounded`, the states as whole numbers of 1 / UNIT, are changed; `states` (documents, tokens, any width)
    gets the new states of each document at its place, from column `first` on.
    """
    documents, hidden = cells.shape
    gates = np.empty(4 * hidden, np.float32)
    for row in range(documents):
        word, shown = words[row], states[row, places[row], first : first + hidden]
        _one_step(sums[row], scales, input_projection[word], units[word], gates, cells[row], shown, rounded[row])


@compiled(writes=11)
def lstm_document(
    sums: NDArray[np.int32],
    scales: NDArray[np.float32],
    input_projection: NDArray[np.int32],
    units: NDArray[np.float32],
    words: NDArray[np.int64],
    places: NDArray[np.int64],
    first: int,
    cells: NDArray[np.float32],
    rounded: NDArray[np.int8],
    states: NDArray[np.float32],
    weights: NDArray[np.int8],
) -> None:
    """The same for all `words` (tokens,) of one document, with the products of states and `weights` between steps.

    `sums` are those of the first step; `weights` are (4 * hidden, hidden), and `states` (tokens, any width).
    """
    hidden = len(cells)
    gates = np.empty(4 * hidden, np.float32)
    for step in range(len(words)):
        if step:
            _product(weights, rounded, sums)
        word, shown = words[step], states[places[step], first : first + hidden]
        _one_step(sums, scales, input_projection[word], units[word], gates, cells, shown, rounded)
