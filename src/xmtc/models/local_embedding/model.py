"""What SLEEC and AnnexML share: documents in clusters, vectors learned for each cluster, and votes of neighbours.

Each learner of the ensemble divides the training documents into clusters and learns for each cluster a linear map from
features to vectors in which documents with similar labels are near. A document goes to one cluster of each learner; the
training documents nearest to it there, by cosine, vote for their labels, and a label's score is its share of the votes
of all learners. How the clusters and the maps are learned is the methods' own: `sleec.py` and `annexml.py`.

Cost of prediction: for each learner the document's features x dimensions, and a product with each document of a
cluster. The model: for each learner `dimensions` numbers for each training document, and for each feature of each
cluster.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr
from xmtc.corpus.strings import Strings
from xmtc.kernels import cores, in_threads
from xmtc.models.base import Model
from xmtc.models.config import ModelConfig
from xmtc.models.explanation import Explanation, strongest, words_of
from xmtc.models.local_embedding.learner import Cluster, Learner, best_cluster, embedded, known_features
from xmtc.predictions import Predictions
from xmtc.progress import progress
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.mean_embeddings import unit
from xmtc.text.tfidf import TfIdfSettings

Floats = NDArray[np.float32]
QUERY_BLOCK = 4096
LISTED = 3  # neighbours that an explanation names
IDS = "documents"


class LocalEmbeddingConfig(ModelConfig):
    """The ensemble and its votes; how vectors are learned is each method's own."""

    learners: PositiveInt = 5
    """Members of the ensemble, each with clusters of its own: more are more accurate, slower and larger."""
    cluster: PositiveInt = 6000
    """About as many training documents make a cluster, in which a map is learned and neighbours are searched."""
    dimensions: PositiveInt = 50
    """Numbers of a document's vector."""
    label_neighbours: PositiveInt = 10
    """Training documents with the most similar labels, to which each is to be near."""
    neighbours: PositiveInt = 10
    """How many of the nearest training documents of each learner vote."""
    power: NonNegativeFloat = Field(0.0, allow_inf_nan=False)
    """A neighbour's vote is its cosine to this power: 0, as in the papers, and all votes count the same."""
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


class LocalEmbedding(Model):
    """An ensemble of local embeddings; a method says how to divide documents and how to learn a map."""

    config: LocalEmbeddingConfig

    vectors_: DocumentVectors
    learners_: list[Learner]
    targets_: Csr  # of the training documents
    ids_: Strings | None = None  # of the training documents, if they have some: explanations name them

    @abstractmethod
    def _partition(self, features: Csr, targets: Csr, clusters: int, seed: int) -> Csr:
        """The weights of each cluster, at most as many, clusters x features."""

    @abstractmethod
    def _learn(self, features: Csr, targets: Csr, seed: int) -> Floats:
        """A vector for each feature, from the documents of a cluster."""

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the matrix twice, the learners' maps and vectors twice, and what clusters take while they are learned.

        A cluster has about as many features as the square root of its words, times 30, in texts (Heaps' law).
        """
        config, vectors = self.config, DocumentVectors(self.config.tfidf)
        terms, clusters = vectors.terms_of(corpus), self._clusters(len(corpus))
        features = 30 * int((terms / clusters) ** 0.5) * clusters
        if corpus.texts is None and corpus.features is not None:
            features = min(terms, corpus.features.shape[1] * clusters)
        rows = features + len(corpus)
        work = (4 * rows // clusters * config.dimensions + self._work(len(corpus) // clusters)) * min(cores(), clusters)
        return vectors.memory_needed(corpus) + 12 * terms + 8 * config.learners * rows * config.dimensions + 4 * work

    def _work(self, documents: int) -> int:
        """Numbers that learning a cluster of this size takes beside its map."""
        return 8 * documents * self.config.label_neighbours

    def _clusters(self, documents: int) -> int:
        return max(1, documents // self.config.cluster)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        from threadpoolctl import threadpool_limits

        self.vectors_ = DocumentVectors(self.config.tfidf)
        matrix = self.vectors_.fit_transform(corpus)
        self.targets_, self.ids_ = corpus.targets, corpus.ids
        # A document without labels has none to vote for.
        labelled = np.flatnonzero(np.diff(corpus.targets.indptr)).astype(np.int32)
        features, targets = take_rows(matrix, labelled), take_rows(corpus.targets, labelled)
        # Clusters are learned side by side; and sums of one thread do not depend on the number of threads.
        with threadpool_limits(1, user_api="blas"):
            partitions = self._partitions(features, targets, checkpoints)
            self.learners_ = self._learners(features, targets, labelled, partitions, checkpoints)

    def _partitions(self, features: Csr, targets: Csr, checkpoints: Checkpoints) -> list[Csr]:
        """Of each learner the weights of its clusters."""
        clusters = self._clusters(features.shape[0])
        with progress("dividing documents into clusters", self.config.learners) as bar:

            def divide(at: int) -> Csr:
                found = checkpoints.get(f"partition{at}")
                if found is None:
                    made = self._partition(features, targets, clusters, derived_seed(self.config.seed, at))
                    parts = {"data": made.data, "indices": made.indices, "indptr": made.indptr}
                    checkpoints.put(f"partition{at}", found := parts)
                bar.advance()
                return matrix_of(found, features.shape[1])

            return in_threads(divide, range(self.config.learners))

    def _learners(
        self,
        features: Csr,
        targets: Csr,
        documents: NDArray[np.int32],
        partitions: list[Csr],
        checkpoints: Checkpoints,
    ) -> list[Learner]:
        homes = [best_cluster(features, partition) for partition in partitions]
        tasks = [
            (learner, cluster, np.flatnonzero(homes[learner] == cluster))
            for learner, partition in enumerate(partitions)
            for cluster in range(partition.shape[0])
        ]
        order = sorted(range(len(tasks)), key=lambda at: -len(tasks[at][2]))
        with progress("learning embeddings", sum(len(rows) for _, _, rows in tasks)) as bar:

            def learn(at: int) -> Cluster:
                learner, cluster, rows = tasks[at]
                name = f"learner{learner}-cluster{cluster}"
                found = checkpoints.get(name)
                if found is None:
                    seed = derived_seed(self.config.seed, learner, cluster)
                    made = self._learn_cluster(take_rows(features, rows), take_rows(targets, rows), seed)
                    checkpoints.put(name, found := {"features": made[0], "table": made[1], "embeddings": made[2]})
                bar.advance(len(rows))
                return Cluster(documents[rows], found["embeddings"], found["features"], found["table"])

            made = dict(zip(order, in_threads(learn, order), strict=True))
        clusters = iter(made[at] for at in range(len(tasks)))
        return [Learner(each, [next(clusters) for _ in range(each.shape[0])]) for each in partitions]

    def _learn_cluster(self, features: Csr, targets: Csr, seed: int) -> tuple[NDArray[np.int32], Floats, Floats]:
        """(features of the cluster, a vector for each, the unit vectors of its documents)."""
        known = np.unique(features.indices).astype(np.int32)
        own = known_features(features, known)
        if not len(known) or own.shape[0] < 2:  # nothing to tell apart: every document has the same direction
            table = np.zeros((len(known), self.config.dimensions), np.float32)
            table[:, 0] = 1
        else:
            table = self._learn(own, targets, seed)
        return known, table, unit(own @ table)

    def _neighbours(self, features: Csr) -> tuple[NDArray[np.int32], Floats]:
        """(training documents, cosines) that vote, the learners' one after the other."""
        found = [each.nearest(features, self.config.neighbours) for each in self.learners_]
        return np.concatenate([ids for ids, _ in found], axis=1), np.concatenate([near for _, near in found], axis=1)

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.kernels.sparse_knn import vote

        features, labels, targets = self.vectors_.transform(corpus), self._fitted(), self.targets_
        ids = np.full((len(corpus), k), -1, np.int32)
        scores = np.zeros((len(corpus), k), np.float32)
        with progress("searching", len(corpus)) as bar:
            for start in range(0, len(corpus), QUERY_BLOCK):
                block = slice(start, start + QUERY_BLOCK)
                near, cosines = self._neighbours(take_rows(features, block))
                votes = self._votes(near, cosines)
                # The kernel stops at -1; a learner with fewer neighbours than others has it between theirs.
                ids[block], scores[block] = vote(
                    np.maximum(near, 0), votes, targets.indptr, targets.indices, len(labels), k
                )
                bar.advance(len(near))
        return Predictions(ids, scores, labels, self.score_kind)

    def _votes(self, near: NDArray[np.int32], cosines: Floats) -> Floats:
        """What each neighbour's vote weighs; relative to the nearest, so that a high power cannot make all vanish."""
        nearest = cosines.max(axis=1, keepdims=True, initial=0).astype(np.float64)
        relative = np.divide(cosines, nearest, out=np.zeros(cosines.shape), where=nearest > 0)
        return np.where(near >= 0, relative**self.config.power, 0).astype(np.float32)

    def _explain(self, text: str, label: int) -> Explanation:
        """A neighbour's cosine is a sum over the text's words, so its vote is divided among them."""
        query, words = words_of(self.name, self.vectors_, text)
        labels, name = self._fitted(), self._fitted().name(label)
        near, cosines = (rows[0] for rows in self._neighbours(query))
        votes = self._votes(near[None], cosines[None])[0].astype(np.float64)
        carries = (self.targets_[np.maximum(near, 0)][:, [label]].toarray()[:, 0] > 0) & (votes > 0)
        voters = int(np.count_nonzero(votes))
        if not carries.any():
            return Explanation(name, 0.0, (), (f"none of {voters} neighbours has this label",))
        shares = np.zeros(len(words))
        for at, learner in enumerate(self.learners_):
            places = np.flatnonzero(carries[at * self.config.neighbours :][: self.config.neighbours])
            places += at * self.config.neighbours
            if len(places):
                parts = self._parts(learner, query, near[places])
                shares += parts @ (votes[places] / cosines[places]) / votes.sum()
        best = np.flatnonzero(carries)[np.argsort(-cosines[carries], kind="stable")]
        distinct = list(dict.fromkeys(near[best].tolist()))
        named = ", ".join(str(row if self.ids_ is None else self.ids_[row]) for row in distinct[:LISTED])
        evidence = (
            f"{int(carries.sum())} of {voters} neighbours, over {len(self.learners_)} learners, have this label; the "
            f"nearest of them are the training documents {named} (cosine up to {cosines[best[0]]:.2f})"
        )
        score = float(votes[carries].sum() / votes.sum())
        return Explanation(labels.name(label), score, strongest(words, shares), (evidence,))

    def _parts(self, learner: Learner, query: Csr, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        """What each word of a query adds to its cosine with some documents of its cluster: (words, documents)."""
        cluster = learner.clusters[int(learner.cluster_of(query)[0])]
        length = float(np.linalg.norm(embedded(query, cluster)))
        each = query.copy()
        each = type(query)((each.data, each.indices, np.arange(each.nnz + 1)), shape=(each.nnz, query.shape[1]))
        place_of = {int(document): at for at, document in enumerate(cluster.documents)}
        others = cluster.embeddings[[place_of[int(row)] for row in rows]]
        parts: NDArray[np.float64] = embedded(each, cluster).astype(np.float64) @ others.T.astype(np.float64) / length
        return parts

    def _save(self, folder: FolderWriter) -> None:
        self.vectors_.save(folder)
        folder.matrix("targets", self.targets_)
        for at, learner in enumerate(self.learners_):
            folder.arrays(f"learner{at}", learner.to_arrays(), ["partition.data", "embeddings", "table"])
        if self.ids_ is not None:
            folder.strings(IDS, self.ids_)

    def _load(self, folder: FolderReader) -> None:
        self.vectors_ = DocumentVectors.load(folder, self.config.tfidf)
        self.targets_ = folder.matrix("targets", (None, len(self._fitted())))
        labelled = np.flatnonzero(np.diff(self.targets_.indptr))
        width, dimensions = self.vectors_.width, self.config.dimensions
        self.learners_ = []
        for at in range(self.config.learners):
            with folder.building(f"learner{at}"):
                arrays = folder.arrays(f"learner{at}")
                self.learners_.append(Learner.from_arrays(arrays, width, labelled, dimensions))
        self.ids_ = folder.strings(IDS, self.targets_.shape[0]) if folder.has(f"{IDS}.safetensors") else None


def matrix_of(arrays: dict[str, NDArray[Any]], width: int) -> Csr:
    """A partition from its arrays."""
    shape = (len(arrays["indptr"]) - 1, width)
    return make_csr(arrays["data"], arrays["indices"], arrays["indptr"], shape)
