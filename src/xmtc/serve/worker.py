"""A thread that does one thing after the other beside the event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """One thread; the process does not wait for it when it ends, unlike for those of `asyncio.to_thread`.

    >>> worker = Worker("example")
    >>> asyncio.run(worker.do(lambda: 6 * 7))
    42
    >>> worker.stop()
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, job: Callable[[], None]) -> None:
        """Do this after what was submitted before; it tells its result, and its errors, by itself."""
        self._jobs.put(job)

    async def do(self, call: Callable[[], T]) -> T:
        """Call something, however long it takes; what it returns or raises."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def tell(set_outcome: Callable[[Any], None], outcome: Any) -> None:
            if not done.done():  # whoever asked may have given up
                set_outcome(outcome)

        def job() -> None:
            try:
                found = call()
            except Exception as error:
                loop.call_soon_threadsafe(tell, done.set_exception, error)
            else:
                loop.call_soon_threadsafe(tell, done.set_result, found)

        self.submit(job)
        return await done

    def stop(self) -> None:
        """End the thread when it has done what was submitted."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
