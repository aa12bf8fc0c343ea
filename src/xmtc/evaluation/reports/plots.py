"""Plots as inline SVG whose colours come from the page, so that they suit light and dark pages."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from xmtc.evaluation.calibration_error import Reliability
from xmtc.evaluation.result import PARTS, Evaluation
from xmtc.evaluation.set_metrics import ThresholdPoints
from xmtc.predictions import Predictions, ScoreKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: matplotlib wants colours, the page has CSS variables: these stand-ins are replaced in the finished SVG.
INK, FAINT, FIRST, SECOND, THIRD = "#010101", "#020202", "#030303", "#040404", "#050505"
VARIABLES = {INK: "--ink", FAINT: "--line", FIRST: "--first", SECOND: "--second", THIRD: "--third"}
#: The same for a drawing without a page: the colours of a light page.
LIGHT = "svg{--ink:#1d2329;--line:#d9dee3;--first:#1769aa;--second:#c2570c;--third:#4d7c0f;background:#ffffff}"


@dataclass(frozen=True)
class Plot:
    """A drawing with its title and caption; `alt` says in a sentence what it shows."""

    title: str
    caption: str
    alt: str
    svg: Markup

    @property
    def file(self) -> str:
        """The drawing as a separate file, with the colours of a light page."""
        return str(self.svg).replace("</title>", f"</title><style>{LIGHT}</style>", 1)


def draw(title: str, caption: str, alt: str, paint: Callable[[Axes], None], height: float = 3.4) -> Plot:
    """A plot of one set of axes, painted and turned into an SVG element that needs nothing else."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": alt,  # ids differ between drawings on a page and are the same in every run
        "font.family": "sans-serif",
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": FAINT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": FAINT,
        "grid.linewidth": 0.6,
        "xtick.color": INK,
        "ytick.color": INK,
        "legend.frameon": False,
        "lines.linewidth": 2.0,
        "text.parse_math": False,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(6.0, height), layout="constrained")
        FigureCanvasSVG(figure)
        paint(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    # The size comes from the page; the viewBox keeps the proportions.
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    words = escape(alt)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{words}"', 1).replace(">", f"><title>{words}</title>", 1)
    return Plot(title, caption, alt, Markup(svg))  # safe: matplotlib escapes what it draws, and `words` is escaped


def depth_curve(evaluation: Evaluation) -> Plot:
    """P@k, R@k and nDCG@k for every k up to the length of the lists."""
    depth = max(1, min(evaluation.predictions.k, 20))
    ks = list(range(1, depth + 1))
    values = evaluation.ranking.metrics(ks)
    lines = {name: [100 * values[f"{name}@{k}"] for k in ks] for name in ("P", "nDCG", "R")}
    alt = "; ".join(
        f"{name}@k goes from {line[0]:.1f} at 1 to {line[-1]:.1f} at {depth}" for name, line in lines.items()
    )

    def paint(axes: Axes) -> None:
        for (name, line), colour, mark in zip(lines.items(), (FIRST, SECOND, THIRD), "os^", strict=True):
            axes.plot(ks, line, color=colour, marker=mark, markersize=5, label=f"{name}@k")
        axes.set(xlabel="k, labels listed for each document", ylabel="percent", ylim=(0, 100))
        axes.set_xticks(ks)
        legend_above(axes)

    caption = "Precision falls and recall rises with the length of the list."
    return draw("How many labels to show", caption, alt, paint)


def frequency_bars(evaluation: Evaluation) -> Plot | None:
    """Recall and precision against how often labels occur in training; None without training counts."""
    k = max(evaluation.k)
    groups = {name: values for name, values in evaluation.deciles.items() if f"micro-R@{k}" in values}
    if not groups:
        return None
    recall = [values[f"micro-R@{k}"] for values in groups.values()]
    precision = [values[f"micro-P@{k}"] for values in groups.values()]
    alt = f"recall at {k} by decile of label frequency, most frequent first: " + ", ".join(f"{r:.0f}" for r in recall)

    def paint(axes: Axes) -> None:
        at = np.arange(len(groups))
        axes.bar(at - 0.2, recall, 0.4, color=FIRST, label=f"recall of the first {k}")
        axes.bar(at + 0.2, precision, 0.4, color=SECOND, label=f"precision of the first {k}", hatch="//", edgecolor=INK)
        axes.set(xlabel="decile of labels by training frequency, 1 = most frequent", ylabel="percent", ylim=(0, 100))
        axes.set_xticks(at, list(groups))
        axes.grid(axis="x", visible=False)
        legend_above(axes)

    unseen = "; “unseen” labels do not occur in training." if "unseen" in groups else "."
    caption = f"Ten groups of equally many labels, from the most to the least frequent in training{unseen}"
    return draw("Frequent and rare labels", caption, alt, paint)


def reliability(evaluation: Evaluation) -> Plot:
    """How often labels with a given score are relevant; only for scores that claim to be probabilities."""
    k = max(evaluation.k)
    top, hits = evaluation.predictions.top(k), evaluation.ranking.hits[:, :k]
    listed = top.ids >= 0
    found = Reliability.of(top.scores[listed], hits[listed])
    stated, observed, error = 100 * found.stated, 100 * found.observed, 100 * found.error
    pairs = "".join(f"; {s:.0f} stated, {o:.0f} observed" for s, o in zip(stated, observed, strict=True))
    alt = f"stated against observed share of relevant labels; they differ by {error:.1f} points on average{pairs}"

    def paint(axes: Axes) -> None:
        axes.plot([0, 100], [0, 100], color=INK, linewidth=1, linestyle="--", label="as stated")
        axes.plot(stated, observed, color=FIRST, marker="o", label="observed")
        axes.set(xlabel="score, percent", ylabel="relevant, percent", xlim=(0, 100), ylim=(0, 100))
        axes.legend(loc="upper left")

    caption = (
        f"On the dashed line a score of 80 is right 8 times in 10. Each point is about a tenth of the first {k} labels "
        f"of all documents. Mean distance from the line (expected calibration error): {error:.1f} points."
    )
    return draw("Do the scores mean what they say?", caption, alt, paint)


def score_histogram(predictions: Predictions, hits: NDArray[np.bool_]) -> Plot:
    """Scores of relevant and of irrelevant labels."""
    listed = predictions.ids >= 0
    relevant, wrong = predictions.scores[listed & hits], predictions.scores[listed & ~hits]
    edges = np.histogram_bin_edges(predictions.scores[listed].astype(np.float64), 30).tolist()
    medians = [f"{np.median(part):.3g}" if len(part) else "none" for part in (relevant, wrong)]
    alt = f"scores of listed labels; the median is {medians[0]} for right and {medians[1]} for wrong ones"

    def paint(axes: Axes) -> None:
        axes.hist(relevant, edges, color=FIRST, alpha=0.75, label=f"✓ right ({len(relevant):,})")
        axes.hist(wrong, edges, histtype="step", color=SECOND, linewidth=2, label=f"✗ wrong ({len(wrong):,})")
        axes.set(xlabel="score", ylabel="labels")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        legend_above(axes)

    caption = "The less the two overlap, the better a threshold works."
    return draw("Scores of right and wrong labels", caption, alt, paint)


def threshold_curve(evaluation: Evaluation) -> Plot | None:
    """Precision, recall and F1 of the labels that reach a threshold, against it; None if no label is listed."""
    top, used = evaluation.predictions, evaluation.threshold
    found = ThresholdPoints.of(top, evaluation.ranking)
    if not len(found.threshold):
        return None
    best = int(found.f1.argmax())
    ends = [f"{100 * share:.0f}" for column in (found.precision, found.recall) for share in column[[0, -1]]]
    alt = (
        f"from the threshold {found.threshold[0]:.3g} to {found.threshold[-1]:.3g} precision goes from {ends[0]} to "
        f"{ends[1]} percent and recall from {ends[2]} to {ends[3]}; F1 is highest at {found.threshold[best]:.3g}, "
        f"{100 * found.f1[best]:.0f} percent"
    )
    caption = (
        f"Of the labels that reach a threshold, among the first {top.k} of each document; micro-averaged. Choose a "
        "threshold on validation documents (xmtc train --valid 0.1 --tune), not here."
    )
    if used is not None:
        at = {part: evaluation.values[f"micro-{part}"] for part in PARTS}
        which = "With a threshold for each label" if isinstance(used, str) else f"At the threshold {used:.4g}"
        caption += f" {which}: precision {at['P']:.1f}, recall {at['R']:.1f}, F1 {at['F1']:.1f}."

    def paint(axes: Axes) -> None:
        lines = {"precision": (found.precision, FIRST, "-"), "recall": (found.recall, SECOND, "--")}
        for name, (line, colour, dashes) in {**lines, "F1": (found.f1, THIRD, "-.")}.items():
            axes.plot(found.threshold, 100 * line, color=colour, linestyle=dashes, label=name)
        if isinstance(used, str):
            axes.axhline(at["F1"], color=INK, linewidth=1, linestyle=":", label="F1, a threshold for each label")
        elif used is not None:
            axes.axvline(used, color=INK, linewidth=1, linestyle=":", label=f"threshold {used:.4g}")
        axes.set(xlabel="threshold", ylabel="percent", ylim=(0, 100))
        if top.kind is not ScoreKind.RANKING:
            axes.set_xlim(0, 1)
        legend_above(axes, 4)

    return draw("Precision and recall by threshold", caption, alt, paint)


def rank_frequency(points: Sequence[tuple[int, int]]) -> Plot:
    """Documents per label by the label's rank, both axes logarithmic."""
    ranks, documents = zip(*points, strict=True)
    alt = f"the most frequent label has {documents[0]:,} documents, the one of rank {ranks[-1]:,} has {documents[-1]:,}"

    def paint(axes: Axes) -> None:
        axes.loglog(ranks, documents, color=FIRST)
        axes.set(xlabel="rank of the label", ylabel="documents")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.minorticks_off()

    return draw("Documents per label", f"{alt[0].upper()}{alt[1:]}. Both axes are logarithmic.", alt, paint)


def count_bars(bins: dict[str, int], title: str, unit: str) -> Plot:
    """Documents by their number of labels or words, from counted ranges such as {"1": 20, "2-3": 5}."""
    common = max(bins, key=lambda name: bins[name])
    alt = f"documents by number of {unit}; the most common is {common} with {bins[common]:,} documents"

    def paint(axes: Axes) -> None:
        axes.bar(range(len(bins)), list(bins.values()), color=FIRST)
        axes.set(xlabel=unit, ylabel="documents")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        slant: dict[str, Any] = {"rotation": 45, "ha": "right"} if sum(map(len, bins)) > 60 else {}
        axes.set_xticks(range(len(bins)), list(bins), **slant)
        axes.grid(axis="x", visible=False)

    return draw(title, f"{alt[0].upper()}{alt[1:]}.", alt, paint)


def legend_above(axes: Axes, columns: int = 3) -> None:
    """A legend over the axes."""
    # Inside the axes it would cover high values.
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, borderaxespad=0)
