"""Where independent blocks of work are done: on the cores of this machine or, within `using`, somewhere else.

Methods know only this: they hand a task and its blocks to `current_executor().map`. What a block gives must not depend
on where it is done, so seeds and the division into blocks are fixed before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from xmtc.kernels import in_threads

B = TypeVar("B")
R = TypeVar("R")


class Executor(Protocol):
    """Does blocks of work; see `LocalExecutor` and `xmtc.cluster`."""

    #: Whether other processes do it, so that work which has threads of its own here is worth dividing, too.
    remote: bool

    def map(
        self, task: Callable[[B], R], blocks: Sequence[B], done: Callable[[int, R], object], *, memory: int = 0
    ) -> None:
        """Call done(place, task(block)) for each block as soon as it is finished, in any order and on any thread.

        A block keeps one core busy and takes about `memory` bytes beside what the task holds. The task, an object that
        can be pickled, holds what all blocks share; it reaches each machine once, also when it is mapped several times.
        Its arrays may be read-only there.
        """


class LocalExecutor:
    """The cores of this machine, as threads.

    >>> squares = {}
    >>> LocalExecutor().map(lambda number: number * number, [3, 4], squares.__setitem__)
    >>> sorted(squares.items())
    [(0, 9), (1, 16)]
    """

    remote = False

    def map(
        self, task: Callable[[B], R], blocks: Sequence[B], done: Callable[[int, R], object], *, memory: int = 0
    ) -> None:
        """As `Executor.map`; a model checks before it begins that the memory is there."""
        in_threads(lambda at: done(at, task(blocks[at])), range(len(blocks)))


_current: ContextVar[Executor | None] = ContextVar("executor", default=None)


def current_executor() -> Executor:
    """What does blocks of work now: the cores of this machine, unless `using` says otherwise.

    >>> type(current_executor()).__name__
    'LocalExecutor'
    """
    return _current.get() or LocalExecutor()


@contextmanager
def using(executor: Executor) -> Iterator[None]:
    """Let models that are trained in the block hand their work to this executor.

    >>> mine = LocalExecutor()
    >>> with using(mine):
    ...     current_executor() is mine
    True
    """
    before = _current.set(executor)
    try:
        yield
    finally:
        _current.reset(before)
