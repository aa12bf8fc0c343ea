"""Plots of several models: quality against cost, by label frequency, and over the settings of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from xmtc.evaluation.comparison import MAIN, Row
from xmtc.evaluation.plots import FIRST, INK, SECOND, THIRD, Plot, draw, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Nine kinds of lines that can be told apart, also without colours.
STYLES: list[dict[str, Any]] = [
    {"color": colour, "linestyle": line, "marker": mark}
    for line, marks in (("-", "os^"), ("--", "vDP"), (":", "X*p"))
    for colour, mark in zip((FIRST, SECOND, THIRD), marks, strict=True)
]
SWEPT = ("P@1", "P@5", "nDCG@5", "PSP@5")


def quality_and_cost(rows: Sequence[Row]) -> Plot:
    """nDCG@5 against the time of training."""
    known = [row for row in rows if "training" in row.costs]
    seconds = [max(row.costs["training"], 0.01) for row in known]
    quality = [row.values[MAIN] for row in known]
    alt = "; ".join(
        f"{row.system}: {MAIN} {value:.1f} after {time:.3g} seconds"
        for row, value, time in zip(known, quality, seconds, strict=True)
    )

    def paint(axes: Axes) -> None:
        axes.scatter(seconds, quality, color=FIRST, s=40, zorder=3)
        for row, x, y in zip(known, seconds, quality, strict=True):
            axes.annotate(row.system, (x, y), xytext=(6, 4), textcoords="offset points", color=INK, fontsize=9)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.margins(x=0.25, y=0.15)
        axes.set(xlabel="seconds of training, logarithmic", ylabel=f"{MAIN}, percent")

    return Plot("Quality against cost", "Up is better, left is cheaper.", alt, draw(paint, alt))


def by_frequency(rows: Sequence[Row]) -> Plot | None:
    """Recall of the first labels by decile of label frequency, a line for each model; None without training counts."""
    lines: dict[str, list[float]] = {}
    names: list[str] = []
    k = 5
    for row in rows:
        assert row.evaluation is not None
        k = max(row.evaluation.k)
        deciles = row.evaluation.deciles
        names = [name for name, values in deciles.items() if f"micro-R@{k}" in values]
        if names:
            lines[row.system] = [deciles[name][f"micro-R@{k}"] for name in names]
    if not lines:
        return None
    alt = f"recall at {k} by decile of label frequency, most frequent first. " + "; ".join(
        f"{system}: {', '.join(f'{value:.0f}' for value in line)}" for system, line in lines.items()
    )

    def paint(axes: Axes) -> None:
        for (system, line), style in zip(lines.items(), cycle(STYLES), strict=False):
            axes.plot(range(len(line)), line, label=system, markersize=5, **style)
        axes.set(xlabel="decile of labels by training frequency, 1 = most frequent", ylabel="percent", ylim=(0, 100))
        axes.set_xticks(range(len(names)), names)
        legend_above(axes)

    return Plot(
        "Frequent and rare labels",
        f"The share of right labels that are among the first {k}, in ten groups of equally many labels.",
        alt,
        draw(paint, alt, height=3.8),
    )


def sweep(title: str, key: str, points: Sequence[tuple[Any, Mapping[str, Any], Row]]) -> Plot:
    """Metrics against one swept setting; a line for each choice of the others.

    `points` are (value of the setting, the other swept settings, row).
    """
    others = list(dict.fromkeys(_named(other) for _, other, _ in points))
    several = len(others) > 1
    values = list(dict.fromkeys(_shown(value) for value, _, _ in points))
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value, _, _ in points)
    lines: dict[str, list[tuple[float, float, float]]] = {}
    for value, other, row in points:
        at = float(value) if numbers else float(values.index(_shown(value)))
        for metric in (MAIN,) if several else SWEPT:
            if metric in row.values:
                name = _named(other) if several else metric
                lines.setdefault(name, []).append((at, row.values[metric], row.spreads.get(metric, 0.0)))
    alt = f"{MAIN if several else 'metrics'} against {key}. " + "; ".join(
        f"{name}: {', '.join(f'{y:.1f} at {x:g}' for x, y, _ in sorted(line))}" for name, line in lines.items()
    )

    def paint(axes: Axes) -> None:
        for (name, line), style in zip(lines.items(), cycle(STYLES), strict=False):
            x, y, spread = np.array(sorted(line)).T
            axes.errorbar(x, y, yerr=spread if spread.any() else None, label=name, capsize=3, markersize=5, **style)
        if numbers:
            found = [float(value) for value, _, _ in points]
            if min(found) > 0 and max(found) / min(found) >= 20:
                axes.set_xscale("log")
            axes.set_xticks(sorted(set(found)), [f"{value:g}" for value in sorted(set(found))])
            axes.minorticks_off()
        else:
            axes.set_xticks(range(len(values)), values)
        axes.set(xlabel=key, ylabel=f"{MAIN}, percent" if several else "percent")
        legend_above(axes)

    return Plot(f"{title}: {key}", f"One run for each value of {key}.", alt, draw(paint, alt))


def _named(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_shown(value)}" for key, value in settings.items())


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
