"""Training of one linear classifier for each label, in blocks that are done side by side and kept when finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr
from xmtc.executor import current_executor
from xmtc.progress import progress
from xmtc.search.linear_tree import concatenated, joined_offsets

NEVER = -10.0  # score of a label that no document has: below any other
SMALLEST_BLOCK = 8  # labels
BLOCKS = 64  # at least: not by the number of cores, so that the labels' seeds and neighbours do not depend on it

#: Weights, features x labels, and a bias for each label
Classifiers = tuple[Csr, NDArray[np.float32]]
#: (ends, features, weights, biases) of a block's labels: CSR of their weights
Block = tuple[NDArray[Any], NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]
PARTS = ("ends", "features", "weights", "biases")


class LabelBlock(NamedTuple):
    """Labels that are trained together, and the number of the block, from which its seed comes."""

    labels: NDArray[np.int32]
    number: int


def train_blocks(
    train: Callable[[LabelBlock], Block],
    order: NDArray[np.int32],
    largest: int,
    shape: tuple[int, int],
    checkpoints: Checkpoints,
    memory: int = 0,
) -> Classifiers:
    """The classifiers of the labels in `order`; the others of `shape` (features, labels) have the bias NEVER.

    `train` is the task of an executor, see `xmtc.executor`; a block takes `memory` bytes. There are at least BLOCKS, of
    at most `largest` labels, unless these would have fewer than SMALLEST_BLOCK.
    """
    size = min(largest, max(SMALLEST_BLOCK, -(-len(order) // BLOCKS)))
    blocks = [LabelBlock(order[start : start + size], at) for at, start in enumerate(range(0, len(order), size))]
    kept: dict[int, Mapping[str, NDArray[Any]]] = {}
    with progress("training classifiers", len(order)) as bar:
        for labels, number in blocks:
            found = checkpoints.get(f"block{number}")
            if found is not None and np.array_equal(found["labels"], labels):
                kept[number] = found
                bar.advance(len(labels))
        missing = [block for block in blocks if block.number not in kept]

        def keep(at: int, trained: Block) -> None:
            labels, number = missing[at]
            kept[number] = {**dict(zip(PARTS, trained, strict=True)), "labels": labels}
            checkpoints.put(f"block{number}", kept[number])
            bar.advance(len(labels))

        current_executor().map(train, missing, keep, memory=memory)
    parts = [kept.pop(block.number) for block in blocks]
    biases = np.full(shape[1], NEVER, np.float32)
    biases[order] = np.concatenate([np.zeros(0, np.float32), *(part["biases"] for part in parts)])
    if not parts:
        return make_csr(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(shape[0] + 1, np.int64), shape), biases
    ends, terms, weights = ([part[name] for part in parts] for name in ("ends", "features", "weights"))
    del parts
    by_label = csc_array(
        (concatenated(weights), concatenated(terms), joined_offsets(ends)), shape=(shape[0], len(order))
    )
    by_feature = by_label.tocsr()
    del by_label
    matrix = make_csr(by_feature.data, order[by_feature.indices], by_feature.indptr, shape)
    del by_feature
    matrix.sort_indices()
    return matrix, biases


def by_frequency(counts: NDArray[Any]) -> NDArray[np.int32]:
    """All labels, the frequent ones first: neighbours take about equally long, and the long ones begin.

    >>> by_frequency(np.array([1, 5, 1])).tolist()
    [1, 0, 2]
    """
    return np.argsort(-counts, kind="stable").astype(np.int32)
