"""Work on many files by Ray Data: each process prepares once, such as loading a model, and takes file after file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from xmtc.cluster.nodes import alive
from xmtc.cluster.ray_executor import PROCESS
from xmtc.errors import XmtcError
from xmtc.thread_limits import VARIABLES


class Done(NamedTuple):
    """What became of a file: what the work returned, or why it failed."""

    file: str
    result: int
    error: str


def each_file(prepare: Callable[[], Callable[[str], int]], files: Sequence[str], memory: int) -> Iterator[Done]:
    """work(file) of each file, as they are finished, where `work` is what `prepare` returns in each process.

    A process has one core and takes about `memory` bytes. What a user can mend (an XmtcError) fails that file alone.
    """
    import ray
    from ray.data import ActorPoolStrategy, DataContext

    if not files:
        return
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    DataContext.get_current().enable_progress_bars = False  # there is our own
    processes = min(len(files), max(1, sum(node.cores for node in alive())))
    rows = ray.data.from_items([{"file": file} for file in files], override_num_blocks=len(files)).map_batches(
        _Actor,
        fn_constructor_args=[prepare],
        batch_size=1,
        compute=ActorPoolStrategy(size=processes),
        num_cpus=1,
        memory=PROCESS + memory,
    )
    for row in rows.iter_rows():
        yield Done(str(row["file"]), int(row["result"]), str(row["error"]))


class _Actor:
    def __init__(self, prepare: Callable[[], Callable[[str], int]]) -> None:
        os.environ.update(dict.fromkeys(VARIABLES, "1"))  # read when `prepare` imports what computes
        self._work = prepare()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        done = [self._one(str(file)) for file in batch["file"]]
        return {name: list(column) for name, column in zip(Done._fields, zip(*done, strict=True), strict=True)}

    def _one(self, file: str) -> Done:
        try:
            return Done(file, self._work(file), "")
        except (XmtcError, OSError) as error:
            return Done(file, 0, str(error))
