"""`ppd_sparse`: one elastic-net classifier per label, each trained on the few documents that matter to it.

Yen, Huang, Dai, Ravikumar, Dhillon, Xing: "PPDsparse: A Parallel Primal-Dual Sparse Method for Extreme Classification",
KDD 2017.

What it does: for each label min lambda |w|_1 + 1/2 |w|^2 + C sum_i loss, by coordinate descent in the dual. Weights are
sparse in the primal, so the documents that may be wrong are found through the words with a weight; documents are sparse
in the dual, so only these are trained on. Labels are independent and share the cores in blocks.

Where it differs: a document scores -1 before any word counts (the kernel's REST), so that documents without a label's
words need no visit; the paper has no bias. A search lets the worst documents in first, see `xmtc.kernels.elastic_net`.
The default loss is the squared hinge instead of the hinge, which is more accurate here. A killed run resumes with the
block of labels that was not finished.

Cost: training grows with labels x (the documents of their words + active documents x words), not with all documents;
memory and prediction with the weights.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from xmtc.models.config import PRUNE, Capabilities, ModelConfig
from xmtc.models.sparse_ovr.separable import LabelSolver, Pair, SeparableClassifiers
from xmtc.predictions import ScoreKind
from xmtc.search.label_blocks import Block
from xmtc.text.tfidf import TfIdfSettings

if TYPE_CHECKING:
    from xmtc.kernels.elastic_net import ElasticNet


class PpdSparseConfig(ModelConfig):
    """The classifiers; recipes/ppd_sparse/paper has the paper's form."""

    loss: Literal["squared_hinge", "hinge"] = "squared_hinge"
    """Loss of the classifiers: squared_hinge, or hinge as in the paper."""
    cost: PositiveFloat = Field(1.0, allow_inf_nan=False)
    """Weight of errors against regularisation (C): higher fits the training documents more closely."""
    l1: NonNegativeFloat = Field(0.1, allow_inf_nan=False)
    """Weight of the L1 norm (lambda): higher drops more words, for a smaller and faster model."""
    bias: NonNegativeFloat = Field(0.0, allow_inf_nan=False)
    """How freely a classifier's bias moves away from the answer no; 0: not at all."""
    tolerance: PositiveFloat = 0.1
    """A document that is wrong by no more is left alone: smaller is more exact and slower."""
    searches: PositiveInt = 8
    """Searches for documents that a classifier gets wrong, at most."""
    rounds: PositiveInt = 3
    """Passes over the documents found so far after each search, at most."""
    block: PositiveInt = 1000
    """Labels, at most, that are trained together and kept as one checkpoint."""
    weights: Literal["float32", "float16"] = "float32"
    """How weights are saved: float16 halves the folder."""
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


class PpdSparse(SeparableClassifiers):
    """One elastic-net classifier for each label.

    >>> from xmtc.corpus.corpus import Corpus
    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> PpdSparse().fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "ppd_sparse"
    capabilities = Capabilities(
        summary="one sparse classifier per label, on the few documents that matter; as accurate as `dismec`, smaller",
        input=frozenset({"text", "features"}),
        score=ScoreKind.RANKING,
        explain=True,
        weights=frozenset({"documents", "labels"}),
        shrink=PRUNE,
    )
    Config = PpdSparseConfig
    config: PpdSparseConfig

    def _solver(self) -> LabelSolver:
        from xmtc.kernels.coordinate_descent import SQUARED_HINGE
        from xmtc.kernels.elastic_net import HINGE, ElasticNet

        config = self.config
        how = ElasticNet(
            loss=HINGE if config.loss == "hinge" else SQUARED_HINGE,
            cost=config.cost,
            l1=config.l1,
            bias=config.bias,
            tolerance=config.tolerance,
            searches=config.searches,
            rounds=config.rounds,
        )
        return partial(_solve, how)


def _solve(how: ElasticNet, matrix: Pair, positives: Pair, importance: Any, seed: int) -> Block:
    from xmtc.kernels.elastic_net import train_elastic_net_labels

    return train_elastic_net_labels(*matrix, *positives, importance, how, seed)
