"""Shell completion: commands, options, names of methods and recipes; and its scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmtc.cli import main


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    def ask(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("_XMTC_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        assert main([]) == 0
        return capsys.readouterr().out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("xmtc tra", ["train"]),
        ("xmtc train --model par", ["parabel"]),
        ("xmtc train --model nothing", []),
        ("xmtc train --recipe knn/deb", ["knn/debtags"]),
        ("xmtc train --res", ["--resume"]),
        ("xmtc train --calibrate pl", ["platt"]),
        ("xmtc models attent", ["attentionxml"]),
    ],
)
def test_half_a_word_is_completed(offered: object, line: str, expected: list[str]) -> None:
    assert callable(offered)
    assert offered(line) == expected


def test_a_wrong_request_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("_XMTC_COMPLETE", "nonsense")
    assert main([]) == 2
    assert capsys.readouterr().out == ""


def test_the_script_for_a_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("_XMTC_COMPLETE", "source_bash")
    assert main([]) == 0
    assert "complete -o default -F _xmtc_completion xmtc" in capsys.readouterr().out
