"""One learner of an ensemble: documents in clusters, and in each cluster a map from features to vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import checked_csr, make_csr
from xmtc.search.exact_search import nearest_exactly
from xmtc.text.mean_embeddings import unit
from xmtc.text.token_store import offsets_of

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
MOST_SCORES = 1 << 22  # documents x clusters, at once


class Cluster(NamedTuple):
    """What is learned of a cluster: its documents, their unit vectors, its features and the vector of each."""

    documents: NDArray[np.int32]
    embeddings: Floats
    features: NDArray[np.int32]
    table: Floats


@dataclass(frozen=True)
class Learner:
    """Clusters, and the weights (clusters x features) by which a document goes to that with the largest product."""

    partition: Csr
    clusters: Sequence[Cluster]

    def cluster_of(self, features: Csr) -> NDArray[np.int32]:
        """The cluster of each document; ties to the lower number."""
        return best_cluster(features, self.partition)

    def nearest(self, features: Csr, k: int) -> tuple[NDArray[np.int32], Floats]:
        """(training documents, cosines), each (documents, k), of the nearest in the document's cluster; -1: no more.

        Only what is nearer than a right angle is a neighbour.
        """
        count = features.shape[0]
        ids, cosines = np.full((count, k), -1, np.int32), np.zeros((count, k), np.float32)
        found = self.cluster_of(features)
        for at in np.unique(found).tolist():
            cluster, rows = self.clusters[at], np.flatnonzero(found == at)
            own = unit(embedded(take_rows(features, rows), cluster))
            near, product = nearest_exactly(own, cluster.embeddings, k)
            good = (near >= 0) & (product > 0)
            ids[rows, : near.shape[1]] = np.where(good, cluster.documents[near], -1)
            cosines[rows, : near.shape[1]] = np.where(good, np.minimum(product, 1), 0)
        return ids, cosines

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as flat arrays, for storage."""
        weights = self.partition
        return {
            "partition.data": weights.data,
            "partition.indices": weights.indices,
            "partition.indptr": weights.indptr,
            "document_ends": offsets_of(len(each.documents) for each in self.clusters),
            "feature_ends": offsets_of(len(each.features) for each in self.clusters),
            **{
                name: np.concatenate([getattr(each, name) for each in self.clusters])
                for name in ("documents", "embeddings", "features", "table")
            },
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], width: int, documents: NDArray[np.int64], dimensions: int
    ) -> Learner:
        """The inverse of `to_arrays`, for these training documents; a KeyError or ValueError for other arrays."""
        indptr = arrays["partition.indptr"]
        count = len(indptr) - 1
        weights = checked_csr(arrays["partition.data"], arrays["partition.indices"], indptr, (count, width))
        if count < 1 or not np.isfinite(weights.data).all():
            raise ValueError("there are no clusters, or weights that are not finite")
        rows, columns = arrays["documents"], arrays["features"]
        if rows.dtype != np.int32 or not np.array_equal(np.sort(rows), documents):
            raise ValueError("its documents are not those of the model")
        if columns.dtype != np.int32 or columns.ndim != 1 or (columns < 0).any() or (columns >= width).any():
            raise ValueError(f"its features are not numbers below {width}")
        _check_vectors(arrays["embeddings"], len(rows), dimensions, "embeddings")
        _check_vectors(arrays["table"], len(columns), dimensions, "table")
        row_ends = _checked_ends(arrays["document_ends"], count, len(rows), "document_ends")
        column_ends = _checked_ends(arrays["feature_ends"], count, len(columns), "feature_ends")
        clusters = []
        for at in range(count):
            own, words = slice(*row_ends[at : at + 2]), slice(*column_ends[at : at + 2])
            if (np.diff(columns[words]) <= 0).any():
                raise ValueError("the features of a cluster are not in order")
            clusters.append(Cluster(rows[own], arrays["embeddings"][own], columns[words], arrays["table"][words]))
        return cls(weights, clusters)


def best_cluster(features: Csr, partition: Csr) -> NDArray[np.int32]:
    """The cluster with the largest product for each document; ties to the lower number."""
    count = features.shape[0]
    best = np.zeros(count, np.int32)
    step = max(1, MOST_SCORES // partition.shape[0])
    if partition.shape[0] > 1:
        by_feature = partition.T.tocsr()
        for start in range(0, count, step):
            scores = (take_rows(features, slice(start, start + step)) @ by_feature).toarray()
            best[start : start + step] = scores.argmax(axis=1)
    return best


def embedded(features: Csr, cluster: Cluster) -> Floats:
    """The sums of the vectors of documents' features; a feature that the cluster does not know counts for nothing."""
    vectors: Floats = known_features(features, cluster.features) @ cluster.table
    return vectors


def known_features(features: Csr, known: NDArray[np.int32]) -> Csr:
    """Documents x some features, which are in order.

    >>> rows = make_csr(np.ones(2, np.float32), np.array([0, 2]), np.array([0, 2]), (1, 3))
    >>> known_features(rows, np.array([1, 2], np.int32)).toarray().tolist()
    [[0.0, 1.0]]
    """
    places = np.searchsorted(known, features.indices)
    places = np.minimum(places, max(0, len(known) - 1))
    there = known[places] == features.indices if len(known) else np.zeros(len(places), bool)
    indptr = offsets_of(there)[features.indptr]
    return make_csr(features.data[there], places[there], indptr, (features.shape[0], len(known)))


def _check_vectors(vectors: NDArray[Any], count: int, dimensions: int, what: str) -> None:
    if vectors.dtype != np.float32 or vectors.shape != (count, dimensions) or not np.isfinite(vectors).all():
        raise ValueError(f"its {what} are not {count} vectors of {dimensions} finite numbers")


def _checked_ends(ends: NDArray[Any], count: int, total: int, what: str) -> list[int]:
    if ends.dtype != np.int64 or ends.shape != (count + 1,) or (np.diff(ends) < 0).any():
        raise ValueError(f"its {what} do not rise")
    if ends[0] != 0 or ends[-1] != total:
        raise ValueError(f"its {what} do not go from 0 to {total}")
    return [int(end) for end in ends]
