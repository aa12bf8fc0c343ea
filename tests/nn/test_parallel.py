"""Cores at work: one torch thread each, results in order, everything as before in the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from xmtc.nn.parallel import torch_threads


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
