"""Our fastText side by side with the C++ program: the same words, epochs, dimensions and loss, 2 threads, in one run.

    python -m benchmarks.peers.fasttext [--data DIR] [--corpus cooking] [--loss ova] [--epochs 25] [--rate 2]
        [--json FILE]

Each trains on all training documents and tags all test documents, in a process of its own, one after the other, after
a tiny training. The C++ program splits texts at white space, so it is given the words that ours finds. It is installed
on first use into --venvs. Both have 2,000,000 buckets. The C++ program has the learning rate of its tutorial unless
--peer-rate gives another: where its steps are too large, it learns nothing or stops with an error.

* train: from texts in memory (the C++ program: from a file) to a model in memory
* predict: all test documents in one call
* peak: the largest memory of the whole process
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.linear import METRICS, Row, show_table
from benchmarks.peers.side_by_side import OURS, add_options, compare
from benchmarks.timing import arguments, corpus
from xmtc.corpus.corpus import Corpus
from xmtc.text.word_rules import WordRules

PEER = "fasttext"
COSTS = ("train s", "predict s", "peak MB")
LOSSES = ("ova", "softmax", "ns")  # the same names in both
TUTORIAL_RATES = {"ova": 0.5, "softmax": 1.0, "ns": 1.0}
WARM_UP = 100  # documents


def write_job(train: Corpus, test: Corpus, options: argparse.Namespace, folder: Path) -> None:
    """The files of the runners in `benchmarks/peers/`."""
    rules = WordRules()
    for part, name, labelled in (
        (train, "train.txt", True),
        (train[:WARM_UP], "few.txt", True),
        (test, "test.txt", False),
    ):
        assert part.texts is not None
        with open(folder / name, "w", encoding="utf-8") as file:
            for row, text in enumerate(part.texts):
                tags = [f"__label__{label}" for label in part.labels_of(row)] if labelled else []
                file.write(" ".join([*tags, *rules.words(text)]) + "\n")
    job: dict[str, Any] = {
        "data": str(options.data.resolve()),
        "corpus": options.corpus,
        "documents": len(train),
        "warm_up": WARM_UP,
        "model": "fasttext",
        "shorter": {"epochs": 1},
        "ours": {
            "loss": options.loss,
            "dimensions": options.dimensions,
            "epochs": options.epochs,
            "learning_rate": options.rate,
            "word_ngrams": options.ngrams,
        },
        "peer": {
            "loss": options.loss,
            "dim": options.dimensions,
            "epoch": options.epochs,
            "lr": options.peer_rate or TUTORIAL_RATES[options.loss],
            "wordNgrams": options.ngrams,
        },
    }
    (folder / "job.json").write_text(json.dumps(job))


def show(rows: dict[str, Row], options: argparse.Namespace) -> None:
    """A Markdown table, and the promise."""
    what = f"{options.loss}, {options.dimensions} dimensions, {options.epochs} epochs, {options.ngrams} words together"
    show_table(f"{options.corpus}, {what}, 2 threads", rows, (*METRICS, *COSTS))
    good = [tool for tool, row in rows.items() if "problem" not in row]
    if good == [OURS, PEER]:
        ratio = rows[PEER]["train s"] / rows[OURS]["train s"]
        verdict = "kept" if ratio >= 1 else "NOT KEPT"
        print(f"* training, {PEER} / {OURS}: {ratio:.2f} (at least 1 is promised: {verdict})")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="cooking", help="cooking, debtags, bibtex, ... (cooking)")
    parser.add_argument("--loss", choices=LOSSES, default="ova")
    parser.add_argument("--epochs", type=int, default=25, help="(25)")
    parser.add_argument("--dimensions", type=int, default=100, help="of the vectors (100)")
    parser.add_argument("--ngrams", type=int, default=2, help="words together (2)")
    parser.add_argument("--rate", type=float, default=2.0, help="our learning rate (2)")
    parser.add_argument("--peer-rate", type=float, help="the C++ program's learning rate (ova 0.5, others 1)")
    add_options(parser, PEER)
    options = parser.parse_args()
    train, test = corpus(options.data, options.corpus)
    rows = compare(train, test, partial(write_job, train, test, options), "fasttext_cpp", options)
    show(rows, options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
