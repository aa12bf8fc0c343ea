"""Time budgets: durations as text, trainings that end in time or as found, an alarm for work that does not end."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping
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


_noted: ContextVar[dict[str, float] | None] = ContextVar("noted", default=None)
_epochs: ContextVar[Mapping[str, float] | None] = ContextVar("epochs", default=None)


@contextmanager
def noting_epochs() -> Iterator[dict[str, float]]:
    """Collect after how many epochs each network that is trained in the block was best, by the training's name.

    >>> with noting_epochs() as noted:
    ...     note_epochs("model0", 2.5)
    >>> noted
    {'model0': 2.5}
    """
    noted: dict[str, float] = {}
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def note_epochs(name: str, epochs: float) -> None:
    """Tell how many epochs were best, to whoever wants to know."""
    if (noted := _noted.get()) is not None:
        noted[name] = epochs


@contextmanager
def epochs_as_found(epochs: Mapping[str, float]) -> Iterator[None]:
    """End each training of the block that is named here after so many epochs, as an earlier one found to be best.

    >>> with epochs_as_found({"model0": 2.5}):
    ...     epochs_to_train("model0"), epochs_to_train("model1")
    (2.5, None)
    """
    token = _epochs.set(epochs)
    try:
        yield
    finally:
        _epochs.reset(token)


def epochs_to_train(name: str) -> float | None:
    """After how many epochs a training is to end; None if it is to find out itself."""
    epochs = _epochs.get()
    return epochs.get(name) if epochs is not None else None


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
