"""Training of the linear classifiers of a label tree, level by level; the nodes of a level are done side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr
from xmtc.executor import current_executor
from xmtc.kernels import cores, in_threads
from xmtc.labelspace.tree import LabelTree
from xmtc.progress import Progress
from xmtc.search.linear_tree import LOSSES, NO_OFFSETS, NodeWeights, concatenated, joined_offsets
from xmtc.seeding import derived_seed
from xmtc.text.token_store import offsets_of

if TYPE_CHECKING:
    from xmtc.kernels.coordinate_descent import Importance, Solver

Floats = NDArray[np.float32]
SMALLEST_TASK = 8  # children; fewer would not be worth preparing the node's documents
PARTS_A_CORE = 8  # of a level's work, at least, so that no core waits long for the last part of another
SURE, NEVER = 100.0, -1.0  # scores of an only child, and of a child where nothing was ever seen


class LinearSettings(Protocol):
    """How classifiers are trained; see `xmtc.kernels.coordinate_descent`."""

    @property
    def loss(self) -> str:
        """One of LOSSES."""

    @property
    def cost(self) -> float:
        """Of a wrong document, beside the size of the weights."""

    @property
    def bias(self) -> float:
        """How freely the bias moves."""

    @property
    def tolerance(self) -> float:
        """When to stop."""

    @property
    def rounds(self) -> int:
        """Rounds over all documents, at most."""

    @property
    def smallest_weight(self) -> float:
        """Smaller ones are dropped."""


def solver_of(settings: LinearSettings) -> Solver:
    """The settings as the kernel takes them."""
    from xmtc.kernels.coordinate_descent import Solver

    return Solver(
        loss=LOSSES.index(settings.loss),
        cost=settings.cost,
        tolerance=settings.tolerance,
        max_rounds=settings.rounds,
        smallest_weight=settings.smallest_weight,
        bias=settings.bias,
    )


def importance_of(weights: Floats | None, positives: Floats) -> Importance:
    """How much documents and positive examples count, as the kernel takes it; without weights all count the same."""
    from xmtc.kernels.coordinate_descent import Importance

    nothing = np.zeros(0, np.float32)
    return Importance(nothing, nothing) if weights is None else Importance(weights, positives)


def linear_weights(corpus: Corpus) -> tuple[Csr, Floats | None]:
    """(documents x labels: how much each positive example counts, how much each document counts beside).

    The latter is None if all count the same.

    >>> corpus = Corpus.of(["red fruit", "blue sky"], ["apple", "weather"]).with_weights(labels={"apple": 3})
    >>> targets, weights = linear_weights(corpus)
    >>> targets.toarray().tolist(), weights.tolist()
    ([[3.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    """
    targets, weights = corpus.targets, corpus.document_weights
    if corpus.label_weights is not None:
        data = corpus.label_weights[targets.indices]
        targets = make_csr(data, targets.indices, targets.indptr, targets.shape)
        weights = np.ones(len(corpus), np.float32) if weights is None else weights
    return targets, weights


def child_documents(tree: LabelTree, targets: Csr) -> list[Any]:
    """For each level documents x its children in the tree's order, by columns: which documents each child has.

    An entry is how much it counts as a positive example: for a group of labels, as much as the document's label that
    counts most.
    """
    found = tree.targets(targets)
    if np.any(targets.data != 1):
        for depth in range(tree.depth - 1, 0, -1):
            below, above = found[depth].tocoo(), found[depth - 1]
            # Both are sorted by document and column, so a pair's place is found by its number.
            rows = np.repeat(np.arange(above.shape[0]), np.diff(above.indptr))
            numbers = rows * above.shape[1] + above.indices
            places = np.searchsorted(
                numbers, below.row.astype(np.int64) * above.shape[1] + tree.parents(depth)[below.col]
            )
            largest = np.zeros(above.nnz, np.float32)
            np.maximum.at(largest, places, below.data)
            found[depth - 1] = make_csr(largest, above.indices, above.indptr, above.shape)
    return [each.tocsc()[:, level.indices] for level, each in zip(tree.levels, found, strict=True)]


def train_level(train: TrainChildren, level: Csr, lists: Any, reached: Csr | None, bar: Progress) -> NodeWeights:
    """The classifiers of all nodes of a level, from its part of `child_documents`.

    A node is trained on the documents that its children have, and on those that are `reached` (nodes x documents),
    which it is to say no to. `bar` advances by `work_of` the level. Levels of the same documents share `train`.
    """
    nodes = list(tasks_of(level, lists, reached))
    # The largest first, so that no core is left with one at the end.
    tasks = sorted(nodes, key=lambda task: -task.work)
    memory = memory_of_task(train.features.nnz, train.features.shape[0])
    trained: dict[tuple[int, int], Trained] = {}

    def keep(at: int, found: Trained) -> None:
        trained[tasks[at].node, tasks[at].first] = found
        bar.advance(tasks[at].planned)

    current_executor().map(train, tasks, keep, memory=memory)
    of_nodes: list[list[Trained]] = [[] for _ in range(level.shape[0])]
    for task in nodes:
        of_nodes[task.node].append(trained.pop((task.node, task.first)))
    nodes.clear()
    tasks.clear()
    return joined(of_nodes)


def reached_by(found: NDArray[np.int32], nodes: int) -> Csr:
    """Nodes x documents, from the nodes that a search has found for each document (-1: no more).

    >>> reached_by(np.array([[1, 0], [1, -1]], np.int32), 2).toarray().tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    documents, places = np.nonzero(found >= 0)
    ones = np.ones(len(documents), np.float32)
    return csr_array((ones, (found[documents, places], documents)), shape=(nodes, len(found)))


#: (sizes, features, weights, biases): the weights of some children one after the other, sizes[i] of child i
Trained = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True)
class Task:
    """Some children of a node, to be trained together on the node's documents."""

    node: int
    first: int  # which of the node's children
    documents: NDArray[np.int32]
    sizes: NDArray[np.int64]  # how many documents each child has
    positives: NDArray[np.int64]  # which, child after child, as positions in `documents`
    importance: Floats  # how much each of them counts
    only_child: bool  # and no document to say no to
    planned: int  # its part of the work as foreseen before training

    @property
    def work(self) -> int:
        """How long it will take, roughly."""
        return len(self.sizes) * len(self.documents)


@dataclass(frozen=True, eq=False)
class TrainChildren:
    """The task of an executor: the classifiers of some children of a node."""

    features: Csr
    weights: Floats | None  # of documents, see `linear_weights`
    settings: LinearSettings
    seed: int

    def __call__(self, task: Task) -> Trained:
        """The weights and biases of the children."""
        from xmtc.kernels.coordinate_descent import train_node
        from xmtc.kernels.csr import CsrArrays

        biases = np.full(len(task.sizes), SURE if task.only_child else NEVER, np.float32)
        found = np.flatnonzero(task.sizes) if not task.only_child else np.zeros(0, np.int64)
        if not len(found):  # nothing to decide, or nothing to learn from
            return np.zeros(len(biases), np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), biases
        matrix, width = CsrArrays.of(self.features), self.features.shape[1]
        positives = offsets_of(task.sizes[found]), task.positives
        own = self.weights[task.documents] if self.weights is not None else None
        importance, seed = importance_of(own, task.importance), derived_seed(self.seed, task.node, task.first)
        ends, terms, weights, biases[found] = train_node(
            matrix, width, task.documents, *positives, NO_OFFSETS, importance, solver_of(self.settings), seed
        )
        sizes = np.zeros(len(biases), np.int64)
        sizes[found] = np.diff(ends)
        return sizes, terms, weights, biases


def memory_of_task(terms: int, documents: int) -> int:
    """Bytes that training takes in a task: a copy of documents with so many terms, and eight labels' weights.

    >>> memory_of_task(terms=1000, documents=10)
    19900
    """
    return 12 * terms + 64 * terms // 10 + 150 * documents


def work_of(level: Csr, lists: Any) -> int:
    """How long a level will take, in the unit of `Task.planned`: children x documents, over its nodes."""
    children = np.diff(level.indptr).astype(np.int64)
    documents = np.diff(lists.indptr[level.indptr]).astype(np.int64)
    return int((children * documents).sum())


def tasks_of(level: Csr, lists: Any, reached: Csr | None) -> Iterator[Task]:
    """The work of a level: each node's children, in several parts where a node alone would keep one core busy long.

    Column i of `lists` has the documents of child level.indices[i], `reached` for each node documents that it is also
    to say no to.
    """
    ends = lists.indptr[level.indptr]  # of the nodes' parts of lists.indices
    share = max(1, work_of(level, lists) // (PARTS_A_CORE * cores()))
    for node in range(level.shape[0]):
        children = np.diff(lists.indptr[level.indptr[node] : level.indptr[node + 1] + 1]).astype(np.int64)
        found = lists.indices[ends[node] : ends[node + 1]]
        counts = lists.data[ends[node] : ends[node + 1]]
        if reached is None:
            documents, places = np.unique(found, return_inverse=True)
        else:
            wrong = reached.indices[reached.indptr[node] : reached.indptr[node + 1]]
            documents = np.union1d(found, wrong)
            places = np.searchsorted(documents, found)
        size = max(SMALLEST_TASK, share // max(1, len(found)))
        starts = offsets_of(children)
        nothing_to_decide = len(children) == 1 and len(documents) == len(found)
        for first in range(0, max(1, len(children)), size):  # a node without children, too
            last = min(first + size, len(children))
            yield Task(
                node=node,
                first=first,
                documents=documents.astype(np.int32),
                sizes=children[first:last],
                positives=places[starts[first] : starts[last]].astype(np.int64),
                importance=counts[starts[first] : starts[last]],
                only_child=nothing_to_decide,
                planned=(last - first) * len(found),
            )


def joined(of_nodes: list[list[Trained]]) -> NodeWeights:
    """The classifiers of a level's nodes one after the other, each node's turned from children x features around.

    Empties the lists of the nodes, and holds hardly anything twice.
    """
    from xmtc.kernels.tree_scoring import by_feature

    biases = np.concatenate([part[3] for parts in of_nodes for part in parts])

    def turned(parts: list[Trained]) -> Any:
        sizes, features, weights, _ = (concatenated(list(arrays)) for arrays in zip(*parts, strict=True))
        parts.clear()
        return by_feature(offsets_of(sizes), features, weights)

    features, entries, children, weights = (list(arrays) for arrays in zip(*in_threads(turned, of_nodes), strict=True))
    return NodeWeights(
        offsets_of(map(len, features)),
        concatenated(features),
        joined_offsets(entries),
        concatenated(children),
        concatenated(weights),
        biases,
    )
