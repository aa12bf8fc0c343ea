"""Work in threads: in order, errors come out, and nothing is started for nothing."""

from __future__ import annotations

import threading
import time

import pytest

from xmtc.kernels import in_threads


def test_results_come_in_order() -> None:
    def slow_first(at: int) -> int:
        time.sleep(0.02 if at == 0 else 0)
        return at

    assert in_threads(slow_first, range(20)) == list(range(20))


@pytest.mark.parametrize("pieces", [1, 5])
def test_an_error_comes_out(pieces: int) -> None:
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda at: 1 // at, range(pieces))


def test_one_piece_needs_no_thread() -> None:
    assert in_threads(lambda _: threading.current_thread(), [0]) == [threading.current_thread()]
    assert in_threads(lambda at: at, []) == []
