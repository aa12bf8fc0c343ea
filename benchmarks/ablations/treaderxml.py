"""TReaderXML on the corpora: the paper's ablation, its controls, and the recipe, over several seeds.

    python -m benchmarks.ablations.treaderxml [--data DIR] [--corpus debtags]
        [--variants 0,1,2,3,4,5,6,teacher,vote,recipe]
                                    [--seeds 3] [--words-file FILE] [--set key=value ...] [--stop blocks|random]
                                    [--validate] [--json FILE]

Variants 0 to 6 are the rows of the paper's Table 3, with the settings of recipes/treaderxml/debtags-ablation-*.yaml for
every corpus; `teacher` reads the teacher alone; `recipe` is recipes/treaderxml/CORPUS.yaml. The others are plain votes
(`knn`): `vote` of the very neighbours that variant 6 has, `vote-tfidf` of as many by tf-idf, `vote-encoder` by MiniLM,
`vote-recipe` of those of the recipe. `--set` changes a setting of all variants of `treaderxml`.

Word vectors are those of the file, if one is given. Models are trained on the training documents and judged by the test
documents; with --validate, a tenth of the training documents takes their place, cut out in blocks of the file, since
neighbouring lines are often about the same thing. With `--stop blocks` training ends by another tenth that is cut out
in the same way, for all variants; with `random`, as the command line does it, by documents drawn by chance.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import arguments, corpus, over_seeds
from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.base import Model
from xmtc.models.registry import make
from xmtc.recipes import put, read_recipe

RECIPES = Path(__file__).parents[2] / "recipes" / "treaderxml"
METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")
BLOCKS, PARTS = 100, 10


def blocks(documents: Corpus, which: int) -> tuple[Corpus, Corpus]:
    """(the rest, a tenth of the documents in blocks)."""
    parts = np.array_split(np.arange(len(documents)), min(BLOCKS, len(documents)))
    held_out = np.concatenate(parts[which::PARTS])
    return documents[np.setdiff1d(np.arange(len(documents)), held_out)], documents[held_out]


def model_of(variant: str, name: str, pairs: list[str], seed: int) -> Model:
    row = variant if variant.isdecimal() else "6"
    file = RECIPES / (f"{name}.yaml" if variant.endswith("recipe") else f"debtags-ablation-{row}.yaml")
    settings = read_recipe(str(file))[1]
    for pair in pairs:
        put(settings, pair)
    if variant == "teacher":
        settings["branches"] = "teacher"
    if not variant.startswith("vote"):
        return make("treaderxml", **settings, seed=seed)
    search = {**settings["search"], "same_texts": False}
    voters: dict[str, Any] = {"neighbours": settings["neighbours"]}
    if variant == "vote-recipe":
        voters = {"neighbours": settings["voters"], "power": settings["vote_power"]}
    elif variant != "vote":
        search["vectors"] = variant.removeprefix("vote-")
    shared = {key: settings[key] for key in ("words", "tfidf", "encoder") if key in settings}
    return make("knn", **voters, **shared, search=search, seed=seed)


def measured(model: Model, train: Corpus, test: Corpus, in_blocks: bool) -> dict[str, float]:
    learn, stop = blocks(train, 1) if in_blocks else (train, None)
    start = time.perf_counter()
    model.fit(learn, stop)
    trained = time.perf_counter()
    model.predict(test, k=5)
    spent = time.perf_counter() - trained
    values = evaluate(model, test).values
    found = {metric: values[metric] for metric in METRICS}
    return found | {"train s": trained - start, "ms a document": 1000 * spent / len(test)}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="debtags")
    parser.add_argument("--variants", default="0,1,2,3,4,5,6,teacher,vote,recipe")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--words-file", help="word vectors; else they are learned on the documents")
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="for all variants of treaderxml")
    parser.add_argument("--stop", choices=["blocks", "random"], default="blocks")
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pairs = [*options.set, *([f"words.vectors={options.words_file}"] if options.words_file else [])]
    results: dict[str, list[dict[str, float]]] = {}
    for name in options.corpus.split(","):
        train, test = corpus(options.data, name)
        if options.validate:
            train, test = blocks(train, 0)
        for variant in options.variants.split(","):
            models = [model_of(variant, name, pairs, seed) for seed in range(options.seeds)]
            if variant.startswith("vote"):
                models = models[:1]  # nothing in it is left to chance, unless its word vectors are
            each = [measured(model, train, test, options.stop == "blocks") for model in models]
            results[f"{name} {variant}"] = each
            print(over_seeds(name, variant, each), flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
