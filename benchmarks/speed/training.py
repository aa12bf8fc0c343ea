"""How fast four neural methods train and predict on `debtags`, and how good they are, with the recipes of that corpus.

    python -m benchmarks.speed.training [--data DIR] [--methods attentionxml,rank_ae,aplc_xlnet,treaderxml]
        [--quality 0,1,2] [--documents 3000] [--device cpu]

Documents per second in training come from two short trainings without validation documents, one of two epochs and one
of four: their difference is two epochs, and what is done once is left out. Prediction is the best of three calls
with all test documents. With --quality whole trainings with these seeds are evaluated on the test documents instead.
Run it in two clones of this repository, one after the other, to compare two versions of the code.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks.timing import arguments, corpus, seconds
from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.base import Model
from xmtc.models.registry import make
from xmtc.recipes import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
METHODS = ("attentionxml", "rank_ae", "aplc_xlnet", "treaderxml")
WITH_WORDS = ("attentionxml", "treaderxml")
EPOCHS = (2, 4)


def model(method: str, vectors: Path, seed: int = 0, **training: Any) -> Model:
    """A new model with the settings of its recipe."""
    name, settings = read_recipe(str(RECIPES / method / "debtags.yaml"))
    assert name is not None
    settings["training"] = {**settings["training"], **training}
    if method in WITH_WORDS:
        settings["words"] = {**settings["words"], "vectors": str(vectors)}
    return make(name, **settings, seed=seed)


def speeds(method: str, train: Corpus, test: Corpus, vectors: Path, training: dict[str, Any]) -> tuple[float, float]:
    """Documents per second in training and in prediction."""
    without_refit: dict[str, Any] = {"valid_documents": 0, "swa_start_epoch": None, **training}
    spent = []
    for epochs in (1, *EPOCHS):  # the first one warms up
        fitted = model(method, vectors, epochs=epochs, **without_refit)
        spent.append(seconds(lambda fitted=fitted: fitted.fit(train)))  # type: ignore[misc]
    predicting = min(seconds(lambda: fitted.predict(test, k=5)) for _ in range(3))
    return len(train) * (EPOCHS[1] - EPOCHS[0]) / (spent[2] - spent[1]), len(test) / predicting


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--quality", help="seeds of whole trainings")
    parser.add_argument("--documents", type=int, default=3000, help="training documents of the short trainings (3000)")
    parser.add_argument("--device", help="training.device")
    options = parser.parse_args()
    train, test = corpus(options.data, "debtags")
    vectors = options.data / "vectors" / "glove.100d.txt.gz"
    training = {"device": options.device} if options.device else {}
    for method in options.methods.split(","):
        if not options.quality:
            found = speeds(method, train[: options.documents], test, vectors, training)
            print(f"{method}: training {found[0]:,.1f} documents/s, prediction {found[1]:,.1f} documents/s", flush=True)
            continue
        each = []
        for seed in map(int, options.quality.split(",")):
            fitted = model(method, vectors, seed, **training)
            spent = seconds(lambda fitted=fitted: fitted.fit(train))  # type: ignore[misc]
            values = evaluate(fitted.predict(test, k=5), test, train_documents=len(train)).values
            each.append(values["nDCG@5"])
            figures = " / ".join(f"{values[name]:.2f}" for name in ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5"))
            print(f"{method}, seed {seed}: {figures}, {spent:.0f} s", flush=True)
        print(f"{method}: mean nDCG@5 {statistics.fmean(each):.2f}", flush=True)


if __name__ == "__main__":
    main()
