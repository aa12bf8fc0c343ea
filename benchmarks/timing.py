"""What the benchmarks share: where the corpora are, work timed in turns in one run, figures of several seeds."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.io import read

DATA = Path(__file__).parents[2] / "shared" / "data"


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the option that every benchmark on real data has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder with the corpora ({DATA})")
    return parser


def corpus(data: Path, name: str) -> tuple[Corpus, Corpus]:
    """(train, test) of one of the corpora."""
    return read(data / name, part="train"), read(data / name, part="test")


def seconds(work: Callable[[], object]) -> float:
    """How long a piece of work takes, without freeing its result."""
    start = time.perf_counter()
    result = work()
    spent = time.perf_counter() - start
    del result
    return spent


def side_by_side(
    what: str, ours: Callable[[], object], peer: str, theirs: Callable[[], object], rounds: int = 3
) -> float:
    """Print the best time of each, run in turns, and their ratio (above 1: we are faster), which is returned."""
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    our_best, their_best = (min(times) for times in zip(*pairs, strict=True))
    ratio: float = their_best / our_best
    print(f"{what}: xmtc {our_best:.3f} s, {peer} {their_best:.3f} s, {ratio:.2f} times as fast")
    return ratio


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and how far the furthest value is from it."""
    middle = statistics.fmean(values)
    return middle, max(abs(value - middle) for value in values)


def over_seeds(name: str, variant: str, each: Sequence[dict[str, float]]) -> str:
    """A line with the mean and spread of every figure of a model that was trained with several seeds."""
    figures = {metric: mean_and_spread([found[metric] for found in each]) for metric in each[0]}
    cells = (f"{metric} {middle:.2f} +-{furthest:.2f}" for metric, (middle, furthest) in figures.items())
    return f"{name} {variant} ({len(each)} seeds): " + ", ".join(cells)
