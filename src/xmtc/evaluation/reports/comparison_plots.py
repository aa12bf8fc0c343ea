"""Plots of several models: quality against cost, by label frequency, and over the settings of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from xmtc.evaluation.comparison import MAIN, Row
from xmtc.evaluation.reports.plots import FIRST, INK, SECOND, THIRD, Plot, draw, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Nine line styles that differ also without colours.
STYLES: list[dict[str, Any]] = [
    {"color": colour, "linestyle": line, "marker": mark}
    for line, marks in (("-", "os^"), ("--", "vDP"), (":", "X*p"))
    for colour, mark in zip((FIRST, SECOND, THIRD), marks, strict=True)
]
#: Models with a line or a name in a plot, the best ones.
NAMED = len(STYLES)
FEWEST_TICKS, MOST_TICKS = 3, 7
SWEPT = ("P@1", "P@5", "nDCG@5", "PSP@5")


def quality_and_cost(rows: Sequence[Row]) -> Plot | None:
    """nDCG@5 against the time of training; the best models have names, the others are small points.

    None if no row says how long its training took.
    """
    known = [row for row in rows if "training" in row.costs]
    if not known:
        return None
    seconds = [max(row.costs["training"], 0.01) for row in known]
    quality = [row.values[MAIN] for row in known]
    alt = "; ".join(
        f"{row.system}: {MAIN} {value:.1f} after {time:.3g} seconds"
        for row, value, time in zip(known, quality, seconds, strict=True)
    )

    def paint(axes: Axes) -> None:
        for row, x, y, style in zip(known, seconds, quality, STYLES, strict=False):
            axes.plot(x, y, label=row.system, markersize=8, **{**style, "linestyle": "none"})
        axes.plot(seconds[NAMED:], quality[NAMED:], color=INK, linestyle="none", marker=".")
        # Times that are close together stay close together: the axis covers at least a factor of two.
        room = max((max(seconds) / min(seconds)) ** 0.1, 2**0.5)
        low, high = min(seconds) / room, max(seconds) * room
        axes.set(xscale="log", xlim=(low, high))
        ticks = log_ticks(low, high)
        axes.set_xticks(ticks, [f"{tick:,.6g}" for tick in ticks])
        axes.minorticks_off()  # matplotlib gives them labels, which overlap, where there are few others
        axes.margins(y=0.1)
        axes.set(xlabel="seconds of training, logarithmic", ylabel=f"{MAIN}, percent")
        legend_above(axes, columns)

    columns, height = _legend_size([row.system for row in known[:NAMED]])
    caption = f"Up is better, left is cheaper.{_of_many(len(known))}"
    return draw("Quality against cost", caption, alt, paint, 3.2 + height)


def by_frequency(rows: Sequence[Row]) -> Plot | None:
    """Recall of the first labels by decile of label frequency, a line for each model; None without training counts."""
    lines: dict[str, list[float]] = {}
    names: list[str] = []
    k = 5
    for row in rows[:NAMED]:
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
        for (system, line), style in zip(lines.items(), STYLES, strict=False):
            axes.plot(range(len(line)), line, label=system, markersize=5, **style)
        axes.set(xlabel="decile of labels by training frequency, 1 = most frequent", ylabel="percent", ylim=(0, 100))
        axes.set_xticks(range(len(names)), names)
        legend_above(axes, columns)

    columns, height = _legend_size(lines)
    share = f"The share of relevant labels that are among the first {k}, in ten groups of equally many labels."
    caption = f"{share}{_of_many(len(rows))}"
    return draw("Frequent and rare labels", caption, alt, paint, 3.2 + height)


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
        legend_above(axes, columns)

    columns, height = _legend_size(lines)
    return draw(f"{title}: {key}", f"One run for each value of {key}.", alt, paint, 3.2 + height)


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers for a logarithmic axis, three to eight of them: powers of ten, or finer ones between.

    >>> log_ticks(0.5, 2000), log_ticks(2.0, 40.0), log_ticks(9.0, 18.0)
    ([1.0, 10.0, 100.0, 1000.0], [3.0, 10.0, 30.0], [10.0, 12.0, 14.0, 16.0, 18.0])
    """
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [float(f"{step}e{power}") for power in decades for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) >= FEWEST_TICKS:
            return ticks
    step = 10 ** np.floor(np.log10(high - low))
    step *= next(part for part in (0.2, 0.25, 0.5, 1.0, 2.0) if (high - low) / (part * step) <= MOST_TICKS)
    return [float(f"{at * step:.6g}") for at in range(int(np.ceil(low / step - 1e-9)), int(high / step + 1e-9) + 1)]


def _legend_size(names: Iterable[str]) -> tuple[int, float]:
    """(columns, inches of height) of a legend with these names, which must leave room for the axes.

    >>> _legend_size(["knn", "bonsai", "prior", "parabel"]), _legend_size(["knn (sweep) neighbours=100, power=1.0"] * 4)
    ((3, 0.4), (1, 0.8))
    """
    lengths = [len(name) for name in names]
    columns = max(1, min(3, 66 // (max(lengths, default=0) + 6)))
    return columns, 0.2 * -(-len(lengths) // columns)


def _of_many(models: int) -> str:
    return f" Of {models} models the {NAMED} best by {MAIN} have names." if models > NAMED else ""


def _named(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={_shown(value)}" for key, value in settings.items())


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
