"""How the time of `extremetext` for a document depends on the number of labels, on the corpora of `synthetic.py`.

    python -m benchmarks.scale.extremetext [--labels 10000,100000,1000000] [--dimensions 100] [--trees 1] [--cap 16]

Each size has half as many documents as labels and a process of its own. `train us` is the time of one epoch divided by
the documents, without what is done once (label vectors, tree); `predict us` that of one call with 2,000 further
documents, five labels each. `rows` is how many nodes a training document learns from on average. The last column is
fastText's one-vs-all loss on the first 200 documents of the same corpus, for comparison; it is left out above
`--one-vs-all` labels. A small fit beforehand loads the kernels. The last table is the growth for ten times the labels.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.scale import linear
from benchmarks.scale.linear import HELD_OUT, WARM_UP_LABELS, Row, growth, peak_mb, results, sizes, timed
from benchmarks.scale.synthetic import zipf_corpus
from xmtc.corpus.corpus import Corpus
from xmtc.models.fasttext import ExtremeText, extremetext

OVA_DOCUMENTS = 200
FORMATS = {
    "labels": ",.0f",
    "documents": ",.0f",
    "label vectors s": ".1f",
    "tree s": ".1f",
    "rows": ",.0f",
    "train us": ",.1f",
    "predict us": ",.1f",
    "P@1": ".1f",
    "peak MB": ",.0f",
    "one-vs-all train us": ",.1f",
}


def measure(labels: int, settings: dict[str, Any], seed: int, cap: float, one_vs_all: int) -> Row:
    """Everything about one size, in the process that runs this."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(cap * 2**30), resource.RLIM_INFINITY))
    small = zipf_corpus(WARM_UP_LABELS, seed=seed)
    ExtremeText(**settings).fit(small).predict(small)
    row: Row = {"labels": labels}
    train, test = zipf_corpus(labels, seed=seed), zipf_corpus(labels, HELD_OUT, seed, held_out=True)
    row["documents"] = len(train)
    model = ExtremeText(**settings)
    spent: Row = {}
    with ExitStack() as patches:
        for owner, name, column in (
            (extremetext, "label_vectors", "label vectors s"),
            (extremetext, "build_tree", "tree s"),
            (ExtremeText, "_train", "epoch s"),
        ):
            work = getattr(owner, name)

            def watched(*arguments: Any, work: Any = work, column: str = column, **options: Any) -> Any:
                with timed(spent if column == "epoch s" else row, column):
                    return work(*arguments, **options)

            patches.enter_context(patch.object(owner, name, watched))
        model.fit(train)
    row["rows"] = rows_of_a_document(model, train)
    row["train us"] = 1e6 * spent["epoch s"] / len(train) / settings["epochs"]
    start = time.perf_counter()
    best = model.predict(test).ids[:, 0]
    row["predict us"] = 1e6 * (time.perf_counter() - start) / len(test)
    row["P@1"] = 100 * float(test.targets[np.arange(len(test)), best].mean())
    row["peak MB"] = peak_mb()
    if labels <= one_vs_all:
        row["one-vs-all train us"] = one_vs_all_microseconds(train[:OVA_DOCUMENTS], settings["dimensions"])
    return row


def rows_of_a_document(model: ExtremeText, corpus: Corpus) -> float:
    """How many nodes' weights a training document changes, on average."""
    total = 0
    for tree in model.trees_:
        for level, relevant in zip(tree.levels, [None, *tree.targets(corpus.targets)[:-1]], strict=True):
            fan_out = np.diff(level.indptr)
            total += fan_out[relevant.indices].sum() if relevant is not None else fan_out[0] * len(corpus)
    return float(total / len(corpus))


def one_vs_all_microseconds(corpus: Corpus, dimensions: int) -> float:
    """Of one document and epoch of fastText's one-vs-all kernel, the second time."""
    from xmtc.kernels.fasttext import Documents, Loss, train_all_labels

    rng = np.random.default_rng(0)
    assert corpus.features is not None
    features, targets = corpus.features, corpus.targets
    inputs = features.indices.astype(np.int32), features.indptr.astype(np.int64), np.zeros(0, np.float32)
    documents = Documents(*inputs, targets.indices.astype(np.int32), targets.indptr.astype(np.int64))
    table = rng.random((features.shape[1], dimensions), np.float32)
    weights = np.zeros((targets.shape[1], dimensions), np.float32)
    order = np.arange(len(corpus))
    train = partial(train_all_labels, documents, order, order, Loss(False, -9.0), 0.1, 0.0, 16, table, weights)
    train()
    start = time.perf_counter()
    train()
    return 1e6 * (time.perf_counter() - start) / len(corpus)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=sizes, default=[10_000, 100_000, 1_000_000], help="sizes, comma-separated")
    parser.add_argument("--dimensions", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--trees", type=int, default=1)
    parser.add_argument("--tree", default="clusters", help="clusters or complete")
    parser.add_argument("--one-vs-all", type=int, default=100_000, help="labels up to which one-vs-all is timed, too")
    parser.add_argument("--cap", type=float, default=16.0, help="GiB that no process may exceed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in ("dimensions", "epochs", "trees", "tree", "seed")}
    rows: list[Row] = []
    for labels in options.labels:
        print(f"{labels:,} labels", file=sys.stderr)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows.append(pool.submit(measure, labels, settings, options.seed, options.cap, options.one_vs_all).result())
    with patch.object(linear, "FORMATS", FORMATS), patch.object(linear, "GROWING", ("rows", "train us", "predict us")):
        print(results(rows))
        if len(rows) > 1:
            print(f"\n{growth(rows)}")


if __name__ == "__main__":
    main()
