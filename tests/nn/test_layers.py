"""The small layers against naive references."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.layers import BiGru, BiLstm, WordEmbedding, as_tensor

DIMENSIONS, HIDDEN = 3, 4


def some_lstm(seed: int = 0) -> BiLstm:
    torch.manual_seed(seed)
    lstm = BiLstm(DIMENSIONS, HIDDEN).double()
    nn.init.normal_(lstm.initial)  # zeros would hide a state in the wrong place
    return lstm


def some_vectors(lengths: Tensor, padding: float) -> Tensor:
    vectors = torch.randn(len(lengths), int(lengths.max()), DIMENSIONS, dtype=torch.float64)
    for row, length in enumerate(lengths):
        vectors[row, length:] = padding
    return vectors.requires_grad_()


def packed(lstm: BiLstm) -> tuple[nn.LSTM, Tensor]:
    """Torch's own bidirectional LSTM with the same weights, and initial states as (state or cell, direction, ...)."""
    reference = nn.LSTM(DIMENSIONS, HIDDEN, bidirectional=True, batch_first=True).double()
    left, right = lstm.left.state_dict(), lstm.right.state_dict()
    reference.load_state_dict({**left, **{f"{name}_reverse": weight for name, weight in right.items()}})
    return reference, lstm.initial.detach().transpose(0, 1).clone().requires_grad_()


@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(0, 100))
@example([1], 0)
@example([1, 5, 1], 0)
@example([4, 4], 0)
@settings(max_examples=25)
def test_bilstm_is_a_packed_bidirectional_lstm(sizes: list[int], seed: int) -> None:
    lstm, lengths = some_lstm(seed), torch.tensor(sizes)
    reference, initial = packed(lstm)
    vectors = some_vectors(lengths, padding=9.0)
    inside = (torch.arange(vectors.shape[1]) < lengths[:, None])[:, :, None]
    states, cells = (part[:, None].expand(-1, len(sizes), -1).contiguous() for part in initial)
    sequence = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(reference(sequence, (states, cells))[0], batch_first=True)
    found = lstm(vectors, lengths)
    torch.testing.assert_close(found * inside, expected)

    above = torch.randn_like(expected) * inside  # what layers above hand back: nothing for padding
    of_reference = torch.autograd.grad((expected * above).sum(), [vectors, initial, *reference.parameters()])
    ours = [*lstm.left.parameters(), *lstm.right.parameters()]
    of_found = torch.autograd.grad((found * above).sum(), [vectors, lstm.initial, *ours])
    torch.testing.assert_close(of_found[1].transpose(0, 1), of_reference[1])
    torch.testing.assert_close([of_found[0], *of_found[2:]], [of_reference[0], *of_reference[2:]])


@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.sampled_from([0.0, -50.0, float("nan")]))
@settings(max_examples=25)
def test_padding_never_changes_a_document(sizes: list[int], padding: float) -> None:
    lstm, lengths = some_lstm(), torch.tensor(sizes)
    vectors = some_vectors(lengths, padding)
    together = lstm(vectors, lengths)
    for row, length in enumerate(sizes):
        alone = lstm(vectors[row : row + 1, :length], lengths[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0])


def test_bigru_is_torch_s_on_each_document() -> None:
    torch.manual_seed(0)
    gru, lengths = BiGru(DIMENSIONS, HIDDEN).double(), torch.tensor([5, 2])
    nn.init.normal_(gru.initial)
    reference = nn.GRU(DIMENSIONS, HIDDEN, bidirectional=True).double()
    left, right = gru.left.state_dict(), gru.right.state_dict()
    reference.load_state_dict({**left, **{f"{name}_reverse": weight for name, weight in right.items()}})
    vectors = some_vectors(lengths, padding=9.0)
    found = gru(vectors, lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(found[row, :length], reference(vectors[row, :length], gru.initial[:, 0])[0])


def test_bilstm_computes_with_four_bytes_where_the_rest_is_in_bfloat16() -> None:
    lstm, lengths = some_lstm().float(), torch.tensor([3, 2])
    vectors = torch.randn(2, 3, DIMENSIONS).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = lstm(vectors, lengths)
    assert torch.equal(found, lstm(vectors.float(), lengths))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_dropout_drops_its_share_and_scales_up_the_rest(share: float) -> None:
    values = dropout(torch.full((400, 500), 2.0), share, DropoutRng(0))
    kept = values[values != 0]
    assert abs(1 - len(kept) / values.numel() - share) < 0.005
    torch.testing.assert_close(kept, torch.full_like(kept, 2 / (1 - share)), rtol=1e-4, atol=0)


def test_dropout_is_the_same_for_the_same_seed_and_drops_other_values_each_time() -> None:
    values, rng = torch.ones(30, 40), DropoutRng(3)
    first, second = dropout(values, 0.5, rng), dropout(values, 0.5, rng)
    assert torch.equal(first, dropout(values, 0.5, DropoutRng(3)))
    assert not torch.equal(first, second)
    assert not torch.equal(first, dropout(values, 0.5, DropoutRng(4)))


def test_dropped_values_get_no_gradient() -> None:
    values = torch.ones(100, requires_grad=True)
    result = dropout(values, 0.5, DropoutRng(0))
    (gradient,) = torch.autograd.grad(result.sum(), values)
    assert torch.equal(gradient, result.detach())


def test_without_an_rng_or_a_rate_nothing_happens_at_all() -> None:
    values, rng = torch.randn(5), DropoutRng(0)
    assert dropout(values, 0.5, None) is values
    assert dropout(values, 0.0, rng) is values
    assert rng.calls == 0, "a mask was made for nothing"


def test_word_vectors_get_gradients_only_where_words_occur() -> None:
    words = WordEmbedding(torch.randn(9, 2), dropout=0.0)
    above = torch.randn(2, 3, 2)
    (words(torch.tensor([[4, 2, 4], [7, 7, 4]])) * above).sum().backward()
    gradient = words.words.weight.grad
    assert gradient is not None
    assert gradient.is_sparse
    assert gradient.coalesce().indices()[0].tolist() == [2, 4, 7]
    torch.testing.assert_close(gradient.to_dense()[4], above[0, 0] + above[0, 2] + above[1, 2])


def test_frozen_word_vectors_are_not_learned() -> None:
    words = WordEmbedding(torch.randn(9, 2), dropout=0.0, frozen=True)
    assert not [weight for weight in words.parameters() if weight.requires_grad]
    assert not words(torch.tensor([[4, 2]])).requires_grad


def test_word_vectors_are_dropped_only_with_an_rng() -> None:
    words, ids = WordEmbedding(torch.ones(9, 2), dropout=0.5), torch.zeros(20, 20, dtype=torch.int64)
    assert torch.equal(words(ids), torch.ones(20, 20, 2))
    assert 0.3 < float((words(ids, DropoutRng(0)) == 0).float().mean()) < 0.7


def test_a_read_only_map_becomes_a_tensor_without_a_copy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3.0))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    tensor = as_tensor(mapped)
    assert tensor.tolist() == [0, 1, 2]
    assert tensor.data_ptr() == mapped.ctypes.data
