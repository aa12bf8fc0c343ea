"""Make the pictures in docs/images anew, except report.png. attentionxml-attention trains a small model (a minute on
one core).

    python tools/make_pictures.py [NAME ...] [--out FOLDER]

Without names all are made, but for the results of the noise study, which `benchmarks/ablations/noise.py` draws. They
are SVG with a white ground and letters as outlines, so that they look the same everywhere, and the same run gives the
same bytes.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

import xmtc
from xmtc.data import demo_folder
from xmtc.models.aplc_xlnet.costs import access_probabilities, approximate_batch_cost, approximate_parameter_count
from xmtc.models.aplc_xlnet.label_clusters import FrequencyClusters
from xmtc.models.attentionxml.model import AttentionXml, TreeShape
from xmtc.models.base import Model

ROOT = Path(__file__).resolve().parent.parent
INK, GREY, LINE, PALE = "#1f2328", "#57606a", "#b5bcc4", "#eef1f4"
BLUE, LIGHT_BLUE, ORANGE, LIGHT_ORANGE = "#1769aa", "#d6e6f4", "#c2570c", "#fbe3d0"
SHADES = LinearSegmentedColormap.from_list("shares", ["#ffffff", "#9cc4e4", BLUE, "#0b3a63"])
STYLE: dict[Any, Any] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "xmtc",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
}

SIDE_BY_SIDE = ROOT / "docs" / "results" / "side-by-side.json"
SHOWN_CORPORA = ("tibkat", "debtags")
AXES = {"train s": "training, seconds", "peak MB": "memory, MB", "batch ms": "prediction, ms a document"}

#: A test document of the demo corpus, and three labels that look at different words of it.
PACKAGE = "streamripper"
READERS = ("role::program", "interface::commandline", "works-with::audio")
SMALL: dict[str, Any] = {
    "hidden": 32,
    "layers": [32],
    "words": {"vectors": "learn", "dimensions": 50, "max_tokens": 80},
    "training": {"batch_size": 16, "learning_rate": 0.005, "epochs": 5, "swa_start_epoch": 2, "evaluate_every": 100},
}
#: The network of the paper's two smallest data sets.
PAPER: dict[str, Any] = {"hidden": 256, "layers": [256], "words": {"dimensions": 300}}


def main() -> None:
    """Make the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in PICTURES]
    if unknown:
        parser.error(f"no picture is called {', '.join(unknown)}; there are {', '.join(PICTURES)}")
    for name in options.names or PICTURES:
        path = options.out / f"{name}.svg"
        with matplotlib.rc_context(STYLE):
            figure = PICTURES[name]()
            figure.savefig(path, facecolor="white", metadata={"Date": None})
        print(f"{path}: {path.stat().st_size / 1024:.0f} KiB")


def canvas(width: float, height: float, across: float, up: float) -> tuple[Figure, Axes]:
    """A sheet of so many inches with coordinates from 0 to `across` and 0 to `up`, the same length in both ways."""
    figure = Figure((width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, across), ylim=(0, up), aspect="equal")
    axes.axis("off")
    return figure, axes


def box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    words: str = "",
    *,
    fill: str = "white",
    edge: str = LINE,
    size: float = 9.5,
    colour: str = INK,
) -> None:
    """A box with rounded corners, its lower left corner at (x, y)."""
    shape = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.08", facecolor=fill, edgecolor=edge, linewidth=1
    )
    axes.add_patch(shape)
    axes.text(x + width / 2, y + height / 2, words, ha="center", va="center_baseline", fontsize=size, color=colour)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = GREY) -> None:
    """A thin arrow."""
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8}
    axes.annotate("", end, start, arrowprops=look)


def network() -> Figure:
    """Words, BiLSTM, one attention per label, shared layers, scores; shapes on the left."""
    figure, axes = canvas(10, 5.7, 20, 11.4)
    words = ("command", "line", "tool", "records", "audio", "streams")
    rows: dict[str, tuple[tuple[int, ...], str]] = {
        "Command Line": ((45, 25, 20, 4, 3, 3), "0.92"),
        "Audio": ((2, 2, 4, 22, 40, 30), "0.81"),
        "Game": ((15, 18, 20, 17, 15, 15), "0.01"),
    }
    left, step = 4.6, 1.3  # of the columns, one for each word

    def shape(y: float, what: str, size: str) -> None:
        axes.text(0.2, y + 0.21, what, va="center")
        axes.text(0.2, y - 0.27, size, va="center", color=GREY, fontsize=8.5)

    for at, word in enumerate(words):
        x = left + at * step
        box(axes, x - 0.05, 0.5, 1.25, 0.55, word, fill=PALE, size=8)
        arrow(axes, (x + 0.575, 1.05), (x + 0.575, 1.7))
        box(axes, x + 0.3, 1.7, 0.55, 0.75, fill=LIGHT_BLUE, edge=BLUE)
        arrow(axes, (x + 0.575, 2.45), (x + 0.575, 3.1))
        arrow(axes, (x + 0.575, 4.5), (x + 0.575, 5.1))
        box(axes, x + 0.3, 5.1, 0.55, 0.95, fill=LIGHT_BLUE, edge=BLUE)
        axes.plot([x + 0.575] * 2, [6.05, 6.6], color=LINE, linewidth=0.9)
    shape(0.78, "words", "tokens")
    shape(2.07, "word vectors", "tokens × dimensions")
    shape(3.8, "BiLSTM", "hidden units each way")
    shape(5.57, "states", "tokens × 2·hidden")
    width = step * len(words) - 0.15
    for y, name in ((3.85, "from left to right"), (3.1, "from right to left")):
        box(axes, left, y, width, 0.65, fill="white", edge=BLUE)
        ends = ((left + 0.3, y + 0.33), (left + width - 0.3, y + 0.33))
        arrow(axes, *(ends if y > 3.5 else ends[::-1]), colour=BLUE)
        axes.text(
            left + width / 2, y + 0.33, f" {name} ", ha="center", va="center", fontsize=8.5, backgroundcolor="white"
        )
    shape(8.45, "one attention per label", "labels × tokens")
    for number, (label, (shares, score)) in enumerate(rows.items()):
        y = 6.6 + 1.3 * (2 - number)
        axes.text(left - 0.15, y + 0.42, label, ha="right", va="center", fontsize=8.5, color=BLUE)
        for at, share in enumerate(shares):
            x = left + at * step
            shade = SHADES(share / 60)
            axes.add_patch(Rectangle((x, y), 1.15, 0.85, facecolor=shade, edgecolor=LINE, linewidth=0.8))
            dark = share > 28
            axes.text(
                x + 0.575,
                y + 0.42,
                f"{share} %",
                ha="center",
                va="center",
                fontsize=8.5,
                color="white" if dark else INK,
            )
        right = left + width
        arrow(axes, (right, y + 0.42), (right + 0.75, y + 0.42))
        box(axes, right + 0.75, y + 0.12, 1.5, 0.6, fill=LIGHT_BLUE, edge=BLUE)
        arrow(axes, (right + 2.25, y + 0.42), (right + 3.0, y + 0.42))
        arrow(axes, (right + 5.0, y + 0.42), (right + 5.7, y + 0.42))
        axes.text(right + 5.85, y + 0.42, score, va="center", fontsize=11, weight="bold" if number < 2 else "normal")
    right = left + width
    box(axes, right + 3.0, 6.5, 2.0, 3.75, "the same\nlayers\nfor all\nlabels", fill=LIGHT_ORANGE, edge=ORANGE)
    for x, name, size in (
        (1.5, "weighted mean", "2·hidden"),
        (4.0, "layers", "2·hidden → 1"),
        (6.15, "score", "0 to 1"),
    ):
        axes.text(right + x, 11.0, name, ha="center", va="center")
        axes.text(right + x, 10.55, size, ha="center", va="center", color=GREY, fontsize=8.5)
    axes.text(
        right + 0.75,
        5.6,
        "Each label has a query vector of length\n2·hidden. Softmaxed dot products with the\n"
        "word states are its attention weights,\nwhich add up to 100 %. The weighted mean\n"
        "of the states passes through layers that\nall labels share.",
        va="top",
        fontsize=9,
        linespacing=1.5,
    )
    axes.text(right + 0.75, 0.78, "The weights and scores here are made up.", va="center", fontsize=8.5, color=GREY)
    return figure


FIRST, FAN_OUT, FOLLOWED = 8, 3, 3  # nodes of the first level, children of each node, nodes that are followed


LABEL = [(-9, -20), (9, -20), (9, 20), (-9, 20), (-9, -20)]  # the outline of a label
Look = tuple[str, str, str]  # fill, edge, line


class TreeDrawing:
    """Places of the nodes of a tree with two levels of nodes above the labels."""

    def __init__(self, axes: Axes, base: float) -> None:
        self.axes, self.base = axes, base

    def place(self, depth: int, at: int) -> tuple[float, float]:
        """Where node `at` of a level is; 0 is the root, 3 are the labels."""
        count = 1 if depth == 0 else FIRST * FAN_OUT ** (depth - 1)
        return 1 + 54 * (at + 0.5) / count, self.base + (16.5, 11.5, 6.0, 1.0)[depth]

    def edge(self, depth: int, at: int, colour: str, width: float) -> None:
        """From a node's parent to it."""
        (x0, y0), (x1, y1) = self.place(depth - 1, at // FAN_OUT if depth > 1 else 0), self.place(depth, at)
        self.axes.plot([x0, x1], [y0, y1], color=colour, linewidth=width, zorder=2, solid_capstyle="round")

    def node(self, depth: int, at: int, look: Look) -> None:
        """A circle, or for a label a small box."""
        self._nodes(depth, [at], look, 4)

    def skeleton(self) -> None:
        """The whole tree, faint."""
        self._nodes(0, [0], (PALE, LINE, "-"), 3)
        for depth in (1, 2, 3):
            xs: list[float] = []
            ys: list[float] = []
            for at in range(FIRST * FAN_OUT ** (depth - 1)):
                ends = (self.place(depth - 1, at // FAN_OUT if depth > 1 else 0), self.place(depth, at))
                xs += [*(x for x, _ in ends), math.nan]
                ys += [*(y for _, y in ends), math.nan]
            self.axes.plot(xs, ys, color=LINE, linewidth=0.5, zorder=1)
            self._nodes(depth, range(FIRST * FAN_OUT ** (depth - 1)), ("white", LINE, "-"), 3)

    def _nodes(self, depth: int, which: Sequence[int], look: Look, above: int) -> None:
        xs, ys = zip(*(self.place(depth, at) for at in which), strict=True)
        fill, edge, line = look
        self.axes.scatter(
            xs,
            ys,
            s=(320, 320, 165, 120)[depth],
            marker="o" if depth < 3 else LABEL,
            facecolor=fill,
            edgecolor=edge,
            linewidth=1.2,
            linestyle=line,
            zorder=above,
        )


def tree() -> Figure:
    """A document goes down the tree; and what the lowest network is trained on."""
    figure, axes = canvas(10, 6.4, 80, 51.2)
    axes.text(
        1, 49.4, "Prediction: beam search follows the 3 best nodes per level", fontsize=11, weight="bold", va="center"
    )
    drawing = TreeDrawing(axes, 28.5)
    drawing.skeleton()
    probabilities = _probabilities()
    for depth, found in enumerate(probabilities, 1):
        best = sorted(found, key=lambda at: -found[at])[:FOLLOWED]
        for at, probability in found.items():
            drawing.edge(depth, at, BLUE, 2.2 if at in best else 0.9)
            drawing.node(depth, at, (BLUE if at in best else LIGHT_BLUE, BLUE, "-"))
            if at in best:
                x, y = drawing.place(depth, at)
                across, up = ((2.4 if x > 20 else -2.4), 0.0) if depth == 1 else (0.0, -1.75 if depth == 2 else -1.6)
                axes.text(
                    x + across,
                    y + up,
                    f"{probability:.2f}",
                    ha="center",
                    va="center",
                    fontsize=8.5,
                    color=BLUE,
                    zorder=5,
                    bbox={"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none"},
                )
    for y, words in (
        (45.0, "one document, at the root"),
        (40.0, "network 1 scores all nodes\nof the first level"),
        (34.5, "network 2 scores only the\nchildren of the 3 best"),
        (29.5, "network 3 scores only the\nlabels of the 3 best"),
    ):
        axes.text(57, y, words, va="center", linespacing=1.35)
    axes.text(57, 48.0, "levels = 2, beam width = 3", va="center", color=GREY, fontsize=8.5)

    axes.plot([1, 79], [26.2, 26.2], color=LINE, linewidth=0.8)
    axes.text(1, 24.4, "Training network 3: the relevant nodes first", fontsize=11, weight="bold", va="center")
    drawing = TreeDrawing(axes, 4.2)
    drawing.skeleton()
    kinds = {4: "found", 19: "missed", 7: "wrong", 16: "no room"}
    attention_weights: dict[str, Look] = {
        "found": (BLUE, BLUE, "-"),
        "missed": (ORANGE, ORANGE, "-"),
        "wrong": (LIGHT_BLUE, BLUE, "-"),
        "no room": ("white", BLUE, "--"),
    }
    right = {4 * FAN_OUT + 1: BLUE, 19 * FAN_OUT + 2: ORANGE}
    for at, kind in kinds.items():
        drawing.node(2, at, attention_weights[kind])
        if kind == "no room":
            continue
        edge = attention_weights[kind][1]
        for label in range(at * FAN_OUT, (at + 1) * FAN_OUT):
            drawing.edge(3, label, edge, 2.2 if label in right else 0.9)
            drawing.node(3, label, (right.get(label, LIGHT_BLUE if edge == BLUE else LIGHT_ORANGE), edge, "-"))
    for y, words in (
        (20.7, "networks 1 and 2 are trained already"),
        (10.2, "3 nodes for this document:\nfirst all relevant ones, then the\nbest-scoring wrong ones"),
        (5.2, "network 3 is trained on their labels:\ndark is relevant, pale is not"),
    ):
        axes.text(57, y, words, va="center", linespacing=1.35)
    legend = (
        ("found", "relevant, found"),
        ("missed", "relevant, missed: added"),
        ("wrong", "wrong, high score: a negative"),
        ("no room", "wrong, beyond the beam"),
    )
    for x, (kind, words) in zip((2, 15.3, 33, 57.5), legend, strict=True):
        fill, edge, line = attention_weights[kind]
        axes.scatter(x, 1.5, s=130, facecolor=fill, edgecolor=edge, linewidth=1.2, linestyle=line)
        axes.text(x + 1.1, 1.5, words, va="center", fontsize=8.5)
    return figure


def _probabilities() -> list[dict[int, float]]:
    """For each level the nodes that are scored and their probabilities, the product down the path; made up."""
    own = [
        {0: 0.02, 1: 0.9, 2: 0.03, 3: 0.01, 4: 0.6, 5: 0.02, 6: 0.2, 7: 0.01},
        {3: 0.8, 4: 0.1, 5: 0.7, 12: 0.1, 13: 0.5, 14: 0.05, 18: 0.3, 19: 0.02, 20: 0.1},
        {9: 0.9, 10: 0.1, 11: 0.05, 15: 0.02, 16: 0.8, 17: 0.1, 39: 0.1, 40: 0.02, 41: 0.7},
    ]
    chained: list[dict[int, float]] = []
    for depth, level in enumerate(own):
        chained.append(
            {at: probability * (chained[-1][at // FAN_OUT] if depth else 1.0) for at, probability in level.items()}
        )
    return chained


def attention() -> Figure:
    """The description of a package as three labels read it, after training on the demo corpus."""
    import torch

    torch.set_num_threads(1)  # the same picture whatever the machine has
    return attention_of(xmtc.make("attentionxml", **SMALL).fit(xmtc.read(demo_folder(), part="train")))


def attention_of(model: Model) -> Figure:
    """Rows are labels, columns are words, shade is share."""
    test = xmtc.read(demo_folder(), part="test")
    assert test.texts is not None
    text = next(test.texts[row] for row in range(len(test)) if test.id(row) == PACKAGE)
    found = [model.explain(text, label) for label in READERS]
    words = [text[start:end] for start, end, _ in found[0].spans]
    shares = np.array([[share for _, _, share in why.spans] for why in found])  # (labels, words)
    figure = Figure((10, 3.1))
    axes = figure.add_axes((0.155, 0.03, 0.835, 0.62))
    axes.imshow(shares, cmap=SHADES, vmin=0, vmax=0.3, aspect="auto")
    for row, column in zip(*np.nonzero(shares >= 0.02), strict=True):
        share = shares[row, column]
        colour = "white" if share > 0.13 else INK
        axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=8.5, color=colour)
    axes.set_xticks(range(len(words)), words, rotation=60, ha="left", rotation_mode="anchor", fontsize=9.5)
    names = [f"{why.label}  {why.score:.2f}" for why in found]
    axes.set_yticks(range(len(names)), names, fontsize=9.5)
    axes.set_xticks(np.arange(len(words) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(names) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color=LINE, linewidth=0.6)
    axes.tick_params(which="both", length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    return figure


def cost() -> Figure:
    """What reading one document costs, against the number of labels: flat, and with the tree that is chosen."""
    model = AttentionXml(**PAPER)
    config = model.config
    bilstm = 16 * config.hidden * (config.words.dimensions + config.hidden)
    label = 2 * (2 * config.hidden + config.layers[0])  # both per word of the document
    limit = next(count for count in range(1, 1_000_000) if model._shape_for(count + 1).levels)

    def parts(count: int) -> tuple[float, float, float]:
        """(BiLSTMs, attention of the first network, attention of those below), in BiLSTMs."""
        shape = model._shape_for(count)
        first, below = scored(count, shape)
        return shape.levels + 1, first * label / bilstm, below * label / bilstm

    figure = Figure((10, 4.1))
    lines, bars = figure.subplots(1, 2, width_ratios=(1, 1.15))
    figure.subplots_adjust(left=0.075, right=0.99, bottom=0.14, top=0.9, wspace=0.17)
    counts = np.unique(np.geomspace(100, 3_000_000, 300).astype(int))
    flat = 1 + counts * label / bilstm
    few = counts <= limit
    lines.plot(counts, flat, color=GREY, linewidth=1.8, linestyle="--")
    lines.plot(counts[few], flat[few], color=BLUE, linewidth=2.6)
    lines.plot(counts[~few], [sum(parts(int(count))) for count in counts[~few]], color=BLUE, linewidth=2.6)
    lines.axvline(limit, color=LINE, linewidth=1)
    lines.set(xscale="log", yscale="log", xlim=(100, 3_000_000), ylim=(0.8, 5_000), xlabel="labels")
    lines.set_xticks([100, 1_000, 10_000, 100_000, 1_000_000], ["100", "1,000", "10,000", "100,000", "1,000,000"])
    lines.set_yticks([1, 10, 100, 1_000], ["1", "10", "100", "1,000"])
    lines.set_ylabel("cost of a document, in BiLSTMs")
    lines.set_title("In all", fontsize=11, weight="bold", loc="left")
    lines.text(60_000, 190, 'tree="flat"', color=GREY, ha="right")
    lines.text(100_000, 2.6, 'tree="auto"', color=BLUE, ha="center", va="top")
    lines.text(limit * 0.88, 900, f"{limit:,} labels:\nup to here\nauto is flat", fontsize=8.5, color=GREY, ha="right")

    shown = (600, 5_900, 30_000, 500_000, 3_000_000)
    attention_weights = (
        (ORANGE, "BiLSTM, once per network"),
        (BLUE, "attention: all labels, or all nodes of the first level"),
        ("#8fbfe3", "attention: candidates further down"),
    )
    heights = np.zeros(len(shown))
    for part, (colour, words) in zip(np.array([parts(count) for count in shown]).T, attention_weights, strict=True):
        bars.bar(range(len(shown)), part, 0.62, bottom=heights, color=colour, label=words)
        heights += part
    names = []
    for at, (count, total) in enumerate(zip(shown, heights, strict=True)):
        levels = model._shape_for(count).levels
        beside = f"\nflat: {1 + count * label / bilstm:,.0f}" if levels else ""
        bars.text(at, total + 0.12, f"{total:.1f}{beside}", ha="center", va="bottom", fontsize=8.5)
        names.append(f"{count:,}\n{f'{levels + 1} networks' if levels else 'flat'}")
    bars.set_xticks(range(len(shown)), names)
    bars.set(ylim=(0, 10.5))
    bars.set_title('What it goes into, with tree="auto"', fontsize=11, weight="bold", loc="left")
    bars.legend(loc="upper left", framealpha=1, edgecolor="white", fontsize=9, borderaxespad=0.2)
    for axes in (lines, bars):
        axes.grid(color=PALE, linewidth=0.8, axis="both" if axes is lines else "y")
        axes.set_axisbelow(True)
        axes.minorticks_off()
    return figure


def scored(labels: int, shape: TreeShape) -> tuple[int, int]:
    """How many nodes or labels a document is compared with by the first network, and by those below it."""
    step = int(math.log2(shape.arity))
    deepest = math.ceil(math.log2(max(1.0, labels / shape.max_leaf)))
    kept = sorted(range(deepest, 0, -step)[: shape.levels])
    if not kept:
        return labels, 0
    children = [shape.arity] * (len(kept) - 1) + [shape.max_leaf]
    return 2 ** kept[0], shape.beam_width * sum(children)


def rank_ae() -> Figure:
    """Document and labels on their ways to the latent space, what is compared, and the one way of prediction."""
    figure, axes = canvas(10, 4.3, 20, 8.6)
    document, labels = 5.9, 1.3  # heights of the two ways
    for x, y, width, words, fill, edge in (
        (0.3, document, 2.6, "words with\ntf-idf values", PALE, LINE),
        (4.0, document, 3.1, "vectors × values\n(spatial attention)", LIGHT_BLUE, BLUE),
        (8.2, document, 2.9, "× channel attention,\nsummed", LIGHT_BLUE, BLUE),
        (12.2, document, 1.7, "F(x)", "white", BLUE),
        (0.3, labels, 2.6, "true labels,\nsome hidden", PALE, LINE),
        (4.0, labels, 3.1, "E: two layers", LIGHT_ORANGE, ORANGE),
        (8.2, labels, 2.9, "standardised\nover the batch", LIGHT_ORANGE, ORANGE),
        (12.2, labels, 1.7, "E(y)", "white", ORANGE),
        (15.0, (document + labels) / 2, 2.0, "D: two\nlayers", PALE, INK),
        (17.9, (document + labels) / 2, 1.9, "scores of\nall labels", "white", INK),
    ):
        box(axes, x, y, width, 1.3, words, fill=fill, edge=edge, size=8.5)
    for y in (document + 0.65, labels + 0.65):
        for start, end in ((2.9, 4.0), (7.1, 8.2), (11.1, 12.2)):
            arrow(axes, (start, y), (end, y))
    middle = (document + labels) / 2 + 0.65
    arrow(axes, (13.9, document + 0.5), (15.0, middle + 0.35), BLUE)
    arrow(axes, (13.9, labels + 0.8), (15.0, middle - 0.35), ORANGE)
    arrow(axes, (17.0, middle), (17.9, middle))
    axes.annotate("", (13.05, document), (13.05, labels + 1.3), arrowprops={"arrowstyle": "<|-|>", "color": GREY})
    axes.text(12.85, middle, "Lh: squared\ndistance", ha="right", va="center", fontsize=8.5)
    axes.text(0.3, document + 1.75, "document", color=BLUE, weight="bold")
    axes.text(0.3, labels + 1.75, "labels: in training only", color=ORANGE, weight="bold")
    axes.text(15.0, document + 0.3, "prediction,\nand x-decode", color=BLUE, fontsize=8.5, va="center")
    axes.text(15.0, labels + 0.9, "Lae: relevant labels above\nwrong ones by a margin", fontsize=8.5, va="center")
    axes.text(
        0.3,
        0.4,
        "dimensions: words × channels → channels → latent; labels → hidden → latent → hidden → labels",
        fontsize=8.5,
        color=GREY,
    )
    return figure


def aplc() -> Figure:
    """The text on its way through the encoder to a hidden state, and who is scored from how many of its numbers."""
    figure, axes = canvas(10, 4.2, 20, 8.4)
    for x, width, words, fill, edge in (
        (0.3, 3.0, "subword tokens,\n<sep> <cls>", PALE, LINE),
        (4.3, 2.3, "lower layers,\nmay be frozen", PALE, INK),
        (6.6, 2.3, "upper layers,\nfine-tuned", LIGHT_BLUE, BLUE),
        (10.4, 2.1, "hidden layer,\ntanh", LIGHT_BLUE, BLUE),
    ):
        box(axes, x, 3.4, width, 1.6, words, fill=fill, edge=edge, size=8.5)
    for start, end in ((3.3, 4.3), (8.9, 10.4)):
        arrow(axes, (start, 4.2), (end, 4.2))
    axes.text(6.6, 5.3, "encoder: 12 layers, 768 wide", ha="center", fontsize=8.5, color=GREY)
    axes.text(9.6, 4.45, "last token", ha="center", fontsize=7.5, color=GREY)
    clusters = (
        (6.2, 1.7, "head: frequent labels\nand a root for each tail", "768", "every document", LIGHT_BLUE, BLUE),
        (3.6, 1.2, "tail 1: rarer labels", "384", "those with a label in it", LIGHT_ORANGE, ORANGE),
        (1.2, 0.9, "tail 2: rare labels", "192", "those with a label in it", LIGHT_ORANGE, ORANGE),
    )
    for y, height, words, numbers, who, fill, edge in clusters:
        arrow(axes, (12.5, 4.2), (13.4, y + height / 2))
        box(axes, 13.4, y, 3.4, height, words, fill=fill, edge=edge, size=8.5)
        axes.text(17.0, y + height / 2 + 0.22, f"from {numbers} dimensions", va="center", fontsize=8.5)
        axes.text(17.0, y + height / 2 - 0.25, who, va="center", fontsize=8, color=GREY)
    axes.text(
        0.3,
        0.35,
        "probability of a label: in the head its own; in a tail that of the tail's root times its own",
        fontsize=8.5,
        color=GREY,
    )
    return figure


def aplc_cost() -> Figure:
    """What equations 7 and 12 say for labels that follow Zipf's law, five a document, beside a flat layer."""
    width, decay = 768, 2.0
    figure = Figure((10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    attention_weights = {3_956: GREY, 131_073: ORANGE, 670_091: BLUE}
    for labels, colour in attention_weights.items():
        often = zipf_frequencies(labels)
        heads = np.unique(np.geomspace(max(2, labels // 1000), labels - 1, 80).astype(int))
        costs = [relative_cost([int(head), labels - int(head)], often, width, decay) for head in heads]
        left.plot(heads / labels, costs, color=colour, label=f"{labels:,} labels")
        best = FrequencyClusters.cheapest((often * 10**9).astype(np.int64), 10**9, 1, decay).sizes
        left.plot(best[0] / labels, relative_cost(best, often, width, decay), "o", color=colour, markersize=5)
    left.set(xscale="log", xlabel="share of the labels in the head, the rest in one tail", ylim=(0, 1.02))
    left.set_ylabel("cost of training, flat layer = 1")
    left.set_xticks([0.001, 0.01, 0.1, 1], ["0.1 %", "1 %", "10 %", "100 %"])
    left.plot([], [], "o", color=GREY, markersize=5, label='where partition is "auto"')
    labels, numbers = 670_091, range(1, 7)
    parts = [[labels * (at + 1) // count - labels * at // count for at in range(count)] for count in numbers]
    flat = width * labels
    sizes = [approximate_parameter_count(part, width, decay) / flat for part in parts]
    costs = [relative_cost(part, zipf_frequencies(labels), width, decay) for part in parts]
    right.plot(numbers, sizes, "o-", color=ORANGE, markersize=4, label="parameters")
    right.plot(numbers, costs, "o-", color=BLUE, markersize=4, label="cost of training")
    right.set(xlabel="clusters of the same size, 670,091 labels", ylim=(0, 1.02), ylabel="flat layer = 1")
    for axes in (left, right):
        axes.grid(axis="y", color=PALE)
        axes.set_axisbelow(True)
        axes.minorticks_off()
        axes.legend(frameon=False)
    return figure


def side_by_side() -> Figure:
    """Quality against time and memory of training and time of prediction, of all programs of side-by-side.json."""
    corpora = json.loads(SIDE_BY_SIDE.read_text("utf-8"))["corpora"]
    shown = {name: list(map(as_point, corpora[name].values())) for name in SHOWN_CORPORA}
    figure = Figure((11, 4.2 * len(shown)), layout="constrained")
    panels = figure.subplots(len(shown), len(AXES), sharey="row")
    for row, (name, points) in zip(panels, shown.items(), strict=True):
        for axes, (cost, title) in zip(row, AXES.items(), strict=True):
            for point in points:
                if cost in point:
                    colour = BLUE if point["ours"] else ORANGE
                    axes.plot(point[cost], point["nDCG@5"], "o", color=colour, markersize=5)
            axes.set(xscale="linear" if "MB" in cost else "log", xlabel=f"{name}: {title}")
            axes.grid(color=PALE)
            axes.set_axisbelow(True)
            axes.margins(x=0.45, y=0.12)
        row[0].set_ylabel("nDCG@5")
    figure.draw_without_rendering()  # so that places are known
    for row, points in zip(panels, shown.values(), strict=True):
        for axes, cost in zip(row, AXES, strict=True):
            name_points(axes, cost, [point for point in points if cost in point])
    return figure


def name_points(axes: Axes, cost: str, points: Sequence[dict[str, Any]]) -> None:
    """Write each name beside its point, on the first side where it covers no other name or point."""
    size = 7.5
    places = axes.transData.transform([(point[cost], point["nDCG@5"]) for point in points]) * 72 / axes.figure.dpi
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in places]
    for point, (x, y) in zip(points, places, strict=True):
        width = 0.56 * size * len(point["name"])
        options = [(side, up) for up in (-0.35, 0.6, -1.3, 1.6, -2.3) for side in (6.0, -6.0 - width)]
        boxes = [(x + side, y + up * size, x + side + width, y + (up + 1) * size) for side, up in options]
        free = [box for box in boxes if not any(overlap(box, other) for other in taken)]
        chosen = (free or boxes)[0]
        taken.append(chosen)
        axes.annotate(
            point["name"], (point[cost], point["nDCG@5"]), (chosen[0] - x, chosen[1] - y),
            textcoords="offset points", fontsize=size, color=BLUE if point["ours"] else ORANGE,
        )  # fmt: skip


def overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two rectangles (left, low, right, high) share some ground."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def as_point(row: dict[str, Any]) -> dict[str, Any]:
    """A program's row under a short name, without figures if it did not run."""
    name = row["title"].partition(" {")[0].replace("`", "")
    if not row["ours"]:  # without the version
        name = " ".join(word for word in name.replace(",", "").split() if not word[0].isdigit())
    return {"name": name, "ours": row["ours"], **({} if "problem" in row else row)}


def zipf_frequencies(labels: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The share of documents that has each label, if five are drawn by Zipf's law."""
    ranks = np.arange(1, labels + 1)
    shares: np.ndarray[Any, np.dtype[np.float64]] = -np.expm1(5 * np.log1p(-np.log1p(1 / ranks) / np.log(labels + 1)))
    return shares


def relative_cost(
    sizes: Sequence[int], often: np.ndarray[Any, np.dtype[np.float64]], width: int, decay: float
) -> float:
    """Equation 12, where a tail costs nothing for a document that does not need it; a flat layer is 1."""
    access = access_probabilities(sizes, often).tolist()
    return approximate_batch_cost(sizes, access, width, decay, batch=1) / (width * sum(sizes))


PICTURES: dict[str, Callable[[], Figure]] = {
    "attentionxml-network": network,
    "attentionxml-tree": tree,
    "attentionxml-attention": attention,
    "attentionxml-cost": cost,
    "rank_ae-network": rank_ae,
    "aplc-network": aplc,
    "aplc-cost": aplc_cost,
    "side-by-side": side_by_side,
}


if __name__ == "__main__":
    main()
