"""Settings that neural methods share; free of torch, so that a catalogue of models opens at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

LEARN, RANDOM = "learn", "random"
Epoch = Annotated[int, Field(ge=0)]


class WordSettings(BaseModel):
    """Texts as sequences of word vectors.

    `vectors` is a file of word vectors (see `xmtc.text.vectors`), "learn" (learned on the training documents) or
    "random". Words that a file does not have get vectors learned on the documents and mapped into the file's space, or
    random ones (`missing`), as in the paper. For `warm_up` epochs all vectors first learn the labels with a bag of
    words, which takes seconds and saves a network hours where words are many and their documents few.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    max_words: int = Field(500_000, ge=3)
    min_df: PositiveInt = 1
    max_tokens: PositiveInt = 500
    vectors: str = LEARN
    missing: Literal["learn", "random"] = "learn"
    dimensions: PositiveInt = 100
    warm_up: Annotated[int, Field(ge=0)] = 0
    frozen: bool = False
    dropout: float = Field(0.2, ge=0, lt=1)


class TrainingSettings(BaseModel):
    """How a network is trained. Lists have an entry for each level of a tree; the last one holds for all below.

    `row_learning_rate` is for tables of which a batch may touch a few rows, of words or labels: rare ones are seen so
    seldom that they may need larger steps (null: the same as `learning_rate`, as in the papers).

    Every `evaluate_every` steps validation documents are tagged; the weights with the best nDCG@5 are kept, and
    training ends after more than `patience` evaluations without a better one. With `decay` the learning rates are first
    multiplied by it at such a moment, `decays` times, and training ends at the next. From epoch `average_from` on (0 is
    the first; null: never) the mean of the weights at these moments is judged and kept: stochastic weight averaging.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    epochs: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = 10
    batch: PositiveInt = 16
    accumulate: PositiveInt = 1
    learning_rate: PositiveFloat = 2e-3
    row_learning_rate: PositiveFloat | None = None
    average_from: Epoch | Annotated[tuple[Epoch, ...], Field(min_length=1)] | None = 3
    clip: PositiveFloat | None = 5.0
    evaluate_every: PositiveInt = 250
    patience: PositiveInt = 50
    decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    decays: PositiveInt = 3
    valid_documents: Annotated[int, Field(ge=0)] = 500
    processes: PositiveInt = 1

    def at(self, level: int) -> TrainingSettings:
        """The settings of one level of a tree.

        >>> TrainingSettings(epochs=(9, 3)).at(5).epochs
        3
        """
        each = {key: getattr(self, key) for key in ("epochs", "average_from")}
        chosen = {key: value[min(level, len(value) - 1)] for key, value in each.items() if isinstance(value, tuple)}
        return self.model_copy(update=chosen)
