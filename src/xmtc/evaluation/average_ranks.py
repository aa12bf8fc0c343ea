"""Average ranks: the same models on several corpora, each by its mean place, as in Table 2 of the Rank-AE paper.

Values of different corpora cannot be averaged (P@5 is low where documents have two labels), places can. On each corpus
and for each metric the models are ranked, 1 for the best; models with the same value, as shown, share their mean rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xmtc.evaluation.leaderboard import Leaderboard

if TYPE_CHECKING:
    from rich.table import Table

ALL = "all"  # the column of the mean over the metrics
SHOWN_DIGITS = 2  # of values in a table


@dataclass(frozen=True)
class AverageRanks:
    """By model, the best first, and metric the mean rank over the corpora; `all` is the mean over the metrics.

    Only models that finished on every corpus are ranked; `unfinished` has, for each other one, the corpora that lack
    it.
    """

    corpora: tuple[str, ...]
    metrics: tuple[str, ...]
    ranks: Mapping[str, Mapping[str, float]]
    unfinished: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, boards: Mapping[str, Leaderboard]) -> AverageRanks:
        """Rank the models of leaderboards, which are named for their corpora."""
        from scipy.stats import rankdata

        values = {
            corpus: {row.system: row.values for row in board.rows if row.values} for corpus, board in boards.items()
        }
        systems = list(dict.fromkeys(row.system for board in boards.values() for row in board.rows))
        lacking = {system: tuple(corpus for corpus, rows in values.items() if system not in rows) for system in systems}
        ranked = [system for system in systems if not lacking[system]]
        first, *others = (board.metrics for board in boards.values())
        metrics = tuple(metric for metric in first if all(metric in other for other in others))
        means = {
            metric: np.mean(
                [
                    rankdata([-round(rows[system][metric], SHOWN_DIGITS) for system in ranked])
                    for rows in values.values()
                ],
                axis=0,
            )
            for metric in metrics
        }
        ranks: dict[str, dict[str, float]] = {}
        for at, system in enumerate(ranked):
            own = {metric: float(mean[at]) for metric, mean in means.items()}
            ranks[system] = {**own, ALL: float(np.mean(list(own.values())))}
        return cls(
            tuple(boards),
            metrics,
            dict(sorted(ranks.items(), key=lambda item: item[1][ALL])),
            {system: corpora for system, corpora in lacking.items() if corpora},
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The metrics and their mean; none if nothing is ranked."""
        return (*self.metrics, ALL) if self.ranks else ()

    def best(self, column: str) -> float:
        """The lowest mean rank of a column."""
        return min(ranks[column] for ranks in self.ranks.values())

    def rich_table(self) -> Table:
        """The ranks for a rich console."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        table = Table(
            title=f"Average ranks over {len(self.corpora)} corpora",
            title_justify="left",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            caption="\n".join(map(escape, self.notes())),
            caption_justify="left",
        )
        for column in ("model", *self.columns):
            table.add_column(column, justify="left" if column == "model" else "right", no_wrap=column != "model")
        for system, ranks in self.ranks.items():
            cells = [(f"{ranks[column]:.2f}", ranks[column] == self.best(column)) for column in self.columns]
            table.add_row(escape(system), *(f"[bold]{cell}[/]" if best else cell for cell, best in cells))
        return table

    def notes(self) -> list[str]:
        """What the numbers mean, and which models have none."""
        notes = ["1 is the best of every corpus; models with equal values share their mean rank"]
        for system, corpora in self.unfinished.items():
            notes.append(f"not ranked: {system}, which has no result on {', '.join(corpora)}")
        return notes

    def to_json(self) -> dict[str, Any]:
        """The ranks as plain data."""
        return {
            "ranks": {name: {key: round(value, 4) for key, value in row.items()} for name, row in self.ranks.items()},
            "unfinished": {name: list(corpora) for name, corpora in self.unfinished.items()},
        }
