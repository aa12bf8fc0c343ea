"""`evaluate`: every metric of a model on a corpus, as one value that prints as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.builder import MAX_ID
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError
from xmtc.evaluation.calibration_error import Reliability
from xmtc.evaluation.hierarchy import ancestor_closure, hierarchical_metrics
from xmtc.evaluation.ranking import Judged, align
from xmtc.evaluation.result import Evaluation
from xmtc.evaluation.set_metrics import coverage_error, example_averages, label_averages, label_coverage
from xmtc.labelspace.frequency_bands import THIRDS, Groups, frequency_bands, frequency_deciles
from xmtc.labelspace.propensity import PROPENSITIES, Propensity
from xmtc.predictions import Predictions, ScoreKind

#: A model is asked for lists of this length when labels are assigned by a threshold.
THRESHOLD_DEPTH = 100


class Predictor(Protocol):
    """What `evaluate` needs of a model."""

    @property
    def train_documents_(self) -> int:
        """Number of documents that the model was fitted on."""

    def predict(self, documents: Corpus, /, k: int) -> Predictions:
        """The k best labels of each document."""


def evaluate(
    model: Predictor | Predictions,
    corpus: Corpus,
    k: Sequence[int] = (1, 3, 5),
    *,
    threshold: float | NDArray[np.floating[Any]] | None = None,
    train_documents: int | None = None,
    propensity: Propensity = PROPENSITIES["default"],
    cuts: tuple[float, float] = THIRDS,
    normalise_psndcg: bool = True,
) -> Evaluation:
    """Measure a model, or predictions that were made before, on the labels of a corpus.

    All values are in percent; the formulas stand in `xmtc.evaluation.ranking`, `.classification` and `.hierarchy`, the
    rule for head, middle and tail (`cuts`) in `xmtc.labelspace.frequency_bands`. Labels that occur only in this corpus
    stay in the truth; documents without labels count as 0 and are reported.

    `threshold` (one number or one for each label) adds micro, macro and example-based precision, recall and F1 of the
    listed labels that reach it; a model is then asked for longer lists. PSP needs training counts in the label set
    and, when given predictions rather than a model, `train_documents`; what cannot be computed is left out.

    >>> corpus = Corpus.of(["red fruit", "blue sky"], [["apple", "food"], ["weather"]])
    >>> labels = corpus.labels.with_counts(np.array([10, 20, 5]))
    >>> top = Predictions(np.array([[0, 1], [1, 2]], np.int32), np.array([[3, 2], [2, 1]], np.float32), labels)
    >>> evaluation = evaluate(top, corpus, k=[1, 2], train_documents=30)
    >>> evaluation.values["P@1"], evaluation.values["R@2"], round(evaluation.values["PSP@1"], 1)
    (50.0, 100.0, 45.7)
    """
    if not k or min(k) < 1 or max(k) > MAX_ID:
        raise XmtcError(f"k = {list(k)}: give at least one k, each 1 or more and at most {MAX_ID:,}")
    if isinstance(model, Predictions):
        predictions = model
    else:
        train_documents = model.train_documents_ or None  # 0: a model folder that does not say
        predictions = model.predict(corpus, k=max(*k, 1 if threshold is None else THRESHOLD_DEPTH))
    truth = align(predictions, corpus)
    counts = truth.labels.counts
    weights = None if counts is None or train_documents is None else propensity.inverse(counts, train_documents)
    judged = Judged.of(predictions, truth, weights, normalise_psndcg)
    assigned = None if threshold is None else Judged.of(predictions.threshold(threshold), truth)
    ks = tuple(sorted(set(k)))
    true = truth.label_counts
    # Without training counts, only labels that the model's label set lacks are known to be unseen.
    known = counts > 0 if counts is not None else np.arange(len(true)) < len(predictions.labels)

    return Evaluation(
        values=_overall(judged, assigned, truth.labels, ks) | _calibration_errors(predictions, judged, ks),
        bands={} if counts is None else _by_group(judged, assigned, frequency_bands(counts, cuts), ks),
        deciles={} if counts is None else _by_group(judged, assigned, frequency_deciles(counts), ks),
        k=ks,
        documents=len(truth),
        documents_without_labels=int(np.count_nonzero(np.diff(truth.targets.indptr) == 0)),
        labels_in_test=int(np.count_nonzero(true)),
        labels_unseen=int(np.count_nonzero((true > 0) & ~known)),
        coverage_error=coverage_error(judged),
        predictions=predictions,
        truth=truth,
        judged=judged,
    )


def _overall(judged: Judged, assigned: Judged | None, labels: LabelSet, ks: Sequence[int]) -> dict[str, float]:
    values = judged.metrics(ks)
    closure = None if labels.parents is None else ancestor_closure(labels.parents)
    for k in ks:
        true, predicted, hits = judged.label_counts(k)
        values |= _at(k, label_averages(true, predicted, hits))
        values[f"coverage@{k}"] = label_coverage(true, hits)
        if closure is not None:
            values |= _at(k, hierarchical_metrics(judged, closure, k))
    if assigned is not None:
        values |= label_averages(*assigned.label_counts()) | example_averages(assigned)
    return _percent(values)


def _calibration_errors(predictions: Predictions, judged: Judged, ks: Sequence[int]) -> dict[str, float]:
    """ECE@k, for scores that say how likely a label is right."""
    if predictions.kind is ScoreKind.RANKING:
        return {}
    listed = judged.ids >= 0
    errors = {}
    for k in ks:
        first = listed[:, :k]
        reliability = Reliability.of(predictions.scores[:, :k][first], judged.hits[:, :k][first])
        errors[f"ECE@{k}"] = reliability.error
    return _percent(errors)


def _by_group(
    judged: Judged, assigned: Judged | None, groups: Groups, ks: Sequence[int]
) -> dict[str, dict[str, float]]:
    by_group = judged.metrics_by_group(ks, groups)
    members = [groups.of_label == at for at in range(len(groups.names))]
    for k in ks:
        counted = judged.label_counts(k)
        for values, member in zip(by_group.values(), members, strict=True):
            true, predicted, hits = (column[member] for column in counted)
            values |= _at(k, label_averages(true, predicted, hits))
            if true.any():
                values[f"coverage@{k}"] = label_coverage(true, hits)
    if assigned is not None:
        counted = assigned.label_counts()
        for values, member in zip(by_group.values(), members, strict=True):
            values |= label_averages(*(column[member] for column in counted))
    true = judged.label_counts()[0]
    return {
        name: _percent(values) | {"labels": int(member.sum()), "assignments": int(true[member].sum())}
        for (name, values), member in zip(by_group.items(), members, strict=True)
        if member.any()
    }


def _at(k: int, values: dict[str, float]) -> dict[str, float]:
    return {f"{name}@{k}": value for name, value in values.items()}


def _percent(values: dict[str, float]) -> dict[str, float]:
    return {name: 100 * value for name, value in values.items()}
