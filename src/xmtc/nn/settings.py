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

    `row_learning_rate` may be larger than `learning_rate`, since rare words and labels are seen seldom. Training ends
    after more than `patience` evaluations without a better one; with `lr_decay` the rates are first multiplied by it at
    such a moment, `max_lr_decays` times. From epoch `swa_start_epoch` on the mean of the weights at the evaluations is
    evaluated and kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    epochs: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = 10
    """How often all training documents are gone through, at most; a list has a number for each level of a tree."""
    batch_size: PositiveInt = 16
    """Documents whose gradients are taken together."""
    batches: Literal["bucketed", "random"] = "bucketed"
    """Which documents make a batch: random ones of about the same length, which is quicker, or random ones."""
    gradient_accumulation: PositiveInt = 1
    """Batches that make one step: large batches in little memory."""
    learning_rate: PositiveFloat = 2e-3
    """Step size of the optimiser."""
    row_learning_rate: PositiveFloat | Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] | None = None
    """Step size for tables of words and labels, of which a batch touches few rows; null: learning_rate."""
    swa_start_epoch: Epoch | Annotated[tuple[Epoch, ...], Field(min_length=1)] | None = 3
    """Epoch (0 is the first) from which the weights are averaged, stochastic weight averaging; null: never."""
    clip: PositiveFloat | None = 5.0
    """Cut gradients to this factor times the largest of their last norms; null: never. max_grad_norm comes first."""
    max_grad_norm: PositiveFloat | None = None
    """Cut the norm of all gradients to this; null: as clip says."""
    weight_decay: float = Field(0.0, ge=0, lt=1)
    """Pull matrices towards 0 in each step (not biases, normalisation and tables)."""
    evaluate_every: PositiveInt = 250
    """Steps between two evaluations on validation documents; the weights with the best nDCG@5 are kept."""
    patience: PositiveInt = 50
    """Evaluations without a better one after which training ends, or the learning rate falls (lr_decay)."""
    lr_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    """What the learning rate is multiplied by when patience is at its end; null: training ends at once."""
    max_lr_decays: PositiveInt = 3
    """How often lr_decay does that before training ends."""
    valid_documents: Annotated[int, Field(ge=0)] = 500
    """Validation documents, at most; without --valid they are held out, up to a tenth of the corpus."""
    device: Annotated[str, AfterValidator(_checked_device)] = "auto"
    """Where the network is trained: auto (a GPU if there is one), cpu, cuda, cuda:1 (the second GPU), mps."""
    precision: Annotated[Literal["32", "bf16-mixed", "16-mixed"], BeforeValidator(str)] = "32"
    """32, or bf16-mixed and 16-mixed: numbers of two bytes where that is safe."""
    devices: PositiveInt = 1
    """Processes that share each batch, each with a GPU of its own or, on a CPU, a core."""
    offload_tables: bool = False
    """Keep the tables of words and labels in the CPU's memory, for label sets that a GPU cannot hold."""

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
