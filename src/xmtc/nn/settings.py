"""Settings that neural methods share; free of torch, so that a catalogue of models opens at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

Epoch = Annotated[int, Field(ge=0)]


class EncoderSettings(BaseModel):
    """A pretrained transformer that makes a vector of a text.

    `name` is a folder with its files, a name of the Hugging Face hub, or "minilm" (from the extra of this name).
    `pooling` says which tokens make the document's vector: the "first", the "last" or the "mean" of all; "auto" is the
    last for XLNet, the mean for encoders that were trained with it (their folder says so), and the first for others.
    The embeddings and the lowest `frozen_layers` are not trained; what comes out of them is computed once and kept.
    `checkpointing` computes layers a second time instead of keeping what they found: half the speed, far less memory.
    `precision` "auto" is bfloat16 where the processor computes with it, single elsewhere.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    name: str = Field("xlnet/xlnet-base-cased", min_length=1)
    max_tokens: PositiveInt = 128
    pooling: Literal["auto", "first", "last", "mean"] = "auto"
    frozen_layers: Annotated[int, Field(ge=0)] = 0
    checkpointing: bool = False
    precision: Literal["auto", "single", "bfloat16"] = "auto"

    @property
    def title(self) -> str:
        """What the encoder is called in tables.

        >>> EncoderSettings(name="minilm").title, EncoderSettings(name="xlnet/xlnet-base-cased").title
        ('MiniLM', 'xlnet-base-cased')
        """
        return "MiniLM" if self.name == "minilm" else Path(self.name).name

    @property
    def is_common(self) -> bool:
        """Whether it is one of the three that papers have: BERT, RoBERTa, XLNet."""
        return self.title.lower().startswith(("bert-", "roberta-", "xlnet-"))


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
    processes: PositiveInt = 1

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


class TransformerTraining(TrainingSettings):
    """How a network on a pretrained encoder is trained: AdamW, with a learning rate of its own for the encoder.

    Rates are slanted triangles: they rise for the share `warmup_ratio` of all steps, and fall to 0 at the end; steps
    are counted as if all `epochs` were done.
    """

    epochs: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = 8
    batch_size: PositiveInt = 32
    learning_rate: PositiveFloat = 2e-3
    encoder_learning_rate: PositiveFloat = 5e-5
    warmup_ratio: float = Field(0.0, ge=0, lt=1)
    swa_start_epoch: Epoch | Annotated[tuple[Epoch, ...], Field(min_length=1)] | None = None
    clip: PositiveFloat | None = None
    max_grad_norm: PositiveFloat | None = 1.0
    patience: PositiveInt = 10
    valid_documents: Annotated[int, Field(ge=0)] = 1000

    def rate_of(self, name: str, of_rows: bool) -> float:
        """The learning rate of a weight; the encoder is the network's `encoder`."""
        return self.encoder_learning_rate if name.startswith("encoder.") else super().rate_of(name, of_rows)

    def lr_multiplier(self, step: int, steps: int) -> float:
        """Rising, then falling; the first step is number 0.

        >>> [TransformerTraining(warmup_ratio=0.5).lr_multiplier(step, 4) for step in range(4)]
        [0.0, 0.5, 1.0, 0.5]
        """
        top = self.warmup_ratio * steps
        return step / top if step < top else (steps - step) / (steps - top)
