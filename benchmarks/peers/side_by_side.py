"""A model of ours beside one other program that is given the same texts; `fasttext.py` and `attentionxml.py` use it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.peers.environments import Problem, output_of, python_of
from benchmarks.peers.linear import BUSY, THREADS, VENVS, Row, busy_cores, metrics_of, names
from xmtc.corpus.corpus import Corpus

OURS = "xmtc"


def add_options(parser: argparse.ArgumentParser, peer: str) -> None:
    """Which tools, where the other one is installed, how long they may take, and where to write."""
    parser.add_argument("--tools", type=names, default=[OURS, peer], help=f"{OURS},{peer}")
    parser.add_argument("--venvs", type=Path, default=VENVS, help=f"folder of the peers' environments ({VENVS})")
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which a tool is given up (3600)")
    parser.add_argument("--json", type=Path, help="write everything to this file too")


def compare(
    train: Corpus, test: Corpus, write_job: Callable[[Path], None], peer_runner: str, options: argparse.Namespace
) -> dict[str, Row]:
    """Each tool on one corpus, in a process of its own, one after the other; `write_job` fills a folder for them."""
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="xmtc-side-by-side-") as temporary:
        job = Path(temporary) / "job"
        job.mkdir()
        write_job(job)
        for tool in options.tools:
            print(f"{options.corpus}: {tool}", file=sys.stderr)
            out = Path(temporary) / tool
            try:
                costs = _costs_of(tool, peer_runner, job, out, options)
                rows[tool] = {**metrics_of(out / "answers.npz", train, test), **costs}
            except Problem as problem:
                rows[tool] = {"problem": str(problem)}
    return rows


def _costs_of(tool: str, peer_runner: str, job: Path, out: Path, options: argparse.Namespace) -> Row:
    """Run a tool; its answers are then in `out`."""
    python, runner = (sys.executable, "ours_texts") if tool == OURS else (python_of(tool, options.venvs), peer_runner)
    busy = busy_cores()
    if busy > BUSY:
        print(f"{tool}: {busy:.1f} cores have other work, so that its times may be too long", file=sys.stderr)
    out.mkdir()
    settings = {"cwd": Path(__file__).parents[2], "env": {**os.environ, **THREADS}, "timeout": options.limit}
    printed = output_of([str(python), "-m", f"benchmarks.peers.runners.{runner}", str(job), str(out)], **settings)
    return {**json.loads(printed.splitlines()[-1]), "busy cores": busy}
