"""Convolution with dynamic max-pooling: as a plain loop over documents has it, whatever the padding."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from xmtc.models.xml_cnn.model import XmlCnnConfig
from xmtc.models.xml_cnn.network import ChunkedConvolution, ConvolutionNetwork
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.layers import seeded
from xmtc.text.embedding_table import WordSettings

DIMENSIONS, FILTERS = 3, 4
Floats = NDArray[np.float64]
shapes = st.tuples(
    st.lists(st.integers(1, 20), min_size=1, max_size=5),  # lengths
    st.lists(st.integers(1, 5), min_size=1, max_size=3),  # widths
    st.integers(1, 5),  # chunks
    st.integers(1, 3),  # stride
    st.integers(0, 7),  # padding after the longest document
)


def made(widths: list[int], chunks: int, stride: int) -> ChunkedConvolution:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layer = ChunkedConvolution(DIMENSIONS, widths, FILTERS, chunks, stride).double()
        torch.nn.init.normal_(layer.bias)
        return layer


def words_of(lengths: list[int], padding: int = 0) -> torch.Tensor:
    """Random vectors, also where there are no words: they must not count."""
    rng = np.random.default_rng(2)
    return torch.from_numpy(rng.normal(size=(len(lengths), max(lengths) + padding, DIMENSIONS)))


def by_hand(layer: ChunkedConvolution, words: Floats) -> Floats:
    """One document without padding, one window after the other."""
    found = []
    for windows, bias in zip(layer.windows, layer.bias, strict=True):
        weights, width = windows.detach().numpy(), windows.shape[1]
        missing = width + (layer.chunks - 1) * layer.stride - len(words)
        longer = np.concatenate([words, np.zeros((max(0, missing), DIMENSIONS))])
        starts = range(0, len(longer) - width + 1, layer.stride)
        values = np.array([[(longer[at : at + width] * one).sum() for one in weights] for at in starts])
        values = np.maximum(0, values + bias.detach().numpy())
        bounds = [chunk * len(values) // layer.chunks for chunk in range(layer.chunks + 1)]
        found += [values[a:b].max(0) for a, b in pairwise(bounds)]
    return np.concatenate(found)


@given(shapes)
def test_as_by_hand(shape: tuple[list[int], list[int], int, int, int]) -> None:
    lengths, widths, chunks, stride, padding = shape
    layer, words = made(widths, chunks, stride), words_of(lengths, padding)
    result = layer(words, torch.tensor(lengths)).detach().numpy()
    assert result.shape == (len(lengths), layer.size) == (len(lengths), len(widths) * chunks * FILTERS)
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(result[row], by_hand(layer, words[row, :length].numpy()), atol=1e-12)


@given(shapes)
def test_gradients_as_torch_has_them(shape: tuple[list[int], list[int], int, int, int]) -> None:
    """The same written with torch's own operations, whose gradients are known to be right."""
    lengths, widths, chunks, stride, padding = shape
    layer, words = made(widths, chunks, stride), words_of(lengths, padding).requires_grad_()
    parts = []
    for row, length in enumerate(lengths):
        for windows, bias in zip(layer.windows, layer.bias, strict=True):
            missing = windows.shape[1] + (chunks - 1) * stride - length
            longer = torch.nn.functional.pad(words[row, :length], (0, 0, 0, max(0, missing)))
            values = torch.nn.functional.conv1d(longer.T, windows.transpose(1, 2), stride=stride).T + bias
            bounds = [chunk * len(values) // chunks for chunk in range(chunks + 1)]
            parts += [values[a:b].relu().max(0).values for a, b in pairwise(bounds)]
    ours = layer(words, torch.tensor(lengths)).flatten()
    theirs = torch.cat(parts)
    weighted = torch.linspace(-1, 1, len(ours), dtype=torch.float64)
    leaves = [words, *layer.parameters()]
    for one, other in zip(
        torch.autograd.grad(ours @ weighted, leaves), torch.autograd.grad(theirs @ weighted, leaves), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_words_that_are_frozen_need_no_gradient() -> None:
    layer, words = made([2], 2, 1), words_of([5, 3])
    layer(words, torch.tensor([5, 3])).sum().backward()
    assert words.grad is None
    assert layer.windows[0].grad is not None


def network(dropout: float = 0.0) -> ConvolutionNetwork:
    table = torch.from_numpy(np.random.default_rng(3).normal(size=(9, DIMENSIONS)).astype(np.float32))
    words = WordSettings(dropout=dropout)
    config = XmlCnnConfig(
        widths=(2, 3), filters=FILTERS, chunks=2, stride=1, bottleneck=6, dropout=dropout, words=words
    )
    with seeded(4):
        return ConvolutionNetwork(table, 7, config)


def test_a_document_alone_and_beside_longer_ones() -> None:
    ids = torch.tensor([[2, 3, 4, 5, 6, 7, 8], [5, 6, 0, 0, 0, 0, 0]])
    both = network()(ids, torch.tensor([7, 2]))
    alone = network()(ids[1:, :2], torch.tensor([2]))
    torch.testing.assert_close(both[1:], alone)


def test_the_same_seed_makes_the_same_network_and_leaves_torch_alone() -> None:
    before = torch.get_rng_state()
    one, other = network().state_dict(), network().state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert torch.equal(before, torch.get_rng_state())


def test_dropout_needs_draws() -> None:
    ids, lengths = torch.tensor([[2, 3, 4]]), torch.tensor([3])
    dropping = network(0.5)
    torch.testing.assert_close(dropping(ids, lengths), network()(ids, lengths))
    assert not torch.equal(dropping(ids, lengths, None, DropoutRng(0)), dropping(ids, lengths))


def test_all_labels_or_none() -> None:
    with pytest.raises(ValueError, match="scores all labels"):
        network()(torch.tensor([[2]]), torch.tensor([1]), torch.tensor([[0]]))


def test_begins_with_the_share_that_is_expected() -> None:
    beginning = network()
    beginning.init_output_bias(0.1)
    torch.testing.assert_close(beginning.output.bias.sigmoid(), torch.full((7,), 0.1))
