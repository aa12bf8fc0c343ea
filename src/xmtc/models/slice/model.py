"""`slice`: one linear classifier per label in dense vectors, trained on the documents that are most confusing for it.

Jain, Balasubramanian, Chunduri, Varma: "Slice: Scalable Linear Extreme Classifiers Trained on 100 Million Labels for
Related Searches", WSDM 2019.

What it does: documents become dense unit vectors. A label's generative model is the mean of its documents (its
centroid); the `shortlist` labels with the nearest centroids are a document's candidates. A label's classifier learns
from its own documents and from those that have it among their candidates without having it: a small part of all, and
the hard ones. Prediction scores the candidates of a document: `beta` x classifier + (1 - beta) x similarity.

Our addition, which the paper's recipe turns off: candidates are the labels of the `neighbours` nearest training
documents, those with the most votes. They hold far more of what a classifier of every label would answer. Neighbours
are searched along the first `search_dimensions` principal axes only, which costs a part of the search.

Vectors: `svd` projects tf-idf, or the features that documents come with, to their first singular vectors; features of
no more than `dimensions` numbers are taken as they are, so vectors that somebody else made can be given. `mean`,
`tfidf_mean` (means of word vectors) and `encoder` need texts and the extra `neural`.

Where it differs: the paper's vectors are a network's for queries, which are not published; its approximate index (HNSW)
is exact search here, or above 100,000 vectors cells as in `xmtc.search.dense_index`, which always give the same result;
and classifiers are trained by dual coordinate descent with the bias of `dismec`.

Cost: training grows with documents x shortlist x dimensions x rounds, however many labels there are, beside the search;
prediction with the search and shortlist x dimensions; the model is two vectors a label and, with `neighbours`, one of
`search_dimensions` numbers a training document.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import dense_csr, make_csr
from xmtc.errors import ConfigError
from xmtc.executor import current_executor
from xmtc.kernels import cores
from xmtc.models.base import Model
from xmtc.models.config import ROUND, Capabilities, ModelConfig
from xmtc.models.explanation import Explanation, strongest
from xmtc.models.neighbour_vectors import check_vectors, fit_vectors, load_vectors, networks_of
from xmtc.models.slice.projected_vectors import ProjectedVectors
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import progress
from xmtc.search.dense_index import DenseIndex
from xmtc.search.exact_search import nearest_exactly
from xmtc.search.label_blocks import LabelBlock
from xmtc.search.linear_training import reached_by, solver_of
from xmtc.search.neighbours import SearchSettings, TextVectors
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.embedding_table import WordSettings
from xmtc.text.mean_embeddings import MeanVectors, unit
from xmtc.text.tfidf import TfIdfSettings

if TYPE_CHECKING:
    from torch import nn

Floats = NDArray[np.float32]
QUERY_BLOCK = 4096
BLOCKS_A_CORE = 8  # at least, so that no core waits long for the last block of another


class SliceConfig(ModelConfig):
    """The vectors, the candidates and the classifiers; recipes/slice/paper has the paper's values."""

    vectors: Literal["svd", "mean", "tfidf_mean", "encoder"] = "svd"
    """What documents are: svd (of tf-idf, or of features), mean of word vectors, tfidf_mean, or encoder."""
    dimensions: PositiveInt = 300
    """Numbers of a vector, with vectors=svd; features that are no more than that are taken as they are."""
    index: Literal["auto", "flat", "ivf"] = "auto"
    """Search among vectors: flat is exact, ivf searches some cells only, auto goes by how many there are."""
    neighbours: NonNegativeInt = 100
    """Nearest training documents whose labels are candidates; 0, the paper's: labels with the nearest centroids."""
    search_dimensions: PositiveInt = 100
    """Numbers of the vectors by which the nearest documents are searched: the first principal axes of all."""
    shortlist: PositiveInt = 300
    """Candidates of a document, at most, in training and in prediction."""
    beta: float = Field(0.8, ge=0, le=1)
    """Share of the classifier in a score; the rest is the similarity with the centroid."""
    loss: Literal["squared_hinge", "logistic"] = "squared_hinge"
    """Loss of the classifiers: squared_hinge (a linear SVM) or logistic."""
    cost: PositiveFloat = Field(0.4, allow_inf_nan=False)
    """Weight of errors against regularisation (C): higher fits the training documents more closely."""
    bias: PositiveFloat = Field(0.3, allow_inf_nan=False)
    """How freely a classifier's bias moves away from the answer no."""
    tolerance: PositiveFloat = 0.1
    """A classifier is finished when its gradients differ by no more: smaller is more exact and slower."""
    rounds: PositiveInt = 20
    """Passes over its documents for a classifier, at most."""
    smallest_weight: NonNegativeFloat = 0.0
    """Drop weights that are nearer to 0."""
    block: PositiveInt = 1000
    """Labels, at most, that are kept as one checkpoint."""
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))
    words: WordSettings = WordSettings()
    encoder: EncoderSettings = EncoderSettings(name="minilm")

    @property
    def search(self) -> SearchSettings:
        """The vectors as `fit_vectors` takes them."""
        return SearchSettings(vectors="tfidf" if self.vectors == "svd" else self.vectors)


class Slice(Model):
    """Classifiers in dense vectors, on negatives found by search.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> Slice(dimensions=2).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "slice"
    capabilities = Capabilities(
        summary="one linear classifier per label in dense vectors, trained on the most confusing documents",
        input=frozenset({"text", "features"}),
        score=ScoreKind.RANKING,
        explain=True,
        shrink=ROUND,
    )
    Config = SliceConfig
    config: SliceConfig

    vectors_: TextVectors
    seen_: NDArray[np.int32]  # labels with documents; the index and the classifiers have these, in this order
    index_: DenseIndex  # of centroids
    documents_: DenseIndex | None = None  # of the training documents, whose labels are `targets_`
    targets_: Csr  # (training documents, seen labels), only with `documents_`
    axes_: Floats  # (dimensions, those searched in), only with `documents_`
    weights_: Floats  # (seen labels, dimensions)
    biases_: Floats

    def check_installed(self) -> None:
        """A MissingExtra if the vectors need more than the core."""
        if self.config.vectors != "svd":
            check_vectors(self.config.search.vectors, self.config.encoder)

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: dense vectors of documents, what makes them, candidates both ways, and two vectors a label twice."""
        config, labels = self.config, len(corpus.labels)
        width = config.words.dimensions if config.vectors in ("mean", "tfidf_mean") else config.dimensions
        source = DocumentVectors(config.tfidf)
        terms = source.terms_of(corpus)
        listed = min(config.shortlist, labels)
        return (
            source.memory_needed(corpus)
            + 4 * width * (3 * len(corpus) + 4 * labels + terms // 10)
            + 24 * listed * len(corpus)
            + memory_of_block(width) * cores()
        )

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        config = self.config
        if config.vectors != "svd" and corpus.texts is None:
            raise ConfigError(
                f"slice: vectors={config.vectors} needs texts, which {corpus.name} does not have; take vectors=svd, "
                "which projects features, or give it dense features"
            )
        matrix = self._vectors_of(corpus)
        self.seen_ = np.flatnonzero(corpus.label_counts).astype(np.int32)
        targets = corpus.targets[:, self.seen_]
        centroids = unit(np.asarray(targets.T @ matrix, np.float32))
        kind = None if config.index == "auto" else config.index
        self.index_ = DenseIndex.of(centroids, kind, config.seed)
        if config.neighbours:
            self.axes_, self.targets_ = principal_axes(matrix, config.search_dimensions), csr_array(targets)
            self.documents_ = DenseIndex.of(turned(matrix, self.axes_), kind, config.seed)
        found = self._candidates(matrix, config.shortlist)
        examples = examples_of(targets, reached_by(found, len(centroids)))
        self.weights_, self.biases_ = self._train(matrix, examples, checkpoints)
        self.__dict__.pop("_both", None)  # of an earlier training

    def _vectors_of(self, corpus: Corpus) -> Floats:
        """The training documents' vectors; keeps what makes further ones."""
        config = self.config
        if config.vectors == "svd":
            self.vectors_, matrix = ProjectedVectors.fit(config.tfidf, corpus, config.dimensions, config.seed)
            return matrix
        self.vectors_, made = fit_vectors(config, corpus, device="auto")
        assert isinstance(made, np.ndarray)
        return made

    def _candidates(self, queries: Floats, count: int) -> NDArray[np.int32]:
        """Places in `seen_` of each document's candidates, -1: no more."""
        if self.documents_ is None:
            return _nearest(self.index_, queries, count)[0]
        from xmtc.kernels.sparse_knn import vote

        targets = self.targets_
        near = _nearest(self.documents_, turned(queries, self.axes_), self.config.neighbours)
        return vote(*near, targets.indptr, targets.indices, targets.shape[1], min(count, targets.shape[1]))[0]

    def _networks(self) -> list[nn.Module]:
        return networks_of(self.vectors_) if self.config.vectors == "encoder" else []

    def _train(self, matrix: Floats, examples: Csr, checkpoints: Checkpoints) -> tuple[Floats, Floats]:
        """(weights, biases) of all labels, from the documents that count for each (see `examples_of`)."""
        labels = examples.shape[0]
        sizes = np.diff(examples.indptr)
        order = np.argsort(-sizes, kind="stable")  # long ones first, and about equally long ones together
        size = min(self.config.block, max(8, -(-labels // (BLOCKS_A_CORE * cores()))))
        blocks = [order[start : start + size] for start in range(0, labels, size)]
        weights, biases = np.empty((labels, matrix.shape[1]), np.float32), np.empty(labels, np.float32)
        missing = []
        with progress("training classifiers", int(sizes.sum())) as bar:
            for number, block in enumerate(blocks):
                found = checkpoints.get(f"block{number}")
                if found is None:
                    missing.append(LabelBlock(block.astype(np.int32), number))
                else:
                    weights[block], biases[block] = found["weights"], found["biases"]
                    bar.advance(int(sizes[block].sum()))

            def keep(at: int, made: tuple[Floats, Floats]) -> None:
                block, number = missing[at]
                weights[block], biases[block] = made
                checkpoints.put(f"block{number}", {"weights": made[0], "biases": made[1]})
                bar.advance(int(sizes[block].sum()))

            task = TrainLabels(self.config, matrix, examples)
            current_executor().map(task, missing, keep, memory=memory_of_block(matrix.shape[1]))
        return weights, biases

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.kernels.dense_topk import best_listed

        queries, beta = np.ascontiguousarray(self.vectors_.transform(corpus)), self.config.beta
        listed = self._candidates(queries, max(k, self.config.shortlist))
        # A product with both vectors of a label is one with their sum.
        ids, scores = best_listed(queries, listed, self._both, np.float32(beta) * self.biases_, k)
        return Predictions(np.where(ids >= 0, self.seen_[ids], -1), scores, self._fitted(), self.score_kind)

    @cached_property
    def _both(self) -> Floats:
        """Of each label the weights and the centroid, as they count in a score."""
        beta = np.float32(self.config.beta)
        return beta * self.weights_ + (1 - beta) * self.index_.vectors

    def _explain(self, text: str, label: int) -> Explanation:
        """A score is a product with the document's vector, which is a sum over the text's words."""
        name, at = self._fitted().name(label), int(np.searchsorted(self.seen_, label))
        if at == len(self.seen_) or self.seen_[at] != label:
            return Explanation(name, 0.0, (), ("no document had this label",))
        query = np.asarray(self.vectors_.transform(Corpus.of([text])))[0]
        beta, centroid = self.config.beta, self.index_.vectors[at]
        classifier, similarity = float(self.weights_[at] @ query + self.biases_[at]), float(centroid @ query)
        score = beta * classifier + (1 - beta) * similarity
        words: tuple[tuple[str, float], ...] = ()
        if isinstance(self.vectors_, ProjectedVectors | MeanVectors):
            names, parts = self.vectors_.shares(text)
            words = strongest(names, parts @ (beta * self.weights_[at] + (1 - beta) * centroid))
        evidence = (
            f"{beta:.2f} x the classifier's {classifier:.3f} and {1 - beta:.2f} x the similarity {similarity:.3f}; "
            f"without any of its words the score is {beta * float(self.biases_[at]):.3f}"
        )
        return Explanation(name, score, words, (evidence,))

    def _save(self, folder: FolderWriter) -> None:
        self.vectors_.save(folder)
        folder.arrays("index", self.index_.to_arrays(), ["vectors"])
        if self.documents_ is not None:
            folder.arrays("documents", self.documents_.to_arrays(), ["vectors"])
            folder.arrays("axes", {"axes": self.axes_})
            folder.matrix("targets", self.targets_)
        classifiers = {"labels": self.seen_, "weights": self.weights_, "biases": self.biases_}
        folder.arrays("classifiers", classifiers, ["weights"])

    def _load(self, folder: FolderReader) -> None:
        config = self.config
        svd = config.vectors == "svd"
        self.vectors_ = ProjectedVectors.load(folder, config.tfidf) if svd else load_vectors(folder, config)
        with folder.building("classifiers"):
            arrays = folder.arrays("classifiers")
            self.seen_, self.weights_, self.biases_ = arrays["labels"], arrays["weights"], arrays["biases"]
            count, width = len(self.seen_), self.vectors_.width
            if self.seen_.dtype != np.int32 or self.seen_.ndim != 1 or not count or (np.diff(self.seen_) <= 0).any():
                raise ValueError("its labels are not in order")
            if self.seen_[0] < 0 or self.seen_[-1] >= len(self._fitted()):
                raise ValueError("a classifier is for a label that does not exist")
            for array, shape in ((self.weights_, (count, width)), (self.biases_, (count,))):
                if array.dtype != np.float32 or array.shape != shape or not np.isfinite(array).all():
                    raise ValueError(f"{array.dtype} {array.shape} in place of {shape} finite numbers")
        self.index_ = _read_index(folder, "index", (count, width))
        if config.neighbours and folder.has("documents.safetensors"):  # earlier versions had none
            self.targets_ = folder.matrix("targets", (None, count))
            with folder.building("axes"):
                self.axes_ = folder.arrays("axes")["axes"]
                shape = (width, min(config.search_dimensions, width))
                if self.axes_.dtype != np.float32 or self.axes_.shape != shape or not np.isfinite(self.axes_).all():
                    raise ValueError(f"{self.axes_.dtype} {self.axes_.shape} in place of {shape} finite numbers")
            self.documents_ = _read_index(folder, "documents", (self.targets_.shape[0], shape[1]))


@dataclass(frozen=True, eq=False)
class TrainLabels:
    """The task of an executor: the classifiers of a block of labels."""

    config: SliceConfig
    vectors: Floats
    examples: Csr  # labels x documents, see `examples_of`

    def __call__(self, block: LabelBlock) -> tuple[Floats, Floats]:
        """The weights and biases of the labels."""
        from xmtc.kernels.dense_descent import train_on_lists

        own = take_rows(self.examples, block.labels)
        indptr, seed = own.indptr.astype(np.int64), derived_seed(self.config.seed, block.number)
        return train_on_lists(self.vectors, indptr, own.indices, own.data, solver_of(self.config), seed)


def memory_of_block(width: int) -> int:
    """Bytes that a block takes, for vectors of so many numbers."""
    return 64 * width * 1000


def examples_of(targets: Csr, reached: Csr) -> Csr:
    """Labels x documents: 1 for a label's own documents, -1 for others that have it among their candidates.

    >>> targets = csr_array(np.array([[1, 0], [0, 1], [0, 1]], np.float32))
    >>> examples_of(targets, csr_array(np.array([[1, 1, 0], [0, 0, 1]], np.float32))).toarray()
    array([[ 1., -1.,  0.],
           [ 0.,  1.,  1.]], dtype=float32)
    """
    both: Csr = (reached + 2 * targets.T.tocsr()).tocsr()
    both.sort_indices()
    return make_csr(np.where(both.data > 1, 1, -1).astype(np.float32), both.indices, both.indptr, both.shape)


def principal_axes(vectors: Floats, count: int) -> Floats:
    """(dimensions, axes): the directions in which the vectors are longest, at most as many, the longest first.

    >>> principal_axes(np.array([[1, 0], [-3, 0], [0, 2]], np.float32), 1).round(1).tolist()
    [[1.0], [0.0]]
    """
    with threadpool_limits(1, user_api="blas"):  # sums of one thread do not depend on their number
        axes = np.linalg.eigh((vectors.T @ vectors).astype(np.float64))[1][:, ::-1][:, :count]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return np.ascontiguousarray(axes * np.sign(largest), np.float32)


def turned(vectors: Floats, axes: Floats) -> Floats:
    """Unit vectors of the documents along these axes; a document's does not depend on which others are asked with it.

    >>> turned(np.array([[3, 4, 0]], np.float32), np.eye(3, 2, dtype=np.float32)).round(1).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    found = np.empty((len(vectors), axes.shape[1]), np.float32)
    for start in range(0, len(vectors), QUERY_BLOCK):
        block = slice(start, start + QUERY_BLOCK)
        found[block] = dense_csr(vectors[block]) @ axes  # row by row, where a product of dense matrices is by tiles
    return unit(found)


def _nearest(index: DenseIndex, queries: Floats, count: int) -> tuple[NDArray[np.int32], Floats]:
    """(ids, similarities) of the nearest, above a right angle; -1: no more.

    The exact search is done without the index's second look at its answers, which many answers make slow.
    """
    if index.kind != "flat":
        return index.nearest(queries, count)
    count = min(count, len(index))
    found, near = np.full((len(queries), count), -1, np.int32), np.zeros((len(queries), count), np.float32)
    with progress("searching", len(queries)) as bar:
        for start in range(0, len(queries), QUERY_BLOCK):
            block = slice(start, start + QUERY_BLOCK)
            found[block], near[block] = nearest_exactly(queries[block], index.vectors, count)
            bar.advance(len(found[block]))
    found[near <= 0] = -1
    return found, near


def _read_index(folder: FolderReader, name: str, shape: tuple[int, int]) -> DenseIndex:
    """A stored index, which is checked before its first use."""
    with folder.building(name):
        index = DenseIndex.from_arrays(folder.arrays(name), shape)

    def check() -> None:
        with folder.building(name):
            index.check()

    folder.check(f"{name}.safetensors", check)
    return index
