"""`extremetext` beside `fasttext` with its one-vs-all loss: time of training, time of a prediction, quality.

    python -m benchmarks.speed.extremetext [--data DIR] [--corpus tibkat] [--seeds 0,1,2] [--one-vs-all EPOCHS]

`extremetext` is trained with `recipes/extremetext/CORPUS.yaml` on all training documents, once for each seed, and
evaluated on the test documents. fastText's time is that of its default epochs, computed from trainings of one and of
three epochs, so what is done once counts once; `--one-vs-all 25` trains them instead, and evaluates. Prediction is the
best of three calls with all test documents. Kernels are loaded by a small training beforehand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.timing import arguments, corpus, seconds
from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.base import Model
from xmtc.models.fasttext import ExtremeText, FastText
from xmtc.recipes import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
WARM_UP = 200  # documents


def figures(model: Model, train: Corpus, test: Corpus) -> str:
    """Milliseconds of a prediction, and quality."""
    predicting = min(seconds(lambda: model.predict(test, k=5)) for _ in range(3))
    values = evaluate(model.predict(test, k=5), test, train_documents=len(train)).values
    quality = " / ".join(f"{values[name]:.2f}" for name in ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5"))
    return f"{1000 * predicting / len(test):.3f} ms a document, P@1 / P@3 / P@5 / nDCG@5 / PSP@5 {quality}"


def fitted(kind: type[Model], train: Corpus, settings: dict[str, Any]) -> tuple[Model, float]:
    """A trained model, and how long it took."""
    model = kind(**settings)
    return model, seconds(lambda: model.fit(train))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="tibkat")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--one-vs-all", type=int, help="train fastText for so many epochs, whole")
    options = parser.parse_args()
    train, test = corpus(options.data, options.corpus)
    _, settings = read_recipe(str(RECIPES / "extremetext" / f"{options.corpus}.yaml"))
    for kind in (ExtremeText, FastText):
        kind(epochs=1).fit(train[:WARM_UP]).predict(test[:WARM_UP])

    spent = 0.0
    seeds = [int(seed) for seed in options.seeds.split(",")]
    for seed in seeds:
        model, took = fitted(ExtremeText, train, {**settings, "seed": seed})
        spent += took / len(seeds)
        print(f"extremetext, seed {seed}: training {took:.1f} s, {figures(model, train, test)}", flush=True)
    if options.one_vs_all:
        model, one_vs_all = fitted(FastText, train, {"epochs": options.one_vs_all})
        print(f"fasttext, one-vs-all: training {one_vs_all:.1f} s, {figures(model, train, test)}")
    else:
        (_, one), (_, three) = (fitted(FastText, train, {"epochs": epochs}) for epochs in (1, 3))
        epochs = FastText().config.epochs
        one_vs_all = one + (epochs - 1) * (three - one) / 2
        print(f"fasttext, one-vs-all: training {one_vs_all:.1f} s for {epochs} epochs, by those of 1 and 3")
    print(f"ratio: {spent / one_vs_all:.2f}")


if __name__ == "__main__":
    main()
