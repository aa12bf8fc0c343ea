"""Weight averaging, and clipping by a moving window of norms, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from xmtc.nn.optim import MovingClip, WeightAverage


def two_weights() -> dict[str, Tensor]:
    return {"a": nn.Parameter(torch.randn(2, 3)), "b": nn.Parameter(torch.randn(4))}


def test_the_average_is_the_mean_of_all_snapshots() -> None:
    weights = two_weights()
    snapshots = [{name: weight.detach().clone() for name, weight in weights.items()}]
    average = WeightAverage(weights)
    for _ in range(6):
        with torch.no_grad():
            for weight in weights.values():
                weight.add_(torch.randn_like(weight))
        average.add(weights)
        snapshots.append({name: weight.detach().clone() for name, weight in weights.items()})
    assert average.count == 7
    for name in weights:
        torch.testing.assert_close(average.mean[name], torch.stack([kept[name] for kept in snapshots]).mean(0))


def test_the_average_does_not_follow_the_weights() -> None:
    weights = two_weights()
    average = WeightAverage(weights)
    before = average.mean["b"].clone()
    with torch.no_grad():
        weights["b"].add_(1)
    assert torch.equal(average.mean["b"], before)


def test_within_the_block_the_network_has_the_mean_and_afterwards_its_own_weights() -> None:
    network = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        network.weight.fill_(1.0)
    weights: dict[str, Tensor] = dict(network.named_parameters())
    average = WeightAverage(weights)
    with torch.no_grad():
        network.weight.fill_(3.0)
    average.add(weights)
    with average.in_place_of(weights):
        assert network(torch.ones(1, 2)).item() == 4
        kept = network.weight.detach().clone()
    assert network(torch.ones(1, 2)).item() == 6
    with torch.no_grad():
        network.weight.add_(1)  # the optimiser goes on
    assert kept.tolist() == average.mean["weight"].tolist() == [[2, 2]]


def test_an_error_within_the_block_leaves_everything_in_its_place() -> None:
    weights = two_weights()
    average = WeightAverage({name: torch.zeros_like(weight) for name, weight in weights.items()})
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    with pytest.raises(ZeroDivisionError), average.in_place_of(weights):
        assert not weights["a"].any()
        raise ZeroDivisionError
    assert all(torch.equal(weights[name], before[name]) for name in weights)
    assert not any(mean.any() for mean in average.mean.values())


def test_norms_are_clipped_at_a_multiple_of_the_largest_of_the_last_five() -> None:
    clip = MovingClip(2.0)
    # (norm of the gradient, norm after clipping, what the window keeps of it)
    course = [
        (0.5, 0.5, 0.5),
        (10.0, 10.0, 1.0),  # the window begins with no limit at all
        (0.2, 0.2, 0.2),
        (0.1, 0.1, 0.1),
        (0.3, 0.3, 0.3),
        (10.0, 2.0, 1.0),  # twice the largest of .5, 1, .2, .1, .3
        (0.1, 0.1, 0.1),
        (0.1, 0.1, 0.1),
        (0.1, 0.1, 0.1),
        (0.1, 0.1, 0.1),
        (0.1, 0.1, 0.1),
        (10.0, 0.2, 0.2),  # the window may only double
        (10.0, 0.4, 0.4),
    ]
    window = [math.inf]
    for norm, clipped, kept in course:
        gradients = [norm * torch.tensor([0.6, 0.0]), norm * torch.tensor([[0.8]])]
        assert clip(gradients) == pytest.approx(norm)
        assert torch.cat([gradient.flatten() for gradient in gradients]).norm().item() == pytest.approx(clipped)
        window = [*window, kept][-5:]
        assert list(clip.caps) == pytest.approx(window)


@pytest.mark.parametrize("coalesced", [True, False])
def test_sparse_gradients_count_and_are_scaled(coalesced: bool) -> None:
    sparse = torch.sparse_coo_tensor(
        torch.tensor([[3, 1, 3]]), torch.tensor([[10.0], [40.0], [20.0]]), (5, 1), check_invariants=True
    )
    gradients = [sparse.coalesce() if coalesced else sparse, torch.tensor([120.0])]
    assert MovingClip(13.0, caps=[1.0])(gradients) == pytest.approx(130)
    torch.testing.assert_close(gradients[0].to_dense().flatten(), torch.tensor([0.0, 4, 0, 3, 0]))
    assert gradients[1].item() == pytest.approx(12)
