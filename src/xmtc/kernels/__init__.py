"""Compiled loops (numba); no other room imports numba.

Compiled code is cached beside the package, so only the first use after an installation pays for compiling; `announced`
says so on the terminal instead of leaving people to wonder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
SLOW_SECONDS = 2.0


def compiled(parallel: bool = False) -> Callable[[F], F]:
    """Compile a loop over arrays, cached on disk; tells on standard error when compiling took long.

    A kernel only reads its arguments and returns new arrays.

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
        # A function typed into a prompt has no file to keep a cache beside.
        has_file = not function.__code__.co_filename.startswith("<")
        kernel = numba.njit(cache=has_file, parallel=parallel, nogil=True)(function)

        @wraps(function)
        def announced(*arguments: Any) -> Any:
            before = len(kernel.signatures)
            start = time.perf_counter()
            result = kernel(*(_frozen(a) if isinstance(a, np.ndarray) else a for a in arguments))
            if len(kernel.signatures) > before and sum(kernel.stats.cache_misses.values()):
                spent = time.perf_counter() - start
                if spent > SLOW_SECONDS:
                    print(f"compiled {function.__name__} in {spent:.1f} s (once; cached)", file=sys.stderr)
            return result

        announced.kernel = kernel  # type: ignore[attr-defined]  # for calls from other kernels
        return cast(F, announced)

    return decorate


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: memory-mapped and ordinary arrays then share one compiled version."""
    view = array.view()
    view.flags.writeable = False
    return view
