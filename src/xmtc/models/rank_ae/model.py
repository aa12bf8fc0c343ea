"""`rank_ae`: documents and label sets meet in one small space, from which the labels are read by a ranking loss.

Wang, Chen, Sun, Qiu, Huang, Li: "Ranking-Based Autoencoder for Extreme Multi-label Classification", NAACL 2019.

What it does: F makes a point of a document's features: the vector of each feature, weighed by its tf-idf value (spatial
attention) and, channel by channel, by a small network that sees this very vector (channel attention), their sum, one
layer. E makes a point of a set of labels, and D scores all labels from a point, two layers each. Learned are Lh, the
squared distance between F(x) and E(y), plus `balance` times Lae, which asks that D(E(y)) has every relevant label above
every irrelevant one by a `margin` (see `xmtc.models.rank_ae.loss`). A document's labels are D(F(x)).

Where it differs: E's points are standardised over the batch, since otherwise Lh can be made small by making all points
small; F's are not, so that F can shrink what it cannot know and D is not led astray. E sees a part of the labels and D
has to find all of them (`denoise`). D also learns from F(x), which is what it reads later (`x_decode`), by cross-
entropy: the ranking loss looks at the worst label, and from a document, which does not tell all its labels, that is
often one that nobody could guess. Training adds noise to the features, which does what L2 does for linear models.
Scores are unbounded (`output="raw"`) or pass a sigmoid, where the margin has the paper's meaning. The sum over features
is divided by the root of their number, since a mean vanishes for long documents. Weights are averaged. Variants of the
paper's studies: `attention=False`, `loss="bce"`. With more than 100,000 labels D scores, in training, the relevant
labels of the batch and `negative_samples` others; prediction scores all labels, some documents at a time.

Cost: training a document takes 3 x words x channels^2 / 2 for the attention and 3 x hidden x labels (or candidates),
twice with `x_decode`; memory grows with (words x channels + 2 x labels x hidden), six numbers for each weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from scipy.special import expit

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr
from xmtc.errors import ConfigError, XmtcError
from xmtc.models.base import Model
from xmtc.models.config import ROUND, Capabilities, ModelConfig
from xmtc.models.explanation import Explanation
from xmtc.nn.settings import Epoch, TrainingSettings
from xmtc.predictions import Predictions, ScoreKind
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.embedding_table import RANDOM
from xmtc.text.tfidf import TfIdfSettings
from xmtc.text.word_vectors import read_vectors

if TYPE_CHECKING:
    from torch import Tensor, nn

    from xmtc.models.rank_ae.network import AutoEncoder, AutoEncoderLearner
    from xmtc.nn.datasets import Examples

WEIGHTS = "network"
MANY_LABELS = 100_000
RANDOM_SCALE = 0.1
SHOWN, LEFT_OUT = 3, 20  # words in the sentences of an explanation, and those that are tried for them


class RankAeTraining(TrainingSettings):
    """How the network is trained; an epoch is short, so there are more of them, and rare features need larger steps."""

    epochs: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = 25
    batch_size: PositiveInt = 256
    learning_rate: PositiveFloat = 3e-3
    row_learning_rate: PositiveFloat | None = 0.01
    swa_start_epoch: Epoch | Annotated[tuple[Epoch, ...], Field(min_length=1)] | None = 6
    evaluate_every: PositiveInt = 50
    patience: PositiveInt = 8
    valid_documents: Annotated[int, Field(ge=0)] = 2000
    valid_share: float = Field(0.1, gt=0, lt=1)
    """Share of the corpus, at most, that is held out for validation if no documents are given."""


class RankAeConfig(ModelConfig):
    """The network, what it learns, and how; recipes/rank_ae/paper has the paper's form.

    `feature_noise` is for every feature, present or not, of documents of length 1: what L2 regularisation is to a
    linear model, and with few documents most of what keeps the network from learning them by heart.
    """

    channels: PositiveInt = 100
    """Length of a feature's vector (C in the paper)."""
    ratio: PositiveInt = 4
    """Reduction in the channel attention (r in the paper)."""
    attention: bool = True
    """Weigh features by channel attention; false is the paper's ablation."""
    values: Literal["plain", "scaled"] = "scaled"
    """A document's tf-idf values: plain (as in the paper), or scaled to a mean square of 1."""
    pooling: Literal["mean", "sum", "root"] = "root"
    """What the sum over a document's features is divided by: their number (mean), nothing (sum), its root (root)."""
    latent: PositiveInt = 100
    """Dimensions of the space that documents and labels share (h in the paper)."""
    hidden: PositiveInt = 512
    """Size of the layer between labels and the latent space, in both directions."""
    activation: Literal["relu", "tanh"] = "relu"
    """Between the two layers from labels to the latent space, and back: relu or tanh (the paper does not say)."""
    loss: Literal["ranking", "bce"] = "ranking"
    """What label sets are reconstructed by: ranking (margins between labels) or bce (cross-entropy)."""
    output: Literal["raw", "sigmoid"] = "raw"
    """Scores for the loss: raw, or sigmoid (between 0 and 1, as in the paper)."""
    margin: NonNegativeFloat = Field(1.0, allow_inf_nan=False)
    """By how much a relevant label should score above an irrelevant one."""
    normalise: bool = True
    """Divide the losses by the numbers of labels, so that documents with many do not count more."""
    balance: PositiveFloat = Field(1.0, allow_inf_nan=False)
    """Weight of the reconstruction of labels against the distance between documents and labels."""
    x_decode: NonNegativeFloat = Field(10.0, allow_inf_nan=False)
    """Weight of learning the labels from the document's own point; 0 (as in the paper): not at all."""
    x_loss: Literal["ranking", "bce"] = "bce"
    """The loss of x_decode: ranking or bce."""
    standardise: bool = True
    """Standardise the points of label sets over a batch, so that they cannot all shrink to 0."""
    denoise: float = Field(0.1, ge=0, lt=1)
    """Share of a document's labels hidden from the encoder of labels in training."""
    feature_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of a document's features left out in training."""
    feature_noise: NonNegativeFloat = Field(0.02, allow_inf_nan=False)
    """Size of normal noise added to every feature in training: with few documents it prevents learning by heart."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the numbers of a document's vector set to 0 in training."""
    negative_samples: PositiveInt = 2048
    """With more than 100,000 labels, how many others are scored beside a batch's own in training."""
    output_bias: Literal["zero", "prior"] = "prior"
    """Where the labels' biases begin: zero, or prior (the log-odds of their shares)."""
    vectors: str = RANDOM
    """A file of word vectors to begin with, of length channels, or random."""
    refit: bool = True
    """Train anew on all documents at the end, for as long as was best on those held out."""
    training: RankAeTraining = RankAeTraining()
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))

    @model_validator(mode="after")
    def _margin_in_range(self) -> Self:
        if self.output == "sigmoid" and self.margin > 1:
            raise ValueError(f"margin={self.margin}: scores between 0 and 1 can be at most 1 apart; or set output=raw")
        if self.output == "raw" and self.margin == 0:
            raise ValueError("margin=0: equal scores for all labels would be perfect; choose a margin above 0")
        if self.feature_noise and (self.values, self.pooling) != ("scaled", "root"):
            raise ValueError("feature_noise is for values=scaled and pooling=root; set feature_noise=0")
        return self


class RankAe(Model):
    """An auto-encoder of label sets whose latent space is shared with the documents' features.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 9, tags * 9)
    >>> small = dict(channels=8, latent=4, hidden=8, training=dict(batch_size=4, learning_rate=0.02))
    >>> RankAe(**small).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "rank_ae"
    capabilities = Capabilities(
        summary="dual attention over words and an autoencoder of label sets share a latent space; margin ranking loss",
        input=frozenset({"text", "features"}),
        score=ScoreKind.RANKING,
        explain=True,
        gpu=True,
        extra="neural",
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )
    Config = RankAeConfig
    config: RankAeConfig

    vectors_: DocumentVectors
    network_: AutoEncoder

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the documents' matrix, every weight six times, and the values of a batch."""
        config, labels = self.config, len(corpus.labels)
        vectors = DocumentVectors(config.tfidf)
        entries = vectors.terms_of(corpus)
        if corpus.texts is not None:
            features = corpus.texts.nbytes // 30 + 1000
        else:
            features = 0 if corpus.features is None else corpus.features.shape[1]
        weights = features * config.channels + 2 * labels * config.hidden
        scored = labels if labels <= MANY_LABELS else config.negative_samples + 20 * config.training.batch_size
        batch = config.training.batch_size * (8 * config.channels * entries // len(corpus) + 8 * scored)
        return vectors.memory_needed(corpus) + 24 * weights + 4 * batch + (100 << 20)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        from xmtc.models.rank_ae.network import AutoEncoderLearner
        from xmtc.nn.datasets import examples_of
        from xmtc.nn.layers import seeded
        from xmtc.nn.trainer import train

        config, seed = self.config, derived_seed(self.config.seed, 0)
        self.vectors_ = DocumentVectors(config.tfidf)
        most = config.training.valid_documents
        share = config.training.valid_share
        everything, train_set, valid_set = examples_of(corpus, valid, self.vectors_, most, config.seed, share)
        table = self._table()
        shares = (corpus.label_counts + 1) / (len(corpus) + 2)

        def learner(documents: Examples, check: Examples) -> AutoEncoderLearner:
            with seeded(seed):
                self.network_ = self._network(table.clone(), len(corpus.labels))
            if config.output_bias == "prior":
                self.network_.init_output_bias(shares)
            return AutoEncoderLearner(self.network_, documents, check, config)

        settings = config.training.at(0)
        steps = train(learner(everything.take(train_set), valid_set), settings, seed, checkpoints, WEIGHTS)
        if config.refit and len(train_set) < len(corpus):
            epochs = max(1, round(steps * settings.batch_size * settings.gradient_accumulation / len(train_set)))
            settings = settings.model_copy(update={"epochs": epochs})
            nothing = everything.take(np.zeros(0, np.int64))
            train(learner(everything, nothing), settings, seed, checkpoints, f"{WEIGHTS}-refit")

    def _table(self) -> Tensor:
        """The features' vectors to begin with."""
        import torch

        config = self.config
        rng = np.random.default_rng(derived_seed(config.seed, 17))
        if config.vectors == RANDOM:
            table = rng.normal(0, RANDOM_SCALE, (self.vectors_.width, config.channels))
            return torch.from_numpy(table.astype(np.float32))
        if self.vectors_.tfidf is None:
            raise ConfigError(f"rank_ae: vectors={config.vectors!r} are for words, and this corpus has features only")
        words = ["", *self.vectors_.tfidf.terms]  # the first row of such a table is for padding
        found = read_vectors(config.vectors, only=set(words))
        if found.matrix.shape[1] != config.channels:
            raise ConfigError(
                f"rank_ae: the vectors of {config.vectors} have {found.matrix.shape[1]} numbers; "
                f"set channels={found.matrix.shape[1]}"
            )
        return torch.from_numpy(found.table(words, rng, RANDOM_SCALE)[1:])

    def _network(self, table: Tensor, labels: int) -> AutoEncoder:
        from xmtc.models.rank_ae.network import AutoEncoder

        return AutoEncoder(table, labels, self.config, sparse=labels > MANY_LABELS)

    def _networks(self) -> list[nn.Module]:
        return [self.network_]

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.models.rank_ae.network import PREDICT_BATCH, best_labels
        from xmtc.nn.parallel import torch_threads

        features = self.vectors_.transform(corpus)
        with torch_threads(-(-len(corpus) // PREDICT_BATCH)) as cores:
            ids, scores = best_labels(self.network_, features, k, cores)
        return Predictions.sorted(ids, self._shown(scores), self._fitted(), self.score_kind)

    def _shown(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores as the loss saw them."""
        return np.asarray(expit(scores), np.float32) if self.config.output == "sigmoid" else scores

    def _explain(self, text: str, label: int) -> Explanation:
        """The share of the attention that each word has: its tf-idf value times the mean over its channels."""
        import torch

        from xmtc.models.rank_ae.dual_attention import Bags
        from xmtc.nn.devices import device_of

        if self.vectors_.tfidf is None:
            raise XmtcError("this rank_ae model was trained on features, so no words explain its answers")
        query = self.vectors_.transform(Corpus.of([text]))
        words = [self.vectors_.tfidf.terms[int(at)] for at in query.indices]
        with torch.inference_mode():
            bags, device = Bags.of(query, scaled=self.network_.scaled), device_of(self.network_)
            channels = self.network_.attention.channels(bags.to(device)).cpu().numpy()  # (words, channels)
            attention = np.nan_to_num(np.abs(bags.values.numpy()) * channels.mean(1))
            order = np.argsort(-attention, kind="stable")
            fewer = Bags.of(_left_out(query, order[:LEFT_OUT]), scaled=self.network_.scaled).to(device)
            scores = self._shown(self.network_(fewer)[:, label].cpu().numpy())
        share = attention / (attention.sum() or 1)
        falls = scores[0] - scores[1:]
        evidence = [
            f"{words[at]}: tf-idf {query.data[at]:.3f}, channel attention {channels[at].min():.2f} to "
            f"{channels[at].max():.2f}, mean {channels[at].mean():.2f}"
            for at in order[:SHOWN]
        ]
        evidence += [
            f"without {words[order[at]]} the score would be {scores[1 + at]:.3f}" for at in np.argsort(-falls)[:SHOWN]
        ]
        shares = tuple((words[at], float(share[at])) for at in order)
        return Explanation(self._fitted().name(label), float(np.nan_to_num(scores[0])), shares, tuple(evidence))

    def _save(self, folder: FolderWriter) -> None:
        from xmtc.nn.serialization import write_network

        self.vectors_.save(folder)
        write_network(folder, WEIGHTS, self.network_)

    def _load(self, folder: FolderReader) -> None:
        import torch

        from xmtc.nn.serialization import read_network

        self.vectors_ = DocumentVectors.load(folder, self.config.tfidf)
        labels, shape = len(self._fitted()), (self.vectors_.width, self.config.channels)

        self.network_ = read_network(folder, WEIGHTS, lambda _: self._network(torch.empty(shape), labels))


def _left_out(query: Csr, entries: NDArray[np.int64]) -> Csr:
    """One row again and again, whole and then without each of some of its entries."""
    values = np.tile(query.data, (1 + len(entries), 1))
    values[np.arange(len(entries)) + 1, entries] = 0
    ends = np.arange(len(values) + 1) * query.nnz
    copies = make_csr(values.ravel(), np.tile(query.indices, len(values)), ends, (len(values), query.shape[1]))
    copies.eliminate_zeros()
    return copies
