"""How long one document takes, as a service gets them, and where the time goes; beside it, all documents in one call.

    python -m benchmarks.speed.latency [--data DIR] [--corpus debtags] [--documents 500] [--words 200] [--trees 1]
        [MODEL ...]

MODEL is a name, to be trained with its defaults (or with so many --trees, if it has trees), or the folder of a trained
model. With --words every document is cut to so many words, or its words are repeated until there are so many. Each test
document is given alone, after some that are not counted. The whole call is timed first, then once more with a clock
around each stage, which makes it a little slower; "the rest" is what belongs to none of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from itertools import cycle, islice
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.timing import arguments, corpus, seconds
from xmtc.corpus.corpus import Corpus
from xmtc.models.base import Model
from xmtc.models.registry import CATALOGUE, load, make, model_class
from xmtc.nn import level as levels
from xmtc.predictions import Predictions
from xmtc.search.linear_tree import LinearTree
from xmtc.search.sparse_index import SparseIndex
from xmtc.text.document_features import DocumentVectors

MODELS = ("knn", "parabel", "bonsai", "dismec")
WARM_UP = 50
STAGES: dict[str, tuple[type | ModuleType, str]] = {
    "text to corpus": (Corpus, "of"),
    "tf-idf": (DocumentVectors, "transform"),
    "search of trees": (LinearTree, "search"),
    "search of the index": (SparseIndex, "nearest"),
    "networks": (levels, "children_scores"),
    "mean of trees": (Predictions, "blend"),
}


@contextmanager
def clocks() -> Iterator[dict[str, float]]:
    """The seconds that each stage has taken since the caller last cleared them."""
    spent: dict[str, float] = {}

    def timed(stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def clocked(*values: Any, **options: Any) -> Any:
            start = time.perf_counter()
            answer = work(*values, **options)
            spent[stage] = spent.get(stage, 0.0) + time.perf_counter() - start
            return answer

        return clocked

    with ExitStack() as stack:
        for stage, (owner, name) in STAGES.items():
            bound = not isinstance(owner.__dict__[name], classmethod | staticmethod)
            work = timed(stage, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, work if bound else staticmethod(work)))
        yield spent


def stages_of(model: Model, texts: list[str]) -> dict[str, list[float]]:
    """The seconds of each stage for each text."""
    times: dict[str, list[float]] = {stage: [] for stage in (*STAGES, "the rest")}
    with clocks() as spent:
        for text in texts:
            spent.clear()
            whole = seconds(partial(model.predict, [text]))
            for stage, took in {**spent, "the rest": whole - sum(spent.values())}.items():
                times[stage].append(took)
    return times


def show(what: str, times: list[float]) -> None:
    if times:
        median, slow = np.percentile(times, [50, 99]) * 1e3
        print(f"  {what:<20} {median:7.3f} ms median, {slow:7.3f} ms 99th percentile")


def of_length(text: str, words: int | None) -> str:
    """The text cut to so many words, or repeated until it has so many."""
    if words is None:
        return text
    return " ".join(islice(cycle(text.split() or ["nothing"]), words))


def measure(model: Model, name: str, test: Corpus, documents: int, words: int | None) -> None:
    assert test.texts is not None
    texts = [of_length(test.texts[at % len(test)], words) for at in range(WARM_UP + documents)]
    whole = [seconds(partial(model.predict, [text])) for text in texts][WARM_UP:]
    print(f"{name}, one document at a time, {documents:,} times:")
    show("whole", whole)
    for stage, times in stages_of(model, texts[WARM_UP:]).items():
        show(stage, times)
    batch = min(seconds(lambda: model.predict(test)) for _ in range(3))
    each = batch / len(test)
    print(f"  all {len(test):,} in one call: {each * 1e3:.3f} ms a document, {1 / each:,.0f} documents/s")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="debtags")
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--words", type=int)
    parser.add_argument("--trees", type=int)
    parser.add_argument("models", nargs="*", default=[name for name in MODELS if name in CATALOGUE], metavar="MODEL")
    options = parser.parse_args()
    train, test = corpus(options.data, options.corpus)
    for name in options.models:
        if Path(name).is_dir():
            model = load(name)
        else:
            has_trees = options.trees is not None and "trees" in model_class(name).Config.model_fields
            model = make(name, **({"trees": options.trees} if has_trees else {})).fit(train)
        measure(model, name, test, options.documents, options.words)


if __name__ == "__main__":
    main()
