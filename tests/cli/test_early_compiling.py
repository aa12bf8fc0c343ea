"""The demo's kernels are compiled by another process, if there are none yet; and that process ends with the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from xmtc.cli import early_compiling

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

STARTED = """
import subprocess, sys
from xmtc.cli.early_compiling import early_compiling
children = []
class Child:
    def __init__(self, command, **_): children.append(command[-1])
    def terminate(self): children.append("terminated")
    def wait(self): children.append("waited for")
subprocess.Popen = Child
with early_compiling():
    children.append("demo")
print(children)
"""


def printed(cache: Path, cores: int = 2) -> str:
    variables = {"NUMBA_CACHE_DIR": str(cache), "NUMBA_NUM_THREADS": str(cores)}
    run = subprocess.run(
        [sys.executable, "-c", STARTED], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def test_only_where_nothing_was_compiled(tmp_path: Path) -> None:
    assert printed(tmp_path / "new") == "['xmtc.cli.early_compiling', 'demo', 'terminated', 'waited for']"
    assert printed(tmp_path / "new", cores=1) == "['demo']"
    (folder,) = (tmp_path / "new").iterdir()
    (folder / "a-kernel.nbi").touch()
    assert printed(tmp_path / "new") == "['demo']"


def test_compiles_what_methods_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_compiling, "METHODS", ("dismec",))
    monkeypatch.setattr(os, "nice", lambda _: 0)
    early_compiling.main()
    from xmtc.kernels.coordinate_descent import train_node

    assert train_node.versions[0].overloads  # type: ignore[attr-defined]
