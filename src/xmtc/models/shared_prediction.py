"""Prediction that the processes of a cluster share: the model reaches each machine once, documents go in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus, no_labels
from xmtc.corpus.labels import LabelSet
from xmtc.executor import current_executor
from xmtc.predictions import Predictions, ScoreKind

BLOCK = 1024  # documents
Answers = tuple[NDArray[np.int32], NDArray[np.float32], ScoreKind]


@dataclass(frozen=True, eq=False)
class Predict:
    """The task of an executor: the k best labels of a block of documents."""

    predict: Callable[[Corpus, int], Predictions]
    k: int

    def __call__(self, corpus: Corpus) -> Answers:
        """The lists of these documents."""
        top = self.predict(corpus, self.k)
        return top.ids, top.scores, top.kind  # without the labels, which the model has


def shared_prediction(
    predict: Callable[[Corpus, int], Predictions], corpus: Corpus, k: int, labels: LabelSet
) -> Predictions:
    """`predict(corpus, k)`, in blocks if the current executor has other processes for them."""
    executor = current_executor()
    if not executor.remote or len(corpus) <= BLOCK:
        return predict(corpus, k)
    found: dict[int, Answers] = {}
    blocks = [_to_tag(corpus[start : start + BLOCK]) for start in range(0, len(corpus), BLOCK)]
    executor.map(Predict(predict, k), blocks, found.__setitem__)
    ids, scores, kinds = zip(*(found[at] for at in range(len(blocks))), strict=True)
    return Predictions(np.concatenate(ids), np.concatenate(scores), labels, kinds[0])


def _to_tag(corpus: Corpus) -> Corpus:
    """The texts or features alone."""
    targets, labels = no_labels(len(corpus))
    return Corpus(targets, labels, corpus.texts, corpus.features, name=corpus.name)
