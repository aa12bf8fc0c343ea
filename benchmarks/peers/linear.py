"""Our linear models side by side with other programs: the same features, the same machine, 2 threads, in one run.

    python -m benchmarks.peers.linear [--data DIR] [--corpus tibkat,debtags] [--tools parabel,omikuji-parabel]
        [--json FILE]

Each tool trains and answers in a process of its own, one after the other, from tf-idf features that are made once; all
have their own defaults (see `benchmarks/peers/`). The other programs are installed on first use into --venvs.

* first use: a tiny training and prediction in a process of its own; for us it includes compiling, if nobody did before
* train: from features in memory to a model in memory, clustering of labels included, after a tiny training
* batch: all test documents in one call, or one after the other for tools that have no such call; the best of up to 3
* single: the median over 200 documents given one at a time
* peak: the largest memory of the whole process; own: the same without what the interpreter and the tool's libraries
  took before anything was read

Ours are also named with settings, as in parabel:trees=1, to compare like with like.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import save_npz

from benchmarks.peers.environments import Problem, output_of, python_of
from benchmarks.timing import arguments, corpus
from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.io import write
from xmtc.corpus.labels import LabelSet
from xmtc.evaluation.evaluate import evaluate
from xmtc.predictions import Predictions
from xmtc.text.tfidf import TfIdf

VENVS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xmtc-peers"
OURS = ("parabel", "parabel:trees=1", "bonsai", "bonsai:trees=1", "dismec", "ppd_sparse")
PEERS = ("omikuji-parabel", "omikuji-bonsai", "pecos", "napkinxc", "libmultilabel")
METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")
COSTS = ("first use s", "train s", "batch ms", "single ms", "model MB", "peak MB", "own MB")
TINY = 300  # documents
BUSY = 0.2  # cores at work before a tool starts, above which its times are doubtful
THREADS = {f"{library}_NUM_THREADS": "2" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")}

Row = dict[str, Any]  # METRICS and COSTS of a tool, or its "problem"


def write_features(train: Corpus, test: Corpus, folder: Path) -> None:
    """Matrices for all tools, the text file that omikuji reads, and the same of a few documents in `tiny`."""
    assert train.texts is not None and test.texts is not None
    tfidf = TfIdf()
    features, queries = tfidf.fit_transform(train.texts), tfidf.transform(test.texts)
    full = np.diff(features.indptr) > 0  # omikuji cannot read a document without words, so nobody gets them
    features, labelled = features[full], train.targets[full]
    few = labelled[:TINY]
    used, few_ids = np.unique(few.indices, return_inverse=True)
    for part, rows, targets, test_rows in (
        (folder, features, labelled, queries),
        (folder / "tiny", features[:TINY], label_matrix(few_ids, few.indptr, len(used)), queries[:TINY]),
    ):
        part.mkdir(exist_ok=True)
        numbered = Corpus(targets, LabelSet.of(map(str, range(targets.shape[1]))), features=rows)
        write(numbered, part / "train_X.npz")  # and train_Y.npz
        write(numbered, part / "train.txt")
        save_npz(part / "test_X.npz", test_rows)


def costs_of(tool: str, features: Path, out: Path, options: argparse.Namespace) -> Row:
    """Run a tool; its answers are then in `out`."""
    module, _, method = tool.partition("-") if tool in PEERS else ("ours", "", tool)
    python = python_of(module, options.venvs) if tool in PEERS else sys.executable
    command = [str(python), "-m", f"benchmarks.peers.runners.{module}", str(features), str(out), method or "default"]

    def run(*more: str) -> Row:
        settings = {"cwd": Path(__file__).parents[2], "env": {**os.environ, **THREADS}, "timeout": options.limit}
        printed: Row = json.loads(output_of([*command, *more], **settings).splitlines()[-1])
        return printed

    (out / "warm-up").mkdir(parents=True)
    first = run("--only-warm-up")  # in a process of its own, as compiling takes memory too
    busy = busy_cores()
    if busy > BUSY:
        print(f"{tool}: {busy:.1f} cores have other work, so that its times may be too long", file=sys.stderr)
    return {**run(), **first, "busy cores": busy}


def busy_cores() -> float:
    """How many cores are at work just now, by looking for a second; 0 where the system does not say."""
    if not (stat := Path("/proc/stat")).exists():
        return 0.0

    def idle() -> float:
        waiting = stat.read_text().split()[4:6]  # idle, and waiting for a disk
        return sum(map(int, waiting)) / os.sysconf("SC_CLK_TCK")

    before, start = idle(), time.perf_counter()
    time.sleep(1)
    cores = os.cpu_count() or 1
    return max(0.0, cores - (idle() - before) / (time.perf_counter() - start))


def metrics_of(answers: Path, train: Corpus, test: Corpus) -> Row:
    labels = train.labels.with_counts(train.label_counts)
    with np.load(answers) as found:
        top = Predictions.sorted(found["ids"], found["scores"], labels)
    values = evaluate(top, test, train_documents=len(train)).values
    return {metric: values[metric] for metric in METRICS}


def compare(name: str, options: argparse.Namespace) -> dict[str, Row]:
    """All tools on one corpus."""
    train, test = corpus(options.data, name)
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="xmtc-linear-") as temporary:
        features = Path(temporary) / "features"
        features.mkdir()
        write_features(train, test, features)
        for tool in options.tools:
            print(f"{name}: {tool}", file=sys.stderr)
            out = Path(temporary) / tool
            try:
                costs = costs_of(tool, features, out, options)
                rows[tool] = {**metrics_of(out / "answers.npz", train, test), **costs}
            except Problem as problem:
                rows[tool] = {"problem": str(problem)}
    return rows


def promises(name: str, rows: dict[str, Row]) -> Iterator[tuple[str, float, float | None]]:
    """(what, value, the most that it may be): what the project says about itself, as far as it was measured."""
    good = {tool: row for tool, row in rows.items() if "problem" not in row}
    ours, peers = [tool for tool in good if tool in OURS], [tool for tool in good if tool in PEERS]

    def best_against_best(cost: str) -> tuple[str, float]:
        mine, peer = (min(tools, key=lambda tool: good[tool][cost]) for tools in (ours, peers))
        return f"{mine} / {peer}", good[mine][cost] / good[peer][cost]

    for method, most in (("parabel", 0.8), ("bonsai", 0.4)):
        if method in good and (peer := f"omikuji-{method}") in good:
            yield f"training, {method} / {peer}", good[method]["train s"] / good[peer]["train s"], most
            yield f"P@5, {method} - {peer}", good[method]["P@5"] - good[peer]["P@5"], None
    if ours and peers:
        who, ratio = best_against_best("batch ms")
        yield f"batch prediction, {who}", ratio, 0.5 if name == "tibkat" else None
        who, ratio = best_against_best("peak MB")
        yield f"peak memory, {who}", ratio, None
    for tool in ours:
        yield f"single document, {tool}, ms", good[tool]["single ms"], 1.0


def show_table(title: str, rows: dict[str, Row], shown: Sequence[str]) -> None:
    """A Markdown table with a row for each tool, or why there is none."""
    width = max(map(len, rows))
    columns = {column: max(6, len(column)) for column in shown}
    print(f"\n{title}\n")
    print(f"| {'tool':<{width}} | " + " | ".join(column.rjust(size) for column, size in columns.items()) + " |")
    print("|".join(["", "-" * (width + 2), *("-" * (size + 1) + ":" for size in columns.values()), ""]))
    for tool, row in rows.items():
        cells = [f"{row[column]:{size}.2f}" for column, size in columns.items() if "problem" not in row]
        print(f"| {tool:<{width}} | " + " | ".join(cells or [row["problem"]]) + " |")
    print()


def show(name: str, rows: dict[str, Row]) -> None:
    """A Markdown table, and the promises."""
    show_table(f"{name}, 2 threads", rows, (*METRICS, *COSTS))
    for what, value, most in promises(name, rows):
        verdict = "" if most is None else f" (at most {most:g} is promised: {'kept' if value <= most else 'NOT KEPT'})"
        print(f"* {what}: {value:.2f}{verdict}")


def names(text: str) -> list[str]:
    return text.split(",")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", type=names, default=["tibkat", "debtags"], help="tibkat,debtags")
    parser.add_argument("--tools", type=names, default=[*OURS, *PEERS], help=",".join((*OURS, *PEERS)))
    parser.add_argument("--venvs", type=Path, default=VENVS, help=f"folder of the peers' environments ({VENVS})")
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which a tool is given up (3600)")
    parser.add_argument("--json", type=Path, help="write everything to this file too")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name in options.corpus:
        rows = compare(name, options)
        show(name, rows)
        found[name] = {"tools": rows, "promises": [list(promise) for promise in promises(name, rows)]}
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
