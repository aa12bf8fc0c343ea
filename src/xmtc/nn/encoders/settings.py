"""Settings of pretrained encoders and their training; free of torch, so that a catalogue of models opens at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from xmtc.nn.settings import Epoch, TrainingSettings


class EncoderSettings(BaseModel):
    """A pretrained transformer that makes a vector of a text.

    `pooling` "auto" is the last token for XLNet, the mean for encoders that were trained with it (their folder says
    so), and the first for others. `precision` is for a CPU: on a GPU that of the training holds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    name: str = Field("xlnet/xlnet-base-cased", min_length=1)
    """A folder with the encoder's files, its name on the Hugging Face hub, or an extra: minilm, multilingual."""
    max_tokens: PositiveInt = 128
    """Read only so many tokens of a document (words, with multilingual), from its beginning."""
    pooling: Literal["auto", "first", "last", "mean"] = "auto"
    """Which tokens make the document's vector: first, last, mean; auto: as the encoder was trained."""
    frozen_layers: Annotated[int, Field(ge=0)] = 0
    """The embeddings and so many of the lowest layers are not trained; their output is computed once. 0: all are."""
    checkpointing: bool = False
    """Compute layers a second time instead of keeping their output: half the speed, far less memory."""
    precision: Literal["auto", "single", "bfloat16"] = "auto"
    """Numbers on a CPU: single, bfloat16, or auto (bfloat16 if the CPU has instructions for it)."""

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

    Rates are slanted triangles; steps are counted as if all `epochs` were done.
    """

    epochs: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = 8
    batch_size: PositiveInt = 32
    learning_rate: PositiveFloat = 2e-3
    encoder_learning_rate: PositiveFloat = 5e-5
    """Step size for the weights of the pretrained encoder."""
    warmup_ratio: float = Field(0.0, ge=0, lt=1)
    """Share of all steps in which the step sizes rise from 0; then they fall to 0 until the last epoch."""
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
