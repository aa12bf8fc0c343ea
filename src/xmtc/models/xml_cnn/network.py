"""XML-CNN's network: windows over the words, the largest values in each part of a text, a bottleneck, all labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.layers import WordEmbedding, init_output_bias, padding_mask

if TYPE_CHECKING:
    from xmtc.models.xml_cnn.model import XmlCnnConfig


class ChunkedConvolution(nn.Module):
    """One-dimensional convolutions of several widths with dynamic max-pooling.

    Each document's own words are split into `chunks` parts; of every filter the largest value in each part is kept. A
    document therefore gives the same whatever it is padded to.

    >>> layer = ChunkedConvolution(dimensions=3, widths=[2, 4], filters=5, chunks=2)
    >>> layer(torch.zeros(2, 9, 3), torch.tensor([9, 1])).shape
    torch.Size([2, 20])
    """

    def __init__(self, dimensions: int, widths: Sequence[int], filters: int, chunks: int, stride: int = 1) -> None:
        super().__init__()
        self.windows = nn.ParameterList([torch.empty(filters, width, dimensions) for width in widths])
        self.bias = nn.Parameter(torch.zeros(len(widths), 1, filters))
        self.chunks, self.stride = chunks, stride
        for windows in self.windows:
            bound = 1 / math.sqrt(windows[0].numel())
            nn.init.uniform_(windows, -bound, bound)

    @property
    def size(self) -> int:
        """Numbers that come out for a document."""
        return self.bias.numel() * self.chunks

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """(documents, tokens, dimensions) -> (documents, widths * chunks * filters)."""
        vectors = vectors.masked_fill(padding_mask(lengths, vectors.shape[1])[:, :, None], 0)
        # So many words give each chunk one place of the window; shorter documents are padded with zeros up to there.
        least = [windows.shape[1] + (self.chunks - 1) * self.stride for windows in self.windows]
        vectors = functional.pad(vectors, (0, 0, 0, max(0, max(least) - vectors.shape[1])))
        parts = []
        for windows, words in zip(self.windows, least, strict=True):
            places = (lengths.clamp(min=words) - windows.shape[1]) // self.stride + 1
            parts.append(_LargestInChunks.apply(vectors, windows, places, self.chunks, self.stride))  # type: ignore[no-untyped-call]
        largest = torch.stack(parts, 1)  # (documents, widths, chunks, filters)
        # Bias and ReLU keep the order of numbers, so they can wait until only the largest are left.
        return torch.relu_(largest + self.bias).flatten(1)


class _LargestInChunks(torch.autograd.Function):
    """The largest value of each filter in each chunk of a document, (documents, chunks, filters).

    Few places win, so the gradient is a sparse matrix. Torch's own would be two more dense convolutions, several times
    the cost of all the rest.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, windows: Tensor, counts: Tensor, chunks: int, stride: int) -> Tensor:
        """`counts`: how many places of the window belong to each document."""
        # With dimensions as channels, last in memory, neither the words nor the windows need to be copied.
        values = functional.conv2d(
            vectors.transpose(1, 2)[:, :, None], windows.transpose(1, 2)[:, :, None], stride=(1, stride)
        )  # (documents, filters, 1, places)
        values = values[:, :, 0].transpose(1, 2)  # (documents, places, filters)
        places = chunk_places(counts, chunks, values.shape[1])  # (documents, chunks, longest chunk)
        rows = places + torch.arange(len(values), device=values.device)[:, None, None] * values.shape[1]
        chunked = values.reshape(-1, values.shape[2]).index_select(0, rows.flatten()).view(*rows.shape, -1)
        largest, at = chunked.max(2)
        ctx.save_for_backward(vectors, windows, places.gather(2, at) * stride)
        return largest

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        """Each winning window takes its gradient to its words and to its filter."""
        vectors, windows, starts = ctx.saved_tensors  # starts: (documents, chunks, filters), a window's first word
        documents, tokens, dimensions = vectors.shape
        filters, width, _ = windows.shape
        taps, device = torch.arange(width, device=vectors.device), vectors.device
        words = (starts + torch.arange(documents, device=device)[:, None, None] * tokens)[..., None] + taps
        weights = (torch.arange(filters, device=device)[:, None] * width + taps).expand_as(words)
        values = gradients[0][..., None].expand_as(words)  # all three: (documents, chunks, filters, width)
        to_vectors = to_windows = None
        if ctx.needs_input_grad[0]:
            pairs = torch.stack([words.flatten(), weights.flatten()])
            matrix = torch.sparse_coo_tensor(
                pairs, values.flatten(), (documents * tokens, filters * width), check_invariants=False
            )
            to_vectors = torch.sparse.mm(matrix, windows.reshape(-1, dimensions)).view_as(vectors)
        if ctx.needs_input_grad[1]:
            # Later chunks win at later places: in this order rows and columns rise, as the fast product wants them.
            words, weights, values = (part.permute(2, 3, 0, 1).flatten() for part in (words, weights, values))
            matrix = torch.sparse_coo_tensor(
                torch.stack([weights, words]),
                values,
                (filters * width, documents * tokens),
                is_coalesced=True,
                check_invariants=False,
            )
            to_windows = torch.sparse.mm(matrix, vectors.reshape(-1, dimensions)).view_as(windows)
        return to_vectors, to_windows, None, None, None


def chunk_bounds(counts: Tensor, chunks: int) -> Tensor:
    """Where each chunk of a document begins, and where the last one ends, (documents, chunks + 1).

    >>> chunk_bounds(torch.tensor([5, 2]), 2).tolist()
    [[0, 2, 5], [0, 1, 2]]
    """
    return torch.arange(chunks + 1, device=counts.device) * counts[:, None] // chunks


def chunk_places(counts: Tensor, chunks: int, most: int) -> Tensor:
    """The places of each chunk, (documents, chunks, longest chunk); shorter chunks repeat their last place.

    No document has more than `most` places.

    >>> chunk_places(torch.tensor([5, 2]), 2, most=5).tolist()
    [[[0, 1, 1], [2, 3, 4]], [[0, 0, 0], [1, 1, 1]]]
    """
    bounds = chunk_bounds(counts, chunks)
    steps = torch.arange(-(-most // chunks), device=counts.device)
    return torch.minimum(bounds[:, :-1, None] + steps, bounds[:, 1:, None] - 1)


class ConvolutionNetwork(nn.Module):
    """Scores of labels (logits) from the words of documents; begins with a table of word vectors.

    >>> from xmtc.models.xml_cnn.model import XmlCnnConfig
    >>> config = XmlCnnConfig(widths=[2], filters=3, chunks=2, bottleneck=4)
    >>> ConvolutionNetwork(torch.zeros(9, 5), 7, config)(torch.tensor([[2, 8, 3]]), torch.tensor([3])).shape
    torch.Size([1, 7])
    """

    def __init__(self, table: Tensor, labels: int, config: XmlCnnConfig) -> None:
        super().__init__()
        self.words = WordEmbedding(table, config.words.dropout, config.words.frozen)
        self.convolution = ChunkedConvolution(
            table.shape[1], config.widths, config.filters, config.chunks, config.stride
        )
        self.bottleneck = nn.Linear(self.convolution.size, config.bottleneck)
        self.output = nn.Linear(config.bottleneck, labels)
        self.dropout = config.dropout

    def forward(
        self, ids: Tensor, lengths: Tensor, candidates: Tensor | None = None, rng: DropoutRng | None = None
    ) -> Tensor:
        """(documents, tokens) -> logits (documents, labels)."""
        if candidates is not None:
            raise ValueError("a network without attention scores all labels")
        largest = self.convolution(self.words(ids, rng), lengths)  # (documents, widths * chunks * filters)
        scores: Tensor = self.output(dropout(torch.relu_(self.bottleneck(largest)), self.dropout, rng))
        return scores

    def init_output_bias(self, share: float) -> None:
        """Start with scores that fit if this share of labels is relevant."""
        init_output_bias(self.output, share)
