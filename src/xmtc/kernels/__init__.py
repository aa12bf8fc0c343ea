"""Compiled loops (numba); no other room imports numba.

Compiled code is cached beside the package (or where NUMBA_CACHE_DIR says, see `xmtc.kernels.cache`), so only the first
use after an installation pays for compiling; `announced` says so on the terminal instead of leaving people to wonder.
`xmtc warm` compiles everything beforehand.

Any thread may call a kernel at any time, and so may a forked child. Numba's layers allow only one of the two: with
OpenMP a child dies at its first kernel, with the work queue a process dies when two threads are in kernels at once. So
the fork-safe layer is taken and a lock lets one parallel kernel run at a time; it uses all cores anyway. (OpenMP's
threads would also spin while they wait, at the expense of other processes.)

A loop whose sums may be reordered (`fastmath`) is a part of each loop that calls it (`forceinline`). On its own it
would exist twice, translated in two ways, and another one would be called after it was compiled than after it was read
from the cache: the first model that somebody trains would differ in its last bits from the same model trained again.

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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

from xmtc.kernels.cache import KernelCache

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
R = TypeVar("R")
SLOW_SECONDS = 2.0

if numba.config.THREADING_LAYER == "default":  # else the user has chosen
    numba.config.THREADING_LAYER = "forksafe"

_one_at_a_time = threading.Lock()
_kernels: list[Any] = []  # those with a cache
_warming = False
_seconds_compiling = 0.0
_said_where = False


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
            options |= {"fastmath": {"contract"}, "error_model": "numpy", "forceinline": not inlined}
        kernel = numba.njit(**options)(function)
        if has_file:
            kernel._cache = KernelCache(function)
            _kernels.append(kernel)
        return cast(F, kernel)

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
            if _warming and parallel and small:
                _compile(kernel, given)
                _compile(serial, given)
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
        _announce(kernel, time.perf_counter() - start)
    return result


def _announce(kernel: Any, seconds: float) -> None:
    """Say that compiling took long and, the first time, whether the next start will be quicker."""
    global _seconds_compiling, _said_where
    _seconds_compiling += seconds
    kept = kernel._cache
    told = isinstance(kept, KernelCache) and kept.unwritable  # before it was compiled
    # Many kernels that are compiled anew at every start take long together.
    lost = isinstance(kept, KernelCache) and not kept.written and not told
    if seconds <= SLOW_SECONDS and (_said_where or not lost or _seconds_compiling <= SLOW_SECONDS):
        return
    where = ""
    if isinstance(kept, KernelCache) and not told and not _said_where:
        _said_where = True
        missing = f"not cached: {kept.place} cannot be written; see `xmtc warm`"
        where = f" ({missing})" if lost else f" (once; cached in {kept.place})"
    print(f"compiled {kernel.__name__} in {seconds:.1f} s{where}", file=sys.stderr)


@contextmanager
def warming() -> Iterator[Warmth]:
    """In this block a call compiles every version of its kernel, also the one for more or less work.

    >>> with warming() as warmth:
    ...     pass
    >>> warmth.compiled, warmth.found
    (0, 0)
    """
    global _warming
    warmth = Warmth(_statistics())
    _warming = True
    try:
        yield warmth
    finally:
        _warming = False


class Warmth:
    """What `warming` has done so far: versions that were compiled, and that were found in the cache."""

    def __init__(self, before: tuple[int, int]) -> None:
        self._before = before

    @property
    def compiled(self) -> int:
        """How many versions were compiled."""
        return _statistics()[0] - self._before[0]

    @property
    def found(self) -> int:
        """How many versions the cache had."""
        return _statistics()[1] - self._before[1]

    @property
    def unwritten(self) -> str:
        """A folder into which a version could not be written, "" if all were."""
        lost = (kernel._cache for kernel in _kernels if sum(kernel.stats.cache_misses.values()))
        return next((kept.place for kept in lost if not kept.written), "")


def _statistics() -> tuple[int, int]:
    """How many versions were compiled in this process, and how many were found in the cache."""
    stats = [kernel.stats for kernel in _kernels]
    counts = ((sum(each.cache_misses.values()), sum(each.cache_hits.values())) for each in stats)
    compiled, found = zip(*counts, strict=True) if stats else ((), ())
    return sum(compiled), sum(found)


def cache_folders() -> list[str]:
    """The folders in which this process has found compiled kernels, or to which it has written them.

    >>> len(cache_folders()) >= 0
    True
    """
    return sorted({folder for kernel in _kernels for folder in kernel._cache.used})


def nothing_compiled() -> bool:
    """Whether kernels are yet to be compiled and can be kept, as right after an installation.

    >>> nothing_compiled() in (True, False)
    True
    """
    from xmtc.kernels import csr

    kept = getattr(csr.local_rows, "_cache", None)
    return isinstance(kept, KernelCache) and not kept.unwritable and not any(Path(kept.place).glob("*.nbi"))


def _compile(kernel: Any, arguments: list[Any]) -> None:
    """Compile a version for arguments like these, or take it from the cache."""
    if not numba.config.DISABLE_JIT:
        kernel.compile(tuple(map(kernel.typeof_pyval, arguments)))


def _frozen(argument: Any) -> Any:
    """Arrays, also those of a named tuple, as read-only views: memory-mapped and others then share a version."""
    if isinstance(argument, np.ndarray):
        if not argument.flags.writeable:
            return argument
        view = argument.view()
        view.flags.writeable = False
        return view
    if isinstance(argument, tuple):
        return argument._make([_frozen(each) for each in argument])  # type: ignore[attr-defined]
    return argument


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
