"""Time budgets: durations as text, training that ends in time, and an alarm for work that does not end."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from xmtc.errors import ConfigError

UNITS = {"h": 3600, "m": 60, "s": 1}


def seconds_in(text: str) -> float:
    """The seconds in a duration such as 90s, 30m or 1h30m.

    >>> seconds_in("90s"), seconds_in("30m"), seconds_in("1h30m"), seconds_in("1.5h")
    (90.0, 1800.0, 5400.0, 5400.0)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text.strip())
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    if not seconds or "".join(map("".join, parts)) != text.strip():
        raise ConfigError(f"{text!r} is no duration; write 90s, 30m or 1h30m")
    return seconds


class TimeLimit:
    """Time for several successive trainings; each may take its share of what is left."""

    def __init__(self, seconds: float, trainings: int) -> None:
        self._end = time.monotonic() + seconds
        self._left = trainings

    def next_end(self) -> float:
        """When (`time.monotonic`) the training that begins now is to end."""
        now = time.monotonic()
        share = (self._end - now) / max(1, self._left)
        self._left -= 1
        return now + share


_limit: ContextVar[TimeLimit | None] = ContextVar("limit", default=None)


@contextmanager
def time_limit(seconds: float, trainings: int = 1) -> Iterator[None]:
    """Limit the time of the network trainings in the block; each ends with the best weights it has by then.

    >>> with time_limit(60, trainings=2):
    ...     0 < end_of_training() - time.monotonic() <= 30
    True
    >>> end_of_training() is None
    True
    """
    before = _limit.set(TimeLimit(seconds, trainings))
    try:
        yield
    finally:
        _limit.reset(before)


def end_of_training() -> float | None:
    """When (`time.monotonic`) the training that begins now is to end; None if there is no limit."""
    limit = _limit.get()
    return limit.next_end() if limit is not None else None


class Alarm:
    """Whether the alarm rang; see `alarm`."""

    rang = False


@contextmanager
def alarm(seconds: float) -> Iterator[Alarm]:
    """Stop the block by KeyboardInterrupt, as Ctrl-C does, when its time is up.

    On Windows and outside of the main thread that is not possible: the block runs to its end.

    >>> with alarm(60) as clock:
    ...     pass
    >>> clock.rang
    False
    """
    state = Alarm()
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield state
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        state.rang = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield state
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
