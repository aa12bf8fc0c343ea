"""Several models on the same documents: runs, and rows of means with spreads over seeds and p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sketch import Sketch
from xmtc.evaluation.evaluate import evaluate
from xmtc.evaluation.result import Evaluation
from xmtc.evaluation.significance import holm, randomisation_ps
from xmtc.labelspace.frequency_bands import frequency_bands
from xmtc.labelspace.propensity import Propensity
from xmtc.predictions import Predictions
from xmtc.progress import clock, track

TAIL = "tail P@5"
METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "RP@5", "PSP@5", TAIL)
MICRO_F1 = "micro-F1"  # at thresholds tuned on validation documents; no test says whether a difference is chance
COLUMNS = (*METRICS, MICRO_F1)
#: The metric by which rows are ordered.
MAIN = "nDCG@5"
SIGNIFICANT = 0.05
COSTS = ("training", "documents/s", "memory", "size")
LIST_LENGTH = 10  # of the lists that are compared
RESAMPLES = 5000
RESAMPLES_PER_ROW = 100  # the smallest p-value must stay below SIGNIFICANT after the correction for many rows

Floats = NDArray[np.float64]
Status = Literal["finished", "failed", "stopped", "waiting"]
Origin = Literal["trained", "folder", "predictions"]


@dataclass(frozen=True, eq=False)
class Run:
    """One training with one seed, a model that was trained before, or a file: its predictions and its costs.

    `system` names its row. `costs` are seconds of training, documents tagged per second, peak memory and size of the
    model folder, both in bytes; `reason` says why a run is not finished, `remark` what to know of one that is.
    `micro_f1` is known where thresholds were tuned on validation documents.
    """

    system: str
    model: str
    settings: Mapping[str, Any]
    seed: int
    status: Status = "finished"
    reason: str = ""
    costs: Mapping[str, float] = field(default_factory=dict)
    top: Predictions | None = None
    train_documents: int = 0
    origin: Origin = "trained"
    remark: str = ""
    micro_f1: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything but the predictions."""
        shown = ("system", "origin", "model", "settings", "seed", "status", "reason", "remark", "costs", "micro_f1")
        return {name: getattr(self, name) for name in shown}


@dataclass(frozen=True, eq=False)
class Row:
    """A model of the table: means over its finished runs, and their standard deviation if there are several.

    `p_values` are those of the difference to the best of a column, 1 for the best itself, with Holm's correction for
    the number of rows. `evaluation` is that of the run with the lowest seed.
    """

    system: str
    runs: tuple[Run, ...]
    values: Mapping[str, float]
    spreads: Mapping[str, float]
    costs: Mapping[str, float]
    evaluation: Evaluation | None
    p_values: Mapping[str, float] = field(default_factory=dict)

    @property
    def finished(self) -> int:
        """Number of finished runs."""
        return sum(run.status == "finished" for run in self.runs)

    @property
    def note(self) -> str:
        """Why runs did not finish, "" if all did."""
        unfinished = [run for run in self.runs if run.status != "finished"]
        notes = [f"{run.status}: {run.reason}" if run.reason else run.status for run in unfinished]
        return "; ".join(dict.fromkeys(notes))

    @property
    def remark(self) -> str:
        """What to know of its figures, "" if nothing."""
        return "; ".join(dict.fromkeys(run.remark for run in self.runs if run.remark))

    def marked(self, metric: str) -> bool:
        """Whether the row is significantly below the best of this column."""
        return self.p_values.get(metric, 1.0) < SIGNIFICANT

    def to_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return {
            "system": self.system,
            "runs": len(self.runs),
            "finished": self.finished,
            "note": self.note,
            "remark": self.remark,
            **{metric: round(value, 4) for metric, value in self.values.items()},
            "spread": {metric: round(value, 4) for metric, value in self.spreads.items()},
            "p": {metric: round(value, 4) for metric, value in self.p_values.items()},
            "costs": {name: round(value, 3) for name, value in self.costs.items()},
        }


def rows_of(runs: Sequence[Run], truth: Corpus, propensity: Propensity) -> tuple[list[Row], Corpus]:
    """The evaluated rows, the best first, and the test documents in the label ids that all of them share."""
    tops = [run.top for run in runs if run.top is not None]
    if tops and truth.labels.counts is None:
        truth = truth.with_labels(tops[0].labels)
    labels = _all_labels(tops, truth.labels)
    truth = truth.with_labels(labels)
    groups: dict[str, list[Run]] = {}
    for run in runs:
        top = run.top if run.top is None else _relabelled(run.top, labels)
        groups.setdefault(run.system, []).append(replace(run, top=top))
    by_document: dict[str, dict[str, Floats]] = {}
    rows = []
    for system, members in track(groups.items(), "evaluating"):
        row, by_document[system] = _row(system, members, truth, propensity)
        rows.append(row)
    return _compared(sorted(rows, key=lambda row: -row.values.get(MAIN, -1.0)), by_document), truth


def shown_cost(name: str, value: float | None) -> str:
    """A cost in words.

    >>> [shown_cost(name, 75.0) for name in ("training", "documents/s")], shown_cost("size", 2.5e6)
    (['1:15', '75'], '2.5 MB')
    """
    if value is None:
        return "–"
    if name == "training":
        return clock(value) if value >= 10 else f"{value:.1f} s"
    return f"{value:,.0f}" if name == "documents/s" else f"{value / 1e6:,.{1 if value < 1e8 else 0}f} MB"


def trained_on_test(sketch: str | None, test: Corpus) -> str:
    """A remark if many test documents were among those of a model's training, given the sketch of these; else ""."""
    if sketch is None:
        return ""
    overlap = Sketch.from_hex(sketch).overlap(test)
    return f"{overlap} of the test documents were in its training: its figures are too good" if overlap.is_loud else ""


def _all_labels(tops: Sequence[Predictions], labels: LabelSet) -> LabelSet:
    """The labels, and after them those that are listed beside them."""
    for top in tops:
        if top.labels is not labels and top.labels.keys != labels.keys:
            listed = np.unique(top.ids[top.ids >= 0])
            unknown = np.array([at for at in listed.tolist() if labels.index(top.labels.key(at)) < 0], np.int64)
            labels = labels.extend_by(top.labels, unknown) if len(unknown) else labels
    return labels


def _relabelled(top: Predictions, labels: LabelSet) -> Predictions:
    """The same lists with the ids of another label set, which has all that is listed."""
    if top.labels.keys == labels.keys:
        return replace(top, labels=labels)
    new_ids = np.full(len(top.labels) + 1, -1, np.int32)  # the last one is for the id -1
    listed = np.unique(top.ids[top.ids >= 0])
    new_ids[listed] = [labels.index(top.labels.key(at)) for at in listed.tolist()]
    return replace(top, ids=new_ids[top.ids], labels=labels)


def _row(system: str, runs: Sequence[Run], truth: Corpus, propensity: Propensity) -> tuple[Row, dict[str, Floats]]:
    """A row without its p-values, and each document's part of each metric, the mean over runs."""
    done = sorted((run for run in runs if run.status == "finished"), key=lambda run: run.seed)
    if not done:
        return Row(system, tuple(runs), {}, {}, {}, None), {}
    evaluations, documents = [], []
    for run in done:
        assert run.top is not None
        number = run.train_documents or None
        evaluations.append(evaluate(run.top, truth, train_documents=number, propensity=propensity))
        documents.append(_by_document(evaluations[-1]))
    each = [_values(evaluation, run) for evaluation, run in zip(evaluations, done, strict=True)]
    names = [name for name in COLUMNS if all(name in one for one in each)]
    values = {name: float(np.mean([one[name] for one in each])) for name in names}
    spreads = {name: float(np.std([one[name] for one in each], ddof=1)) for name in names} if len(each) > 1 else {}
    known = {name: [run.costs[name] for run in done if name in run.costs] for name in COSTS}
    costs = {name: float(np.mean(each)) for name, each in known.items() if each}
    means = {name: np.mean([one[name] for one in documents], axis=0) for name in names if name in documents[0]}
    return Row(system, tuple(runs), values, spreads, costs, evaluations[0]), means


def _values(evaluation: Evaluation, run: Run) -> dict[str, float]:
    values = {name: evaluation.values[name] for name in METRICS if name in evaluation.values}
    if "tail" in evaluation.bands:
        values[TAIL] = evaluation.bands["tail"]["P@5"]
    return values if run.micro_f1 is None else {**values, MICRO_F1: run.micro_f1}


def _by_document(evaluation: Evaluation) -> dict[str, Floats]:
    """Each document's part of each metric's numerator."""
    ranking, counts = evaluation.ranking, evaluation.truth.labels.counts
    parts = {name: ranking.per_document(name)[0] for name in METRICS if name in evaluation.values}
    if counts is not None:
        tail = frequency_bands(counts).of_label == 2
        hits = ranking.hits & tail[np.maximum(ranking.ids, 0)]
        parts[TAIL] = replace(ranking, hits=hits).per_document("P@5")[0]
    return parts


def _compared(rows: Sequence[Row], documents: Mapping[str, Mapping[str, Floats]]) -> list[Row]:
    """Each row with the p-values of its difference to the best of each column, corrected for the number of rows."""
    p_values: dict[str, dict[str, float]] = {row.system: {} for row in rows}
    for metric in METRICS:
        known = [row for row in rows if metric in row.values]
        if len(known) < 2:
            continue
        best = max(known, key=lambda row: row.values[metric])
        others = [row for row in known if row is not best]
        gains = [documents[best.system][metric] - documents[row.system][metric] for row in others]
        resamples = max(RESAMPLES, RESAMPLES_PER_ROW * len(others))
        p_values[best.system][metric] = 1.0
        for row, p in zip(others, holm(randomisation_ps(np.stack(gains, axis=1), resamples)), strict=True):
            p_values[row.system][metric] = p
    return [replace(row, p_values=p_values[row.system]) for row in rows]
