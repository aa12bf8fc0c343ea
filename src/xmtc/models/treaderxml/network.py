"""TReaderXML's network: a teacher and a student read by self-attention, then the student reads with the teacher.

Shapes: B documents, n words of a text, m words of the teacher's knowledge, d numbers of a word vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.nn.batching import Batch
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.layers import WordEmbedding, lookup, padding_mask

if TYPE_CHECKING:
    from xmtc.models.treaderxml.settings import TReaderXmlConfig

Hidden = Literal["later", "earlier"]  # places that an attention hides from each one
SMALLEST = 1e-12
NAMES_COUNT = 10.0  # a logit's gain from a name that is the very text, before anything is learned
ENCODED_LENGTH = 10.0  # of an encoder's vector, so that it counts beside what the words give


class SelfAttention(nn.Module):
    """tanh([head 1; ...; head h] W): multi-head self-attention, which `hides` later or earlier places from each one.

    Padding stands behind the text. So who hides later places needs no mask for it: nothing before it sees it.

    >>> SelfAttention(dimensions=8, heads=2, hides="later")(torch.zeros(3, 5, 8), torch.tensor([5, 2, 1])).shape
    torch.Size([3, 5, 8])
    """

    def __init__(self, dimensions: int, heads: int, hides: Hidden | None) -> None:
        super().__init__()
        self.heads, self.hides = heads, hides
        width = heads * (dimensions // heads)
        self.inputs = nn.Linear(dimensions, 3 * width, bias=False)  # queries, keys, values
        self.output = nn.Linear(width, dimensions, bias=False)
        for part in (*self.inputs.weight.chunk(3), self.output.weight):
            nn.init.xavier_uniform_(part)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, d)."""
        queries, keys, values = self._split(vectors)
        visible, causal, width = None, self.hides == "later", vectors.shape[1]
        # On a CPU it costs nothing to see that there is no padding; a device would be waited for.
        if not causal and (lengths.device.type != "cpu" or int(lengths.min()) < width):
            visible = ~padding_mask(lengths, width)[:, None, None, :]  # (B, 1, 1, n)
        if self.hides == "earlier":
            here = torch.ones(width, width, dtype=torch.bool, device=vectors.device)
            # Padding sees itself: a row of a softmax must not be empty.
            visible = here.triu() if visible is None else visible & here.triu() | here.triu().tril()
        seen = functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=visible, is_causal=causal
        )  # (B, heads, n, d / heads)
        return self._joined(seen)

    def weights(self, vectors: Tensor) -> Tensor:
        """How much each place looks at each other, (B, heads, n, n), of texts without padding."""
        queries, keys, _ = self._split(vectors)
        scores = queries @ keys.transpose(2, 3) / queries.shape[3] ** 0.5
        if self.hides is not None:
            everywhere = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device)
            hidden = everywhere.triu(1) if self.hides == "later" else everywhere.tril(-1)
            scores = scores.masked_fill(hidden, -torch.inf)
        weights: Tensor = scores.softmax(3)
        return weights

    def with_weights(self, vectors: Tensor, weights: Tensor) -> Tensor:
        """What `forward` gives if these are its weights."""
        return self._joined(weights @ self._split(vectors)[2])

    def _split(self, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, heads, n, d / heads)."""
        parts = self.inputs(vectors).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return parts[0], parts[1], parts[2]

    def _joined(self, seen: Tensor) -> Tensor:
        return torch.tanh(self.output(seen.transpose(1, 2).flatten(2)))


class Reading(nn.Module):
    """Layers one after the other, as in the paper's Table 3: "mmhsa" hides places, "mhsa" none, "r" adds what went in.

    >>> Reading("mmhsa+r+mhsa", dimensions=8, heads=2)(torch.zeros(1, 5, 8), torch.tensor([5])).shape
    torch.Size([1, 5, 8])
    """

    def __init__(self, steps: str, dimensions: int, heads: int, hides: Hidden = "later") -> None:
        super().__init__()
        self.steps = () if steps == "none" else tuple(steps.split("+"))
        layers = [
            SelfAttention(dimensions, heads, hides if step == "mmhsa" else None) for step in self.steps if step != "r"
        ]
        self.layers = nn.ModuleList(layers)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """(B, n, d) -> (B, n, d)."""
        layers = iter(self.layers)
        before = after = vectors
        for step in self.steps:
            if step == "r":
                after = before + after
            else:
                before, after = after, next(layers)(after, lengths)
        return after


@dataclass(frozen=True)
class TeacherBatch(Batch):
    """Teacher knowledge of a batch: the words of the labels that occur in it, and each document's weights for them."""

    shared: ClassVar[frozenset[str]] = frozenset({"words"})

    words: Tensor  #: (labels, m) word ids, 0 after the last word
    weights: Tensor  #: (B, labels)

    def part(self, documents: slice) -> TeacherBatch:
        """Some of the documents, with the labels that they have weights for.

        >>> knowledge = TeacherBatch(torch.tensor([[3, 4], [5, 0]]), torch.tensor([[1.0, 1.0], [0.0, 2.0]]))
        >>> knowledge.part(slice(1, 2))
        TeacherBatch(words=tensor([[5, 0]]), weights=tensor([[2.]]))
        """
        weights = self.weights[documents]
        known = weights.any(0)
        return TeacherBatch(self.words[known], weights[:, known])


class LabelRows(nn.Module):
    """A linear layer to the labels, perhaps with a bias; of some labels only, its gradients have their rows (`sparse`).

    >>> LabelRows(labels=7, width=4, sparse=True)(torch.zeros(2, 4), torch.tensor([3, 6, 1])).shape
    torch.Size([2, 3])
    """

    def __init__(self, labels: int, width: int, sparse: bool, bias: bool = True) -> None:
        super().__init__()
        self.rows = nn.Embedding(labels, width, sparse=sparse)
        self.bias = nn.Embedding(labels, 1, sparse=sparse) if bias else None
        nn.init.xavier_uniform_(self.rows.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias.weight)

    def forward(self, hidden: Tensor, labels: Tensor | None = None) -> Tensor:
        """(B, width) -> (B, all labels or those given)."""

        def of(table: nn.Embedding) -> Tensor:
            return table.weight if labels is None else lookup(table, labels)

        return functional.linear(hidden, of(self.rows), None if self.bias is None else of(self.bias)[:, 0])


class TReaderNetwork(nn.Module):
    """Scores of labels (logits) from the words of documents and what a teacher knows about their neighbours' labels.

    It begins with a table of word vectors. It also scores clusters of labels, if there are any, and its bottleneck also
    sees vectors of `encoded` numbers that an encoder made of the texts. The tables of labels have `sparse` gradients
    where only candidates are scored. With votes it begins as a vote of the neighbours: see `scores`.

    >>> from xmtc.models.treaderxml.settings import TReaderXmlConfig
    >>> network = TReaderNetwork(torch.zeros(9, 8), TReaderXmlConfig(heads=2, bottleneck=4), labels=7)
    >>> knowledge = TeacherBatch(torch.tensor([[3, 4], [5, 0]]), torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    >>> network(torch.tensor([[2, 8, 3], [4, 0, 0]]), torch.tensor([3, 1]), knowledge).shape
    torch.Size([2, 7])
    """

    members: Tensor  # (clusters, most labels of one), while it is trained with candidates from clusters
    unvoted: Tensor  # the share of labels without votes that are right, before anything is learned

    def __init__(
        self,
        table: Tensor,
        config: TReaderXmlConfig,
        labels: int,
        clusters: int = 0,
        encoded: int = 0,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        dimensions, branches, voters = table.shape[1], config.branches, config.voters if config.votes else 0
        reading = (config.reading, dimensions, config.heads, config.hides)
        self.words = WordEmbedding(table, config.words.dropout, config.words.frozen)
        self.dropout, self.linear_bottleneck = config.dropout, config.linear_bottleneck
        self.divide_by_labels, self.pools_maximum = config.knowledge_mean == "labels", config.pooling == "mean+max"
        self.text = Reading(*reading) if branches != "teacher" else None
        self.teacher = Reading(*reading) if branches != "text" else None
        self.nothing = nn.Parameter(torch.zeros(dimensions)) if branches != "text" else None
        self.interaction = SelfAttention(dimensions, config.heads, config.hides)
        pooled = (2 if self.pools_maximum else 1) * dimensions + encoded
        self.bottleneck = nn.Linear(pooled, config.bottleneck, bias=not self.linear_bottleneck)
        self.output = LabelRows(labels, config.bottleneck, sparse, config.output_bias)
        self.clusters = nn.Linear(config.bottleneck, clusters) if clusters else None
        self.vote_scale = nn.Parameter(torch.ones(())) if voters else None
        self.name_scale = nn.Parameter(torch.tensor(NAMES_COUNT)) if config.names else None
        if voters:
            self.half_vote = 0.5 / voters
            self.register_buffer("unvoted", torch.tensor(self.half_vote))
            nn.init.zeros_(self.output.rows.weight)

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor,
        teacher_batch: TeacherBatch | None,
        votes: Tensor | None = None,
        labels: Tensor | None = None,
        rng: DropoutRng | None = None,
        encoded: Tensor | None = None,
    ) -> Tensor:
        """(B, n) word ids -> logits (B, labels), of all labels or those given; `votes` are for the same labels."""
        return self.scores(self.hidden(ids, lengths, teacher_batch, encoded, rng), votes, labels)

    def scores(
        self, hidden: Tensor, votes: Tensor | None, labels: Tensor | None = None, names: Tensor | None = None
    ) -> Tensor:
        """(B, bottleneck) -> logits (B, labels); `votes` and `names` are for the same labels.

        Of `votes`, the shares of the neighbours' votes that labels have, the log-odds are added, times a factor that is
        learned and begins at 1. The rows of labels begin at 0: so does the network as a plain vote. The likeness of
        `names`, 0 to 1, is added times another factor.
        """
        scores: Tensor = self.output(hidden, labels)
        if self.vote_scale is not None and votes is not None:
            scores = scores + self.vote_scale * self._odds(votes)
        if self.name_scale is not None and names is not None:
            scores = scores + self.name_scale * names
        return scores

    def _odds(self, votes: Tensor) -> Tensor:
        """Log-odds of shares of votes above those of labels without votes, for which the labels' biases are all."""
        share = (votes + self.unvoted) / (1 - votes + self.half_vote).clamp(min=SMALLEST)
        return torch.log(share) - self._odds_unvoted()

    def _odds_unvoted(self) -> Tensor:
        return torch.log(self.unvoted / (1 + self.half_vote))

    def init_output_bias(self, shares: NDArray[np.float64], unvoted: float = 0.0) -> None:
        """Begin with scores that fit if labels are relevant for these shares of documents.

        With voters, begin as a vote in which a label that nobody voted for is right as often as `unvoted` says: among
        very many labels hardly ever, and who begins with less doubt first learns to doubt all labels, votes or not.
        """
        if self.output.bias is None:
            return
        with torch.no_grad():
            if self.vote_scale is not None:
                self.unvoted.fill_(max(unvoted, SMALLEST))
                self.output.bias.weight.fill_(self._odds_unvoted().item())
            else:
                odds = np.log(shares / (1 - shares)).astype(np.float32)
                self.output.bias.weight.copy_(torch.from_numpy(odds)[:, None])

    def hidden(
        self,
        ids: Tensor,
        lengths: Tensor,
        teacher_batch: TeacherBatch | None,
        encoded: Tensor | None = None,
        rng: DropoutRng | None = None,
    ) -> Tensor:
        """What is known about a document before labels are scored, (B, bottleneck)."""
        joined, ends, _ = self._read(ids, lengths, teacher_batch, rng)
        return self._squeezed(self._pooled(self.interaction(joined, ends), ends), encoded, rng)

    def _read(
        self, ids: Tensor, lengths: Tensor, teacher_batch: TeacherBatch | None, rng: DropoutRng | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(teacher's and student's readings behind each other, where they end, where the teacher's end)."""
        parts: list[tuple[Tensor, Tensor]] = []
        taught = torch.zeros_like(lengths)
        if self.teacher is not None:
            assert teacher_batch is not None
            vectors, taught = self.embedded(teacher_batch)
            vectors = dropout(vectors, self.words.dropout, rng)
            parts.append((self.teacher(vectors, taught), taught))
        if self.text is not None:
            vectors = self.words(ids, rng)  # (B, n, d)
            parts.append((self.text(vectors, lengths), lengths))
        if len(parts) == 1:
            return *parts[0], taught
        return *behind(*parts[0], *parts[1]), taught

    def embedded(self, teacher_batch: TeacherBatch) -> tuple[Tensor, Tensor]:
        """(the mean of the descriptions, place by place, (B, m, d); how many places have a word, at least one).

        Each place is the mean over the labels that have a word there, or over all labels (the paper's K): then those
        without a word there count as 0. Who has no knowledge gets a learned vector.
        """
        assert self.nothing is not None
        present = (teacher_batch.words > 0).float()  # (labels, m)
        rows = lookup(self.words.words, teacher_batch.words) * present[:, :, None]  # (labels, m, d)
        sums = (teacher_batch.weights @ rows.flatten(1)).view(-1, *rows.shape[1:])  # (B, m, d)
        counts = (teacher_batch.weights @ present).float()  # (B, m); two bytes could not tell SMALLEST from 0
        lengths = (counts > 0).sum(1)
        divisors = teacher_batch.weights.sum(1, keepdim=True).float() if self.divide_by_labels else counts
        means = sums / divisors.clamp(min=SMALLEST)[:, :, None]
        ignorant = torch.zeros_like(counts, dtype=torch.bool)
        ignorant[:, 0] = lengths == 0
        return torch.where(ignorant[:, :, None], self.nothing, means), lengths.clamp(min=1)

    def _pooled(self, mixed: Tensor, ends: Tensor) -> Tensor:
        """Mean and, if wanted, maximum over the places before the end, (B, d or 2 d)."""
        if not self.pools_maximum:
            return _mean(mixed, ends)
        blocked = padding_mask(ends, mixed.shape[1])[:, :, None]
        return torch.cat([_mean(mixed, ends), mixed.masked_fill(blocked, -torch.inf).amax(1)], 1)

    def _squeezed(self, pooled: Tensor, encoded: Tensor | None, rng: DropoutRng | None) -> Tensor:
        if encoded is not None:
            pooled = torch.cat([pooled, ENCODED_LENGTH * encoded], 1)
        squeezed = self.bottleneck(pooled)
        return dropout(squeezed if self.linear_bottleneck else torch.relu(squeezed), self.dropout, rng)

    def attention_weights(
        self,
        ids: Tensor,
        lengths: Tensor,
        teacher_batch: TeacherBatch | None,
        label: int,
        encoded: Tensor | None = None,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """For one document, (how much each word of the teacher, and each of the text, speaks for a label).

        That is the attention of the interaction times its gradient, as far as it raises the label's score, summed over
        heads and over the places that look. All together add up to 1, or to 0 if nothing speaks for the label.
        """
        with torch.enable_grad():
            joined, ends, taught = self._read(ids, lengths, teacher_batch, None)
            weights = self.interaction.weights(joined).detach().requires_grad_()
            pooled = self._pooled(self.interaction.with_weights(joined, weights), ends)
            only = torch.tensor([label]).to(ids.device)
            score = self.scores(self._squeezed(pooled, encoded, None), None, only)[0, 0]
            (slope,) = torch.autograd.grad(score, weights)
        raised = np.nan_to_num((weights * slope).detach().clamp(min=0).sum((0, 1, 2)).cpu().numpy())
        shares = raised / (raised.sum() or 1)
        return shares[: int(taught[0])], shares[int(taught[0]) : int(ends[0])]


def behind(first: Tensor, first_lengths: Tensor, second: Tensor, second_lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(the second texts right behind the first, so that all padding comes last; where they end).

    >>> one, two = torch.tensor([[[1.0], [0.0]]]), torch.tensor([[[5.0], [6.0]]])
    >>> both, ends = behind(one, torch.tensor([1]), two, torch.tensor([2]))
    >>> both.flatten().tolist(), ends.tolist()
    ([1.0, 5.0, 6.0, 6.0], [3])
    """
    # As wide as both together, although the longest may be shorter: a device would be waited for to know.
    width, start = first.shape[1] + second.shape[1], first_lengths[:, None]
    places = torch.arange(width, device=first.device)
    sources = torch.where(places < start, places, (first.shape[1] + places - start).clamp(max=width - 1))
    both = torch.cat([first, second], 1)
    return both.gather(1, sources[:, :, None].expand(-1, -1, both.shape[2])), first_lengths + second_lengths


def _mean(vectors: Tensor, lengths: Tensor) -> Tensor:
    """The mean over the places before the end, (B, d)."""
    inside = ~padding_mask(lengths, vectors.shape[1])[:, :, None]
    return (vectors * inside).sum(1) / lengths[:, None]
