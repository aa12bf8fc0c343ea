"""Compiled loops (numba); no other room imports numba.

Compiled code is cached beside the package (or where NUMBA_CACHE_DIR says), so only the first use after an installation
pays for compiling; `announced` says so on the terminal instead of leaving people to wonder.

Any thread may call a kernel at any time, and so may a forked child. Numba's layers allow only one of the two: with
OpenMP a child dies at its first kernel, with the work queue a process dies when two threads are in kernels at once. So
the fork-safe layer is taken and a lock lets one parallel kernel run at a time; it uses all cores anyway. (OpenMP's
threads would also spin while they wait, at the expense of other processes.)

With NUMBA_DISABLE_JIT=1 kernels run as they stand, in Python: for a debugger, and many times slower.

Starting threads takes longer than reading a short text, so a parallel kernel may have a serial version too, for small
work; it needs no lock.

Kernels sort by `np.sort` and find an order by `np.argsort(..., kind="mergesort")`, never by another argsort: numba
gives the quicksorts of both the same name if they were compiled in different processes, and takes one for the other
when it finds them in its cache, which ends the process.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import types
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
R = TypeVar("R")
SLOW_SECONDS = 2.0

if numba.config.THREADING_LAYER == "default":  # else the user has chosen
    numba.config.THREADING_LAYER = "forksafe"

_one_at_a_time = threading.Lock()


def _fresh_lock() -> None:
    """A thread that held the lock when a child was forked does not exist in the child, and would never release it."""
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_lock)


def jitted(parallel: bool = False, relaxed: bool = False, inlined: bool = False) -> Callable[[F], F]:
    """Compile a loop that only other kernels call; like `compiled`, it is cached on disk where that is possible.

    Many numbers can be divided at once only if a division by zero is no error; and a product that is added to may be
    rounded with the sum (`relaxed`). What is `inlined` becomes a part of the loops that call it.

    >>> @jitted()
    ... def double(value):
    ...     return 2 * value
    >>> double(4)
    8
    """

    def decorate(function: F) -> F:
        if numba.config.DISABLE_JIT:
            return np.errstate(all="ignore")(function)  # as in compiled code
        # A function typed into a prompt has no file to keep a cache beside.
        has_file = not function.__code__.co_filename.startswith("<")
        options: dict[str, Any] = {"parallel": parallel, "nogil": True, "inline": "always" if inlined else "never"}
        if relaxed:
            options |= {"fastmath": {"contract"}, "error_model": "numpy"}
        try:
            return cast(F, numba.njit(cache=has_file, **options)(function))
        except RuntimeError:
            # No folder for the cache can be written (a read-only installation, no home): compiled anew in each process.
            return cast(F, numba.njit(**options)(function))

    return decorate


def compiled(parallel: bool = False, small: Callable[..., bool] | None = None, writes: int = 0) -> Callable[[F], F]:
    """Compile a loop over arrays, cached on disk; tells on standard error when compiling took long.

    A kernel only reads its arguments and returns new arrays, but for the last `writes` ones, too large to be copied,
    which it changes. `small`, for a parallel kernel, gets the same arguments and says whether the work is too little to
    share: then a version without threads does it, with the same result.

    >>> import numpy as np
    >>> @compiled()
    ... def total(values):
    ...     result = 0
    ...     for value in values:
    ...         result += value
    ...     return result
    >>> int(total(np.arange(4)))
    6
    """

    def decorate(function: F) -> F:
        kernel: Any = jitted(parallel)(function)
        serial: Any = jitted()(_renamed(function)) if small else kernel

        @wraps(function)
        def announced(*arguments: Any) -> Any:
            read = len(arguments) - writes
            given = [*map(_frozen, arguments[:read]), *arguments[read:]]
            if not parallel or (small and small(*given)):
                return _called(serial, given)
            with _one_at_a_time:
                return _called(kernel, given)

        announced.versions = (kernel, serial)  # type: ignore[attr-defined]  # for tests
        return cast(F, announced)

    return decorate


def _renamed(function: F) -> F:
    """The same function under another name: numba's cache on disk knows versions by name, not by their options."""
    same = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    same.__qualname__ = f"{function.__qualname__}_serial"
    return cast(F, same)


def _called(kernel: Any, arguments: list[Any]) -> Any:
    if numba.config.DISABLE_JIT:
        with np.errstate(over="ignore"):  # hashes are meant to overflow
            return kernel(*arguments)
    before = len(kernel.overloads)
    start = time.perf_counter()
    result = kernel(*arguments)
    if len(kernel.overloads) > before and sum(kernel.stats.cache_misses.values()):
        spent = time.perf_counter() - start
        if spent > SLOW_SECONDS:
            print(f"compiled {kernel.__name__} in {spent:.1f} s (once; cached)", file=sys.stderr)
    return result


def _frozen(argument: Any) -> Any:
    """Arrays, also those of a named tuple, as read-only views: memory-mapped and others then share a version."""
    if isinstance(argument, tuple):
        return argument._make(map(_frozen, argument))  # type: ignore[attr-defined]
    if not isinstance(argument, np.ndarray) or not argument.flags.writeable:
        return argument
    view = argument.view()
    view.setflags(write=False)
    return view


def cores() -> int:
    """How many cores the kernels use (all, or NUMBA_NUM_THREADS).

    >>> cores() >= 1
    True
    """
    return int(numba.config.NUMBA_NUM_THREADS)


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Do independent pieces of work, in which serial kernels take most of the time, on all cores; results in order.

    >>> in_threads(lambda n: n * n, range(4))
    [0, 1, 4, 9]
    """
    pieces = list(items)
    if len(pieces) < 2:  # as at the root of a tree
        return [work(piece) for piece in pieces]
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(work, pieces))
