"""`--threads N` before and after the command: so many cores in every library; a number that cannot be is one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.cli.app import app
from xmtc.cli.threads import limit_threads
from xmtc.thread_limits import VARIABLES

SCRIPT = """
import json, sys
from xmtc.cli import main
heavy = {"numpy", "numba", "torch", "pyarrow"} & set(sys.modules)
code = main(sys.argv[1:])
import numba, threadpoolctl
from xmtc import kernels
found = {"code": code, "numba": numba.get_num_threads(), "cores": kernels.cores(), "before": sorted(heavy)}
try:
    import torch
    found["torch"] = torch.get_num_threads()
except ImportError:
    pass
found["pools"] = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
print(json.dumps(found), file=sys.stderr)
"""


def found_with(folder: Path, *words: str) -> dict[str, object]:
    (folder / "docs.jsonl").write_text('{"text": "a ship", "labels": ["x"]}\n')
    free = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words], cwd=folder, capture_output=True, text=True, env=free, check=False
    )
    result: dict[str, object] = json.loads(run.stderr.splitlines()[-1])
    return result


@pytest.mark.parametrize("words", [("--threads", "1", "info", "docs.jsonl"), ("info", "docs.jsonl", "--threads=1")])
def test_every_library_gets_so_many_threads(tmp_path: Path, words: tuple[str, ...]) -> None:
    found = found_with(tmp_path, *words)
    assert (found["code"], found["before"]) == (0, []), "set before the libraries are imported"
    assert (found["numba"], found["cores"], found.get("torch", 1)) == (1, 1, 1)
    assert set(found["pools"]) <= {1}  # type: ignore[call-overload]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core is all there is")
def test_without_the_option_all_cores_are_used(tmp_path: Path) -> None:
    assert found_with(tmp_path, "info", "docs.jsonl")["cores"] == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("count", ["0", "-1", "x", "1.5", "", "100000", "９９９９９"])
@pytest.mark.parametrize("before", [True, False])
def test_an_impossible_number_is_one_line(capsys: pytest.CaptureFixture[str], count: str, before: bool) -> None:
    option = ["--threads", count]
    assert main([*option, "models", "knn"] if before else ["models", "knn", *option]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "--threads" in err


def test_nothing_said_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    limit_threads(None)
    assert os.environ["OMP_NUM_THREADS"] == "7"


@pytest.mark.parametrize("command", [each.callback.__name__ for each in app.registered_commands if each.callback])
def test_every_command_has_the_option(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "--help"]) == 0
    assert "--threads" in capsys.readouterr().out
