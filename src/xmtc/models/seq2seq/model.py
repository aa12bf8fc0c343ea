"""`mlc2seq`, `sgm`, `su4mlc`: an encoder-decoder reads a document and emits its labels one after the other.

Nam, Loza Mencía, Kim, Fürnkranz: "Maximizing Subset Accuracy with Recurrent Neural Networks in Multi-label
Classification", NIPS 2017 (MLC2Seq).
Yang, Sun, Li, Ma, Wu, Wang: "SGM: Sequence Generation Model for Multi-label Classification", COLING 2018.
Lin, Su, Yang, Ma, Sun: "Semantic-Unit-Based Dilated Convolution for Multi-Label Text Classification", EMNLP 2018
(SU4MLC).

What they do: a bidirectional RNN reads the words; a second one emits labels, most frequent first, and then an end. Each
step attends to the words and knows the labels before it, so that labels depend on each other. MLC2Seq has GRUs, and
nothing forbids it a label twice. SGM has LSTMs; it reads beside the label before the mean embedding under the
distribution from which that came (global embedding), and a label that was emitted has the probability 0 from then on
(masked softmax). SU4MLC attends first to units that dilated convolutions make of several words, then to the words.

Where they differ: the papers predict one set of labels, the best sequence of a beam search. Ranked lists need a score
for each label: here it is the probability that the label is emitted at all, summed over all steps of the sequences that
the beam follows. RNNs have one layer. Above `adaptive_above` labels the softmax has clusters of rare labels, and SGM's
mean embedding takes each cluster as one vector. The decoder begins with the mean of the encoder's states; the output
bias begins with the frequencies of the labels; word vectors may be learned on the documents; the best weights on
validation documents are kept, and training ends when they get no better.

Cost: training a document takes tokens x hidden x (dimensions + hidden) for the encoder, and for each of its labels
tokens x hidden for the attention and labels x width for the softmax (with clusters, the head and the label's own). A
prediction takes beam_width times the latter for as many steps as are probable. Memory grows with words x dimensions and
labels x (label_dimensions + width).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.models.base import Model
from xmtc.models.config import ROUND, Capabilities, ModelConfig
from xmtc.models.explanation import Explanation
from xmtc.models.seq2seq.sequences import FREQUENCY, Vocabulary, label_sequences, ranks
from xmtc.nn.settings import Epoch, TrainingSettings
from xmtc.predictions import Predictions, ScoreKind
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.embedding_table import WordSettings
from xmtc.text.word_tokenizer import WordTokenizer

if TYPE_CHECKING:
    from torch import Tensor, nn

    from xmtc.models.seq2seq.learner import Ranker
    from xmtc.models.seq2seq.network import Seq2SeqNetwork
    from xmtc.nn.serialization import Arrays

WEIGHTS = "network"


class Seq2SeqTraining(TrainingSettings):
    """How the network is trained; unless it is asked for, weights are not averaged, as in the papers."""

    epochs: PositiveInt = 20
    batch_size: PositiveInt = 64
    learning_rate: PositiveFloat = 2e-3
    swa_start_epoch: Epoch | Annotated[tuple[Epoch, ...], Field(min_length=1)] | None = None
    max_grad_norm: PositiveFloat | None = 10.0
    epoch_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """What the learning rate is multiplied by after each epoch; SGM and SU4MLC halve it."""

    def lr_multiplier(self, step: int, steps: int) -> float:
        """See `TrainingSettings`.

        >>> [Seq2SeqTraining(epochs=2, epoch_decay=0.5).lr_multiplier(step, 6) for step in (0, 2, 3, 5)]
        [1.0, 1.0, 0.5, 0.5]
        """
        return float(self.epoch_decay ** (step * self.epochs // max(1, steps)))


class Seq2SeqConfig(ModelConfig):
    """The network, its labels' order and its training; the recipes in paper/ have the papers' values."""

    hidden: PositiveInt = 128
    """Size of the encoder's state in each direction; the decoder's has twice as much."""
    label_dimensions: PositiveInt = 128
    """Length of a label's embedding, which the decoder reads."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """Share of the words' states, labels' embeddings and decoder's outputs set to 0 in training."""
    order: str = FREQUENCY
    """In which order labels come: frequency, hierarchy (parents first), or a file with a label's key on each line."""
    max_labels: PositiveInt | None = None
    """Learn at most so many labels of a document, and emit no more; null: as many as a training document has."""
    beam_width: PositiveInt = 5
    """Label sequences that a prediction follows."""
    adaptive_above: PositiveInt = 10_000
    """With more labels than this the softmax has clusters: a fifth as many, the rest up to here, and the others."""
    words: WordSettings = WordSettings()
    training: Seq2SeqTraining = Seq2SeqTraining()


@dataclass(frozen=True)
class Design:
    """What tells the three papers' networks apart."""

    cell: Literal["gru", "lstm"]
    masked: bool = False
    global_embedding: bool = False
    semantic_units: bool = False


class Seq2Seq(Model):
    """What the three methods have in common."""

    Config = Seq2SeqConfig
    config: Seq2SeqConfig
    design: ClassVar[Design]

    tokenizer_: WordTokenizer
    vocabulary_: Vocabulary
    max_labels_: int  # the longest sequence of labels that was learned
    network_: Seq2SeqNetwork

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: every weight seven times (gradients, moments, mean, the best), token ids, the values of a batch."""
        assert corpus.texts is not None
        config = self.config
        words = min(config.words.max_words, corpus.texts.nbytes // 30 + 1000)
        labels = int(np.count_nonzero(corpus.label_counts))
        size = 2 * config.hidden
        scored = min(labels, config.adaptive_above)
        weights = words * config.words.dimensions + labels * (config.label_dimensions + size)
        weights += 30 * size * (size + config.label_dimensions)
        tokens = min(config.words.max_tokens, corpus.texts.nbytes // (6 * len(corpus)) + 50)
        steps = 2 + 2 * corpus.targets.nnz // len(corpus)
        per_document = tokens * (3 * config.words.dimensions + 6 * size + steps * config.hidden) + 3 * steps * scored
        return 28 * weights + 2 * corpus.texts.nbytes + 4 * config.training.batch_size * per_document + (100 << 20)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        import torch

        from xmtc.models.seq2seq.learner import Seq2SeqLearner
        from xmtc.nn.datasets import prepare_word_datasets
        from xmtc.nn.layers import seeded
        from xmtc.nn.trainer import train

        config = self.config
        self.vocabulary_ = Vocabulary.of(corpus.label_counts)
        rank = ranks(config.order, self.vocabulary_, corpus.labels)
        self.tokenizer_, table, train_set, valid_set = prepare_word_datasets(
            corpus, valid, config.words, config.training, config.seed
        )
        sequences = label_sequences(train_set.targets, self.vocabulary_, rank, config.max_labels, self.name)
        self.max_labels_ = max(1, int(sequences.lengths.max()) - 1)
        with seeded(derived_seed(config.seed, 0)):
            self.network_ = self._network(torch.from_numpy(table))
        self.network_.output.init_bias(np.bincount(sequences.ids, minlength=self.vocabulary_.end + 1))
        learner = Seq2SeqLearner(self.network_, train_set, sequences, valid_set, self._ranker())
        train(learner, config.training.at(0), derived_seed(config.seed, 1), checkpoints, WEIGHTS)

    def _network(self, table: Tensor) -> Seq2SeqNetwork:
        from xmtc.models.seq2seq.network import Seq2SeqNetwork

        return Seq2SeqNetwork(table, self.vocabulary_.end, self.config, self.design)

    def _networks(self) -> list[nn.Module]:
        return [self.network_]

    def _ranker(self) -> Ranker:
        from xmtc.models.seq2seq.learner import Ranker

        return Ranker(self.vocabulary_.labels, self.config.beam_width, self.max_labels_)

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.models.seq2seq.learner import PREDICT_BATCH
        from xmtc.nn.parallel import torch_threads

        assert corpus.texts is not None
        tokens = self.tokenizer_.encode(corpus.texts, self.config.words.max_tokens)
        with torch_threads(-(-len(tokens) // PREDICT_BATCH)) as cores:
            ids, scores = self._ranker().best(self.network_, tokens, k, cores)
        return Predictions.sorted(ids, scores, self._fitted(), self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        """The attention weights at the step that most probably emits the label."""
        from xmtc.models.seq2seq.beam import beam_steps
        from xmtc.nn.batching import padded
        from xmtc.nn.devices import device_of

        labels, symbol = self._fitted(), self.vocabulary_.symbol(label)
        if symbol is None:
            return Explanation(labels.name(label), 0.0, (), ("no training document had this label",), text=text)
        query = Corpus.of([text])
        assert query.texts is not None
        tokens = self.tokenizer_.encode(query.texts, self.config.words.max_tokens)
        device = device_of(self.network_)
        words, lengths = (part.to(device) for part in padded(tokens, np.zeros(1, np.int64)))
        score, best, attention, before = 0.0, -1.0, np.zeros(0, np.float32), list[int]()
        for step in beam_steps(self.network_, words, lengths, self.config.beam_width, self.max_labels_):
            emitted = step.emissions[0, :, symbol].exp().cpu().numpy()
            score += float(emitted.sum())
            at = int(emitted.argmax())
            if emitted[at] > best:
                best, attention = float(emitted[at]), step.attention[0, at].cpu().numpy()
                before = step.prefixes[0, at].cpu().tolist()
        spans = [
            (start, end, float(share))
            for (start, end), share in zip(self.tokenizer_.spans(text), attention, strict=False)
        ]
        names = [labels.name(int(self.vocabulary_.labels[symbol])) for symbol in before]
        place = f"after {', '.join(names)}" if names else "as the first label"
        evidence = [f"emitted {place} with probability {best:.3f}"]
        return Explanation.of_spans(labels.name(label), min(score, 1.0), text, spans, evidence)

    def _save(self, folder: FolderWriter) -> None:
        from xmtc.nn.serialization import write_network

        folder.text("tokenizer.json", self.tokenizer_.to_json())
        folder.arrays("vocabulary", {"labels": self.vocabulary_.labels, "max_labels": np.array([self.max_labels_])})
        write_network(folder, WEIGHTS, self.network_)

    def _load(self, folder: FolderReader) -> None:
        import torch

        from xmtc.nn.serialization import read_network, word_table_shape

        self.tokenizer_ = WordTokenizer.from_json(folder.text("tokenizer.json"))
        with folder.building("vocabulary"):
            arrays = folder.arrays("vocabulary")
            self.vocabulary_ = Vocabulary.from_array(arrays["labels"], len(self._fitted()))
            self.max_labels_ = int(arrays["max_labels"][0])
            if not 1 <= self.max_labels_ <= self.vocabulary_.end:
                raise ValueError(f"sequences of {self.max_labels_} labels")

        def empty(arrays: Arrays) -> Seq2SeqNetwork:
            return self._network(torch.empty(word_table_shape(arrays, len(self.tokenizer_))))

        self.network_ = read_network(folder, WEIGHTS, empty)


def _capabilities(summary: str) -> Capabilities:
    return Capabilities(
        summary=summary,
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        gpu=True,
        extra="neural",
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )


class Mlc2Seq(Seq2Seq):
    """GRUs with attention that emit labels in a fixed order.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 9, tags * 9)
    >>> quick = dict(batch_size=4, learning_rate=0.02, epochs=5)
    >>> small = dict(hidden=8, label_dimensions=8, words=dict(vectors="random", dimensions=8), training=quick)
    >>> Mlc2Seq(**small).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "mlc2seq"
    capabilities = _capabilities(
        "GRUs emit labels in a fixed order; a score is the probability that the label is emitted, by beam search"
    )
    design = Design("gru")


class Sgm(Seq2Seq):
    """LSTMs that emit each label at most once, and read the mean embedding under the distribution before."""

    name = "sgm"
    capabilities = _capabilities(
        "LSTMs emit labels, none twice, with a global embedding of what was probable before; scores as mlc2seq's"
    )
    design = Design("lstm", masked=True, global_embedding=True)


class Su4Mlc(Seq2Seq):
    """LSTMs that attend to units of several words, made by dilated convolutions, and then to the words."""

    name = "su4mlc"
    capabilities = _capabilities(
        "LSTMs emit labels, attending to units that dilated convolutions make and to words; scores as mlc2seq's"
    )
    design = Design("lstm", semantic_units=True)
