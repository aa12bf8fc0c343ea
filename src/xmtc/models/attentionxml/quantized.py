"""Int8 prediction: words, LSTM states and weights are multiplied as bytes.

States lie between -1 and 1 and have a fixed scale of 1/127; weights and word vectors have a scale for each row. Integer
sums are exact: a document gets the same states whatever else is in its batch.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from xmtc.kernels.int8_lstm import UNIT, lstm_document, lstm_step, round_states, scaled_sums
from xmtc.nn.batching import Ints
from xmtc.nn.layers import BiLstm, reversal

BLOCK = 512  # rows that are multiplied at a time
ROWS = 16
LARGEST = 127  # of int8
FRESH = 2  # the place of the gate with what is new in a cell among torch's four, the only one that is no sigmoid


def int8_bilstm_forward(encoder: BiLstm, vectors: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
    """The hidden states of a BiLSTM, (documents, tokens, 2 * hidden), for prediction.

    `vectors` are those of the batch's distinct words, `words` (documents, tokens) the place of each word among them: a
    distinct word goes through the input weights once. With the processor's int8 instructions this is three times as
    fast as torch's LSTM; states differ by some thousandths.
    """
    words, width = words.T.contiguous(), encoder.left.hidden_size  # (tokens, documents)
    back = reversal(lengths, len(words))
    places = torch.arange(len(words))[:, None].expand(words.shape).contiguous()
    hidden = torch.zeros(words.shape[1], len(words), 2 * width)
    int8_lstm_forward(encoder.left, encoder.initial[0], vectors, words, places, lengths, hidden, 0)
    int8_lstm_forward(encoder.right, encoder.initial[1], vectors, words.gather(0, back), back, lengths, hidden, width)
    return hidden


def int8_lstm_forward(
    lstm: nn.LSTM,
    initial: Tensor,
    vectors: Tensor,
    words: Tensor,
    places: Tensor,
    lengths: Tensor,
    hidden: Tensor,
    first: int,
) -> None:
    """Read `words` (tokens, documents), ids of `vectors`, and write the states at `places` of `hidden`.

    `hidden` is (documents, tokens, any width); the states stand there from column `first` on, and nothing after the end
    of a document that stands behind all longer ones.
    """
    weights = {name: weight.detach() for name, weight in lstm.named_parameters()}
    recurrent, documents = weights["weight_hh_l0"], words.shape[1]
    word_bytes, word_units = quantize_rows(vectors)
    input_bytes, input_units = quantize_rows(weights["weight_ih_l0"])
    state_bytes, state_units = quantize_rows(recurrent)
    state_units /= UNIT
    input_projection = _product(word_bytes, input_bytes)  # (distinct words, 4 * hidden)
    halves = torch.full((4, lstm.hidden_size), 0.5).index_fill_(0, torch.tensor(FRESH), 1.0).flatten()
    scales = torch.stack([state_units, input_units, weights["bias_ih_l0"] + weights["bias_hh_l0"]]) * halves
    # The initial state is learned and may be larger than 1, so it is not made bytes of.
    sums = (recurrent @ initial[0] / state_units).round().to(torch.int32).expand(documents, -1).contiguous()
    states = torch.empty(documents, lstm.hidden_size, dtype=torch.int8)
    cells = initial[1].detach().expand(documents, -1).clone()
    known = (sums.numpy(), scales.numpy(), input_projection.numpy(), word_units.numpy())
    if documents == 1:
        changed = (cells[0].numpy(), states[0].numpy(), hidden[0].numpy())
        read, place = words[:, 0].contiguous().numpy(), places[:, 0].contiguous().numpy()
        lstm_document(known[0][0], *known[1:], read, place, first, *changed, state_bytes.numpy())
        return
    columns = state_bytes.T.contiguous()
    for step, rows in enumerate(rows_to_read(lengths.numpy(), len(words))):
        if step:
            torch._int_mm(states[:rows], columns, out=sums[:rows])
        changed = (cells.numpy()[:rows], states.numpy(), hidden.numpy())
        lstm_step(*known, words[step].numpy(), places[step].numpy(), first, *changed)


def rows_to_read(lengths: Ints, tokens: int) -> list[int]:
    """For each step how many documents, from the first on, are to be read: those up to the last one that goes on.

    They are multiples of a few, since code is made for each shape that is multiplied for the first time.

    >>> rows_to_read(np.array([3, 1, 2]), 3)
    [3, 3, 3]
    >>> rows_to_read(np.array([2] + [1] * 39), 2)
    [40, 16]
    """
    longest = np.zeros(tokens + 1, np.int64)  # of documents with each length, the last one's number
    np.maximum.at(longest, lengths, np.arange(1, len(lengths) + 1))
    needed = np.maximum.accumulate(longest[::-1])[::-1][1:]
    rounded: list[int] = np.minimum(-(-needed // ROWS) * ROWS, len(lengths)).tolist()
    return rounded


class QuantizedStates:
    """States (documents, tokens, width) as bytes, to be multiplied with many rows of weights.

    >>> found = QuantizedStates(torch.tensor([[[1.0, -0.5]]])).matmul(torch.tensor([[2.0, 2.0]]))
    >>> found.shape, round(found.item(), 2)
    (torch.Size([1, 1, 1]), 0.99)
    """

    def __init__(self, states: Tensor) -> None:
        self._shape = states.shape[:-1]
        self._bytes = torch.from_numpy(round_states(states.flatten().numpy())).view(-1, states.shape[-1])

    def matmul(self, rows: Tensor) -> Tensor:
        """(rows, width) -> (documents, tokens, rows)."""
        values, units = quantize_rows(rows)
        scaled = scaled_sums(_product(self._bytes, values).numpy(), (units / UNIT).numpy())
        return torch.from_numpy(scaled).view(*self._shape, -1)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right.T of bytes, as whole numbers.

    Code is made for each shape that is multiplied for the first time, which takes as long as many a product. So the
    rows come in blocks of one size, the last one filled up.
    """
    columns, result = right.T.contiguous(), torch.empty(len(left), len(right), dtype=torch.int32)
    whole = len(left) // BLOCK * BLOCK
    for start in range(0, whole, BLOCK):
        torch._int_mm(left[start : start + BLOCK], columns, out=result[start : start + BLOCK])
    if whole < len(left):
        rest = torch.zeros(BLOCK, left.shape[1], dtype=torch.int8)
        rest[: len(left) - whole] = left[whole:]
        result[whole:] = torch._int_mm(rest, columns)[: len(left) - whole]
    return result


def quantize_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(rows as int8, the scale of each row).

    >>> values, scales = quantize_rows(torch.tensor([[1.0, -0.5]]))
    >>> values.tolist(), (values * scales[:, None]).round(decimals=2).tolist()
    ([[127, -64]], [[1.0, -0.5]])
    """
    array = rows.detach().numpy()
    scales = np.maximum(np.abs(array).max(1, keepdims=True, initial=0), 1e-30).astype(np.float32) / LARGEST
    return torch.from_numpy(np.rint(array / scales).astype(np.int8)), torch.from_numpy(scales[:, 0])
