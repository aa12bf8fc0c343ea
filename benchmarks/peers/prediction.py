"""Prediction of our linear models and of PECOS, like for like: one tree each, the same features, beam and threads.

    python -m benchmarks.peers.prediction [--data DIR] [--corpus tibkat] [--tools parabel:trees=1 dismec] [--threads 2]
        [--rounds 7] [--models DIR] [--venvs DIR] [--json FILE]

Each program has a process of its own, which trains once (or reads what an earlier run left in --models) and then waits
for its turn; a tool and PECOS are asked in turns, each round first one, then the other, and the best of all rounds
counts. PECOS is installed on first use into --venvs. Features are made once; every tool has a beam of 10 and lists 5
labels. A single document has one thread.

* batch: all test documents in one call, milliseconds a document
* single: the median over 200 documents given one at a time, milliseconds
* ratio: our time / its time, below 1 where we are faster

Times from the text on, tf-idf included, are those of `benchmarks/speed/latency.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import Problem, python_of
from benchmarks.peers.linear import BUSY, THREADS, VENVS, busy_cores, metrics_of, names, write_features
from benchmarks.peers.runners.measured import READY
from benchmarks.timing import arguments, corpus

PEER = "pecos"
TOOLS = ["parabel:trees=1", "bonsai:trees=1", "dismec"]
ASKED = ("batch", "single")


class Turns:
    """A program in a process of its own that predicts when it is asked."""

    def __init__(self, tool: str, features: Path, out: Path, options: argparse.Namespace) -> None:
        python = python_of(PEER, options.venvs) if tool == PEER else Path(sys.executable)
        runner = f"benchmarks.peers.runners.{PEER if tool == PEER else 'ours'}"
        out.mkdir(parents=True, exist_ok=True)
        threads = {variable: str(options.threads) for variable in THREADS}
        self.out = out
        self.process = subprocess.Popen(
            [str(python), "-m", runner, str(features), str(out), tool, "--turns"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, **threads},
        )
        while (line := self._line()) != READY:
            print(f"{tool}: {line}", file=sys.stderr)

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Problem(f"ended with code {self.process.wait()}")
        return line.strip()

    def seconds(self, what: str) -> float:
        """The time of all documents in one call, or of one document."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return float(self._line())

    def end(self) -> None:
        """No further turns."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def in_turns(ours: Turns, theirs: Turns, documents: int, rounds: int) -> dict[str, float]:
    """The best of each in milliseconds, and the ratios."""
    found: dict[str, float] = {}
    for what in ASKED:
        pairs = [(ours.seconds(what), theirs.seconds(what)) for _ in range(rounds)]
        mine, peer = (1000 * min(times) / (documents if what == "batch" else 1) for times in zip(*pairs, strict=True))
        found |= {f"{what} ms": mine, f"{what} ms, {PEER}": peer, f"{what} ratio": mine / peer}
    return found


def compare(name: str, options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """All tools beside the peer on one corpus."""
    train, test = corpus(options.data, name)
    features = place / name / "features"
    if not features.exists():
        features.mkdir(parents=True)
        write_features(train, test, features)
    rows: dict[str, Any] = {}
    theirs = Turns(PEER, features, place / name / PEER, options)
    for tool in options.tools:
        ours = Turns(tool, features, place / name / tool.replace(":", "-"), options)
        busy = busy_cores()
        if busy > BUSY:
            print(f"{tool}: {busy:.1f} cores have other work, so that only the ratios say something", file=sys.stderr)
        rows[tool] = {
            **{"nDCG@5": metrics_of(ours.out / "answers.npz", train, test)["nDCG@5"]},
            **in_turns(ours, theirs, len(test), options.rounds),
            "busy cores": busy,
        }
        ours.end()
    theirs.end()
    rows[PEER] = {"nDCG@5": metrics_of(theirs.out / "answers.npz", train, test)["nDCG@5"]}
    return rows


def show(name: str, rows: dict[str, Any], threads: int) -> None:
    """A Markdown table."""
    print(f"\n{name}, {threads} threads; nDCG@5 of {PEER}: {rows[PEER]['nDCG@5']:.2f}\n")
    columns = ("nDCG@5", *(f"{what} {part}" for what in ASKED for part in ("ms", f"ms, {PEER}", "ratio")))
    print(f"| tool | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for tool, row in rows.items():
        if tool != PEER:
            print(f"| {tool} | " + " | ".join(f"{row[column]:.3f}" for column in columns) + " |")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", type=names, default=["tibkat"])
    parser.add_argument("--tools", nargs="+", default=TOOLS, help=" ".join(TOOLS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--models", type=Path, help="folder that keeps features and trained models for further runs")
    parser.add_argument("--venvs", type=Path, default=VENVS, help=f"folder of the peers' environments ({VENVS})")
    parser.add_argument("--json", type=Path, help="write everything to this file too")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(prefix="xmtc-prediction-") as temporary:
        for name in options.corpus:
            found[name] = compare(name, options, options.models or Path(temporary))
            show(name, found[name], options.threads)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
