"""`lightxml`: a transformer, fine-tuned with negatives that it chooses itself while it learns.

Jiang, Wang, Sun, Yang, Zhao, Zhuang: "LightXML: Transformer with Dynamic Negative Sampling for High-Performance Extreme
Multi-label Text Classification", AAAI 2021.

What it does: a document's vector is made of the [CLS] states of the encoder's 5 highest layers, with strong dropout.
With few labels one layer scores all of them. With many, labels are clustered as for `attentionxml` (balanced 2-means on
the tf-idf of their documents); a generator scores the clusters, and a discriminator, a bottleneck and a vector for each
label, scores the labels of the best clusters, the relevant ones always among them. As the generator learns, the
negatives grow harder. Both learn together by cross-entropy. A label's probability is that of its cluster times its own.
Weights are averaged over the last epochs (SWA).

Where it differs: the authors' code goes on without dropout after the evaluation in the middle of an epoch, and chooses
its checkpoint on test documents; neither is done here. Right labels of clusters that have no room take the places of
the worst cluster's labels, not of the best one's. Label vectors have no weight decay. Encoders that were trained for
the mean of their tokens give this mean of each layer, and XLNet its own <cls>, the last token (`encoder.pooling`). The
bias begins with the share of relevant clusters. The paper's ensemble is a blend of three such models, each with another
encoder.

Cost: training a document takes three times the encoder and width x clusters, then candidates x bottleneck; memory grows
with labels x bottleneck (flat: labels x 5 widths), up to seven numbers for each weight.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.labelspace.label_features import label_vectors
from xmtc.labelspace.tree import LabelTree, build_tree
from xmtc.models.config import ROUND, Capabilities, ModelConfig
from xmtc.models.fine_tuning import FineTunedModel
from xmtc.nn.encoders.settings import EncoderSettings, TransformerTraining
from xmtc.nn.settings import Epoch
from xmtc.predictions import Predictions, ScoreKind
from xmtc.seeding import derived_seed
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

if TYPE_CHECKING:
    from xmtc.models.lightxml.network import LightLearner, LightNetwork
    from xmtc.nn.datasets import LabelledTexts
    from xmtc.nn.encoders.encoder import Encoder

FLAT_UP_TO = 35_000  # labels; the paper is flat with 31,000


class LightXmlTraining(TransformerTraining):
    """How the network is trained: rates rise for `warmup_ratio` of all steps and then stay, for weight averaging."""

    epochs: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = 10
    batch_size: PositiveInt = 16
    learning_rate: PositiveFloat = 1e-3
    encoder_learning_rate: PositiveFloat = 1e-4
    warmup_ratio: float = Field(0.0, ge=0, lt=1)
    """Share of all steps in which the step sizes rise from 0; then they stay."""
    weight_decay: float = Field(0.01, ge=0, lt=1)
    swa_start_epoch: Epoch | Annotated[tuple[Epoch, ...], Field(min_length=1)] | None = 4
    max_grad_norm: PositiveFloat | None = None
    evaluate_every: PositiveInt = 200

    def lr_multiplier(self, step: int, steps: int) -> float:
        """Rising, then 1; the first step is number 0.

        >>> [LightXmlTraining(warmup_ratio=0.5).lr_multiplier(step, 4) for step in range(4)]
        [0.0, 0.5, 1.0, 1.0]
        """
        top = self.warmup_ratio * steps
        return step / top if step < top else 1.0


class LightXmlConfig(ModelConfig):
    """The encoder, the label clusters, and training; recipes/lightxml/paper has the paper's settings."""

    encoder: EncoderSettings = EncoderSettings()
    layers: PositiveInt = 5
    """From how many of the encoder's highest layers a document's vector is made."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Share of the numbers of a document's vector set to 0 in training."""
    tree: Literal["auto", "flat", "clusters"] = "auto"
    """flat: all labels are scored; clusters: those of the best clusters; auto: flat up to 35,000 labels."""
    max_leaf: PositiveInt = 100
    """Labels of a cluster, at most."""
    beam_width: PositiveInt = 10
    """Clusters whose labels are scored."""
    bottleneck: PositiveInt = 300
    """Length of a label's vector; for clusters."""
    training: LightXmlTraining = LightXmlTraining()
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


class LightXml(FineTunedModel):
    """A transformer with dynamic negative sampling.

    >>> LightXml(encoder=dict(name="minilm"), tree="clusters").title
    'LightXML-MiniLM'
    """

    name = "lightxml"
    capabilities = Capabilities(
        summary="a fine-tuned transformer with dynamic negative sampling",
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        gpu=True,
        extra="neural",
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )
    Config = LightXmlConfig
    config: LightXmlConfig

    network_: LightNetwork
    structure_file = "tree"

    @property
    def title(self) -> str:
        """LightXML alone only with an encoder of the paper."""
        encoder = self.config.encoder
        return "LightXML" if encoder.is_common else f"LightXML-{encoder.title}"

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the encoder, every other weight seven times, a batch's candidates, and tf-idf for the clustering."""
        from xmtc.nn.encoders.pretrained import encoder_size, training_memory

        assert corpus.texts is not None
        config, batch = self.config, min(self.config.training.batch_size, len(corpus))
        labels, width = (
            int(np.count_nonzero(corpus.label_counts)),
            encoder_size(config.encoder.name).width * config.layers,
        )
        encoder = training_memory(config.encoder, len(corpus), corpus.texts.nbytes, batch)
        if self._is_flat(labels):
            return encoder + 28 * labels * width + 12 * batch * labels
        clusters = 2 * labels // config.max_leaf + 1
        weights = clusters * width + config.bottleneck * (width + labels)
        candidates = batch * min(config.beam_width * config.max_leaf, labels) * config.bottleneck
        vectors = DocumentVectors(config.tfidf)
        clustering = vectors.memory_needed(corpus) + 12 * vectors.terms_of(corpus) * corpus.targets.nnz // len(corpus)
        return encoder + 28 * weights + 12 * candidates + clustering

    def _is_flat(self, labels: int) -> bool:
        tree = self.config.tree
        return tree == "flat" or (tree == "auto" and labels <= FLAT_UP_TO)

    @property
    def last_layers(self) -> int:  # type: ignore[override]
        """Of the encoder, whose vectors make a document's vector."""
        return self.config.layers

    def _structure_of(self, arrays: Mapping[str, NDArray[Any]]) -> LabelTree:
        tree = LabelTree.from_arrays(arrays)
        if tree.labels != len(self.seen_) or tree.depth > 2:
            raise ValueError("the labels of the tree are not those of the model")
        return tree

    def _structure_arrays(self) -> dict[str, NDArray[Any]]:
        return self.network_.tree.to_arrays()

    def _network(self, encoder: Encoder, structure: LabelTree) -> LightNetwork:
        from xmtc.models.lightxml.network import LightNetwork

        return LightNetwork(encoder, structure, self.config.bottleneck, self.config.dropout)

    def _learner(self, train: LabelledTexts, valid: LabelledTexts) -> LightLearner:
        from xmtc.models.lightxml.network import LightLearner

        return LightLearner(self.network_, train, valid, self.config.beam_width)

    def _before_training(self, learner: LightLearner, checkpoints: Checkpoints) -> None:
        clusters = learner.top_targets
        self.network_.init_output_bias(clusters.nnz / (clusters.shape[0] * clusters.shape[1]))

    def _label_structure(self, corpus: Corpus) -> LabelTree:
        """All labels below the root, or clusters between; of the labels that documents have."""
        config, labels = self.config, len(self.seen_)
        flat = LabelTree.of([[list(range(labels))]])
        if self._is_flat(labels):
            return flat
        features = DocumentVectors(config.tfidf).fit_transform(corpus)
        vectors = take_rows(label_vectors(features, corpus.weighted_targets, corpus.labels), self.seen_.ids)
        tree = build_tree(vectors, max_leaf=config.max_leaf, levels=1, seed=derived_seed(config.seed, 0))
        clusters = tree.levels[0].shape[1] if tree.depth == 2 else 1
        print(f"lightxml: {labels:,} labels in {clusters:,} clusters", file=sys.stderr)
        return tree

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.models.lightxml.network import best_labels
        from xmtc.nn.encoders.encoder import EncoderTexts, batches_of
        from xmtc.nn.parallel import torch_threads

        assert corpus.texts is not None
        texts = EncoderTexts(self._tokens(corpus.texts))
        with torch_threads(len(batches_of(texts))) as cores:
            ids, scores = best_labels(self.network_, texts, self.config.beam_width, k, cores)
        return Predictions.sorted(self.seen_.labels(ids), np.exp(scores), self._fitted(), self.score_kind)
