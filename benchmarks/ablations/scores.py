"""Calibration and thresholds: what they do for documents that neither the model nor they have seen.

    python -m benchmarks.ablations.scores [--data DIR] [--corpora cooking,debtags,bibtex] [--model knn] [--validate]

A tenth of the training documents is kept for calibration and thresholds; figures are of the test documents.
`--validate` prints the grid by which the smoothing of thresholds was chosen: the mean over three splits of the training
documents into training, validation and judging, so that no test document is looked at.
"""

from __future__ import annotations

import numpy as np

from benchmarks.timing import arguments, corpus
from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.base import Model
from xmtc.models.calibration import METHODS
from xmtc.models.registry import make
from xmtc.models.thresholds import SMOOTHING

ERRORS = ("ECE@1", "ECE@3", "ECE@5")
SHOWN = ("micro-F1", "macro-F1", "example-F1")
SPLITS = 3
GRID = (1e-6, 2, 5, 10, 20, 50, 100)
COMMON = 1e12  # so much smoothing that every label has the common threshold


def values_of(model: Model, documents: Corpus, names: tuple[str, ...]) -> list[float]:
    values = evaluate(model, documents, threshold=model.thresholds_).values
    return [values[name] for name in names]


def line(what: str, names: tuple[str, ...], values: list[float]) -> str:
    return f"  {what:<24}" + "  ".join(f"{name} {value:5.2f}" for name, value in zip(names, values, strict=True))


def measure(name: str, train: Corpus, test: Corpus) -> None:
    rest, valid = train.split(0.1, seed=0)
    model = make(name).fit(rest)
    print(line("as the model says", ERRORS, values_of(model, test, ERRORS)))
    for method in METHODS:
        print(line(method, ERRORS, values_of(model.calibrate(valid, method), test, ERRORS)))
    model.calibrate(valid)
    for what, smoothing in (("one threshold", COMMON), ("each label's own", 1e-6), ("smoothed", SMOOTHING)):
        print(line(what, SHOWN, values_of(model.tune(valid, smoothing), test, SHOWN)))


def validate(name: str, train: Corpus) -> None:
    found: dict[float, list[list[float]]] = {smoothing: [] for smoothing in (*GRID, COMMON)}
    for seed in range(SPLITS):
        others, valid = train.split(0.1, seed=100 + seed)
        rest, valid = others.split(0.1, seed=seed)
        model = make(name).fit(rest).calibrate(valid)
        for smoothing, rows in found.items():
            rows.append(values_of(model.tune(valid, smoothing), valid, SHOWN))
    for smoothing, rows in found.items():
        print(line(f"smoothing {smoothing:g}", SHOWN, np.mean(rows, axis=0).tolist()))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpora", default="cooking,debtags,bibtex")
    parser.add_argument("--model", default="knn")
    parser.add_argument("--validate", action="store_true")
    options = parser.parse_args()
    for name in options.corpora.split(","):
        train, test = corpus(options.data, name)
        print(f"{options.model} on {name}")
        if options.validate:
            validate(options.model, train)
        else:
            measure(options.model, train, test)


if __name__ == "__main__":
    main()
