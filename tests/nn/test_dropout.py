"""Dropout masks that are the same however a batch is split, also inside of layers that others wrote."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from xmtc.nn.dropout import DropoutRng, RngDropoutMode, dropout

SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4)
RATES = st.sampled_from([0.1, 0.25, 0.5, 0.9, 0.999])


@given(st.data(), st.integers(0, 2**32 - 1), st.lists(st.tuples(SHAPES, RATES), min_size=1, max_size=3))
def test_documents_have_the_same_masks_however_the_batch_is_split(
    data: st.DataObject, seed: int, masks: list[tuple[list[int], float]]
) -> None:
    documents = data.draw(st.integers(1, 7), "documents")
    bounds = [0, *sorted(data.draw(st.lists(st.integers(0, documents), max_size=3), "cuts")), documents]
    whole, parts = DropoutRng(seed), [DropoutRng(seed, first) for first in bounds[:-1]]
    for shape, rate in masks:  # each mask is another one, whatever the shapes of those before
        axis = data.draw(st.integers(-1, len(shape) - 1), "axis")

        def shape_of(count: int, shape: list[int] = shape, axis: int = axis) -> torch.Size:
            return torch.Size([count if axis == at else size for at, size in enumerate(shape)])

        expected = whole.mask(shape_of(documents), rate, axis)
        assert expected.shape == shape_of(documents)
        counts = np.diff(bounds).tolist()
        found = [part.mask(shape_of(count), rate, axis) for part, count in zip(parts, counts, strict=True)]
        if axis >= 0:
            assert torch.equal(torch.cat(found, axis), expected)
        else:  # no document has a place in it
            assert all(torch.equal(each, expected) for each in found)


def test_a_mask_for_documents_far_behind() -> None:
    """Places are counted with 32 bits, and begin anew."""
    far = DropoutRng(3, first=2**32 // 8 + 1).mask(torch.Size([4, 8]), 0.5)
    assert torch.equal(far, DropoutRng(3).mask(torch.Size([5, 8]), 0.5)[1:])
    assert DropoutRng(3, first=10**9).mask(torch.Size([1, 10**4]), 0.5).mean() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_a_mask_drops_its_share_and_keeps_the_mean(rate: float) -> None:
    mask = DropoutRng(0).mask(torch.Size([400, 500]), rate)
    assert (mask == 0).float().mean() == pytest.approx(rate, abs=0.005)
    torch.testing.assert_close(mask[mask != 0], torch.full([int((mask != 0).sum())], 1 / (1 - rate)))
    assert mask.mean() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_masks_have_nothing_to_do_with_each_other(rate: float) -> None:
    """One after the other, of seeds side by side, of documents and numbers side by side."""
    rng, shape = DropoutRng(7), torch.Size([300, 300])
    first, second, other = rng.mask(shape, rate) == 0, rng.mask(shape, rate) == 0, DropoutRng(8).mask(shape, rate) == 0
    pairs = [(first, second), (first, other), (second, other), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1])]
    pairs += [(first.flatten()[step:], second.flatten()[:-step]) for step in (1, 2, 300)]
    for one, another in pairs:
        assert (one & another).float().mean() == pytest.approx(rate**2, abs=0.005)


def test_a_copy_makes_the_same_masks_from_there_on() -> None:
    rng, shape = DropoutRng(1, first=5), torch.Size([3, 40])
    rng.mask(shape, 0.5)
    copy = rng.copy()
    expected = [rng.mask(shape, 0.5) for _ in range(3)]
    assert all(torch.equal(copy.mask(shape, 0.5), mask) for mask in expected)
    assert rng.calls == copy.calls == 4


def test_on_another_device_torchs_own_dropout_is_used() -> None:
    rng = DropoutRng(0)
    found = dropout(torch.ones(3, 4, device="meta"), 0.5, rng)
    assert (found.device.type, found.shape, rng.calls) == ("meta", (3, 4), 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_numbers_of_other_widths(dtype: torch.dtype) -> None:
    values = torch.randn(20, 30, dtype=dtype)
    found, expected = dropout(values, 0.5, DropoutRng(0)), dropout(values.float(), 0.5, DropoutRng(0))
    torch.testing.assert_close(found.float(), expected, rtol=1e-2, atol=1e-6)


def with_rng(layer: nn.Module, values: Tensor, seed: int) -> Tensor:
    with RngDropoutMode(DropoutRng(seed)):
        result: Tensor = layer(values)
    return result


def test_the_dropout_of_a_layer_is_that_of_the_rng() -> None:
    values = torch.randn(50, 40)
    found = with_rng(nn.Dropout(0.3), values, 5)
    assert torch.equal(found, dropout(values, 0.3, DropoutRng(5)))
    assert float((found == 0).float().mean()) == pytest.approx(0.3, abs=0.05)


def test_an_evaluated_layer_drops_nothing() -> None:
    values = torch.ones(100)
    assert torch.equal(with_rng(nn.Dropout(0.5).eval(), values, 1), values)


def test_after_the_block_torch_is_as_before() -> None:
    layer, values = nn.Dropout(0.5), torch.ones(1000)
    with_rng(layer, values, 1)
    torch.manual_seed(3)
    one = layer(values)
    torch.manual_seed(3)
    assert torch.equal(one, layer(values))


def test_threads_do_not_disturb_each_other() -> None:
    layer, values = nn.Sequential(*[nn.Dropout(0.5) for _ in range(3)]), torch.ones(2000)
    alone = [with_rng(layer, values, seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: with_rng(layer, values, seed), range(8)))
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))
    assert not torch.equal(alone[0], alone[1])


MASKS = {
    "none": None,
    "boolean": torch.tensor([[True, True, False, True]]),
    "added": torch.tensor([[0.0, -1.0, torch.finfo(torch.float32).min, 0.0]]),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention_with_dropout(mask: Tensor | None, scale: float | None) -> None:
    query, key, value = torch.randn(3, 2, 5, 4, 8)  # (documents, heads, tokens, width) each
    # Hardly anything is dropped: then it must be what torch computes without.
    plain = functional.scaled_dot_product_attention(query, key, value, mask, scale=scale)
    with RngDropoutMode(DropoutRng(0)):
        found = functional.scaled_dot_product_attention(query, key, value, mask, dropout_p=1e-9, scale=scale)
    torch.testing.assert_close(found, plain)


def test_what_attention_drops_are_weights() -> None:
    query, value = torch.zeros(1, 1, 200, 4), torch.ones(1, 1, 200, 4)
    with RngDropoutMode(DropoutRng(0)):
        found = functional.scaled_dot_product_attention(query, query, value, dropout_p=0.5)
    expected = dropout(torch.full((1, 1, 200, 200), 1 / 200), 0.5, DropoutRng(0)).sum(-1)
    torch.testing.assert_close(found[..., 0], expected)
    assert float(found.std()) > 0.01


def test_a_decoders_attention_is_refused() -> None:
    values = torch.ones(1, 1, 3, 4)
    with RngDropoutMode(DropoutRng(0)), pytest.raises(NotImplementedError):
        functional.scaled_dot_product_attention(values, values, values, dropout_p=0.5, is_causal=True)


def test_documents_of_other_peoples_layers_may_lie_along_another_axis() -> None:
    """XLNet has tokens first; a mask of positions has no documents."""

    class Layers(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return functional.dropout(values, 0.5) * functional.dropout(torch.ones(30), 0.5)

    def axis(values: Tensor) -> int:
        return 1 if values.dim() == 3 else -1

    values = torch.ones(4, 6, 30)  # (tokens, documents, width)
    with RngDropoutMode(DropoutRng(2), axis):
        whole = Layers()(values)
    with RngDropoutMode(DropoutRng(2, first=2), axis):
        part = Layers()(values[:, 2:])
    assert torch.equal(part, whole[:, 2:])
    assert not torch.equal(whole[:2], whole[2:])
