"""Weight averaging, and clipping of gradients, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from xmtc.nn.optim import GradientClip, WeightAverage


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
    clip = GradientClip(factor=2.0)
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
        clip(gradients)
        assert torch.cat([gradient.flatten() for gradient in gradients]).norm().item() == pytest.approx(clipped)
        window = [*window, kept][-5:]
        assert list(map(float, clip.caps)) == pytest.approx(window)


FORMS = {"by a limit": GradientClip(limit=13.0), "by a window": GradientClip(factor=13.0)}


@pytest.mark.parametrize("coalesced", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_sparse_gradients_count_and_are_scaled(form: str, coalesced: bool) -> None:
    clip = FORMS[form]
    clip.caps.clear()
    clip.caps.append(torch.tensor(1.0))
    sparse = torch.sparse_coo_tensor(
        torch.tensor([[3, 1, 3]]), torch.tensor([[10.0], [40.0], [20.0]]), (5, 1), check_invariants=True
    )
    gradients = [sparse.coalesce() if coalesced else sparse, torch.tensor([120.0])]  # a norm of 130
    clip(gradients)
    torch.testing.assert_close(gradients[0].to_dense().flatten(), torch.tensor([0.0, 4, 0, 3, 0]))
    assert gradients[1].item() == pytest.approx(12)


@given(
    st.lists(st.lists(st.floats(-9, 9, width=32), min_size=1, max_size=4), min_size=1, max_size=4), st.floats(0.01, 20)
)
def test_a_limit_as_in_torchs_clip_grad_norm(values: list[list[float]], limit: float) -> None:
    ours, theirs = ([nn.Parameter(torch.zeros(len(each))) for each in values] for _ in range(2))
    for weight, other, each in zip(ours, theirs, values, strict=True):
        weight.grad, other.grad = torch.tensor(each), torch.tensor(each)
    clip = GradientClip(limit=limit, factor=1e-3)  # a limit goes first
    gradients = [weight.grad for weight in ours if weight.grad is not None]
    clip(gradients)
    nn.utils.clip_grad_norm_(theirs, limit)
    torch.testing.assert_close(gradients, [other.grad for other in theirs], rtol=1e-4, atol=1e-5)
    assert list(map(float, clip.caps)) == [math.inf], "a limit needs no window"


@pytest.mark.parametrize("clip", [GradientClip(), GradientClip(limit=1e9), GradientClip(factor=5.0)])
def test_without_a_limit_or_below_it_gradients_stay_as_they_are(clip: GradientClip) -> None:
    gradients = [torch.randn(3), torch.randn(2, 2)]
    before = [gradient.clone() for gradient in gradients]
    clip(gradients)
    assert all(map(torch.equal, gradients, before))


def test_no_gradient_is_read_where_there_is_no_limit() -> None:
    gradient = torch.empty(3, device="meta")  # has no numbers
    GradientClip()([gradient])
