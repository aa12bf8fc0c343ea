"""Two ways to use two cores: many small operations at once, one a core, are faster than each split over the cores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


class Cores:
    """Threads that each keep one core busy with torch; see `torch_threads`."""

    def __init__(self, pool: ThreadPoolExecutor | None, count: int) -> None:
        self._pool = pool
        self.count = count

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Results in order."""
        return map(work, items) if self._pool is None else self._pool.map(work, items)


@contextmanager
def torch_threads(most: int | None = None) -> Iterator[Cores]:
    """A thread for each core that torch would use, at most `most`; with one, work stays in this thread.

    >>> with torch_threads() as cores:
    ...     list(cores.map(lambda n: n * n, [1, 2, 3]))
    [1, 4, 9]
    """
    torch.set_flush_denormal(True)  # numbers near zero would make an LSTM many times slower
    before = torch.get_num_threads()
    count = min(before, most or before)
    if count == 1:
        try:
            yield Cores(None, 1)
        finally:
            torch.set_flush_denormal(False)  # other code in this thread may count on them
        return
    # This thread's own operations are small; sharing them would wait for a core that is busy.
    torch.set_num_threads(1)
    ready = threading.Barrier(count)

    def begin() -> None:
        torch.set_num_threads(1)  # holds for the calling thread
        torch.set_flush_denormal(True)
        ready.wait()

    pool = ThreadPoolExecutor(count)
    try:
        for started in [pool.submit(begin) for _ in range(count)]:  # the barrier makes each thread run it once
            started.result()
        yield Cores(pool, count)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)
        torch.set_flush_denormal(False)
