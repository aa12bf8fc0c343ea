"""`Evaluation`: what `evaluate` found, as numbers, a table, JSON and rows for each label."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.sources import replacing
from xmtc.display import html_box, html_table
from xmtc.evaluation.ranking import RankingMetrics
from xmtc.evaluation.set_metrics import CoverageError
from xmtc.labelspace.propensity import PROPENSITIES, Propensity
from xmtc.predictions import Predictions

if TYPE_CHECKING:
    from rich.table import Table

#: The columns of the printed table, without nDCG@1, which is P@1; all else is in `values` and in the JSON.
SHOWN = ("P", "nDCG", "RP", "PSP")
ONCE = ("RP",)  # shown at the largest k alone, which keeps the table narrow
#: What the rows of the small table at a threshold average over, and how the metrics' names begin.
AVERAGES = (
    ("micro", "all together (micro)"),
    ("macro", "mean over labels (macro)"),
    ("example", "mean over documents"),
)
PARTS = ("P", "R", "F1")


class LabelRow(NamedTuple):
    """How well one label is predicted if each document gets its first k labels, k the largest; rates in percent."""

    key: str
    name: str
    train: int | None
    test: int
    predicted: int
    hits: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All metrics of one set of predictions, in percent.

    `values` has "P@1", "R@5", "RP@5", "F1@5", "nDCG@3", "PSP@5", "PSnDCG@5", "micro-F1@5", "macro-F1@5", "coverage@5"
    and more, "hF1@5" where labels have parents, "ECE@5" where scores are probabilities. `bands` has the same for
    "head", "middle" and "tail", `deciles` for "1" (the most frequent labels) to "10" and "unseen", each with its number
    of "labels" and test "assignments"; a value that is not defined, such as the recall of labels that do not occur, is
    absent. `labels_unseen` is None if it is not known which labels occur in training. `threshold` is the one that
    labels were assigned by, if any ("by label": each has its own), `propensity` the constants of PSP, if there is PSP.
    """

    values: dict[str, float]
    bands: dict[str, dict[str, float]]
    deciles: dict[str, dict[str, float]]
    k: tuple[int, ...]
    documents: int
    documents_without_labels: int
    labels_in_test: int
    labels_unseen: int | None
    coverage_error: CoverageError
    predictions: Predictions = field(repr=False)
    truth: Corpus = field(repr=False)
    ranking: RankingMetrics = field(repr=False)
    threshold: float | str | None = None
    propensity: Propensity | None = None

    def __str__(self) -> str:
        lines, widths = _aligned(self._table())
        lines.insert(1, "  ".join("─" * width for width in widths))
        return "\n".join([*lines, *self.notes(), *self.threshold_lines()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        header, *rows = self._table()
        return html_box("Evaluation", "", html_table(header, rows, numbers=True), notes=self.notes())

    def rich_table(self) -> Table:
        """The printed table for a rich console."""
        from rich import box
        from rich.table import Table

        header, *rows = self._table()
        caption = "\n".join([*self.notes(), *self.threshold_lines()])
        table = Table(
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            show_edge=False,  # so that the usual columns fit into 80 characters
            pad_edge=False,
            caption=caption,
            caption_justify="left",
        )
        for at, title in enumerate(header):
            table.add_column(title, justify="left" if at == 0 else "right", no_wrap=True)
        for at, row in enumerate(rows):
            table.add_row(*row, style="bold" if at == 0 else None)
        return table

    def notes(self) -> list[str]:
        """Sentences that the numbers need: what was evaluated and what is missing."""
        notes = [f"{self.documents:,} documents, {self.labels_in_test:,} labels in them; percent"]
        if self.documents_without_labels:
            notes.append(f"{self.documents_without_labels:,} documents have no true labels and count as 0")
        if self.labels_unseen:
            notes.append(f"{self.labels_unseen:,} of the labels were not seen in training")
        if max(self.k) > self.predictions.k:
            notes.append(f"the lists are {self.predictions.k} labels long; at larger k the rest counts as wrong")
        if not self.bands:
            notes.append(
                "no training counts: neither PSP nor head, middle and tail (--train FILE, or train=, counts them)"
            )
        elif self.ranking.weights is None:
            notes.append("no PSP: the number of training documents is not known (train_documents=)")
        else:
            notes.append("the bands' P@k add up to the P@k of all labels")
        if self.propensity is not None and self.propensity != PROPENSITIES["default"]:
            notes.append(f"PSP with A = {self.propensity.a:g} and B = {self.propensity.b:g}")
        return notes

    def threshold_lines(self) -> list[str]:
        """A small table of precision, recall and F1 of the labels that reach the threshold; nothing without one."""
        if self.threshold is None:
            return []
        which = "their own thresholds" if isinstance(self.threshold, str) else f"the threshold {self.threshold:.4g}"
        rows = [[words, *(f"{self.values[f'{name}-{part}']:.2f}" for part in PARTS)] for name, words in AVERAGES]
        lines, _ = _aligned([[f"labels that reach {which}", "precision", "recall", "F1"], *rows])
        top = self.predictions
        if not isinstance(self.threshold, str) and top.k:
            cut = np.count_nonzero((top.ids[:, -1] >= 0) & (top.scores[:, -1] >= np.float32(self.threshold)))
            if cut:
                lines.append(
                    f"{cut:,} lists of {top.k} labels end above the threshold; what comes behind is not counted"
                )
        return ["", *lines]

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`: the metrics at the top level, in percent, and the rest beside them.

        >>> from xmtc.evaluation.evaluate import evaluate
        >>> corpus = Corpus.of(["red fruit"], [["apple"]])
        >>> top = Predictions(np.array([[0]], np.int32), np.array([[1.0]], np.float32), corpus.labels)
        >>> evaluate(top, corpus, k=[1]).to_json()["P@1"]
        100.0
        """
        return {
            **_rounded(self.values),
            "bands": {name: _rounded(values) for name, values in self.bands.items()},
            "deciles": {name: _rounded(values) for name, values in self.deciles.items()},
            "documents": self.documents,
            "documents_without_labels": self.documents_without_labels,
            "labels_in_test": self.labels_in_test,
            "labels_unseen": self.labels_unseen,
            "coverage_error": {"at_least": self.coverage_error.at_least, "exact": self.coverage_error.exact},
            **({} if self.threshold is None else {"threshold": self.threshold}),
            **({} if self.propensity is None else {"propensity": {"A": self.propensity.a, "B": self.propensity.b}}),
        }

    def per_label(self) -> Iterator[LabelRow]:
        """A row for each label that occurs in the test documents or is listed, most frequent in test first."""
        labels = self.truth.labels
        true, predicted, hits = self.ranking.label_counts(max(self.k))
        for at in sorted(np.flatnonzero(true + predicted).tolist(), key=lambda at: (-true[at], at)):
            t, p, h = int(true[at]), int(predicted[at]), int(hits[at])
            train = None if labels.counts is None else int(labels.counts[at])
            averages = (round(100 * h / max(p, 1), 2), round(100 * h / max(t, 1), 2), round(200 * h / (p + t), 2))
            yield LabelRow(labels.key(at), labels.name(at), train, t, p, h, *averages)

    def write_per_label_csv(self, path: str | Path) -> None:
        """Write `per_label` as a table; the first line has the column names."""
        with replacing(path) as out:
            stream = io.TextIOWrapper(out, "utf-8", newline="")
            writer = csv.writer(stream)
            writer.writerow(LabelRow._fields)
            writer.writerows(self.per_label())
            stream.detach()  # flushes, and leaves the file to `replacing`

    def _table(self) -> list[list[str]]:
        columns = [f"{name}@{k}" for name in SHOWN for k in self.k]
        hidden = {"nDCG@1", *(f"{name}@{k}" for name in ONCE for k in self.k[:-1])}
        columns = [column for column in columns if column in self.values and column not in hidden]
        rows = [["labels", "count", *columns], ["all", f"{len(self.truth.labels):,}", *_cells(self.values, columns)]]
        for name, values in self.bands.items():
            rows.append([name, f"{values['labels']:,.0f}", *_cells(values, columns)])
        return rows


def _aligned(rows: list[list[str]]) -> tuple[list[str], list[int]]:
    """The rows as lines of equal length, the first column to the left and the others to the right; columns' widths."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows], widths


def _cells(values: dict[str, float], columns: list[str]) -> list[str]:
    return [f"{values[column]:.2f}" if column in values else "–" for column in columns]


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}
