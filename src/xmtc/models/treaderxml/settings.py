"""Settings of `treaderxml`: neighbours, knowledge, network, training; the paper's formulas as printed are options."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from xmtc.models.config import ModelConfig
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.nn.settings import Epoch, TrainingSettings
from xmtc.search.neighbours import SearchSettings
from xmtc.text.embedding_table import WordSettings
from xmtc.text.tfidf import TfIdfSettings


class TReaderTraining(TrainingSettings):
    """How the network is trained; the learning rate falls when nothing is gained any more."""

    epochs: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = 30
    batch_size: PositiveInt = 64
    learning_rate: PositiveFloat = 1e-3
    swa_start_epoch: Epoch | Annotated[tuple[Epoch, ...], Field(min_length=1)] | None = None
    evaluate_every: PositiveInt = 100
    patience: PositiveInt = 5
    lr_decay: Annotated[float, Field(gt=0, lt=1)] | None = 0.3
    valid_documents: Annotated[int, Field(ge=0)] = 1000


class TReaderSearch(SearchSettings):
    """How the neighbours are found."""

    max_similarity: Annotated[float, Field(gt=0, le=1)] | None = None
    """In training only: nearer documents are no neighbours, such as 0.95 against near duplicates; null: all are."""


class TReaderXmlConfig(ModelConfig):
    """Neighbours, what is known from them, the network, its training; recipes/treaderxml/paper has the paper's form.

    `branches` and `reading` are the paper's ablation (Table 3).
    `words` are for texts and descriptions, and for the search unless it has other vectors; `encoder` is for
    `search.vectors` encoder and for `encoded`.
    """

    neighbours: PositiveInt = 5
    """How many of the nearest training documents bring their labels as knowledge."""
    description_words: PositiveInt = 8
    """Words of a label's description that are read."""
    weighting: Literal["equal", "similarity"] = "equal"
    """Whether the neighbours' labels count alike (equal), or those of nearer documents more (similarity)."""
    parentless_labels: bool = True
    """Labels without a parent count as knowledge too; false: they do not, as in the paper's Algorithm 1."""
    knowledge_mean: Literal["words", "labels"] = "words"
    """A place's mean is over the labels with a word there (words) or over all, the paper's K (labels)."""
    knowledge_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of the neighbours' labels left out in each step of training; not in the paper."""
    branches: Literal["both", "text", "teacher"] = "both"
    """What is read: both, the text alone, or the knowledge alone (teacher); the paper's ablation."""
    reading: Literal["none", "mmhsa+r", "mhsa+r", "mhsa+r+mmhsa", "mmhsa+mhsa", "mmhsa+r+mhsa"] = "mmhsa+r+mhsa"
    """Layers: masked (mmhsa) and plain (mhsa) self-attention, residual (r); the paper's ablation."""
    heads: PositiveInt = 4
    """Heads of the self-attention."""
    hides: Literal["later", "earlier"] = "later"
    """Words that mmhsa hides from each other word: later ones (the paper's text) or earlier ones (its eqs. 8 and 9)."""
    pooling: Literal["mean+max", "mean"] = "mean+max"
    """How all places become one vector: mean and maximum, or the mean alone; the paper leaves it open."""
    bottleneck: PositiveInt = 512
    """Size of the layer between what was read and the labels."""
    linear_bottleneck: bool = False
    """A bottleneck without bias and ReLU, as in the paper's eq. 17."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Share of the bottleneck's numbers set to 0 in training."""
    output_bias: bool = True
    """Labels' scores have a bias, which starts from their frequency; false: none, as in the paper's eq. 18."""
    loss_over_labels: Literal["mean", "sum"] = "mean"
    """A document's loss is the mean over the labels or, as in the paper's eq. 19, the sum."""
    softmax: bool = False
    """Take softmaxed scores for the loss and as probabilities, as the paper's eqs. 18 and 19 have it."""
    encoded: bool = False
    """Give the bottleneck the vector of a pretrained encoder too; not in the paper."""
    votes: bool = False
    """Add the log-odds of the neighbours' votes to the scores; not in the paper."""
    names: bool = False
    """Add the similarity of the text to labels' names (with votes and search.vectors=tfidf); not in the paper."""
    voters: PositiveInt = 50
    """How many of the nearest documents vote."""
    vote_power: PositiveFloat = Field(2.0, allow_inf_nan=False)
    """A vote is the similarity to this power."""
    candidates: Literal["auto", "all", "neighbours", "tree", "both"] = "auto"
    """Labels to score: all, those of the neighbours, of the best clusters (tree), both; auto: by their number."""
    cluster_size: PositiveInt = 32
    """Labels of a cluster, at most."""
    beam_width: PositiveInt = 10
    """Clusters whose labels are scored."""
    search: TReaderSearch = TReaderSearch()
    words: WordSettings = WordSettings()
    training: TReaderTraining = TReaderTraining()
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(idf="plain"))
    encoder: EncoderSettings = EncoderSettings(name="minilm")

    @model_validator(mode="after")
    def _votes_have_a_start(self) -> Self:
        if self.votes and not self.output_bias:
            raise ValueError("votes=true starts from labels' biases; so it goes with output_bias=true")
        return self

    @model_validator(mode="after")
    def _names_can_be_compared(self) -> Self:
        if self.names and not (self.votes and self.search.vectors == "tfidf"):
            raise ValueError(
                "names=true adds to the votes, by tf-idf; so it goes with votes=true, search.vectors=tfidf"
            )
        return self
