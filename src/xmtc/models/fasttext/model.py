"""`fasttext`: a text is the mean of the vectors of its words and n-grams, and each label scores that vector.

Joulin, Grave, Bojanowski, Mikolov: "Bag of Tricks for Efficient Text Classification", EACL 2017.

What it does: every word, and every bucket that n-grams of words (`word_ngrams`) or of letters (`char_ngrams`) are
hashed into, has a vector; a text's vector is their mean, and a label's score its product with the label's weights. Both
are learned by stochastic gradient descent, one text after the other, with steps that become smaller by and by. The loss
is one-vs-all logistic loss (`ova`), a softmax over all labels with one of a text's labels drawn each time (`softmax`),
or the logistic loss of one relevant label and a few that are drawn (`ns`, negative sampling). No hierarchical softmax.

Where it differs from the C++ fastText, and why:
* Its threads write into the same weights without asking (Hogwild), so that no two runs are alike. Here the same seed
  gives the same result: 16 texts at a time are multiplied with all labels' weights, which is faster on one core than
  one by one on two, and labels' weights still change as if one text came after the other; see `kernels/fasttext.py`.
  Words' vectors wait for the 16 texts.
* Texts come in another random order in each epoch, not as the file has them. Words are found by xmtc's own rules, in
  lower case, and must stand in `min_df` texts; fastText splits at white space and counts occurrences.
* With `ova` every score begins at the log-odds of the average label, and labels' weights take smaller steps for longer
  text vectors, as Toulis and Airoldi's implicit gradient descent does. Without both, steps as large as short texts
  need (`learning_rate` of 1 and more) go astray, there as here.
* Buckets that no training text fills have no vector: fastText keeps all two million, most of them random, in memory
  and in its file, and adds these random vectors to new texts.
* `ova` is the default: with several labels a text it is more accurate. Texts without labels are left out, as there.

Cost: with `ova` and `softmax` a text takes about 3 x labels x dimensions products in each epoch, so they are for some
10,000 labels; with `ns` it does not depend on the number of labels. Training uses one core, prediction, which looks at
all labels, every core.
Memory: (words + filled buckets + labels) x dimensions.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.weights import drawn_by_weight
from xmtc.errors import ConfigError, XmtcError
from xmtc.models.base import Model
from xmtc.models.config import ROUND, Capabilities, ModelConfig
from xmtc.models.explanation import Explanation
from xmtc.models.fasttext.features import TEXT, WordNgrams
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import progress
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.token_store import TokenStore
from xmtc.text.word_vectors import read_vectors

TRAIN_BATCH = 16  # texts that share the reading of the labels' weights; with more, common words would wait too long
STRETCH = 1024  # texts between two looks at the clock, and for which negative labels are drawn at a time
BLOCK = 4096  # texts tagged at a time
SMOOTHING = 0.5  # exponent of the labels' frequencies when negative ones are drawn, as in fastText
EPOCH = "epoch"

Floats = NDArray[np.float32]


class FastTextConfig(ModelConfig):
    """What is a feature, and how vectors are learned; in brackets are fastText's own words.

    The defaults were chosen on validation documents of `cooking` and `bibtex`.
    """

    loss: Literal["ova", "softmax", "ns"] = "ova"
    """ova (logistic for every label), softmax, or ns (logistic with drawn negatives, for very many labels)."""
    dimensions: PositiveInt = 100
    """Length of the vectors of words, n-grams and labels (dim)."""
    epochs: PositiveInt = 25
    """How often all training documents are gone through (epoch)."""
    learning_rate: PositiveFloat = Field(2.0, allow_inf_nan=False)
    """Step size at the beginning; it falls to 0 (lr)."""
    word_ngrams: int = Field(2, ge=1, le=100)
    """Longest run of words that has a vector; 1: single words only (wordNgrams)."""
    char_ngrams: tuple[int, int] = (0, 0)
    """Shortest and longest n-gram of letters that has a vector; [0, 0]: none (minn, maxn)."""
    buckets: int = Field(2_000_000, ge=1, le=100_000_000)
    """Places that n-grams are hashed into; those that training leaves empty take no memory (bucket)."""
    min_df: PositiveInt = 1
    """Leave out words that fewer training documents have (minCount counts occurrences)."""
    negatives: PositiveInt = 5
    """Labels drawn for each text with the loss ns (neg)."""
    vectors: str | None = None
    """A file of word vectors to begin with; null: random ones (pretrainedVectors)."""

    @field_validator("char_ngrams")
    @classmethod
    def _rising(cls, sizes: tuple[int, int]) -> tuple[int, int]:
        if sizes != (0, 0) and not 1 <= sizes[0] <= sizes[1] <= 100:
            raise ValueError(
                "char_ngrams are (shortest, longest), both from 1 to 100 and the first not above the second"
            )
        return sizes


class FastText(Model):
    """Mean word and n-gram vectors, and a linear classifier for each label, learned together.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 9, tags * 9)
    >>> FastText(dimensions=8).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "fasttext"
    capabilities = Capabilities(
        summary="averaged word and n-gram vectors, trained with a linear classifier per label; fast and simple",
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )
    Config = FastTextConfig
    config: FastTextConfig

    grams_: WordNgrams
    table_: Floats  # (words and buckets, dimensions)
    weights_: Floats  # (labels, dimensions)
    base_: float  # what is added to every score: with `ova` the score of a label of average frequency

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: vectors and weights, the rows of all texts with what finding them takes, the scores of some texts."""
        assert corpus.texts is not None
        config = self.config
        words = corpus.texts.nbytes // 6
        letters = sum(max(0, 7 - size) for size in range(config.char_ngrams[0], config.char_ngrams[1] + 1) if size)
        grams = words * (config.word_ngrams - 1 + letters)
        vectors = words // 5 + 1000 + (min(config.buckets, grams) if grams else 0) + len(corpus.labels)
        scores = 0 if config.loss == "ns" else 2 * TRAIN_BATCH * len(corpus.labels)
        return 4 * (vectors * config.dimensions + scores + config.buckets) + 30 * (words + grams)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        from threadpoolctl import threadpool_limits

        assert corpus.texts is not None
        self.grams_ = self._new_grams()
        rows = self.grams_.fit_transform(corpus.texts)
        self.base_ = _base(corpus.targets) if self.config.loss == "ova" else 0.0
        kept = checkpoints.get(EPOCH)
        if kept is None:
            self.table_ = self._first_vectors()
            self.weights_ = np.zeros((len(corpus.labels), self.config.dimensions), np.float32)
        else:
            self.table_, self.weights_ = kept["table"].copy(), kept["weights"].copy()
        begin = 0 if kept is None else int(kept["epochs"][0])
        # The products are small, and threads that wait for one another take minutes when another program has a core.
        one_thread = threadpool_limits(1, user_api="blas")
        with one_thread, progress("training vectors", (self.config.epochs - begin) * len(corpus)) as bar:
            for epoch in range(begin, self.config.epochs):
                self._train(rows, corpus, epoch, bar.advance)
                if not (np.isfinite(self.table_).all() and np.isfinite(self.weights_).all()):
                    raise XmtcError(f"the weights grew beyond all bounds in epoch {epoch + 1}; lower learning_rate")
                done = {"epochs": np.array([epoch + 1]), "table": self.table_, "weights": self.weights_}
                checkpoints.put(EPOCH, done)

    def _new_grams(self) -> WordNgrams:
        config = self.config
        return WordNgrams(config.word_ngrams, config.char_ngrams, config.buckets, config.min_df)

    def _first_vectors(self) -> Floats:
        """Small random vectors, or those of a file for the words that it has."""
        config = self.config
        rng = np.random.default_rng(derived_seed(config.seed, 1))
        table = rng.random((len(self.grams_), config.dimensions), np.float32)
        table -= np.float32(0.5)
        table *= np.float32(2 / config.dimensions)
        if config.vectors is not None:
            row_of = {word: row for row, word in enumerate(self.grams_.words, start=TEXT + 1)}
            found = read_vectors(config.vectors, only=row_of)
            if found.matrix.shape[1] != config.dimensions:
                size = found.matrix.shape[1]
                raise ConfigError(f"{config.vectors} has vectors of {size} numbers; set dimensions={size}")
            table[[row_of[word] for word in found.words]] = found.matrix
        return table

    def _train(self, rows: TokenStore, corpus: Corpus, epoch: int, advance: Any) -> None:
        """One epoch: all texts with labels, in a new random order; with weights, as many drawn by them."""
        from xmtc.kernels.fasttext import Documents, Loss, train_all_labels, train_sampled_labels

        config, targets = self.config, corpus.targets
        rng = np.random.default_rng(derived_seed(config.seed, 2, epoch))
        counts = np.diff(targets.indptr)
        labelled = np.flatnonzero(counts)
        if corpus.document_weights is not None:
            start = np.random.default_rng(derived_seed(config.seed, 3, epoch)).random()
            labelled = labelled[drawn_by_weight(corpus.document_weights[labelled], start)]
        order = rng.permutation(labelled)
        # One label of each text, drawn anew in each epoch.
        places = targets.indptr[order] + (rng.random(len(order)) * counts[order]).astype(np.int64)
        picked = targets.indices[places].astype(np.int64)
        frequency = np.cumsum(np.bincount(targets.indices, minlength=targets.shape[1]) ** SMOOTHING)
        decay = config.learning_rate / (config.epochs * len(order))
        labels = targets.indices.astype(np.int32), targets.indptr.astype(np.int64)
        documents, loss = Documents(rows.ids, rows.offsets, *labels), Loss(config.loss == "softmax", self.base_)
        changed = self.table_, self.weights_
        for start in range(0, len(order), STRETCH):
            part, relevant = order[start : start + STRETCH], picked[start : start + STRETCH]
            rate = config.learning_rate - decay * (epoch * len(order) + start)
            if config.loss == "ns":
                drawn = np.searchsorted(frequency, rng.random((len(part), config.negatives)) * frequency[-1], "right")
                chosen = np.column_stack([relevant, drawn]).astype(np.int64)
                train_sampled_labels(rows.ids, rows.offsets, part, chosen, rate, decay, *changed)
            else:
                train_all_labels(documents, part, relevant, loss, rate, decay, TRAIN_BATCH, *changed)
            advance(len(part) * len(counts) / len(order))

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.kernels.dense_topk import best_labels
        from xmtc.kernels.fasttext import text_vectors

        assert corpus.texts is not None
        parts = []
        with progress("tagging", len(corpus)) as bar:
            for start in range(0, len(corpus), BLOCK):
                rows = self.grams_.transform(corpus.texts[start : start + BLOCK])
                vectors = text_vectors(rows.ids, rows.offsets, self.table_)
                ids, scores, log_sums = best_labels(vectors, self.weights_, k)
                parts.append((ids, self._probabilities(scores, log_sums[:, None])))
                bar.advance(len(rows))
        ids, probabilities = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Predictions.sorted(ids, probabilities, self._fitted(), self.score_kind)

    def _probabilities(self, scores: Floats, log_sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores as probabilities."""
        if self.config.loss == "softmax":
            return np.exp(scores - log_sums)
        return 1 / (1 + np.exp(-self.base_ - scores.astype(np.float64)))

    def _explain(self, text: str, label: int) -> Explanation:
        """A score is the sum over a text's words and n-grams of vector x the label's weights / their number."""
        from xmtc.kernels.dense_topk import best_labels

        found = self.grams_.named(text)
        rows = np.array([row for row, _ in found])
        parts = self.table_[rows] @ self.weights_[label] / np.float32(len(rows))
        shares: dict[str, float] = defaultdict(float)
        for (row, name), part in zip(found, parts.tolist(), strict=True):
            if row != TEXT:
                shares[name] += part
        score = float(parts.sum())
        _, _, log_sums = best_labels(self.table_[rows].mean(axis=0)[None], self.weights_, 1)
        probability = float(self._probabilities(np.array([score], np.float32), log_sums)[0])
        words = tuple(sorted(shares.items(), key=lambda entry: -abs(entry[1])))
        every = float(parts[rows == TEXT].sum()) + self.base_
        score += self.base_
        said = f"the words add up to {score - every:.3f}, and what every text has to {every:.3f}"
        return Explanation(
            self._fitted().name(label), probability, words, (f"{said}: a probability of {probability:.3f}",)
        )

    def _save(self, folder: FolderWriter) -> None:
        folder.arrays("words", self.grams_.to_arrays())
        base = np.array([self.base_])
        tables = {"table": self.table_, "weights": self.weights_}
        folder.arrays("vectors", {**tables, "base": base}, tables)

    def _load(self, folder: FolderReader) -> None:
        self.grams_ = self._new_grams()
        with folder.building("words"):
            self.grams_.load_arrays(folder.arrays("words"))
        with folder.building("vectors"):
            arrays = folder.arrays("vectors")
            self.table_, self.weights_ = arrays["table"], arrays["weights"]
            (self.base_,) = map(float, arrays["base"])
            size = self.config.dimensions
            for array, length in ((self.table_, len(self.grams_)), (self.weights_, len(self._fitted()))):
                if array.dtype != np.float32 or array.shape != (length, size):
                    raise ValueError(f"an array of {array.dtype} {array.shape}, not float32 {length, size}")

        def check() -> None:
            with folder.building("vectors"):
                if not all(np.isfinite(part).all() for part in (self.table_, self.weights_, self.base_)):
                    raise ValueError("it has numbers that are not finite")

        folder.check("vectors.safetensors", check)


def _base(targets: Csr) -> float:
    """The score (log-odds) of a label that as many texts have as the average label.

    >>> round(_base(Corpus.of(["a", "b", "c"], [["x"], ["y"], ["x"]]).targets), 3)
    0.0
    """
    relevant = targets.nnz
    return float(np.log(relevant / max(1, targets.shape[0] * targets.shape[1] - relevant)))
