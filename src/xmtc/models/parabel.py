"""`parabel`: a linear classifier at every node of a balanced label tree.

Prabhu, Kag, Harsola, Agrawal, Varma: "Parabel: Partitioned Label Trees for Extreme Classification with Application to
Dynamic Search Advertising", WWW 2018.

What it does: clusters labels by the documents that carry them into a binary tree with at most 100 labels a leaf; at
each node one linear SVM per child, trained on the documents that have a label below the node; a label's probability is
the product of exp(-max(0, 1 - w x)^2) down its path; a beam follows the 10 best nodes of each level; 3 trees are
averaged.

Where it differs: the trees split exactly ceil(log2(labels / 100)) times, so that all paths are of one length. Each SVM
starts from the common solution for "no document has the label"; it ends within the same tolerance. A label without any
document gets the answer "no" and does not disturb the others. `loss="logistic"` gives a probabilistic label tree.

Cost: training grows with documents x labels per document x depth x children, prediction with beam x depth x words;
memory with the weights that are not pruned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.errors import XmtcError
from xmtc.kernels import in_threads
from xmtc.labelspace.tree import LabelTree, build_tree, derived_seed
from xmtc.labelspace.vectors import Representation, label_vectors
from xmtc.models.base import Capabilities, Explanation, Model, ModelConfig
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import Progress, progress
from xmtc.search.linear import LOSSES, LinearTree, NodeWeights
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.documents import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

LIST_LENGTH = 100  # of each tree's list before the trees are averaged
BATCH = 4096
SMALLEST_TASK = 8  # children; fewer would not be worth preparing the node's documents
SURE, NEVER = 100.0, -1.0  # scores of an only child, and of a child where nothing was ever seen


class ParabelConfig(ModelConfig):
    """The tree, its classifiers and the search, with the paper's values."""

    trees: PositiveInt = 3
    balanced: bool = True
    arity: int = Field(2, ge=2)
    max_leaf: PositiveInt = 100
    levels: PositiveInt | None = None
    label_vectors: Representation = "documents"
    loss: Literal["squared_hinge", "logistic"] = "squared_hinge"
    cost: PositiveFloat = Field(1.0, allow_inf_nan=False)
    tolerance: PositiveFloat = 0.1
    rounds: PositiveInt = 20
    smallest_weight: NonNegativeFloat = 0.1
    beam: PositiveInt = 10
    discount: float = Field(1.0, gt=0, le=1)
    tfidf: TfIdfSettings = Field(default_factory=TfIdfSettings)


class Parabel(Model):
    """An ensemble of label trees with linear classifiers.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> Parabel(trees=1, max_leaf=1).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "parabel"
    capabilities = Capabilities(
        summary="linear classifiers over balanced label trees; fast and hard to beat",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
    )
    Config = ParabelConfig
    config: ParabelConfig

    vectors_: DocumentVectors
    trees_: list[LinearTree]

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the documents' matrix, the labels' vectors, and the weights of all trees.

        A label's vector has the terms of all its documents, and so have its weights before they are pruned.
        """
        vectors = DocumentVectors(self.config.tfidf)
        shared = vectors.terms_of(corpus) * corpus.targets.nnz // max(1, len(corpus))
        return vectors.memory_needed(corpus) + (24 + 8 * self.config.trees) * shared

    def _fit(self, corpus: Corpus, valid: Corpus | None) -> None:
        config = self.config
        self.vectors_ = DocumentVectors(config.tfidf)
        features = self.vectors_.fit_transform(corpus)
        labels = label_vectors(features, corpus.targets, corpus.labels, config.label_vectors)
        self.trees_ = []
        for at in range(config.trees):
            tree = build_tree(
                labels, balanced=config.balanced, arity=config.arity, max_leaf=config.max_leaf, levels=config.levels,
                seed=derived_seed(config.seed, at),
            )  # fmt: skip
            with progress(f"training tree {at + 1} of {config.trees}", tree.nodes + tree.labels) as bar:
                weights = self._train(tree, features, corpus.targets, bar)
            self.trees_.append(LinearTree(tree, weights, self.vectors_.width))

    def _train(self, tree: LabelTree, features: Csr, targets: Csr, bar: Progress) -> NodeWeights:
        """The classifiers of all nodes, level by level; the nodes of a level share the cores."""
        parts: list[list[Trained]] = []
        for level, below in zip(tree.levels, tree.targets(targets), strict=True):
            documents_of = below.tocsc()

            def train(task: Task, documents_of: Any = documents_of) -> Trained:
                trained = self._train_children(features, documents_of, task)
                bar.advance(len(task.children))
                return trained

            tasks = list(tasks_of(level, documents_of))
            # The largest first, so that no core is left with one at the end.
            order = sorted(range(len(tasks)), key=lambda at: -tasks[at].cost)
            trained = dict(zip(order, in_threads(train, [tasks[at] for at in order]), strict=True))
            of_nodes: list[list[Trained]] = [[] for _ in range(level.shape[0])]
            for at, task in enumerate(tasks):
                of_nodes[task.node].append(trained[at])
            parts += of_nodes
        return joined(parts)

    def _train_children(self, features: Csr, documents_of: Any, task: Task) -> Trained:
        """The classifiers of some children of a node."""
        from xmtc.kernels.svm import train_node

        if task.only_child or not len(task.documents):  # nothing to decide, or nothing to learn from
            biases = np.full(len(task.children), SURE if task.only_child else NEVER, np.float32)
            return np.zeros(len(biases) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), biases
        config = self.config
        lists = [documents_of.indices[slice(*documents_of.indptr[child : child + 2])] for child in task.children]
        positives = [np.searchsorted(task.documents, found) for found in lists]
        trained: Trained = train_node(
            features.indptr, features.indices, features.data, task.documents, ends_of(map(len, positives)),
            np.concatenate(positives), LOSSES.index(config.loss), config.cost, config.tolerance, config.rounds,
            config.smallest_weight, derived_seed(config.seed, task.node, int(task.children[0])),
        )  # fmt: skip
        return trained

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        parts = [
            Predictions.blend(self._lists(self.vectors_.transform(corpus[start : start + BATCH]), k), k=k)
            for start in range(0, len(corpus), BATCH)
        ]
        ids, scores = (np.concatenate([getattr(part, what) for part in parts]) for what in ("ids", "scores"))
        return Predictions(ids, scores, self._fitted(), self.score_kind)

    def _lists(self, vectors: Csr, k: int) -> list[Predictions]:
        """Each tree's best labels, with their probabilities."""
        labels, config, lists = self._fitted(), self.config, []
        for tree in self.trees_:
            length = min(max(k, LIST_LENGTH), len(labels))
            ids, scores = tree.search(vectors, config.loss, config.beam, length, config.discount)
            lists.append(Predictions(ids, np.exp(scores), labels, self.score_kind))
        return lists

    def _explain(self, text: str, label: int) -> Explanation:
        """Words weigh weight x value in the scores of all decisions down to the label, added up.

        The mean over the trees whose search reached the label, or over all of them if none did.
        """
        if self.vectors_.tfidf is None:
            raise XmtcError(f"this {self.name} model was trained on features, so no words explain its answers")
        query = self.vectors_.transform(Corpus.of([text]))
        lists = self._lists(query, 1)
        chances = [float(found.scores[0][found.ids[0] == label].sum()) for found in lists]
        reached = [bool((found.ids[0] == label).any()) for found in lists]
        evidence = [f"{sum(reached)} of {len(lists)} trees found this label among their best"]
        total = np.zeros(query.nnz)
        for at, tree in enumerate(self.trees_):
            path = tree.path(label)
            if reached[at] or not any(reached):
                each = [tree.contributions(step, query.indices, query.data) for step in path]
                total += np.sum(each, axis=0) / max(1, sum(reached) or len(lists))
            said = f"with probability {chances[at]:.3f}" if reached[at] else "not reached, better paths filled the beam"
            evidence.append(f"tree {at + 1}, {len(path)} decisions: {said}")
        order = np.argsort(-np.abs(total), kind="stable")
        terms = self.vectors_.tfidf.terms
        words = tuple((terms[int(query.indices[i])], float(total[i])) for i in order if total[i] != 0)
        return Explanation(self._fitted().name(label), float(np.mean(chances)), words, tuple(evidence))

    def _save(self, folder: FolderWriter) -> None:
        folder.arrays("tfidf", self.vectors_.to_arrays())
        for at, tree in enumerate(self.trees_):
            folder.arrays(f"tree{at}", tree.to_arrays())

    def _load(self, folder: FolderReader) -> None:
        with folder.building("tfidf"):
            self.vectors_ = DocumentVectors.from_arrays(self.config.tfidf, folder.arrays("tfidf"))
        self.trees_ = []
        for at in range(self.config.trees):
            with folder.building(f"tree{at}"):
                arrays = folder.arrays(f"tree{at}")
                self.trees_.append(LinearTree.from_arrays(arrays, len(self._fitted()), self.vectors_.width))


#: (indptr, features, weights, biases): a CSR matrix of children x features and the children's biases
Trained = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True)
class Task:
    """Some children of a node, to be trained together on the node's documents."""

    node: int
    children: NDArray[np.int32]
    documents: NDArray[np.int32]
    only_child: bool

    @property
    def cost(self) -> int:
        """How much work it is, roughly."""
        return len(self.children) * len(self.documents)


def tasks_of(level: Csr, documents_of: Any) -> Iterator[Task]:
    """The work of a level: each node's children, in several parts where a node alone would keep one core busy long."""
    lengths = np.diff(documents_of.indptr)
    share = max(1, int(lengths.sum()) * int(np.diff(level.indptr).max()) // 64)
    for node in range(level.shape[0]):
        children = level.indices[level.indptr[node] : level.indptr[node + 1]]
        lists = [documents_of.indices[slice(*documents_of.indptr[child : child + 2])] for child in children]
        documents = np.unique(np.concatenate([*lists, np.zeros(0, np.int32)]))
        size = max(SMALLEST_TASK, share // max(1, len(documents)))
        for start in range(0, len(children), size):
            yield Task(node, children[start : start + size], documents, len(children) == 1)


def joined(parts: list[list[Trained]]) -> NodeWeights:
    """The classifiers of all nodes one after the other, each node's turned from children x features to the reverse."""
    from xmtc.kernels.tree import by_feature

    rows = []
    for of_node in parts:
        sizes = np.concatenate([np.zeros(0, np.int64), *(np.diff(part[0]) for part in of_node)])
        features = np.concatenate([np.zeros(0, np.int32), *(part[1] for part in of_node)])
        weights = np.concatenate([np.zeros(0, np.float32), *(part[2] for part in of_node)])
        rows.append(by_feature(ends_of(sizes), features, weights))
    return NodeWeights(
        ends_of(len(row[0]) for row in rows),
        np.concatenate([row[0] for row in rows]),
        ends_of(np.concatenate([np.diff(row[1]) for row in rows])),
        np.concatenate([row[2] for row in rows]),
        np.concatenate([row[3] for row in rows]),
        np.concatenate([part[3] for of_node in parts for part in of_node]),
    )


def ends_of(sizes: Any) -> NDArray[np.int64]:
    """0, and where each of consecutive parts of these sizes ends.

    >>> ends_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.fromiter(sizes, np.int64))])
