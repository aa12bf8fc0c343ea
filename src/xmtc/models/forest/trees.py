"""`DocumentTrees`: the grown trees of a forest, one after the other, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.sparse import smallest_of
from xmtc.kernels import cores, in_threads
from xmtc.text.token_store import offsets_of

if TYPE_CHECKING:
    from xmtc.kernels.csr import CsrArrays
    from xmtc.kernels.forest_search import Tail
    from xmtc.kernels.tree_growth import TreeArrays

FEW = 4  # documents; one core is done before others would have begun
#: the arrays of a tree and their types, in the order of `TreeArrays`
TYPES: dict[str, type[np.generic]] = {
    "first_child": np.int32,
    "children": np.int32,
    "documents": np.int32,
    "biases": np.float32,
    "split_indptr": np.int64,
    "split_features": np.int32,
    "split_weights": np.float32,
    "leaf_indptr": np.int64,
    "leaf_labels": np.int32,
    "leaf_shares": np.float32,
}


def parts(count: int, documents: int) -> list[slice]:
    """Equal parts of `count` pieces of work, one for each core; few documents are not worth a thread.

    >>> parts(50, documents=1)
    [slice(0, 50, None)]
    """
    each = -(-count // (cores() if documents > FEW else 1))
    return [slice(start, min(start + each, count)) for start in range(0, count, each)]


class DocumentTrees:
    """Trees over documents; `roots` has the first node of each.

    >>> from xmtc.kernels.tree_growth import TreeArrays
    >>> node = {"first_child": [-1], "children": [0], "documents": [3], "biases": [0.0], "split_indptr": [0, 0]}
    >>> leaf = {"leaf_indptr": [0, 1], "leaf_labels": [2], "leaf_shares": [1.0]}
    >>> arrays = node | leaf | {"split_features": [], "split_weights": []}
    >>> one = TreeArrays(**{name: np.array(value, TYPES[name]) for name, value in arrays.items()})
    >>> DocumentTrees.of([one, one]).roots.tolist()
    [0, 1]
    """

    def __init__(self, roots: NDArray[np.int64], arrays: TreeArrays) -> None:
        self.roots, self.arrays = roots, arrays

    def __len__(self) -> int:
        return len(self.roots)

    @classmethod
    def of(cls, trees: Sequence[TreeArrays]) -> DocumentTrees:
        """One forest of several trees."""
        from xmtc.kernels.tree_growth import TreeArrays

        ends = offsets_of(len(tree.children) for tree in trees)
        moved = [
            np.where(tree.first_child < 0, -1, tree.first_child + start).astype(np.int32)
            for tree, start in zip(trees, ends, strict=False)
        ]
        joined = {name: np.concatenate([getattr(tree, name) for tree in trees]) for name in TYPES}
        for name in ("split_indptr", "leaf_indptr"):
            joined[name] = offsets_of(np.concatenate([np.diff(getattr(tree, name)) for tree in trees]))
        return cls(ends[:-1], TreeArrays(**{**joined, "first_child": np.concatenate(moved)}))

    def leaves(self, rows: CsrArrays, width: int, seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Trees x documents: where each document ends; see `xmtc.kernels.forest_search`. Trees share the cores."""
        from xmtc.kernels.forest_search import find_leaves

        def walk(part: slice) -> NDArray[np.int32]:
            return find_leaves(self.arrays, self.roots[part], rows, width, seeds[part])

        return np.concatenate(in_threads(walk, parts(len(self), len(rows.indptr) - 1)))

    def labels(
        self, leaves: NDArray[np.int32], labels: int, k: int, rows: CsrArrays, width: int, tail: Tail
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(ids, scores) of the k best of so many labels for each document. Documents share the cores."""
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.forest_search import leaf_labels

        def vote(part: slice) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
            own = CsrArrays(rows.indptr[part.start : part.stop + 1], rows.indices, rows.data)
            return leaf_labels(leaves[:, part], self.arrays, labels, k, own, width, tail)

        found = in_threads(vote, parts(leaves.shape[1], leaves.shape[1]))
        return np.concatenate([ids for ids, _ in found]), np.concatenate([scores for _, scores in found])

    def pruned(self, share: float) -> DocumentTrees:
        """These trees with the largest weights of their splits only, this share of them; of equal ones perhaps more."""
        old = self.arrays
        kept = np.abs(old.split_weights) >= smallest_of(old.split_weights, share)
        weights, features = old.split_weights[kept], old.split_features[kept]
        ends = offsets_of(kept)[old.split_indptr]
        return DocumentTrees(
            self.roots, old._replace(split_weights=weights, split_features=features, split_indptr=ends)
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as flat arrays, for storage."""
        return {"roots": self.roots, **self.arrays._asdict()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> DocumentTrees:
        """The inverse of `to_arrays`; a ValueError for other types or sizes. `check` then reads them."""
        from xmtc.kernels.tree_growth import TreeArrays

        made = cls(arrays["roots"], TreeArrays(**{name: arrays[name] for name in TYPES}))
        nodes = made.arrays.children.shape
        for name, kind in {"roots": np.int64, **TYPES}.items():
            array = arrays[name]
            if array.dtype != kind or array.ndim != 1:
                raise ValueError(f"{name} is an array of {array.dtype} {array.shape}")
        for name in ("first_child", "documents", "biases"):
            if arrays[name].shape != nodes:
                raise ValueError(f"{name} has {arrays[name].shape} entries for {nodes} nodes")
        for kind, parts in (("split", ("features", "weights")), ("leaf", ("labels", "shares"))):
            ends, sizes = arrays[f"{kind}_indptr"], {arrays[f"{kind}_{part}"].shape for part in parts}
            if ends.shape != (nodes[0] + 1,) or ends[0] != 0 or sizes != {(int(ends[-1]),)}:
                raise ValueError(f"the {kind} rows do not belong to {nodes[0]} nodes")
        return made

    def check(self, width: int, labels: int, arity: int) -> None:
        """A ValueError unless every number lies where a compiled loop may follow it; reads all of them."""
        tree, count = self.arrays, len(self.arrays.children)
        leaf, first = tree.children == 0, tree.first_child.astype(np.int64)
        below = (first > np.arange(count)) & (tree.children > 1) & (tree.children <= arity)
        fits = first + tree.children <= count
        if not len(self.roots) or np.any(self.roots < 0) or np.any(self.roots >= count):
            raise ValueError("a root is no node")
        if not np.all(np.where(leaf, first == -1, below & fits)):
            raise ValueError("a node's children do not come after it")
        if np.any(tree.documents < 0):
            raise ValueError("a node has fewer than no documents")
        for name, ends in (("split", tree.split_indptr), ("leaf", tree.leaf_indptr)):
            if np.any(ends[1:] < ends[:-1]):
                raise ValueError(f"the ends of the {name} rows do not rise")
        for name, numbers, limit in (
            ("feature", tree.split_features, width),
            ("label", tree.leaf_labels, labels),
        ):
            if len(numbers) and not 0 <= numbers.min() <= numbers.max() < limit:
                raise ValueError(f"a {name} is outside of 0 to {limit - 1}")
        if not all(np.isfinite(each).all() for each in (tree.split_weights, tree.biases, tree.leaf_shares)):
            raise ValueError("a number is not finite")
        if not np.all(tree.leaf_shares > 0):
            raise ValueError("a share is not above 0")
