"""Durations in words, shares of a time limit, and the alarm."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from xmtc.budget import TimeLimit, alarm, end_of_training, seconds_in, time_limit
from xmtc.errors import ConfigError


@pytest.mark.parametrize("text", ["", "30", "m", "-5m", "5 m", "5x", "0s", "1h-3m", "five minutes"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ConfigError, match="is no duration; write 90s, 30m or 1h30m"):
        seconds_in(text)


def test_each_training_has_its_share_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    limit = TimeLimit(60, trainings=3)
    assert limit.next_end() == 120
    now = 110.0  # it ended early
    assert limit.next_end() == 135
    now = 150.0  # it took longer
    assert limit.next_end() == 160
    assert limit.next_end() == 160, "one more than was said has what is left"


def test_limits_end_with_their_block() -> None:
    with time_limit(60):
        with time_limit(5):
            assert (end_of_training() or 0) < time.monotonic() + 6
        assert (end_of_training() or 0) > time.monotonic() + 50
    assert end_of_training() is None


def test_the_alarm_stops_a_block() -> None:
    before = signal.getsignal(signal.SIGALRM)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), alarm(0.1) as bell:
        time.sleep(30)
    assert bell.rang
    assert time.monotonic() - start < 20
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_alarm_is_off_after_the_block() -> None:
    with alarm(0.2) as bell:
        pass
    time.sleep(0.4)
    assert not bell.rang


def test_ctrl_c_is_not_the_alarm() -> None:
    with pytest.raises(KeyboardInterrupt), alarm(60) as bell:
        raise KeyboardInterrupt
    assert not bell.rang


def test_another_thread_runs_to_its_end() -> None:
    ended = []

    def work() -> None:
        with alarm(0.01) as bell:
            time.sleep(0.1)
        ended.append(bell.rang)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [False]
