"""The encoder-decoder: words to states, SU4MLC's semantic units, SGM's global embedding, and a step of decoding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from xmtc.models.seq2seq.decoders import ConditionalGru, HybridAttentionLstm, InputFeedingLstm, Memory, State
from xmtc.models.seq2seq.output import ClusteredSoftmax, Targets, cluster_ends
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.layers import BiGru, BiLstm, WordEmbedding, lookup, padding_mask

if TYPE_CHECKING:
    from xmtc.models.seq2seq.model import Design, Seq2SeqConfig

DILATIONS = (1, 2, 3)  # without a common factor: no word between two windows is left out


@dataclass(frozen=True)
class Decoding:
    """Where the decoder stands with each sequence, (documents, beam, ...)."""

    state: State
    expected: Tensor | None = None  #: SGM's mean embedding under the last distribution; None before the first step

    def take(self, parents: Tensor) -> Decoding:
        """The sequences `parents` (documents, new beam) of each document."""

        def taken(values: Tensor) -> Tensor:
            return values.gather(1, parents[:, :, None].expand(-1, -1, values.shape[2]))

        expected = None if self.expected is None else taken(self.expected)
        return Decoding(tuple(map(taken, self.state)), expected)

    def of(self, documents: Tensor) -> Decoding:
        """Those of some documents."""
        expected = None if self.expected is None else self.expected[documents]
        return Decoding(tuple(each[documents] for each in self.state), expected)


class DilatedConvolutions(nn.Module):
    """SU4MLC's semantic units: three convolutions over three words each, with gaps that grow, and no pooling.

    >>> layer = DilatedConvolutions(4)
    >>> layer(torch.zeros(2, 5, 4), torch.zeros(2, 5, dtype=torch.bool)).shape
    torch.Size([2, 5, 4])
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3 * size, size) for _ in DILATIONS)

    def forward(self, states: Tensor, blocked: Tensor) -> Tensor:
        """(documents, tokens, size) -> the same shape; what is blocked counts as 0."""
        tokens = states.shape[1]
        for dilation, layer in zip(DILATIONS, self.layers, strict=True):
            states = states.masked_fill(blocked[:, :, None], 0)
            wide = nn.functional.pad(states, (0, 0, dilation, dilation))
            windows = [wide[:, start : start + tokens] for start in (0, dilation, 2 * dilation)]
            states = nn.functional.selu(layer(torch.cat(windows, -1)))
        return states


class GlobalEmbedding(nn.Module):
    """SGM: a gate between the embedding of the label before and the mean under the distribution it came from.

    >>> GlobalEmbedding(4)(torch.zeros(2, 1, 4), torch.zeros(2, 1, 4)).shape
    torch.Size([2, 1, 4])
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.of_label, self.of_mean = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)

    def forward(self, label: Tensor, mean: Tensor) -> Tensor:
        """(documents, beam, size) twice -> the same shape."""
        gate = torch.sigmoid(self.of_label(label) + self.of_mean(mean))
        return label + gate * (mean - label)


class Seq2SeqNetwork(nn.Module):
    """Emits label sequences; begins with a table of word vectors.

    >>> from xmtc.models.seq2seq.model import Sgm
    >>> model = Sgm(hidden=4, label_dimensions=3)
    >>> network = Seq2SeqNetwork(torch.zeros(9, 5), 7, model.config, model.design)
    >>> targets = Targets.of(torch.tensor([[2, 0, 7]]), network.output.ends)
    >>> network.losses(torch.tensor([[2, 8, 3]]), torch.tensor([3]), targets).shape
    torch.Size([1])
    """

    def __init__(self, table: Tensor, labels: int, config: Seq2SeqConfig, design: Design) -> None:
        super().__init__()
        size, embedding = 2 * config.hidden, config.label_dimensions
        self.masked, self.dropout = design.masked, config.dropout
        self.words = WordEmbedding(table, config.words.dropout, config.words.frozen)
        self.encoder = (BiGru if design.cell == "gru" else BiLstm)(table.shape[1], config.hidden)
        self.units = DilatedConvolutions(size) if design.semantic_units else None
        kind = HybridAttentionLstm if design.semantic_units else InputFeedingLstm
        self.decoder = (ConditionalGru if design.cell == "gru" else kind)(embedding, size, config.hidden)
        self.output = ClusteredSoftmax(self.decoder.width, cluster_ends(labels, config.adaptive_above))
        # The last row is what stands before the first label. The mean of all embeddings has a gradient for all rows.
        self.labels = nn.Embedding(labels + 1, embedding, sparse=not design.global_embedding)
        self.gate = GlobalEmbedding(embedding) if design.global_embedding else None
        tails = len(self.output.tails) if design.global_embedding else 0
        self.of_tails = nn.Parameter(torch.zeros(tails, embedding)) if tails else None

    @property
    def start_symbol(self) -> int:
        """What the decoder reads before the first label: the symbol of the end."""
        return self.output.ends[-1]

    def encode(self, ids: Tensor, lengths: Tensor, rng: DropoutRng | None = None) -> Memory:
        """(documents, tokens) -> what the decoder attends to."""
        lengths = lengths.clamp(min=1)  # of a document without words the padding is read
        blocked = padding_mask(lengths, ids.shape[1])
        states = dropout(self.encoder(self.words(ids, rng), lengths), self.dropout, rng)
        memory = Memory(states, self.decoder.attention.keys(states), blocked)
        if self.units is None:
            return memory
        assert isinstance(self.decoder, HybridAttentionLstm)
        units = self.units(states, blocked)
        return replace(memory, units=units, unit_keys=self.decoder.unit_attention.keys(units))

    def start(self, memory: Memory) -> Decoding:
        """Before the first label."""
        return Decoding(self.decoder.start(memory))

    def step(
        self,
        embedded: Tensor,
        decoding: Decoding,
        memory: Memory,
        emitted: Tensor | None,
        rng: DropoutRng | None = None,
    ) -> tuple[Decoding, Tensor, Tensor]:
        """From the embedding of the symbol before: where it stands then, the output layer's vector, the attention.

        `emitted` are the symbols before, (documents, beam, any number), if none may come twice.
        """
        if self.gate is not None and decoding.expected is not None:
            embedded = self.gate(embedded, decoding.expected)
        state, vectors, weights = self.decoder(embedded, decoding.state, memory)
        vectors, expected = dropout(vectors, self.dropout, rng), None
        if self.gate is not None:
            of_tails = self.labels.weight[:0] if self.of_tails is None else self.of_tails
            expected = self.output.expected(vectors, emitted, self.labels.weight, of_tails)
        return Decoding(state, expected), vectors, weights

    def losses(self, ids: Tensor, lengths: Tensor, targets: Targets, rng: DropoutRng | None = None) -> Tensor:
        """The negative log-probability of each document's sequence, given the right labels before; (documents,)."""
        memory = self.encode(ids, lengths, rng)
        decoding = self.start(memory)
        embedded = dropout(lookup(self.labels, targets.inputs), self.dropout, rng)  # (documents, steps, size)
        emitted = targets.emitted if self.masked else None
        found = []
        for step in range(embedded.shape[1]):
            before = None if emitted is None else emitted[:, step, None]
            decoding, vectors, _ = self.step(embedded[:, step, None], decoding, memory, before, rng)
            found.append(vectors)
        return self.output.losses(torch.cat(found, 1), targets, emitted)
