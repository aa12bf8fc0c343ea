"""`craftml`: trees over documents, split by k-means on random projections.

Siblini, Kuntz, Meyer: "CRAFTML, an Efficient Clustering-based Random Forest for Extreme Multi-label Learning", ICML
2018.

What it does: each tree hashes features and labels to at most `buckets` columns with random signs. A node clusters its
documents' projected labels with spherical k-means (k-means++, `arity` clusters, `rounds` rounds) and sends a document
to the cluster whose mean projected features are nearest by cosine; see `xmtc.kernels.clustered_tree`.

Where it differs: of a child's mean the largest entries are kept (`centroid_size`; null is the paper's form), since most
of the model is there. Rows are scaled to length 1 before the projection, not after.

Cost: training grows with trees x depth x words of all documents x arity, and the depth is small; a prediction compares
the document with some forty centroids a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import unit_rows
from xmtc.models.config import PRUNE, Capabilities
from xmtc.models.forest.model import DocumentForest, ForestConfig
from xmtc.predictions import ScoreKind

if TYPE_CHECKING:
    from xmtc.kernels.tree_growth import TreeArrays


class CraftMlConfig(ForestConfig):
    """The trees and their splits; recipes/craftml/paper has the paper's values."""

    arity: int = Field(10, ge=2, le=1000)
    """Children of a node, at most."""
    rounds: PositiveInt = 2
    """Rounds of k-means at a node."""
    sample: PositiveInt = 20_000
    """Documents of a node that are clustered, at most; all are then sent to the nearest cluster."""
    buckets: PositiveInt = 10_000
    """Columns that features and labels are hashed to, at most, in each tree anew."""
    centroid_size: PositiveInt | None = 100
    """Entries of a child's mean features that are kept, the largest; null: all, for a larger and slower model."""


class CraftMl(DocumentForest):
    """An ensemble of trees over documents, split by clusters of label sets.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 8, tags * 8)
    >>> CraftMl(trees=5).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "craftml"
    capabilities = Capabilities(
        summary="trees over documents split by k-means on hashed features and labels; trains fastest of the forests",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        shrink=PRUNE,
    )
    Config = CraftMlConfig
    config: CraftMlConfig

    @property
    def _arity(self) -> int:
        return self.config.arity

    @property
    def _width(self) -> int:
        return max(1, min(self.config.buckets, self.vectors_.width))

    def _seeds(self) -> NDArray[np.uint64]:
        return np.array([self._tree_seed(at) for at in range(self.config.trees)], np.uint64)

    def _split_bytes(self, corpus: Corpus, terms: int) -> int:
        """Of a tree with whole centroids: measured, about a third of the documents' terms."""
        size = self.config.centroid_size
        nodes = 4 * len(corpus) // self.config.max_leaf + 1
        return 8 * min(terms // 3, terms if size is None else size * nodes)

    def _grower(self, features: Csr, corpus: Corpus) -> Callable[[int], TreeArrays]:
        from xmtc.kernels.clustered_tree import ClusteredTree, grow_clustered_tree
        from xmtc.kernels.csr import CsrArrays

        config, targets = self.config, corpus.targets
        how = ClusteredTree(
            max_leaf=config.max_leaf,
            leaf_labels=config.leaf_labels,
            arity=config.arity,
            rounds=config.rounds,
            sample=config.sample,
            centroid_size=config.centroid_size or 0,
        )
        leaf_rows = CsrArrays(targets.indptr, targets.indices, np.ones(targets.nnz, np.float32))
        labels = CsrArrays.of(unit_rows(targets))
        buckets = min(config.buckets, targets.shape[1]), self._width
        return partial(grow_clustered_tree, CsrArrays.of(features), leaf_rows, labels, *buckets, how)
