"""`evaluate`: every metric of a model on a corpus, as one value that prints as a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.builder import MAX_ID
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.frames import Table, described, is_number
from xmtc.corpus.inputs import labelled
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sketch import Sketch
from xmtc.errors import XmtcError
from xmtc.evaluation.calibration_error import Reliability
from xmtc.evaluation.hierarchy import ancestor_closure, hierarchical_metrics
from xmtc.evaluation.ranking import RankingMetrics, align
from xmtc.evaluation.result import Evaluation
from xmtc.evaluation.set_metrics import Counts, coverage_error, example_averages, label_averages, label_coverage
from xmtc.labelspace.frequency_bands import THIRDS, Groups, frequency_bands, frequency_deciles
from xmtc.labelspace.propensity import Propensity, propensity_of
from xmtc.prediction_files.reading import read_predictions
from xmtc.predictions import Predictions, ScoreKind

#: The length of a model's lists when labels are assigned by a threshold.
THRESHOLD_DEPTH = 100

#: By suffix of the metrics' names ("@5", or "" at the threshold) what `RankingMetrics.label_counts` gives.
Counted = dict[str, tuple[Counts, Counts, Counts]]


class Predictor(Protocol):
    """What `evaluate` needs of a model."""

    @property
    def train_documents_(self) -> int:
        """Number of documents that the model was fitted on."""

    def predict(self, documents: Corpus, /, k: int) -> Predictions:
        """The k best labels of each document."""


def evaluate(
    model: Predictor | Predictions | str | Path,
    corpus: Corpus | Table,
    k: int | Sequence[int] = (1, 3, 5),
    *,
    threshold: float | NDArray[np.floating[Any]] | None = None,
    train: Corpus | Table | None = None,
    train_documents: int | None = None,
    propensity: Propensity | str | tuple[float, float] = "default",
    cuts: tuple[float, float] = THIRDS,
    normalise_psndcg: bool = True,
) -> Evaluation:
    """Evaluate a model, or its predictions, on the labels of a corpus (or of a table, see `Corpus.from_frame`).

    Predictions are a value or a file that `xmtc predict --out FILE` wrote (see `read_predictions`).

    All values are in percent; the formulas are in `xmtc.evaluation.ranking`, `.set_metrics` and `.hierarchy`, the rule
    for head, middle and tail (`cuts`) in `xmtc.labelspace.frequency_bands`. Labels that occur only in this corpus stay
    in the truth; documents without labels count as 0 and are reported. A warning says so if a fifth or more of the
    documents were in the model's training.

    `threshold` (one number or one for each label) adds micro, macro and example-based precision, recall and F1 of the
    listed labels that reach it; a model then predicts longer lists.

    Head, middle, tail and PSP need training counts, and PSP also the number of training documents. A model knows both;
    for predictions they are counted in `train`, the training documents, or are in the label set and `train_documents`.
    What cannot be computed is left out. `propensity` are the constants A and B of PSP, or a name of PROPENSITIES.

    >>> corpus = Corpus.of(["red fruit", "blue sky"], [["apple", "food"], ["weather"]])
    >>> labels = corpus.labels.with_counts(np.array([10, 20, 5]))
    >>> top = Predictions(np.array([[0, 1], [1, 2]], np.int32), np.array([[3, 2], [2, 1]], np.float32), labels)
    >>> evaluation = evaluate(top, corpus, k=[1, 2], train_documents=30)
    >>> evaluation.values["P@1"], evaluation.values["R@2"], round(evaluation.values["PSP@1"], 1)
    (50.0, 100.0, 45.7)
    """
    k = _cutoffs(k)
    corpus = labelled(corpus, "evaluate")
    propensity = propensity_of(propensity)
    if isinstance(model, (str, Path, Predictions)):
        training = None if train is None else labelled(train, "evaluate")
        predictions = model if isinstance(model, Predictions) else _read(model, corpus, training)
        if training is not None:
            predictions, train_documents = _counted(predictions, training), len(training)
            _warn_of_training_documents(Sketch.of(training), corpus)
    elif not hasattr(model, "predict"):
        raise XmtcError(
            f"evaluate takes a model (or its predictions) and a corpus, in this order, not {described(model)}"
        )
    elif train is not None:
        raise XmtcError("train= is for predictions; a model knows its training counts, so leave train= out")
    else:
        train_documents = model.train_documents_ or None  # 0: a model folder that does not say
        _warn_of_training_documents(_training_sketch(model), corpus)
        predictions = model.predict(corpus, k=max(*k, 1 if threshold is None else THRESHOLD_DEPTH))
    truth = align(predictions, corpus)
    counts = truth.labels.counts
    weights = None if counts is None or train_documents is None else propensity.inverse(counts, train_documents)
    ranking = RankingMetrics.of(predictions, truth, weights, normalise_psndcg)
    ks = tuple(sorted(set(k)))
    counted: Counted = {f"@{k}": ranking.label_counts(k) for k in ks}
    by_example = {}
    if threshold is not None:
        assigned = RankingMetrics.of(predictions.threshold(threshold), truth)
        counted[""] = assigned.label_counts()
        by_example = _percent(example_averages(assigned))
    true = truth.label_counts
    # Without training counts, only labels that the model's label set lacks are known to be unseen; a file has none.
    seen = counts > 0 if counts is not None else np.arange(len(true)) < len(predictions.labels)
    unseen = int(np.count_nonzero((true > 0) & ~seen))

    return Evaluation(
        values=_overall(ranking, predictions, truth.labels, counted, ks) | by_example,
        bands={} if counts is None else _by_group(ranking, frequency_bands(counts, cuts), counted, ks),
        deciles={} if counts is None else _by_group(ranking, frequency_deciles(counts), counted, ks),
        k=ks,
        documents=len(truth),
        documents_without_labels=int(np.count_nonzero(np.diff(truth.targets.indptr) == 0)),
        labels_in_test=int(np.count_nonzero(true)),
        labels_unseen=None if counts is None and isinstance(model, (str, Path)) else unseen,
        coverage_error=coverage_error(ranking),
        predictions=predictions,
        truth=truth,
        ranking=ranking,
        threshold=threshold if threshold is None else "by label" if np.ndim(threshold) else float(threshold),
        propensity=None if weights is None else propensity,
    )


def _read(path: str | Path, corpus: Corpus, train: Corpus | None) -> Predictions:
    """The predictions in a file, with the ids of labels as a model of the training documents has them."""
    if Path(path).is_dir():
        raise XmtcError(f"{path} is a folder; to evaluate the model in it: evaluate(xmtc.load({str(path)!r}), corpus)")
    return read_predictions(path, corpus if train is None else corpus.with_labels(train.labels))


def _counted(predictions: Predictions, train: Corpus) -> Predictions:
    """The same predictions, with how often each label occurs in the training documents."""
    known = train.with_labels(predictions.labels)
    return replace(predictions, labels=known.labels.with_counts(known.label_counts))


def _training_sketch(model: object) -> Sketch | None:
    """The sketch of the documents that a model was trained on, if it has one."""
    sketch = getattr(model, "training_", {}).get("sketch")
    return None if sketch is None else Sketch.from_hex(sketch)


def _warn_of_training_documents(training: Sketch | None, corpus: Corpus) -> None:
    """One warning if many documents of a corpus were in training, as far as that is known."""
    overlap = None if training is None else training.overlap(corpus)
    if overlap is not None and overlap.is_loud:
        warnings.warn(
            f"{corpus.name}: {overlap} of these documents were in training: the figures are too good; "
            "evaluate on documents that the model has not seen",
            stacklevel=3,
        )


def _cutoffs(k: Any) -> list[int]:
    """The k of the metrics as a list; a single one may be given as a number."""
    listed = [k] if is_number(k) else None if isinstance(k, (str, bytes)) or not isinstance(k, Iterable) else list(k)
    if listed is None or not all(map(is_number, listed)):
        raise XmtcError(f"k = {k!r:.60}: give whole numbers, such as k=(1, 3, 5)")
    if not listed or min(listed) < 1 or max(listed) > MAX_ID:
        raise XmtcError(f"k = {listed}: give at least one k, each 1 or more and at most {MAX_ID:,}")
    return list(map(int, listed))


def _overall(
    ranking: RankingMetrics, predictions: Predictions, labels: LabelSet, counted: Counted, ks: Sequence[int]
) -> dict[str, float]:
    values = ranking.metrics(ks) | _label_metrics(counted)
    if labels.parents is not None:
        closure = ancestor_closure(labels.parents)
        for k in ks:
            values |= _suffixed(hierarchical_metrics(ranking, closure, k), f"@{k}")
    if predictions.kind is not ScoreKind.RANKING:
        for k in ks:
            listed = ranking.ids[:, :k] >= 0
            values[f"ECE@{k}"] = Reliability.of(predictions.scores[:, :k][listed], ranking.hits[:, :k][listed]).error
    return _percent(values)


def _by_group(
    ranking: RankingMetrics, groups: Groups, counted: Counted, ks: Sequence[int]
) -> dict[str, dict[str, float]]:
    by_group = {}
    true = ranking.label_counts()[0]
    for at, (name, values) in enumerate(ranking.metrics_by_group(ks, groups).items()):
        members = groups.of_label == at
        if members.any():
            sizes = {"labels": int(members.sum()), "assignments": int(true[members].sum())}
            by_group[name] = _percent(values | _label_metrics(counted, members)) | sizes
    return by_group


def _label_metrics(counted: Counted, members: NDArray[np.bool_] | None = None) -> dict[str, float]:
    """The averages over labels, or over those of a group."""
    values: dict[str, float] = {}
    for suffix, columns in counted.items():
        true, predicted, hits = columns if members is None else (column[members] for column in columns)
        values |= _suffixed(label_averages(true, predicted, hits), suffix)
        if suffix and true.any():
            values[f"coverage{suffix}"] = label_coverage(true, hits)
    return values


def _suffixed(values: dict[str, float], suffix: str) -> dict[str, float]:
    return {f"{name}{suffix}": value for name, value in values.items()}


def _percent(values: dict[str, float]) -> dict[str, float]:
    return {name: 100 * value for name, value in values.items()}
