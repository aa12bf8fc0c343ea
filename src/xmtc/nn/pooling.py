"""The maximum over a document's words, a bottleneck, and a score for every label: heads without attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from xmtc.nn.layers import init_output_bias, padding_mask


class MaxPooling(nn.Module):
    """The largest value of each hidden unit over the words, a bottleneck, and a score for each label.

    >>> MaxPooling(labels=7, width=4, bottleneck=3)(torch.zeros(2, 5, 4), torch.tensor([5, 2])).shape
    torch.Size([2, 7])
    """

    def __init__(self, labels: int, width: int, bottleneck: int) -> None:
        super().__init__()
        self.bottleneck = nn.Linear(width, bottleneck)
        self.output = nn.Linear(bottleneck, labels)

    def expect(self, share: float) -> None:
        """Start with scores that fit if this share of labels is right."""
        init_output_bias(self.output, share)

    def forward(self, hidden: Tensor, lengths: Tensor, candidates: Tensor | None = None) -> Tensor:
        """(documents, tokens, width) -> scores (documents, labels)."""
        if candidates is not None:
            raise ValueError("a network without attention scores all labels")
        blocked = padding_mask(lengths, hidden.shape[1])[:, :, None]
        largest = hidden.masked_fill(blocked, -torch.inf).amax(1)  # (documents, width)
        scores: Tensor = self.output(torch.relu_(self.bottleneck(largest)))
        return scores

    def attention_weights(self, hidden: Tensor, lengths: Tensor, label: int) -> Tensor:
        """For one document, how many of the hidden units are largest at each word, as shares; alike for all labels."""
        places = hidden[0, : int(lengths[0])].argmax(0)
        return torch.bincount(places, minlength=int(lengths[0])) / hidden.shape[2]
