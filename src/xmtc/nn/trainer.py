"""The training loop of all networks: on the cores of a CPU, on a GPU, or in several processes."""

from __future__ import annotations

import logging
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.fabric import Fabric
from lightning.fabric.loggers.tensorboard import TensorBoardLogger
from lightning.fabric.strategies.ddp import DDPStrategy
from lightning.fabric.strategies.single_device import SingleDeviceStrategy
from numpy.typing import NDArray
from torch import Tensor
from torch.multiprocessing.spawn import ProcessRaisedException

from xmtc.budget import end_of_training, epochs_to_train, note_epochs
from xmtc.checkpoints import Checkpoints
from xmtc.corpus.weights import drawn_by_weight
from xmtc.errors import XmtcError
from xmtc.extras import require
from xmtc.nn.batching import Batch, Ints, epoch_batches, prefetched
from xmtc.nn.devices import check_devices, device_called, place
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.layers import as_array, as_tensor
from xmtc.nn.learner import Learner
from xmtc.nn.optim import GradientClip, RowAdam, WeightAverage
from xmtc.nn.parallel import Cores, ProcessGroup, Worker, spans, torch_threads
from xmtc.nn.settings import TrainingSettings
from xmtc.progress import Progress
from xmtc.seeding import derived_seed

Arrays = dict[str, NDArray[Any]]
for part in ("lightning.fabric", "lightning.pytorch"):  # they would tell what they do, in each process
    logging.getLogger(part).setLevel(logging.ERROR)
LOGGED_EVERY = 10  # steps
SMALLEST_PART = 500  # tokens; handing less to another thread takes longer than doing it
COUNTS = ("epoch", "steps", "evals_without_improvement", "last_eval_step", "best_step", "lr_decays")
SCALER = ("scale", "_growth_tracker")  # of the loss, for 16-mixed
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class Trainer:
    """One run of `train`."""

    def __init__(
        self,
        fabric: Fabric,
        learner: Learner[Any],
        settings: TrainingSettings,
        seed: int,
        checkpoints: Checkpoints,
        name: str,
    ) -> None:
        self.fabric, self.learner, self.settings, self.seed = fabric, learner, settings, seed
        self.checkpoints, self.name = checkpoints, name
        place(learner.network, fabric.device, settings.offload_tables)
        self.weights = {key: weight for key, weight in learner.network.named_parameters() if weight.requires_grad}
        self.optimiser = RowAdam(learner.network, settings)
        self.scaler = torch.amp.GradScaler(fabric.device.type, enabled=settings.precision == "16-mixed")
        self.clip = GradientClip(settings.max_grad_norm, settings.clip)
        self.epochs = int(settings.epochs)  # type: ignore[arg-type]
        self.batch_count = -(-len(learner.lengths) // settings.batch_size)
        self.epoch = self.steps = self.evals_without_improvement = self.last_eval_step = self.best_step = 0
        self.lr_decays, self.best_ndcg, self.stop = 0, -math.inf, False
        self.best: dict[str, Tensor] | None = None
        self.average: WeightAverage | None = None
        self.losses: list[tuple[int, Tensor]] = []  # (step, loss) of the batches since the last look at them
        self.group = ProcessGroup() if fabric.world_size > 1 else None
        self.cores, self.deadline = Cores(), end_of_training()
        found, self.last_step = epochs_to_train(name), math.inf
        if found is not None:
            self.last_step = max(1, round(found * self.steps_per_epoch))
        self.bar = Progress(name, None)
        self.seen, self.looked = 0, time.monotonic()  # documents since the last look, and when that was

    @property
    def steps_per_epoch(self) -> int:
        """Steps that go through all documents once."""
        return -(-self.batch_count // self.settings.gradient_accumulation)

    def fit(self) -> None:
        """All epochs, or fewer if nothing is gained any more or time is up."""
        settings, on_cpu = self.settings, self.fabric.device.type == "cpu"
        with ExitStack() as stack:
            if on_cpu:
                self.cores = stack.enter_context(torch_threads(1 if self.group is not None else None))
            on_gpu = [self.fabric.device] if self.fabric.device.type == "cuda" else []
            stack.enter_context(torch.random.fork_rng(on_gpu, enabled=not on_cpu))
            self.bar = Progress(self.name, (self.epochs - self.epoch) * self.batch_count)
            stack.callback(self.bar.close)
            for logger in self.fabric.loggers:  # what it has not written yet
                stack.callback(logger.finalize, "success")
            while self.epoch < self.epochs and not self.stop:
                if self.average is None and self.epoch == settings.swa_start_epoch:
                    self.average = WeightAverage(self.weights)
                for index, (documents, batch) in enumerate(self.batches()):
                    first = index - index % settings.gradient_accumulation
                    last = min(first + settings.gradient_accumulation, self.batch_count) - 1
                    loss = self.backward(documents, batch, derived_seed(self.seed, self.epoch, index, 1))
                    self.losses.append((self.steps + 1, loss))
                    self.seen += len(documents)
                    if index == last:
                        self.step(batches=last - first + 1)
                        if self.steps % LOGGED_EVERY == 0:
                            self.look_at_losses()
                        if self.steps % settings.evaluate_every == 0:
                            self.evaluate()
                        self.stop |= self.steps >= self.last_step
                        if self.deadline is not None:
                            self.stop |= self.fabric.broadcast(time.monotonic() > self.deadline)
                    if self.fabric.is_global_zero:
                        self.bar.advance()
                    if self.stop:
                        break
                self.epoch += 1
                ended = self.stop or self.epoch == self.epochs
                self.look_at_losses()
                if ended and self.last_eval_step != self.steps:
                    self.evaluate()
                if self.fabric.is_global_zero:
                    self.save(ended or self.stop)

    def batches(self) -> Iterator[tuple[Ints, Batch]]:
        """The documents of each batch of an epoch and their tensors."""

        def make(index: int, documents: Ints) -> Batch:
            batch = self.learner.batch(documents, np.random.default_rng(derived_seed(self.seed, self.epoch, index, 2)))
            return batch.pinned() if self.fabric.device.type == "cuda" else batch

        size, random = self.settings.batch_size, self.settings.batches == "random"
        lengths, weights = self.learner.lengths, self.learner.document_weights
        drawn = np.arange(len(lengths))
        if weights is not None:
            drawn = drawn_by_weight(weights, np.random.default_rng(derived_seed(self.seed, self.epoch, 3)).random())
        plan = epoch_batches(lengths[drawn], size, self.seed, self.epoch, random)
        return prefetched([drawn[part] for part in plan], make)

    def backward(self, documents: Ints, batch: Batch, seed: int) -> Tensor:
        """Add the gradients of a batch's loss to those of the weights; returns the loss, or this process's share of it.

        Processes and, on a CPU, threads have a part of the documents each; the loss is that of the whole batch.
        """
        count, device, rank = len(documents), self.fabric.device, self.fabric.global_rank
        threads = min(self.cores.count, count, max(1, int(self.learner.lengths[documents].sum()) // SMALLEST_PART))
        if threads > 1:

            def loss_of(part: slice, worker: Worker) -> Tensor:
                with self.fabric.autocast():
                    return self.learner.loss(batch.part(part), worker)

            return self.cores.backward(loss_of, list(self.weights.values()), count, threads, seed)
        worker, share = Worker(count, DropoutRng(seed)), 1.0
        if self.group is not None and count >= self.group.size:
            part = spans(count, self.group.size)[rank]
            batch, worker = batch.part(part), Worker(count, DropoutRng(seed, part.start), rank, self.group)
        elif self.group is not None:  # too few documents to share: each process computes all of them
            share = 1 / self.group.size
        if device.type != "cpu":
            torch.manual_seed(derived_seed(seed, rank))
        with self.fabric.autocast():
            loss = self.learner.loss(batch.to(device), worker) * share
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def step(self, batches: int) -> None:
        """Move the weights against the mean of the gradients of some batches."""
        weights, settings = list(self.weights.values()), self.settings
        if self.group is not None:
            self.group.add_up(self.fabric.global_rank, weights)
        with torch.no_grad():
            for weight in weights:
                if weight.grad is not None and weight.grad.is_sparse:
                    weight.grad = weight.grad.coalesce()
                if weight.grad is not None and batches > 1:
                    weight.grad /= batches
        self.scaler.unscale_(self.optimiser)
        self.clip([weight.grad for weight in weights if weight.grad is not None])
        all_steps = self.epochs * self.steps_per_epoch
        decay = (settings.lr_decay or 1.0) ** self.lr_decays
        self.optimiser.scale_rates(settings.lr_multiplier(self.steps, all_steps) * decay)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        self.steps += 1

    def look_at_losses(self) -> None:
        """Log the losses since the last look, and end the training if one is no number: they leave the device here."""
        if not self.losses:
            return
        losses = self.fabric.all_reduce(torch.stack([loss for _, loss in self.losses]), reduce_op="sum")
        values = as_array(losses).tolist()  # type: ignore[arg-type]
        wrong = [step for (step, _), value in zip(self.losses, values, strict=True) if not math.isfinite(value)]
        speed, loss = self.seen / max(1e-9, time.monotonic() - self.looked), float(np.mean(values))
        self.losses, self.seen, self.looked = [], 0, time.monotonic()
        if wrong:
            self.end_after_bad_loss(wrong[0])
            return
        self.log({"loss": loss, "documents per second": speed})
        found = f", nDCG@5 {100 * self.best_ndcg:.1f}" if self.best is not None else ""
        self.bar.what = f"{self.name}, loss {loss:.3g}{found}, {speed:,.0f} documents/s"

    def end_after_bad_loss(self, step: int) -> None:
        """Keep the best weights so far; an error if there are none."""
        problem = f"{self.name}: the loss was no finite number at step {step}"
        remedy = "try a smaller training.learning_rate"
        if self.best is None:
            raise XmtcError(f"{problem}, and no weights had been evaluated before; {remedy}")
        if self.fabric.is_global_zero:
            result = f"training ends with the best weights, those of step {self.best_step}"
            print(f"{problem}: {result}; {remedy}", file=sys.stderr)
        self.stop, self.last_eval_step = True, self.steps

    def evaluate(self) -> None:
        """Evaluate the weights, averaged if that has begun, and keep them if they are the best so far."""
        self.look_at_losses()
        if self.stop and self.last_eval_step == self.steps:
            return
        self.last_eval_step = self.steps
        if self.average is not None:
            self.average.add(self.weights)
        with self.average.in_place_of(self.weights) if self.average is not None else nullcontext():
            found = self.learner.validation_ndcg(self.cores) if self.fabric.is_global_zero else None
            found = self.fabric.broadcast(found)
            if found is None:
                return
            self.log({"validation nDCG@5": found})
            if found > self.best_ndcg:
                self.best_ndcg, self.evals_without_improvement, self.best_step = found, 0, self.steps
                self.keep_best()
            else:
                self.evals_without_improvement += 1
        self.looked = time.monotonic()  # the speed is that of training alone
        if self.evals_without_improvement > self.settings.patience:
            if self.settings.lr_decay is None or self.lr_decays == self.settings.max_lr_decays:
                self.stop = True
            else:
                self.evals_without_improvement, self.lr_decays = 0, self.lr_decays + 1

    def keep_best(self) -> None:
        """Copy the weights into the memory of the last copy: new memory would be slow, and there would be both."""
        if self.best is None:
            self.best = {name: weight.detach().clone() for name, weight in self.weights.items()}
        else:
            for name, weight in self.weights.items():
                self.best[name].copy_(weight.detach())

    def log(self, values: dict[str, float]) -> None:
        """To TensorBoard, if there is a folder for it."""
        if self.fabric.is_global_zero and self.checkpoints.log_folder is not None:
            self.fabric.log_dict(values, step=self.steps)

    def save(self, ended: bool) -> None:
        """Keep the result, or what is needed to go on from here."""
        if ended:
            self.checkpoints.put(self.name, self.result())
            self.checkpoints.drop(f"{self.name}-epoch")
        else:
            self.checkpoints.put(f"{self.name}-epoch", self.state())

    def result(self) -> Arrays:
        """The best weights and after how many steps; without validation documents the averaged or the last ones."""
        last = self.average.mean if self.average is not None else self.weights
        steps = self.best_step if self.best is not None else self.steps
        chosen = self.best if self.best is not None else last
        return {"steps": np.array([steps])} | {f"weight/{name}": as_array(weight) for name, weight in chosen.items()}

    def state(self) -> Arrays:
        """Everything that changes during training, as arrays."""
        groups: dict[str, dict[str, Tensor]] = {"weight": dict(self.weights)}
        if self.average is not None:
            groups["average"] = self.average.mean
        if self.best is not None:
            groups["best"] = self.best
        for moment in MOMENTS:
            states = {name: self.optimiser.state[weight] for name, weight in self.weights.items()}
            groups[moment] = {name: state[moment] for name, state in states.items() if state}
        arrays = {f"{group}/{name}": as_array(each) for group, some in groups.items() for name, each in some.items()}
        arrays["counts"] = np.array([getattr(self, name) for name in COUNTS])
        averaged = self.average.count if self.average is not None else 0
        scaler = [float(self.scaler.state_dict().get(key, 0)) for key in SCALER]
        arrays["numbers"] = np.array([self.best_ndcg, averaged, *scaler, *map(float, self.clip.caps)])
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """The inverse of `state`."""

        def group(name: str) -> dict[str, Tensor]:
            found = {key.partition("/")[2]: array for key, array in arrays.items() if key.startswith(f"{name}/")}
            return {key: torch.tensor(array).to(self.weights[key].device) for key, array in found.items()}

        for name, count in zip(COUNTS, arrays["counts"].tolist(), strict=True):
            setattr(self, name, count)
        with torch.no_grad():
            for name, values in group("weight").items():
                self.weights[name].copy_(values)
        for moment in MOMENTS:
            for name, values in group(moment).items():
                self.optimiser.state[self.weights[name]][moment] = values
        self.best_ndcg, averaged, scale, growth, *caps = arrays["numbers"].tolist()
        if averaged:
            self.average = WeightAverage(group("average"), int(averaged))
        self.best = group("best") or None
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(self.scaler.state_dict() | dict(zip(SCALER, (scale, int(growth)), strict=True)))
        self.clip.caps.clear()
        self.clip.caps.extend(map(torch.tensor, caps))


def train(learner: Learner[Any], settings: TrainingSettings, seed: int, checkpoints: Checkpoints, name: str) -> int:
    """Train a learner's network and leave the best weights in it; what `checkpoints` has is not done again.

    Returns after how many steps it had these weights.
    """
    done = checkpoints.get(name)
    if done is None:
        with ExitStack() as stack:
            if settings.devices > 1 and checkpoints.folder is None:  # they hand over their result in a file
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "pieces"
                checkpoints = Checkpoints(folder, {}, checkpoints.log_folder)
            fabric = make_fabric(learner, settings, checkpoints, name)
            fit: Any = fabric.launch if settings.devices > 1 else lambda work, *run: work(fabric, *run)
            try:
                done = fit(_fit, learner, settings, seed, checkpoints, name) or checkpoints.get(name)
            except ProcessRaisedException as error:  # the text ends with the error itself
                raise XmtcError(str(error).strip().rpartition("\n")[2].partition(": ")[2]) from error
    assert done is not None
    place(learner.network, device_called(settings.device), settings.offload_tables)
    with torch.no_grad():
        for key, weight in learner.network.named_parameters():
            if weight.requires_grad:
                weight.copy_(as_tensor(done[f"weight/{key}"]).view(weight.shape))
    steps = int(done["steps"][0])
    batches = -(-len(learner.lengths) // settings.batch_size)
    note_epochs(name, steps / -(-batches // settings.gradient_accumulation))
    return steps


def _fit(fabric: Fabric, learner: Learner[Any], *run: Any) -> Arrays | None:
    """One process's part of a training; the result, unless it is handed over in a file."""
    if fabric.world_size > 1:  # processes share the memory of what they were given
        learner.network._apply(torch.clone)
    trainer = Trainer(fabric, learner, *run)
    kept = trainer.checkpoints.get(f"{trainer.name}-epoch")
    if kept is not None:
        trainer.restore(kept)
    try:
        trainer.fit()
    except torch.OutOfMemoryError as error:
        raise XmtcError(
            f"{trainer.name}: the memory of {fabric.device} is too small; take a smaller training.batch_size (with "
            "training.gradient_accumulation) or training.offload_tables=true"
        ) from error
    if trainer.group is None:
        return trainer.result()
    trainer.group.close()
    return None


def make_fabric(learner: Learner[Any], settings: TrainingSettings, checkpoints: Checkpoints, name: str) -> Fabric:
    """Lightning's Fabric on the devices that the settings ask for; ConfigError if these cannot be had."""
    device = check_devices(settings, len(learner.lengths))
    options: dict[str, Any] = {"precision": settings.precision}
    if checkpoints.log_folder is not None:
        require("a log of curves", "neural", "tensorboard")
        options["loggers"] = TensorBoardLogger(checkpoints.log_folder, name=name, version="")
    if settings.devices == 1:
        return Fabric(strategy=SingleDeviceStrategy(device), **options)
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl" if settings.offload_tables else "nccl"
    exchange = DDPStrategy(process_group_backend=backend, start_method="spawn")
    return Fabric(accelerator=device.type, strategy=exchange, devices=settings.devices, **options)
