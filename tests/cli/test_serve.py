"""`xmtc serve`: what the command line says before a server runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from xmtc.cli import main


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["serve", *map(str, arguments)]) == 2
    return capsys.readouterr().err


def test_without_the_extra_one_sentence_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    expected = "error: xmtc serve needs fastapi; install it with: pip install 'xmtc[serve]'\n"
    assert said(capsys, "tagger") == expected


@pytest.mark.needs("fastapi")
def test_options_that_cannot_be_are_errors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no such model folder" in said(capsys, tmp_path / "none")
    assert "at least --max-batch (256)" in said(capsys, tmp_path, "--max-queue", "100")
    for size in ("4X", "", "M", "1", "-5", "9G"):
        assert "--max-body" in said(capsys, tmp_path, "--max-body", size)
    assert "--cors example.org" in said(capsys, tmp_path, "--cors", "example.org")
    assert "cannot be read" in said(capsys, tmp_path, "--token-file", tmp_path / "none")
