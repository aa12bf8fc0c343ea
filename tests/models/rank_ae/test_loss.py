"""The margin ranking loss against the double loop over all pairs that defines it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from xmtc.models.rank_ae.loss import ranking_loss


def places_of(relevant: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = relevant.nonzero().T
    return rows, columns


def by_pairs(scores: Tensor, relevant: Tensor, margin: float, normalise: bool) -> Tensor:
    """The definition: every wrong label with its worst right one, every right label with its worst wrong one."""
    losses = []
    for row, is_hit in zip(scores, relevant, strict=True):
        positives, negatives = row[is_hit], row[~is_hit]
        loss = row.sum() * 0
        if len(positives) and len(negatives):
            pairs = [[torch.relu(margin + n - p) for p in positives] for n in negatives]
            too_high = torch.stack([torch.stack(each).max() for each in pairs])
            too_low = torch.stack([torch.stack(each).max() for each in zip(*pairs, strict=True)])
            loss = too_high.mean() + too_low.mean() if normalise else too_high.sum() + too_low.sum()
        losses.append(loss)
    return torch.stack(losses)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Tensor, float, bool]:
    documents, labels = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    size = documents * labels
    # Distinct, and no pair just a margin apart: there the loss has a corner, and any slope between its sides is right.
    values = draw(st.permutations(range(size)))
    scores = torch.tensor(values, dtype=torch.float64).reshape(documents, labels) * 0.3
    relevant = torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size))).reshape(documents, labels)
    return scores, relevant, draw(st.sampled_from([0.05, 0.5, 1.0, 5.0])), draw(st.booleans())


@settings(max_examples=60)
@given(cases())
def test_value_and_gradient_are_those_of_all_pairs(case: tuple[Tensor, Tensor, float, bool]) -> None:
    scores, relevant, margin, normalise = case
    scores.requires_grad_()
    found = ranking_loss(scores, *places_of(relevant), margin, normalise)
    expected = by_pairs(scores, relevant, margin, normalise)
    torch.testing.assert_close(found, expected)
    outer = torch.arange(1.0, len(scores) + 1, dtype=torch.float64)  # documents count differently
    gradients = [torch.autograd.grad(loss @ outer, scores)[0] for loss in (found, expected)]
    torch.testing.assert_close(*gradients)


@settings(max_examples=25)
@given(cases())
def test_gradient_is_the_slope(case: tuple[Tensor, Tensor, float, bool]) -> None:
    scores, relevant, margin, normalise = case
    places = places_of(relevant)
    torch.autograd.gradcheck(lambda given: ranking_loss(given, *places, margin, normalise), scores.requires_grad_())


@given(cases(), st.floats(-3, 3))
def test_only_differences_count_and_nothing_is_lost_far_apart(
    case: tuple[Tensor, Tensor, float, bool], shift: float
) -> None:
    scores, relevant, margin, normalise = case
    places = places_of(relevant)
    loss = ranking_loss(scores, *places, margin, normalise)
    torch.testing.assert_close(ranking_loss(scores + shift, *places, margin, normalise), loss)
    assert (loss >= 0).all()
    apart = scores + 100 * relevant
    assert not ranking_loss(apart, *places, margin, normalise).any()


def test_gradient_by_hand() -> None:
    scores = torch.tensor([[3.0, 2.0, 2.5, 0.0, 1.0]], requires_grad=True)
    loss = ranking_loss(scores, torch.tensor([0, 0]), torch.tensor([1, 0]), margin=1.0)
    # The wrong labels 2 (by 1.5) and not 3 and 4 (0.0: at the corner) are too high for label 1;
    # label 1 is too low for label 2 by 1.5, label 0 by 0.5.
    assert loss.tolist() == [3.5]
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    assert gradient.tolist() == [[-1.0, -2.0, 3.0, 0.0, 0.0]]


def test_of_equal_scores_the_first_takes_the_blame() -> None:
    scores = torch.zeros(1, 4, requires_grad=True)
    loss = ranking_loss(scores, torch.tensor([0, 0]), torch.tensor([1, 3]), margin=1.0)
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    assert gradient.tolist() == [[3.0, -3.0, 1.0, -1.0]]


@pytest.mark.parametrize("relevant", [[], [0, 1, 2]], ids=["none", "all"])
def test_documents_with_only_wrong_or_only_right_labels(relevant: list[int]) -> None:
    scores = torch.tensor([[0.1, 0.2, 0.3]], requires_grad=True)
    loss = ranking_loss(
        scores, torch.zeros(len(relevant), dtype=torch.int64), torch.tensor(relevant, dtype=torch.int64), 1.0
    )
    assert loss.tolist() == [0.0]
    assert not torch.autograd.grad(loss.sum(), scores)[0].any()


def test_candidates_with_all_violating_labels_are_as_good_as_all_labels() -> None:
    scores = torch.tensor([[0.9, 5.0, 0.2, -3.0, 4.5]])
    everything = ranking_loss(scores, torch.tensor([0]), torch.tensor([1]), margin=1.0)
    candidates = torch.tensor([1, 4])  # the only wrong label within the margin is 4
    some = ranking_loss(scores[:, candidates], torch.tensor([0]), torch.tensor([0]), margin=1.0)
    assert everything.tolist() == some.tolist() == [1.0]
