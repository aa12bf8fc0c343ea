"""The training loop, on a toy that can be followed by hand."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from split_batches import assert_same_in_threads
from torch import Tensor
from toy_learner import RATE, WORDS, Killed, ToyBatch, ToyLearner, Weights, short
from warm_processes import ForkServer

from xmtc.budget import epochs_as_found, noting_epochs, time_limit
from xmtc.checkpoints import Checkpoints
from xmtc.errors import XmtcError
from xmtc.nn import trainer as module
from xmtc.nn.batching import AHEAD, Ints, epoch_batches
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.encoders.settings import TransformerTraining
from xmtc.nn.optim import RowAdam
from xmtc.nn.parallel import Cores, Worker
from xmtc.nn.settings import TrainingSettings
from xmtc.nn.trainer import COUNTS, LOGGED_EVERY, Trainer, train

NOWHERE = Checkpoints(None, {})
BATCHES = 6  # an epoch: 24 documents, 4 together


@pytest.fixture(autouse=True)
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Threads that share each batch, also if there are fewer cores. One unless a test asks for more."""
    monkeypatch.setattr(module, "SMALLEST_PART", 1)
    before, count = torch.get_num_threads(), getattr(request, "param", 1)
    torch.set_num_threads(count)
    yield count
    torch.set_num_threads(before)


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches without chance, the same in every epoch."""
    monkeypatch.setattr(
        "xmtc.nn.batching.bucketed", lambda lengths, batch, rng, together: consecutive(len(lengths), batch)
    )


def consecutive(documents: int, batch: int) -> list[NDArray[np.int64]]:
    return [np.arange(at, min(at + batch, documents)) for at in range(0, documents, batch)]


def trained(learner: ToyLearner, settings: TrainingSettings, checkpoints: Checkpoints = NOWHERE) -> Weights:
    train(learner, settings, 0, checkpoints, "toy")
    return learner.weights()


def loss_of(learner: ToyLearner, documents: Ints) -> Tensor:
    return learner.loss(learner.batch(documents, np.random.default_rng(0)), Worker(len(documents), DropoutRng(0)))


def plain_loop(learner: ToyLearner, epochs: int = 4) -> list[Weights]:
    """What `train` does without validation, averaging, clipping and chance: the weights before and after each step."""
    optimiser = RowAdam(learner.network, short())
    result = [learner.weights()]
    for documents in consecutive(len(learner.lengths), 4) * epochs:
        optimiser.zero_grad()
        loss_of(learner, documents).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        result.append(learner.weights())
    return result


def test_training_ends_when_its_time_is_up() -> None:
    learner = ToyLearner(qualities=[0.5])
    with time_limit(0.0):
        trained(learner, short(epochs=1000))
    assert len(learner.batches) == 1, "one step, and then it is evaluated and ends"
    assert len(learner.seen) == 1
    with time_limit(1000.0):
        trained(learner, short(epochs=2))
    assert len(learner.batches) == 1 + 2 * BATCHES


def test_an_earlier_training_tells_for_how_many_epochs() -> None:
    learner = ToyLearner(qualities=[0.2, 0.5, 0.3, 0.3])
    with noting_epochs() as noted:
        trained(learner, short(epochs=4, evaluate_every=3))
    assert noted == {"toy": 1.0}, "the second evaluation was the best"
    again, longer = ToyLearner(), ToyLearner()
    with epochs_as_found({"toy": 1.5}):
        trained(again, short(epochs=4))
    with epochs_as_found({"another": 1.5}):
        trained(longer, short(epochs=4))
    assert len(again.batches) == 1.5 * BATCHES
    assert len(longer.batches) == 4 * BATCHES


def test_tables_have_a_learning_rate_of_their_own(in_order: None) -> None:
    same, larger = ToyLearner(), ToyLearner()
    settings = short(epochs=1, clip=None, swa_start_epoch=None)
    before = same.weights()
    one = trained(same, settings)
    two = trained(larger, settings.model_copy(update={"row_learning_rate": 10 * RATE}))
    moved = {name: [float((each[name] - before[name]).norm()) for each in (one, two)] for name in before}
    tables = [name for name, (few, many) in moved.items() if many > 5 * few]
    assert tables == ["words.weight"], moved


@pytest.mark.usefixtures("in_order")
def test_rates_by_part_and_their_slanted_triangle() -> None:
    """Beside a loop with torch's own AdamW: rates by name, rising and falling, a limit for the norm, weight decay."""

    class Parts(TransformerTraining):
        def rate_of(self, name: str, of_rows: bool) -> float:
            return RATE / 10 if name == "output.bias" else super().rate_of(name, of_rows)

    settings = Parts(
        device="cpu",
        epochs=4,
        batch_size=4,
        learning_rate=RATE,
        warmup_ratio=0.25,
        max_grad_norm=0.2,
        weight_decay=0.2,
        evaluate_every=1000,
    )
    learner, expected = dense_toy(), dense_toy()
    norms = []
    groups = [
        {"params": [weight], "weight_decay": 0.2 if weight.dim() > 1 else 0.0}
        for weight in expected.network.parameters()
    ]
    optimiser = torch.optim.AdamW(groups)
    steps = consecutive(len(expected.lengths), 4) * 4
    for step, documents in enumerate(steps):
        share = step / 6 if step < 6 else (24 - step) / 18
        for group, name in zip(optimiser.param_groups, expected.weights(), strict=True):
            group["lr"] = share * (RATE / 10 if name == "output.bias" else RATE)
        optimiser.zero_grad()
        loss_of(expected, documents).backward()  # type: ignore[no-untyped-call]
        norms.append(float(torch.nn.utils.clip_grad_norm_(expected.network.parameters(), 0.2)))
        optimiser.step()
    assert len(steps) == 24
    assert min(norms) < 0.2 < max(norms), "a limit that is never or always reached tests little"
    torch.testing.assert_close(trained(learner, settings), expected.weights(), rtol=1e-5, atol=1e-6)


def dense_toy() -> ToyLearner:
    learner = ToyLearner(valid=False)
    learner.network.words.sparse = False
    return learner


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
def test_a_part_that_had_nothing_to_do_is_left_alone(threads: int) -> None:
    learner = ToyLearner(valid=False)
    learner.network.register_parameter("idle", torch.nn.Parameter(torch.ones(3)))
    plain = trained(ToyLearner(valid=False), short())
    found = trained(learner, short())
    assert torch.equal(found.pop("idle"), torch.ones(3))
    assert same(found, plain)


def test_a_triangle_goes_on_where_it_was(tmp_path: Path) -> None:
    settings = TransformerTraining(
        epochs=6, batch_size=4, learning_rate=RATE, warmup_ratio=0.3, evaluate_every=1000, gradient_accumulation=4
    )
    expected = trained(ToyLearner(valid=False), settings)
    kept = Checkpoints(tmp_path / "pieces", {})
    with pytest.raises(Killed):
        trained(ToyLearner(valid=False, killed_at=15), settings, kept)
    assert same(trained(ToyLearner(valid=False), settings, kept), expected)


def test_the_last_step_of_a_triangle_is_the_smallest_and_none_is_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    lr_multiplier = TransformerTraining.lr_multiplier

    def noticed(self: TransformerTraining, step: int, steps: int) -> float:
        seen.append((step, steps))
        return lr_multiplier(self, step, steps)

    monkeypatch.setattr(TransformerTraining, "lr_multiplier", noticed)
    settings = TransformerTraining(
        epochs=3, batch_size=4, learning_rate=RATE, evaluate_every=1000, gradient_accumulation=4
    )
    trained(ToyLearner(valid=False), settings)
    assert seen == [(step, 6) for step in range(6)]  # 6 batches make 2 steps an epoch
    assert [round(lr_multiplier(settings, *each), 3) for each in seen] == [1, 0.833, 0.667, 0.5, 0.333, 0.167]


def assert_close(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    torch.testing.assert_close(dict(found), dict(expected), rtol=1e-5, atol=1e-6)


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


class Recording(Checkpoints):
    """Remembers all that was ever kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {})
        self.history: list[tuple[str, dict[str, NDArray[Any]]]] = []

    def put(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().put(name, arrays)
        self.history.append((name, {key: array.copy() for key, array in arrays.items()}))


@pytest.mark.usefixtures("in_order")
@pytest.mark.parametrize("threads", [1, 2, 3], indirect=True)
def test_without_validation_the_last_weights_are_those_of_a_plain_loop(threads: int) -> None:
    assert_close(trained(ToyLearner(valid=False), short(clip=None)), plain_loop(ToyLearner())[-1])


@pytest.mark.usefixtures("in_order")
def test_without_validation_the_average_is_kept() -> None:
    course = plain_loop(ToyLearner())
    # 24 steps, averaged from the third epoch on (12 steps are done by then) after every 5th step and at the end.
    snapshots = [course[steps] for steps in (12, 15, 20, 24)]
    expected = {name: torch.stack([weights[name] for weights in snapshots]).mean(0) for name in course[0]}
    settings = short(clip=None, swa_start_epoch=2, evaluate_every=5)
    assert_close(trained(ToyLearner(valid=False), settings), expected)


def test_each_epoch_has_all_documents_in_batches_that_its_number_and_the_seed_give() -> None:
    learner = ToyLearner()
    trained(learner, short(epochs=3))
    expected = [epoch_batches(learner.lengths, 4, 0, epoch) for epoch in range(3)]
    assert learner.batches == [batch.tolist() for batches in expected for batch in batches]


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
def test_same_seed_same_weights(threads: int) -> None:
    settings = short(swa_start_epoch=1, evaluate_every=4)
    one, other = (trained(ToyLearner(dropout=0.5, noise=0.3), settings) for _ in range(2))
    assert same(one, other)
    learner = ToyLearner(dropout=0.5, noise=0.3)
    train(learner, settings, 1, NOWHERE, "toy")
    assert not same(one, learner.weights())


@pytest.mark.parametrize("gathering", [False, True])
def test_any_number_of_threads_same_weights(gathering: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    work_together = Cores.work_together

    def noticed(self: Cores, work: Callable[..., Any], count: int) -> list[Any]:
        used.append(count)
        return work_together(self, work, count)

    monkeypatch.setattr(Cores, "work_together", noticed)
    found = []
    for count in (1, 2, 4):
        torch.set_num_threads(count)
        learner = ToyLearner(22, dropout=0.5, noise=0.3, gathering=gathering)  # the last batch has two documents
        found.append(trained(learner, short(swa_start_epoch=1, evaluate_every=4)))
    assert used.count(2) == (6 + 1) * 4
    assert used.count(4) == 5 * 4
    torch.testing.assert_close(found[1:], [found[0]] * 2, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("gathering", [False, True])
@pytest.mark.parametrize("documents", [1, 3, 11])
def test_any_number_of_threads_same_gradients(documents: int, gathering: bool) -> None:
    assert_same_in_threads(ToyLearner(dropout=0.5, noise=0.3, gathering=gathering), np.arange(documents))


def test_small_batches_are_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALLEST_PART", 500)
    torch.set_num_threads(2)
    learner = ToyLearner()
    trained(learner, short())
    assert all(len(batch) == 4 for batch in learner.batches)
    learner.lengths = learner.lengths + 1000
    trained(learner, short())
    assert all(len(batch) == 2 for batch in learner.batches[4 * BATCHES :])


def test_batches_are_made_ahead_in_another_thread() -> None:
    class Noticing(ToyLearner):
        def __init__(self) -> None:
            super().__init__()
            self.makers: list[int] = []

        def batch(self, documents: Ints, rng: np.random.Generator) -> ToyBatch:
            self.makers.append(threading.get_ident())
            return super().batch(documents, rng)

        def loss(self, batch: ToyBatch, worker: Worker) -> Tensor:
            deadline = time.monotonic() + 30
            while len(self.makers) < min(len(self.batches) + 1 + AHEAD, BATCHES):
                assert time.monotonic() < deadline, "the next batches are not made while this one is used"
            return super().loss(batch, worker)

    learner = Noticing()
    trained(learner, short(epochs=1))
    assert len(learner.makers) == len(learner.batches) == BATCHES
    assert threading.get_ident() not in learner.makers


def test_an_error_of_the_thread_that_makes_batches_comes_through() -> None:
    class Wrong(ToyLearner):
        def batch(self, documents: Ints, rng: np.random.Generator) -> ToyBatch:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trained(Wrong(), short())


def test_words_that_never_occur_stay_as_they_were() -> None:
    before, after = ToyLearner().weights()["words.weight"], trained(ToyLearner(), short())["words.weight"]
    assert torch.equal(before[WORDS - 1], after[WORDS - 1])
    assert not torch.isclose(before[: WORDS - 1], after[: WORDS - 1]).all(1).any()


def test_weights_that_are_not_learned_stay_as_they_were() -> None:
    learner = ToyLearner()
    learner.network.output.requires_grad_(False)
    before, after = learner.weights(), trained(learner, short(swa_start_epoch=1))
    assert torch.equal(before["output.weight"], after["output.weight"])
    assert not torch.equal(before["words.weight"], after["words.weight"])


@pytest.mark.usefixtures("in_order")
@pytest.mark.parametrize("documents", [16, 20], ids=["whole groups", "a last group that is not full"])
def test_two_batches_of_four_count_like_one_of_eight(documents: int) -> None:
    fours = trained(ToyLearner(documents, valid=False), short(batch_size=4, gradient_accumulation=2))
    assert_close(fours, trained(ToyLearner(documents, valid=False), short(batch_size=8)))


@pytest.mark.parametrize("swa_start_epoch", [None, 0])
def test_the_best_weights_are_kept_and_later_steps_do_not_change_them(swa_start_epoch: int | None) -> None:
    learner = ToyLearner(qualities=[0.1, 0.9, 0.2])
    found = trained(learner, short(evaluate_every=5, swa_start_epoch=swa_start_epoch))
    assert same(found, learner.seen[1])
    assert not same(found, learner.seen[-1])


@pytest.mark.parametrize(("qualities", "steps"), [([0.5, 0.4], 4), ([0.5, 0.4, 0.4, 0.6, 0.1], 7)])
def test_training_ends_after_more_than_so_many_evaluations_without_gain(qualities: list[float], steps: int) -> None:
    learner = ToyLearner(qualities=qualities)
    found = trained(learner, short(epochs=50, evaluate_every=1, patience=2))
    assert len(learner.batches) == steps
    assert same(found, learner.seen[qualities.index(max(qualities))])


def test_learning_rates_fall_where_nothing_is_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.5, then nothing better: after more than one evaluation without gain it is lowered, twice, then all ends."""
    rates: list[list[float]] = []
    real = Trainer.step

    def step(self: Trainer, batches: int) -> None:
        real(self, batches)
        rates.append([group["lr"] for group in self.optimiser.param_groups])

    monkeypatch.setattr(Trainer, "step", step)
    settings = short(
        epochs=50, evaluate_every=1, patience=1, lr_decay=0.1, max_lr_decays=2, row_learning_rate=10 * RATE
    )
    learner = ToyLearner(qualities=[0.5, 0.4, 0.4, 0.6, 0.1])
    found = trained(learner, settings)
    expected = [RATE] * 3 + [RATE / 10] * 3 + [RATE / 100] * 2
    np.testing.assert_allclose(np.sort(rates), [[rate, 10 * rate] for rate in expected])
    assert same(found, learner.seen[3])


def test_a_lowered_rate_stays_low_after_a_kill(tmp_path: Path) -> None:
    settings = short(epochs=5, evaluate_every=4, patience=1, lr_decay=0.1, max_lr_decays=9)
    qualities = [0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.9]  # the rates are lowered after the third and after the fifth
    expected = trained(ToyLearner(qualities=qualities), settings)
    kept = Checkpoints(tmp_path / "pieces", {})
    with pytest.raises(Killed):
        trained(ToyLearner(qualities=qualities, killed_at=3 * BATCHES + 1), settings, kept)
    state = kept.get("toy-epoch")
    assert state is not None
    assert dict(zip(COUNTS, state["counts"].tolist(), strict=True))["lr_decays"] == 1
    resumed = ToyLearner(qualities=qualities)
    resumed.seen = [{}] * 4  # evaluations of the first three epochs
    assert same(trained(resumed, settings, kept), expected)


def test_what_was_just_evaluated_is_not_evaluated_again_at_the_end() -> None:
    learner = ToyLearner()
    trained(learner, short(evaluate_every=2 * BATCHES, swa_start_epoch=1))
    assert len(learner.seen) == 2


@pytest.mark.parametrize(
    ("threads", "batches", "killed_by", "options"),
    [
        (1, 2, Killed, {}),
        (1, 2 * BATCHES, Killed, {}),
        (2, 3 * BATCHES + 2, Killed, {}),
        (1, 4 * BATCHES - 1, KeyboardInterrupt, {}),
        (1, 2 * BATCHES, Killed, {"gradient_accumulation": BATCHES, "evaluate_every": 1}),
        (1, 3 * BATCHES, Killed, {"max_grad_norm": 0.1}),
        (1, 3 * BATCHES, Killed, {"clip": None}),
    ],
    ids=[
        "in the first epoch",
        "at the beginning of the third",
        "in the fourth",
        "by ctrl-C",
        "before the window of norms is full",
        "with a limit for the norm",
        "without one",
    ],
    indirect=["threads"],
)
def test_a_run_that_was_killed_goes_on_as_if_nothing_had_been(
    tmp_path: Path, threads: int, batches: int, killed_by: type[BaseException], options: dict[str, Any]
) -> None:
    settings = short(**{"epochs": 6, "swa_start_epoch": 2, "evaluate_every": 4, "clip": 0.5} | options)
    whole, killed, resumed = (
        Recording(tmp_path / "whole"),
        Recording(tmp_path / "killed"),
        Recording(tmp_path / "killed"),
    )
    random: dict[str, Any] = {"dropout": 0.3, "noise": 0.2, "gathering": True}
    expected = trained(ToyLearner(**random), settings, whole)
    with pytest.raises(killed_by):
        trained(ToyLearner(**random, killed_at=batches, killed_by=killed_by), settings, killed)
    assert same(trained(ToyLearner(**random), settings, resumed), expected)
    # Not the weights alone: averages, best weights, moments, counts and the window of norms, after each epoch.
    assert [name for name, _ in whole.history] == ["toy-epoch"] * 5 + ["toy"]
    kept = {key.split("/")[0] for key in whole.history[-2][1]}
    assert kept == {"weight", "average", "best", "step", "exp_avg", "exp_avg_sq", "counts", "numbers"}
    for (name, found), (expected_name, arrays) in zip(killed.history + resumed.history, whole.history, strict=True):
        assert name == expected_name
        assert found.keys() == arrays.keys()
        for key, array in arrays.items():
            np.testing.assert_array_equal(found[key], array, err_msg=key)


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "pieces", {})
    expected, again = trained(ToyLearner(), short(), kept), ToyLearner()
    assert same(trained(again, short(), kept), expected)
    assert not again.batches
    assert kept.get("toy-epoch") is None


@pytest.mark.parametrize("threads", [2], indirect=True)
def test_after_an_error_torch_is_as_before_and_no_thread_is_left(threads: int) -> None:
    running = threading.active_count()
    with pytest.raises(Killed):  # the other thread waits for this one's scores
        trained(ToyLearner(killed_at=5, gathering=True), short())
    assert torch.get_num_threads() == threads
    assert threading.active_count() <= running


def test_ctrl_c_works_again_after_a_run_was_stopped_by_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            trained(ToyLearner(killed_at=5, killed_by=KeyboardInterrupt), short())
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)


def test_too_little_memory_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(XmtcError, match=r"toy: the memory of cpu is too small.*training\.batch_size"):
        trained(ToyLearner(killed_at=1, killed_by=torch.OutOfMemoryError), short())


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize(
    ("gradient_accumulation", "nan_at", "step"),
    [(1, 3, 4), (2, 2, 2), (2, 4 * BATCHES - 2, 2 * BATCHES)],
    ids=["one", "first of two", "the last step"],
)
def test_a_loss_that_is_no_number_is_an_error_that_says_what_to_do(
    threads: int, gradient_accumulation: int, nan_at: int, step: int
) -> None:
    learner = ToyLearner(nan_at=nan_at)
    with pytest.raises(XmtcError, match=rf"toy: .* at step {step},.* training\.learning_rate"):
        trained(learner, short(gradient_accumulation=gradient_accumulation))
    assert not learner.seen, "weights that are no numbers were evaluated"


@pytest.mark.parametrize("nan_at", [6, 10, 4 * BATCHES - 1], ids=["soon", "at an evaluation", "the last step"])
@pytest.mark.parametrize("swa_start_epoch", [None, 0])
def test_after_an_evaluation_such_a_loss_ends_the_training_with_the_best_weights(
    swa_start_epoch: int | None, nan_at: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qualities = [0.7, 0.5]  # the best are those of step 5
    learner, kept = ToyLearner(qualities=qualities, nan_at=nan_at), Checkpoints(tmp_path / "pieces", {})
    settings = short(evaluate_every=5, swa_start_epoch=swa_start_epoch)
    assert train(learner, settings, 0, kept, "toy") == 5
    said = capsys.readouterr().err
    assert f"toy: the loss was no finite number at step {nan_at + 1}: " in said
    assert "the best weights, those of step 5; try a smaller training.learning_rate\n" in said
    assert same(learner.weights(), learner.seen[0])
    assert len(learner.seen) == (nan_at + 1) // 5 - ((nan_at + 1) % 5 == 0), (
        "weights that are no numbers were evaluated"
    )
    assert nan_at < len(learner.batches) <= nan_at + LOGGED_EVERY
    again = ToyLearner()
    assert same(trained(again, settings, kept), learner.weights())
    assert not again.batches, "what has ended is not done again"


def points(folder: Path, what: str) -> list[int]:
    """The steps at which a curve has points."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

    curves = EventAccumulator(str(folder / "toy"), purge_orphaned_data=False)
    curves.Reload()
    return [point.step for point in curves.Scalars(what)]


def test_curves_go_to_the_log_folder(tmp_path: Path) -> None:
    learner = ToyLearner()
    trained(learner, short(evaluate_every=10), Checkpoints(None, {}, tmp_path / "logs"))
    assert points(tmp_path / "logs", "loss") == [6, 10, 12, 18, 20, 24]  # every ten steps and after each epoch
    assert points(tmp_path / "logs", "documents per second") == [6, 10, 12, 18, 20, 24]
    assert points(tmp_path / "logs", "validation nDCG@5") == [10, 20, 24]
    assert len(learner.seen) == 3


def test_every_evaluation_is_in_the_curve(tmp_path: Path) -> None:
    learner = ToyLearner()
    trained(learner, short(evaluate_every=7), Checkpoints(None, {}, tmp_path / "logs"))
    assert points(tmp_path / "logs", "validation nDCG@5")[:3] == [7, 14, 21]


def test_curves_go_on_where_they_ended(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "pieces", {}, tmp_path / "logs")
    with suppress(Killed):
        trained(ToyLearner(killed_at=3 * BATCHES), short(epochs=6), kept)
    trained(ToyLearner(), short(epochs=6), kept)
    assert points(tmp_path / "logs", "loss") == [6, 10, 12, 18, 20, 24, 30, 36]


@pytest.fixture(scope="module")
def processes(fork_server: Callable[..., ForkServer], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The weights of runs in one and in two processes; two need a script that they can import."""
    folder, here = tmp_path_factory.mktemp("processes"), Path(__file__).parent
    done = fork_server("numba", "lightning.fabric").run(here / "children" / "two_processes.py", folder)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**answer, "folder": folder, "said": done.stderr}


@pytest.mark.parametrize(("run", "expected"), [("two", "one"), ("resumed", "uninterrupted")])
def test_two_processes_learn_what_one_learns(processes: dict[str, Any], run: str, expected: str) -> None:
    before = ToyLearner().weights()
    for name, weight in processes[expected].items():
        np.testing.assert_allclose(processes[run][name], weight, rtol=1e-5, atol=1e-6, err_msg=name)
        assert np.abs(np.array(weight) - before[name].numpy()).max() > 0.1, "nothing was learned"


def test_two_processes_have_curves_too(processes: dict[str, Any]) -> None:
    assert points(processes["folder"] / "logs", "loss") == [3, 4, 6, 8, 9, 10, 12, 15, 16]


def test_two_processes_do_not_tell_how_they_meet(processes: dict[str, Any]) -> None:
    assert "distributed" not in processes["said"]


def test_two_processes_say_once_that_the_loss_was_no_number(processes: dict[str, Any]) -> None:
    (said,) = (line for line in processes["said"].splitlines() if "no finite number" in line)
    assert "no finite number at step 5: training ends with the best weights, those of step 3" in said
    found, learner = processes["no number"], ToyLearner(13, qualities=[0.5])
    trained(learner, short(epochs=1, evaluate_every=3))
    for name, weight in learner.seen[0].items():
        np.testing.assert_allclose(found[name], weight, atol=1e-5, err_msg=name)
