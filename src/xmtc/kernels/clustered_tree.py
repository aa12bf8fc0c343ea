"""A document tree whose nodes split by clusters of label sets (CRAFTML), on randomly hashed features and labels.

A node clusters (a sample of) its documents by their projected labels, with spherical k-means from k-means++ centres.
The mean of each cluster's projected features, without its small entries, is then a child: a document goes where the
cosine is highest.
"""

# ruff: noqa: D103, NPY002 - kernels; what each does stands in its first comment, and numba compiles np.random's calls
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels import compiled, jitted
from xmtc.kernels.csr import CsrArrays, local_rows
from xmtc.kernels.tree_growth import TreeArrays, concatenated_floats, concatenated_ints, leaf_of, share_out

Floats = NDArray[np.float32]


class ClusteredTree(NamedTuple):
    """How a tree is grown."""

    max_leaf: int  # documents
    leaf_labels: int  # a leaf keeps
    arity: int
    rounds: int  # of k-means
    sample: int  # documents of a node that are clustered, at most
    centroid_size: int  # entries of a child's mean features that are kept, the largest; 0: all


@jitted()
def bucket_of(column: Any, buckets: int, seed: Any) -> Any:
    # Where a column is hashed to (murmur3's finaliser), and its sign: bucket, or -1 - bucket for a minus.
    key = (np.uint64(column) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(seed)
    key = (key ^ (key >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    key = (key ^ (key >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    key = key ^ (key >> np.uint64(33))
    bucket = np.int64((key >> np.uint64(1)) % np.uint64(buckets))
    return bucket if key & np.uint64(1) else -1 - bucket


@jitted()
def hashed(rows: CsrArrays, buckets: int, seed: Any) -> CsrArrays:
    # The matrix in `buckets` columns. Two columns of a row in one bucket stay two entries: products come out the same.
    indices, data = np.empty(len(rows.indices), np.int32), np.empty(len(rows.indices), np.float32)
    for at in range(len(rows.indices)):
        bucket = bucket_of(rows.indices[at], buckets, seed)
        indices[at] = bucket if bucket >= 0 else -1 - bucket
        data[at] = rows.data[at] if bucket >= 0 else -rows.data[at]
    return CsrArrays(rows.indptr, indices, data)


@jitted()
def _nearest(rows: CsrArrays, centres: Any) -> Any:
    # The column of `centres` with the highest product for each row, ties to the first.
    indptr, indices, data = rows
    count, clusters = len(indptr) - 1, centres.shape[1]
    nearest = np.empty(count, np.int64)
    scores = np.empty(clusters, np.float32)
    for row in range(count):
        scores[:] = 0
        for entry in range(indptr[row], indptr[row + 1]):
            feature, value = indices[entry], data[entry]
            for cluster in range(clusters):
                scores[cluster] += value * centres[feature, cluster]
        nearest[row] = np.argmax(scores)
    return nearest


@jitted()
def _unit_means(rows: CsrArrays, first: int, width: int, sides: Any, clusters: int) -> Any:
    # The sums of rows `first`, `first + 1`... by their sides, as columns of length 1.
    indptr, indices, data = rows
    centres = np.zeros((width, clusters), np.float32)
    for at in range(len(sides)):
        for entry in range(indptr[first + at], indptr[first + at + 1]):
            centres[indices[entry], sides[at]] += data[entry]
    _unit_columns(centres)
    return centres


@jitted()
def _unit_columns(centres: Any) -> None:
    squares = np.zeros(centres.shape[1], np.float64)
    for feature in range(centres.shape[0]):
        for cluster in range(centres.shape[1]):
            squares[cluster] += centres[feature, cluster] * centres[feature, cluster]
    scale = np.empty(centres.shape[1], np.float32)
    for cluster in range(centres.shape[1]):
        scale[cluster] = 1 / np.sqrt(squares[cluster]) if squares[cluster] > 0 else 0
    for feature in range(centres.shape[0]):
        for cluster in range(centres.shape[1]):
            centres[feature, cluster] *= scale[cluster]


@jitted()
def _first_centres(rows: CsrArrays, width: int, clusters: int) -> Any:
    # k-means++: each further centre is a row drawn by its distance from the nearest one. Fewer columns where all rows
    # are at a centre already.
    indptr, indices, data = rows
    count = len(indptr) - 1
    centres = np.zeros((width, clusters), np.float32)
    squares = np.zeros(count, np.float64)
    for entry_row in range(count):
        for entry in range(indptr[entry_row], indptr[entry_row + 1]):
            squares[entry_row] += data[entry] * data[entry]
    distance = np.full(count, np.inf)
    chosen = np.random.randint(count)
    for cluster in range(clusters):
        for entry in range(indptr[chosen], indptr[chosen + 1]):
            centres[indices[entry], cluster] += data[entry]
        length = np.sqrt(max(squares[chosen], 1e-30))
        for feature in range(width):
            centres[feature, cluster] /= length
        total = 0.0
        for row in range(count):
            product = 0.0
            for entry in range(indptr[row], indptr[row + 1]):
                product += data[entry] * centres[indices[entry], cluster]
            away = 1 - product / np.sqrt(max(squares[row], 1e-30))
            distance[row] = min(distance[row], away if away > 1e-6 else 0.0)
            total += distance[row]
        if total == 0:
            return centres[:, : cluster + 1].copy()
        wanted = np.random.random() * total
        for row in range(count):
            if distance[row] > 0:
                chosen = row
                wanted -= distance[row]
                if wanted <= 0:
                    break
    return centres


@jitted()
def _keep_largest(centres: Any, size: int) -> None:
    # Sets the entries of each column to 0 but for the `size` largest, and those as large as the last of them.
    for cluster in range(centres.shape[1]):
        least = np.sort(np.abs(centres[:, cluster]))[len(centres) - size]
        for feature in range(centres.shape[0]):
            if abs(centres[feature, cluster]) < least:
                centres[feature, cluster] = 0


@jitted()
def _children_of(features: CsrArrays, width: int, labels: CsrArrays, members: Any, tree: ClusteredTree) -> Any:
    # (side of each member, a centroid of features for each side as a column, the features' numbers). Members are
    # shuffled if there are more than the sample.
    buckets = 1 << 30  # hash tables instead of lists of all columns: nodes are small, but for the first
    if len(members) > tree.sample:
        members[:] = np.random.permutation(members)
    sampled = min(len(members), tree.sample)
    points, found = local_rows(labels, members[:sampled], buckets)
    centres = _first_centres(points, len(found), min(tree.arity, sampled))
    clusters = centres.shape[1]
    sides = _nearest(points, centres)
    for _ in range(tree.rounds - 1):
        sides = _nearest(points, _unit_means(points, 0, len(found), sides, clusters))
    rows, numbers = local_rows(features, members, width)
    centroids = _unit_means(rows, 0, len(numbers), sides, clusters)
    if 0 < tree.centroid_size < len(numbers):
        _keep_largest(centroids, tree.centroid_size)
        _unit_columns(centroids)
    return _nearest(rows, centroids), centroids, numbers


@compiled()
def grow_clustered_tree(
    matrix: CsrArrays,
    targets: CsrArrays,
    label_rows: CsrArrays,
    label_buckets: int,
    buckets: int,
    tree: ClusteredTree,
    seed: int,
) -> TreeArrays:
    # `targets` are what leaves average; `label_rows`, hashed to `label_buckets`, are clustered, and the features are
    # hashed to `buckets`. Documents without labels have no place in the tree.
    np.random.seed(seed)
    features = hashed(matrix, buckets, seed)
    labels = hashed(label_rows, label_buckets, seed + 1)
    members = np.flatnonzero(targets.indptr[1:] > targets.indptr[:-1])
    no_ints, no_floats = np.zeros(0, np.int32), np.zeros(0, np.float32)
    begins, ends = [0], [len(members)]
    first_child, children = [-1], [0]
    split_features, split_weights = [no_ints], [no_floats]
    leaves, shares = [no_ints], [no_floats]
    node = 0
    while node < len(begins):
        own = members[begins[node] : ends[node]]
        if node:
            leaves.append(no_ints)
            shares.append(no_floats)
        used = 0
        if len(own) > tree.max_leaf:
            sides, centroids, numbers = _children_of(features, buckets, labels, own, tree)
            sizes = np.zeros(centroids.shape[1], np.int64)
            for side in sides:
                sizes[side] += 1
            used = (sizes > 0).sum()
        if used < 2:
            leaves[node], shares[node] = leaf_of(targets, own, tree.leaf_labels)
            node += 1
            continue
        borders = share_out(own, sides, len(sizes))
        first_child[node], children[node] = len(begins), used
        order = np.argsort(numbers, kind="mergesort")
        for side in range(len(sizes)):
            if sizes[side] == 0:
                continue
            begins.append(begins[node] + borders[side])
            ends.append(begins[node] + borders[side + 1])
            first_child.append(-1)
            children.append(0)
            column = centroids[:, side][order]
            kept = np.flatnonzero(column)
            split_features.append(numbers[order][kept].astype(np.int32))
            split_weights.append(column[kept])
        node += 1
    split_indptr, all_features = concatenated_ints(split_features)
    leaf_indptr, leaf_labels = concatenated_ints(leaves)
    return TreeArrays(
        np.array(first_child, np.int32),
        np.array(children, np.int32),
        (np.array(ends) - np.array(begins)).astype(np.int32),
        np.zeros(len(begins), np.float32),
        split_indptr,
        all_features,
        concatenated_floats(split_weights),
        leaf_indptr,
        leaf_labels,
        concatenated_floats(shares),
    )
