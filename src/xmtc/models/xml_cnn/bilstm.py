"""A BiLSTM and the maximum over the words in place of convolutions: AttentionXML's ablation without attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.layers import BiLstm, WordEmbedding, init_output_bias, padding_mask

if TYPE_CHECKING:
    from xmtc.models.xml_cnn.model import XmlCnnConfig


class BiLstmNetwork(nn.Module):
    """Scores of labels (logits) from the words of documents; begins with a table of word vectors.

    >>> from xmtc.models.xml_cnn.model import XmlCnnConfig
    >>> network = BiLstmNetwork(torch.zeros(9, 5), 7, XmlCnnConfig(network="bilstm", hidden=4, bottleneck=3))
    >>> network(torch.tensor([[2, 8, 3]]), torch.tensor([3])).shape
    torch.Size([1, 7])
    """

    def __init__(self, table: Tensor, labels: int, config: XmlCnnConfig) -> None:
        super().__init__()
        self.words = WordEmbedding(table, config.words.dropout, config.words.frozen)
        self.encoder = BiLstm(table.shape[1], config.hidden)
        self.bottleneck = nn.Linear(2 * config.hidden, config.bottleneck)
        self.output = nn.Linear(config.bottleneck, labels)
        self.dropout = config.dropout

    def forward(
        self, ids: Tensor, lengths: Tensor, candidates: Tensor | None = None, rng: DropoutRng | None = None
    ) -> Tensor:
        """(documents, tokens) -> logits (documents, labels)."""
        if candidates is not None:
            raise ValueError("a network without attention scores all labels")
        states = dropout(self.encoder(self.words(ids, rng), lengths), self.dropout, rng)
        blocked = padding_mask(lengths, states.shape[1])[:, :, None]
        largest = states.masked_fill(blocked, -torch.inf).amax(1)  # (documents, 2 * hidden)
        scores: Tensor = self.output(torch.relu_(self.bottleneck(largest)))
        return scores

    def init_output_bias(self, share: float) -> None:
        """Start with scores that fit if this share of labels is relevant."""
        init_output_bias(self.output, share)
