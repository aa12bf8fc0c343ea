"""Kernels under many threads, in forked children, and with small work."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from xmtc import kernels

THREADS = """
import threading
import numpy as np
from xmtc.kernels.ranking_metrics import find_hits
ids, indptr, indices = np.zeros((5000, 5), np.int32), np.arange(5001), np.zeros(5000, np.int32)
expected = find_hits(ids, indptr, indices)
wrong = []
def work():
    for _ in range(50):
        if not np.array_equal(find_hits(ids, indptr, indices), expected):
            wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong
"""
FORK = """
import os, threading
import numpy as np
from xmtc import kernels
from xmtc.kernels.ranking_metrics import find_hits
ids, indptr, indices = np.zeros((5000, 5), np.int32), np.arange(5001), np.zeros(5000, np.int32)
find_hits(ids, indptr, indices)
with kernels._one_at_a_time:  # as if another thread were in a kernel just now
    child = os.fork()
    if not child:
        find_hits(ids, indptr, indices)
        os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, "the child died or hung"
"""


@pytest.mark.parametrize("program", [THREADS, FORK], ids=["threads", "fork"])
def test_parallel_kernels(program: str) -> None:
    """With the layer that a user gets who sets nothing."""
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_THREADING_LAYER"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]


def doubled(values: Any) -> Any:
    answer = np.empty_like(values)
    for at in numba.prange(len(values)):
        answer[at] = 2 * values[at]
    return answer


def test_small_work_needs_no_lock() -> None:
    kernel = kernels.compiled(parallel=True, small=lambda values: len(values) < 3)(doubled)
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda n=n: found.append(kernel(np.arange(n)).tolist())) for n in (3, 2)]
    with kernels._one_at_a_time:  # as if another thread were in a parallel kernel
        for thread in threads:
            thread.start()
        threads[1].join(60)
        assert found == [[0, 2]]
    threads[0].join(60)
    assert found == [[0, 2], [0, 2, 4]]


CACHED = """
import numpy as np, sys
from kernel_with_two_versions import doubled
assert doubled(np.arange(2)).tolist() == [0, 2] and doubled(np.arange(3)).tolist() == [0, 2, 4]
print([(sum(version.stats.cache_hits.values()), len(version.overloads)) for version in doubled.versions])
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_both_versions_are_cached_apart(tmp_path: Path) -> None:
    """Numba's cache does not ask whether a function was compiled with threads, so one could be loaded as the other."""
    module = """
import numba, numpy as np
from xmtc.kernels import compiled

@compiled(parallel=True, small=lambda values: len(values) < 3)
def doubled(values):
    answer = np.empty_like(values)
    for at in numba.prange(len(values)):
        answer[at] = 2 * values[at]
    return answer
"""
    (tmp_path / "kernel_with_two_versions.py").write_text(module)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for hits in (0, 1):
        run = subprocess.run(
            [sys.executable, "-c", CACHED], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert run.stdout.strip() == str([(hits, 1), (hits, 1)]), run.stderr[-2000:]


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_loops_with_reordered_sums_are_part_of_their_callers() -> None:
    """Else a model differs in its last bits from one that is trained with kernels from the cache."""
    modules = [import_module(f"xmtc.kernels.{each.name}") for each in pkgutil.iter_modules(kernels.__path__)]
    loops = {
        f"{module.__name__}.{name}": loop.targetoptions
        for module in modules
        for name, loop in vars(module).items()
        if isinstance(loop, numba.core.dispatcher.Dispatcher) and loop.targetoptions.get("fastmath")
    }
    assert len(loops) > 10
    assert [name for name, options in loops.items() if not {"inline", "forceinline"} & chosen(options)] == []


def chosen(options: dict[str, Any]) -> set[str]:
    """The options that are set to more than "never"."""
    return {name for name, value in options.items() if value and value != "never"}
