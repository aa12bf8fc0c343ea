"""The network of AttentionXML: word vectors, BiLSTM, and an attention for each label (or the maximum over words)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from xmtc.models.attentionxml.attention import LabelAttention
from xmtc.models.attentionxml.quantized import int8_bilstm_forward
from xmtc.nn.batching import Ints
from xmtc.nn.dropout import dropout
from xmtc.nn.layers import BiLstm, WordEmbedding, as_tensor
from xmtc.nn.packing import PackedRows, packed
from xmtc.nn.pooling import MaxPooling
from xmtc.nn.serialization import weights_of

LABEL_TABLES = ("head.rows.", "head.own.")  # weights that belong to single labels


class AttentionXmlNetwork(nn.Module):
    """Scores of labels (logits) from the words of documents.

    With a `shortcut` a word's state is the mean of the BiLSTM's and one that the word has by itself.

    If it is `corrective`, the scores are added to the log-odds that something else gives the labels, both times a
    factor that is learned: 1 for the log-odds and 0 for the scores at the beginning, so that nothing is corrected.
    """

    def __init__(
        self, words: WordEmbedding, encoder: BiLstm, head: LabelAttention | MaxPooling, dropout: float, shortcut: bool,
        corrective: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.words, self.encoder, self.head = words, encoder, head
        self.dropout = dropout
        dimensions, width = words.words.embedding_dim, 2 * encoder.left.hidden_size
        self.shortcut = nn.Linear(dimensions, width) if shortcut else None
        self.trust = nn.Parameter(torch.ones(())) if corrective else None
        self.gain = nn.Parameter(torch.zeros(())) if corrective else None
        self.unlisted = nn.Parameter(torch.zeros(())) if corrective else None  # log-odds of labels without any

    @classmethod
    def made(
        cls, table: NDArray[np.float32], labels: int, *, hidden: int, layers: Sequence[int], word_dropout: float,
        dropout: float, frozen: bool, own_outputs: bool, bottleneck: int | None, seed: int, shortcut: bool = False,
        logsumexp_score: bool = False, corrective: bool = False,
    ) -> AttentionXmlNetwork:  # fmt: skip
        """A new network that begins with these word vectors; with a `bottleneck` it has the maximum over words."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            head: LabelAttention | MaxPooling
            if bottleneck is None:
                head = LabelAttention(
                    labels, 2 * hidden, layers, sparse=True, own_outputs=own_outputs, logsumexp_score=logsumexp_score
                )
            else:
                head = MaxPooling(labels, 2 * hidden, bottleneck)
            words = WordEmbedding(torch.tensor(table), word_dropout, frozen)
            return cls(words, BiLstm(table.shape[1], hidden), head, dropout, shortcut, corrective)

    def forward(
        self, ids: Tensor, lengths: Tensor, candidates: Tensor | None = None, rng: np.random.Generator | None = None
    ) -> Tensor:
        """(documents, tokens) -> logits (documents, labels), or (documents, candidates)."""
        scores: Tensor = self.head(self.hidden(ids, lengths, rng), lengths, candidates)
        return scores

    def corrected(
        self, ids: Tensor, lengths: Tensor, labels: Tensor, odds: Tensor, rng: np.random.Generator | None = None
    ) -> Tensor:
        """Log-odds of labels, (documents, labels), from those that they have already, NaN for none."""
        assert self.trust is not None and self.gain is not None and self.unlisted is not None
        given = torch.where(odds.isnan(), self.unlisted, self.trust * odds.nan_to_num())
        return self.gain * self.forward(ids, lengths, labels, rng) + given

    def hidden(self, ids: Tensor, lengths: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        """The states of the words, (documents, tokens, 2 * hidden), each number between -1 and 1."""
        if torch.is_inference_mode_enabled():
            distinct, places = torch.unique(ids, return_inverse=True)
            vectors = self.words(distinct)
            states = int8_bilstm_forward(self.encoder, vectors, places, lengths)
            return states if self.shortcut is None else states.add_(self._alone(vectors)[places]).mul_(0.5)
        vectors = self.words(ids, rng)
        states = self.encoder(vectors, lengths)
        if self.shortcut is not None:
            states = 0.5 * (states + self._alone(vectors))
        return dropout(states, self.dropout, rng)

    def _alone(self, vectors: Tensor) -> Tensor:
        """What words are by themselves, whatever stands around them."""
        assert self.shortcut is not None
        return torch.tanh(self.shortcut(vectors))

    def attention_weights(self, ids: Tensor, lengths: Tensor, label: int) -> Tensor:
        """How much a label looks at each word of one document, (tokens,), adding up to 1.

        Without attention, each hidden unit looks at the word where it is largest.
        """
        return self.head.attention_weights(self.hidden(ids, lengths), lengths, label)

    def init_from_parent(self, above: AttentionXmlNetwork, parents: Ints | None = None) -> None:
        """Take over all weights of the network of the level above, but for those that belong to single labels.

        With `parents`, each label has those of its parent there.
        """
        taken = {}
        for name, weight in above.state_dict().items():
            if not name.startswith(LABEL_TABLES):
                taken[name] = weight
            elif parents is not None:
                taken[name] = weight[torch.from_numpy(parents)]
        self.load_state_dict(taken, strict=False)

    def expect(self, share: float) -> None:
        """Start with scores that fit if this share of labels is right."""
        self.head.expect(share)

    def expect_unlisted(self, share: float) -> None:
        """Of labels without log-odds, this share is right."""
        assert self.unlisted is not None
        nn.init.constant_(self.unlisted, float(np.log(share / (1 - share))))

    def to_arrays(self, label_table: str = "float32") -> dict[str, NDArray[Any]]:
        """All weights by name, for storage; the labels' rows as "float32", "float16" or "int8"."""
        arrays = weights_of(self)
        for table in LABEL_TABLES:
            if label_table != "float32" and f"{table}weight" in arrays:
                rows = packed(arrays.pop(f"{table}weight"), label_table)
                arrays |= {f"{table}{key}": part for key, part in rows.items()}
        return arrays

    def with_rows_like(self, arrays: Mapping[str, NDArray[Any]]) -> AttentionXmlNetwork:
        """This network, prepared for the labels' rows as `to_arrays` gave them."""
        for name in LABEL_TABLES:
            if f"{name}values" in arrays:
                values, scales = (as_tensor(arrays[f"{name}{key}"]) for key in ("values", "scales"))
                table = self.get_submodule(name.rstrip("."))
                if list(values.shape) != [table.num_embeddings, table.embedding_dim]:
                    raise ValueError(f"labels' rows of the shape {tuple(values.shape)}")
                self.set_submodule(name.rstrip("."), PackedRows(values, scales))
        return self
