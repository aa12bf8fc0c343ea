"""Ctrl-C and SIGTERM: both end a command in order, so that nothing is left half-written."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED = 130, 143  # as shells say it: 128 and the number of the signal


class Resumable(Exception):
    """A training was stopped and left checkpoints: `--resume` goes on from them."""


class Stop:
    """Which exit code a command ends with that was stopped."""

    code = INTERRUPTED


@contextmanager
def terminable() -> Iterator[Stop]:
    """Let SIGTERM stop the block by KeyboardInterrupt, as Ctrl-C does; by default it would end the process at once."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def terminate(_signal: int, _frame: FrameType | None) -> None:
        stop.code = TERMINATED
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


def how_to_go_on(words: Sequence[str]) -> str:
    """What to say to whoever stopped a training that can go on.

    >>> how_to_go_on(["train", "my docs.csv", "--model", "dismec", "--out", "tagger"])
    "stopped; go on with: xmtc train 'my docs.csv' --model dismec --out tagger --resume"
    """
    resumed = [*words, *(["--resume"] if "--resume" not in words else [])]
    return f"stopped; go on with: {shlex.join(['xmtc', *resumed])}"
