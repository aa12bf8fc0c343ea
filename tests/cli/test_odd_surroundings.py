"""Commands in odd surroundings: closed streams, old encodings, hostile names; and results that are there or are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.cli.output import printable

XMTC = str(Path(sys.executable).with_name("xmtc"))
HOSTILE = "\x1b]0;owned\x07\x1b[31m[red]x[/]\u202e"


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command.replace("xmtc ", f"{XMTC} "),
        shell=True,
        executable="/bin/bash",
        cwd=folder,
        capture_output=True,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a corpus and a model whose label, id and text try to steer the terminal."""
    documents = [{"id": f"d{i}{HOSTILE}", "text": f"a ship {HOSTILE}", "labels": [HOSTILE]} for i in range(4)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    monkeypatch.chdir(tmp_path)
    assert main(["train", "docs.jsonl", "--model", "knn", "--out", "m"]) == 0
    return tmp_path


def test_terminal_is_not_steered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    for words in (["predict", "m", "docs.jsonl", "--table"], ["info", "m"], ["info", "docs.jsonl"], ["info", HOSTILE]):
        main(words)
        out, err = capsys.readouterr()
        assert "\x1b" not in out + err
        assert "\u202e" not in out + err
    assert main(["predict", "m", "docs.jsonl", "--table"]) == 0
    assert "[red]x[/]" in capsys.readouterr().out, "what looks like markup is shown as it is"
    assert main(["predict", "m", "docs.jsonl", "--k", "1"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[0])
    assert answer["labels"][0]["label"] == HOSTILE, "data is never changed"


def test_a_line_is_a_line() -> None:
    assert printable("two\nlines\r\x00") == "two lines\\r\\x00"


def test_closed_streams(folder: Path) -> None:
    no_input = shell("xmtc predict m - <&-", folder)
    assert (no_input.returncode, no_input.stdout) == (2, b"")
    assert no_input.stderr.startswith(b"error: -: the file is empty")
    no_output = shell("xmtc train docs.jsonl --model prior --out p >&-", folder)
    assert no_output.returncode == 0
    assert b"Traceback" not in no_output.stderr
    no_errors = shell("xmtc train docs.jsonl --model prior --out p 2>&-", folder)
    assert (no_errors.returncode, no_errors.stdout) == (0, b"p\n"), "messages must not go to standard output instead"


def test_full_disk_at_the_end_of_a_pipe(folder: Path) -> None:
    for command in ("xmtc predict m docs.jsonl > /dev/full", "xmtc info m > /dev/full"):
        run = shell(command, folder)
        assert run.returncode == 2
        assert run.stderr.count(b"\n") == 1
        assert b"No space left" in run.stderr


def test_reader_that_has_seen_enough_is_no_error(folder: Path) -> None:
    run = shell("xmtc predict m docs.jsonl | true; exit ${PIPESTATUS[0]}", folder)
    assert (run.returncode, run.stderr) == (0, b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_old_encodings(folder: Path, encoding: str) -> None:
    for command in ("xmtc info docs.jsonl", "xmtc evaluate m docs.jsonl"):
        run = shell(command, folder, PYTHONIOENCODING=encoding)
        assert run.returncode == 0, run.stderr


def test_names_that_are_not_unicode(folder: Path) -> None:
    shell("cp docs.jsonl $'b\\xffd.jsonl'", folder)
    run = shell("xmtc train $'b\\xffd.jsonl' --model prior --out $'o\\xffut'", folder)
    assert (run.returncode, run.stdout) == (0, b"o\xffut\n"), run.stderr
    for command in (
        "xmtc info $'o\\xffut' --json -",
        "xmtc info $'b\\xffd.jsonl' --json - --html i.html",
        "xmtc evaluate $'o\\xffut' $'b\\xffd.jsonl' --html $'\\xff.html'",
    ):
        run = shell(command, folder)
        assert run.returncode == 0, run.stderr
    (folder / "names\nof two lines.jsonl").write_text("{")
    run = shell("xmtc info names*", folder)
    assert (run.returncode, run.stderr.count(b"\n")) == (2, 1)


def test_target_is_checked_before_the_corpus_is_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Training may take hours, after which it is too late to say that its result has no place."""
    (folder / "thesis").mkdir()
    (folder / "thesis" / "chapter.tex").write_text("years of work")
    assert main(["train", "no-such-corpus", "--model", "knn", "--out", "thesis"]) == 2
    assert "other things in it" in capsys.readouterr().err
    assert main(["demo", "--out", "docs.jsonl"]) == 2
    assert capsys.readouterr().out == ""
