"""Small layers: dropout with its own source of chance, word embedding, BiLSTM without packed sequences."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def as_tensor(array: NDArray[Any]) -> Tensor:
    """An array as a tensor without copying, also if it is a read-only map of a file; it must not be written to.

    >>> as_tensor(np.ones(2, np.float32)).tolist()
    [1.0, 1.0]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # says that writing would be undefined
        return torch.from_numpy(np.ascontiguousarray(array))


def chance(seed: int) -> np.random.Generator:
    """A fast source of chance for dropout and the like.

    >>> int(chance(1).integers(10)) == int(chance(1).integers(10))
    True
    """
    return np.random.Generator(np.random.SFC64(seed))


def dropped(values: Tensor, share: float, draws: np.random.Generator | None) -> Tensor:
    """Dropout with chance from `draws`, so that threads do not share one source; without draws nothing is dropped.

    Torch's own draws one number after the other in double precision; two random bytes a value are three times as fast.

    >>> dropped(torch.ones(3), 0.5, None).tolist()
    [1.0, 1.0, 1.0]
    """
    limit = round(share * 65536)
    if draws is None or limit == 0:
        return values
    keep = np.frombuffer(draws.bytes(2 * values.numel()), np.uint16) >= limit
    scaled = keep.astype(np.float32)
    scaled *= 65536 / (65536 - limit)
    return values * torch.from_numpy(scaled).view(values.shape)


def padding_mask(lengths: Tensor, tokens: int) -> Tensor:
    """(documents, tokens), true after the end of a document.

    >>> padding_mask(torch.tensor([1, 2]), 2).tolist()
    [[False, True], [False, False]]
    """
    return torch.arange(tokens) >= lengths[:, None]


class WordEmbedding(nn.Module):
    """Word vectors with dropout; gradients have rows only for words that occur.

    >>> WordEmbedding(torch.zeros(5, 3), dropout=0.2)(torch.tensor([[2, 0]])).shape
    torch.Size([1, 2, 3])
    """

    def __init__(self, table: Tensor, dropout: float, frozen: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(len(table), table.shape[1], sparse=not frozen, _weight=table, _freeze=frozen)
        self.dropout = dropout

    def forward(self, ids: Tensor, draws: np.random.Generator | None = None) -> Tensor:
        """(documents, tokens) -> (documents, tokens, dimensions)."""
        return dropped(self.words(ids), self.dropout, draws)


class BiLstm(nn.Module):
    """One LSTM from the left and one from the right, with learned initial states.

    Packed sequences are several times slower on a CPU. Instead the right-to-left LSTM reads each document reversed
    within its own length, so that padding comes last for both and is never read before a word.

    >>> BiLstm(3, 4)(torch.zeros(2, 5, 3), torch.tensor([5, 2])).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, dimensions: int, hidden: int) -> None:
        super().__init__()
        self.left, self.right = nn.LSTM(dimensions, hidden), nn.LSTM(dimensions, hidden)
        self.initial = nn.Parameter(torch.zeros(2, 2, hidden))  # (direction, state or cell, hidden)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """(documents, tokens, dimensions) -> (documents, tokens, 2 * hidden)."""
        back = reversal(lengths, vectors.shape[1])  # (tokens, documents)
        steps = vectors.transpose(0, 1)  # (tokens, documents, dimensions)
        left = _run(self.left, self.initial[0], steps)
        right = _by_place(_run(self.right, self.initial[1], _by_place(steps, back)), back)
        return torch.cat([left, right], -1).transpose(0, 1)

    def read(self, table: Tensor, ids: Tensor, lengths: Tensor) -> Tensor:
        """The same of word ids and a table of word vectors, for prediction of many documents.

        Each distinct word of the batch goes through the input weights once, and buffers are used again for each step.
        Without AVX-512 that is 1.4 times as fast as torch's own LSTM, with it half as fast.
        """
        distinct, places = torch.unique(ids, return_inverse=True)
        vectors, places = table[distinct], places.T  # (words, dimensions), (tokens, documents)
        back = reversal(lengths, ids.shape[1])
        left = _run_distinct(self.left, self.initial[0], vectors, places)
        right = _by_place(_run_distinct(self.right, self.initial[1], vectors, places.gather(0, back)), back)
        return torch.cat([left, right], -1).transpose(0, 1)


def _run(lstm: nn.LSTM, initial: Tensor, steps: Tensor) -> Tensor:
    """(tokens, documents, dimensions) -> (tokens, documents, hidden)."""
    state, cell = (part.expand(1, steps.shape[1], -1).contiguous() for part in initial)
    result: Tensor = lstm(steps, (state, cell))[0]
    return result


def _run_distinct(lstm: nn.LSTM, initial: Tensor, vectors: Tensor, places: Tensor) -> Tensor:
    """The same of distinct words' vectors and places (tokens, documents) in them."""
    hidden, (tokens, documents) = lstm.hidden_size, places.shape
    # Torch has the gates in the order input, forget, cell, output. The cell's comes last here, doubled, so that one
    # sigmoid serves all four: tanh(x) = 2 sigmoid(2x) - 1, and torch's tanh takes several times as long.
    order = torch.arange(4 * hidden).view(4, hidden)[[0, 1, 3, 2]].flatten()
    double = torch.ones(4, hidden).index_fill_(0, torch.tensor(3), 2.0).flatten()
    weights = dict(lstm.named_parameters())
    bias = (weights["bias_ih_l0"] + weights["bias_hh_l0"])[order] * double
    projected = torch.addmm(bias, vectors, (weights["weight_ih_l0"][order] * double[:, None]).T)  # (words, 4 * hidden)
    recurrent = (weights["weight_hh_l0"][order] * double[:, None]).T.contiguous()
    state, cell = (part.expand(documents, -1).clone() for part in initial)
    result = torch.empty(tokens, documents, hidden)
    gates, seen = torch.empty(documents, 4 * hidden), torch.empty(documents, hidden)
    enter, keep, show, fresh = (gates[:, at * hidden : (at + 1) * hidden] for at in range(4))
    for step in range(tokens):
        torch.index_select(projected, 0, places[step], out=gates)
        gates.addmm_(state, recurrent).sigmoid_()
        cell.mul_(keep).addcmul_(enter, fresh, value=2).sub_(enter)
        torch.mul(cell, 2, out=seen).sigmoid_()
        state = torch.mul(show, seen, out=result[step]).mul_(2).sub_(show)
    return result


def reversal(lengths: Tensor, tokens: int) -> Tensor:
    """(tokens, documents): where each place of a document is found when its words are read backwards.

    >>> reversal(torch.tensor([3, 2]), 3).T.tolist()
    [[2, 1, 0], [1, 0, 2]]
    """
    steps = torch.arange(tokens)[:, None]
    return torch.where(steps < lengths, lengths - 1 - steps, steps)


def _by_place(steps: Tensor, places: Tensor) -> Tensor:
    return steps.gather(0, places[:, :, None].expand(-1, -1, steps.shape[2]))
