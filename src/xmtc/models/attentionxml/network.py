"""AttentionXML's network: word vectors, a BiLSTM, and an attention for each label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from xmtc.models.attentionxml.quantized import QuantizedStates, int8_bilstm_forward
from xmtc.nn.batching import Ints
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.layers import BiLstm, WordEmbedding, init_output_bias, lookup, padding_mask

if TYPE_CHECKING:
    from xmtc.models.attentionxml.model import AttentionXmlConfig

MAX_SCORES = 6_000_000  # documents x tokens x labels at once
LABEL_TABLE = "head.rows."  # weights that belong to single labels


class AttentionXmlNetwork(nn.Module):
    """Scores of labels (logits) from the words of documents; begins with a table of word vectors.

    With `word_skip` a word's state is the mean of the BiLSTM's state and one made of the word's vector alone.

    >>> from xmtc.models.attentionxml.model import AttentionXmlConfig
    >>> network = AttentionXmlNetwork(torch.zeros(9, 5), 7, AttentionXmlConfig(hidden=4, layers=[3]))
    >>> network(torch.tensor([[2, 8, 3]]), torch.tensor([3])).shape
    torch.Size([1, 7])
    """

    def __init__(self, table: Tensor, labels: int, config: AttentionXmlConfig) -> None:
        super().__init__()
        dimensions, width = table.shape[1], 2 * config.hidden
        self.head = LabelAttention(labels, width, config.layers, True, config.logsumexp_score)
        self.words = WordEmbedding(table, config.words.dropout, config.words.frozen)
        self.encoder = BiLstm(dimensions, config.hidden)
        self.word_skip = nn.Linear(dimensions, width) if config.word_skip else None
        self.dropout = config.dropout

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor,
        candidates: Tensor | None = None,
        rng: DropoutRng | None = None,
        quantized: bool = False,
    ) -> Tensor:
        """(documents, tokens) -> logits (documents, labels), or (documents, candidates).

        `quantized` is for prediction on a CPU: int8 products, without gradients.
        """
        scores: Tensor = self.head(self.hidden(ids, lengths, rng, quantized), lengths, candidates, quantized)
        return scores

    def hidden(self, ids: Tensor, lengths: Tensor, rng: DropoutRng | None = None, quantized: bool = False) -> Tensor:
        """The states of the words, (documents, tokens, 2 * hidden), each number between -1 and 1."""
        if quantized:
            distinct, places = torch.unique(ids, return_inverse=True)
            vectors = self.words(distinct)
            states = int8_bilstm_forward(self.encoder, vectors, places, lengths)
            if self.word_skip is not None:
                states.add_(torch.tanh(self.word_skip(vectors))[places]).mul_(0.5)
            return states
        vectors = self.words(ids, rng)
        states = self.encoder(vectors, lengths)
        if self.word_skip is not None:
            states = 0.5 * (states + torch.tanh(self.word_skip(vectors)))
        return dropout(states, self.dropout, rng)

    def attention_weights(self, ids: Tensor, lengths: Tensor, label: int) -> Tensor:
        """The attention weights of a label over the words of one document, (tokens,)."""
        return self.head.attention_weights(self.hidden(ids, lengths), lengths, label)

    def init_from_parent(self, above: AttentionXmlNetwork, parents: Ints | None = None) -> None:
        """Take over the weights of the network of the level above; with `parents`, each label its parent's query."""
        taken = {name: weight for name, weight in above.state_dict().items() if not name.startswith(LABEL_TABLE)}
        if parents is not None:
            taken["head.rows.weight"] = above.head.rows.weight.detach().cpu()[torch.from_numpy(parents)]
        self.load_state_dict(taken, strict=False)

    def init_output_bias(self, share: float) -> None:
        """Start with scores that fit if this share of labels is relevant."""
        init_output_bias(self.head.output, share)


class LabelAttention(nn.Module):
    """Scores of labels from the hidden states of a document's words.

    Each label has a query vector, a row of `rows`; softmaxed dot products with the word states are its attention
    weights, and layers that all labels share turn the weighted mean of the states into its score. The first of these
    layers is applied before the mean: it is linear and the weights add up to 1, so the result is the same at about 40 %
    less cost.

    With `logsumexp_score` the score also has log mean exp(state . query), times one learned factor: the shared layers
    see the weighted mean, not how well the query matched.

    `candidates` are labels for each document; without them all labels are scored. The table's gradient then has rows
    for these alone (`sparse`). With `quantized`, for prediction on a CPU, int8 states are multiplied where all labels
    are scored. Labels come in chunks: documents x labels x tokens never exists at once.

    >>> attention = LabelAttention(7, width=4, layers=[3, 2], sparse=False, logsumexp_score=True)
    >>> attention(torch.zeros(2, 5, 4), torch.tensor([5, 2])).shape
    torch.Size([2, 7])
    >>> attention(torch.zeros(2, 5, 4), torch.tensor([5, 2]), torch.tensor([[0, 3], [6, 6]])).shape
    torch.Size([2, 2])
    """

    def __init__(self, labels: int, width: int, layers: Sequence[int], sparse: bool, logsumexp_score: bool) -> None:
        super().__init__()
        self.rows = nn.Embedding(labels, width, sparse=sparse)
        self.first = nn.Linear(width, layers[0])
        further = [nn.Linear(a, b) for a, b in pairwise(layers)]
        self.further = nn.Sequential(*(part for layer in further for part in (layer, nn.ReLU(inplace=True))))
        self.output = nn.Linear(layers[-1], 1)
        self.logsumexp_score = nn.Parameter(torch.ones(())) if logsumexp_score else None
        for weight in (self.rows.weight, self.first.weight, *(layer.weight for layer in further), self.output.weight):
            nn.init.xavier_uniform_(weight)

    def forward(
        self, hidden: Tensor, lengths: Tensor, candidates: Tensor | None = None, quantized: bool = False
    ) -> Tensor:
        """(documents, tokens, width) -> scores (documents, labels), or (documents, candidates)."""
        blocked = padding_mask(lengths, hidden.shape[1])[:, :, None]  # (documents, tokens, 1)
        matmul = QuantizedStates(hidden).matmul if quantized else partial(functional.linear, hidden)
        projected = matmul(self.first.weight)  # (documents, tokens, first layer)
        labels = self.rows.num_embeddings if candidates is None else candidates.shape[1]
        size = max(1, MAX_SCORES // (hidden.shape[0] * hidden.shape[1]))
        if labels <= size:
            return self._scores(hidden, matmul, projected, blocked, candidates, 0, labels)
        parts = []
        for start in range(0, labels, size):
            chunk = (hidden, matmul, projected, blocked, candidates, start, min(start + size, labels))
            if torch.is_grad_enabled():
                parts.append(checkpoint(self._scores, *chunk, use_reentrant=False, preserve_rng_state=False))
            else:
                parts.append(self._scores(*chunk))
        return torch.cat(parts, 1)

    def attention_weights(self, hidden: Tensor, lengths: Tensor, label: int) -> Tensor:
        """The attention weights of a label over the words of one document, (tokens,)."""
        row = lookup(self.rows, torch.tensor([label]).to(hidden.device))[0]
        return (hidden[0, : int(lengths[0])] @ row).softmax(0)

    def _scores(
        self,
        hidden: Tensor,
        matmul: Callable[[Tensor], Tensor],
        projected: Tensor,
        blocked: Tensor,
        candidates: Tensor | None,
        start: int,
        end: int,
    ) -> Tensor:
        """Of labels `start` to `end`, or of these candidates."""
        if candidates is None:
            found = matmul(self.rows.weight[start:end].to(hidden.device))  # (documents, tokens, labels)
        else:
            found = hidden @ lookup(self.rows, candidates[:, start:end]).transpose(1, 2)
        found.masked_fill_(blocked, -torch.inf)
        single = torch.promote_types(found.dtype, torch.float32)  # also where the rest has numbers of two bytes
        mean, log_sum = _Attend.apply(found.to(single), projected.to(single))  # type: ignore[no-untyped-call]
        shared: Tensor = self.further(torch.relu_(mean + self.first.bias))  # (documents, labels, last layer)
        scores: Tensor = self.output(shared).squeeze(-1)
        if self.logsumexp_score is not None:
            scores = scores + self.logsumexp_score * (log_sum - (~blocked).sum(1).log())
        return scores


class _Attend(torch.autograd.Function):
    """The mean of words' values by a softmax over the words, and the logarithm of the sum that the softmax divides by.

    (documents, tokens, labels) and (documents, tokens, width) -> (documents, labels, width), (documents, labels).

    The same as `softmax`, `matmul` and `logsumexp`, whose gradients would go over documents x tokens x labels more
    often: what the softmax has to take away in each column is a product of the mean and its gradient.
    """

    @staticmethod
    def forward(ctx: Any, found: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """(means, logarithms of sums)."""
        with torch.autocast(found.device.type, enabled=False):
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
