"""Multi-label attention: each label looks at a document's words in its own way, then one network judges them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from xmtc.models.attentionxml.quantized import QuantizedStates
from xmtc.nn.layers import init_output_bias, padding_mask
from xmtc.nn.packing import PackedRows

MAX_SCORES = 6_000_000  # documents x tokens x labels at once


class LabelAttention(nn.Module):
    """Scores of labels from the hidden states of a document's words.

    For every label softmax(hidden @ row) over the words gives the weights of a mean of the hidden states, which layers
    shared by all labels turn into the label's score. The first of these layers is applied before the mean is taken: it
    is linear and the weights add up to 1, so the result is the same, at about 40 % less cost.

    With a `logsumexp_score` the score also says how well the label's row fits the words: the logarithm of the mean of
    exp(hidden @ row), times a factor that all labels share. The mean of states alone does not tell that, and a network
    that has to learn it from there may never do so.

    With `own_outputs` each label adds weights of its own to the last of the shared layers; they begin with zero.

    `candidates` gives each document labels of its own; without it all labels are scored. The tables' gradients then
    have rows for these alone (`sparse`). In prediction the hidden states, which lie between -1 and 1, are multiplied as
    bytes where all labels are scored. Labels come in chunks: documents x labels x tokens never exists at once.

    >>> attention = LabelAttention(labels=7, width=4, layers=[3, 2], sparse=False)
    >>> attention(torch.zeros(2, 5, 4), torch.tensor([5, 2])).shape
    torch.Size([2, 7])
    >>> attention(torch.zeros(2, 5, 4), torch.tensor([5, 2]), torch.tensor([[0, 3], [6, 6]])).shape
    torch.Size([2, 2])
    """

    def __init__(
        self, labels: int, width: int, layers: Sequence[int], sparse: bool, own_outputs: bool = False,
        logsumexp_score: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        rows = nn.Embedding(labels, width, sparse=sparse)
        self.rows: nn.Embedding | PackedRows = rows
        self.first = nn.Linear(width, layers[0])
        further = [nn.Linear(a, b) for a, b in pairwise(layers)]
        self.further = nn.Sequential(*(part for layer in further for part in (layer, nn.ReLU(inplace=True))))
        self.output = nn.Linear(layers[-1], 1)
        self.own: nn.Embedding | PackedRows | None = None
        if own_outputs:
            self.own = nn.Embedding(labels, layers[-1], sparse=sparse)
            nn.init.zeros_(self.own.weight)
        self.logsumexp_score = nn.Parameter(torch.ones(())) if logsumexp_score else None
        for weight in (rows.weight, self.first.weight, *(layer.weight for layer in further), self.output.weight):
            nn.init.xavier_uniform_(weight)

    def expect(self, share: float) -> None:
        """Start with scores that fit if this share of labels is right."""
        init_output_bias(self.output, share)

    def forward(self, hidden: Tensor, lengths: Tensor, candidates: Tensor | None = None) -> Tensor:
        """(documents, tokens, width) -> scores (documents, labels), or (documents, candidates)."""
        blocked = padding_mask(lengths, hidden.shape[1])[:, :, None]  # (documents, tokens, 1)
        times = (
            QuantizedStates(hidden).times if torch.is_inference_mode_enabled() else partial(functional.linear, hidden)
        )
        projected = times(self.first.weight)  # (documents, tokens, first layer)
        labels = self.rows.num_embeddings if candidates is None else candidates.shape[1]
        size = max(1, MAX_SCORES // (hidden.shape[0] * hidden.shape[1]))
        if labels <= size:
            return self._scores(hidden, times, projected, blocked, candidates, 0, labels)
        parts = []
        for start in range(0, labels, size):
            chunk = (hidden, times, projected, blocked, candidates, start, min(start + size, labels))
            if torch.is_grad_enabled():
                parts.append(checkpoint(self._scores, *chunk, use_reentrant=False, preserve_rng_state=False))
            else:
                parts.append(self._scores(*chunk))
        return torch.cat(parts, 1)

    def attention_weights(self, hidden: Tensor, lengths: Tensor, label: int) -> Tensor:
        """How much a label looks at each word of one document, (tokens,), adding up to 1."""
        row: Tensor = self.rows(torch.tensor([label]))[0]
        return (hidden[0, : int(lengths[0])] @ row).softmax(0)

    def _scores(
        self, hidden: Tensor, times: Callable[[Tensor], Tensor], projected: Tensor, blocked: Tensor,
        candidates: Tensor | None, start: int, end: int,
    ) -> Tensor:  # fmt: skip
        rows = _rows_of(self.rows, candidates, start, end)
        found = times(rows) if candidates is None else hidden @ rows.transpose(1, 2)  # (documents, tokens, labels)
        found.masked_fill_(blocked, -torch.inf)
        mean, log_sum = _Attended.apply(found, projected)  # type: ignore[no-untyped-call]
        seen = torch.relu_(mean + self.first.bias)
        last: Tensor = self.further(seen)  # (documents, labels, last layer)
        scores: Tensor = self.output(last).squeeze(-1)
        if self.logsumexp_score is not None:
            scores = scores + self.logsumexp_score * (log_sum - (~blocked).sum(1).log())
        if self.own is not None:
            scores = scores + (last * _rows_of(self.own, candidates, start, end)).sum(-1)
        return scores


class _Attended(torch.autograd.Function):
    """The mean of words' values by a softmax over the words, and the logarithm of the sum that the softmax divides by.

    (documents, tokens, labels) and (documents, tokens, width) -> (documents, labels, width), (documents, labels).

    The same as `softmax`, `matmul` and `logsumexp`, whose gradients would go over documents x tokens x labels more
    often: what the softmax has to take away in each column is a product of the mean and its gradient.
    """

    @staticmethod
    def forward(ctx: Any, found: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """(means, logarithms of sums)."""
        top = found.amax(1, keepdim=True)
        attention_weights = (found - top).exp_()
        total = attention_weights.sum(1, keepdim=True)
        attention_weights.div_(total)
        mean = torch.matmul(attention_weights.transpose(1, 2), values)
        ctx.save_for_backward(attention_weights, values, mean)
        return mean, (top + total.log()).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of what was found and of the values."""
        of_mean, of_sum = gradients
        attention_weights, values, mean = ctx.saved_tensors
        of_found = torch.matmul(values, of_mean.transpose(1, 2))  # (documents, tokens, labels)
        of_found.add_((of_sum - (mean * of_mean).sum(-1))[:, None]).mul_(attention_weights)
        return of_found, torch.matmul(attention_weights, of_mean)


def _rows_of(table: nn.Embedding | PackedRows, candidates: Tensor | None, start: int, end: int) -> Tensor:
    """The rows of a stretch of labels, (labels, width), or of candidates, (documents, labels, width)."""
    if candidates is None and isinstance(table, nn.Embedding):
        return table.weight[start:end]
    rows: Tensor = table(torch.arange(start, end) if candidates is None else candidates[:, start:end])
    return rows
