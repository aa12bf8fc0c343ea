"""What FastXML, PfastreXML and CRAFTML share: trees over documents, grown side by side, averaged.

A tree splits the training documents, and the parts again, until a part has at most `max_leaf` documents; a leaf keeps
the share of its documents that have each label. A document walks down every tree, and a label's score is the mean of
its shares in the leaves. How a node splits is the method's own. Documents without labels have no place in a tree.

Each tree has a seed of its own and is grown by one thread, so the number of threads changes nothing; a finished tree is
a checkpoint. `explain` follows the share of the label down each path: a step from a node to its child changes the share
among the training documents that came by, and the words that speak for this child divide the change. So words, bias and
the label's share among all training documents add up to the score.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.executor import current_executor
from xmtc.kernels import cores
from xmtc.memory import give_back_memory
from xmtc.models.base import Model
from xmtc.models.config import ModelConfig
from xmtc.models.explanation import Explanation, strongest, words_of
from xmtc.models.forest.trees import TYPES, DocumentTrees
from xmtc.predictions import Predictions
from xmtc.progress import progress
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

if TYPE_CHECKING:
    from xmtc.kernels.forest_search import Tail
    from xmtc.kernels.tree_growth import TreeArrays

FOREST = "forest"
BATCH = 2048  # documents that walk down together
NOTHING = np.zeros(0, np.float32)


class ForestConfig(ModelConfig):
    """The trees, however they split."""

    trees: PositiveInt = 50
    """How many trees are grown, each from another seed, and averaged."""
    max_leaf: PositiveInt = 10
    """A node with so many documents, or fewer, is a leaf."""
    leaf_labels: PositiveInt = 100
    """Labels that a leaf keeps, at most: those with the largest shares."""
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


class DocumentForest(Model):
    """The shell around the trees; a subclass grows them."""

    config: ForestConfig

    vectors_: DocumentVectors
    trees_: DocumentTrees

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the documents' matrix, what each core works on, and the trees.

        A core copies a node's documents, by rows and by columns. A tree's leaves have at most the labels of all.
        """
        vectors = DocumentVectors(self.config.tfidf)
        terms = vectors.terms_of(corpus)
        return (
            vectors.memory_needed(corpus) + 40 * terms * cores() + self.config.trees * self._tree_bytes(corpus, terms)
        )

    def _tree_bytes(self, corpus: Corpus, terms: int) -> int:
        """About how many bytes a tree takes, and what it is put together from."""
        return 2 * (8 * corpus.targets.nnz + self._split_bytes(corpus, terms))

    @abstractmethod
    def _split_bytes(self, corpus: Corpus, terms: int) -> int:
        """About how many bytes the splits of a tree take, for documents with so many terms."""

    @abstractmethod
    def _grower(self, features: Csr, corpus: Corpus) -> Callable[[int], TreeArrays]:
        """The task of an executor: one tree from its seed."""

    @property
    def _arity(self) -> int:
        """Children of a node, at most."""
        return 2

    @property
    def _width(self) -> int:
        """Features that splits know."""
        return self.vectors_.width

    def _seeds(self) -> NDArray[np.uint64]:
        """What each tree hashes the features with; none if it takes them as they are."""
        return np.zeros(0, np.uint64)

    def _tail(self) -> Tail:
        """Classifiers that re-rank; none here."""
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.forest_search import Tail

        nothing = CsrArrays(np.zeros(1, np.int32), np.zeros(0, np.int32), NOTHING)
        return Tail(nothing, NOTHING, 1.0, 0.0)

    def _tree_seed(self, at: int) -> int:
        return derived_seed(self.config.seed, at)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        from xmtc.kernels.tree_growth import TreeArrays

        self.vectors_ = DocumentVectors(self.config.tfidf)
        features = self.vectors_.fit_transform(corpus)
        give_back_memory()
        trees: dict[int, TreeArrays] = {}
        with progress("growing trees", self.config.trees) as bar:
            for at in range(self.config.trees):
                kept = checkpoints.get(f"tree{at}")
                if kept is not None:
                    one = DocumentTrees.from_arrays({"roots": np.zeros(1, np.int64), **kept})
                    one.check(self._width, len(corpus.labels), self._arity)
                    trees[at] = TreeArrays(*(kept[name] for name in TYPES))
                    bar.advance()
            missing = [at for at in range(self.config.trees) if at not in trees]
            grow, seeds = self._grower(features, corpus), [self._tree_seed(at) for at in missing]
            memory = 40 * features.nnz + self._tree_bytes(corpus, features.nnz)

            def keep(place: int, tree: TreeArrays) -> None:
                trees[missing[place]] = tree
                checkpoints.put(f"tree{missing[place]}", tree._asdict())
                bar.advance()

            current_executor().map(grow, seeds, keep, memory=memory)
        self.trees_ = DocumentTrees.of([trees.pop(at) for at in range(self.config.trees)])
        give_back_memory()

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.kernels.csr import CsrArrays

        ids, scores = np.full((len(corpus), k), -1, np.int32), np.zeros((len(corpus), k), np.float32)
        seeds, tail, width = self._seeds(), self._tail(), self.vectors_.width
        with progress("walking down trees", len(corpus)) as bar:
            for start in range(0, len(corpus), BATCH):
                batch = slice(start, start + BATCH)
                rows = CsrArrays.of(self.vectors_.transform(corpus[batch]))
                leaves = self.trees_.leaves(rows, self._width, seeds)
                found = self.trees_.labels(leaves, len(self._fitted()), k, rows, width, tail)
                ids[batch], scores[batch] = found
                bar.advance(leaves.shape[1])
        return Predictions(ids, scores, self._fitted(), self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        """The label's share among all training documents, and what the words of each path change about it."""
        query, words = words_of(self.name, self.vectors_, text)
        parts, rest, start, found = self._path_words(query, label)
        score = float(parts.sum()) + rest + start
        return Explanation(self._fitted().name(label), score, strongest(words, parts), self._evidence(found, start))

    def _path_words(self, query: Csr, label: int) -> tuple[NDArray[np.float64], float, float, int]:
        """(what each word adds to the mean share, what no word adds, the share at the roots, leaves with the label)."""
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.forest_search import label_shares, path_words

        rows, seeds, trees = CsrArrays.of(query), self._seeds(), self.trees_.arrays
        shares = label_shares(trees, label)
        leaves = self.trees_.leaves(rows, self._width, seeds)[:, 0]
        parts, rest, start = path_words(trees, self.trees_.roots, rows, self._width, seeds, shares)
        return parts, float(rest), float(start), int(np.count_nonzero(shares[leaves]))

    def _evidence(self, found: int, start: float) -> tuple[str, ...]:
        return (
            f"{found} of {len(self.trees_)} trees lead to a leaf that has the label",
            f"of all training documents {start:.3f} have it; words change that on the way to the leaves",
        )

    def _pruned(self, share: float) -> Self:
        made = copy(self)
        made.trees_ = self.trees_.pruned(share)
        return made

    def _save(self, folder: FolderWriter) -> None:
        self.vectors_.save(folder)
        folder.arrays(FOREST, {"shape": self._shape(), **self.trees_.to_arrays()}, ["split_weights"])

    def _shape(self) -> NDArray[np.int64]:
        """Trees, features of the documents, labels."""
        return np.array([self.config.trees, self.vectors_.width, len(self._fitted())], np.int64)

    def _load(self, folder: FolderReader) -> None:
        self.vectors_ = DocumentVectors.load(folder, self.config.tfidf)
        with folder.building(FOREST):
            arrays = folder.arrays(FOREST)
            self.trees_ = trees = DocumentTrees.from_arrays(arrays)
            if len(trees) != self.config.trees or arrays["shape"].tolist() != self._shape().tolist():
                raise ValueError(f"its trees, features and labels are {arrays['shape']}, not {self._shape()}")
        width, labels, arity = self._width, len(self._fitted()), self._arity

        def check() -> None:
            with folder.building(FOREST):
                trees.check(width, labels, arity)

        folder.check(f"{FOREST}.safetensors", check)
