"""Small layers: word embedding, BiLSTM without packed sequences, seeded weights, finite scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from xmtc.nn.dropout import DropoutRng, dropout


def as_tensor(array: NDArray[Any]) -> Tensor:
    """An array as a tensor without copying, also if it is a read-only map of a file; it must not be written to.

    >>> as_tensor(np.ones(2, np.float32)).tolist()
    [1.0, 1.0]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # says that writing would be undefined
        return torch.from_numpy(np.ascontiguousarray(array))


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A tensor of any device as an array, without copying if it is in the CPU's memory.

    >>> as_array(torch.ones(2))
    array([1., 1.], dtype=float32)
    """
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """New weights made within the block depend on this seed alone.

    >>> with seeded(1):
    ...     first = nn.Linear(2, 2).weight
    >>> with seeded(1):
    ...     print(torch.equal(first, nn.Linear(2, 2).weight))
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def finite(scores: Tensor, limit: float = 100.0) -> Tensor:
    """Scores that give an order whatever numbers a model file holds.

    >>> finite(torch.tensor([1.0, float("nan"), float("inf")])).tolist()
    [1.0, -100.0, 100.0]
    """
    return torch.nan_to_num(scores, nan=-limit, posinf=limit, neginf=-limit)


def padding_mask(lengths: Tensor, tokens: int) -> Tensor:
    """(documents, tokens), true after the end of a document.

    >>> padding_mask(torch.tensor([1, 2]), 2).tolist()
    [[False, True], [False, False]]
    """
    return torch.arange(tokens, device=lengths.device) >= lengths[:, None]


def lookup(table: nn.Embedding, ids: Tensor) -> Tensor:
    """Rows of a table, which may lie in the CPU's memory while all else is on a device.

    >>> lookup(nn.Embedding(5, 3), torch.tensor([[2, 0]])).shape
    torch.Size([1, 2, 3])
    """
    rows: Tensor = table(ids.to(table.weight.device))
    return rows.to(ids.device)


class WordEmbedding(nn.Module):
    """Word vectors with dropout; gradients have rows only for words that occur.

    >>> WordEmbedding(torch.zeros(5, 3), dropout=0.2)(torch.tensor([[2, 0]])).shape
    torch.Size([1, 2, 3])
    """

    def __init__(self, table: Tensor, dropout: float, frozen: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(len(table), table.shape[1], sparse=not frozen, _weight=table, _freeze=frozen)
        self.dropout = dropout

    def forward(self, ids: Tensor, rng: DropoutRng | None = None) -> Tensor:
        """(documents, tokens) -> (documents, tokens, dimensions)."""
        return dropout(lookup(self.words, ids), self.dropout, rng)


class BiRnn(nn.Module):
    """One RNN from the left and one from the right, with learned initial states.

    Packed sequences are several times slower on a CPU. Instead the right-to-left RNN reads each document reversed
    within its own length, so that padding comes last for both and is never read before a word.
    """

    layer: type[nn.LSTM | nn.GRU]
    states: int
    left: nn.LSTM | nn.GRU
    right: nn.LSTM | nn.GRU

    def __init__(self, dimensions: int, hidden: int) -> None:
        super().__init__()
        self.left, self.right = self.layer(dimensions, hidden), self.layer(dimensions, hidden)
        self.initial = nn.Parameter(torch.zeros(2, self.states, hidden))  # (direction, state or cell, hidden)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """(documents, tokens, dimensions) -> (documents, tokens, 2 * hidden)."""
        back = reversal(lengths, vectors.shape[1])  # (tokens, documents)
        steps = vectors.transpose(0, 1)  # (tokens, documents, dimensions)
        left = _run(self.left, self.initial[0], steps)
        right = _by_place(_run(self.right, self.initial[1], _by_place(steps, back)), back)
        return torch.cat([left, right], -1).transpose(0, 1)


class BiLstm(BiRnn):
    """With LSTMs.

    >>> BiLstm(3, 4)(torch.zeros(2, 5, 3), torch.tensor([5, 2])).shape
    torch.Size([2, 5, 8])
    """

    layer, states = nn.LSTM, 2
    left: nn.LSTM
    right: nn.LSTM


class BiGru(BiRnn):
    """With GRUs.

    >>> BiGru(3, 4)(torch.zeros(2, 5, 3), torch.tensor([5, 2])).shape
    torch.Size([2, 5, 8])
    """

    layer, states = nn.GRU, 1
    left: nn.GRU
    right: nn.GRU


def _run(layer: nn.LSTM | nn.GRU, initial: Tensor, steps: Tensor) -> Tensor:
    """(tokens, documents, dimensions) -> (tokens, documents, hidden)."""
    state, *cell = (part.expand(1, steps.shape[1], -1).contiguous() for part in initial)
    # On a CPU torch's LSTM does not compute with bfloat16.
    with torch.autocast("cpu", enabled=False):
        steps = steps.to(initial.dtype) if steps.device.type == "cpu" else steps
        result: Tensor = layer(steps, (state, *cell) if cell else state)[0]
    return result


def reversal(lengths: Tensor, tokens: int) -> Tensor:
    """(tokens, documents): where each place of a document is found when its words are read backwards.

    >>> reversal(torch.tensor([3, 2]), 3).T.tolist()
    [[2, 1, 0], [1, 0, 2]]
    """
    steps = torch.arange(tokens, device=lengths.device)[:, None]
    return torch.where(steps < lengths, lengths - 1 - steps, steps)


def _by_place(steps: Tensor, places: Tensor) -> Tensor:
    return steps.gather(0, places[:, :, None].expand(-1, -1, steps.shape[2]))


def init_output_bias(output: nn.Linear, share: float) -> None:
    """Set a layer's bias so that its scores fit if this share of labels is right; saves hundreds of steps.

    >>> layer = nn.Linear(2, 3)
    >>> init_output_bias(layer, 0.5)
    >>> layer.bias.tolist()
    [0.0, 0.0, 0.0]
    """
    share = min(max(share, 1e-6), 1 - 1e-6)
    nn.init.constant_(output.bias, torch.logit(torch.tensor(share, dtype=torch.float64)).item())
