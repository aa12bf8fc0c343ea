"""Cores at work: one torch thread each, results in order, parts of a batch that meet, all as before in the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from xmtc.nn.parallel import ThreadGroup, Worker, spans, torch_threads


@pytest.fixture(autouse=True)
def three_cores() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("most", "count"), [(None, 3), (2, 2), (1, 1), (9, 3)])
def test_so_many_cores(most: int | None, count: int) -> None:
    with torch_threads(most) as cores:
        assert cores.count == count
        assert list(cores.map(lambda n: n * n, range(20))) == [n * n for n in range(20)]


def test_each_core_is_a_thread_that_splits_nothing_further() -> None:
    together = threading.Barrier(3, timeout=30)  # broken unless three threads are at it at once

    def work(_: int) -> tuple[int, int]:
        together.wait()
        return torch.get_num_threads(), threading.get_ident()

    with torch_threads() as cores:
        threads, names = zip(*cores.map(work, range(3)), strict=True)
    assert threads == (1, 1, 1)
    assert len({*names, threading.get_ident()}) == 4
    assert torch.get_num_threads() == 3


def test_an_error_comes_through_and_leaves_no_thread_behind() -> None:
    running = threading.active_count()
    with pytest.raises(ZeroDivisionError), torch_threads() as cores:
        list(cores.map(lambda n: 1 // n, range(3)))
    assert torch.get_num_threads() == 3
    assert threading.active_count() == running


@given(st.integers(0, 200), st.integers(1, 9))
def test_spans_share_all_documents_evenly(documents: int, workers: int) -> None:
    parts = spans(documents, workers)
    assert len(parts) == workers
    assert [at for part in parts for at in range(documents)[part]] == list(range(documents))
    sizes = [part.stop - part.start for part in parts]
    assert max(sizes) - min(sizes) <= 1


def mixed(rows: Tensor, others: Tensor, worker: Worker) -> Tensor:
    """A worker's share of something in which every row meets every other, in several ways."""
    everyone, twice = worker.gather(rows), worker.gather(2 * others)
    closeness = (rows @ everyone.T).softmax(1) @ twice
    alike = worker.gather(closeness.square())
    return worker.mean(closeness.sum(1)) + (alike.T @ everyone).sin().sum() / worker.size


@given(st.integers(3, 11), st.integers(0, 99))
def test_what_threads_gather_is_what_one_has(documents: int, seed: int) -> None:
    torch.manual_seed(seed)
    rows, others, weight = (
        torch.randn(shape, dtype=torch.float64) for shape in ((documents, 4), (documents, 4), (4, 4))
    )
    parts = spans(documents, 3)

    def work(rank: int, group: ThreadGroup | None) -> tuple[Tensor, Tensor]:
        part = parts[rank] if group is not None else slice(None)
        learned = weight.clone().requires_grad_()
        value = mixed((rows[part] @ learned).tanh(), others[part] * learned.sum(), Worker(documents, None, rank, group))
        return value.detach(), torch.autograd.grad(value, learned)[0]

    with torch_threads() as cores:
        found = cores.work_together(work, 3)
    value, gradient = work(0, None)
    torch.testing.assert_close(torch.stack([each for each, _ in found]).sum(), value)
    torch.testing.assert_close(torch.stack([each for _, each in found]).sum(0), gradient)


def test_gathered_rows_are_in_the_order_of_the_ranks_whatever_their_type() -> None:
    given = [torch.tensor([[1, 2]]), torch.empty(0, 2, dtype=torch.int64), torch.tensor([[3, 4], [5, 6]])]
    kinds = [torch.int64, torch.bool, torch.float64]

    def work(rank: int, group: ThreadGroup) -> list[Tensor]:
        worker = Worker(3, None, rank, group)
        assert (worker.size, worker.rank) == (3, rank)
        return [worker.gather(given[rank].to(kind)) for kind in kinds]

    with torch_threads() as cores:
        for found in cores.work_together(work, 3):
            for gathered, kind in zip(found, kinds, strict=True):
                assert gathered.dtype == kind
                assert torch.equal(gathered, torch.cat(given).to(kind))


def test_a_worker_alone_gathers_its_own_rows() -> None:
    rows = torch.ones(2, 3, requires_grad=True)
    assert Worker(2).gather(rows) is rows
    assert Worker(2).size == 1


@pytest.mark.parametrize("fails", [0, 1, 2])
@pytest.mark.parametrize("backward", [False, True])
def test_an_error_of_one_thread_ends_those_that_wait_for_it(fails: int, backward: bool) -> None:
    def work(rank: int, group: ThreadGroup) -> None:
        worker, rows = Worker(3, None, rank, group), torch.ones(1, requires_grad=True)
        if rank == fails and not backward:
            raise ZeroDivisionError("of this thread")
        gathered = worker.gather(rows)
        if rank == fails:
            raise ZeroDivisionError("of this thread")
        gathered.sum().backward()  # type: ignore[no-untyped-call]

    running = threading.active_count()
    with pytest.raises(ZeroDivisionError, match="of this thread"), torch_threads() as cores:
        cores.work_together(work, 3)
    assert threading.active_count() == running


def test_after_an_error_the_threads_work_again() -> None:
    def work(rank: int, group: ThreadGroup, fails: int = -1) -> int:
        return int(Worker(3, None, rank, group).gather(torch.tensor([rank // (rank != fails)])).sum())

    with torch_threads() as cores:
        with pytest.raises(ZeroDivisionError):
            cores.work_together(lambda rank, group: work(rank, group, fails=1), 3)
        assert cores.work_together(work, 3) == [3, 3, 3]


def test_ctrl_c_before_all_threads_have_begun_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()

    def work(rank: int, group: ThreadGroup) -> Tensor:
        waits.set()
        return Worker(2, None, rank, group).gather(torch.ones(1))

    with pytest.raises(KeyboardInterrupt), torch_threads() as cores:
        submit = cores._pool.submit  # type: ignore[union-attr]
        begun: list[Future[Any]] = []

        def interrupted(*call: Any) -> Future[Any]:
            if begun:
                waits.wait()
                raise KeyboardInterrupt
            begun.append(submit(*call))
            return begun[0]

        monkeypatch.setattr(cores._pool, "submit", interrupted)
        cores.work_together(work, 2)
    assert isinstance(begun[0].exception(), threading.BrokenBarrierError)
