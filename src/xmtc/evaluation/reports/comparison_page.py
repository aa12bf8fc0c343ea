"""The pages of a comparison: one HTML file with the table, plots, and any two models side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from xmtc.evaluation.average_ranks import AverageRanks
from xmtc.evaluation.comparison import MAIN, Row, shown_cost
from xmtc.evaluation.leaderboard import Leaderboard
from xmtc.evaluation.reports.html import render, write_page
from xmtc.evaluation.reports.plots import Plot
from xmtc.evaluation.reports.report import snippet

SIDE_BY_SIDE = 12  # models that can be compared in pairs on the page, the best ones
POINTS = 2000  # labels in the scatter plot, those in most test documents
EXAMPLES = 5  # documents for which one model is better than another


def write_comparison_page(
    board: Leaderboard, path: str | Path, *, title: str, about: str = "", sweeps: Sequence[Plot] = ()
) -> None:
    """Write a comparison as one HTML file without any outside resource."""
    from xmtc.evaluation.reports.comparison_plots import by_frequency, quality_and_cost

    rows = board.finished
    plots = [quality_and_cost(rows), by_frequency(rows)]
    write_page(
        "comparison.html.j2",
        path,
        title=title,
        about=about,
        board=board,
        shown_cost=shown_cost,
        plots=[plot for plot in plots if plot is not None],
        sweeps=sweeps,
        data=pair_data(rows[:SIDE_BY_SIDE]),
    )


def write_comparisons_page(
    boards: Mapping[str, Leaderboard],
    ranks: AverageRanks,
    path: str | Path,
    *,
    documents: Sequence[str],
    links: Sequence[str],
    about: str = "",
) -> None:
    """Write comparisons on several corpora as one page that describes the documents of each and links to its page."""
    write_page(
        "comparisons.html.j2",
        path,
        title=f"Comparison on {len(boards)} corpora",
        about=about,
        ranks=ranks,
        boards=list(zip(boards, boards.values(), documents, links, strict=True)),
        shown_cost=shown_cost,
    )


def board_html(board: Leaderboard) -> str:
    """The table with its notes, for a notebook."""
    return render("leaderboard.html.j2", board=board, shown_cost=shown_cost)


def pair_data(rows: Sequence[Row]) -> dict[str, Any]:
    """The data to compare any two models on the page: F1 of each label, and documents for which one is better.

    Of each model the run with the lowest seed is shown.
    """
    evaluations = [row.evaluation for row in rows if row.evaluation is not None]
    if len(evaluations) < 2:
        return {"systems": [row.system for row in rows], "labels": [], "f1": [], "examples": [], "pairs": {}}
    truth = evaluations[0].truth
    k = max(evaluations[0].k)
    counted = [evaluation.ranking.label_counts(k) for evaluation in evaluations]
    true = counted[0][0]
    chosen = [at for at in np.argsort(-true, kind="stable")[:POINTS].tolist() if true[at]]
    counts = truth.labels.counts
    labels = [[truth.labels.name(at), int(true[at]), None if counts is None else int(counts[at])] for at in chosen]
    f1 = [
        [round(200 * int(hits[at]) / max(1, int(listed[at] + own[at])), 1) for at in chosen]
        for own, listed, hits in counted
    ]
    quality = [evaluation.ranking.per_document(MAIN)[0] for evaluation in evaluations]
    pairs: dict[str, list[int]] = {}
    shown: dict[int, int] = {}  # document -> its place among the examples
    for a, b in permutations(range(len(evaluations)), 2):
        gain = quality[a] - quality[b]
        best = [row for row in np.argsort(-gain, kind="stable")[:EXAMPLES].tolist() if gain[row] > 0]
        pairs[f"{a},{b}"] = [shown.setdefault(row, len(shown)) for row in best]
    examples = []
    for row in shown:
        relevant = set(truth.labels_of(row))
        answers = [
            [[truth.labels.name(at), at in relevant] for at in evaluation.predictions.ids[row, :k].tolist() if at >= 0]
            for evaluation in evaluations
        ]
        examples.append(
            {
                "id": truth.id(row),
                "text": snippet(truth.texts[row]) if truth.texts is not None else "",
                "labels": [truth.labels.name(at) for at in sorted(relevant)],
                "answers": answers,
            }
        )
    systems = [row.system for row in rows]
    return {"systems": systems, "labels": labels, "f1": f1, "examples": examples, "pairs": pairs, "k": k}
