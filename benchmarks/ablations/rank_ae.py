"""Rank-AE on the corpora: quality over several seeds, its ablations, and its speed.

    python -m benchmarks.ablations.rank_ae [--data DIR] [--corpus delicious,bibtex,debtags,cooking] [--seeds 3]
                                 [--variants full,no-attention,no-ranking-loss,paper] [--validate] [--json FILE]

Settings are those of recipes/rank_ae/CORPUS.yaml. Models are trained on all training documents and judged by the test
documents; with --validate, a fifth of the training documents takes their place, for choosing settings. Variants are the
paper's ablations, without channel attention and with cross-entropy in place of the ranking loss, and the paper's own
form (`paper`: recipes/rank_ae/paper/CORPUS.yaml). Times are those of a whole `fit`, with the second training on all
documents, and of one `predict` of all documents.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import arguments, corpus, over_seeds
from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.registry import make
from xmtc.recipes import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes" / "rank_ae"
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "no-attention": {"attention": False},
    "no-ranking-loss": {"loss": "bce", "x_loss": "bce"},
    "paper": {},
}
METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")


def measured(name: str, train: Corpus, test: Corpus, variant: str, seed: int) -> dict[str, float]:
    folder = RECIPES / "paper" if variant == "paper" else RECIPES
    settings = read_recipe(str(folder / f"{name}.yaml"))[1] | VARIANTS[variant]
    start = time.perf_counter()
    model = make("rank_ae", **settings, seed=seed).fit(train)
    trained = time.perf_counter()
    model.predict(test, k=5)
    spent = time.perf_counter() - trained
    values = evaluate(model, test).values
    found = {metric: values[metric] for metric in METRICS}
    return found | {"train s": trained - start, "documents/s": len(test) / spent}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="delicious,bibtex,debtags,cooking")
    parser.add_argument("--variants", default="full")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {}
    for name in options.corpus.split(","):
        train, test = corpus(options.data, name)
        if options.validate:
            train, test = train.split(0.2, seed=0)
        for variant in options.variants.split(","):
            each = [measured(name, train, test, variant, seed) for seed in range(options.seeds)]
            results[f"{name} {variant}"] = each
            print(over_seeds(name, variant, each), flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
