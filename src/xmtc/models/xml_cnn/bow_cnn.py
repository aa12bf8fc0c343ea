"""`bow_cnn`: regions of a text as sets of words, each set embedded, and what they have found pooled by place.

Johnson, Zhang: "Effective Use of Word Order for Text Categorization with Convolutional Neural Networks", NAACL 2015. As
a baseline for many labels: Liu, Chang, Wu, Yang, SIGIR 2017 (XML-CNN), section 2.5.

What it does: a region of, say, 20 words is a vector with a 1 for each word of the vocabulary that stands in it. A
matrix takes it to some hundred units with ReLU, without word vectors before; regions of several sizes have a matrix
each. The regions of a document are split into chunks, and the mean or the largest value of each unit in each chunk goes
to the labels, with no layer between.

Where it differs: Adam, and the cross-entropy of a sigmoid for each label (`loss=softmax`: of one softmax, as in the
XML-CNN paper) in place of stochastic gradient descent on the square loss; all regions instead of every second one, also
where one has the same words as the one before; the best weights on validation documents are kept, and training ends
when they get no better.

Cost: a region is the one before with a word more and a word less, so a document takes about 10 x tokens x units
additions for each size whatever the size, and 6 x units x chunks x labels operations for the scores; memory grows with
words x units and with units x chunks x labels, seven numbers for each weight. With more than 10,000 labels take
`xml_cnn`, which has a bottleneck there, or a tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.strings import Strings
from xmtc.models.config import ROUND, Capabilities, ModelConfig
from xmtc.models.explanation import Explanation
from xmtc.models.xml_cnn.flat import WEIGHTS, FlatTextModel
from xmtc.models.xml_cnn.model import XmlCnnTraining
from xmtc.predictions import ScoreKind
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader
from xmtc.text.embedding_table import VocabularySettings
from xmtc.text.token_store import TokenStore
from xmtc.text.word_tokenizer import WordTokenizer

if TYPE_CHECKING:
    from xmtc.models.xml_cnn.regions import BowCnnNetwork
    from xmtc.nn.serialization import Arrays


class BowCnnWords(VocabularySettings):
    """The words that regions are sets of."""

    max_words: int = Field(30_000, ge=3)
    """Size of the vocabulary, which has the words in most training documents (two places are reserved)."""


class BowCnnTraining(XmlCnnTraining):
    """How the network is trained: as XML-CNN, with larger steps, since its matrices begin with small numbers."""

    batch_size: PositiveInt = 32
    learning_rate: PositiveFloat = 3e-3


class BowCnnConfig(ModelConfig):
    """The network and its training; recipes/bow_cnn has the authors' settings."""

    regions: tuple[PositiveInt, ...] = Field((20,), min_length=1)
    """Words in a region, for each kind of region."""
    units: PositiveInt = 500
    """Numbers that a region becomes, for each kind."""
    chunks: PositiveInt = 10
    """Parts of a document in which the values of its regions are pooled."""
    pooling: Literal["average", "max"] = "average"
    """What is kept of a unit's values in a chunk: their mean or the largest."""
    normalise: bool = False
    """Scale the units z of each chunk by 1 / sqrt(1 + |z|^2): response normalisation."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Share of the pooled numbers set to 0 in training."""
    loss: Literal["sigmoid", "softmax"] = "sigmoid"
    """sigmoid: a probability for each label; softmax: probabilities that add up to 1 over all labels."""
    words: BowCnnWords = BowCnnWords()
    training: BowCnnTraining = BowCnnTraining()


class BowCnn(FlatTextModel):
    """Regions as sets of words, a matrix and ReLU, pooling in chunks, and a score for every label.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 9, tags * 9)
    >>> model = BowCnn(regions=[2], units=8, chunks=2, training=dict(batch_size=4, learning_rate=0.01)).fit(corpus)
    >>> model.predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "bow_cnn"
    capabilities = Capabilities(
        summary="regions of words as bags of words, embedded, pooled in chunks of the text; scores all labels",
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        gpu=True,
        extra="neural",
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )
    Config = BowCnnConfig
    config: BowCnnConfig

    network_: BowCnnNetwork

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: every weight seven times (gradients, moments, mean, the best), token ids, the values of a batch."""
        assert corpus.texts is not None
        config, labels = self.config, len(corpus.labels)
        words = min(config.words.max_words, corpus.texts.nbytes // 30 + 1000)
        units = len(config.regions) * config.units
        weights = units * (words + config.chunks * labels)
        tokens = min(config.words.max_tokens, corpus.texts.nbytes // (6 * len(corpus)) + 50)
        batch = config.training.batch_size * (6 * units * (tokens + max(config.regions)) + 6 * labels)
        return 28 * weights + corpus.texts.nbytes + 4 * batch + (100 << 20)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        from xmtc.models.xml_cnn.regions import BowCnnNetwork, SoftmaxLearner
        from xmtc.nn.datasets import train_valid_split
        from xmtc.nn.layers import seeded
        from xmtc.nn.level import LevelLearner

        assert corpus.texts is not None
        config = self.config
        self.tokenizer_ = WordTokenizer.train(corpus.texts, config.words.max_words, config.words.min_df)
        documents = train_valid_split(
            corpus, valid, self._encode(corpus.texts), self._encode, config.training.valid_documents, config.seed
        )
        seed = derived_seed(config.seed, 0)
        with seeded(seed):
            self.network_ = BowCnnNetwork(len(self.tokenizer_), len(corpus.labels), config)
        self._train(SoftmaxLearner if config.loss == "softmax" else LevelLearner, *documents, checkpoints, seed)

    def _encode(self, texts: Strings) -> TokenStore:
        return self.tokenizer_.encode(texts, self.config.words.max_tokens)

    def _explain(self, text: str, label: int) -> Explanation:
        """A score is the sum of what the words bring and of what the biases do; see `BowCnnNetwork.word_parts`."""
        import numpy as np

        from xmtc.nn.batching import padded
        from xmtc.nn.devices import device_of

        device = device_of(self.network_)
        ids, lengths = (part.to(device) for part in padded(self._encode(Strings.of([text])), np.zeros(1, np.int64)))
        parts, score = (found.cpu() for found in self.network_.word_parts(ids, lengths, label))
        probability = self.network_(ids, lengths)[0, label].sigmoid().item()
        shares: dict[str, float] = {}
        for (start, end), part in zip(self.tokenizer_.spans(text), parts.tolist(), strict=False):
            if part:
                word = text[start:end].lower()
                shares[word] = shares.get(word, 0.0) + part
        words = tuple(sorted(shares.items(), key=lambda entry: -abs(entry[1])))
        every = (score - parts.sum()).item()
        said = f"the words add up to {parts.sum().item():.3f}, and what every text has to {every:.3f}"
        return Explanation(
            self._fitted().name(label), probability, words, (f"{said}: a probability of {probability:.3f}",)
        )

    def _load(self, folder: FolderReader) -> None:
        from xmtc.models.xml_cnn.regions import BowCnnNetwork
        from xmtc.nn.serialization import read_network

        self.tokenizer_ = WordTokenizer.from_json(folder.text("tokenizer.json"))
        labels = len(self._fitted())

        def empty(_: Arrays) -> BowCnnNetwork:
            return BowCnnNetwork(len(self.tokenizer_), labels, self.config)

        self.network_ = read_network(folder, WEIGHTS, empty)
