"""The decoders' layers against naive ones, and what the network's loss depends on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from meta_device import assert_stays_on_the_device
from split_batches import assert_same_in_threads
from tiny_seq2seq import LABELS, METHODS, learner, network
from torch import Tensor, nn

from xmtc.models.seq2seq.decoders import AdditiveAttention, GruCell, LstmCell, Memory
from xmtc.models.seq2seq.model import Seq2Seq, Sgm, Su4Mlc
from xmtc.models.seq2seq.network import DilatedConvolutions, GlobalEmbedding, Seq2SeqNetwork
from xmtc.nn.parallel import Cores


def test_attention_is_that_of_loops() -> None:
    torch.manual_seed(0)
    attention, state, memory = AdditiveAttention(4, 3), torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    blocked = torch.tensor([[False] * 5, [False, False, True, True, True]])
    contexts, weights = attention(state, memory, attention.keys(memory), blocked)
    for document in range(2):
        for sequence in range(3):
            words = range(5 if document == 0 else 2)
            query = attention.query(state[document, sequence])
            scores = [attention.score(torch.tanh(query + attention.keys(memory[document, at]))) for at in words]
            shares = torch.cat(scores).softmax(0)
            torch.testing.assert_close(weights[document, sequence, : len(words)], shares)
            torch.testing.assert_close(contexts[document, sequence], shares @ memory[document, : len(words)])
    assert not weights[1, :, 2:].any()


def test_cells_are_torch_s() -> None:
    torch.manual_seed(0)
    values, state, cell = torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 4)
    gru, reference = GruCell(3, 4), nn.GRUCell(3, 4)
    parts = {"input": "ih", "state": "hh"}
    reference.load_state_dict(
        {
            f"{kind}_{short}": getattr(getattr(gru, name), kind)
            for name, short in parts.items()
            for kind in ("weight", "bias")
        }
    )
    torch.testing.assert_close(gru(values, state), reference(values, state))
    lstm, other = LstmCell(3, 4), nn.LSTMCell(3, 4)
    weight = lstm.gates.weight
    other.load_state_dict(
        {"weight_ih": weight[:, :3], "weight_hh": weight[:, 3:], "bias_ih": lstm.gates.bias, "bias_hh": torch.zeros(16)}
    )
    for found, expected in zip(lstm(values, state, cell), other(values, (state, cell)), strict=True):
        torch.testing.assert_close(found, expected)


def test_dilated_convolutions_are_torch_s() -> None:
    torch.manual_seed(0)
    layer, states = DilatedConvolutions(4), torch.randn(2, 9, 4)
    blocked = torch.arange(9) >= torch.tensor([[9], [3]])
    found = layer(states, blocked)
    for document, length in enumerate((9, 3)):
        expected = states[document, :length].T[None]
        for dilation, own in zip((1, 2, 3), layer.layers, strict=True):
            weight = own.get_parameter("weight").view(4, 3, 4).transpose(1, 2)  # (out, in, place)
            expected = nn.functional.conv1d(
                expected, weight, own.get_parameter("bias"), padding=dilation, dilation=dilation
            )
            expected = nn.functional.selu(expected)
        torch.testing.assert_close(found[document, :length], expected[0].T)


def test_global_embedding_is_that_of_the_paper() -> None:
    torch.manual_seed(0)
    gate, label, mean = GlobalEmbedding(3), torch.randn(2, 3), torch.randn(2, 3)
    share = torch.sigmoid(gate.of_label.weight @ label[0] + gate.of_mean.weight @ mean[0])
    torch.testing.assert_close(gate(label, mean)[0], (1 - share) * label[0] + share * mean[0])


def naive_step(
    made: Seq2SeqNetwork, embedded: Tensor, state: list[Tensor], memory: Tensor
) -> tuple[list[Tensor], Tensor]:
    """A step of the decoder for one sequence of one document: vectors instead of batches."""
    decoder: Any = made.decoder

    def context(attention: AdditiveAttention, query: Tensor, values: Tensor) -> Tensor:
        scores = torch.cat(
            [attention.score(torch.tanh(attention.query(query) + attention.keys(row))) for row in values]
        )
        return scores.softmax(0) @ values

    if len(state) == 1:
        between = decoder.first(embedded, state[0])
        found = context(decoder.attention, between, memory)
        hidden = decoder.second(found, between)
        return [hidden], torch.tanh(decoder.readout(torch.cat([hidden, embedded, found])))
    if len(state) == 3:
        hidden, cell = decoder.cell(torch.cat([embedded, state[2]]), state[0], state[1])
        found = context(decoder.attention, hidden, memory)
        return [hidden, cell, found], torch.tanh(decoder.readout(torch.cat([hidden, found])))
    hidden, cell = decoder.cell(embedded, state[0], state[1])
    assert made.units is not None
    units = made.units(memory[None], torch.zeros(1, len(memory), dtype=torch.bool))[0]
    with_units = hidden + context(decoder.unit_attention, hidden, units)
    return [hidden, cell], with_units + context(decoder.attention, with_units, memory)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("adaptive_above", [10, 2], ids=["one softmax", "clusters"])
def test_the_loss_is_that_of_naive_steps(method: type[Seq2Seq], adaptive_above: int) -> None:
    had = learner(method, adaptive_above=adaptive_above)
    made = had.network
    batch = had.batch(np.arange(12), np.random.default_rng(0))
    with torch.no_grad():
        losses = made.losses(batch.ids, batch.lengths, batch.targets)
        for row in range(12):
            words = batch.ids[row, None, : max(1, int(batch.lengths[row]))]
            memory = made.encode(words, torch.tensor([words.shape[1]])).states[0]
            start = torch.tanh(made.decoder.initial(memory.mean(0))).chunk(made.decoder.states)
            state = [*start, torch.zeros_like(start[0])] if method is Sgm else [*start]
            symbols = [symbol for symbol in batch.targets.symbols[row].tolist() if symbol >= 0]
            before, expected, total = LABELS, None, 0.0
            for step, symbol in enumerate(symbols):
                embedded = made.labels.weight[before]
                if made.gate is not None and expected is not None:
                    embedded = made.gate(embedded, expected)
                state, vector = naive_step(made, embedded, state, memory)
                emitted = torch.tensor(symbols[:step] or [-1]) if made.masked else None
                total -= made.output(vector, emitted)[symbol].item()
                if made.gate is not None:
                    tails = made.labels.weight[:0] if made.of_tails is None else made.of_tails
                    expected = made.output.expected(vector, emitted, made.labels.weight, tails)
                before = symbol
            assert losses[row].item() == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("adaptive_above", [10, 2], ids=["one softmax", "clusters"])
def test_loss_and_gradients_do_not_depend_on_how_a_batch_is_split(method: type[Seq2Seq], adaptive_above: int) -> None:
    had = learner(method, adaptive_above=adaptive_above, dropout=0.4, words={"dropout": 0.2})
    assert_same_in_threads(had, np.random.default_rng(1).permutation(12), tolerance=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("adaptive_above", [10, 2], ids=["one softmax", "clusters"])
def test_all_is_computed_where_the_network_is(method: type[Seq2Seq], adaptive_above: int) -> None:
    assert_stays_on_the_device(learner(method, adaptive_above=adaptive_above, dropout=0.4), np.arange(12))


@pytest.mark.parametrize("method", METHODS)
def test_lists_do_not_depend_on_the_documents_beside(method: type[Seq2Seq]) -> None:
    had = learner(method)
    ids, scores = had.ranker.best(had.network, had.valid.tokens, 3, Cores())
    for row in np.flatnonzero(had.lengths).tolist():
        alone = had.ranker.best(had.network, had.valid.tokens.take(np.array([row])), 3, Cores())
        np.testing.assert_array_equal(alone[0][0], ids[row])
        np.testing.assert_allclose(alone[1][0], scores[row], rtol=1e-5)


def test_a_memory_of_some_documents() -> None:
    made = network(Su4Mlc)
    ids, lengths = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([3, 2])
    whole, part = made.encode(ids, lengths), made.encode(ids[1:], lengths[1:])
    taken = whole.take(torch.tensor([1]))
    for name in Memory.__dataclass_fields__:
        torch.testing.assert_close(getattr(taken, name), getattr(part, name))
