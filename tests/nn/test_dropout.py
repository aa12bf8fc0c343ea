"""Dropout of other people's layers with our own source of chance."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from xmtc.nn.dropout import RngDropoutMode, dropout, dropout_rng


def with_chance(layer: nn.Module, values: Tensor, seed: int) -> Tensor:
    with RngDropoutMode(dropout_rng(seed)):
        result: Tensor = layer(values)
    return result


def test_dropout_is_that_of_the_draws() -> None:
    values = torch.randn(50, 40)
    found = with_chance(nn.Dropout(0.3), values, 5)
    assert torch.equal(found, dropout(values, 0.3, dropout_rng(5)))
    assert float((found == 0).float().mean()) == pytest.approx(0.3, abs=0.05)


def test_an_evaluated_layer_drops_nothing() -> None:
    values = torch.ones(100)
    assert torch.equal(with_chance(nn.Dropout(0.5).eval(), values, 1), values)


def test_after_the_block_torch_is_as_before() -> None:
    layer, values = nn.Dropout(0.5), torch.ones(1000)
    with_chance(layer, values, 1)
    torch.manual_seed(3)
    one = layer(values)
    torch.manual_seed(3)
    assert torch.equal(one, layer(values))


def test_threads_do_not_disturb_each_other() -> None:
    layer, values = nn.Sequential(*[nn.Dropout(0.5) for _ in range(3)]), torch.ones(2000)
    alone = [with_chance(layer, values, seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: with_chance(layer, values, seed), range(8)))
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
    with RngDropoutMode(dropout_rng(0)):
        found = functional.scaled_dot_product_attention(query, key, value, mask, dropout_p=1e-9, scale=scale)
    torch.testing.assert_close(found, plain)


def test_what_attention_drops_are_weights() -> None:
    query, value = torch.zeros(1, 1, 200, 4), torch.ones(1, 1, 200, 4)
    with RngDropoutMode(dropout_rng(0)):
        found = functional.scaled_dot_product_attention(query, query, value, dropout_p=0.5)
    expected = dropout(torch.full((1, 1, 200, 200), 1 / 200), 0.5, dropout_rng(0)).sum(-1)
    torch.testing.assert_close(found[..., 0], expected)
    assert float(found.std()) > 0.01


def test_a_decoders_attention_is_refused() -> None:
    values = torch.ones(1, 1, 3, 4)
    with RngDropoutMode(dropout_rng(0)), pytest.raises(NotImplementedError):
        functional.scaled_dot_product_attention(values, values, values, dropout_p=0.5, is_causal=True)
