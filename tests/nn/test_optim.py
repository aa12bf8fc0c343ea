"""RowAdam beside torch's own optimisers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from xmtc.nn import optim
from xmtc.nn.optim import RowAdam

RATE, SHAPE = 0.01, (6, 3)


def some_gradients(count: int) -> list[Tensor]:
    """None near zero, where the small number under the fraction would count (torch's Adam has it in another place)."""
    torch.manual_seed(0)
    return [(torch.rand(SHAPE, dtype=torch.float64) + 0.5) * torch.randn(SHAPE).sign() for _ in range(count)]


def rows_only(gradient: Tensor, rows: Sequence[int]) -> Tensor:
    places = torch.tensor([rows])
    return torch.sparse_coo_tensor(places, gradient[places[0]], SHAPE, check_invariants=True)


def after(make: Callable[[list[Tensor]], torch.optim.Optimizer], gradients: Sequence[Tensor]) -> list[Tensor]:
    """The weights after each step, from the same start."""
    weight = nn.Parameter(torch.linspace(-1, 1, 18, dtype=torch.float64).view(SHAPE))
    optimiser, result = make([weight]), [weight.detach().clone()]
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimiser.step()
        result.append(weight.detach().clone())
    return result


def row_adam(weights: list[Tensor]) -> RowAdam:
    return RowAdam(weights, RATE)


def test_dense_gradients_as_in_torchs_adam() -> None:
    gradients = some_gradients(8)
    expected = after(lambda weights: torch.optim.Adam(weights, RATE), gradients)
    torch.testing.assert_close(after(row_adam, gradients), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("piece", [1, 4, 18])
def test_pieces_change_nothing(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    turned = [gradient.T.contiguous().T for gradient in some_gradients(3)]  # in memory the other way round
    expected = after(row_adam, turned)
    monkeypatch.setattr(optim, "PIECE", piece)
    for one, other in zip(after(row_adam, turned), expected, strict=True):
        assert torch.equal(one, other)


def test_matrices_shrink_as_in_torchs_adamw_and_nothing_else_does() -> None:
    gradients = some_gradients(8)
    expected = after(lambda weights: torch.optim.AdamW(weights, RATE, weight_decay=0.3), gradients)
    found = after(lambda weights: RowAdam(weights, RATE, weight_decay=0.3), gradients)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)
    rows = [rows_only(gradient, [1, 2]) for gradient in gradients]
    plain = after(row_adam, rows)
    torch.testing.assert_close(after(lambda weights: RowAdam(weights, RATE, weight_decay=0.3), rows), plain)
    bias = nn.Parameter(torch.ones(3))
    bias.grad = torch.zeros(3)
    RowAdam([bias], RATE, weight_decay=0.3).step()
    assert torch.equal(bias.detach(), torch.ones(3))


def test_tiny_gradients_are_divided_as_in_attentionxmls_code() -> None:
    gradient = torch.full(SHAPE, 1e-8, dtype=torch.float64)
    before, found = after(row_adam, [gradient])
    size = RATE * 0.001**0.5 / 0.1
    torch.testing.assert_close(before - found, size * 0.1 * gradient / (0.001**0.5 * gradient + 1e-8))


def test_sparse_gradients_as_in_torchs_sparse_adam() -> None:
    gradients = [
        rows_only(gradient, torch.randint(0, 6, (4,)).tolist()) for gradient in some_gradients(12)
    ]  # rows come several times in one gradient, or not at all
    expected = after(lambda weights: torch.optim.SparseAdam(weights, RATE), gradients)
    torch.testing.assert_close(after(row_adam, gradients), expected)


def test_rows_move_in_the_first_step_as_if_the_gradient_were_dense() -> None:
    (gradient,) = some_gradients(1)
    _, dense = after(row_adam, [gradient])
    _, sparse = after(row_adam, [rows_only(gradient, [4, 1])])
    torch.testing.assert_close(sparse[[1, 4]], dense[[1, 4]])


def test_rows_that_do_not_occur_neither_move_nor_decay() -> None:
    weight = nn.Parameter(torch.ones(SHAPE, dtype=torch.float64))
    optimiser = RowAdam([weight], RATE)
    for gradient, rows in zip(some_gradients(4), ([0, 1], [1, 2], [1], [2]), strict=True):
        before = {key: value.clone() for key, value in optimiser.state[weight].items() if key != "step"}
        old, weight.grad = weight.detach().clone(), rows_only(gradient, rows)
        optimiser.step()
        others = [row for row in range(6) if row not in rows]
        assert torch.equal(weight[others], old[others])
        assert not torch.isclose(weight[rows], old[rows]).any()
        for key, value in before.items():
            assert torch.equal(optimiser.state[weight][key][others], value[others])
            assert not torch.isclose(optimiser.state[weight][key][rows], value[rows]).any()


def test_weights_without_a_gradient_are_left_alone() -> None:
    used, unused = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimiser = RowAdam([used, unused], RATE)
    used.grad = torch.ones(1)
    optimiser.step()
    assert used.item() == pytest.approx(1 - RATE)
    assert unused.item() == 1
