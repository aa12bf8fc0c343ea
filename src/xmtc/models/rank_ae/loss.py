"""The margin ranking loss of Rank-AE: every relevant label should score above every irrelevant one, by a margin.

Of all pairs of a relevant label p and a irrelevant label n only the hardest count: each irrelevant label against the
lowest right one, and each relevant label against the highest irrelevant one,

    LP = sum over n of max over p of (m + s_n - s_p)+  =  sum over n of (m + s_n - min s_p)+
    LN = sum over p of max over n of (m + s_n - s_p)+  =  sum over p of (m + max s_n - s_p)+

so that value and gradient take one pass over the labels instead of one over all pairs. With very many labels the
scores are those of candidates, the relevant labels among them: then the sums run over the candidates.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def ranking_loss(scores: Tensor, rows: Tensor, columns: Tensor, margin: float, normalise: bool = False) -> Tensor:
    """(documents, labels or candidates) -> the loss of each document, (documents,).

    The relevant labels are at (rows[i], columns[i]), no place twice. With `normalise`, LP is divided by the number of
    irrelevant labels and LN by that of the relevant ones. A document with only right or only irrelevant labels has no
    loss.

    >>> scores = torch.tensor([[0.5, 0.25, 2.0], [1.0, 2.0, 3.0]])
    >>> ranking_loss(scores, torch.tensor([0, 0]), torch.tensor([0, 2]), margin=1.0).tolist()
    [1.5, 0.0]
    """
    loss: Tensor = _RankingLoss.apply(scores, rows, columns, margin, normalise)  # type: ignore[no-untyped-call]
    return loss


class _RankingLoss(torch.autograd.Function):
    """By hand, because what torch would keep for the gradient are half a dozen more tables of documents x labels."""

    @staticmethod
    def forward(context: Any, scores: Tensor, rows: Tensor, columns: Tensor, margin: float, normalise: bool) -> Tensor:
        documents, labels = scores.shape
        flat = rows * labels + columns
        relevant = scores.take(flat)  # (relevant labels of all documents,)
        lowest = scores.new_full((documents,), torch.inf).scatter_reduce_(0, rows, relevant, "amin")
        others = scores.detach().clone()
        others.put_(flat, relevant.new_full((), -torch.inf).expand_as(relevant))
        highest, at_highest = others.max(1)
        # A document with only relevant labels has a highest wrong score of -inf, one without any a lowest of +inf, so
        # that nothing is above 0 below.
        above = others.add_((margin - lowest)[:, None]).clamp_(min=0)  # irrelevant labels that are too high
        below = (margin + highest[rows] - relevant).clamp_(min=0)  # relevant labels that are too low
        found = scores.new_zeros(documents).index_add_(0, rows, torch.ones_like(relevant))
        ones = torch.ones_like(found)
        a_wrong = 1 / (labels - found).clamp_(min=1) if normalise else ones
        a_right = 1 / found.clamp_(min=1) if normalise else ones
        context.save_for_backward(above, below, rows, flat, relevant == lowest[rows], at_highest, a_wrong, a_right)
        return above.sum(1) * a_wrong + scores.new_zeros(documents).index_add_(0, rows, below) * a_right

    @staticmethod
    @once_differentiable
    def backward(context: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        above, below, rows, flat, is_lowest, at_highest, a_wrong, a_right = context.saved_tensors
        documents, labels = above.shape
        a_wrong, a_right = a_wrong * outer, a_right * outer
        gradient = (above > 0).to(above.dtype)
        too_high = gradient.sum(1) * a_wrong
        gradient *= a_wrong[:, None]
        too_low = (below > 0).to(above.dtype) * a_right[rows]
        # Of several lowest ones the first takes the blame; a document without relevant labels has none, and pushes a
        # place behind all others.
        places = torch.where(is_lowest, torch.arange(len(rows), device=rows.device), len(rows))
        first = places.new_full((documents,), len(rows)).scatter_reduce_(0, rows, places, "amin")
        pushed = torch.cat([too_low, too_low.new_zeros(1)]).index_add_(0, first, too_high)[:-1]
        highest = torch.arange(documents, device=rows.device) * labels + at_highest
        in_each = torch.zeros_like(outer).index_add_(0, rows, (below > 0).to(above.dtype)) * a_right
        gradient.put_(highest, in_each, accumulate=True)
        gradient.put_(flat, -pushed, accumulate=True)
        return gradient, None, None, None, None
