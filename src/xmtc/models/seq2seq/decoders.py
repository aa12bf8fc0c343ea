"""The decoders of the three papers: a step from the symbol before to a vector for the output layer.

A batch has some sequences of each document, one in training and a beam in prediction: (documents, beam, ...).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

State = tuple[Tensor, ...]  # each (documents, beam, size)


@dataclass(frozen=True)
class Memory:
    """What the encoder has made of documents, for the decoder to attend to."""

    states: Tensor  #: (documents, tokens, size)
    keys: Tensor  #: the same, projected for the attention
    blocked: Tensor  #: (documents, tokens), true after the end of a document
    units: Tensor | None = None  #: SU4MLC's semantic units, (documents, tokens, size)
    unit_keys: Tensor | None = None

    def take(self, documents: Tensor) -> Memory:
        """Some of the documents."""
        units = None if self.units is None else self.units[documents]
        unit_keys = None if self.unit_keys is None else self.unit_keys[documents]
        return Memory(self.states[documents], self.keys[documents], self.blocked[documents], units, unit_keys)


class AdditiveAttention(nn.Module):
    """Bahdanau's attention: v . tanh(W state + U memory), a softmax over the words, the mean of the memory.

    >>> attention = AdditiveAttention(size=4, inner=3)
    >>> memory, blocked = torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.bool)
    >>> context, weights = attention(torch.zeros(2, 1, 4), memory, attention.keys(memory), blocked)
    >>> context.shape, weights.shape
    (torch.Size([2, 1, 4]), torch.Size([2, 1, 5]))
    """

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.query, self.keys = nn.Linear(size, inner, bias=False), nn.Linear(size, inner)
        self.score = nn.Linear(inner, 1, bias=False)

    def forward(self, state: Tensor, memory: Tensor, keys: Tensor, blocked: Tensor) -> tuple[Tensor, Tensor]:
        """(documents, beam, size) -> mean memory (documents, beam, size), weights (documents, beam, tokens)."""
        scores = self.score(torch.tanh(self.query(state)[:, :, None] + keys[:, None])).squeeze(-1)
        weights = scores.masked_fill(blocked[:, None], -torch.inf).softmax(-1)
        return weights @ memory, weights


class GruCell(nn.Module):
    """A step of a GRU, as torch's own has it, for states of any number of axes."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.input, self.state = nn.Linear(inputs, 3 * size), nn.Linear(size, 3 * size)

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """(..., inputs) and (..., size) -> (..., size)."""
        reset, update, new = self.input(values).chunk(3, -1)
        of_reset, of_update, of_new = self.state(state).chunk(3, -1)
        update = torch.sigmoid(update + of_update)
        new = torch.tanh(new + torch.sigmoid(reset + of_reset) * of_new)
        return new + update * (state - new)


class LstmCell(nn.Module):
    """A step of an LSTM, as torch's own has it, for states of any number of axes."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.gates = nn.Linear(inputs + size, 4 * size)

    def forward(self, values: Tensor, state: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """(..., inputs), state and cell (..., size) -> the next state and cell."""
        taken, kept, new, shown = self.gates(torch.cat([values, state], -1)).chunk(4, -1)
        cell = torch.sigmoid(kept) * cell + torch.sigmoid(taken) * torch.tanh(new)
        return torch.sigmoid(shown) * torch.tanh(cell), cell


class Decoder(nn.Module):
    """What the three have in common: attention to the words, and states that begin with the mean of the encoder's."""

    def __init__(self, size: int, inner: int, states: int) -> None:
        super().__init__()
        self.attention = AdditiveAttention(size, inner)
        self.initial = nn.Linear(size, states * size)
        self.states = states

    def start(self, memory: Memory) -> State:
        """The state before the first step, of one sequence of each document."""
        inside = (~memory.blocked)[:, :, None]
        mean = (memory.states * inside).sum(1) / inside.sum(1)  # (documents, size)
        return torch.tanh(self.initial(mean))[:, None].chunk(self.states, -1)

    def attend(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """The context of a state, and the attention weights over the words."""
        found: tuple[Tensor, Tensor] = self.attention(state, memory.states, memory.keys, memory.blocked)
        return found


class ConditionalGru(Decoder):
    """MLC2Seq: a GRU reads the label before, its state attends, a second GRU reads what was found."""

    def __init__(self, embedding: int, size: int, inner: int) -> None:
        super().__init__(size, inner, states=1)
        self.first, self.second = GruCell(embedding, size), GruCell(size, size)
        self.readout = nn.Linear(size + embedding + size, embedding)
        self.width = embedding

    def forward(self, embedded: Tensor, state: State, memory: Memory) -> tuple[State, Tensor, Tensor]:
        """The next state, the output layer's vector (documents, beam, width), and the attention weights."""
        between = self.first(embedded, state[0])
        context, weights = self.attend(between, memory)
        hidden = self.second(context, between)
        return (hidden,), torch.tanh(self.readout(torch.cat([hidden, embedded, context], -1))), weights


class InputFeedingLstm(Decoder):
    """SGM: an LSTM reads the label before and what was found at the step before; its state attends."""

    def __init__(self, embedding: int, size: int, inner: int) -> None:
        super().__init__(size, inner, states=2)
        self.cell = LstmCell(embedding + size, size)
        self.readout = nn.Linear(2 * size, size)
        self.width = size

    def start(self, memory: Memory) -> State:
        """The same with nothing found yet."""
        state, cell = super().start(memory)
        return state, cell, torch.zeros_like(state)

    def forward(self, embedded: Tensor, state: State, memory: Memory) -> tuple[State, Tensor, Tensor]:
        """The next state, the output layer's vector (documents, beam, width), and the attention weights."""
        hidden, cell = self.cell(torch.cat([embedded, state[2]], -1), state[0], state[1])
        context, weights = self.attend(hidden, memory)
        return (hidden, cell, context), torch.tanh(self.readout(torch.cat([hidden, context], -1))), weights


class HybridAttentionLstm(Decoder):
    """SU4MLC: an LSTM reads the label before; its state attends to the semantic units, and then to the words."""

    def __init__(self, embedding: int, size: int, inner: int) -> None:
        super().__init__(size, inner, states=2)
        self.cell = LstmCell(embedding, size)
        self.unit_attention = AdditiveAttention(size, inner)
        self.width = size

    def forward(self, embedded: Tensor, state: State, memory: Memory) -> tuple[State, Tensor, Tensor]:
        """The next state, the output layer's vector (documents, beam, width), and the attention weights."""
        hidden, cell = self.cell(embedded, state[0], state[1])
        found, _ = self.unit_attention(hidden, memory.units, memory.unit_keys, memory.blocked)
        with_units = hidden + found
        context, weights = self.attend(with_units, memory)
        return (hidden, cell), with_units + context, weights
