"""What the benchmarks share: where the corpora are, and two pieces of work timed in turns in one run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats import read

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
