"""How much wrong training labels cost: Rank-AE beside its variant with cross-entropy, others and linear models.

    python -m benchmarks.ablations.noise [--data DIR] [--corpus debtags] [--kind missing] [--rates 0,0.2,0.4,0.6]
                               [--seeds 3]
                               [--models rank_ae,rank_ae_paper,bce_ae,xml_cnn,fasttext,dismec,parabel,bonsai]
                               [--json FILE] [--plot FILE]

As in the paper's Figure 3, the labels of 80 % of the training documents are changed (see `xmtc.corpus.noise`), the
other 20 % are clean and for choices only (linear models have none to make), and the test documents are clean. A seed
stands for the split, the noise and the model alike. Settings are those of the corpus's recipe where there is one;
`bce_ae` is `rank_ae` with cross-entropy in place of every ranking loss, `rank_ae_paper` the paper's own form. What FILE
of --json has already is not done again; --plot draws it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from benchmarks.timing import arguments, corpus, mean_and_spread
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.noise import Noise, with_noise
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.registry import make
from xmtc.recipes import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
CLEAN = 0.2
METRICS = ("P@1", "P@3", "P@5")
KINDS = ("missing", "swapped", "flipped")
LINES = {
    "rank_ae": ("Rank-AE", "#1769aa", "o-"),
    "rank_ae_paper": ("Rank-AE, paper's form", "#0b3d66", "o--"),
    "bce_ae": ("BCE-AE", "#c2570c", "s--"),
    "xml_cnn": ("XML-CNN", "#57606a", "^:"),
    "fasttext": ("fastText", "#b8860b", "^:"),
    "dismec": ("DiSMEC", "#2e7d32", "v-."),
    "parabel": ("Parabel", "#8e44ad", "D:"),
    "bonsai": ("Bonsai", "#ad1457", "P:"),
}
Results = dict[str, dict[str, float]]


def settings_of(model: str, name: str) -> tuple[str, dict[str, Any]]:
    """(model, settings) of a line of the plot."""
    if model == "rank_ae_paper":
        return "rank_ae", read_recipe(str(RECIPES / "rank_ae" / "paper" / f"{name}.yaml"))[1]
    kind, more = ("rank_ae", {"loss": "bce", "x_loss": "bce"}) if model == "bce_ae" else (model, {})
    recipe = RECIPES / kind / f"{name}.yaml"
    return kind, (read_recipe(str(recipe))[1] if recipe.exists() else {}) | more


def measured(
    model: str, name: str, train: Corpus, test: Corpus, kind: Noise, rate: float, seed: int
) -> dict[str, float]:
    noisy, clean = train.split(CLEAN, seed=seed)
    method, settings = settings_of(model, name)
    fitted = make(method, **settings, seed=seed).fit(with_noise(noisy, rate, kind, seed), clean)
    values = evaluate(fitted, test).values
    return {metric: values[metric] for metric in METRICS}


def key(model: str, kind: str, rate: float, seed: int) -> str:
    return f"{model} {kind} {rate:g} {seed}"


def mean(results: Results, model: str, kind: str, rate: float, metric: str) -> tuple[float, float]:
    """Of all seeds, and how far the furthest is from it."""
    each = [
        values[metric]
        for name, values in results.items()
        if name.rpartition(" ")[0] == key(model, kind, rate, 0).rpartition(" ")[0]
    ]
    return mean_and_spread(each)


def has(results: Results, model: str, kind: str, rate: float) -> bool:
    return any(name.startswith(f"{model} {kind} {rate:g} ") for name in results)


def table(results: Results, models: Iterable[str], kind: str, rates: list[float]) -> str:
    """A line for each model and rate: the mean, the spread, and what is left of P@1."""
    lines = []
    for model in models:
        for rate in (rate for rate in rates if has(results, model, kind, rate)):
            cells = [f"{mean(results, model, kind, rate, metric)[0]:.2f}" for metric in METRICS]
            spread = mean(results, model, kind, rate, "P@1")[1]
            left = ""
            if has(results, model, kind, 0.0):
                clean = mean(results, model, kind, 0.0, "P@1")[0]
                left = f", {100 * (mean(results, model, kind, rate, 'P@1')[0] / clean - 1):+.1f} % of P@1"
            lines.append(f"{model} {kind} {100 * rate:.0f} %: {' / '.join(cells)} (P@1 +-{spread:.2f}){left}")
    return "\n".join(lines)


def drawn(results: Results, models: Iterable[str], kinds: Iterable[str], rates: list[float], name: str) -> Figure:
    """P@1, P@3 and P@5 over the rate, a row for each kind of noise."""
    kinds = [kind for kind in kinds if any(has(results, model, kind, rate) for model in models for rate in rates)]
    figure = Figure((10, 3.1 * len(kinds)), layout="constrained")
    for row, kind in enumerate(kinds):
        for column, metric in enumerate(METRICS):
            axes = figure.add_subplot(len(kinds), len(METRICS), row * len(METRICS) + column + 1)
            for model in models:
                known = [rate for rate in rates if has(results, model, kind, rate)]
                found = [mean(results, model, kind, rate, metric) for rate in known]
                title, colour, line = LINES[model]
                axes.errorbar(
                    [100 * rate for rate in known],
                    [middle for middle, _ in found],
                    [spread for _, spread in found],
                    fmt=line,
                    color=colour,
                    label=title,
                    markersize=4,
                    linewidth=1.2,
                    capsize=2,
                )
            axes.set_title(f"{metric}, {kind} labels", fontsize=10)
            axes.set_xlabel("changed training labels, %")
            if not column:
                axes.set_ylabel(f"on clean test documents of {name}, %")
            if not row and not column:
                axes.legend(frameon=False, fontsize=8.5)
    return figure


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="debtags")
    parser.add_argument("--kind", default="missing", help=f"one or more of {', '.join(KINDS)}, with commas")
    parser.add_argument("--rates", default="0,0.2,0.4,0.6")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default=",".join(LINES))
    parser.add_argument("--json", type=Path, help="results, read first and written after each model")
    parser.add_argument("--plot", type=Path, help="an SVG file")
    options = parser.parse_args()
    rates, kinds, models = (
        [float(rate) for rate in options.rates.split(",")],
        options.kind.split(","),
        options.models.split(","),
    )
    results: Results = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    train, test = corpus(options.data, options.corpus)
    for seed in range(options.seeds):
        for kind in kinds:
            for rate in rates:
                for model in models:
                    name = key(model, kind, rate, seed)
                    if name not in results:
                        results[name] = measured(model, options.corpus, train, test, kind, rate, seed)
                        print(name, results[name], flush=True)
                        if options.json:
                            options.json.write_text(json.dumps(results, indent=1))
    for kind in kinds:
        print(table(results, models, kind, rates))
    if options.plot:
        with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "xmtc", "font.family": "DejaVu Sans"}):
            drawn(results, models, kinds, rates, options.corpus).savefig(
                options.plot, facecolor="white", metadata={"Date": None}
            )


if __name__ == "__main__":
    main()
