"""`parabel`: a linear classifier at every node of a balanced label tree.

Prabhu, Kag, Harsola, Agrawal, Varma: "Parabel: Partitioned Label Trees for Extreme Classification with Application to
Dynamic Search Advertising", WWW 2018.

What it does: clusters labels by the documents that carry them into a binary tree with at most 400 labels a leaf; at
each node one linear SVM per child, trained on the documents that have a label below the node; a label's probability is
the product of exp(-max(0, 1 - w x)^2) down its path; a beam follows the 10 best nodes of each level; 3 trees are
averaged.

Where it differs: leaves are larger than the paper's (100 labels), which is more accurate, and the tolerance is 0.2
instead of 0.1, which is faster and as good; recipes/parabel/paper has the paper's settings. The trees split
exactly ceil(log2(labels / 400)) times, so that all paths are of one length. The bias is regularised towards "no" (see
`xmtc.kernels.coordinate_descent`). A label without documents takes no part in the clustering and gets the answer "no".

Beyond the paper: `loss="logistic"` gives a probabilistic label tree, `tree="given"` takes the hierarchy of the labels,
and `negatives="matcher"` also trains a node on the documents that the search leads there wrongly.

Cost: training grows with documents x labels per document x depth x children, prediction with beam x depth x words;
memory with the weights that are not pruned.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import copy
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr
from xmtc.errors import ConfigError
from xmtc.labelspace.label_features import Representation, label_vectors
from xmtc.labelspace.tree import LabelTree, build_tree, given_tree
from xmtc.memory import give_back_memory
from xmtc.models.base import Model
from xmtc.models.config import PRUNE, Capabilities, ModelConfig
from xmtc.models.explanation import Explanation, strongest, words_of
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import progress
from xmtc.search.linear_training import child_documents, linear_weights, reached_by, train_level, work_of
from xmtc.search.linear_tree import LinearTree, NodeWeights, read_tree
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

LIST_LENGTH = 100  # labels that each tree lists before the trees are averaged
SPARE = 3  # labels that a single tree lists beyond those asked for, in case that some tie
BATCH = 4096


class ParabelConfig(ModelConfig):
    """The tree, its classifiers and the search."""

    trees: PositiveInt = 3
    """How many trees are trained, each from another seed, and averaged."""
    tree: Literal["clusters", "given"] = "clusters"
    """clusters: labels are clustered; given: the hierarchy that the labels have."""
    balanced: bool = True
    """Split into halves of equal size (2-means, Parabel); else k-means with k = arity (Bonsai)."""
    arity: int = Field(2, ge=2)
    """Children of a node; of a balanced tree a power of 2."""
    max_leaf: PositiveInt = 400
    """Labels under a lowest node, at most; an unbalanced tree ends after its levels, whatever is left."""
    levels: PositiveInt | None = None
    """Levels of clusters, at most; null: as many as max_leaf needs."""
    label_vectors: Representation = "documents"
    """What labels are clustered by: their documents, the labels beside them (neighbours), both, or their names."""
    loss: Literal["squared_hinge", "logistic"] = "squared_hinge"
    """Loss of the classifiers: squared_hinge (a linear SVM) or logistic (a probabilistic label tree)."""
    cost: PositiveFloat = Field(1.0, allow_inf_nan=False)
    """Weight of errors against regularisation (C): higher fits the training documents more closely."""
    bias: PositiveFloat = Field(0.3, allow_inf_nan=False)
    """How freely a classifier's bias moves away from the answer no."""
    tolerance: PositiveFloat = 0.2
    """A classifier is finished when its gradients differ by no more: smaller is more exact and slower."""
    rounds: PositiveInt = 20
    """Passes over a classifier's documents, at most."""
    smallest_weight: NonNegativeFloat = 0.1
    """Drop weights that are nearer to 0: a smaller and faster model."""
    negatives: Literal["teacher", "matcher"] = "teacher"
    """A node learns from the documents below it (teacher), or also from those that the search leads there wrongly."""
    weights: Literal["float32", "float16"] = "float32"
    """How weights are saved: float16 halves the folder."""
    beam_width: PositiveInt = 10
    """Nodes of each level that the search follows: more is slower and misses less."""
    discount: float = Field(1.0, gt=0, le=1)
    """How often a node's log-probability counts in its children's: 1 is the product down the path."""
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


class Parabel(Model):
    """An ensemble of label trees with linear classifiers.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> Parabel(trees=1, max_leaf=1).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "parabel"
    capabilities = Capabilities(
        summary="linear classifiers over balanced label trees; fast and hard to beat",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        weights=frozenset({"documents", "labels"}),
        shrink=PRUNE,
    )
    Config = ParabelConfig
    config: ParabelConfig

    vectors_: DocumentVectors
    trees_: list[LinearTree]

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: counting words; or the documents' matrix, the labels' vectors, and what is made of these.

        A label's vector has the terms of all its documents, and so have its weights before they are pruned. The root of
        a tree is split with a copy of the vectors, which are there until the last tree is built.
        """
        vectors, trees = DocumentVectors(self.config.tfidf), self.config.trees
        terms = vectors.terms_of(corpus)
        shared = terms * corpus.targets.nnz // max(1, len(corpus))
        return max(vectors.memory_needed(corpus), 12 * terms + (10 + 10 * trees) * shared)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        self.vectors_ = DocumentVectors(self.config.tfidf)
        features = self.vectors_.fit_transform(corpus)
        give_back_memory()
        self.trees_ = []
        for at, tree in enumerate(self._label_trees(features, corpus)):
            kept = checkpoints.get(f"tree{at}")
            if kept is None:
                name = f"training tree {at + 1} of {self.config.trees}"
                made = LinearTree(tree, self._train(tree, features, corpus, name), self.vectors_.width)
                checkpoints.put(f"tree{at}", made.to_arrays())
            else:
                made = LinearTree.from_arrays(kept, len(corpus.labels), self.vectors_.width)
                made.check()
            self.trees_.append(made)
            give_back_memory()

    def _label_trees(self, features: Csr, corpus: Corpus) -> Iterator[LabelTree]:
        """The trees to train, built one by one. Labels without documents are spread over the leaves."""
        config = self.config
        if config.tree == "given":
            if config.trees != 1:
                raise ConfigError(f"{self.name}: there is one given hierarchy, so tree='given' goes with trees=1")
            yield given_tree(corpus.labels)
            return
        seen = np.flatnonzero(corpus.label_counts)
        # k-means compares each label with many centres, and is as good without the small entries.
        smallest = 0.0 if config.balanced else 0.1
        vectors = label_vectors(features, corpus.weighted_targets, corpus.labels, config.label_vectors, smallest)
        if len(seen) < len(corpus.labels):
            vectors = take_rows(vectors, seen)
        give_back_memory()
        shape = config.model_dump(include={"balanced", "arity", "max_leaf", "levels"})
        for at in range(config.trees):
            tree = build_tree(vectors, **shape, seed=derived_seed(config.seed, at))
            if at == config.trees - 1:
                del vectors  # training needs the room
            give_back_memory()
            yield tree.spread_over(seen, len(corpus.labels))
            if tree.depth == 1 and config.trees > 1:
                # Nothing was clustered, so there was no choice by which further trees could differ.
                fit = f"{len(seen):,} labels fit into one leaf (max_leaf={config.max_leaf})"
                print(f"{self.name}: {fit}, so all {config.trees} trees are the same: one is trained", file=sys.stderr)
                return

    def _train(self, tree: LabelTree, features: Csr, corpus: Corpus, name: str) -> NodeWeights:
        """The classifiers of all nodes, level by level."""
        config = self.config
        targets, weights = linear_weights(corpus)
        parts: list[NodeWeights] = []
        reached: Csr | None = None  # nodes x documents that the search leads there
        lists = child_documents(tree, targets)
        with progress(name, sum(work_of(level, docs) for level, docs in zip(tree.levels, lists, strict=True))) as bar:
            for depth, level in enumerate(tree.levels):
                how = config, config.seed, bar, weights
                parts.append(train_level(features, level, lists[depth], reached, *how))
                if config.negatives == "matcher" and depth < tree.depth - 1:
                    reached = self._reached(tree, parts, features)
        return NodeWeights.of_levels(parts)

    def _reached(self, tree: LabelTree, parts: list[NodeWeights], features: Csr) -> Csr:
        """Nodes of the next level x training documents: where the search for a document comes by."""
        top = LinearTree(LabelTree(tree.levels[: len(parts)]), NodeWeights.of_levels(list(parts)), self.vectors_.width)
        nodes = top.tree.labels
        starts = range(0, features.shape[0], BATCH)
        batches = (take_rows(features, slice(start, start + BATCH)) for start in starts)
        found = [self._search(top, batch, min(self.config.beam_width, nodes))[0] for batch in batches]
        return reached_by(np.concatenate(found), nodes)

    def _search(self, tree: LinearTree, vectors: Csr, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        return tree.search(vectors, self.config.loss, self.config.beam_width, k, self.config.discount)

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        if len(corpus) <= BATCH:
            return self._best(self.vectors_.transform(corpus), k)
        starts = range(0, len(corpus), BATCH)
        parts = [self._best(self.vectors_.transform(corpus[start : start + BATCH]), k) for start in starts]
        ids, scores = (np.concatenate([getattr(part, what) for part in parts]) for what in ("ids", "scores"))
        return Predictions(ids, scores, self._fitted(), self.score_kind)

    def _best(self, vectors: Csr, k: int) -> Predictions:
        """The k labels with the highest mean probability over the trees' lists."""
        labels = self._fitted()
        most = min(max(k, LIST_LENGTH), len(labels))
        length = min(k + SPARE, most)
        if len(self.trees_) > 1 or length == most:
            return Predictions.blend(self._lists(vectors, most), k=k)
        # Of one tree no labels are needed beyond the best. But log-probabilities that differ may be equal as
        # probabilities, and then the lower label is the better one, perhaps one behind the end of the list.
        (found,) = self._lists(vectors, length)
        tied = found.scores[:, 1:] == found.scores[:, :-1]
        best = Predictions.blend([found], k=k) if tied.any() else found.top(k)
        cut = (found.scores[:, k - 1] == found.scores[:, -1]) & (found.ids[:, -1] >= 0)
        if cut.any():
            longer = Predictions.blend(self._lists(take_rows(vectors, np.flatnonzero(cut)), most), k=k)
            best.ids[cut], best.scores[cut] = longer.ids, longer.scores
        return best

    def _lists(self, vectors: Csr, length: int) -> list[Predictions]:
        """Each tree's best labels, with their probabilities."""
        labels = self._fitted()
        found = (self._search(tree, vectors, length) for tree in self.trees_)
        return [Predictions(ids, np.exp(scores), labels, self.score_kind) for ids, scores in found]

    def _explain(self, text: str, label: int) -> Explanation:
        """Words weigh weight x value in the scores of all decisions down to the label, added up.

        The mean over the trees whose search reached the label, or over all of them if none did.
        """
        query, words = words_of(self.name, self.vectors_, text)
        lists = self._lists(query, min(LIST_LENGTH, len(self._fitted())))
        probabilities = [float(found.scores[0][found.ids[0] == label].sum()) for found in lists]
        reached = [bool((found.ids[0] == label).any()) for found in lists]
        trees = "trees found this label among their best" if len(lists) > 1 else "tree found this label among its best"
        evidence = [f"{sum(reached)} of {len(lists)} {trees}"]
        total = np.zeros(query.nnz)
        for at, tree in enumerate(self.trees_):
            path = tree.path(label)
            if reached[at] or not any(reached):
                each = [tree.contributions(step, query.indices, query.data) for step in path]
                total += np.sum(each, axis=0) / max(1, sum(reached) or len(lists))
            found = f"with probability {probabilities[at]:.3f}"
            outcome = found if reached[at] else "not reached, better paths filled the beam"
            steps = f"{len(path)} decisions" if len(path) > 1 else "1 decision"
            evidence.append(f"tree {at + 1}, {steps}: {outcome}")
        score = float(np.mean(probabilities))
        return Explanation(self._fitted().name(label), score, strongest(words, total), tuple(evidence))

    def _pruned(self, share: float) -> Self:
        made = copy(self)
        made.trees_ = [tree.pruned(share) for tree in self.trees_]
        return made

    def _save(self, folder: FolderWriter) -> None:
        self.vectors_.save(folder)
        for at, tree in enumerate(self.trees_):
            folder.arrays(f"tree{at}", tree.to_arrays(), ["weights"])

    def _load(self, folder: FolderReader) -> None:
        self.vectors_ = DocumentVectors.load(folder, self.config.tfidf)
        labels, width = len(self._fitted()), self.vectors_.width
        self.trees_ = [read_tree(folder, "tree0", labels, width)]
        if self.trees_[0].tree.depth > 1:  # else all trees are the same, see `_label_trees`
            self.trees_ += [read_tree(folder, f"tree{at}", labels, width) for at in range(1, self.config.trees)]
