"""Several threads or processes that share a batch, each with a part of its documents, and threads for prediction.

On a CPU many small operations at once, one a core, are faster than each of them split over the cores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable

from xmtc.nn.dropout import DropoutRng

T = TypeVar("T")
R = TypeVar("R")


class Group(Protocol):
    """Workers that exchange tensors; each calls `exchange` as often as the others."""

    size: int

    def exchange(self, rank: int, values: Tensor) -> list[Tensor]:
        """What each worker has given, in the order of their ranks."""
        ...


@dataclass(frozen=True)
class Worker:
    """One of those that share a batch; without a group, the only one.

    >>> Worker(documents=4).mean(torch.tensor([1.0, 3.0])).item()
    1.0
    """

    documents: int  #: of the whole batch
    rng: DropoutRng | None = None
    rank: int = 0
    group: Group | None = None

    @property
    def size(self) -> int:
        """How many workers there are."""
        return 1 if self.group is None else self.group.size

    def mean(self, losses: Tensor) -> Tensor:
        """This worker's share of the mean over all documents of the batch."""
        return losses.sum() / self.documents

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all workers; gradients find their way back."""
        if self.group is None:
            return rows
        gathered: Tensor = _Gather.apply(rows, self)  # type: ignore[no-untyped-call]
        return gathered


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, worker: Worker) -> Tensor:
        assert worker.group is not None
        parts = worker.group.exchange(worker.rank, rows)
        ctx.worker, ctx.first = worker, sum(map(len, parts[: worker.rank]))
        ctx.last = ctx.first + len(rows)
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = sum(ctx.worker.group.exchange(ctx.worker.rank, gradients[0]))
        assert isinstance(total, Tensor)
        return total[ctx.first : ctx.last], None


class ThreadGroup:
    """Workers that are threads of one process."""

    def __init__(self, size: int) -> None:
        self.size, self._given = size, [torch.empty(0)] * size
        self._barrier = threading.Barrier(size)

    def exchange(self, rank: int, values: Tensor) -> list[Tensor]:
        """See `Group`."""
        self._given[rank] = values
        self._barrier.wait()
        found = [*self._given]
        self._barrier.wait()  # nobody gives something new before all have read
        return found

    def leave(self) -> None:
        """A worker has failed: the others do not wait for it."""
        self._barrier.abort()


class ProcessGroup:
    """Workers that are processes, joined by torch.distributed."""

    def __init__(self) -> None:
        self.size = distributed.get_world_size()

    def exchange(self, rank: int, values: Tensor) -> list[Tensor]:
        """See `Group`; the workers may have different numbers of rows."""
        counts = [torch.zeros(1, dtype=torch.int64, device=values.device) for _ in range(self.size)]
        distributed.all_gather(counts, torch.tensor([len(values)], device=values.device))
        most = int(torch.cat(counts).max())
        padded = torch.cat([values, values.new_zeros(most - len(values), *values.shape[1:])])
        found = [torch.empty_like(padded) for _ in counts]
        distributed.all_gather(found, padded)
        return [rows[: int(count)] for rows, count in zip(found, counts, strict=True)]

    def close(self) -> None:
        """End together; a process that ends with open connections may be aborted."""
        distributed.barrier()
        distributed.destroy_process_group()

    def add_up(self, rank: int, weights: Sequence[torch.nn.Parameter]) -> None:
        """Give every worker the sum of all workers' gradients; weights that no worker has a gradient of have none."""
        present = torch.tensor([weight.grad is not None for weight in weights], device=weights[0].device).int()
        sparse = torch.tensor([w.grad is not None and w.grad.is_sparse for w in weights], device=present.device).int()
        distributed.all_reduce(present)
        distributed.all_reduce(sparse)
        for weight, somewhere, by_rows in zip(weights, present.tolist(), sparse.tolist(), strict=True):
            if not somewhere:
                continue
            gradient = weight.grad
            if by_rows:
                own = (weight.new_zeros(0).long(), weight.new_zeros(0, *weight.shape[1:]))
                if gradient is not None:
                    gradient = gradient.coalesce()
                    own = (gradient.indices()[0], gradient.values())
                rows, values = (torch.cat(self.exchange(rank, part)) for part in own)
                weight.grad = torch.sparse_coo_tensor(rows[None], values, weight.shape, check_invariants=False)
            else:
                weight.grad = torch.zeros_like(weight) if gradient is None else gradient
                distributed.all_reduce(weight.grad)


def spans(documents: int, workers: int) -> list[slice]:
    """A batch in parts of about the same size, one for each worker.

    >>> [(part.start, part.stop) for part in spans(5, 2)]
    [(0, 3), (3, 5)]
    """
    return [slice(start, end) for start, end in pairwise(-(-documents * at // workers) for at in range(workers + 1))]


class Cores:
    """Threads that each keep one core busy with torch; see `torch_threads`."""

    def __init__(self, pool: ThreadPoolExecutor | None = None, count: int = 1) -> None:
        self._pool = pool
        self.count = count

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Results in order."""
        return map(work, items) if self._pool is None else self._pool.map(work, items)

    def work_together(self, work: Callable[[int, ThreadGroup], R], count: int) -> list[R]:
        """What `count` threads find, which may exchange tensors; an error of one ends the others."""
        group = ThreadGroup(count)

        def guarded(rank: int) -> R:
            try:
                return work(rank, group)
            except BaseException:
                group.leave()
                raise

        assert self._pool is not None
        try:
            futures = [self._pool.submit(guarded, rank) for rank in range(count)]
            errors = [error for future in futures if (error := future.exception()) is not None]
        except BaseException:  # ctrl-C, perhaps before all have begun
            group.leave()
            raise
        for error in sorted(errors, key=lambda each: isinstance(each, threading.BrokenBarrierError)):
            raise error
        return [future.result() for future in futures]

    def backward(
        self,
        loss_of: Callable[[slice, Worker], Tensor],
        weights: Sequence[torch.nn.Parameter],
        documents: int,
        threads: int,
        seed: int,
    ) -> Tensor:
        """Add the gradients of a batch's loss to those of the weights, by threads with a part of the documents each.

        `loss_of` gives a worker's share of the loss; returns the loss of the whole batch.
        """
        parts = spans(documents, threads)

        def work(rank: int, group: ThreadGroup) -> tuple[Tensor, list[Tensor | None]]:
            loss = loss_of(parts[rank], Worker(documents, DropoutRng(seed, parts[rank].start), rank, group))
            found = torch.autograd.grad(loss, weights, allow_unused=True)
            # Sorting rows takes a while, so each thread does it for itself; merging sorted rows is quick.
            return loss.detach(), [part.coalesce() if part is not None and part.is_sparse else part for part in found]

        found = self.work_together(work, threads)
        for _, gradients in found:
            for weight, gradient in zip(weights, gradients, strict=True):
                if gradient is not None:  # a part of the network may have had nothing to do
                    weight.grad = gradient if weight.grad is None else weight.grad + gradient
        return torch.stack([loss for loss, _ in found]).sum()


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
            yield Cores()
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
