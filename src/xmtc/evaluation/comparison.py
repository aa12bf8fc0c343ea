"""Several models on the same documents: a leaderboard with spreads over seeds and marks of significance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.evaluation.result import Evaluation
from xmtc.evaluation.significance import randomisation_p
from xmtc.labelspace.frequency_bands import frequency_bands
from xmtc.predictions import Predictions
from xmtc.progress import clock, track

if TYPE_CHECKING:
    from rich.table import Table

TAIL = "tail P@5"
METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5", TAIL)
#: The metric by which rows are ordered.
MAIN = "nDCG@5"
SIGNIFICANT = 0.05
COSTS = ("training", "documents/s", "memory", "size")

Floats = NDArray[np.float64]
Status = Literal["finished", "failed", "stopped", "waiting"]


@dataclass(frozen=True, eq=False)
class Run:
    """One training with one seed: its predictions and its costs.

    `system` names its row. `costs` are seconds of training, documents tagged per second, peak memory and size of the
    model folder, both in bytes; `reason` says why a run is not finished.
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

    def to_json(self) -> dict[str, Any]:
        """Everything but the predictions."""
        shown = ("system", "model", "settings", "seed", "status", "reason", "costs")
        return {name: getattr(self, name) for name in shown}


@dataclass(frozen=True, eq=False)
class Row:
    """A model of the table: means over its finished runs, and their standard deviation if there are several.

    `p_values` are those of the difference to the best of a column, 1 for the best itself. `evaluation` is that of the
    run with the lowest seed.
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
            **{metric: round(value, 4) for metric, value in self.values.items()},
            "spread": {metric: round(value, 4) for metric, value in self.spreads.items()},
            "p": {metric: round(value, 4) for metric, value in self.p_values.items()},
            "costs": {name: round(value, 3) for name, value in self.costs.items()},
        }


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """All rows, the best first; those without a finished run last."""

    rows: tuple[Row, ...]
    truth: Corpus

    @classmethod
    def of(cls, runs: Sequence[Run], truth: Corpus) -> Leaderboard:
        """Evaluate finished runs on their test documents.

        >>> from xmtc.corpus.corpus import Corpus
        >>> truth = Corpus.of(["..."] * 4, [["a"], ["a"], ["b"], ["a"]])
        >>> labels = truth.labels.with_counts(np.array([3, 1]))
        >>> always = [Predictions(np.full((4, 1), at, np.int32), np.ones((4, 1), np.float32), labels) for at in (0, 1)]
        >>> runs = [Run(f"always {name}", "prior", {}, 0, top=top) for name, top in zip("ab", always)]
        >>> [(row.system, row.values["P@1"]) for row in Leaderboard.of(runs, truth).rows]
        [('always a', 75.0), ('always b', 25.0)]
        """
        groups: dict[str, list[Run]] = {}
        for run in runs:
            groups.setdefault(run.system, []).append(run)
        by_document: dict[str, dict[str, Floats]] = {}
        rows = []
        for system, members in track(groups.items(), "evaluating"):
            row, by_document[system] = _row(system, members, truth)
            rows.append(row)
        ordered = sorted(rows, key=lambda row: -row.values.get(MAIN, -1.0))
        return cls(tuple(_compared(ordered, by_document)), truth)

    @property
    def finished(self) -> list[Row]:
        """Rows that have values."""
        return [row for row in self.rows if row.values]

    def best(self, metric: str) -> Row | None:
        """The row with the highest value of a metric."""
        known = [row for row in self.rows if metric in row.values]
        return max(known, key=lambda row: row.values[metric]) if known else None

    def rich_table(self) -> Table:
        """The leaderboard for a rich console."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        metrics = [metric for metric in METRICS if any(metric in row.values for row in self.rows)]
        table = Table(
            box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption="\n".join(self.notes()), caption_justify="left"
        )
        for title in ("model", *metrics, *COSTS):
            table.add_column(title, justify="left" if title == "model" else "right", no_wrap=title != "model")
        for row in self.rows:
            cells = [self._cell(row, metric) for metric in metrics]
            name = escape(row.system) + (f"\n[red]{escape(row.note)}[/]" if row.note else "")
            table.add_row(name, *cells, *(shown_cost(name, row.costs.get(name)) for name in COSTS))
        return table

    def _cell(self, row: Row, metric: str) -> str:
        if metric not in row.values:
            return "–"
        best = self.best(metric)
        figure = f"{row.values[metric]:.2f}" + ("*" if row.marked(metric) else " ")
        figure = f"[bold]{figure}[/]" if best is not None and row.values[metric] == best.values[metric] else figure
        return figure + (f"\n[dim]±{row.spreads[metric]:.2f} [/]" if metric in row.spreads else "")

    def notes(self) -> list[str]:
        """What the numbers mean."""
        notes = [f"{len(self.truth):,} documents; percent; bold is the best of a column"]
        if len(self.finished) > 1:
            notes.append("* below the best by more than chance (paired randomisation test, p < 0.05)")
        if any(row.spreads for row in self.rows):
            notes.append("± standard deviation over seeds; costs are means")
        return notes


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


def _row(system: str, runs: Sequence[Run], truth: Corpus) -> tuple[Row, dict[str, Floats]]:
    """A row without its p-values, and each document's part of each metric, the mean over runs."""
    done = sorted((run for run in runs if run.status == "finished"), key=lambda run: run.seed)
    if not done:
        return Row(system, tuple(runs), {}, {}, {}, None), {}
    evaluations, documents = [], []
    for run in done:
        assert run.top is not None
        evaluations.append(evaluate(run.top, truth, train_documents=run.train_documents or None))
        documents.append(_by_document(evaluations[-1]))
    each = [_values(evaluation) for evaluation in evaluations]
    names = [name for name in METRICS if name in each[0]]
    values = {name: float(np.mean([one[name] for one in each])) for name in names}
    spreads = {name: float(np.std([one[name] for one in each], ddof=1)) for name in names} if len(each) > 1 else {}
    costs = {name: float(np.mean([run.costs[name] for run in done])) for name in COSTS if name in done[0].costs}
    means = {name: np.mean([one[name] for one in documents], axis=0) for name in names}
    return Row(system, tuple(runs), values, spreads, costs, evaluations[0]), means


def _values(evaluation: Evaluation) -> dict[str, float]:
    values = {name: evaluation.values[name] for name in METRICS if name in evaluation.values}
    if "tail" in evaluation.bands:
        values[TAIL] = evaluation.bands["tail"]["P@5"]
    return values


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
    """Each row with the p-values of its difference to the best of each column."""
    p_values: dict[str, dict[str, float]] = {row.system: {} for row in rows}
    for metric in METRICS:
        known = [row for row in rows if metric in row.values]
        if len(known) < 2:
            continue
        best = max(known, key=lambda row: row.values[metric])
        for row in known:
            gain = documents[best.system][metric] - documents[row.system][metric]
            p_values[row.system][metric] = randomisation_p(gain)
    return [replace(row, p_values=p_values[row.system]) for row in rows]
