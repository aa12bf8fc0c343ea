"""`proxml`: one L1-regularised classifier per label, robust for labels with few documents.

Babbar, Schölkopf: "Data scarcity, robustness and extreme multi-label classification", Machine Learning 108, 2019.

What it does: DiSMEC's problem with the L1 norm, min |w|_1 + C sum_i max(0, 1 - y_i (w x_i + b))^2 for each label. The
paper shows that this minimises the loss at the worst small change of the documents, which helps labels of which few are
known. With `propensity` a document counts 1 / p for a label that it has: labels are missing from documents, the rare
ones more often.

Where it differs: Newton steps with coordinate descent (`xmtc.kernels.l1_linear`) instead of proximal gradient steps,
for the same minimum; the bias is drawn towards -1, the answer "no", so that most documents of a rare label are never
read. A killed run resumes with the block of labels that was not finished.

Cost: training grows with labels x (documents that are wrong on the way x words), which takes longer than DiSMEC;
memory and prediction with the weights, of which there are far fewer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.sparse import make_csr
from xmtc.labelspace.propensity import PROPENSITIES
from xmtc.models.config import PRUNE, Capabilities, ModelConfig
from xmtc.models.sparse_ovr.separable import LabelSolver, Pair, SeparableClassifiers
from xmtc.predictions import ScoreKind
from xmtc.search.label_blocks import Block
from xmtc.text.tfidf import TfIdfSettings

if TYPE_CHECKING:
    from xmtc.kernels.l1_linear import L1Solver

REST = -1.0  # the bias of a label that no document has


class ProXmlConfig(ModelConfig):
    """The classifiers; recipes/proxml/paper has the paper's form."""

    cost: PositiveFloat = Field(1.0, allow_inf_nan=False)
    """Weight of errors against regularisation (C): higher keeps more words and fits more closely."""
    propensity: Literal["none", "default", "amazon", "wikipedia"] = "none"
    """Weigh a document's labels by their inverse propensity, with the constants of this family of data sets."""
    bias: NonNegativeFloat = Field(1.0, allow_inf_nan=False)
    """How freely a classifier's bias moves away from the answer no; 0: not at all."""
    tolerance: PositiveFloat = Field(0.0001, lt=1)
    """A classifier is finished when its violations have fallen to this share: smaller is more exact and slower."""
    rounds: PositiveInt = 100
    """Newton steps for a classifier, at most."""
    smallest_weight: NonNegativeFloat = 0.0
    """Drop weights that are nearer to 0: a smaller and faster model."""
    block: PositiveInt = 1000
    """Labels, at most, that are trained together and kept as one checkpoint."""
    weights: Literal["float32", "float16"] = "float32"
    """How weights are saved: float16 halves the folder."""
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


class ProXml(SeparableClassifiers):
    """One L1-regularised classifier for each label.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> ProXml().fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "proxml"
    capabilities = Capabilities(
        summary="one L1-regularised classifier per label; robust for labels with few documents, and few weights",
        input=frozenset({"text", "features"}),
        score=ScoreKind.RANKING,
        explain=True,
        weights=frozenset({"documents", "labels"}),
        shrink=PRUNE,
    )
    Config = ProXmlConfig
    config: ProXmlConfig

    def _weighted(self, corpus: Corpus, targets: Any, weights: Any) -> tuple[Any, Any]:
        if self.config.propensity == "none":
            return targets, weights
        inverse = PROPENSITIES[self.config.propensity].inverse(corpus.label_counts, len(corpus))
        data = (targets.data * inverse[targets.indices]).astype(np.float32)
        every = np.ones(len(corpus), np.float32) if weights is None else weights
        return make_csr(data, targets.indices, targets.indptr, targets.shape), every

    def _solver(self) -> LabelSolver:
        from xmtc.kernels.l1_linear import SQUARED_HINGE, L1Solver

        config = self.config
        solver = L1Solver(
            loss=SQUARED_HINGE,
            cost=config.cost,
            tolerance=config.tolerance,
            max_rounds=config.rounds,
            smallest_weight=config.smallest_weight,
            bias=config.bias,
            rest=REST,
        )
        return partial(_solve, solver, self.vectors_.width)


def _solve(solver: L1Solver, width: int, matrix: Pair, positives: Pair, importance: Any, seed: int) -> Block:
    from xmtc.kernels.l1_linear import train_l1_labels

    return train_l1_labels(*matrix, width, *positives, importance, solver, seed)
