"""RowAdam beside torch's own optimisers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from xmtc.nn.encoders.settings import TransformerTraining
from xmtc.nn.optim import RowAdam, is_table
from xmtc.nn.settings import TrainingSettings

RATE, SHAPE = 0.01, (6, 3)
SETTINGS = TrainingSettings(learning_rate=RATE)


def some_gradients(count: int) -> list[Tensor]:
    torch.manual_seed(0)
    return list(torch.randn(count, *SHAPE, dtype=torch.float64))


def rows_only(gradient: Tensor, rows: Sequence[int]) -> Tensor:
    places = torch.tensor([rows])
    return torch.sparse_coo_tensor(places, gradient[places[0]], SHAPE, check_invariants=True)


def table(sparse: bool = True) -> nn.Embedding:
    start = torch.linspace(-1, 1, 18, dtype=torch.float64).view(SHAPE)
    return nn.Embedding(*SHAPE, sparse=sparse, _weight=start)


def after(make: Callable[[nn.Module], torch.optim.Optimizer], gradients: Sequence[Tensor]) -> list[Tensor]:
    """The weights after each step, from the same start."""
    part = table(gradients[0].is_sparse)
    optimiser, result = make(part), [part.weight.detach().clone()]
    for gradient in gradients:
        part.weight.grad = gradient.clone()
        optimiser.step()
        result.append(part.weight.detach().clone())
    return result


def row_adam(part: nn.Module) -> RowAdam:
    return RowAdam(part, SETTINGS)


def decaying(part: nn.Module) -> RowAdam:
    return RowAdam(part, TrainingSettings(learning_rate=RATE, weight_decay=0.3))


def test_dense_gradients_as_in_torchs_adamw() -> None:
    gradients = some_gradients(8)
    expected = after(lambda part: torch.optim.AdamW(part.parameters(), RATE, weight_decay=0), gradients)
    torch.testing.assert_close(after(row_adam, gradients), expected)


def test_matrices_shrink_as_in_torchs_adamw_and_nothing_else_does() -> None:
    gradients = some_gradients(8)
    expected = after(lambda part: torch.optim.AdamW(part.parameters(), RATE, weight_decay=0.3), gradients)
    torch.testing.assert_close(after(decaying, gradients), expected)
    rows = [rows_only(gradient, [1, 2]) for gradient in gradients]
    assert all(map(torch.equal, after(decaying, rows), after(row_adam, rows)))
    layer = nn.Linear(3, 3)
    before = layer.bias.detach().clone()
    layer.weight.grad, layer.bias.grad = torch.zeros(3, 3), torch.zeros(3)
    decaying(layer).step()
    assert torch.equal(layer.bias, before)


def test_sparse_gradients_as_in_torchs_sparse_adam() -> None:
    gradients = [
        rows_only(gradient, torch.randint(0, 6, (4,)).tolist()) for gradient in some_gradients(12)
    ]  # rows come several times in one gradient, or not at all
    expected = after(lambda part: torch.optim.SparseAdam(part.parameters(), RATE), gradients)
    torch.testing.assert_close(after(row_adam, gradients), expected)


def test_tiny_gradients_of_rows_are_divided_as_in_attentionxmls_code() -> None:
    gradient = torch.full(SHAPE, 1e-8, dtype=torch.float64)
    before, found = after(row_adam, [rows_only(gradient, range(6))])
    size = RATE * 0.001**0.5 / 0.1
    torch.testing.assert_close(before - found, size * 0.1 * gradient / (0.001**0.5 * gradient + 1e-8))


def test_rows_move_in_the_first_step_as_if_the_gradient_were_dense() -> None:
    (gradient,) = some_gradients(1)
    _, dense = after(row_adam, [gradient])
    _, sparse = after(row_adam, [rows_only(gradient, [4, 1])])
    torch.testing.assert_close(sparse[[1, 4]], dense[[1, 4]], rtol=1e-6, atol=0)


def test_rows_that_do_not_occur_neither_move_nor_decay() -> None:
    part = table()
    weight, optimiser = part.weight, decaying(part)
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
    both = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), table(), table()])
    before = [weight.detach().clone() for weight in both.parameters()]
    optimiser = RowAdam(both, TrainingSettings(learning_rate=RATE, weight_decay=0.3))
    both[0].weight.grad = torch.ones(1, 1)
    both[2].weight.grad = rows_only(some_gradients(1)[0], [1])
    optimiser.step()
    moved = [not torch.equal(*pair) for pair in zip(both.parameters(), before, strict=True)]
    assert moved == [True, False, False, False, True, False]


def test_tables_are_those_whose_gradients_are_sparse() -> None:
    parts = [nn.Embedding(2, 1, sparse=True), nn.EmbeddingBag(2, 1, sparse=True), nn.Embedding(2, 1), nn.Linear(2, 1)]
    assert [is_table(part) for part in parts] == [True, True, False, False]


class Parts(nn.Module):
    """Of each kind one."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.frozen = nn.Linear(2, 2, bias=False), nn.Linear(2, 2).requires_grad_(False)
        self.words, self.output = nn.Embedding(3, 2, sparse=True), nn.Linear(2, 3)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_learning_rates_and_weight_decay_by_part(factor: float) -> None:
    settings = TransformerTraining(
        learning_rate=0.1, encoder_learning_rate=0.01, row_learning_rate=0.7, weight_decay=0.2
    )
    network = Parts()
    optimiser = RowAdam(network, settings)
    optimiser.scale_rates(0.3)
    optimiser.scale_rates(factor)  # a multiple of the first ones
    names = {weight: name for name, weight in network.named_parameters()}
    found = {
        names[w]: (group["lr"], group["weight_decay"]) for group in optimiser.param_groups for w in group["params"]
    }
    assert found == {
        "encoder.weight": (factor * 0.01, 0.2),
        "words.weight": (factor * 0.7, 0.0),
        "output.weight": (factor * 0.1, 0.2),
        "output.bias": (factor * 0.1, 0.0),
    }


def test_a_step_with_gradients_that_overflow_is_left_out() -> None:
    """As with `training.precision` 16-mixed: the scale of the loss is too large, then it is halved."""
    network = Parts()
    optimiser, scaler = RowAdam(network, SETTINGS), torch.amp.GradScaler("cpu", init_scale=2.0**127)
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}

    def step() -> list[str]:
        loss = 10 * network.output(network.encoder(network.words(torch.tensor([1, 2])))).square().sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        scaler.step(optimiser)
        scaler.update()
        optimiser.zero_grad(set_to_none=True)
        return [name for name, weight in network.named_parameters() if not torch.equal(weight, before[name])]

    assert step() == []
    scaler.update(1024.0)
    assert step() == ["encoder.weight", "words.weight", "output.weight", "output.bias"]
    assert all(torch.isfinite(weight).all() for weight in network.parameters())
