"""`extremetext`: fastText's mean of word vectors, with probabilistic label trees as output.

Wydmuch, Jasinska, Kuznetsov, Busa-Fekete, Dembczynski: "A no-regret generalization of hierarchical softmax to extreme
multi-label classification", NeurIPS 2018.

What it does: a text's vector is the mean of the vectors of its words (and of n-grams), weighted by tf-idf. Labels are
the leaves of a tree, by default of hierarchical 2-means on their documents; each node has a logistic classifier of the
text's vector for whether a label below it is relevant, given that one below its parent is. A label's probability is
the product down its path. A text trains the nodes above its labels and their siblings, and the k best labels are found
best-first: no node is more probable than its parent. Several trees share the vectors; their probabilities are averaged.

Where it differs from the authors' program, and why:
* One text after the other trains on one core, so that the same seed gives the same result; its threads write into the
  same weights without asking.
* Scores begin at the log-odds of their node, and nodes' weights take implicit steps, as in `fasttext`: steps of 1 and
  more do not go astray. Nodes that are always or never relevant keep the probability 1 or 0, as there.
* `weight_decay` shrinks the nodes' weights and the features' vectors that a text touches. Trees are balanced and
  clustered by words only, also with n-grams. No Huffman tree, no bagging, no sampled nodes.
* Three trees by default; recipes/extremetext/paper has the settings of the authors' scripts.

Cost: a text takes about 3 x trees x its labels x (arity x depth + max_leaf) x dimensions products in each epoch, and a
prediction some leaves of each tree: both grow with the logarithm of the number of labels.
Memory: (words + filled buckets + trees x labels) x dimensions, and the labels' vectors while they are clustered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr, unit_rows, with_columns
from xmtc.errors import ConfigError, XmtcError
from xmtc.labelspace.label_features import label_vectors
from xmtc.labelspace.tree import LabelTree, build_tree, complete_tree, given_tree
from xmtc.models.config import ROUND, Capabilities
from xmtc.models.explanation import Explanation
from xmtc.models.fasttext.features import Inputs
from xmtc.models.fasttext.label_trees import first_scores, flat_trees, nodes_of
from xmtc.models.fasttext.mean_vectors import STRETCH, MeanVectors, MeanVectorsConfig, grouped
from xmtc.models.fasttext.tree_file import read_tree_file
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import progress
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.token_store import TokenStore

if TYPE_CHECKING:
    from xmtc.kernels.label_trees import LabelTrees

BLOCK = 4096  # texts tagged at a time
Floats = NDArray[np.float32]


class ExtremeTextConfig(MeanVectorsConfig):
    """Features, vectors and label trees; in brackets are extremeText's own words.

    The defaults were chosen on held-out documents of `tibkat`.
    """

    dimensions: PositiveInt = 200
    """Length of the vectors of words, n-grams and nodes (dim)."""
    epochs: PositiveInt = 12
    """How often all training documents are gone through (epoch)."""
    learning_rate: PositiveFloat = Field(4.0, allow_inf_nan=False)
    """Step size at the beginning; it falls to 0 (lr)."""
    word_ngrams: int = Field(1, ge=1, le=100)
    """Longest run of words that has a vector; 1: single words only (wordNgrams)."""
    word_weights: Literal["tfidf", "equal"] = "tfidf"
    """How words count in a text's vector: tfidf (features: by their values), or equal (tfidfWeights, wordsWeights)."""
    weight_decay: float = Field(3e-4, ge=0, allow_inf_nan=False)
    """Shrinking of the weights and vectors that a text touches, per step (l2)."""
    trees: PositiveInt = 3
    """How many trees share the vectors, each from another seed; their probabilities are averaged (ensemble)."""
    tree: Literal["clusters", "complete", "given"] = "clusters"
    """clusters: by labels' documents (kmeans); complete: by frequency; given: tree_file, or the labels' hierarchy."""
    tree_file: str | None = None
    """A file with the tree for tree=given: lines of parent, node and, for a leaf, its label (treeStructure)."""
    arity: int = Field(2, ge=2)
    """Children of a node; of clusters a power of 2 (arity)."""
    max_leaf: PositiveInt = 100
    """Labels under a lowest node, at most (maxLeaves)."""
    beam_width: PositiveInt | None = None
    """Nodes of each level that the search may follow; null: all, which finds the most probable labels."""


class ExtremeText(MeanVectors):
    """Mean word vectors and probabilistic label trees, learned together.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 9, tags * 9)
    >>> ExtremeText(dimensions=8, max_leaf=1).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "extremetext"
    capabilities = Capabilities(
        summary="averaged word vectors with probabilistic label trees; time grows with the logarithm of the labels",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )
    Config = ExtremeTextConfig
    config: ExtremeTextConfig

    idf_: Floats | None  # of the features of texts; None: the model was trained on features
    trees_: list[LabelTree]
    base_: Floats  # the score at which each node begins; the rest of it is learned

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: vectors and weights, the documents' features, and the labels' vectors that are clustered."""
        config = self.config
        if corpus.texts is None:
            assert corpus.features is not None
            features, reading, words = corpus.features.shape[1], 16 * corpus.features.nnz, corpus.features.nnz
        else:
            features, reading = self._text_memory(corpus)
            words = corpus.texts.nbytes // 6
        shared = words * corpus.targets.nnz // max(1, len(corpus)) if config.tree == "clusters" else 0
        nodes = config.trees * len(corpus.labels) * (1 + 2 / config.max_leaf)
        return int(4 * config.dimensions * (features + nodes) + reading + 12 * shared + 40 * nodes)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        rows = self._first_rows(corpus)
        self.trees_ = self._build_trees(rows, corpus)
        self.base_ = first_scores(self.trees_, corpus.targets, corpus.document_weights)
        self.__dict__.pop("_flat", None)
        self._learn(_inputs(rows), corpus, rows.shape[1], len(self.base_), checkpoints)

    def _first_rows(self, corpus: Corpus) -> Csr:
        """Learn the words and their weights; training documents x features, each row adding up to 1."""
        self.idf_ = None
        if corpus.texts is None:
            assert corpus.features is not None
            return self._weighted(corpus.features)
        self.grams_ = self._new_grams()
        counts = _counts(self.grams_.fit_transform(corpus.texts), len(self.grams_))
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        self.idf_ = (np.log((1 + len(corpus)) / (1 + frequency)) + 1).astype(np.float32)
        return self._weighted(counts)

    def _rows(self, corpus: Corpus) -> Csr:
        """The same of further documents."""
        kind = "features" if self.idf_ is None else "texts"
        if getattr(corpus, kind) is None:
            raise XmtcError(f"this model was trained on {kind}, which {corpus.name} does not have")
        if self.idf_ is None:
            assert corpus.features is not None
            return self._weighted(with_columns(corpus.features, len(self.table_)))
        assert corpus.texts is not None
        return self._weighted(_counts(self.grams_.transform(corpus.texts), len(self.grams_)))

    def _weighted(self, counts: Csr) -> Csr:
        """Values as shares that add up to 1."""
        values = np.abs(counts.data.astype(np.float64))
        if self.idf_ is not None:
            if self.config.word_weights == "tfidf":
                values = values * self.idf_[counts.indices]
        elif self.config.word_weights == "equal":
            values = (values > 0).astype(np.float64)
        sizes = np.diff(counts.indptr)
        rows = np.repeat(np.arange(len(sizes)), sizes)
        totals = np.bincount(rows, values, minlength=len(sizes))
        shares = np.sign(counts.data) * values / np.where(totals > 0, totals, 1)[rows]
        return make_csr(shares.astype(np.float32), counts.indices, counts.indptr, counts.shape)

    def _build_trees(self, rows: Csr, corpus: Corpus) -> list[LabelTree]:
        config = self.config
        if config.tree_file is not None and config.tree != "given":
            raise ConfigError(f"tree_file goes with tree=given, not with tree={config.tree}")
        if config.tree != "clusters":
            if config.trees != 1:
                raise ConfigError(f"{self.name}: there is one {config.tree} tree, so it goes with trees=1")
            if config.tree == "complete":
                order = np.argsort(-corpus.label_counts, kind="stable")
                return [complete_tree(order, config.arity, config.max_leaf)]
            if config.tree_file is not None:
                return [read_tree_file(config.tree_file, corpus.labels)]
            return [given_tree(corpus.labels)]
        seen = np.flatnonzero(corpus.label_counts)
        vectors = label_vectors(unit_rows(self._words_only(rows)), corpus.weighted_targets, corpus.labels)
        vectors = take_rows(vectors, seen)
        found = []
        for at in range(config.trees):
            shape = {"arity": config.arity, "max_leaf": config.max_leaf, "seed": derived_seed(config.seed, 4, at)}
            tree = build_tree(vectors, balanced=True, **shape).spread_over(seen, len(corpus.labels))
            found.append(tree)
            if tree.depth == 1 and config.trees > 1:
                fit = f"{len(seen):,} labels fit into one leaf (max_leaf={config.max_leaf})"
                print(f"{self.name}: {fit}, so all {config.trees} trees are the same: one is trained", file=sys.stderr)
                break
        return found

    def _words_only(self, rows: Csr) -> Csr:
        """Without n-grams, which cost much and tell clusters little."""
        return rows if self.idf_ is None else with_columns(rows, 1 + len(self.grams_.words))

    @cached_property
    def _flat(self) -> LabelTrees:
        return flat_trees(self.trees_, self.base_)

    def _train(self, inputs: Inputs, corpus: Corpus, epoch: int, advance: Callable[[float], None]) -> None:
        """One epoch: all documents in a new random order; with weights, as many drawn by them."""
        from xmtc.kernels.fasttext import Documents, train_label_trees

        config, targets = self.config, corpus.targets
        _, order = self._shuffled(corpus, np.arange(len(corpus)), epoch)
        documents = Documents(*inputs, targets.indices.astype(np.int32), targets.indptr.astype(np.int64))
        decay = config.learning_rate / (config.epochs * len(order))
        for start in range(0, len(order), STRETCH):
            part = order[start : start + STRETCH]
            rate = config.learning_rate - decay * (epoch * len(order) + start)
            changed = self.table_, self.weights_
            train_label_trees(documents, part, self._flat, rate, decay, config.weight_decay, *changed)
            advance(len(part))

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.kernels.fasttext import text_vectors
        from xmtc.kernels.label_trees import best_in_trees

        parts = []
        with progress("tagging", len(corpus)) as bar:
            for start in range(0, len(corpus), BLOCK):
                rows = self._rows(corpus[start : start + BLOCK])
                vectors = text_vectors(*_inputs(rows), self.table_)
                parts.append(best_in_trees(self._flat, vectors, self.weights_, self.config.beam_width or 0, k))
                bar.advance(rows.shape[0])
        ids, probabilities = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Predictions.sorted(ids, probabilities, self._fitted(), self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        """Words weigh share x vector x weights in the scores of all decisions down to the label, added up.

        The mean over the trees.
        """
        from xmtc.kernels.label_trees import path_probabilities

        if self.idf_ is None:
            raise XmtcError(f"this {self.name} model was trained on features, so no words explain its answers")
        rows = self._rows(Corpus.of([text]))
        share = dict(zip(rows.indices.tolist(), rows.data.tolist(), strict=True))
        found = self.grams_.named(text)
        numbers = np.array([row for row, _ in found])
        times = np.bincount(numbers)
        each = np.array([share[row] / times[row] for row in numbers.tolist()])
        vector = (rows @ self.table_).astype(np.float32)[0]
        probabilities = path_probabilities(self._flat, vector, self.weights_, label)
        evidence, total, bias = [], np.zeros(self.config.dimensions), 0.0
        for at, probability in enumerate(probabilities.tolist()):
            path = self._path(at, label)
            # Where nothing was to be learned, no word has a say.
            learned = [node for node in path if np.isfinite(self.base_[node])]
            total += self.weights_[learned].sum(axis=0) / len(probabilities)
            bias += float(self.base_[learned].sum()) / len(probabilities)
            decisions = "decision" if len(path) == 1 else "decisions"
            evidence.append(f"tree {at + 1}, {len(path)} {decisions}: probability {probability:.3f}")
        words, every = grouped(found, each * (self.table_[numbers] @ total))
        said = sum(weight for _, weight in words)
        evidence.insert(0, f"the words add up to {said:.3f}, and what every text has to {every + bias:.3f}")
        return Explanation(self._fitted().name(label), float(probabilities.mean()), words, tuple(evidence))

    def _path(self, tree: int, label: int) -> list[int]:
        """The nodes from the root of a tree down to a label."""
        node = int(self._flat.leaves[tree, label])
        path: list[int] = []
        while node >= 0:
            path.insert(0, node)
            node = int(self._flat.parents[node])
        return path

    def _word_arrays(self) -> dict[str, NDArray[Any]]:
        width = {"width": np.array([len(self.table_)], np.int64)}
        return width if self.idf_ is None else {**width, "feature_idf": self.idf_, **self.grams_.to_arrays()}

    def _output_arrays(self) -> dict[str, NDArray[Any]]:
        return {"base": self.base_}

    def _save(self, folder: FolderWriter) -> None:
        super()._save(folder)
        for at, tree in enumerate(self.trees_):
            folder.arrays(f"tree{at}", tree.to_arrays())

    def _load(self, folder: FolderReader) -> None:
        with folder.building("words"):
            arrays = folder.arrays("words")
            (width,) = map(int, arrays["width"])
            self.idf_ = arrays["feature_idf"] if len(arrays) > 1 else None
            if self.idf_ is not None:
                self.grams_ = self._new_grams()
                self.grams_.load_arrays(arrays)
                width = len(self.grams_)
                if self.idf_.dtype != np.float32 or self.idf_.shape != (width,) or not np.isfinite(self.idf_).all():
                    raise ValueError(f"there must be {width} finite weights of features")
        labels = len(self._fitted())
        self.trees_ = [self._load_tree(folder, "tree0", labels)]
        if self.trees_[0].depth > 1:  # else all trees are the same, see `_build_trees`
            self.trees_ += [self._load_tree(folder, f"tree{at}", labels) for at in range(1, self.config.trees)]
        nodes = sum(map(nodes_of, self.trees_))
        with folder.building("vectors"):
            self.base_ = folder.arrays("vectors")["base"]
            if self.base_.dtype != np.float32 or self.base_.shape != (nodes,) or np.isnan(self.base_).any():
                raise ValueError(f"there must be {nodes} scores at which nodes begin")
        self.__dict__.pop("_flat", None)
        self._load_vectors(folder, width, nodes)

    def _load_tree(self, folder: FolderReader, name: str, labels: int) -> LabelTree:
        with folder.building(name):
            tree = LabelTree.from_arrays(folder.arrays(name))
            if tree.labels != labels:
                raise ValueError(f"a tree over {tree.labels} labels does not fit a model of {labels}")
        return tree


def _counts(rows: TokenStore, width: int) -> Csr:
    """How often each text has each row."""
    counts = make_csr(np.ones(len(rows.ids), np.float32), rows.ids, rows.offsets, (len(rows), width))
    counts.sum_duplicates()
    return counts


def _inputs(rows: Csr) -> Inputs:
    return Inputs(rows.indices.astype(np.int32), rows.indptr.astype(np.int64), rows.data)
