"""`RayExecutor`: blocks of work as tasks of Ray. Placing, moving and storing are Ray's; what is lost is asked again."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from xmtc.cluster.nodes import alive
from xmtc.errors import ClusterError, OutOfMemory
from xmtc.memory import written_size

B = TypeVar("B")
R = TypeVar("R")

ATTEMPTS = 4  # at a block, before the whole is given up
GROUPS_A_CORE = 32  # more blocks go together: asking for a task takes a millisecond
PROCESS = 256 << 20  # bytes that a worker takes before it has done anything


class Attempt(NamedTuple):
    """Blocks, by place, that were asked for together."""

    places: range
    number: int
    memory: int  # bytes that Ray keeps free for it


@dataclass
class Report:
    """What was done on the cluster so far."""

    tasks: int = 0
    again: Counter[str] = field(default_factory=Counter)  # reason -> how many tasks were done again for it

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} because {reason}" for reason, count in self.again.items())
        return f"{self.tasks:,} tasks, {f'done again: {reasons}' if reasons else 'none done again'}"


class RayExecutor:
    """Does blocks of work on the cluster that this process is connected to; `xmtc.cluster.connect` makes one."""

    remote = True

    def __init__(self) -> None:
        self.report = Report()
        self._sent: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def map(
        self, task: Callable[[B], R], blocks: Sequence[B], done: Callable[[int, R], object], *, memory: int = 0
    ) -> None:
        """As `xmtc.executor.Executor.map`."""
        import ray

        if not blocks:
            return
        if task not in self._sent:  # a level's task is that of the next level, too
            self._sent[task] = ray.put(task)
        run, sent = ray.remote(_do), self._sent[task]

        def ask(attempt: Attempt) -> Any:
            options = run.options(num_cpus=1, memory=attempt.memory, max_retries=0)
            return options.remote(sent, [blocks[at] for at in attempt.places])

        nodes = alive()
        asked = PROCESS + memory
        _check_room(asked, max(node.memory for node in nodes))
        groups = min(len(blocks), GROUPS_A_CORE * max(1, sum(node.cores for node in nodes)))
        # Every so manyth, since neighbours take about equally long, and the first the longest.
        first = [Attempt(range(at, len(blocks), groups), 1, asked) for at in range(groups)]
        waiting = {ask(attempt): attempt for attempt in first}
        try:
            while waiting:
                (answer,), _ = ray.wait(list(waiting))
                attempt = waiting.pop(answer)
                found = self._answer(answer, attempt)
                if isinstance(found, Attempt):
                    waiting[ask(found)] = found
                    continue
                self.report.tasks += 1
                for at, result in zip(attempt.places, found, strict=True):
                    done(at, result)
        finally:
            for answer in waiting:
                ray.cancel(answer, force=True)

    def close(self) -> None:
        """Give back what was sent. The next connection may name other things the same, and must not lose those."""
        self._sent.clear()
        gc.collect()

    def _answer(self, answer: Any, attempt: Attempt) -> list[Any] | Attempt:
        """The results of a task, or what is to be asked instead because it was lost; an error if that is enough."""
        import ray
        from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

        try:
            # Copied, since the object store of this machine could not hold all of a model.
            found: list[Any] = deepcopy(ray.get(answer))
            return found
        except RayTaskError as error:
            if not isinstance(error.cause, MemoryError):
                raise error.cause from None
            return self._again(attempt, "it was out of memory", more=True)
        except OutOfMemoryError:
            return self._again(attempt, "its node was out of memory", more=True)
        except RayError as error:
            return self._again(attempt, reason_of(error))

    def _again(self, attempt: Attempt, reason: str, more: bool = False) -> Attempt:
        """The next attempt; one with more memory gets up to all that the largest node has."""
        memory = attempt.memory
        if more:
            most = max(node.memory for node in alive())
            if memory >= most:
                raise OutOfMemory(f"{reason} with all of the largest node, {written_size(most)}; take larger nodes")
            memory = min(2 * memory, most)
        if attempt.number == ATTEMPTS:
            raise ClusterError(f"a task was tried {ATTEMPTS} times and lost each time, at last because {reason}")
        self.report.again[reason] += 1
        print(f"cluster: a task is done again because {reason}", file=sys.stderr)
        return Attempt(attempt.places, attempt.number + 1, memory)


def _do(task: Callable[[B], R], blocks: Sequence[B]) -> list[R]:
    return [task(block) for block in blocks]


def _check_room(asked: int, largest: int) -> None:
    if asked > largest:
        raise OutOfMemory(
            f"a block of this training needs about {written_size(asked)} of memory and the largest node has "
            f"{written_size(largest)} for tasks; use a smaller corpus, fewer terms or larger nodes"
        )


def reason_of(error: Exception) -> str:
    """Why a task was lost, in words.

    >>> reason_of(ValueError("its name is odd"))
    'ValueError: its name is odd'
    """
    known = {
        "WorkerCrashedError": "its process ended",
        "NodeDiedError": "its node was lost",
        "LocalRayletDiedError": "its node was lost",
        "ObjectLostError": "its result was lost with a node",
        "ObjectStoreFullError": "the object store was full",
        "OutOfDiskError": "the disk of its node was full",
    }
    kinds = [kind.__name__ for kind in type(error).__mro__]
    first = next(iter(str(error).strip().splitlines()), "")
    return next((known[kind] for kind in kinds if kind in known), f"{kinds[0]}: {first}")
