"""Our models beside other programs, on the same corpora and machine: the tables of README and docs/results/index.md.

    python -m benchmarks.peers.programs [--data DIR] [--corpus debtags,cooking] [--tools dismec,pecos,auto] [--again]

Writes docs/results/side-by-side.json, of which `tools/make_docs.py` makes the tables. What stands there already is not
measured again unless --again asks for it, so that a long run can be stopped and started anew.

* linear methods, ours and others': the same tf-idf features for all (see `linear.py`)
* fastText: the C++ program, with the words that ours finds (see `fasttext.py`)
* `auto`: from the texts, as `xmtc train --model auto` has them; 45 minutes for `tibkat`, 5 for the others

Other programs are installed on first use, each into an environment of its own. One that cannot be installed or fails
has a row that says so, and is tried again the next time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import ENVIRONMENTS
from benchmarks.peers.linear import BUSY, METRICS, OURS, VENVS, Row, busy_cores, names
from benchmarks.timing import arguments, corpus
from xmtc.cli import main as xmtc

AUTO, FASTTEXT = "auto", "fasttext"
#: What tables call the tools, with the version in place of {}.
TITLES = {
    **{name: f"`{name}`".replace(":trees=1`", "`, one tree") for name in OURS},
    AUTO: "`auto`",
    "omikuji-parabel": "omikuji {}, Parabel",
    "omikuji-bonsai": "omikuji {}, Bonsai",
    "pecos": "PECOS {}, XR-Linear",
    "napkinxc": "napkinXC {}",
    "libmultilabel": "LibMultiLabel {}, tree",
    FASTTEXT: "fastText {} (C++)",
}
CORPORA = ["tibkat", "debtags", "cooking", "delicious", "bibtex"]
BUDGETS = {"tibkat": "45m"}  # of `auto`; the others have
BUDGET = "5m"
RESULTS = Path(__file__).parents[2] / "docs" / "results" / "side-by-side.json"


def measured(tool: str, name: str, options: argparse.Namespace) -> Row:
    """One tool on one corpus."""
    if tool == AUTO:
        row = auto_row(name, options)
    elif tool == FASTTEXT:
        row = results_of("fasttext", tool, name, options)[tool]
        if "predict s" in row:
            row["batch ms"] = 1000 * row.pop("predict s") / len(corpus(options.data, name)[1])
    else:
        row = results_of("linear", tool, name, options)[name]["tools"][tool]
    environment = ENVIRONMENTS.get(tool.partition("-")[0])
    title = TITLES[tool].format(environment.version if environment else "")
    facts = {"ours": environment is None, "date": time.strftime("%Y-%m-%d"), "busy": row.get("busy cores", 0) > BUSY}
    return {"title": title, **facts, **row}


def results_of(module: str, tool: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What another benchmark writes for one tool on one corpus."""
    with tempfile.TemporaryDirectory(prefix="xmtc-programs-") as folder:
        out = Path(folder) / "results.json"
        common = {"data": options.data, "corpus": name, "tools": tool, "venvs": options.venvs, "limit": options.limit}
        words = [f"--{key}={value}" for key, value in {**common, "json": out}.items()]
        subprocess.run([sys.executable, "-m", f"benchmarks.peers.{module}", *words], check=True)
        found: dict[str, Any] = json.loads(out.read_text("utf-8"))
        return found


def auto_row(name: str, options: argparse.Namespace) -> Row:
    """`auto` by `xmtc compare`, which measures it in a process of its own."""
    budget, busy = options.budget or BUDGETS.get(name, BUDGET), busy_cores()
    with tempfile.TemporaryDirectory(prefix="xmtc-auto-") as out:
        xmtc(["compare", str(options.data / name), "--models", AUTO, "--set", f"auto.budget={budget}", "--out", out])
        (row,) = json.loads((Path(out) / "results.json").read_text())["rows"]
    if not row["finished"]:
        return {"problem": row["note"]}
    costs = row["costs"]
    return {
        **{metric: row[metric] for metric in METRICS},
        "train s": costs["training"],
        "batch ms": 1000 / costs["documents/s"],
        "model MB": costs["size"] / 1e6,
        "peak MB": costs["memory"] / 1e6,
        "busy cores": busy,
        "budget": budget,
    }


def machine() -> dict[str, Any]:
    """Where it was measured, and with which versions."""
    processor = platform.machine()
    if (facts := Path("/proc/cpuinfo")).exists():
        found = (line.partition(":")[2].strip() for line in facts.read_text().splitlines() if line[:10] == "model name")
        processor = next(found, processor)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "machine": f"{os.cpu_count()} cores ({processor}), {memory / 2**30:.0f} GiB of memory",
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("xmtc", "numpy", "scipy", "numba", "torch")},
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", type=names, default=CORPORA, help=",".join(CORPORA))
    parser.add_argument("--tools", type=names, default=list(TITLES), help=",".join(TITLES))
    parser.add_argument("--budget", help=f"of auto (tibkat {BUDGETS['tibkat']}, others {BUDGET})")
    parser.add_argument("--again", action="store_true", help="measure again what stands in the file already")
    parser.add_argument("--venvs", type=Path, default=VENVS, help=f"folder of the peers' environments ({VENVS})")
    parser.add_argument("--limit", type=float, default=1200, help="seconds after which a program is given up (1200)")
    parser.add_argument("--json", type=Path, default=RESULTS, help=f"file with the results ({RESULTS})")
    options = parser.parse_args()
    found = json.loads(options.json.read_text("utf-8")) if options.json.exists() else {}
    for name in options.corpus:
        rows = found.setdefault("corpora", {}).setdefault(name, {})
        for tool in options.tools:
            if not options.again and "P@1" in rows.get(tool, {}):
                print(f"{name}: {tool} was measured on {rows[tool]['date']}", file=sys.stderr)
                continue
            rows[tool] = measured(tool, name, options)
            found["about"] = machine()
            options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
