"""Multi-label attention: each label looks at a document's words in its own way, then one network judges them all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from xmtc.nn.layers import padding_mask
from xmtc.nn.packing import PackedRows
from xmtc.nn.pooling import expect_share

MOST_SCORES = 6_000_000  # documents x tokens x labels at once


class LabelAttention(nn.Module):
    """Scores of labels from the hidden states of a document's words.

    For every label softmax(hidden @ row) over the words gives the weights of a mean of the hidden states, which layers
    shared by all labels turn into the label's score. The first of these layers is applied before the mean is taken: it
    is linear and the weights add up to 1, so the result is the same, at about 40 % less cost.

    `candidates` gives each document labels of its own; without it all labels are scored. The table's gradient then has
    rows for these alone (`sparse`). Labels come in chunks, so that documents x labels x tokens never exists at once.

    >>> attention = LabelAttention(labels=7, width=4, layers=[3, 2], sparse=False)
    >>> attention(torch.zeros(2, 5, 4), torch.tensor([5, 2])).shape
    torch.Size([2, 7])
    >>> attention(torch.zeros(2, 5, 4), torch.tensor([5, 2]), torch.tensor([[0, 3], [6, 6]])).shape
    torch.Size([2, 2])
    """

    def __init__(self, labels: int, width: int, layers: Sequence[int], sparse: bool) -> None:
        super().__init__()
        rows = nn.Embedding(labels, width, sparse=sparse)
        self.rows: nn.Embedding | PackedRows = rows
        self.first = nn.Linear(width, layers[0])
        further = [nn.Linear(a, b) for a, b in pairwise(layers)]
        self.further = nn.Sequential(*(part for layer in further for part in (layer, nn.ReLU(inplace=True))))
        self.output = nn.Linear(layers[-1], 1)
        for weight in (rows.weight, self.first.weight, *(layer.weight for layer in further), self.output.weight):
            nn.init.xavier_uniform_(weight)

    def expect(self, share: float) -> None:
        """Start with scores that fit if this share of labels is right."""
        expect_share(self.output, share)

    def forward(self, hidden: Tensor, lengths: Tensor, candidates: Tensor | None = None) -> Tensor:
        """(documents, tokens, width) -> scores (documents, labels), or (documents, candidates)."""
        blocked = padding_mask(lengths, hidden.shape[1])[:, :, None]  # (documents, tokens, 1)
        projected = functional.linear(hidden, self.first.weight)  # (documents, tokens, first layer)
        labels = self.rows.num_embeddings if candidates is None else candidates.shape[1]
        size = max(1, MOST_SCORES // (hidden.shape[0] * hidden.shape[1]))
        if labels <= size:
            return self._scores(hidden, projected, blocked, candidates, 0, labels)
        parts = []
        for start in range(0, labels, size):
            chunk = (hidden, projected, blocked, candidates, start, min(start + size, labels))
            if torch.is_grad_enabled():
                parts.append(checkpoint(self._scores, *chunk, use_reentrant=False, preserve_rng_state=False))
            else:
                parts.append(self._scores(*chunk))
        return torch.cat(parts, 1)

    def looks(self, hidden: Tensor, lengths: Tensor, label: int) -> Tensor:
        """How much a label looks at each word of one document, (tokens,), adding up to 1."""
        row: Tensor = self.rows(torch.tensor([label]))[0]
        return (hidden[0, : int(lengths[0])] @ row).softmax(0)

    def _part(self, start: int, end: int) -> Tensor:
        if isinstance(self.rows, nn.Embedding):
            return self.rows.weight[start:end]
        rows: Tensor = self.rows(torch.arange(start, end))
        return rows

    def _scores(
        self, hidden: Tensor, projected: Tensor, blocked: Tensor, candidates: Tensor | None, start: int, end: int
    ) -> Tensor:
        if candidates is None:
            rows = self._part(start, end)  # (labels, width)
        else:
            rows = self.rows(candidates[:, start:end])  # (documents, labels, width)
        looks = (hidden @ rows.transpose(-1, -2)).masked_fill_(blocked, -torch.inf).softmax(1)
        seen = torch.relu_(torch.matmul(looks.transpose(1, 2), projected) + self.first.bias)
        scores: Tensor = self.output(self.further(seen))  # (documents, labels, layer) -> (documents, labels, 1)
        return scores.squeeze(-1)
