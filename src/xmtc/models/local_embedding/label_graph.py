"""Which documents have similar labels: the graphs that embeddings are learned from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr, unit_rows
from xmtc.search.sparse_index import SparseIndex
from xmtc.text.token_store import offsets_of

SHARD = 65_536  # documents that are searched at once; more are dealt out at random


def label_neighbours(
    targets: Csr, k: int, rng: np.random.Generator, itself: bool = False, by_share: bool = False
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """(documents, cosines of the label vectors): for each document the k with the most similar labels, -1: no more.

    Documents with the same labels are all equally near, so a random order decides among them. Above SHARD documents
    they are dealt out into parts of about that size, and neighbours are found within a part. With `by_share`, not the
    cosine counts but which share of the other's labels a document has.

    >>> ones = make_csr(np.ones(4, np.float32), np.array([0, 0, 1, 1]), np.array([0, 1, 3, 4]), (3, 2))
    >>> label_neighbours(ones, 1, np.random.default_rng(0))[0].ravel().tolist()
    [1, 2, 1]
    """
    count = targets.shape[0]
    ids, cosines = np.full((count, k), -1, np.int32), np.zeros((count, k), np.float32)
    vectors = unit_rows(targets)
    others = share_rows(targets) if by_share else vectors
    for members in np.array_split(rng.permutation(count), -(-count // SHARD)):
        index = SparseIndex.of(take_rows(others, members))
        found, near = index.nearest(take_rows(vectors, members), k if itself else k + 1)
        good = found >= 0
        if not itself:
            good &= found != np.arange(len(members))[:, None]
        order = np.argsort(~good, axis=1, kind="stable")[:, :k]
        kept = np.take_along_axis(good, order, 1)
        found = np.where(kept, members[np.take_along_axis(found, order, 1)], -1)
        ids[members, : found.shape[1]] = found
        cosines[members, : found.shape[1]] = np.where(kept, np.take_along_axis(near, order, 1), 0)
    return ids, cosines


def ranking_graph(targets: Csr, k: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """AnnexML's neighbours: by the share of their labels, and over again where there are fewer than k; -1: none.

    >>> ones = make_csr(np.ones(4, np.float32), np.array([0, 0, 1, 2]), np.array([0, 1, 3, 4]), (3, 3))
    >>> ranking_graph(ones, 2, np.random.default_rng(0)).tolist()
    [[1, 1], [0, 0], [-1, -1]]
    """
    ids, _ = label_neighbours(targets, k, rng, by_share=True)
    counts = np.maximum((ids >= 0).sum(axis=1, keepdims=True), 1)
    graph: NDArray[np.int32] = np.take_along_axis(ids, np.arange(ids.shape[1])[None] % counts, axis=1)
    return graph


def share_rows(targets: Csr) -> Csr:
    """The rows with 1 / their number of labels in place of 1."""
    sizes = np.diff(targets.indptr)
    data = np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32)
    return make_csr(data, targets.indices, targets.indptr, targets.shape)


def similarity_pairs(targets: Csr, k: int, rng: np.random.Generator) -> Csr:
    """Documents x documents: the cosine of the label vectors where one is among the k nearest of the other.

    >>> ones = make_csr(np.ones(4, np.float32), np.array([0, 0, 1, 1]), np.array([0, 1, 3, 4]), (3, 2))
    >>> similarity_pairs(ones, 2, np.random.default_rng(0)).toarray().astype(float).round(2).tolist()
    [[1.0, 0.71, 0.0], [0.71, 1.0, 0.71], [0.0, 0.71, 1.0]]
    """
    ids, cosines = label_neighbours(targets, k, rng, itself=True)
    near = ids >= 0
    one_way = make_csr(cosines[near], ids[near], offsets_of(near.sum(1)), (len(ids), len(ids)))
    both: Csr = one_way.maximum(one_way.T.tocsr()).tocsr()
    both.sort_indices()
    return make_csr(both.data.astype(np.float32), both.indices, both.indptr, both.shape)
