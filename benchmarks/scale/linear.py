"""How time and memory grow with the number of labels, on made-up corpora whose labels and words follow Zipf's law.

    python -m benchmarks.scale.linear [--labels 10000,100000,1000000] [--model parabel] [--trees 1] [--cap 16]

Each size has half as many documents as labels and a process of its own, so that its peak memory is its own. The pieces
of fitting are timed inside `fit`; prediction is timed on 2,000 further documents, five labels each, in one call. A
small fit and prediction beforehand loads (or compiles) the kernels. A process that would take more than `--cap` GiB is
refused or stopped. The last table is the growth for ten times as many labels: 10 is linear, and the depth of a tree
adds to it.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.scale.synthetic import zipf_corpus
from xmtc.errors import XmtcError
from xmtc.models.registry import make

HELD_OUT = 2000
WARM_UP_LABELS = 1000
TREE_MODELS = ("parabel", "bonsai")
FORESTS = ("fastxml", "pfastrexml", "craftml")

#: what is measured of one size: column -> value
Row = dict[str, float]
FORMATS = {
    "labels": ",.0f",
    "documents": ",.0f",
    "generate s": ".1f",
    "label vectors s": ".1f",
    "tree s": ".1f",
    "classifiers s": ".1f",
    "fit s": ".1f",
    "predict ms": ".3f",
    "P@1": ".1f",
    "folder MB": ",.0f",
    "peak MB": ",.0f",
}
GROWING = ("generate s", "label vectors s", "tree s", "classifiers s", "fit s", "predict ms", "folder MB", "peak MB")


def peak_mb() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


@contextmanager
def timed(row: Row, column: str) -> Iterator[None]:
    """Add the time of the block to a column, and tell it."""
    start = time.perf_counter()
    yield
    spent = time.perf_counter() - start
    row[column] = row.get(column, 0.0) + spent
    say(f"{column.removesuffix(' s'):<15} {spent:8.1f} s   peak so far {peak_mb():8,.0f} MB")


@contextmanager
def pieces_timed(row: Row, model: str) -> Iterator[None]:
    """Within the block, `fit` of a tree model also tells the times of its pieces."""
    with ExitStack() as patches:
        if model in TREE_MODELS:
            from xmtc.models import parabel

            def watched(work: Callable[..., Any], column: str) -> Callable[..., Any]:
                def run(*arguments: Any, **options: Any) -> Any:
                    with timed(row, column):
                        return work(*arguments, **options)

                return run

            for owner, name, column in (
                (parabel, "label_vectors", "label vectors s"),
                (parabel, "build_tree", "tree s"),
                (parabel.Parabel, "_train", "classifiers s"),
            ):
                patches.enter_context(patch.object(owner, name, watched(getattr(owner, name), column)))
        yield


def measure(labels: int, name: str, hyper_parameters: dict[str, Any], seed: int, cap: float) -> Row:
    """Everything about one size, in the process that runs this."""
    # Not the address space, of which libraries reserve much that they never touch.
    resource.setrlimit(resource.RLIMIT_DATA, (int(cap * 2**30), resource.RLIM_INFINITY))
    small = zipf_corpus(WARM_UP_LABELS, seed=seed)
    make(name, **hyper_parameters).fit(small).predict(small)

    row: Row = {"labels": labels}
    with timed(row, "generate s"):
        train = zipf_corpus(labels, seed=seed)
    row["documents"] = len(train)
    test = zipf_corpus(labels, HELD_OUT, seed, held_out=True)
    model = make(name, **hyper_parameters)
    with pieces_timed(row, name), timed(row, "fit s"):
        model.fit(train)
    start = time.perf_counter()
    best = model.predict(test).ids[:, 0]
    row["predict ms"] = 1000 * (time.perf_counter() - start) / len(test)
    row["P@1"] = 100 * float(test.targets[np.arange(len(test)), best].mean())
    say(f"predict         {row['predict ms']:8.3f} ms a document, P@1 {row['P@1']:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        with timed({}, "save s"):
            model.save(Path(folder) / "model")
        row["folder MB"] = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 2**20
    row["peak MB"] = peak_mb()
    return row


def in_its_own_process(*arguments: Any) -> Row:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def table(columns: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = [columns, ["-" * width for width in widths], *rows]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def results(rows: list[Row]) -> str:
    columns = [column for column in FORMATS if column in rows[0]]
    return table(columns, [[format(row[column], FORMATS[column]) for column in columns] for row in rows])


def growth(rows: list[Row]) -> str:
    columns = [column for column in GROWING if column in rows[0]]
    lines = []
    for small, large in pairwise(rows):
        tens = math.log10(large["labels"] / small["labels"])
        factors = [f"{(large[column] / small[column]) ** (1 / tens):.1f}" for column in columns]
        lines.append([f"{small['labels']:,.0f} to {large['labels']:,.0f}", *factors])
    return table(["growth for ten times the labels", *columns], lines)


def sizes(text: str) -> list[int]:
    return sorted({int(part) for part in text.split(",")})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=sizes, default=[10_000, 100_000, 1_000_000], help="sizes, comma-separated")
    parser.add_argument("--model", default="parabel")
    parser.add_argument("--trees", type=int, default=1, help="of parabel, bonsai and the forests")
    parser.add_argument("--cap", type=float, default=16.0, help="GiB that no process may exceed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    with_trees = options.model in TREE_MODELS + FORESTS
    hyper_parameters = {"seed": options.seed, **({"trees": options.trees} if with_trees else {})}
    rows: list[Row] = []
    failure = ""
    for labels in options.labels:
        print(f"{options.model}, {labels:,} labels", file=sys.stderr)
        try:
            row = in_its_own_process(labels, options.model, hyper_parameters, options.seed, options.cap)
        except (XmtcError, MemoryError, BrokenProcessPool) as error:
            failure = f"{labels:,} labels: {type(error).__name__}: {error}"
            break
        rows.append(row)
    if rows:
        print(results(rows))
    if len(rows) > 1:
        print(f"\n{growth(rows)}")
    over = [row for row in rows if row["peak MB"] > 1024 * options.cap]
    for row in over:
        print(f"\n{row['labels']:,.0f} labels: peak memory is over the cap of {options.cap:g} GiB")
    if failure:
        print(f"\n{failure}")
    elif not over:
        print(f"\npeak memory stayed under the cap of {options.cap:g} GiB")
    sys.exit(1 if over or failure else 0)


if __name__ == "__main__":
    main()
