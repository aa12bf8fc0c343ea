"""`pd_sparse`: sparse classifiers for all labels together, which rank a document's labels above all others.

Yen, Huang, Zhong, Ravikumar, Dhillon: "PD-Sparse: A Primal and Dual Sparse Approach to Extreme Multiclass and
Multilabel Classification", ICML 2016.

What it does: min sum_k (lambda |w_k|_1 + 1/2 |w_k|^2) + C sum_i max (1 + w_n x_i - w_p x_i)_+ over the labels p that
document i has and n that it has not, by block-coordinate Frank-Wolfe in the dual: each visit to a document finds the
labels that violate the margin most, through the weights of the document's words, and solves the document's few active
labels exactly. The number of epochs is that with the best P@1 on held-out training documents; all documents are then
trained on for as many. In the end the weights that are not 0 are trained further without the L1 norm.

Where it differs: weights lie in one hash table for each word, and are added up anew from the dual after each epoch,
which is what a checkpoint keeps. A visit may add several labels, so that fewer epochs are needed; a search over some
drawn words (`sampled_words`) is an option; labels are not divided into groups.

Cost: an epoch grows with documents x words x the labels that have a weight for a word; memory with the active labels of
all documents, times their words. One core.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from scipy.sparse import csr_array

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr, with_dense
from xmtc.labelspace.seen_labels import SeenLabels
from xmtc.memory import give_back_memory
from xmtc.models.config import PRUNE, Capabilities, ModelConfig
from xmtc.models.label_classifiers import LabelClassifiers
from xmtc.predictions import ScoreKind
from xmtc.progress import Progress, progress
from xmtc.search.label_blocks import NEVER
from xmtc.search.sparse_index import SparseIndex
from xmtc.seeding import derived_seed
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

ACTIVE = 12  # labels of a document that count in the dual, about: for the estimate of memory


class PdSparseConfig(ModelConfig):
    """The classifiers; recipes/pd_sparse/paper has the paper's form."""

    cost: PositiveFloat = Field(1.0, allow_inf_nan=False)
    """Weight of errors against regularisation (C): higher fits the training documents more closely."""
    l1: NonNegativeFloat = Field(0.03, allow_inf_nan=False)
    """Weight of the L1 norm (lambda): higher drops more words, for a smaller and faster model."""
    bias: NonNegativeFloat = Field(0.0, allow_inf_nan=False)
    """Value of a word that every document has, by which labels are preferred; 0: none."""
    violators: PositiveInt = 5
    """Labels that may become active at a visit to a document: more needs fewer epochs, which take longer."""
    sampled_words: NonNegativeInt = 0
    """Words of a document, drawn by their size, with which labels are searched; 0: all."""
    epochs: PositiveInt = 20
    """Visits to each document, at most."""
    held_out: float = Field(0.1, ge=0, lt=1)
    """Share of training documents that choose the number of epochs if there are no validation documents; 0: none."""
    patience: PositiveInt = 3
    """Epochs without a better P@1 on the held-out documents after which it stops."""
    post_epochs: NonNegativeInt = 3
    """Epochs without the L1 norm, in which only weights that are not 0 change."""
    weights: Literal["float32", "float16"] = "float32"
    """How weights are saved: float16 halves the folder."""
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


class Problem(NamedTuple):
    """Documents to learn from, with the bias as their last feature, and to choose the number of epochs by."""

    features: Csr
    targets: Csr  # x labels with documents
    costs: NDArray[np.float32]  # of documents; empty if all weigh the same
    held_out: Csr
    held_out_targets: Csr


class PdSparse(LabelClassifiers):
    """Sparse classifiers for all labels by a max-margin ranking loss.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> PdSparse().fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "pd_sparse"
    capabilities = Capabilities(
        summary="sparse classifiers that rank a document's labels above all others, found over few labels and words",
        input=frozenset({"text", "features"}),
        score=ScoreKind.RANKING,
        explain=True,
        weights=frozenset({"documents"}),
        shrink=PRUNE,
    )
    Config = PdSparseConfig
    config: PdSparseConfig

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the documents' matrix twice, and the sums of all words and active labels, in matrices and tables."""
        vectors = DocumentVectors(self.config.tfidf)
        terms = vectors.terms_of(corpus)
        labels = corpus.targets.nnz / max(1, len(corpus)) + min(ACTIVE, len(corpus.labels))
        return vectors.memory_needed(corpus) + 8 * terms + int(20 * labels * terms)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        config = self.config
        self.vectors_ = DocumentVectors(config.tfidf)
        features = self._with_bias(self.vectors_.fit_transform(corpus))
        seen = SeenLabels.of(corpus.label_counts)
        weights = corpus.document_weights
        every = Problem(features, seen.columns(corpus.targets), _some(weights), features[:0], corpus.targets[:0])
        epochs = config.epochs
        if valid is not None:
            known = self._with_bias(self.vectors_.transform(valid))
            problem = every._replace(held_out=known, held_out_targets=seen.columns(valid.targets))
            alpha, _ = self._train(problem, epochs, checkpoints, "epochs")
        else:
            rng = np.random.default_rng(config.seed)
            out, rest = np.split(rng.permutation(len(corpus)), [round(config.held_out * len(corpus))])
            if every.targets[out].nnz and every.targets[rest].nnz:
                problem = Problem(
                    take_rows(features, np.sort(rest)),
                    take_rows(every.targets, np.sort(rest)),
                    _some(weights[np.sort(rest)] if weights is not None else None),
                    take_rows(features, np.sort(out)),
                    take_rows(every.targets, np.sort(out)),
                )
                _, epochs = self._train(problem, epochs, checkpoints, "choice")
            alpha, _ = self._train(every, epochs, checkpoints, "epochs")
        found = self._post_solved(every, alpha)
        give_back_memory()
        self.biases_ = np.full(len(corpus.labels), NEVER, np.float32)
        width = self.vectors_.width
        self.biases_[seen.ids] = config.bias * found[[width]].toarray()[0] if config.bias else 0
        shape = width, len(corpus.labels)
        own = found[:width]
        self.index_ = SparseIndex(make_csr(own.data, seen.ids[own.indices].astype(np.int32), own.indptr, shape))

    def _with_bias(self, matrix: Csr) -> Csr:
        if not self.config.bias:
            return matrix
        return with_dense(matrix, np.full((matrix.shape[0], 1), self.config.bias, np.float32))

    def _train(self, problem: Problem, epochs: int, checkpoints: Checkpoints, name: str) -> tuple[Csr, int]:
        """(the dual of the best epoch, documents x labels; how many epochs that took). Without held-out documents the
        last one is the best."""
        turned = csr_array(problem.features.T)
        state = State.of(checkpoints.get(name), problem.targets.shape)
        what = "choosing the number of epochs" if name == "choice" else "training"
        with progress(what, epochs * problem.features.shape[0]) as bar:
            bar.advance(state.epoch * problem.features.shape[0])
            while state.epoch < epochs and state.epoch - state.best_epoch < self.config.patience:
                sums = _product(turned, state.alpha)
                alpha = self._epoch(problem, state.alpha, sums, self.config.l1, False, state.epoch, bar)
                state = state.next(alpha, self._precision(problem, turned, alpha))
                checkpoints.put(name, state.to_arrays())
        return state.best, state.best_epoch

    def _epoch(self, problem: Problem, alpha: Csr, sums: Csr, l1: float, fixed: bool, at: int, bar: Progress) -> Csr:
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.frank_wolfe import MaxMargin, frank_wolfe_epoch

        config = self.config
        how = MaxMargin(config.cost, l1, config.violators, config.sampled_words, fixed)
        rows, targets = CsrArrays.of(problem.features), CsrArrays.of(problem.targets)
        dual, known = CsrArrays.of(alpha), CsrArrays.of(sums)
        seed = derived_seed(config.seed, int(fixed), at)
        indptr, labels, values = frank_wolfe_epoch(rows, targets, dual, known, problem.costs, how, seed)
        bar.advance(problem.features.shape[0])
        return make_csr(values, labels, indptr, problem.targets.shape)

    def _precision(self, problem: Problem, turned: Csr, alpha: Csr) -> float:
        """P@1 of the held-out documents that have labels; the more epochs the better if there are none."""
        if not problem.held_out_targets.nnz:
            return np.inf
        index = SparseIndex(_soft(_product(turned, alpha), self.config.l1))
        start = np.zeros(len(index), np.float32)
        best = index.nearest(problem.held_out, 1, start)[0][:, 0]
        wanted = problem.held_out_targets
        rows = np.flatnonzero(np.diff(wanted.indptr))
        right = sum(best[row] in wanted.indices[wanted.indptr[row] : wanted.indptr[row + 1]] for row in rows)
        return float(right / len(rows))

    def _post_solved(self, problem: Problem, alpha: Csr) -> Csr:
        """The weights, features x labels: those of the dual that pass the threshold, trained on without it."""
        turned = csr_array(problem.features.T)
        weights = _soft(_product(turned, alpha), self.config.l1)
        support = weights.copy()
        support.data[:] = 1
        with progress("training without L1", self.config.post_epochs * problem.features.shape[0]) as bar:
            for at in range(self.config.post_epochs):
                sums = _within(_product(turned, alpha), support)
                alpha = self._epoch(problem, alpha, sums, 0.0, True, at, bar)
        return _within(_product(turned, alpha), support) if self.config.post_epochs else weights


class State(NamedTuple):
    """How far a training is: the dual now and at its best epoch, counted from 1, with the P@1 there."""

    epoch: int
    alpha: Csr
    best_epoch: int
    best: Csr
    precision: float

    @classmethod
    def of(cls, kept: dict[str, NDArray[Any]] | None, shape: tuple[int, int]) -> State:
        """That of a checkpoint, or the beginning."""
        if kept is None:
            nothing = make_csr(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(shape[0] + 1, np.int64), shape)
            return cls(0, nothing, 0, nothing, -1.0)
        alpha, best = (
            make_csr(kept[f"{name}.data"], kept[f"{name}.indices"], kept[f"{name}.indptr"], shape)
            for name in ("alpha", "best")
        )
        return cls(int(kept["epoch"]), alpha, int(kept["best_epoch"]), best, float(kept["precision"]))

    def next(self, alpha: Csr, precision: float) -> State:
        """After another epoch; of equally good ones the first is the best, but for infinity."""
        epoch = self.epoch + 1
        if precision > self.precision or precision == np.inf:
            return State(epoch, alpha, epoch, alpha, precision)
        return self._replace(epoch=epoch, alpha=alpha)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As a checkpoint keeps it."""
        matrices = {
            f"{name}.{part}": getattr(matrix, part)
            for name, matrix in (("alpha", self.alpha), ("best", self.best))
            for part in ("data", "indices", "indptr")
        }
        numbers = {"epoch": self.epoch, "best_epoch": self.best_epoch, "precision": self.precision}
        return matrices | {name: np.array(value) for name, value in numbers.items()}


def _product(turned: Csr, alpha: Csr) -> Csr:
    """Features x labels: the sums u before the threshold."""
    sums = cast(Csr, csr_array(turned @ alpha))
    sums.sort_indices()
    return make_csr(sums.data.astype(np.float32, copy=False), sums.indices, sums.indptr, sums.shape)


def _soft(sums: Csr, l1: float) -> Csr:
    """The weights: what is above the threshold."""
    data = sums.data - np.clip(sums.data, -np.float32(l1), np.float32(l1))
    weights = make_csr(data, sums.indices.copy(), sums.indptr.copy(), sums.shape)
    weights.eliminate_zeros()
    return weights


def _within(sums: Csr, support: Csr) -> Csr:
    """The sums at the entries of `support`, all of which are kept."""
    rows = np.repeat(np.arange(support.shape[0], dtype=np.int64), np.diff(support.indptr)) * support.shape[1]
    own = np.repeat(np.arange(sums.shape[0], dtype=np.int64), np.diff(sums.indptr)) * sums.shape[1] + sums.indices
    wanted = rows + support.indices
    data = np.zeros(support.nnz, np.float32)
    if len(own) and len(wanted):
        places = np.minimum(np.searchsorted(own, wanted), len(own) - 1)
        found = own[places] == wanted
        data[found] = sums.data[places[found]]
    return make_csr(data, support.indices, support.indptr, support.shape)


def _some(weights: NDArray[np.float32] | None) -> NDArray[np.float32]:
    return np.zeros(0, np.float32) if weights is None else weights
