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

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.models.config import ROUND, Capabilities
from xmtc.models.explanation import Explanation
from xmtc.models.fasttext.features import Inputs
from xmtc.models.fasttext.mean_vectors import STRETCH, MeanVectors, MeanVectorsConfig, grouped
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import progress
from xmtc.storage import FolderReader

TRAIN_BATCH = 16  # texts that share the reading of the labels' weights; with more, common words would wait too long
BLOCK = 4096  # texts tagged at a time
SMOOTHING = 0.5  # exponent of the labels' frequencies when negative ones are drawn, as in fastText

Floats = NDArray[np.float32]


class FastTextConfig(MeanVectorsConfig):
    """What is a feature, and how vectors are learned; in brackets are fastText's own words.

    The defaults were chosen on validation documents of `cooking` and `bibtex`.
    """

    loss: Literal["ova", "softmax", "ns"] = "ova"
    """ova (logistic for every label), softmax, or ns (logistic with drawn negatives, for very many labels)."""
    negatives: PositiveInt = 5
    """Labels drawn for each text with the loss ns (neg)."""


class FastText(MeanVectors):
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

    base_: float  # what is added to every score: with `ova` the score of a label of average frequency

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: vectors and weights, the rows of all texts with what finding them takes, the scores of some texts."""
        vectors, reading = self._text_memory(corpus)
        labels = len(corpus.labels)
        scores = 0 if self.config.loss == "ns" else 2 * TRAIN_BATCH * labels
        return 4 * ((vectors + labels) * self.config.dimensions + scores) + reading

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        assert corpus.texts is not None
        self.grams_ = self._new_grams()
        rows = self.grams_.fit_transform(corpus.texts)
        self.base_ = _base(corpus.targets) if self.config.loss == "ova" else 0.0
        self._learn(Inputs(rows.ids, rows.offsets), corpus, len(self.grams_), len(corpus.labels), checkpoints)

    def _train(self, inputs: Inputs, corpus: Corpus, epoch: int, advance: Callable[[float], None]) -> None:
        """One epoch: all texts with labels, in a new random order; with weights, as many drawn by them."""
        from xmtc.kernels.fasttext import Documents, Loss, train_all_labels, train_sampled_labels

        config, targets = self.config, corpus.targets
        counts = np.diff(targets.indptr)
        rng, order = self._shuffled(corpus, np.flatnonzero(counts), epoch)
        # One label of each text, drawn anew in each epoch.
        places = targets.indptr[order] + (rng.random(len(order)) * counts[order]).astype(np.int64)
        picked = targets.indices[places].astype(np.int64)
        frequency = np.cumsum(np.bincount(targets.indices, minlength=targets.shape[1]) ** SMOOTHING)
        decay = config.learning_rate / (config.epochs * len(order))
        labels = targets.indices.astype(np.int32), targets.indptr.astype(np.int64)
        documents, loss = Documents(*inputs, *labels), Loss(config.loss == "softmax", self.base_)
        changed = self.table_, self.weights_
        for start in range(0, len(order), STRETCH):
            part, relevant = order[start : start + STRETCH], picked[start : start + STRETCH]
            rate = config.learning_rate - decay * (epoch * len(order) + start)
            if config.loss == "ns":
                drawn = np.searchsorted(frequency, rng.random((len(part), config.negatives)) * frequency[-1], "right")
                chosen = np.column_stack([relevant, drawn]).astype(np.int64)
                train_sampled_labels(documents, part, chosen, rate, decay, *changed)
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
                vectors = text_vectors(*Inputs(rows.ids, rows.offsets), self.table_)
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
        words, every = grouped(found, parts)
        score = float(parts.sum())
        _, _, log_sums = best_labels(self.table_[rows].mean(axis=0)[None], self.weights_, 1)
        probability = float(self._probabilities(np.array([score], np.float32), log_sums)[0])
        every += self.base_
        said = f"the words add up to {score + self.base_ - every:.3f}, and what every text has to {every:.3f}"
        return Explanation(
            self._fitted().name(label), probability, words, (f"{said}: a probability of {probability:.3f}",)
        )

    def _output_arrays(self) -> dict[str, NDArray[Any]]:
        return {"base": np.array([self.base_])}

    def _load(self, folder: FolderReader) -> None:
        self.grams_ = self._new_grams()
        with folder.building("words"):
            self.grams_.load_arrays(folder.arrays("words"))
        with folder.building("vectors"):
            (self.base_,) = map(float, folder.arrays("vectors")["base"])
            if not math.isfinite(self.base_):
                raise ValueError("it has numbers that are not finite")
        self._load_vectors(folder, len(self.grams_), len(self._fitted()))


def _base(targets: Csr) -> float:
    """The score (log-odds) of a label that as many texts have as the average label.

    >>> round(_base(Corpus.of(["a", "b", "c"], [["x"], ["y"], ["x"]]).targets), 3)
    0.0
    """
    relevant = targets.nnz
    return float(np.log(relevant / max(1, targets.shape[0] * targets.shape[1] - relevant)))
