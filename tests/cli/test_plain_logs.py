"""Without a terminal: no control characters, no figure cut off."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from xmtc.cli import main

XMTC = str(Path(sys.executable).with_name("xmtc"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    documents = [{"id": f"d{i}", "text": f"a ship {i}", "labels": ["x", f"y{i % 2}"]} for i in range(8)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    monkeypatch.chdir(tmp_path)
    assert main(["train", "docs.jsonl", "--model", "knn", "--out", "m"]) == 0
    capsys.readouterr()
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["train", "--help"],
        ["models"],
        ["models", "knn"],
        ["evaluate", "m", "docs.jsonl"],
        ["explain", "m", "--text", "a ship"],
        ["predict", "m", "docs.jsonl", "--table"],
        ["info", "docs.jsonl"],
        ["info", "m"],
        ["train", "docs.jsonl", "--out", "n", "--valid", "0.25"],
    ],
    ids=" ".join,
)
def test_a_pipe_gets_no_control_characters(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert not {"\x1b", "\r", "\x07", "\x08"} & set(out + err)


@pytest.mark.parametrize("columns", [None, "40"])
def test_figures_are_not_cut(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert main(["evaluate", "m", "docs.jsonl", "--k", "1,2,3,4,5,6,7,8,9,10"]) == 0
    out, _ = capsys.readouterr()
    assert "…" not in out
    header = next(line for line in out.splitlines() if "P@1" in line)
    assert {"nDCG@10", "PSP@10"} <= set(header.split())


def test_a_dumb_terminal_gets_plain_text(folder: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb"}
    subprocess.run([XMTC, "models", "prior"], stdout=theirs, stderr=theirs, env=environment, check=True)
    os.close(theirs)
    shown = os.read(ours, 100_000)
    os.close(ours)
    assert b"seed" in shown
    assert b"\x1b" not in shown
