"""`bonsai`: Parabel's classifiers over a tree that is wide and shallow, and may be unbalanced.

Khandagale, Xiao, Babbar: "Bonsai: diverse and shallow trees for extreme multi-label classification", Machine Learning
109, 2020.

What it does: as `parabel`, but labels are split by k-means into up to 100 clusters of whatever size, two rounds deep,
so that rare labels are not forced together and fewer decisions can go wrong; a parent's log-probability counts 0.98
times. Labels are compared by their documents' words (`label_vectors="documents"`, the default), by the labels that
stand beside them ("neighbours"), or by "both".

Where it differs: labels that k-means cannot tell apart (no documents, or the same ones) are cut into equal parts.

Cost: training takes longer than Parabel's, as each of a node's up to 100 children is trained on all of the node's
documents; prediction scores up to beam x 100 children a level, over 3 levels instead of log2(labels / 100).
"""

from __future__ import annotations

from pydantic import Field, PositiveInt

from xmtc.models.config import PRUNE, Capabilities
from xmtc.models.parabel import Parabel, ParabelConfig
from xmtc.predictions import ScoreKind


class BonsaiConfig(ParabelConfig):
    """As Parabel's, with Bonsai's tree."""

    balanced: bool = False
    arity: int = Field(100, ge=2)
    max_leaf: PositiveInt = 100
    levels: PositiveInt | None = 2
    discount: float = Field(0.98, gt=0, le=1)


class Bonsai(Parabel):
    """An ensemble of shallow label trees with linear classifiers.

    >>> from xmtc.corpus.corpus import Corpus
    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> Bonsai(trees=1).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "bonsai"
    capabilities = Capabilities(
        summary="Parabel's classifiers over shallow, wide trees; slower and often a little more accurate",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        weights=frozenset({"documents", "labels"}),
        shrink=PRUNE,
    )
    Config = BonsaiConfig
    config: BonsaiConfig
