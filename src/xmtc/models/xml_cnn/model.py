"""`xml_cnn`: windows of several widths slide over the words, and what each finds in each part of the text counts.

Liu, Chang, Wu, Yang: "Deep Learning for Extreme Multi-label Text Classification", SIGIR 2017.

What it does: word vectors go through convolutions of several widths; each document is split into a few chunks, and of
every filter the largest value in each chunk is kept (dynamic max-pooling), so that it still counts where in the text
something stands. A small layer, the bottleneck, stands between these many numbers and the labels, all of which are
scored at once.

Where it differs: a document's own length is split, not the length that all documents are padded to, so that padding
changes nothing; words without a given vector can get one that is learned on the documents; an output bias that fits the
share of relevant labels; the best weights on validation documents are kept, and training ends when they get no better.

Cost: training a document takes about tokens x dimensions x filters x (the sum of the widths) / stride for the
convolutions, whose gradient is sparse, and 3 x bottleneck x labels for the scores; memory grows with words x dimensions
and labels x bottleneck, seven numbers for each weight. With far more than 100,000 labels take a method with a tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.models.config import ROUND, Capabilities, ModelConfig
from xmtc.models.xml_cnn.flat import WEIGHTS, FlatTextModel
from xmtc.nn.settings import Epoch, TrainingSettings
from xmtc.predictions import ScoreKind
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader
from xmtc.text.embedding_table import WordSettings
from xmtc.text.word_tokenizer import WordTokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from xmtc.models.xml_cnn.bilstm import BiLstmNetwork
    from xmtc.models.xml_cnn.network import ConvolutionNetwork
    from xmtc.nn.serialization import Arrays


class XmlCnnTraining(TrainingSettings):
    """How the network is trained; unless it is asked for, weights are not averaged, as in the paper."""

    batch_size: PositiveInt = 64
    learning_rate: PositiveFloat = 1e-3
    swa_start_epoch: Epoch | Annotated[tuple[Epoch, ...], Field(min_length=1)] | None = None


class XmlCnnConfig(ModelConfig):
    """The network and its training; recipes/xml_cnn has the settings of a later study."""

    network: Literal["cnn", "bilstm"] = "cnn"
    """cnn: convolutions; bilstm: a BiLSTM and the maximum over the words (an ablation of AttentionXML's paper)."""
    hidden: PositiveInt = 128
    """Size of the BiLSTM's state in each direction; for network=bilstm."""
    widths: tuple[PositiveInt, ...] = Field((2, 4, 8), min_length=1)
    """Words in a window of the convolution, for each kind of window."""
    filters: PositiveInt = 128
    """Filters for each width."""
    chunks: PositiveInt = 8
    """Parts of a document in which each filter's largest value is kept."""
    stride: PositiveInt = 1
    """Words by which a window moves on."""
    bottleneck: PositiveInt = 512
    """Size of the layer between the convolutions and the labels."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Share of the bottleneck's numbers (bilstm: of the states) set to 0 in training."""
    words: WordSettings = WordSettings()
    training: XmlCnnTraining = XmlCnnTraining()


class XmlCnn(FlatTextModel):
    """Convolutions over the words, dynamic max-pooling, a bottleneck, and a score for every label.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 9, tags * 9)
    >>> small = dict(filters=8, chunks=2, bottleneck=8, words=dict(vectors="random", dimensions=8))
    >>> XmlCnn(**small, training=dict(batch_size=4)).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "xml_cnn"
    capabilities = Capabilities(
        summary="convolutions over word vectors, dynamic max pooling and a bottleneck layer; scores all labels",
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        gpu=True,
        extra="neural",
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )
    Config = XmlCnnConfig
    config: XmlCnnConfig

    network_: ConvolutionNetwork | BiLstmNetwork

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: every weight seven times (gradients, moments, mean, the best), token ids, the values of a batch."""
        assert corpus.texts is not None
        config = self.config
        words = min(config.words.max_words, corpus.texts.nbytes // 30 + 1000)
        pooled = len(config.widths) * config.filters * config.chunks
        weights = words * config.words.dimensions + config.bottleneck * (len(corpus.labels) + pooled)
        tokens = min(config.words.max_tokens, corpus.texts.nbytes // (6 * len(corpus)) + 50)
        per_token = 5 * config.words.dimensions + 3 * config.filters
        batch = config.training.batch_size * (tokens * per_token + 6 * len(corpus.labels))
        return 28 * weights + corpus.texts.nbytes + 4 * batch + (100 << 20)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        import torch

        from xmtc.nn.datasets import prepare_word_datasets
        from xmtc.nn.layers import seeded
        from xmtc.nn.level import LevelLearner

        config = self.config
        self.tokenizer_, table, train_set, valid_set = prepare_word_datasets(
            corpus, valid, config.words, config.training, config.seed
        )
        seed = derived_seed(config.seed, 0)
        with seeded(seed):
            self.network_ = self._network(torch.from_numpy(table), len(corpus.labels))
        self._train(LevelLearner, train_set, valid_set, checkpoints, seed)

    def _network(self, table: Tensor, labels: int) -> ConvolutionNetwork | BiLstmNetwork:
        from xmtc.models.xml_cnn.bilstm import BiLstmNetwork
        from xmtc.models.xml_cnn.network import ConvolutionNetwork

        kind = ConvolutionNetwork if self.config.network == "cnn" else BiLstmNetwork
        return kind(table, labels, self.config)

    def _load(self, folder: FolderReader) -> None:
        import torch

        from xmtc.nn.serialization import read_network, word_table_shape

        self.tokenizer_ = WordTokenizer.from_json(folder.text("tokenizer.json"))
        labels = len(self._fitted())

        def empty(arrays: Arrays) -> ConvolutionNetwork | BiLstmNetwork:
            return self._network(torch.empty(word_table_shape(arrays, len(self.tokenizer_))), labels)

        self.network_ = read_network(folder, WEIGHTS, empty)
