"""TReaderXML taken apart, as in the paper's Table 3, in the paper's form or in ours, over several seeds.

    python -m benchmarks.ablations.treaderxml --out DIR [--data DIR] [--corpus debtags] [--form paper|ours]
        [--rows 0,1,2,3,4,5,6,control] [--seeds 3] [--recipe FILE|NAME] [--words-file FILE] [--set key=value ...]
        [--stop blocks|random|dev] [--validate]

A form is a recipe: recipes/treaderxml/paper/CORPUS.yaml or recipes/treaderxml/CORPUS.yaml, or the one that --recipe
names. Rows 0 to 6 are those of Table 3: they change `branches` and `reading` of the recipe and nothing else. `control`
is ours without teacher and Reading, whatever the form; `teacher` reads the teacher alone. The others are plain votes
(`knn`): `vote` of the recipe's very neighbours, `vote-tfidf` and `vote-encoder` of as many by other vectors. `--set`
changes a setting of all rows.

A corpus is a folder of --data with `train.*`, `test.*` and perhaps `labels.tsv`, such as debtags or eurlex15k. Models
are trained on the training documents and evaluated on the test documents; with --validate, a tenth of the training
documents takes their place, cut out in blocks of the file, since neighbouring lines are often about the same thing.
With `--stop blocks` training ends by another tenth, cut out in the same way; with `dev`, by the folder's file
`dev.*`; with `random`, as the command line does it, by documents drawn by chance.

Each run writes its figures into --out when it is finished, and what it needs to go on while it is not. So a call that
was interrupted goes on where it was, and several calls may share the rows: each skips the runs that are there.
"""

from __future__ import annotations

import json
import shutil
import time
from argparse import Namespace
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import arguments, corpus, mean_and_spread
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.io import read
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.base import Model
from xmtc.models.registry import make
from xmtc.recipes import put, read_recipe, recipe_names

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")
COLUMNS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")  # of the paper's Tables 3 and 4
BLOCKS, PARTS = 100, 10
WITHOUT: dict[str, Any] = {"branches": "text", "reading": "none"}
ROWS: dict[str, dict[str, Any]] = {
    "0": WITHOUT,
    "1": {"branches": "both", "reading": "none"},
    "2": {"branches": "both", "reading": "mmhsa+r"},
    "3": {"branches": "both", "reading": "mhsa+r"},
    "4": {"branches": "both", "reading": "mhsa+r+mmhsa"},
    "5": {"branches": "both", "reading": "mmhsa+mhsa"},
    "6": {"branches": "both", "reading": "mmhsa+r+mhsa"},
    "control": WITHOUT,
    "teacher": {"branches": "teacher"},
}
VOTES = ("vote", "vote-tfidf", "vote-encoder")


def blocks(documents: Corpus, which: int) -> tuple[Corpus, Corpus]:
    """(the rest, a tenth of the documents in blocks)."""
    parts = np.array_split(np.arange(len(documents)), min(BLOCKS, len(documents)))
    held_out = np.concatenate(parts[which::PARTS])
    return documents[np.setdiff1d(np.arange(len(documents)), held_out)], documents[held_out]


def recipe_of(form: str, name: str) -> str:
    """The recipe that a form is, for a corpus."""
    recipe = f"treaderxml/paper/{name}" if form == "paper" else f"treaderxml/{name}"
    if recipe not in recipe_names():
        raise SystemExit(f"there is no recipes/{recipe}.yaml: name another one, such as --recipe treaderxml/debtags")
    return recipe


def model_of(row: str, recipe: str, pairs: list[str], seed: int) -> Model:
    """The untrained model of a row."""
    settings = deepcopy(read_recipe(recipe)[1])
    for pair in pairs:
        put(settings, pair)
    if row in ROWS:
        return make("treaderxml", **{**settings, **ROWS[row]}, seed=seed)
    config = make("treaderxml", **settings).config.model_dump()
    search = {
        "same_texts": False,
        "vectors": row.removeprefix("vote-") if row != "vote" else config["search"]["vectors"],
    }
    voters = {"neighbours": config["voters"], "power": config["vote_power"]} if config["votes"] else {}
    shared = {key: config[key] for key in ("words", "tfidf", "encoder")}
    return make("knn", **{"neighbours": config["neighbours"], **voters}, **shared, search=search, seed=seed)


def measured(model: Model, train: Corpus, valid: Corpus | None, test: Corpus, file: Path) -> dict[str, float]:
    """The figures of a run: those in its file, else of the model, which is trained first."""
    about = {
        "model": model.name,
        "settings": model.config.model_dump(mode="json"),
        "documents": [each.fingerprint() for each in (train, valid, test) if each is not None],
    }
    if file.exists():
        found = json.loads(file.read_text("utf-8"))
        if {key: found[key] for key in about} != about:
            raise SystemExit(f"{file}: a run with other settings or documents; name another --out")
        figures: dict[str, float] = found["figures"]
        return figures
    pieces = file.with_suffix(".pieces")
    start = time.perf_counter()
    model.fit(train, valid, checkpoints=pieces)
    trained = time.perf_counter() - start
    values = evaluate(model, test).values
    figures = {metric: values[metric] for metric in COLUMNS} | {"train s": trained}
    partial = file.with_suffix(".part")
    partial.write_text(json.dumps(about | {"figures": figures}, indent=1), "utf-8")
    partial.rename(file)
    shutil.rmtree(pieces, ignore_errors=True)
    return figures


def table(rows: dict[str, list[dict[str, float]]]) -> str:
    """Markdown: the mean of each figure over the seeds, and how far the furthest seed is from it."""
    lines = [f"| row | seeds | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 2) + "|"]
    for row, each in rows.items():
        cells = (mean_and_spread([found[metric] for found in each]) for metric in COLUMNS)
        shown = (f"{middle:.2f}" + (f" ±{furthest:.2f}" if len(each) > 1 else "") for middle, furthest in cells)
        lines.append(f"| {row} | {len(each)} | {' | '.join(shown)} |")
    return "\n".join(lines)


def documents_of(options: Namespace, name: str) -> tuple[Corpus, Corpus | None, Corpus]:
    """(training, validation if it is not drawn by chance, test documents)."""
    train, test = corpus(options.data, name)
    if options.validate:
        train, test = blocks(train, 0)
    if options.stop == "blocks":
        return *blocks(train, 1), test
    if options.stop == "random":
        return train, None, test
    files = sorted((options.data / name).glob("dev.*"))
    if len(files) != 1:
        raise SystemExit(f"{options.data / name}: --stop dev needs one file dev.* there, and there are {len(files)}")
    return train, read(files[0]), test


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures of each run")
    parser.add_argument("--corpus", default="debtags", help="one or several, separated by commas")
    parser.add_argument("--form", choices=["paper", "ours"], default="paper")
    parser.add_argument("--rows", default="0,1,2,3,4,5,6,control", help=f"of {', '.join([*ROWS, *VOTES])}")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--recipe", help="in the place of the form's")
    parser.add_argument("--words-file", help="word vectors; else they are learned on the documents")
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="for all rows")
    parser.add_argument("--stop", choices=["blocks", "random", "dev"], default="blocks")
    parser.add_argument("--validate", action="store_true")
    options = parser.parse_args()
    rows = options.rows.split(",")
    if unknown := [row for row in rows if row not in (*ROWS, *VOTES)]:
        parser.error(f"unknown rows: {', '.join(unknown)}")
    pairs = [*options.set, *([f"words.vectors={options.words_file}"] if options.words_file else [])]
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.corpus.split(","):
        forms = {row: "ours" if row == "control" else options.form for row in rows}
        recipes = {
            row: options.recipe if options.recipe and form == options.form else recipe_of(form, Path(name).name)
            for row, form in forms.items()
        }
        train, valid, test = documents_of(options, name)
        results: dict[str, list[dict[str, float]]] = {}
        for row in rows:
            # Nothing in a vote is left to chance, unless its word vectors are.
            for seed in range(1 if row in VOTES else options.seeds):
                file = options.out / f"{Path(name).name}-{forms[row]}-{row}-{seed}.json"
                found = measured(model_of(row, recipes[row], pairs, seed), train, valid, test, file)
                results.setdefault(row, []).append(found)
                print(f"{file.stem}: " + ", ".join(f"{key} {value:.2f}" for key, value in found.items()), flush=True)
        print(f"\n{name}, {options.form} form\n\n{table(results)}\n", flush=True)


if __name__ == "__main__":
    main()
