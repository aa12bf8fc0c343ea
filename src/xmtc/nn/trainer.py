"""The Lightning task that trains the networks of all methods: steps, weight averaging, early stopping, checkpoints."""

from __future__ import annotations

import logging
import math
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch import Trainer as LightningTrainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy
from numpy.typing import NDArray
from torch import Tensor, nn

from xmtc.budget import end_of_training
from xmtc.checkpoints import Checkpoints
from xmtc.errors import XmtcError
from xmtc.extras import require
from xmtc.nn.batching import Ints, bucketed
from xmtc.nn.dropout import dropout_rng
from xmtc.nn.learner import Learner
from xmtc.nn.optim import FixedClip, MovingClip, RowAdam, WeightAverage
from xmtc.nn.parallel import Cores, torch_threads
from xmtc.nn.settings import TrainingSettings
from xmtc.progress import Progress
from xmtc.seeding import derived_seed

Arrays = dict[str, NDArray[Any]]
LOGGED_EVERY = 10  # steps
STEPS = "steps to the best weights"  # a name beside those of weights in what a run leaves
DECAYS = "times the learning rates were lowered"  # another
SMALLEST_PART = 500  # tokens; handing less to another thread takes longer than doing it


class EpochBatches:
    """The batches of one epoch after the other, the same for the same seed; each a list of document numbers."""

    def __init__(self, lengths: Ints, batch: int, seed: int, epoch: int = 0) -> None:
        self._lengths, self._batch, self._seed = lengths, batch, seed
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self._lengths) // self._batch)

    def __iter__(self) -> Iterator[Ints]:
        # A generator begins when the first batch is asked for; Lightning also makes iterators that it never uses.
        rng = np.random.default_rng(derived_seed(self._seed, self.epoch))
        self.epoch += 1
        yield from bucketed(self._lengths, self._batch, rng)


class Trainer(LightningModule):
    """Train a learner's network; see `train`."""

    def __init__(
        self, learner: Learner[Any], settings: TrainingSettings, seed: int, checkpoints: Checkpoints, name: str
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.learner, self.settings, self.seed = learner, settings, seed
        self.checkpoints, self.run_name = checkpoints, name
        self.network = learner.network
        kinds = nn.Embedding | nn.EmbeddingBag
        tables = {part.weight for part in self.network.modules() if isinstance(part, kinds) and part.sparse}
        by_rate: dict[float, list[nn.Parameter]] = {}
        for name, weight in self.weights.items():
            by_rate.setdefault(settings.rate_of(name, weight in tables), []).append(weight)
        self.rates = list(by_rate)
        groups = [{"params": weights, "lr": rate} for rate, weights in by_rate.items()]
        self.optimiser = RowAdam(groups, settings.learning_rate, weight_decay=settings.weight_decay)
        self.clip: FixedClip | MovingClip | None = None
        if settings.max_grad_norm is not None:
            self.clip = FixedClip(settings.max_grad_norm)
        elif settings.clip is not None:
            self.clip = MovingClip(settings.clip)
        self.average: WeightAverage | None = None
        self.best: dict[str, Tensor] | None = None
        self.best_ndcg = -math.inf
        self.steps = self.first_epoch = self.evals_without_improvement = self.last_eval_step = self.best_step = (
            self.lr_decays
        ) = 0
        self.deadline = end_of_training()
        self._resources = ExitStack()
        self._cores = Cores(None, 1)
        self._bar: Progress | None = None

    @property
    def steps_an_epoch(self) -> int:
        """Batches."""
        return -(-len(self.learner.lengths) // self.settings.batch_size)

    @property
    def all_steps(self) -> int:
        """Steps of the optimiser if no epoch is left out."""
        return int(self.settings.epochs) * -(-self.steps_an_epoch // self.settings.gradient_accumulation)  # type: ignore[arg-type]

    @property
    def weights(self) -> dict[str, nn.Parameter]:
        """What is learned, by name."""
        return {name: weight for name, weight in self.network.named_parameters() if weight.requires_grad}

    def configure_optimizers(self) -> RowAdam:
        """Lightning asks for it."""
        return self.optimiser

    def on_fit_start(self) -> None:
        """Take the cores, or one of them if other processes share the work."""
        several = self.trainer.world_size > 1
        if several:
            self._own_memory()
        self._cores = self._resources.enter_context(torch_threads(1 if several else None))
        if self.trainer.is_global_zero:
            self._bar = Progress(self.run_name, (int(self.settings.epochs) - self.first_epoch) * self.steps_an_epoch)  # type: ignore[arg-type]

    def _own_memory(self) -> None:
        """Copy everything that changes: spawned processes share what they were given."""
        for weight in self.weights.values():
            weight.data = weight.data.clone()
            state = self.optimiser.state[weight]
            state.update({key: value.clone() for key, value in state.items() if isinstance(value, Tensor)})
        if self.average is not None:
            self.average = WeightAverage(self.average.mean, self.average.count)
        if self.best is not None:
            self.best = {name: weight.clone() for name, weight in self.best.items()}

    def on_fit_end(self) -> None:
        """Lightning says that all is done."""
        self.release()

    def release(self) -> None:
        """Give back what `on_fit_start` took, also after an error."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        self._resources.close()

    def on_train_epoch_start(self) -> None:
        """Begin averaging at the start of its epoch."""
        if self.average is None and self._epoch() == self.settings.swa_start_epoch:
            self.average = WeightAverage(self.weights)

    def _epoch(self) -> int:
        return self.first_epoch + self.trainer.current_epoch

    def training_step(self, batch: Ints, index: int) -> None:
        """One batch: gradients from all cores (or processes), and every `gradient_accumulation` batches a step."""
        together = self.settings.gradient_accumulation
        first = index - index % together
        last = min(first + together, self.steps_an_epoch) - 1
        share = 1 / (last - first + 1)
        seeds = [derived_seed(self.seed, self._epoch(), index, part) for part in range(max(2, self._cores.count))]
        if self.trainer.world_size > 1:
            rank = self.trainer.global_rank
            part = batch[rank :: self.trainer.world_size]
            if not len(part):  # fewer documents than processes; every process must take part in the exchange
                part, share = batch[:1], 0.0
            loss = self.learner.loss(part, dropout_rng(derived_seed(seeds[0], rank)))
            # The exchange takes the mean over processes.
            self.manual_backward(loss * (share * len(part) / len(batch) * self.trainer.world_size))
            mean_loss = self.trainer.strategy.reduce(loss.detach(), reduce_op="mean").item()
        else:
            mean_loss = self._backward_in_threads(batch, seeds, share)
        if not math.isfinite(mean_loss):
            raise XmtcError(f"{self.run_name}: the loss became {mean_loss}; try a smaller training.learning_rate")
        if index == last:
            self._step(mean_loss)
        if self._bar is not None:
            self._bar.advance()

    def _backward_in_threads(self, batch: Ints, seeds: Sequence[int], share: float) -> float:
        """Gradients of a batch, each core doing a part of it; returns the loss."""
        weights = list(self.weights.values())
        count = min(self._cores.count, len(batch), max(1, int(self.learner.lengths[batch].sum()) // SMALLEST_PART))
        parts = [batch[at::count] for at in range(count)]

        def work(at: int) -> tuple[float, tuple[Tensor | None, ...]]:
            loss = self.learner.loss(parts[at], dropout_rng(seeds[at]))
            loss = loss * (len(parts[at]) / len(batch))
            return loss.item(), torch.autograd.grad(loss * share, weights, allow_unused=True)

        total = 0.0
        for loss, gradients in self._cores.map(work, range(count)) if count > 1 else map(work, range(1)):
            total += loss
            for weight, gradient in zip(weights, gradients, strict=True):
                if gradient is not None:  # a part of the network may have had nothing to do
                    weight.grad = gradient if weight.grad is None else weight.grad + gradient
        return total

    def _step(self, loss: float) -> None:
        for weight in self.weights.values():
            if weight.grad is not None and weight.grad.is_sparse:
                weight.grad = weight.grad.coalesce()
        norm = self.clip([w.grad for w in self.weights.values() if w.grad is not None]) if self.clip else math.nan
        share = (
            self.settings.lr_multiplier(self.steps, self.all_steps) * (self.settings.lr_decay or 1.0) ** self.lr_decays
        )
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * share
        optimiser = self.optimizers()
        optimiser.step()  # type: ignore[union-attr]
        optimiser.zero_grad(set_to_none=True)  # type: ignore[union-attr]
        self.steps += 1
        if self.steps % LOGGED_EVERY == 0:
            self._write({"loss": loss, "gradient norm": norm})
        if self.steps % self.settings.evaluate_every == 0:
            self.evaluate()
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.trainer.should_stop = True

    def _write(self, values: dict[str, float]) -> None:
        # Lightning's own count of steps would begin anew when a run goes on.
        if self.logger is not None and self.trainer.is_global_zero:
            self.logger.log_metrics(values, step=self.steps)

    def evaluate(self) -> None:
        """Evaluate the weights, averaged if that has begun, and keep them if they are the best so far."""
        self.last_eval_step = self.steps
        if self.average is not None:
            self.average.add(self.weights)
        with self.average.in_place_of(self.weights) if self.average is not None else nullcontext():
            found = self.learner.validation_ndcg(self._cores)
            if found is None:
                return
            self._write({"validation nDCG@5": found})
            if found > self.best_ndcg:
                self.best_ndcg, self.evals_without_improvement, self.best_step = found, 0, self.steps
                self._keep()
                if self._bar is not None:
                    self._bar.what = f"{self.run_name}, nDCG@5 {100 * found:.1f}"
            else:
                self.evals_without_improvement += 1
        if self.evals_without_improvement > self.settings.patience:
            if self.settings.lr_decay is None or self.lr_decays == self.settings.max_lr_decays:
                self.trainer.should_stop = True
            else:
                self.evals_without_improvement = 0
                self.lr_decays += 1

    def _keep(self) -> None:
        """Copy the weights: on a CPU anything less would go on changing with the training.

        The memory of the last copy is used again. New memory would be slow, and for a moment there would be both.
        """
        if self.best is None:
            self.best = {name: weight.detach().clone() for name, weight in self.weights.items()}
        else:
            for name, weight in self.weights.items():
                self.best[name].copy_(weight.detach())

    def on_train_epoch_end(self) -> None:
        """Keep everything that is needed to go on from here."""
        done = self._epoch() + 1
        stopped = self.trainer.should_stop or done == self.settings.epochs
        if stopped and self.last_eval_step != self.steps:
            self.evaluate()
        if self.trainer.is_global_zero:
            if stopped:
                self.checkpoints.put(self.run_name, self.result())
                self.checkpoints.drop(f"{self.run_name}-epoch")
            else:
                self.checkpoints.put(f"{self.run_name}-epoch", self.state(done))

    def result(self) -> Arrays:
        """The best weights and after how many steps; without validation documents the averaged or the last ones."""
        last = self.average.mean if self.average is not None else self.weights
        chosen = self.best if self.best is not None else last
        steps = self.best_step if self.best is not None else self.steps
        return {name: weight.detach().numpy() for name, weight in chosen.items()} | {STEPS: np.array([steps])}

    def state(self, epochs_done: int) -> Arrays:
        """Everything that changes during training, as arrays."""
        groups: dict[str, Mapping[str, Tensor]] = {"weight": self.weights}
        if self.average is not None:
            groups["average"] = self.average.mean
        if self.best is not None:
            groups["best"] = self.best
        moments = {name: self.optimiser.state[weight] for name, weight in self.weights.items()}
        for part in ("mean", "square"):
            groups[part] = {name: state[part] for name, state in moments.items() if state}
        arrays = {f"{group}/{name}": t.detach().numpy() for group, each in groups.items() for name, t in each.items()}
        averaged = self.average.count if self.average is not None else 0
        numbers = [epochs_done, self.steps, self.evals_without_improvement, self.last_eval_step, averaged]
        steps = [state.get("step", 0) for state in moments.values()]
        arrays[STEPS], arrays[DECAYS] = np.array([self.best_step]), np.array([self.lr_decays])
        arrays["numbers"], arrays["steps"] = np.array(numbers, np.int64), np.array(steps, np.int64)
        arrays["quality"] = np.array([self.best_ndcg, *(self.clip.caps if self.clip else ())], np.float64)
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """The inverse of `state`."""

        def group(name: str) -> dict[str, Tensor]:
            prefix = f"{name}/"
            return {key[len(prefix) :]: torch.tensor(a) for key, a in arrays.items() if key.startswith(prefix)}

        self.first_epoch, self.steps, self.evals_without_improvement, self.last_eval_step, count = map(
            int, arrays["numbers"]
        )
        self.best_step = _steps_in(arrays)
        self.lr_decays = int(arrays[DECAYS][0]) if DECAYS in arrays else 0
        means, squares = group("mean"), group("square")
        with torch.no_grad():
            for (name, weight), step in zip(self.weights.items(), arrays["steps"], strict=True):
                weight.copy_(torch.from_numpy(arrays[f"weight/{name}"]))
                if name in means:
                    self.optimiser.state[weight].update(step=int(step), mean=means[name], square=squares[name])
        if count:
            self.average = WeightAverage(group("average"), count)
        self.best = group("best") or None
        self.best_ndcg = float(arrays["quality"][0])
        if isinstance(self.clip, MovingClip):
            self.clip = MovingClip(self.clip.factor, arrays["quality"][1:].tolist())


def train(learner: Learner[Any], settings: TrainingSettings, seed: int, checkpoints: Checkpoints, name: str) -> int:
    """Train a learner's network and leave the best weights in it; what `checkpoints` has is not done again.

    Returns after how many steps it had these weights.
    """
    done = checkpoints.get(name)
    if done is None:
        with ExitStack() as stack:
            if settings.processes > 1 and checkpoints.folder is None:  # they hand over their result in a file
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "pieces"
                checkpoints = Checkpoints(folder, {}, checkpoints.log_folder)
            task = Trainer(learner, settings, seed, checkpoints, name)
            kept = checkpoints.get(f"{name}-epoch")
            if kept is not None:
                task.restore(kept)
            _fit(task)
            done = checkpoints.get(name) or task.result()
    with torch.no_grad():
        for key, weight in learner.network.named_parameters():
            if key in done:
                weight.copy_(torch.tensor(done[key]))
    return _steps_in(done)


def _steps_in(piece: Mapping[str, NDArray[Any]]) -> int:
    """0 for a piece from before steps were kept."""
    return int(piece[STEPS][0]) if STEPS in piece else 0


def _fit(task: Trainer) -> None:
    settings = task.settings
    several = settings.processes > 1
    folder = task.checkpoints.log_folder
    if folder is not None:
        require("a log of curves", "neural", "tensorboard")
    # A process may have had no document that needs some part of the network.
    exchange = DDPStrategy(process_group_backend="gloo", start_method="spawn", find_unused_parameters=True)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)  # it would greet with the machine's hardware
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about workers and devices that we chose on purpose
        trainer = LightningTrainer(
            accelerator="cpu",
            devices=settings.processes,
            strategy=exchange if several else "auto",
            max_epochs=int(settings.epochs) - task.first_epoch,  # type: ignore[arg-type]
            logger=TensorBoardLogger(folder, name=task.run_name, version="") if folder is not None else False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
        )
        batches = EpochBatches(task.learner.lengths, settings.batch_size, task.seed, task.first_epoch)
        try:
            trainer.fit(task, batches)
        except SystemExit as end:  # what Lightning makes of ctrl-C
            raise KeyboardInterrupt from end
        finally:
            task.release()
    if trainer.interrupted:
        raise KeyboardInterrupt
