"""`Leaderboard`: several models on the same documents, as a table, HTML, JSON and a DataFrame."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.comparison import COLUMNS, COSTS, MICRO_F1, SIGNIFICANT, Row, Run, rows_of, shown_cost
from xmtc.extras import require
from xmtc.labelspace.propensity import PROPENSITIES, Propensity, propensity_of

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from rich.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard:
    """All rows, the best first; those without a finished run last. `print` shows it, and so does a notebook."""

    rows: tuple[Row, ...]
    truth: Corpus
    runs: tuple[Run, ...]
    propensity: Propensity = PROPENSITIES["default"]

    @classmethod
    def of(
        cls, runs: Sequence[Run], truth: Corpus, propensity: Propensity | str | tuple[float, float] = "default"
    ) -> Leaderboard:
        """Evaluate finished runs on their test documents.

        Training counts are those of the labels of `truth`, or, if these have none, of the first run. A label that only
        a run knows counts as wrong. `propensity` are the constants of PSP, as `evaluate` takes them.

        >>> import numpy as np
        >>> from xmtc.predictions import Predictions
        >>> truth = Corpus.of(["..."] * 4, [["a"], ["a"], ["b"], ["a"]])
        >>> labels = truth.labels.with_counts(np.array([3, 1]))
        >>> always = [Predictions(np.full((4, 1), at, np.int32), np.ones((4, 1), np.float32), labels) for at in (0, 1)]
        >>> runs = [Run(f"always {name}", "prior", {}, 0, top=top) for name, top in zip("ab", always)]
        >>> [(row.system, row.values["P@1"]) for row in Leaderboard.of(runs, truth).rows]
        [('always a', 75.0), ('always b', 25.0)]
        """
        constants = propensity_of(propensity)
        rows, truth = rows_of(runs, truth, constants)
        return cls(tuple(rows), truth, tuple(runs), constants)

    @property
    def finished(self) -> list[Row]:
        """Rows that have values."""
        return [row for row in self.rows if row.values]

    @property
    def metrics(self) -> list[str]:
        """The metrics of its columns: those that some row has."""
        return [metric for metric in COLUMNS if any(metric in row.values for row in self.rows)]

    @property
    def costs(self) -> list[str]:
        """The costs of its columns: those that some row has."""
        return [cost for cost in COSTS if any(cost in row.costs for row in self.rows)]

    def best(self, metric: str) -> Row | None:
        """The row with the highest value of a metric."""
        known = [row for row in self.rows if metric in row.values]
        return max(known, key=lambda row: row.values[metric]) if known else None

    def __str__(self) -> str:
        from rich.console import Console
        from rich.measure import Measurement

        console, table = Console(color_system=None, width=sys.maxsize), self.rich_table()
        console.width = Measurement.get(console, console.options, table).maximum
        with console.capture() as printed:
            console.print(table)
        return "\n".join(line.rstrip() for line in printed.get().splitlines()).strip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from xmtc.evaluation.reports.comparison_page import board_html

        return board_html(self)

    def rich_table(self, title: str | None = None) -> Table:
        """The leaderboard for a rich console."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table(
            title=title and escape(title),
            title_justify="left",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            caption="\n".join(self.notes()),
            caption_justify="left",
        )
        for column in ("model", *self.metrics, *self.costs):
            table.add_column(column, justify="left" if column == "model" else "right", no_wrap=column != "model")
        for row in self.rows:
            cells = [self._cell(row, metric) for metric in self.metrics]
            notes = [f"\n[red]{escape(note)}[/]" for note in (row.note, row.remark) if note]
            costs = [shown_cost(name, row.costs.get(name)) for name in self.costs]
            table.add_row(escape(row.system) + "".join(notes), *cells, *costs)
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
        if self.propensity != PROPENSITIES["default"]:
            notes.append(f"PSP with A = {self.propensity.a:g} and B = {self.propensity.b:g}")
        tested = len(self.finished) - 1
        if tested > 0:
            notes.append(
                "* below the best of its column by more than chance: paired randomisation test over documents, "
                f"p < {SIGNIFICANT:g}" + (f" with Holm's correction for {tested} rows" if tested > 1 else "")
            )
        if tested > 0 and any(row.spreads for row in self.rows):
            notes.append("the test pairs documents, by their mean over seeds: it says nothing about other seeds")
        elif tested > 0:
            notes.append("the test pairs documents, not seeds: another seed may change the order")
        if MICRO_F1 in self.metrics:
            notes.append("micro-F1: labels that reach thresholds tuned on validation documents; not tested for chance")
        if any(row.spreads for row in self.rows):
            notes.append("± standard deviation over seeds; costs are means")
        if any(run.origin == "folder" and "training" in run.costs for run in self.runs):
            notes.append("the training time of a model trained before is the one it recorded, wherever that was")
        return notes

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`: rows with all figures, in percent, and runs with their settings."""
        return {
            "propensity": {"A": self.propensity.a, "B": self.propensity.b},
            "rows": [row.to_json() for row in self.rows],
            "runs": [run.to_json() for run in self.runs],
        }

    def to_frame(self) -> pd.DataFrame:
        """A pandas DataFrame with a row for each model, by name: metrics, their spreads over seeds, costs and notes."""
        require("Leaderboard.to_frame", "pandas")
        import pandas as pd

        records = [
            {
                **{metric: row.values.get(metric) for metric in self.metrics},
                **{f"{metric} ±": row.spreads.get(metric) for metric in self.metrics if self._has_spread(metric)},
                **{cost: row.costs.get(cost) for cost in self.costs},
                "runs": row.finished,
                "note": "; ".join(note for note in (row.note, row.remark) if note),
            }
            for row in self.rows
        ]
        return pd.DataFrame(records, index=pd.Index([row.system for row in self.rows], name="model"))

    def _has_spread(self, metric: str) -> bool:
        return any(metric in row.spreads for row in self.rows)
