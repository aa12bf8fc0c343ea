"""Where the memory of training goes: the resident memory of a linear model's stages, and the peak of the whole process.

    python -m benchmarks.scale.memory [--data DIR] [--corpus tibkat] [--model parabel] [--trees 3] [--features]

A small fit beforehand loads (or compiles) the kernels. Prints the memory before the fit (interpreter, libraries,
texts), then for each stage the memory at its end and the highest within it, seen every 5 ms; the last lines are the
peak of the process, the same above what it had before, and what `memory_needed` had foreseen. With --features the model
gets the tf-idf matrix, as the other programs of benchmarks/peers do, instead of texts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.scale.linear import TREE_MODELS, peak_mb
from benchmarks.timing import arguments
from xmtc.corpus.io import read
from xmtc.memory import give_back_memory
from xmtc.models.registry import make
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdf, TfIdfSettings

PAGES = Path("/proc/self/statm")  # Linux
SMALL = 300


def resident_mb() -> float:
    """What the process has in memory now."""
    return int(PAGES.read_text().split()[1]) * 4096 / 2**20


class Watch:
    """The highest memory within each of the stages that are going on, seen by a thread."""

    def __init__(self) -> None:
        self.highest: list[float] = []
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            now = resident_mb()
            self.highest[:] = [max(now, before) for before in self.highest]
            time.sleep(0.005)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Print the memory at the end of the block, and the highest within it."""
        before = resident_mb()
        self.highest.append(before)
        yield
        now = resident_mb()
        highest = max(self.highest.pop(), now)
        print(f"{name:<28} {before:8,.0f} -> {now:8,.0f} MB, at most {highest:8,.0f}", flush=True)


@contextmanager
def stages_watched(watch: Watch) -> Iterator[None]:
    """Within the block, `fit` of a linear model prints the memory of its stages."""
    from xmtc.models import dismec, parabel

    def watched(work: Callable[..., Any], name: str) -> Callable[..., Any]:
        def run(*given: Any, **options: Any) -> Any:
            with watch.stage(name):
                return work(*given, **options)

        return run

    places = [
        (TfIdf, "_counted", "words counted"),
        (DocumentVectors, "fit_transform", "document vectors"),
        (parabel, "label_vectors", "label vectors"),
        (parabel, "build_tree", "tree"),
        (parabel, "child_documents", "children's documents"),
        (parabel, "train_level", "a level's classifiers"),
        (parabel.Parabel, "_train", "a tree's classifiers"),
        (dismec.Dismec, "_train", "all classifiers"),
    ]
    with ExitStack() as patches:
        for owner, name, stage in places:
            patches.enter_context(patch.object(owner, name, watched(getattr(owner, name), stage)))
        yield


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="tibkat")
    parser.add_argument("--model", default="parabel")
    parser.add_argument("--trees", type=int, default=3, help="of parabel and bonsai")
    parser.add_argument("--documents", type=int, help="train on so many only")
    parser.add_argument("--features", action="store_true", help="train on the tf-idf matrix")
    options = parser.parse_args()
    settings = {"trees": options.trees} if options.model in TREE_MODELS else {}
    train = read(options.data / options.corpus, part="train")[: options.documents]
    if options.features:
        features = DocumentVectors(TfIdfSettings(min_chars=1)).fit_transform(train)
        train = replace(train, texts=None, features=features)
        del features
    make(options.model, **settings).fit(train[:SMALL])
    give_back_memory()
    before, watch = resident_mb(), Watch()
    print(f"before: {before:,.0f} MB, {peak_mb():,.0f} at most")
    model = make(options.model, **settings)
    needed = model.memory_needed(train) / 2**20
    with stages_watched(watch), watch.stage("fit"):
        model.fit(train)
    print(f"peak of the process: {peak_mb():,.0f} MB, {peak_mb() - before:,.0f} above what it had")
    print(f"memory_needed: {needed:,.0f} MB")


if __name__ == "__main__":
    main()
