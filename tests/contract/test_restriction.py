"""Every model predicts within some labels only, or without some."""

from __future__ import annotations

import numpy as np

from xmtc.corpus.corpus import Corpus
from xmtc.models.base import Model


def test_only_and_exclude(fitted: Model, corpus: Corpus) -> None:
    begin = int(np.flatnonzero(fitted.predict(corpus, 2).ids[:, 1] >= 0)[0])  # a document with two answers
    corpus = corpus[begin : begin + 8]
    best = fitted.predict(corpus, 1)
    labels = best.labels
    first = labels.key(int(best.ids[0, 0]))
    without = fitted.predict(corpus, 3, exclude=[first])
    assert labels.index(first) not in without.ids
    assert without.ids[0, 0] >= 0
    alone = fitted.predict(corpus, 3, only=[first])
    assert alone.ids.shape == (8, 1)
    assert {*np.unique(alone.ids).tolist()} <= {-1, labels.index(first)}
    assert alone.ids[0, 0] == labels.index(first)
    assert alone.kind is fitted.score_kind
    everything = fitted.predict(corpus, 3, exclude=[])
    assert np.array_equal(everything.ids, fitted.predict(corpus, 3).ids)
