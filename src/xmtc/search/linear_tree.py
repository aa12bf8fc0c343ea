"""`LinearTree`: a label tree with linear classifiers at its nodes, and the search for the best labels in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr
from xmtc.labelspace.tree import LabelTree
from xmtc.search.beam import LevelScorer, beam_search
from xmtc.storage import FolderReader
from xmtc.text.token_store import offsets_of

LOSSES = ("squared_hinge", "logistic")
NO_OFFSETS = np.zeros((0, 0), np.float32)  # for classifiers that are trained from nothing
FEW_DOCUMENTS = 32  # at most, to search them one by one; more share the reading of each node's weights


def concatenated(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """The arrays one after the other; the list is emptied, so that they need no memory if nobody else has them.

    >>> concatenated([np.array([1]), np.array([2, 3])]).tolist()
    [1, 2, 3]
    """
    joined: NDArray[Any] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    arrays.clear()
    return joined


def joined_offsets(arrays: list[NDArray[Any]]) -> NDArray[np.int64]:
    """The offsets of ragged arrays one after the other, from those of each; empties the list, as `concatenated`.

    >>> joined_offsets([np.array([0, 2]), np.array([0, 1, 4])]).tolist()
    [0, 2, 3, 6]
    """
    joined = np.zeros(1 + sum(len(each) - 1 for each in arrays), np.int64)
    end = 0
    for each in arrays:
        np.add(each[1:], joined[end], out=joined[end + 1 : end + len(each)])
        end += len(each) - 1
    arrays.clear()
    return joined


class NodeWeights(NamedTuple):
    """The classifiers of all nodes, level after level, each a sparse matrix of features x children of the node.

    Node n has the rows node_rows[n]:node_rows[n + 1]; row r is the feature features[r] (ascending within a node) and
    has weights for some children, counted within the node, at entries[r]:entries[r + 1]. `biases` run over the children
    of all nodes in the tree's order.
    """

    node_rows: NDArray[np.int64]
    features: NDArray[np.int32]
    entries: NDArray[np.int64]
    children: NDArray[np.int32]
    weights: NDArray[np.float32]
    biases: NDArray[np.float32]

    @classmethod
    def nothing(cls, nodes: int, children: int) -> NodeWeights:
        """No classifiers: for a level whose children something else scores."""
        none, ends = np.zeros(0, np.int32), np.zeros(1, np.int64)
        weights = np.zeros(0, np.float32)
        return cls(np.zeros(nodes + 1, np.int64), none, ends, none, weights, np.zeros(children, np.float32))

    @classmethod
    def of_levels(cls, levels: list[NodeWeights]) -> NodeWeights:
        """The classifiers of consecutive levels as one. Empties the list: hardly any memory is needed twice."""
        if len(levels) == 1:
            return levels.pop()
        parts = [list(arrays) for arrays in zip(*levels, strict=True)]
        levels.clear()
        return cls._make(
            joined_offsets(arrays) if name in ("node_rows", "entries") else concatenated(arrays)
            for name, arrays in zip(cls._fields, parts, strict=True)
        )


WEIGHT_TYPES = (np.int64, np.int32, np.int64, np.int32, np.float32, np.float32)


class Step(NamedTuple):
    """One decision on the way to a label: a node, numbered over all levels, and which of its children."""

    node: int
    child: int


@dataclass(frozen=True, eq=False)
class LinearTree:
    """A label's log-probability is the sum of those of the decisions on its path; see `beam_search`."""

    tree: LabelTree
    weights: NodeWeights
    width: int  # number of features

    @cached_property
    def level_starts(self) -> NDArray[np.int64]:
        """The number of the first node of each level."""
        return np.cumsum([0, *(level.shape[0] for level in self.tree.levels[:-1])])

    @cached_property
    def child_starts(self) -> NDArray[np.int64]:
        """Node n's children are child_ids[child_starts[n]:child_starts[n + 1]]."""
        sizes = [np.diff(level.indptr) for level in self.tree.levels]
        return offsets_of(np.concatenate(sizes))

    @cached_property
    def child_ids(self) -> NDArray[np.int32]:
        """The children of all nodes, numbered within their level; those of the last level are labels."""
        return np.concatenate([level.indices for level in self.tree.levels]).astype(np.int32)

    def search(
        self, vectors: Csr, loss: str, beam_width: int, k: int, discount: float = 1.0
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(label ids, log-probabilities) of the k best labels of each document, as `beam_search` gives them."""
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.tree_scoring import follow_beam

        if vectors.shape[0] > FEW_DOCUMENTS:
            return beam_search(self.tree, self.scorer(vectors, loss), vectors.shape[0], beam_width, k, discount)
        tree = self.level_starts, self.child_starts, self.child_ids
        found: tuple[NDArray[np.int32], NDArray[np.float32]] = follow_beam(
            CsrArrays.of(vectors), self.weights, *tree, LOSSES.index(loss), beam_width, k, discount
        )
        return found

    def scorer(self, vectors: Csr, loss: str) -> LevelScorer:
        """What `beam_search` asks for the log-probabilities of children of nodes, for these documents."""
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.tree_scoring import score_children

        rows, kind = CsrArrays.of(vectors), LOSSES.index(loss)

        def score(depth: int, documents: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.float32]:
            order = np.argsort(nodes, kind="stable")  # a node's weights are then read once for all its documents
            sizes = np.diff(self.tree.levels[depth].indptr)[nodes].astype(np.int64)
            starts = np.cumsum(sizes) - sizes
            pairs = documents[order], nodes[order] + self.level_starts[depth], starts[order], int(sizes.sum())
            return score_children(rows, self.width, self.weights, self.child_starts, *pairs, kind)

        return score

    def path(self, label: int) -> list[Step]:
        """The decisions that lead to a label, from the root down."""
        steps: list[Step] = []
        wanted = label
        for level, start in zip(reversed(self.tree.levels), self.level_starts[::-1].tolist(), strict=True):
            place = int(np.flatnonzero(level.indices == wanted)[0])
            wanted = int(np.searchsorted(level.indptr, place, "right")) - 1
            steps.insert(0, Step(start + wanted, place - int(level.indptr[wanted])))
        return steps

    def contributions(self, step: Step, features: NDArray[Any], values: NDArray[Any]) -> NDArray[np.float64]:
        """What each feature of a document adds to the score of a decision: weight x value."""
        first, last = self.weights.node_rows[step.node : step.node + 2].tolist()
        rows = self.weights.features[first:last]
        places = np.searchsorted(rows, features)
        found = np.zeros(len(features))
        for at, place in enumerate(places.tolist()):
            if place < len(rows) and rows[place] == features[at]:
                entries = slice(*self.weights.entries[first + place : first + place + 2].tolist())
                here = self.weights.children[entries] == step.child
                found[at] = float(self.weights.weights[entries][here].sum()) * float(values[at])
        return found

    def bias(self, step: Step) -> float:
        """The part of a decision's score that no feature contributes."""
        return float(self.weights.biases[self.child_starts[step.node] + step.child])

    def to_arrays(self, half: bool = False) -> dict[str, NDArray[Any]]:
        """Everything as flat arrays, for storage; `half`: weights with 16 bits, which is 3 digits."""
        weights = self.weights._asdict()
        if half:
            weights["weights"] = self.weights.weights.astype(np.float16)
        return {**self.tree.to_arrays(), **weights, "width": np.array([self.width], np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], labels: int, width: int) -> LinearTree:
        """The inverse of `to_arrays`; a ValueError if the arrays do not fit together. `check` then reads them."""
        parts = {name: arrays[name] for name in NodeWeights._fields}
        if parts["weights"].dtype == np.float16:
            parts["weights"] = parts["weights"].astype(np.float32)
        made = cls(LabelTree.from_arrays(arrays), NodeWeights(**parts), width)
        if made.tree.labels != labels or arrays["width"].tolist() != [width]:
            raise ValueError(f"a tree over {made.tree.labels} labels does not fit a model of {labels}")
        for name, kind in zip(NodeWeights._fields, WEIGHT_TYPES, strict=True):
            array = parts[name]
            if array.dtype != kind or array.ndim != 1:
                raise ValueError(f"{name} is an array of {array.dtype} {array.shape}")
        return made

    def check(self) -> None:
        """A ValueError unless every number lies where a compiled loop may follow it; reads all of them."""
        from xmtc.kernels.tree_scoring import sound_weights

        if not sound_weights(self.weights, self.child_starts, self.width):
            raise ValueError("its weights do not belong to its nodes and features")


def read_tree(folder: FolderReader, name: str, labels: int, width: int) -> LinearTree:
    """The tree in NAME.safetensors, of this many labels and features; BadModelFolder if it is damaged."""
    with folder.building(name):
        tree = LinearTree.from_arrays(folder.arrays(name), labels, width)

    def check() -> None:
        with folder.building(name):
            tree.check()

    folder.check(f"{name}.safetensors", check)
    return tree
