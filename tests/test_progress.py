"""Progress: silence for quick work, an ETA for long work."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from xmtc import progress as module
from xmtc.progress import LOG_SECONDS, QUIET_SECONDS, clock, progress, track


class Watch:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=watch.monotonic))
    return watch


def test_quick_work_is_silent(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in track(range(1000), "counting"):
        watch.now += 0.9 * QUIET_SECONDS / 1000
    assert capsys.readouterr() == ("", "")


def test_a_log_gets_a_line_now_and_then(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading", total=100) as bar:
        for _ in range(25):
            watch.now += 1.0
            bar.advance()
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 3  # after QUIET_SECONDS, then each LOG_SECONDS
    assert "reading" in lines[0]
    assert "2%, 2 s spent, 1:38 to go" in lines[0]
    assert f"{2 + LOG_SECONDS:.0f} s spent" in lines[1]
    assert "\x1b" not in err
    assert err.isascii()


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    with progress("reading", total=4) as bar:
        watch.now += QUIET_SECONDS
        bar.advance()
    assert terminal.getvalue() == "reading: 25%, 2 s spent, 6 s to go\n"


def test_a_terminal_gets_a_bar_that_is_cleared(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("reading", total=4) as bar:
        for _ in range(2):
            watch.now += QUIET_SECONDS
            bar.advance()
    text = terminal.getvalue()
    assert "━" * 12 + "─" * 12 + "  50%" in text
    assert "\n" not in text
    assert text.endswith("\r\x1b[2K")


def test_the_bar_is_cleared_when_work_fails(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(ZeroDivisionError), progress("reading", total=4) as bar:
        watch.now += QUIET_SECONDS
        bar.advance()
        raise ZeroDivisionError
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_without_a_total_it_counts(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading") as bar:
        watch.now += 75
        bar.advance(1234)
    assert capsys.readouterr().err == "reading: 1,234 done, 1:15\n"


def test_more_steps_than_the_total_are_no_negative_eta(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading", total=10) as bar:
        watch.now += 30
        bar.advance(15)
    assert "100%, 30 s spent, 0 s to go" in capsys.readouterr().err


def test_track_gives_the_items_and_knows_their_number(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    seen = []
    for item in track(["a", "b"], "reading"):
        watch.now += 5
        seen.append(item)
    assert seen == ["a", "b"]
    assert "50%, 5 s spent, 5 s to go" in capsys.readouterr().err
    watch.now = 0
    assert list(track(iter("ab"), "reading")) == ["a", "b"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (3599.7, "1:00:00"), (90061, "25:01:01")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
