"""`c2ae`: documents and their labels meet in one latent space, from which the labels are read again.

Yeh, Wu, Ko, Wang: "Learning Deep Latent Spaces for Multi-Label Classification", AAAI 2017 (Canonical Correlated
AutoEncoder).

What it does: F_x takes a document's features into a latent space (hidden, hidden, latent), F_e takes its labels there
(hidden, latent), and F_d takes a point of that space to scores of all labels. Both shall take a document to the same
point, with latent dimensions that are uncorrelated (deep canonical correlation analysis, `lagrange`); and F_d(F_e)
shall put relevant labels above irrelevant ones: exp(score of the irrelevant one - score of the relevant one), the mean
over all pairs, times `alpha`. New documents are tagged by F_d(F_x).

Where it differs: all terms are means over documents (and, with the same ratio between them as in the paper, over latent
dimensions), and label vectors have length 1, so that the same weights suit batches of any size; Adam and the best
weights on validation documents instead of SGD with momentum, decaying steps and weight decay; against overfitting there
is dropout in F_x too; the latent space has 0.8 x labels dimensions as in the paper, but at most 512 unless it is
given. The sum over pairs of labels is a product of two sums, so that it takes labels, not labels^2.

Cost: training a document takes 3 x (features in it + labels + hidden + 3 x latent) x hidden products; memory grows with
(features + 2 x labels) x hidden, seven numbers for each weight, and with batch x labels. Prediction looks at all
labels. It is a method for hundreds or thousands of labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.models.base import Model
from xmtc.models.config import ROUND, Capabilities, ModelConfig
from xmtc.nn.settings import Epoch, TrainingSettings
from xmtc.predictions import Predictions, ScoreKind
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

if TYPE_CHECKING:
    from torch import nn

    from xmtc.models.c2ae.network import CoupledAutoencoder

WEIGHTS = "network"
LATENT_SHARE, MOST_LATENT = 0.8, 512


class C2aeTraining(TrainingSettings):
    """How the networks are trained; unless it is asked for, weights are not averaged."""

    epochs: PositiveInt = 50
    batch_size: PositiveInt = 100
    learning_rate: PositiveFloat = 1e-3
    swa_start_epoch: Epoch | Annotated[tuple[Epoch, ...], Field(min_length=1)] | None = None
    evaluate_every: PositiveInt = 50
    patience: PositiveInt = 20


class C2aeConfig(ModelConfig):
    """The three networks, the weights of the losses, training, and how texts become vectors."""

    latent: PositiveInt | None = None
    """Dimensions of the space that documents and labels share; null: 0.8 x labels, at most 512."""
    hidden: PositiveInt = 512
    """Size of the hidden layers."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Share of the numbers of the documents' hidden layers set to 0 in training."""
    alpha: NonNegativeFloat = Field(2.0, allow_inf_nan=False)
    """Weight of the ranking of labels against the distance between documents and their labels."""
    lagrange: NonNegativeFloat = Field(0.5, allow_inf_nan=False)
    """Weight of the demand that latent dimensions are uncorrelated."""
    training: C2aeTraining = C2aeTraining()
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


class C2ae(Model):
    """A latent space that documents and labels share.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 9, tags * 9)
    >>> small = dict(hidden=8, latent=2, dropout=0.1, training=dict(batch_size=4, learning_rate=0.01))
    >>> C2ae(**small).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "c2ae"
    capabilities = Capabilities(
        summary="an autoencoder of the labels; a second network maps features into its latent space",
        input=frozenset({"text", "features"}),
        score=ScoreKind.RANKING,
        gpu=True,
        extra="neural",
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )
    Config = C2aeConfig
    config: C2aeConfig

    vectors_: DocumentVectors
    network_: CoupledAutoencoder

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the documents' matrix, every weight seven times (gradients, moments, the best), values of a batch."""
        vectors, config = DocumentVectors(self.config.tfidf), self.config
        terms = vectors.terms_of(corpus)
        width = corpus.features.shape[1] if corpus.texts is None and corpus.features is not None else terms // 5 + 1000
        labels = len(corpus.labels)
        weights = (width + 2 * labels + config.hidden + 3 * self._latent(labels)) * config.hidden
        return vectors.memory_needed(corpus) + 28 * weights + 30 * config.training.batch_size * labels + (100 << 20)

    def _latent(self, labels: int) -> int:
        return self.config.latent or max(1, min(MOST_LATENT, round(LATENT_SHARE * labels)))

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        from xmtc.models.c2ae.network import CoupledLearner
        from xmtc.nn.datasets import examples_of
        from xmtc.nn.layers import seeded
        from xmtc.nn.trainer import train

        config = self.config
        self.vectors_ = DocumentVectors(config.tfidf)
        most = config.training.valid_documents
        everything, rows, valid_set = examples_of(corpus, valid, self.vectors_, most, config.seed)
        with seeded(derived_seed(config.seed, 0)):
            self.network_ = self._network(len(corpus.labels))
        learner = CoupledLearner(self.network_, everything.take(rows), valid_set, config.alpha, config.lagrange)
        train(learner, config.training.at(0), derived_seed(config.seed, 1), checkpoints, WEIGHTS)

    def _network(self, labels: int) -> CoupledAutoencoder:
        from xmtc.models.c2ae.network import CoupledAutoencoder

        config = self.config
        return CoupledAutoencoder(self.vectors_.width, labels, self._latent(labels), config.hidden, config.dropout)

    def _networks(self) -> list[nn.Module]:
        return [self.network_]

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        ids, scores = self.network_.best(self.vectors_.transform(corpus), k)
        return Predictions(ids, scores, self._fitted(), self.score_kind)

    def _save(self, folder: FolderWriter) -> None:
        from xmtc.nn.serialization import write_network

        self.vectors_.save(folder)
        write_network(folder, WEIGHTS, self.network_)

    def _load(self, folder: FolderReader) -> None:
        from xmtc.nn.serialization import read_network

        self.vectors_ = DocumentVectors.load(folder, self.config.tfidf)
        labels = len(self._fitted())

        self.network_ = read_network(folder, WEIGHTS, lambda _: self._network(labels))
