"""The page of `xmtc shrink`: quality against size, as a plot and a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xmtc.evaluation.reports.html import write_page
from xmtc.evaluation.reports.plots import FIRST, INK, SECOND, THIRD, Plot, draw, legend_above
from xmtc.evaluation.shrinking import HEADER, MAIN, Shrunk, Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = {"float32": (INK, "s"), "float16": (THIRD, "v"), "int8": (FIRST, "o")}


def write_size_page(shrunk: Shrunk, path: str | Path, *, title: str) -> None:
    """Write the trials as one HTML file without any outside resource."""
    plots = [quality_and_size(shrunk)] if shrunk.documents else []
    rows = list(zip(shrunk.sorted_trials, shrunk.rows(), strict=True))
    write_page("size.html.j2", path, title=title, shrunk=shrunk, header=HEADER, rows=rows, plots=plots)


def quality_and_size(shrunk: Shrunk) -> Plot:
    """nDCG@5 of each trial against the megabytes of its folder; the chosen one has a ring."""
    trials = shrunk.sorted_trials
    alt = f"{MAIN} against size. " + "; ".join(
        f"{trial.weights}, {trial.share:.1%} kept: {trial.mb:.1f} MB, {trial.values[MAIN]:.2f}" for trial in trials
    )

    def points(axes: Axes, chosen: list[Trial], colour: str, marker: str, label: str) -> None:
        line = "-" if len(chosen) > 1 else "none"
        across, up = [trial.mb for trial in chosen], [trial.values[MAIN] for trial in chosen]
        axes.plot(across, up, label=label, color=colour, marker=marker, linestyle=line, linewidth=1.2)

    def paint(axes: Axes) -> None:
        for kind, style in STYLES.items():
            if of_kind := [trial for trial in trials if trial.weights == kind]:
                points(axes, of_kind, *style, kind)
        ring = {"color": SECOND, "fillstyle": "none", "markersize": 13, "linestyle": "none"}
        axes.plot(shrunk.chosen.mb, shrunk.chosen.values[MAIN], "o", label="written", **ring)  # type: ignore[arg-type]
        axes.set_xlim(left=0)
        axes.margins(y=0.1)
        axes.set(xlabel="MB of the model folder", ylabel=f"{MAIN}, percent")
        legend_above(axes, 4)

    caption = "Up is better, left is smaller. Each point is a folder that was written, loaded and evaluated."
    return draw("Quality against size", caption, alt, paint)
