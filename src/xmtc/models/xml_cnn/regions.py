"""BoW-CNN's network: regions of a text as sets of words, embedded, pooled in chunks, and a score for every label."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from xmtc.models.xml_cnn.network import chunk_bounds, chunk_places
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.layers import init_output_bias, lookup
from xmtc.nn.level import LevelBatch, LevelLearner
from xmtc.nn.parallel import Worker
from xmtc.text.word_tokenizer import UNKNOWN

if TYPE_CHECKING:
    from xmtc.models.xml_cnn.bow_cnn import BowCnnConfig

SPREAD = 0.01  # of the weights to begin with, the authors' value
NEAREST_TO_ONE = -1e-6  # log-probability


class RegionEmbedding(nn.Module):
    """Regions of several sizes as sets of words, one matrix and ReLU for each size, and pooling in chunks.

    A region is any window of `size` consecutive words, also one that begins before the text or ends after it. It is a
    vector with a 1 for each word of the vocabulary that stands in it; times a matrix (words, units), that is the sum of
    the rows of its words. Each document's own regions are split into `chunks` parts, and the mean or the largest value
    of every unit in each part is kept.

    >>> layer = RegionEmbedding(words=9, sizes=[2, 4], units=5, chunks=2, pooling="max")
    >>> layer(torch.tensor([[2, 8, 3], [5, 0, 0]]), torch.tensor([3, 1])).shape
    torch.Size([2, 2, 2, 5])
    """

    def __init__(self, words: int, sizes: Sequence[int], units: int, chunks: int, pooling: str) -> None:
        super().__init__()
        tables = [nn.init.normal_(torch.empty(words, units), std=SPREAD) for _ in sizes]
        self.tables = nn.ModuleList([nn.Embedding(words, units, sparse=True, _weight=table) for table in tables])
        self.bias = nn.Parameter(torch.zeros(len(sizes), 1, units))
        self.sizes, self.chunks, self.pooling = tuple(sizes), chunks, pooling

    @property
    def size(self) -> int:
        """Numbers that come out for a document."""
        return self.bias.numel() * self.chunks

    def rows(self, ids: Tensor) -> list[Tensor]:
        """(documents, tokens) -> the rows of the words in the matrix of each size, (tokens, documents, units)."""
        return [lookup(table, ids.T) for table in self.tables]  # type: ignore[arg-type]

    def forward(self, ids: Tensor, lengths: Tensor, rows: Sequence[Tensor] | None = None) -> Tensor:
        """(documents, tokens) -> (documents, sizes, chunks, units); `rows` are given to find their gradients."""
        parts = []
        for words, size, bias in zip(rows or self.rows(ids), self.sizes, self.bias, strict=True):
            counts = (lengths + size - 1).clamp(min=self.chunks)  # in short texts the last regions have no word
            sums = _RegionSums.apply(words, *entering_and_leaving(ids, size), size)  # type: ignore[no-untyped-call]
            sums = functional.pad(sums, (0, 0, 0, 0, 0, max(0, self.chunks - len(sums))))
            parts.append(self._in_chunks(sums, counts, bias))
        return torch.stack(parts, 1)

    def _in_chunks(self, sums: Tensor, counts: Tensor, bias: Tensor) -> Tensor:
        """(regions, documents, units) -> (documents, chunks, units); `counts`: the regions of each document."""
        regions, documents, units = sums.shape
        if self.pooling == "average":
            bounds = chunk_bounds(counts, self.chunks)[..., None]  # (documents, chunks + 1, 1)
            at = torch.arange(regions, device=sums.device)
            inside = (at >= bounds[:, :-1]) & (at < bounds[:, 1:])  # (documents, chunks, regions)
            shares = inside / (bounds[:, 1:] - bounds[:, :-1])
            return shares.to(sums.dtype) @ torch.relu_(sums + bias).transpose(0, 1)
        places = chunk_places(counts, self.chunks, regions)  # (documents, chunks, longest chunk)
        at = places * documents + torch.arange(documents, device=sums.device)[:, None, None]
        chunked = sums.view(-1, units).index_select(0, at.flatten()).view(*at.shape, units)
        # Bias and ReLU keep the order of numbers, so they can wait until only the largest are left.
        return torch.relu_(chunked.amax(2) + bias)


def entering_and_leaving(ids: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Whether each word enters the set when the region moves on to it, and leaves it when the region has passed.

    A word that the region before has does not enter again, and one that the next region has does not leave. Padding and
    unknown words are never in a set.

    >>> enters, leaves = entering_and_leaving(torch.tensor([[5, 5, 1, 1, 5]]), 2)
    >>> enters.tolist(), leaves.tolist()
    ([[True, False, False, False, True]], [[False, True, False, False, True]])
    """
    known, tokens = ids > UNKNOWN, ids.shape[1]
    near = min(size, tokens)
    before = functional.pad(ids, (near, 0)).unfold(1, near, 1)[:, :tokens]  # (documents, tokens, near)
    after = functional.pad(ids, (0, near)).unfold(1, near, 1)[:, 1:]
    return known & (before != ids[..., None]).all(2), known & (after != ids[..., None]).all(2)


class _RegionSums(torch.autograd.Function):
    """The sum of the rows of the words in each region, (tokens + size - 1, documents, units).

    A region differs from the one before by the word that enters and the one that leaves, so that all regions are a
    cumulative sum, whatever their size. Torch's own gradient would keep and move several tensors of that shape.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, enters: Tensor, leaves: Tensor, size: int) -> Tensor:
        """`enters` and `leaves`: (documents, tokens)."""
        enters, leaves = (each.T[..., None].to(rows.dtype) for each in (enters, leaves))
        ctx.save_for_backward(enters, leaves)
        ctx.size = size
        regions = functional.pad(rows * enters, (0, 0, 0, 0, 0, size - 1))
        regions[size:].addcmul_(rows[:-1], leaves[:-1], value=-1)
        return _accumulated(regions)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """A word takes the gradients of all regions from where it enters on, less those from where it leaves on."""
        enters, leaves = ctx.saved_tensors
        sums = _accumulated(gradients[0].clone(), to_end=True)
        rows = sums[: len(enters)] * enters
        rows[:-1].addcmul_(sums[ctx.size :], leaves[:-1], value=-1)
        return rows, None, None, None


def _accumulated(steps: Tensor, to_end: bool = False) -> Tensor:
    """The sum of all steps up to each one, or `to_end` from it on, in place; the first axis has the steps.

    On a CPU, whole rows at a time are faster than torch's own, which goes through the steps number by number.
    """
    if steps.device.type != "cpu":
        return steps.flip(0).cumsum_(0).flip(0) if to_end else steps.cumsum_(0)
    parts = steps.unbind(0)
    for before, step in pairwise(parts[::-1] if to_end else parts):
        step.add_(before)
    return steps


class BowCnnNetwork(nn.Module):
    """Scores of labels (logits) from the words of documents.

    >>> from xmtc.models.xml_cnn.bow_cnn import BowCnnConfig
    >>> network = BowCnnNetwork(9, 7, BowCnnConfig(regions=[2], units=3, chunks=2))
    >>> network(torch.tensor([[2, 8, 3]]), torch.tensor([3])).shape
    torch.Size([1, 7])
    """

    def __init__(self, words: int, labels: int, config: BowCnnConfig) -> None:
        super().__init__()
        self.regions = RegionEmbedding(words, config.regions, config.units, config.chunks, config.pooling)
        self.output = nn.Linear(self.regions.size, labels)
        nn.init.normal_(self.output.weight, std=SPREAD)
        self.dropout, self.normalise, self.softmax = config.dropout, config.normalise, config.loss == "softmax"

    def forward(
        self, ids: Tensor, lengths: Tensor, candidates: Tensor | None = None, rng: DropoutRng | None = None
    ) -> Tensor:
        """(documents, tokens) -> logits (documents, labels)."""
        if candidates is not None:
            raise ValueError("a network without attention scores all labels")
        pooled = self.regions(ids, lengths)
        pooled = dropout((pooled * self._scales(pooled)).flatten(1), self.dropout, rng)
        scores: Tensor = self.output(pooled)
        return log_odds(scores.log_softmax(1)) if self.softmax else scores

    def _scales(self, pooled: Tensor) -> Tensor:
        """What the units of each size and chunk are multiplied by: response normalisation, if that is on."""
        squares = pooled.square().sum(3, keepdim=True) if self.normalise else pooled.new_zeros(1)
        return (1 + squares).rsqrt()

    def word_parts(self, ids: Tensor, lengths: Tensor, label: int) -> tuple[Tensor, Tensor]:
        """(what each word of one document brings to a label's score, the score), before a softmax.

        The score is a sum of the words' rows with factors, which pooling, ReLU and normalisation choose: taking these
        as they are, a word's part is exact, and the rest comes from the biases.
        """
        with torch.enable_grad():
            rows = [each.detach().requires_grad_() for each in self.regions.rows(ids)]
            pooled = self.regions(ids, lengths, rows)
            scaled = (pooled * self._scales(pooled.detach())).flatten(1)
            score = (scaled @ self.output.weight[label] + self.output.bias[label])[0]
            gradients = torch.autograd.grad(score, rows)
        parts = [(each * gradient).sum(2)[:, 0] for each, gradient in zip(rows, gradients, strict=True)]
        return torch.stack(parts).sum(0).detach(), score.detach()

    def init_output_bias(self, share: float) -> None:
        """Start with scores that fit if this share of labels is relevant; a softmax begins with equal ones."""
        if self.softmax:
            nn.init.zeros_(self.output.bias)
        else:
            init_output_bias(self.output, share)


def log_odds(log_probabilities: Tensor) -> Tensor:
    """Logarithms of probabilities as logits.

    >>> log_odds(torch.tensor([0.5, 0.9]).log()).sigmoid().tolist()
    [0.5, 0.8999999761581421]
    """
    logs = log_probabilities.clamp(max=NEAREST_TO_ONE)
    return logs - torch.log(-torch.expm1(logs))


class SoftmaxLearner(LevelLearner):
    """The labels share one softmax: the loss is the cross-entropy with a document's labels, each of equal weight."""

    def loss(self, batch: LevelBatch, worker: Worker) -> Tensor:
        """The mean over all documents; those without labels have none."""
        logits: Tensor = self.network(batch.ids, batch.lengths, None, worker.rng)
        assert batch.relevant is not None
        rows, columns = batch.relevant.rows, batch.relevant.columns
        shares = 1 / batch.relevant.lengths.to(logits.dtype)[rows]
        return -(functional.logsigmoid(logits[rows, columns]) * shares).sum() / worker.documents
