"""Progress on standard error: nothing for quick work, a bar with an ETA (in a log: a line now and then) for long."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

QUIET_SECONDS = 2.0
LOG_SECONDS = 10.0


class Progress:
    """Steps of one piece of work; see `progress`."""

    def __init__(self, what: str, total: float | None) -> None:
        self.what = what
        self.total = total
        self.done = 0.0
        self._start = time.monotonic()
        self._next = self._start + QUIET_SECONDS
        self._shown = False

    def advance(self, steps: float = 1) -> None:
        """Count this many further steps as done."""
        self.done += steps
        now = time.monotonic()
        if now >= self._next:
            terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
            self._next = now + (0.2 if terminal else LOG_SECONDS)
            line = f"\r\x1b[2K{self._line(bar=True)}" if terminal else f"{self._line(bar=False)}\n"
            print(line, end="", file=sys.stderr, flush=True)
            self._shown = terminal

    def _line(self, bar: bool) -> str:
        spent = time.monotonic() - self._start
        if not self.total or not self.done:
            return f"{self.what}: {self.done:,.0f} done, {clock(spent)}"
        share = min(1.0, self.done / self.total)
        times = f"{clock(spent)} spent, {clock(spent / share - spent)} to go"
        if not bar:
            return f"{self.what}: {share:.0%}, {times}"
        return f"{self.what} {'━' * round(24 * share)}{'─' * (24 - round(24 * share))} {share:4.0%}, {times}"

    def close(self) -> None:
        """Clear the bar."""
        if self._shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """Seconds as people write them.

    >>> clock(7.4), clock(75), clock(3700)
    ('7 s', '1:15', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Progress]:
    """Show the progress of the work in the block, after its first two seconds.

    >>> with progress("counting", total=3) as bar:
    ...     for _ in range(3):
    ...         bar.advance()
    """
    bar = Progress(what, total)
    try:
        yield bar
    finally:
        bar.close()


def track(items: Iterable[T], what: str) -> Iterator[T]:
    """Iterate with progress."""
    with progress(what, len(items) if isinstance(items, Sized) else None) as bar:
        for item in items:
            yield item
            bar.advance()
