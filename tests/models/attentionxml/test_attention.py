"""Multi-label attention against the paper's order of operations, word by word and label by label."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from xmtc.models.attentionxml import network as module
from xmtc.models.attentionxml.network import LabelAttention

DOCUMENTS, TOKENS, WIDTH, LABELS = 3, 5, 4, 7
LENGTHS = torch.tensor([5, 1, 3])
CANDIDATES = torch.tensor([[6, 0, 3, 1, 5], [2, 2, 4, 2, 0], [1, 2, 3, 4, 5]])


def some_attention(
    layers: Sequence[int] = (3, 2), sparse: bool = False, logsumexp_score: bool = True
) -> LabelAttention:
    torch.manual_seed(0)
    attention = LabelAttention(LABELS, WIDTH, layers, sparse, logsumexp_score).double()
    if attention.logsumexp_score is not None:
        nn.init.constant_(attention.logsumexp_score, 0.7)
    for layer in layers_of(attention):
        nn.init.normal_(layer.bias)
    return attention


def layers_of(attention: LabelAttention) -> list[nn.Linear]:
    further = [layer for layer in attention.further if isinstance(layer, nn.Linear)]
    return [attention.first, *further, attention.output]


def rows_of(attention: LabelAttention) -> Tensor:
    return attention.rows.weight


def some_hidden() -> Tensor:
    return torch.randn(DOCUMENTS, TOKENS, WIDTH, dtype=torch.float64, requires_grad=True)


def naive_attention_weights(attention: LabelAttention, words: Tensor, label: int) -> Tensor:
    powers = torch.stack([(word @ rows_of(attention)[label]).exp() for word in words])
    return powers / powers.sum()


def naive_score(attention: LabelAttention, words: Tensor, label: int) -> Tensor:
    """As in the paper: the mean of the hidden states first, then all layers."""
    attention_weights = naive_attention_weights(attention, words, label)
    value = torch.stack([look * word for look, word in zip(attention_weights, words, strict=True)]).sum(0)
    *inner, last = layers_of(attention)
    for layer in inner:
        value = (layer.weight @ value + layer.bias).clamp(min=0)
    score = (last.weight @ value + last.bias)[0]
    if attention.logsumexp_score is not None:
        score = score + attention.logsumexp_score * (words @ rows_of(attention)[label]).exp().mean().log()
    return score


def naive(attention: LabelAttention, hidden: Tensor, candidates: Tensor | None) -> Tensor:
    rows = []
    for at, length in enumerate(LENGTHS):
        labels = range(LABELS) if candidates is None else candidates[at].tolist()
        rows.append(torch.stack([naive_score(attention, hidden[at, :length], label) for label in labels]))
    return torch.stack(rows)


def gradients(scores: Tensor, attention: LabelAttention, hidden: Tensor) -> list[Tensor]:
    above = torch.linspace(-1, 2, scores.numel(), dtype=torch.float64).view_as(scores)
    found = torch.autograd.grad((scores * above).sum(), [hidden, *attention.parameters()])
    return [gradient.to_dense() for gradient in found]


@pytest.mark.parametrize("at_once", [10**6, 2 * DOCUMENTS * TOKENS, 1], ids=["whole", "two labels", "one label"])
@pytest.mark.parametrize("layers", [(3,), (3, 2)], ids=str)
@pytest.mark.parametrize("candidates", [None, CANDIDATES], ids=["all labels", "candidates"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("logsumexp_score", [False, True], ids=["the paper's", "logsumexp_score"])
def test_attention_word_by_word(
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
    layers: Sequence[int],
    candidates: Tensor | None,
    sparse: bool,
    logsumexp_score: bool,
) -> None:
    monkeypatch.setattr(module, "MAX_SCORES", at_once)
    attention, hidden = some_attention(layers, sparse, logsumexp_score), some_hidden()
    found, expected = attention(hidden, LENGTHS, candidates), naive(attention, hidden, candidates)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found, attention, hidden), gradients(expected, attention, hidden))
    attention, hidden = attention.float(), hidden.detach().float().tanh()  # as an LSTM's, between -1 and 1
    expected = naive(attention, hidden, candidates).detach()
    with torch.inference_mode():  # in bytes
        found = attention(hidden, LENGTHS, candidates, quantized=True)
        torch.testing.assert_close(found, expected, atol=0.02, rtol=0)


def test_labels_come_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    whole = LabelAttention._scores

    def spy(self: LabelAttention, *chunk: object) -> Tensor:
        seen.append(chunk[-2:])  # type: ignore[arg-type]
        return whole(self, *chunk)  # type: ignore[arg-type]

    monkeypatch.setattr(LabelAttention, "_scores", spy)
    monkeypatch.setattr(module, "MAX_SCORES", 3 * DOCUMENTS * TOKENS)
    some_attention()(some_hidden(), LENGTHS)
    assert seen == [(0, 3), (3, 6), (6, 7)]


@pytest.mark.parametrize("at_once", [10**6, 1])
def test_only_candidates_get_gradients(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(module, "MAX_SCORES", at_once)
    attention = some_attention(sparse=True)
    attention(some_hidden(), LENGTHS, torch.tensor([[5, 1], [1, 1], [3, 5]])).sum().backward()
    gradient = rows_of(attention).grad
    assert gradient is not None
    assert gradient.is_sparse
    assert gradient.coalesce().indices()[0].tolist() == [1, 3, 5]


def test_a_candidate_that_comes_twice_counts_twice() -> None:
    attention, hidden = some_attention(sparse=True), some_hidden()
    once, twice = (
        torch.autograd.grad(attention(hidden, LENGTHS, torch.full((DOCUMENTS, times), 2)).sum(), rows_of(attention))
        for times in (1, 2)
    )
    torch.testing.assert_close(twice[0].to_dense(), 2 * once[0].to_dense())
    assert once[0].to_dense()[2].abs().min() > 0


def test_nobody_looks_at_padding() -> None:
    attention, hidden = some_attention(), some_hidden()
    other = hidden.detach().clone()
    for row, length in enumerate(LENGTHS):
        other[row, length:] = 1e3
    other.requires_grad_()
    scores = attention(other, LENGTHS)
    torch.testing.assert_close(scores, attention(hidden, LENGTHS))
    (gradient,) = torch.autograd.grad(scores.sum(), other)
    for row, length in enumerate(LENGTHS):
        assert not gradient[row, length:].any()
        assert gradient[row, :length].all()


@pytest.mark.parametrize("document", range(DOCUMENTS))
def test_where_a_label_looks(document: int) -> None:
    attention, hidden = some_attention(), some_hidden()
    length = LENGTHS[document : document + 1]
    attention_weights = attention.attention_weights(hidden[document : document + 1], length, 4)
    torch.testing.assert_close(
        attention_weights, naive_attention_weights(attention, hidden[document, : int(length)], 4)
    )
    torch.testing.assert_close(attention_weights.sum().item(), 1.0)
