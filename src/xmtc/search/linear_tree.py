"""`LinearTree`: a label tree with linear classifiers at its nodes, and the search for the best labels in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import smallest_of
from xmtc.labelspace.tree import LabelTree
from xmtc.storage import FolderReader
from xmtc.text.token_store import offsets_of

if TYPE_CHECKING:
    from xmtc.kernels.row_lookup import Bitmaps
    from xmtc.kernels.tree_search import TreeArrays

LOSSES = ("squared_hinge", "logistic")
NO_OFFSETS = np.zeros((0, 0), np.float32)  # for classifiers that are trained from nothing
FEW_DOCUMENTS = 32  # at most, for one thread: starting others takes as long as the search for some
MOST_TOGETHER = 2048  # documents that a thread groups by the nodes they visit


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
    """A label's log-probability is the sum of those of the decisions on its path; see `xmtc.search.beam`."""

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

    @cached_property
    def _arrays(self) -> tuple[NodeWeights, Bitmaps, TreeArrays]:
        """What the search follows; a node's bitmap says which features it has."""
        from xmtc.kernels.row_lookup import Bitmaps, make_bitmaps
        from xmtc.kernels.tree_search import TreeArrays

        bitmaps = Bitmaps(*make_bitmaps(self.weights.node_rows, self.weights.features))
        return self.weights, bitmaps, TreeArrays(self.level_starts, self.child_starts, self.child_ids)

    def search(
        self,
        vectors: Csr,
        loss: str,
        beam_width: int,
        k: int,
        discount: float = 1.0,
        begin: tuple[int, NDArray[np.int32], NDArray[np.float32]] | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(label ids, log-probabilities) of the k best labels of each document, as `beam_search` gives them.

        It begins at the root, or with what something else has found: (level, nodes of each document, scores).
        """
        from xmtc.kernels import cores, in_threads
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.tree_search import search_tree

        documents = vectors.shape[0]
        if vectors.shape[1] > self.width:
            raise ValueError(f"documents with {vectors.shape[1]} features for a tree of {self.width}")
        ids = np.full((documents, k), -1, np.int32)
        scores = np.full((documents, k), -np.inf, np.float32)
        root = 0, np.zeros((documents, 1), np.int32), np.zeros((documents, 1), np.float32)
        how = *self._arrays, LOSSES.index(loss), beam_width, discount, *(begin or root)
        pieces = cores() * -(-documents // (cores() * MOST_TOGETHER)) if documents > FEW_DOCUMENTS else 1
        ends = [documents * at // pieces for at in range(pieces + 1)]

        def search(at: int) -> None:
            here = slice(ends[at], ends[at + 1])
            search_tree(CsrArrays.of(vectors), ends[at], *how, ids[here], scores[here])

        in_threads(search, range(pieces))
        return ids, scores

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

    def pruned(self, share: float) -> LinearTree:
        """This tree with its largest weights only, this share of them; of equal ones perhaps more."""
        old = self.weights
        kept = np.abs(old.weights) >= smallest_of(old.weights, share)
        before = offsets_of(kept)
        entries = before[old.entries]
        rows = np.diff(entries) > 0  # features of a node that still have a weight
        weights = old._replace(
            node_rows=offsets_of(rows)[old.node_rows],
            features=old.features[rows],
            entries=np.append(entries[:-1][rows], entries[-1]),
            children=old.children[kept],
            weights=old.weights[kept],
        )
        return LinearTree(self.tree, weights, self.width)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as flat arrays, for storage."""
        return {**self.tree.to_arrays(), **self.weights._asdict(), "width": np.array([self.width], np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], labels: int, width: int) -> LinearTree:
        """The inverse of `to_arrays`; a ValueError if the arrays do not fit together. `check` then reads them."""
        parts = {name: arrays[name] for name in NodeWeights._fields}
        if parts["weights"].dtype == np.float16:  # as format 2 had them
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
