"""`sleec`: local embeddings that keep the similarities of label vectors.

Bhatia, Jain, Kar, Varma, Jain: "Sparse Local Embeddings for Extreme Multi-label Classification", NIPS 2015.

What it does: each learner clusters the training documents by their features (k-means). In a cluster the cosines of
label vectors, of each document with its nearest by labels only, are approximated by products of short vectors (singular
value projection), and linear regression maps features to these vectors. A document is mapped in its nearest cluster;
the nearest training documents there vote for their labels.

Where it differs: label vectors have length 1, where the paper has plain products, and neighbours are nearest by cosine;
k-means goes by cosine, too. `l1` is the paper's penalty, which makes vectors sparse; it cost up to three points where
we measured, and the default is ridge regression alone. `power`, ours, weighs votes by cosine.

Cost: training grows with learners x documents x dimensions x (label_neighbours + features of a document + dimensions),
times iterations; documents are never compared with all others but in a cluster, by their labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr, unit_rows
from xmtc.models.config import ROUND, Capabilities
from xmtc.models.local_embedding.label_graph import similarity_pairs
from xmtc.models.local_embedding.model import LocalEmbedding, LocalEmbeddingConfig
from xmtc.models.local_embedding.regression import ridge, sparse_embeddings
from xmtc.models.local_embedding.svp import preserve_similarities
from xmtc.predictions import ScoreKind
from xmtc.text.token_store import offsets_of

Floats = NDArray[np.float32]
SMALLEST_GAIN, MOST_ROUNDS = 1e-4, 20  # of k-means


class SleecConfig(LocalEmbeddingConfig):
    """The embedding and its regression; recipes/sleec/paper has the paper's values."""

    dimensions: PositiveInt = 100
    """Numbers of a document's vector."""
    label_neighbours: PositiveInt = 100
    """Training documents with the most similar labels, to which each is to be near."""
    neighbours: PositiveInt = 25
    """How many of the nearest training documents of each learner vote."""
    power: NonNegativeFloat = Field(8.0, allow_inf_nan=False)
    """A neighbour's vote is its cosine to this power: 0, as in the paper, and all votes count the same."""
    iterations: PositiveInt = 10
    """Steps of the singular value projection, at most."""
    shrinkage: PositiveFloat = 3.0
    """Weight of the map's size against the errors of the regression (lambda)."""
    l1: NonNegativeFloat = 0.0
    """Weight of the L1 norm of the vectors that the map makes (mu), which makes them sparse; 0: ridge regression."""
    l1_rounds: PositiveInt = 8
    """Rounds of ADMM, with `l1` above 0."""


class Sleec(LocalEmbedding):
    """Sparse local embeddings.

    >>> from xmtc.corpus.corpus import Corpus
    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> Sleec(learners=1).fit(corpus).predict(["an apple"], k=1).names()
    [[('fruit', 1.0)]]
    """

    name = "sleec"
    capabilities = Capabilities(
        summary="votes of neighbours, in vectors that keep the similarity of labels, for each cluster of documents",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        shrink=ROUND,
    )
    Config = SleecConfig
    config: SleecConfig

    def _work(self, documents: int) -> int:
        pairs = documents * min(documents, self.config.label_neighbours)
        return 10 * pairs + 8 * documents * self.config.dimensions

    def _partition(self, features: Csr, targets: Csr, clusters: int, seed: int) -> Csr:
        """The centres of k-means: the sums of each cluster's documents, scaled to length 1."""
        from xmtc.kernels.clustering import kmeans_split
        from xmtc.kernels.csr import CsrArrays

        count, width = features.shape
        found = np.zeros(count, np.int32)
        if clusters > 1:
            arrays, rows = CsrArrays.of(features), np.arange(count)
            found = kmeans_split(arrays, width, rows, clusters, SMALLEST_GAIN, MOST_ROUNDS, seed)
        used, home = np.unique(found, return_inverse=True)
        order = np.argsort(home, kind="stable")
        ends = offsets_of(np.bincount(home, minlength=len(used)))
        members = make_csr(np.ones(count, np.float32), order, ends, (len(used), count))
        return unit_rows((members @ features).tocsr())

    def _learn(self, features: Csr, targets: Csr, seed: int) -> Floats:
        config, rng = self.config, np.random.default_rng(seed)
        pairs = similarity_pairs(targets, min(config.label_neighbours, targets.shape[0]), rng)
        wanted = preserve_similarities(pairs, config.dimensions, config.iterations, rng)
        if config.l1:
            return sparse_embeddings(features, wanted, config.shrinkage, config.l1, config.l1_rounds)
        return ridge(features, wanted, config.shrinkage)
