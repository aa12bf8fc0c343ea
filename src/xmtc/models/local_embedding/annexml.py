"""`annexml`: local embeddings in which the nearest by labels are the nearest by cosine.

Tagami: "AnnexML: Approximate Nearest Neighbor Search for Extreme Multi-label Classification", KDD 2017.

What it does: a graph joins each training document with those of the most similar labels, by the share of their labels
that it has; few are taken several times. Each learner learns to divide
documents into clusters by their features so that neighbours in the graph stay together, and then, in each cluster, a
vector for each feature: the sum of a document's vectors is to have a higher cosine with its neighbours than with random
documents (pairwise ranking, AdaGrad). The nearest training documents in the cluster of a document vote for its labels.

Where it differs: the neighbours in a cluster are searched exactly, by matrix products, where the authors' program walks
a graph of neighbours: with some thousands of documents in a cluster the exact search is as fast and misses none.
Neighbours by labels are exact up to 65,536 documents; more are dealt out at random into parts. AdaGrad has one rate for
each feature, not for each of its numbers. Threads share clusters and learners, not the documents of a cluster, so a
training gives the same result again. `power` weighs votes by cosine; 0 is the paper's.

Cost: training grows with learners x epochs x documents x (label_neighbours + negatives) x features of a document x
dimensions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from scipy.sparse import csr_array

from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr
from xmtc.models.config import ROUND, Capabilities
from xmtc.models.local_embedding.label_graph import ranking_graph
from xmtc.models.local_embedding.model import LocalEmbedding, LocalEmbeddingConfig
from xmtc.predictions import ScoreKind

Floats = NDArray[np.float32]


class AnnexMlConfig(LocalEmbeddingConfig):
    """The partition and the ranking; recipes/annexml/paper has the authors' values."""

    learners: PositiveInt = 15
    """Members of the ensemble, each with clusters of its own: more are more accurate, slower and larger."""
    power: NonNegativeFloat = Field(4.0, allow_inf_nan=False)
    """A neighbour's vote is its cosine to this power: 0, as in the paper, and all votes count the same."""
    partition_epochs: PositiveInt = 10
    """Passes over the documents while the partition is learned."""
    partition_l1: NonNegativeFloat = 4.0
    """L1 penalty of the partition's weights: higher, and fewer features decide about the cluster."""
    epochs: PositiveInt = 20
    """Passes over the documents of a cluster while its vectors are learned."""
    negatives: PositiveInt = 10
    """Random documents that the neighbours of a document are compared with."""
    learning_rate: PositiveFloat = 0.1
    """Step size at the beginning; features that were met often take smaller steps."""
    gamma: PositiveFloat = 10.0
    """How sharply a difference of cosines counts in the loss."""


class AnnexMl(LocalEmbedding):
    """Nearest neighbours in learned local embeddings.

    >>> from xmtc.corpus.corpus import Corpus
    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> AnnexMl(learners=1).fit(corpus).predict(["an apple"], k=1).names()
    [[('fruit', 1.0)]]
    """

    name = "annexml"
    capabilities = Capabilities(
        summary="votes of neighbours, in vectors learned so that the nearest by labels are nearest, cluster by cluster",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        shrink=ROUND,
    )
    Config = AnnexMlConfig
    config: AnnexMlConfig

    def _partition(self, features: Csr, targets: Csr, clusters: int, seed: int) -> Csr:
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.local_embedding import learn_partition

        config, width = self.config, features.shape[1]
        if clusters == 1:
            none = np.zeros(0, np.float32)
            return make_csr(none, none.astype(np.int32), np.zeros(2, np.int64), (1, width))
        graph = ranking_graph(targets, config.label_neighbours, np.random.default_rng(seed))
        weights = learn_partition(
            CsrArrays.of(features),
            width,
            graph,
            clusters,
            config.partition_epochs,
            config.learning_rate,
            config.partition_l1,
            seed,
        )
        kept = csr_array(weights)
        return make_csr(kept.data, kept.indices, kept.indptr, kept.shape)

    def _learn(self, features: Csr, targets: Csr, seed: int) -> Floats:
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.local_embedding import learn_ranking

        config = self.config
        graph = ranking_graph(targets, config.label_neighbours, np.random.default_rng(seed))
        table: Floats = learn_ranking(
            CsrArrays.of(features),
            features.shape[1],
            graph,
            config.dimensions,
            config.negatives,
            config.gamma,
            config.learning_rate,
            config.epochs,
            seed,
        )
        return table
