"""`aplc_xlnet`: a pretrained transformer reads the text; labels are scored in clusters by how frequent they are.

Ye, Chen, Wang, Davison: "Pretrained Generalized Autoregressive Model with Adaptive Probabilistic Label Clusters for
Extreme Multi-label Text Classification", ICML 2020.

What it does: XLNet reads the first tokens of a text, and its last token's vector goes through a hidden layer. Frequent
labels, the head, are scored from all of that; rare ones are in tails, whose labels are scored from fewer numbers and,
in training, only for documents that have one of them (`xmtc.models.aplc_xlnet.adaptive_clusters`). All is trained
together: AdamW, a learning rate each for encoder, hidden layer and output, which fall linearly.

Where it differs: any encoder of Hugging Face's form can take the place of XLNet, and then the method is called
APLC-<encoder> (`title`). Lower layers can be frozen (`encoder.frozen_layers`); what they find is computed once. Labels
without training documents are left out. The authors' code holds nothing out and evaluates all its checkpoints on test
documents; here documents are held out, the weights with their best nDCG@5 are kept, and weights can be averaged. What
is above the encoder can be trained first, alone (`training.head_epochs`). Loss and tails are those of the authors' code
by default; options have what the paper prints (`loss_mean`, `root_negatives`, `tails`), see
`xmtc.models.aplc_xlnet.adaptive_clusters`. Documents of similar length share a batch.

Cost: the encoder takes 2 x its weights x tokens for a document, three times that in training (a fifth of it if four of
five layers are frozen), the output `xmtc.models.aplc_xlnet.costs`. Memory grows with all weights, seven numbers for
each that is learned, and the frozen part's output, 2 bytes x tokens x width, in memory or in a temporary file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.errors import ConfigError
from xmtc.models.aplc_xlnet.costs import parameter_count
from xmtc.models.aplc_xlnet.label_clusters import FrequencyClusters
from xmtc.models.config import ROUND, Capabilities, ModelConfig
from xmtc.models.fine_tuning import FineTunedModel
from xmtc.nn.encoders.settings import EncoderSettings, TransformerTraining
from xmtc.predictions import Predictions, ScoreKind
from xmtc.seeding import derived_seed

if TYPE_CHECKING:
    from xmtc.models.aplc_xlnet.network import AplcLearner, AplcNetwork
    from xmtc.nn.datasets import LabelledTexts
    from xmtc.nn.encoders.encoder import Encoder

HEAD = "head"
Partition = Literal["even", "auto"] | tuple[PositiveInt, ...] | tuple[PositiveFloat, ...]
MANY_LABELS = (100_000, 600_000)  # from where the paper has three and four clusters


class AplcTraining(TransformerTraining):
    """How the network is trained; `learning_rate` is that of the output, as `encoder_learning_rate` of the encoder.

    For `head_epochs` only what is above the encoder is trained first, with vectors that are computed once: seconds, and
    an encoder of which each epoch takes minutes then begins with an output that knows what it wants.
    """

    hidden_learning_rate: PositiveFloat = 1e-4
    """Step size for the hidden layer."""
    head_epochs: Annotated[int, Field(ge=0)] = 0
    """Epochs at first in which only what is above the encoder is trained, on vectors computed once."""

    @property
    def of_head(self) -> Self:
        """The settings of the head's own epochs."""
        return self.model_copy(update={"epochs": self.head_epochs, "swa_start_epoch": None, "devices": 1})

    def rate_of(self, name: str, of_rows: bool) -> float:
        """The learning rate of a weight."""
        return self.hidden_learning_rate if name.startswith("hidden.") else super().rate_of(name, of_rows)


class AplcConfig(ModelConfig):
    """The encoder, the label clusters, and training; recipes/aplc_xlnet/paper has the paper's form.

    `partition` as proportions adds up to 1, such as [0.7, 0.2, 0.1]; as cut-offs it rises, such as [1000, 4000].
    """

    encoder: EncoderSettings = EncoderSettings()
    hidden: PositiveInt | None = None
    """Width of the hidden layer; null: that of the encoder."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the hidden layer's numbers set to 0 in training."""
    partition: Partition = "even"
    """How labels, most frequent first, are cut into clusters: even, auto (lowest cost), proportions, or cut-offs."""
    clusters: PositiveInt | None = None
    """How many clusters of labels; null: 2, above 100,000 labels 3, above 600,000 labels 4."""
    decay: float = Field(2.0, ge=1, allow_inf_nan=False)
    """How many times narrower each tail cluster is than the one before."""
    tails: Literal["normalised", "plain"] = "normalised"
    """Whether a tail's projection has layer normalisation and ReLU, as in the authors' code, or is plain."""
    root_negatives: bool = True
    """Train the logits of tails that a document does not need towards no, as in the authors' code."""
    loss_mean: Literal["documents", "comparisons"] = "documents"
    """The loss is a mean over documents, each with its own mean, or over all comparisons (equation 5 of the paper)."""
    training: AplcTraining = AplcTraining()

    @field_validator("partition", mode="wrap")
    @classmethod
    def _partition_is_one_of_four(cls, value: object, parse: Callable[[object], Partition]) -> Partition:
        try:
            return parse(value)
        except ValueError as error:
            kinds = "even, auto, proportions above 0 such as [0.7, 0.2, 0.1], or cut-offs such as [1000, 4000]"
            raise ValueError(f"must be {kinds}") from error

    @model_validator(mode="after")
    def _partition_makes_sense(self) -> Self:
        if isinstance(self.partition, str):
            return self
        given = list(self.partition)
        if self.proportions is None:
            if not given or any(a >= b for a, b in pairwise(given)):
                raise ValueError(f"partition={given}: cut-offs must rise")
        elif abs(sum(given) - 1) > 1e-6:
            raise ValueError(f"partition={given}: proportions must add up to 1, these add up to {sum(given):g}")
        implied = len(given) + (self.proportions is None)
        if self.clusters not in (None, implied):
            raise ValueError(f"partition={given} makes {implied} clusters, not clusters={self.clusters}")
        return self

    @property
    def proportions(self) -> list[float] | None:
        """The proportions, if these are given."""
        if isinstance(self.partition, str) or all(isinstance(value, int) for value in self.partition):
            return None
        return [float(value) for value in self.partition]


class AplcXlNet(FineTunedModel):
    """A pretrained encoder, a hidden layer, and adaptive probabilistic label clusters.

    >>> AplcXlNet(encoder=dict(name="minilm"), clusters=3).title
    'APLC-MiniLM'
    """

    name = "aplc_xlnet"
    capabilities = Capabilities(
        summary="a fine-tuned transformer with labels in clusters by frequency, so that rare labels cost little",
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        gpu=True,
        extra="neural",
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )
    Config = AplcConfig
    config: AplcConfig

    network_: AplcNetwork
    structure_file = "clusters"

    @property
    def title(self) -> str:
        """APLC-XLNet only with XLNet."""
        encoder = self.config.encoder.title
        is_xlnet = "xlnet" in encoder.lower()
        if self.labels_ is not None:  # then we know it
            is_xlnet = self.network_.encoder.architecture == "xlnet"
        return "APLC-XLNet" if is_xlnet else f"APLC-{encoder}"

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: weights, those that are learned seven times, the values of a batch, and what frozen layers find."""
        from xmtc.nn.encoders.pretrained import encoder_size, training_memory

        assert corpus.texts is not None
        config, size = self.config, encoder_size(self.config.encoder.name)
        counts = corpus.label_counts[corpus.label_counts > 0]
        output = parameter_count(self._clusters(counts, len(corpus)).sizes, config.hidden or size.width, config.decay)
        encoder = training_memory(config.encoder, len(corpus), corpus.texts.nbytes, config.training.batch_size)
        return encoder + 28 * output + 16 * min(config.training.batch_size, len(corpus)) * len(counts)

    def _label_structure(self, corpus: Corpus) -> FrequencyClusters:
        return self._clusters(corpus.label_counts[self.seen_.ids], len(corpus))

    def _structure_of(self, arrays: Mapping[str, NDArray[Any]]) -> FrequencyClusters:
        clusters = FrequencyClusters.from_arrays(arrays)
        if clusters.labels != len(self.seen_):
            raise ValueError("the labels of the clusters are not those of the model")
        return clusters

    def _structure_arrays(self) -> dict[str, NDArray[Any]]:
        return self.network_.output.clusters.to_arrays()

    def _network(self, encoder: Encoder, structure: FrequencyClusters) -> AplcNetwork:
        from xmtc.models.aplc_xlnet.network import AplcNetwork

        return AplcNetwork(encoder, structure, self.config)

    def _learner(self, train: LabelledTexts, valid: LabelledTexts) -> AplcLearner:
        from xmtc.models.aplc_xlnet.network import AplcLearner

        return AplcLearner(self.network_, train, valid)

    def _before_training(self, learner: AplcLearner, checkpoints: Checkpoints) -> None:
        if self.config.training.head_epochs:
            self._train_head(learner, checkpoints)

    def _train_head(self, learner: AplcLearner, checkpoints: Checkpoints) -> None:
        """Train what is above the encoder, with the encoder as it came."""
        import torch

        from xmtc.models.aplc_xlnet.network import HeadLearner, LabelledVectors
        from xmtc.nn.parallel import torch_threads
        from xmtc.nn.trainer import train

        with torch_threads() as cores:

            def encoded(part: LabelledTexts) -> LabelledVectors:
                vectors = torch.from_numpy(learner.network.encoder.vectors(part.texts, cores))
                return LabelledVectors(vectors, part.targets, part.weights)

            head = HeadLearner(learner.network, encoded(learner.train), encoded(learner.valid))
        learner.network.scale_hidden(head.train.vectors)
        train(head, self.config.training.of_head, derived_seed(self.config.seed, 1), checkpoints, HEAD)

    def _clusters(self, counts: NDArray[np.int64], documents: int) -> FrequencyClusters:
        """The clusters of labels that occur so often."""
        config, labels = self.config, len(counts)
        if config.proportions is not None:
            return FrequencyClusters.by_proportions(counts, config.proportions)
        if not isinstance(config.partition, str):
            return FrequencyClusters.by_cut_offs(counts, [int(end) for end in config.partition])
        clusters = config.clusters or min(labels, 2 + sum(labels > many for many in MANY_LABELS))
        if clusters > labels:
            raise ConfigError(f"aplc_xlnet: clusters={clusters} are more than the {labels} labels; take fewer")
        if clusters == 1:
            return FrequencyClusters.head_only(counts)
        if config.partition == "auto":
            return FrequencyClusters.cheapest(counts, documents, clusters - 1, config.decay)
        return FrequencyClusters.by_cut_offs(counts, [labels * at // clusters for at in range(1, clusters)])

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.models.aplc_xlnet.network import best_labels
        from xmtc.nn.encoders.encoder import EncoderTexts, batches_of
        from xmtc.nn.parallel import torch_threads

        assert corpus.texts is not None
        texts = EncoderTexts(self._tokens(corpus.texts))
        with torch_threads(len(batches_of(texts))) as cores:
            ids, scores = best_labels(self.network_, texts, k, cores)
        return Predictions(self.seen_.labels(ids), scores, self._fitted(), self.score_kind)
