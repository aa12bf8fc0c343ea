"""Kernels under many threads, in forked children, and installed where nothing can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from xmtc import kernels

THREADS = """
import threading
import numpy as np
from xmtc.kernels.ranking import find_hits
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
from xmtc.kernels.ranking import find_hits
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


def test_no_place_for_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only installation without a home: numba refuses to cache, and the kernel works all the same."""
    original = numba.njit

    def refuse(*arguments: Any, cache: bool = False, **options: Any) -> Callable[..., Any]:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        made: Callable[..., Any] = original(*arguments, **options)
        return made

    monkeypatch.setattr(numba, "njit", refuse)

    def total(values: Any) -> Any:
        return values.sum()

    assert kernels.compiled()(total)(np.arange(4)) == 6
