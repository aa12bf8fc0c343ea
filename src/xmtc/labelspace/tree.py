"""`LabelTree`, and the one builder whose options give every tree of the field.

| tree | options |
|---|---|
| Parabel | `balanced=True, max_leaf=100` |
| Bonsai | `balanced=False, arity=100, max_leaf=100` |
| AttentionXML, shallow and wide | `balanced=True, max_leaf=M, arity=K, levels=H` |
| the hierarchy that was given | `given_tree(labels)` |
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr, LabelSet
from xmtc.corpus.sparse import checked_csr, make_csr
from xmtc.errors import ConfigError, XmtcError
from xmtc.kernels import in_threads
from xmtc.progress import progress
from xmtc.seeding import derived_seed
from xmtc.text.token_store import offsets_of

SMALLEST_GAIN = 1e-4
MAX_ROUNDS = 50
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelTree:
    """A chain of CSR matrices: level d has a row for each node and a 1 at each of its children.

    The first level has one row, the root; the columns of the last level are labels, each under exactly one node. Every
    path has the same length; where a tree is shallower, a node with a single child carries it down.

    >>> tree = LabelTree.of([[[0, 1]], [[0, 2], [1]]])
    >>> tree.labels, tree.depth, [level.shape for level in tree.levels]
    (3, 2, [(1, 2), (2, 3)])
    """

    levels: tuple[Csr, ...]

    def __post_init__(self) -> None:
        for above, level in zip((None, *self.levels), self.levels, strict=False):
            if level.shape[0] != (1 if above is None else above.shape[1]):
                raise XmtcError("a level of the label tree does not fit to the one above")
            if not np.array_equal(np.sort(level.indices), np.arange(level.shape[1])):
                raise XmtcError("each node of a label tree must have exactly one parent")

    @classmethod
    def of(cls, levels: Sequence[Sequence[Sequence[int]]]) -> LabelTree:
        """A tree from lists: for each level, for each node, its children."""
        return cls(tuple(_level([np.array(children, np.int64) for children in level]) for level in levels))

    @property
    def labels(self) -> int:
        """Number of labels."""
        return int(self.levels[-1].shape[1])

    @property
    def depth(self) -> int:
        """Number of levels: decisions on the way from the root to a label."""
        return len(self.levels)

    def children(self, depth: int, node: int) -> NDArray[np.int32]:
        """The children of a node: nodes of the next level, or labels."""
        level = self.levels[depth]
        return level.indices[level.indptr[node] : level.indptr[node + 1]]

    def parents(self, depth: int) -> Ints:
        """The node above each of a level's children (its columns); on the first level that is the root, 0.

        >>> LabelTree.of([[[0, 1]], [[2, 0], [1]]]).parents(1).tolist()
        [0, 1, 0]
        """
        level = self.levels[depth]
        above = np.empty(level.shape[1], np.int64)
        above[level.indices] = np.repeat(np.arange(level.shape[0]), np.diff(level.indptr))
        return above

    def targets(self, label_targets: Csr) -> list[Csr]:
        """For each level documents x its children, 1 where a document has a label below; the last are the labels."""
        found = [label_targets]
        for level in reversed(self.levels[1:]):
            above = (found[0] @ level.T).tocsr()
            above.sort_indices()
            found.insert(0, make_csr(np.ones(above.nnz, np.float32), above.indices, above.indptr, above.shape))
        return found

    def spread_over(self, kept: Ints, labels: int) -> LabelTree:
        """This tree of the labels `kept` as one of more labels: the others are spread evenly over the lowest nodes.

        >>> LabelTree.of([[[0, 1]], [[0], [1]]]).spread_over(np.array([1, 3]), 4).levels[-1].toarray().tolist()
        [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
        """
        last = self.levels[-1]
        others = np.array_split(np.setdiff1d(np.arange(labels), kept), last.shape[0])
        leaves = [np.sort(np.append(kept[self.children(self.depth - 1, at)], more)) for at, more in enumerate(others)]
        return LabelTree((*self.levels[:-1], _level(leaves)))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as flat arrays, for storage."""
        return {
            f"{depth}.{part}": getattr(level, part)
            for depth, level in enumerate(self.levels)
            for part in ("indices", "indptr")
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LabelTree:
        """The inverse of `to_arrays`; an error for arrays that make no tree."""
        levels: list[Csr] = []
        while f"{len(levels)}.indices" in arrays:
            indices, indptr = arrays[f"{len(levels)}.indices"], arrays[f"{len(levels)}.indptr"]
            shape = (len(indptr) - 1, len(indices))
            levels.append(checked_csr(np.ones(indices.shape, np.float32), indices, indptr, shape))
        if not levels:
            raise ValueError("there is no level of a tree")
        return cls(tuple(levels))


def build_tree(
    vectors: Csr,
    *,
    balanced: bool = True,
    arity: int = 2,
    max_leaf: int = 100,
    levels: int | None = None,
    seed: int = 0,
) -> LabelTree:
    """Cluster labels into a tree, from unit vectors (see `label_vectors`).

    Balanced: rounds of balanced 2-means, as many as bring every node to at most `max_leaf` labels, of which every
    c-th is kept from the bottom up, `arity` being 2 ** c, and at most `levels` in all. Not balanced: k-means with
    k = `arity` again and again until a node has at most `max_leaf` labels or `levels` rounds are done.
    """
    if vectors.shape[0] < 1 or max_leaf < 1 or arity < 2 or (levels is not None and levels < 0):
        raise ConfigError(f"no tree has {vectors.shape[0]} labels, arity {arity}, max_leaf {max_leaf}, levels {levels}")
    if balanced:
        return _balanced_tree(vectors, arity, max_leaf, levels, seed)
    return _kmeans_tree(vectors, arity, max_leaf, levels, seed)


def _balanced_tree(vectors: Csr, arity: int, max_leaf: int, levels: int | None, seed: int) -> LabelTree:
    from xmtc.kernels.clustering import balanced_split
    from xmtc.kernels.csr import CsrArrays

    arrays = CsrArrays.of(vectors)
    step = int(math.log2(arity))
    if 2**step != arity:
        raise ConfigError(f"the arity of a balanced tree must be a power of 2, not {arity}")
    count = vectors.shape[0]
    rounds = max(0, math.ceil(math.log2(count / max_leaf)))
    groups: list[Ints] = [np.arange(count)]
    kept = list(range(rounds, 0, -step))[:levels]
    sizes: dict[int, int] = {}
    with progress("clustering labels", rounds) as bar:
        for depth in range(1, rounds + 1):

            def split(at: int, groups: list[Ints] = groups, depth: int = depth) -> list[Ints]:
                members = groups[at]
                if len(members) < 2:
                    return [members[:0], members]
                own_seed = derived_seed(seed, depth, at)
                ordered = balanced_split(arrays, vectors.shape[1], members, SMALLEST_GAIN, MAX_ROUNDS, own_seed)
                half = len(ordered) // 2
                return [ordered[:half], ordered[half:]]

            groups = [half for halves in in_threads(split, range(len(groups))) for half in halves]
            sizes[depth] = len(groups)
            bar.advance()
    # Breadth-first order makes the children of node i the nodes from i * fan-out on.
    above, parts = 1, []
    for depth in sorted(kept):
        fan_out = sizes[depth] // above
        parts.append([np.arange(node * fan_out, (node + 1) * fan_out) for node in range(above)])
        above = sizes[depth]
    if not kept:
        groups = [np.concatenate(groups)]
    parts.append([np.sort(group) for group in groups])
    return LabelTree(tuple(_level(part) for part in parts))


def _kmeans_tree(vectors: Csr, arity: int, max_leaf: int, levels: int | None, seed: int) -> LabelTree:
    from xmtc.kernels.clustering import kmeans_split
    from xmtc.kernels.csr import CsrArrays

    arrays = CsrArrays.of(vectors)
    groups: list[Ints] = [np.arange(vectors.shape[0])]
    parts: list[list[Ints]] = []
    depth = 0
    with progress("clustering labels") as bar:
        while max(map(len, groups)) > max_leaf and (levels is None or depth < levels):

            def split(at: int, groups: list[Ints] = groups, depth: int = depth) -> list[Ints]:
                members = groups[at]
                if len(members) <= max_leaf:
                    return [members]
                own_seed, count = derived_seed(seed, depth, at), min(arity, len(members))
                found = kmeans_split(arrays, vectors.shape[1], members, count, SMALLEST_GAIN, MAX_ROUNDS, own_seed)
                clusters = [members[found == cluster] for cluster in np.unique(found)]
                if len(clusters) > 1:
                    return clusters
                # Labels that look all alike (or have no documents) cannot be told apart: cut them into equal parts.
                return np.array_split(members, min(arity, math.ceil(len(members) / max_leaf)))

            found = list(map(split, range(len(groups))))  # each split uses all cores
            ends = np.cumsum([len(clusters) for clusters in found])
            parts.append([np.arange(end - len(clusters), end) for clusters, end in zip(found, ends, strict=True)])
            groups = [cluster for clusters in found for cluster in clusters]
            depth += 1
            bar.advance()
    parts.append(groups)
    return LabelTree(tuple(_level(part) for part in parts))


def complete_tree(order: Ints, arity: int, max_leaf: int) -> LabelTree:
    """All labels in the order given, cut into leaves of equal size, and these into nodes of `arity` children.

    >>> [level.shape for level in complete_tree(np.arange(9), arity=2, max_leaf=2).levels]
    [(1, 2), (2, 3), (3, 5), (5, 9)]
    """
    parts = [[np.sort(leaf) for leaf in np.array_split(order, math.ceil(len(order) / max_leaf))]]
    while len(parts[0]) > 1:
        below = len(parts[0])
        parts.insert(0, np.array_split(np.arange(below), math.ceil(below / arity)))
    return LabelTree(tuple(_level(part) for part in parts))


def given_tree(labels: LabelSet) -> LabelTree:
    """The tree of the label set's own hierarchy (the first parent where a label has several).

    A label that has others below it is a node, and is itself a leaf under this node; a label without parents and
    children hangs under one node for all such. Shallow branches are carried down by nodes with a single child.
    """
    if labels.parents is None:
        raise XmtcError("these labels have no hierarchy; give a labels.tsv with a parent column or a SKOS file")
    parent = np.array([(labels.parents_of(at) or [-1])[0] for at in range(len(labels))], np.int64)
    inner = np.zeros(len(labels), bool)
    inner[parent[parent >= 0]] = True
    # The path of nodes (labels that have labels below) from the top down to each label; -1 is the node of the rest.
    paths: list[list[int]] = []
    for at in range(len(labels)):
        node = at if inner[at] else int(parent[at])
        path: list[int] = []
        while node >= 0:
            path.insert(0, node)
            node = int(parent[node])
        paths.append(path or [-1])
    depth = max(map(len, paths))
    return tree_of_paths([tuple(path + [path[-1]] * (depth - len(path))) for path in paths])


def tree_of_paths(paths: Sequence[tuple[int, ...] | tuple[str, ...]]) -> LabelTree:
    """The tree in which each label has these nodes above it, from below the root down; all paths are of one length.

    >>> [level.toarray().tolist() for level in tree_of_paths([(7,), (5,), (7,)]).levels]
    [[[1.0, 1.0]], [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]]
    """
    parts: list[list[Ints]] = []
    above: list[Any] = [()]
    for size in range(1, len(paths[0]) + 1):
        nodes = sorted({path[:size] for path in paths})
        parts.append(_places_of(above, [node[:-1] for node in nodes]))
        above = nodes
    parts.append(_places_of(above, paths))
    return LabelTree(tuple(_level(part) for part in parts))


def _places_of(nodes: Sequence[Any], parents: Sequence[Any]) -> list[Ints]:
    """For each node the places of its children in `parents`."""
    found: dict[Any, list[int]] = {node: [] for node in nodes}
    for at, parent in enumerate(parents):
        found[parent].append(at)
    return [np.array(places, np.int64) for places in found.values()]


def _level(children: Sequence[Ints]) -> Csr:
    flat = np.concatenate([*children, np.zeros(0, np.int64)])
    return make_csr(np.ones(len(flat), np.float32), flat, offsets_of(map(len, children)), (len(children), len(flat)))
