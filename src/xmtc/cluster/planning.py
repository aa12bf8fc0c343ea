"""What a training would take on a cluster, from its own blocks: some of them are done here and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from xmtc.cluster.ray_executor import PROCESS
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.strings import Strings
from xmtc.errors import OutOfMemory, XmtcError
from xmtc.executor import using
from xmtc.models.base import Model

B = TypeVar("B")
R = TypeVar("R")
SAMPLE = 8  # blocks that are timed, drawn evenly: the first are the longest


@dataclass(frozen=True)
class Plan:
    """What was measured; bytes and seconds of one core of this machine."""

    blocks: int
    seconds: float  # of all blocks, one after the other
    before: float  # seconds until the first block: features, which are made by the command's machine
    sent: int  # to each node
    returned: int  # from all nodes together
    memory: int  # of a block, with its process

    def at_once(self, cores: int, memory: int) -> int:
        """How many blocks a node with so much memory does at a time; an error if not even one."""
        room = (memory - self.sent) // self.memory
        if room < 1:
            needed = (self.sent + self.memory) / 2**30
            raise OutOfMemory(
                f"a node needs {needed:.1f} GiB at least, for the features and one block; take larger ones"
            )
        return min(cores, room)

    def on(self, nodes: int, cores: int, memory: int) -> float:
        """Seconds of the training on so many nodes like this machine, without moving data.

        >>> Plan(64, 640.0, 5.0, 1 << 20, 1 << 20, 1 << 30).on(4, 4, 64 << 30)
        45.0
        """
        rounds = -(-self.blocks // (nodes * self.at_once(cores, memory)))
        return self.before + rounds * self.seconds / self.blocks


class _Planned(Exception):
    """Enough is known: the training ends here."""


class _Planner:
    """An executor that does some blocks of the first task."""

    remote = False

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self.plan: Plan | None = None

    def map(
        self, task: Callable[[B], R], blocks: Sequence[B], done: Callable[[int, R], object], *, memory: int = 0
    ) -> None:
        before = time.perf_counter() - self._start
        sample = blocks[:: max(1, len(blocks) // SAMPLE)]
        task(sample[-1])  # compiles, or reads from the cache
        start = time.perf_counter()
        results = [task(block) for block in sample]
        share = len(blocks) / len(sample)
        self.plan = Plan(
            blocks=len(blocks),
            seconds=(time.perf_counter() - start) * share,
            before=before,
            sent=moved_size(task),
            returned=int(moved_size(results) * share),
            memory=PROCESS + memory,
        )
        raise _Planned


NUMBER = 8  # bytes
#: methods of which all blocks are known before the first is done
PLANNED = ("dismec", "proxml", "ppd_sparse", "slice", "fastxml", "pfastrexml", "craftml")


def plan(model: Model, corpus: Corpus) -> Plan:
    """What training the model on this corpus would take; makes its features and does a few blocks."""
    if model.name not in PLANNED:
        raise XmtcError(f"{model.name} cannot be planned; these can: {', '.join(PLANNED)}")
    planner = _Planner()
    try:
        with using(planner):
            model.fit(corpus)
    except _Planned:
        pass
    assert planner.plan is not None
    return planner.plan


def moved_size(value: Any) -> int:
    """Bytes that moving a value to another process takes, about: those of its arrays and texts.

    >>> moved_size({"weights": np.zeros(1000), "name": "a"})
    8012
    """
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Strings):  # a view moves only its own
        return moved_size(value.compact())
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Mapping):
        return moved_size([*value.keys(), *value.values()])
    if isinstance(value, Sequence | Set):
        return sum(map(moved_size, value))
    if isinstance(value, partial):
        return moved_size([value.args, value.keywords])
    if isinstance(value, type | FunctionType) or not hasattr(value, "__dict__"):
        return NUMBER
    return moved_size(vars(value))
