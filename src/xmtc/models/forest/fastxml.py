"""`fastxml`: trees over documents whose nodes optimise a ranking.

Prabhu, Varma: "FastXML: A Fast, Accurate and Stable Tree-classifier for eXtreme Multi-label Learning", KDD 2014.

What it does: a node divides its documents so that one ranking of labels suits each side (nDCG), and learns the sides
with an L1-regularised logistic regression; see `xmtc.kernels.ranking_tree`. Fifty trees, leaves with ten documents.

Where it differs: as in the authors' code, sides and classifier are found once each, not in turns, and labels that none
of a side's documents has earn nothing there. Newton steps with coordinate descent on the words that can get a weight
(`xmtc.kernels.l1_linear`): the same minimum, in a small part of the time.

Cost: training grows with trees x depth x words of all documents; a prediction reads the weights of some twenty splits a
tree. The model is its leaves: about as many entries as trees x labels of all documents, at most.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.models.config import PRUNE, Capabilities
from xmtc.models.forest.model import DocumentForest, ForestConfig
from xmtc.predictions import ScoreKind

if TYPE_CHECKING:
    from xmtc.kernels.tree_growth import TreeArrays


class FastXmlConfig(ForestConfig):
    """The trees and their splits; recipes/fastxml/paper has the paper's values."""

    cost: PositiveFloat = Field(2.0, allow_inf_nan=False)
    """Weight of errors against regularisation in a split: higher uses more words and fits the sides more closely."""
    even_sides: bool = True
    """Both sides of a split cost the same together, however many documents each has."""
    bias: NonNegativeFloat = Field(1.0, allow_inf_nan=False)
    """How freely the bias of a split moves; 0: none."""
    ranking_rounds: PositiveInt = 50
    """Rounds of ranking labels and moving documents, at most."""
    tolerance: PositiveFloat = 0.01
    """A split is finished when its violations have fallen to this share: smaller is more exact and slower."""
    rounds: PositiveInt = 20
    """Newton steps of a split, at most."""


class FastXml(DocumentForest):
    """An ensemble of trees over documents, split by rankings.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 8, tags * 8)
    >>> FastXml(trees=5).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "fastxml"
    capabilities = Capabilities(
        summary="trees over documents whose splits optimise a ranking of labels; predicts in well under a millisecond",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        shrink=PRUNE,
    )
    Config = FastXmlConfig
    config: FastXmlConfig

    def _split_bytes(self, corpus: Corpus, terms: int) -> int:
        """A split has few words; measured: less than a tenth of the documents' terms in a tree."""
        return 8 * terms // 10

    def _gains(self, corpus: Corpus) -> NDArray[np.float32]:
        """What each label of each document counts in rankings: its part in an ideal discounted gain of 1."""
        sizes = np.diff(corpus.targets.indptr)
        ideal = np.cumsum(1 / np.log2(np.arange(2, sizes.max() + 2)))
        return np.repeat(1 / ideal[np.maximum(sizes, 1) - 1], sizes).astype(np.float32)

    def _leaf_values(self, corpus: Corpus) -> NDArray[np.float32]:
        """What each label of each document counts in a leaf."""
        return np.ones(corpus.targets.nnz, np.float32)

    def _grower(self, features: Csr, corpus: Corpus) -> Callable[[int], TreeArrays]:
        from xmtc.kernels.csr import CsrArrays
        from xmtc.kernels.ranking_tree import RankingTree, grow_ranking_tree

        config, targets = self.config, corpus.targets
        how = RankingTree(
            max_leaf=config.max_leaf,
            leaf_labels=config.leaf_labels,
            ranking_rounds=config.ranking_rounds,
            cost=config.cost,
            even_sides=config.even_sides,
            bias=config.bias,
            tolerance=config.tolerance,
            rounds=config.rounds,
        )
        leaf_rows = CsrArrays(targets.indptr, targets.indices, self._leaf_values(corpus))
        rows, width = CsrArrays.of(features), features.shape[1]
        return partial(grow_ranking_tree, rows, width, leaf_rows, self._gains(corpus), targets.shape[1], how)
