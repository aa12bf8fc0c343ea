"""Max pooling against loops."""

from __future__ import annotations

import pytest
import torch

from xmtc.nn.pooling import MaxPooling

LENGTHS = torch.tensor([5, 1, 3])


def test_each_unit_is_taken_where_it_is_largest() -> None:
    torch.manual_seed(0)
    pooling, hidden = MaxPooling(labels=7, width=4, bottleneck=3), torch.randn(3, 5, 4)
    for row, length in enumerate(LENGTHS):
        hidden[row, length:] = 99.0  # padding, never to be taken
    found = pooling(hidden, LENGTHS)
    for row, length in enumerate(LENGTHS):
        largest = torch.tensor([max(hidden[row, :length, unit].tolist()) for unit in range(4)])
        inner = (pooling.bottleneck.weight @ largest + pooling.bottleneck.bias).clamp(min=0)
        torch.testing.assert_close(found[row], pooling.output.weight @ inner + pooling.output.bias)


def test_it_looks_where_units_are_largest() -> None:
    hidden = torch.tensor([[[0.0, 9, 9, 9], [1, 0, 0, 0], [99, 99, 99, 99]]])
    attention_weights = MaxPooling(labels=2, width=4, bottleneck=3).attention_weights(
        hidden, torch.tensor([2]), label=0
    )
    assert attention_weights.tolist() == [0.75, 0.25]


def test_it_has_no_candidates() -> None:
    with pytest.raises(ValueError, match="scores all labels"):
        MaxPooling(2, 4, 3)(torch.zeros(1, 2, 4), torch.tensor([2]), torch.tensor([[0]]))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_scores_start_at_the_expected_share(share: float) -> None:
    pooling = MaxPooling(labels=7, width=4, bottleneck=3)
    torch.nn.init.zeros_(pooling.output.weight)
    pooling.expect(share)
    scores = pooling(torch.randn(1, 2, 4), torch.tensor([2]))
    torch.testing.assert_close(scores.sigmoid(), torch.full((1, 7), share), atol=2e-6, rtol=0)
    assert scores.isfinite().all()
