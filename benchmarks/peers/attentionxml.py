"""Our AttentionXML side by side with LibMultiLabel's: the same documents, vectors and sizes, 2 threads, in one run.

    python -m benchmarks.peers.attentionxml [--data DIR] [--corpus debtags] [--documents 4000] [--epochs 3]
        [--json FILE]

Both train on the first --documents of the training file, without validation documents, for the same number of epochs
on each of two levels (clusters of 8 labels at the most, then labels), and tag all test documents. Each has a process
of its own, one after the other, and trains and answers on a few documents first. Each has the learning rate of its
own examples (0.001, ours 0.002). LibMultiLabel is installed on first use into --venvs; its words are runs of letters
and digits without those that are numbers; ours keep numbers.

* train: from documents in memory to a model in memory, clustering of labels included. For us that includes finding the
  words of the texts and reading the word vectors; for LibMultiLabel that is "prepare", which is not counted.
* predict: all test documents in one call, as texts for us, as lists of words for LibMultiLabel
* documents per second: in training documents x epochs, for both levels together
* peak: the largest memory of the whole process
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.linear import METRICS, Row, show_table
from benchmarks.peers.side_by_side import OURS, add_options, compare
from benchmarks.timing import arguments, corpus
from xmtc.corpus.corpus import Corpus

PEER = "libmultilabel-nn"
SPEEDS = ("train docs/s", "predict docs/s")
COSTS = ("train s", "predict s", "prepare s", "peak MB")
WARM_UP = 40  # documents


def our_settings(job: dict[str, Any], vectors: Path) -> dict[str, Any]:
    """What `xmtc.make("attentionxml", ...)` is given; `peers/libmultilabel_nn.py` has the same for LibMultiLabel."""
    return {
        "tree": "tree",
        "levels": 1,
        "arity": 2,
        "max_leaf": job["max_leaf"],
        "beam_width": job["candidates"],
        "hidden": job["hidden"],
        "layers": job["layers"],
        "word_skip": False,  # as LibMultiLabel, and the paper
        "logsumexp_score": False,
        "words": {"vectors": str(vectors), "max_tokens": job["max_tokens"]},
        # So few epochs are too few to average weights over.
        "training": {
            "epochs": job["epochs"],
            "batch_size": job["batch"],
            "valid_documents": 0,
            "swa_start_epoch": None,
        },
    }


def write_job(train: Corpus, test: Corpus, options: argparse.Namespace, folder: Path) -> None:
    """The files of the runners in `benchmarks/peers/`."""
    vectors = folder / "vectors.txt"
    opened = gzip.open if options.vectors.suffix == ".gz" else open
    with opened(options.vectors, "rb") as packed, open(vectors, "wb") as unpacked:  # LibMultiLabel cannot read gzip
        shutil.copyfileobj(packed, unpacked)
    for part, name in ((train, "train.txt"), (test.with_labels(train.labels), "test.txt")):
        assert part.texts is not None
        with open(folder / name, "w", encoding="utf-8") as file:
            for row, text in enumerate(part.texts):
                # With a letter before them, so that nobody takes them for numbers.
                ids = part.targets.indices[part.targets.indptr[row] : part.targets.indptr[row + 1]]
                file.write(" ".join(f"L{label}" for label in ids) + "\t" + " ".join(text.split()) + "\n")
    job: dict[str, Any] = {
        "data": str(options.data.resolve()),
        "documents": len(train),
        "warm_up": WARM_UP,
        "max_leaf": 8,
        "layers": [256],
        "max_tokens": 500,
        **{key: getattr(options, key) for key in ("corpus", "epochs", "batch", "hidden", "candidates")},
    }
    ours = {"model": "attentionxml", "ours": our_settings(job, vectors), "shorter": {}}
    (folder / "job.json").write_text(json.dumps({**job, **ours}))


def promises(rows: dict[str, Row]) -> Iterator[tuple[str, float, float]]:
    """(what, value, the least that it may be), if both tools were measured."""
    good = {tool: row for tool, row in rows.items() if "problem" not in row}
    if OURS in good and PEER in good:
        ours, peer = good[OURS], good[PEER]
        for speed, least in zip(SPEEDS, (5.0, 5.0), strict=True):
            yield f"{speed}, {OURS} / {PEER}", ours[speed] / peer[speed], least
        yield f"P@5, {OURS} - {PEER}", ours["P@5"] - peer["P@5"], 0.0


def show(rows: dict[str, Row], options: argparse.Namespace) -> None:
    """A Markdown table, and the promises."""
    title = f"{options.corpus}, {options.documents} training documents, {options.epochs} epochs, 2 threads"
    show_table(title, rows, (*METRICS, *SPEEDS, *COSTS))
    for what, value, least in promises(rows):
        verdict = "kept" if value >= least else "NOT KEPT"
        print(f"* {what}: {value:.2f} (at least {least:g} is promised: {verdict})")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", choices=["debtags", "tibkat"], default="debtags")
    parser.add_argument("--documents", type=int, default=4000, help="to train on (4000)")
    parser.add_argument("--epochs", type=int, default=3, help="on each level (3)")
    parser.add_argument("--batch", type=int, default=40, help="documents of a training step (40)")
    parser.add_argument("--hidden", type=int, default=256, help="of the LSTM, in each direction (256)")
    parser.add_argument("--candidates", type=int, default=16, help="clusters whose labels are looked at (16)")
    parser.add_argument("--vectors", type=Path, help="word vectors in GloVe's text format (DATA/vectors/glove...)")
    add_options(parser, PEER)
    options = parser.parse_args()
    options.vectors = options.vectors or options.data / "vectors" / "glove.100d.txt.gz"
    train, test = corpus(options.data, options.corpus)
    train = train[: options.documents]
    options.documents = len(train)
    rows = compare(train, test, partial(write_job, train, test, options), "libmultilabel_nn", options)
    for row in rows.values():
        if "problem" not in row:
            speeds = len(train) * options.epochs / row["train s"], len(test) / row["predict s"]
            row.setdefault("prepare s", 0.0)
            row.update(zip(SPEEDS, speeds, strict=True))
    show(rows, options)
    if options.json:
        found = {"tools": rows, "promises": [list(promise) for promise in promises(rows)]}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
