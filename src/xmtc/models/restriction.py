"""Predictions within some labels of a model: only these, or all but these."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.frames import described
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError
from xmtc.predictions import Predictions, ScoreKind

ENTRIES = 1 << 22  # labels listed at a time, over all documents of a block: some 50 MB
FIRST, GROWTH = 100, 4  # how many labels are looked at beyond k, and how much longer the lists get each time


def allowed_labels(labels: LabelSet, only: Iterable[str] | None, exclude: Iterable[str] | None) -> NDArray[np.bool_]:
    """Which labels may be listed, given by key or name; a name stands for all labels that have it.

    >>> labels = LabelSet.of(["a", "b", "c"], names=["Apple", "Berry", "Berry"])
    >>> allowed_labels(labels, None, ["Berry"]).tolist(), allowed_labels(labels, ["b", "Apple"], None).tolist()
    ([True, False, False], [True, True, False])
    """
    allowed = np.full(len(labels), only is None)
    for what, wanted, value in (("only", only, True), ("exclude", exclude, False)):
        if isinstance(wanted, str):
            raise XmtcError(f"{what} takes a list of labels; put a single label into a list: [{wanted!r}]")
        if wanted is None:
            continue
        if not isinstance(wanted, Iterable):
            raise XmtcError(f"{what} takes a list of labels, not {described(wanted)}")
        allowed[labels.find_all(wanted)] = value
    if not allowed.any():
        raise XmtcError(f"no label is left to predict: `only` and `exclude` allow none of {len(labels):,}")
    return allowed


def predict_within(
    predict: Callable[[Corpus, int], Predictions],
    corpus: Corpus,
    k: int,
    allowed: NDArray[np.bool_],
    labels: LabelSet,
    kind: ScoreKind,
) -> Predictions:
    """The k best of the allowed labels.

    Lists grow until they hold k allowed labels or the method lists no more: all labels of a method that scores each,
    which makes the result exact, those that the beam reached for a method that searches a tree. Documents are
    predicted in blocks, so that documents x labels is never held at once.
    """
    k = min(k, int(allowed.sum()))
    ids, scores = np.full((len(corpus), k), -1, np.int32), np.zeros((len(corpus), k), np.float32)
    excluded = len(allowed) - int(allowed.sum())
    length = k + min(excluded, FIRST + k)
    rows = np.arange(len(corpus))
    while len(rows):
        block = max(1, ENTRIES // length)
        unfinished = []
        for part in (rows[start : start + block] for start in range(0, len(rows), block)):
            listed = predict(corpus[part], length)
            found = listed.keep((listed.ids >= 0) & allowed[np.maximum(listed.ids, 0)]).top(k)
            ids[part, : found.k], scores[part, : found.k] = found.ids, found.scores
            full = listed.ids[:, -1] >= 0 if listed.k == length < len(allowed) else np.zeros(len(part), bool)
            unfinished.append(part[full & (ids[part, -1] < 0)])
        rows = np.concatenate(unfinished)
        length = min(len(allowed), GROWTH * length)
    return Predictions(ids, scores, labels, kind)
