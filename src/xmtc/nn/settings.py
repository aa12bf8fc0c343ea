"""Settings that neural methods share; free of torch, so that a catalogue of models opens at once."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PositiveFloat, PositiveInt

Epoch = Annotated[int, Field(ge=0)]


def _checked_device(name: str) -> str:
    if not re.fullmatch(r"[a-z]+(:\d+)?", name):
        raise ValueError("write auto, cpu, cuda, cuda:1 (the second GPU) or mps")
    return name


class TrainingSettings(BaseModel):
    """How a network is trained. Lists have an entry for each level of a tree; the last one holds for all below.

    `row_learning_rate` is for tables of which a batch may touch a few rows, of words or labels: rare ones are seen so
    seldom that they may need larger steps (null: the same as `learning_rate`, as in the papers).

    Every `evaluate_every` steps validation documents are tagged; the weights with the best nDCG@5 are kept, and
    training ends after more than `patience` evaluations without a better one. With `lr_decay` the learning rates are
    first multiplied by it at such a moment, `max_lr_decays` times, and training ends at the next. From epoch
    `swa_start_epoch` on (0 is the first; null: never) the mean of the weights at these moments is evaluated and kept:
    stochastic weight averaging.

    The norm of all gradients is cut to `max_grad_norm` or, if that is null, to `clip` times a moving limit (null:
    never). `weight_decay` is for matrices, not for biases and normalisation.

    `device` "auto" is a GPU if there is one, else the CPU; "cuda:1" is the second GPU. `precision` "bf16-mixed" and
    "16-mixed" compute with numbers of two bytes where that is safe. With `devices` above 1 that many processes share
    each batch, each with a GPU of its own or, on a CPU, a core. With `offload_tables` the tables of words and labels,
    of which a batch needs few rows, stay in the CPU's memory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    epochs: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = 10
    batch_size: PositiveInt = 16
    gradient_accumulation: PositiveInt = 1
    learning_rate: PositiveFloat = 2e-3
    row_learning_rate: PositiveFloat | Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] | None = None
    swa_start_epoch: Epoch | Annotated[tuple[Epoch, ...], Field(min_length=1)] | None = 3
    clip: PositiveFloat | None = 5.0
    max_grad_norm: PositiveFloat | None = None
    weight_decay: float = Field(0.0, ge=0, lt=1)
    evaluate_every: PositiveInt = 250
    patience: PositiveInt = 50
    lr_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    max_lr_decays: PositiveInt = 3
    valid_documents: Annotated[int, Field(ge=0)] = 500
    device: Annotated[str, AfterValidator(_checked_device)] = "auto"
    precision: Annotated[Literal["32", "bf16-mixed", "16-mixed"], BeforeValidator(str)] = "32"
    devices: PositiveInt = 1
    offload_tables: bool = False

    def at(self, level: int) -> TrainingSettings:
        """The settings of one level of a tree.

        >>> last = TrainingSettings(epochs=(9, 3), row_learning_rate=(0.01, 0.002)).at(5)
        >>> last.epochs, last.row_learning_rate
        (3, 0.002)
        """
        each = {key: getattr(self, key) for key in ("epochs", "row_learning_rate", "swa_start_epoch")}
        chosen = {key: value[min(level, len(value) - 1)] for key, value in each.items() if isinstance(value, tuple)}
        return self.model_copy(update=chosen)

    def rate_of(self, name: str, of_rows: bool) -> float:
        """The learning rate of a weight, by its name in the network and whether a batch may touch few of its rows."""
        if not of_rows or self.row_learning_rate is None:
            return self.learning_rate
        assert not isinstance(self.row_learning_rate, tuple), "settings of one level have one rate"
        return self.row_learning_rate

    def lr_multiplier(self, step: int, steps: int) -> float:
        """What the learning rates are multiplied by at a step of `steps`; here they stay as they are."""
        return 1.0
