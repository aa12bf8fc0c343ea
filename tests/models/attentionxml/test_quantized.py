"""Prediction in bytes against the same in single precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xmtc.models.attentionxml.quantized import BLOCK, ROWS, QuantizedStates, int8_bilstm_forward, rows_to_read
from xmtc.nn.layers import BiLstm

DIMENSIONS, HIDDEN = 6, 8
WITHIN = 0.02  # of states between -1 and 1


def some_lstm(seed: int) -> BiLstm:
    torch.manual_seed(seed)
    lstm = BiLstm(DIMENSIONS, HIDDEN)
    torch.nn.init.normal_(lstm.initial, std=2)  # may be larger than any state
    return lstm


@given(st.lists(st.integers(1, 7), min_size=1, max_size=40), st.integers(0, 100))
@example([1], 0)
@example([7] + [1] * 39, 0)
@settings(max_examples=25)
def test_states_are_those_of_the_lstm(sizes: list[int], seed: int) -> None:
    lstm, lengths = some_lstm(seed), torch.tensor(sizes)
    table = torch.randn(6, DIMENSIONS)  # fewer words than places: most come several times
    ids = torch.randint(1, 6, (len(sizes), max(sizes)))
    outside = torch.arange(max(sizes)) >= lengths[:, None]
    ids[outside] = 0
    with torch.inference_mode():
        read = int8_bilstm_forward(lstm, table, ids, lengths)  # all words of the table are "distinct words" here
        torch.testing.assert_close(read[~outside], lstm(table[ids], lengths)[~outside], atol=WITHIN, rtol=0)
        assert read.isfinite().all()
        for row, length in enumerate(sizes):  # the same to the number, alone as among others
            alone = int8_bilstm_forward(lstm, table, ids[row : row + 1, :length], lengths[row : row + 1])
            assert torch.equal(alone[0], read[row, :length])


@pytest.mark.parametrize("documents", [1, BLOCK // 4 - 1, BLOCK // 4, BLOCK])
def test_products_of_rounded_states(documents: int) -> None:
    torch.manual_seed(documents)
    states, rows = torch.rand(documents, 5, 16) * 2 - 1, torch.randn(7, 16)
    found = QuantizedStates(states).matmul(rows)
    assert found.shape == (documents, 5, 7)
    torch.testing.assert_close(found, states @ rows.T, atol=0.1, rtol=0)


def test_a_row_of_zeros() -> None:
    assert not QuantizedStates(torch.rand(1, 2, 4)).matmul(torch.zeros(3, 4)).any()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60))
def test_no_document_is_left_before_its_end(sizes: list[int]) -> None:
    lengths = np.array(sizes)
    for step, rows in enumerate(rows_to_read(lengths, max(sizes))):
        assert 0 < rows <= len(sizes)
        assert not (lengths[rows:] > step).any()
        assert rows == len(sizes) or rows % ROWS == 0
        assert (lengths[max(0, rows - ROWS) : rows] > step).any(), "more than needed"
