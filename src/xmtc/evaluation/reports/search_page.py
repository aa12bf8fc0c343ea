"""The page of `auto`: what was tried, what each method added for which labels, what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmtc.evaluation.reports.html import write_page
from xmtc.evaluation.reports.plots import FIRST, INK, Plot, draw
from xmtc.models.ensemble.search_space import WORTH
from xmtc.models.ensemble.stacking import BAND_NAMES
from xmtc.progress import clock

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADER = (
    "method", "kept", "time", "nDCG@5 alone", "blend after it", "added", *(f"{band} added" for band in BAND_NAMES),
    "ms a document",
)  # fmt: skip
NOTHING = "–"


def write_search_page(report: Mapping[str, Any], path: str | Path, *, title: str) -> None:
    """Write the report of a search as one HTML file without any outside resource."""
    trials: Sequence[Mapping[str, Any]] = report["methods"]
    tried = [trial for trial in trials if trial["quality"] is not None]
    write_page(
        "search.html.j2",
        path,
        title=title,
        report=report,
        expected=[(kind, each["mean"], *each["interval"]) for kind, each in report.get("expected", {}).items()],
        header=HEADER,
        rows=rows(tried),
        left_out=[(trial["method"], trial["note"]) for trial in trials if trial["quality"] is None],
        worth=[(extra, worth) for extra, worth in WORTH.items() if f"xmtc[{extra}]" in str(trials)],
        plots=[quality_and_time(tried)] if any(trial.get("predict_ms") for trial in tried) else [],
    )


def rows(tried: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The table: each method, and by how much the blend after it is better than the one before, in points.

    >>> one = {"method": "knn", "kept": True, "took": 2, "quality": 50.0, "blend": 50.0, "blend_found": [60.0, None]}
    >>> two = {**one, "method": "dismec", "blend": 53.0, "blend_found": [61.0, None], "predict_ms": 0.5}
    >>> rows([one, two])[1]
    ['dismec', 'yes', '2 s', '50.00', '53.00', '+3.00', '+1.00', '–', '–', '–', '0.50']
    """
    made, before, found_before = [], 0.0, [0.0] * len(BAND_NAMES)
    for trial in tried:
        found = [*trial.get("blend_found", ()), *[None] * len(BAND_NAMES)][: len(BAND_NAMES)]
        added = [
            NOTHING if new is None else f"{new - (old or 0.0):+.2f}"
            for new, old in zip(found, found_before, strict=True)
        ]
        ms = trial.get("predict_ms")
        figures = [f"{trial['quality']:.2f}", f"{trial['blend']:.2f}", f"{trial['blend'] - before:+.2f}", *added]
        kept, cost = "yes" if trial["kept"] else "no", NOTHING if ms is None else f"{ms:.2f}"
        made.append([trial["method"], kept, clock(trial["took"]), *figures, cost])
        before, found_before = trial["blend"], [new or 0.0 for new in found]
    return made


def quality_and_time(tried: Sequence[Mapping[str, Any]]) -> Plot:
    """nDCG@5 of each method alone against its time for a document."""
    known = [trial for trial in tried if trial.get("predict_ms")]
    alt = "nDCG@5 against milliseconds for a document. " + "; ".join(
        f"{trial['method']}: {trial['predict_ms']:.2f} ms, {trial['quality']:.2f}" for trial in known
    )

    def paint(axes: Axes) -> None:
        for trial in known:
            colour = FIRST if trial["kept"] else INK
            axes.plot(trial["predict_ms"], trial["quality"], "o", color=colour)
            place = (trial["predict_ms"], trial["quality"])
            axes.annotate(trial["method"], place, xytext=(4, 4), textcoords="offset points", fontsize=7, color=colour)
        axes.set_xscale("log")
        axes.margins(x=0.2, y=0.15)
        axes.set(xlabel="ms for a document, without an encoder's reading", ylabel="nDCG@5 alone, percent")

    caption = "Each method alone, on the held-out documents; members of the blend in colour."
    return draw("Quality against the time of a prediction", caption, alt, paint)
