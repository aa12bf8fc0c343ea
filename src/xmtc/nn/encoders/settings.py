"""Settings of pretrained encoders and their training; free of torch, so that a catalogue of models opens at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from xmtc.nn.settings import Epoch, TrainingSettings


class EncoderSettings(BaseModel):
    """A pretrained transformer that makes a vector of a text.

    `name` is a folder with its files, a name of the Hugging Face hub, or "minilm" (from the extra of this name).
    `pooling` says which tokens make the document's vector: the "first", the "last" or the "mean" of all; "auto" is the
    last for XLNet, the mean for encoders that were trained with it (their folder says so), and the first for others.
    The embeddings and the lowest `frozen_layers` are not trained; what comes out of them is computed once and kept.
    `checkpointing` computes layers a second time instead of keeping what they found: half the speed, far less memory.
    `precision` "auto" is bfloat16 on a CPU that has instructions for it; on a GPU that of the training holds.
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
