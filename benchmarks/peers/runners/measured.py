"""What the runners of `benchmarks/peers/linear.py` share: one tool trained and asked in this process, and what that
cost.

    python -m benchmarks.peers.runners.TOOL FEATURES OUT METHOD [--only-warm-up | --turns]

Runs inside a peer's own environment, so it knows numpy and scipy but not xmtc. FEATURES is a folder with train and test
matrices and a small folder `tiny` of the same kind; answers (`ids`, `scores`) go to OUT/answers.npz, the model to
OUT/model, and the costs are printed as one JSON object, the last line of standard output.

With --turns the model is trained unless OUT/model is there already, and each line of standard input asks for one
measurement: "batch" or "single". The answer is a line with the seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, load_npz

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))
K = 5
READY = "ready"
SINGLES = 200
BATCH_ROUNDS, BATCH_SECONDS = 3, 20.0  # the best of some calls, but slow tools are not asked again and again


class Tool(ABC):
    """A method of a tool. Only `fit` and `predict` are timed, what they need is made ready before."""

    def __init__(self, method: str, out: Path) -> None:
        self.method = method
        self.out = out

    def read(self, features: Path) -> None:
        """Take the training matrices."""
        self.x, self.y = matrix(features / "train_X.npz"), matrix(features / "train_Y.npz")

    @abstractmethod
    def fit(self) -> None:
        """Train on what was read."""

    @abstractmethod
    def finish(self) -> None:
        """Save the model to OUT/model and make it ready for prediction."""

    def load(self) -> None:
        """Read the model in OUT/model, ready for prediction."""
        raise NotImplementedError

    def ready(self, rows: csr_matrix) -> Any:
        """Documents in the form that `predict` takes."""
        return rows

    @abstractmethod
    def predict(self, documents: Any) -> Any:
        """The K best labels of each document, in the tool's own form."""

    @abstractmethod
    def answers(self, found: Any) -> tuple[Any, Any]:
        """(ids, scores), a list for each document, from what `predict` gave."""


def run(tool_class: type[Tool]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("features", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("method")
    parser.add_argument("--only-warm-up", action="store_true")
    parser.add_argument("--turns", action="store_true")
    options = parser.parse_args()
    start_bytes = peak_bytes()  # the interpreter and the tool's libraries
    if options.turns:
        take_turns(tool_class(options.method, options.out), options.features)
        return

    start = time.perf_counter()
    tool = tool_class(options.method, options.out / "warm-up")
    tool.read(options.features / "tiny")
    tool.fit()
    tool.finish()
    some = matrix(options.features / "tiny" / "test_X.npz")
    tool.predict(tool.ready(some))
    tool.predict(tool.ready(some[:1]))
    costs = {"first use s": time.perf_counter() - start}
    if not options.only_warm_up:
        costs |= measure(tool_class(options.method, options.out), options.features)
        costs["own MB"] = costs["peak MB"] - start_bytes / 1e6
    sys.stdout.flush()
    print(f"\n{json.dumps(costs)}")


def measure(tool: Tool, features: Path) -> dict[str, float]:
    tool.read(features)
    start = time.perf_counter()
    tool.fit()
    train = time.perf_counter() - start
    tool.finish()

    test = matrix(features / "test_X.npz")
    documents = tool.ready(test)
    batch: list[float] = []
    while not batch or (len(batch) < BATCH_ROUNDS and sum(batch) < BATCH_SECONDS):
        start = time.perf_counter()
        found = tool.predict(documents)
        batch.append(time.perf_counter() - start)

    singles: list[float] = []
    for row in range(min(SINGLES, test.shape[0])):
        document = tool.ready(test[row])
        start = time.perf_counter()
        tool.predict(document)
        singles.append(time.perf_counter() - start)

    save_answers(tool.out / "answers.npz", *tool.answers(found))
    return {
        "train s": train,
        "batch ms": 1000 * min(batch) / test.shape[0],
        "single ms": 1000 * statistics.median(singles),
        "model MB": sum(file.stat().st_size for file in (tool.out / "model").rglob("*") if file.is_file()) / 1e6,
        "peak MB": peak_bytes() / 1e6,
    }


def take_turns(tool: Tool, features: Path) -> None:
    """Predict when a line of standard input says so."""
    tool.read(features)
    if (tool.out / "model").exists():
        tool.load()
    else:
        tool.fit()
        tool.finish()
    test = matrix(features / "test_X.npz")
    documents, singles = tool.ready(test), [tool.ready(test[row]) for row in range(min(SINGLES, test.shape[0]))]
    found = tool.predict(documents)
    save_answers(tool.out / "answers.npz", *tool.answers(found))
    for document in singles:
        tool.predict(document)
    print(READY, flush=True)
    for line in sys.stdin:
        asked, times = [documents] if line.strip() == "batch" else singles, []
        for some in asked:
            start = time.perf_counter()
            tool.predict(some)
            times.append(time.perf_counter() - start)
        print(statistics.median(times), flush=True)


def matrix(path: Path) -> csr_matrix:
    return csr_matrix(load_npz(path))


def unzipped(found: Any) -> tuple[Any, Any]:
    """(ids, scores) from a list of (label, score) for each document."""
    return [[label for label, _ in pairs] for pairs in found], [[score for _, score in pairs] for pairs in found]


def save_answers(path: Path, ids: Any, scores: Any) -> None:
    """Lists may be shorter than K; the rest is -1."""
    all_ids, all_scores = np.full((len(ids), K), -1, np.int64), np.zeros((len(ids), K), np.float32)
    for row, (some_ids, some_scores) in enumerate(zip(ids, scores, strict=True)):
        all_ids[row, : len(some_ids)], all_scores[row, : len(some_scores)] = some_ids[:K], some_scores[:K]
    np.savez(path, ids=all_ids, scores=all_scores)


def peak_bytes() -> int:
    """The largest memory of this process so far.

    Linux counts in ru_maxrss what the parent had when it started this process, VmHWM begins anew.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
