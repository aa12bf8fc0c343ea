"""`xmtc predict MODEL -` answers while lines come in, and its memory does not grow with them."""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.corpus.builder import ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.sources import Source
from xmtc.corpus.stream import BYTES, DOCUMENTS, stream, streamed_format
from xmtc.errors import BadInput
from xmtc.models.registry import make

PATIENCE = 120  # seconds, for a machine that does other things; a program that waits for more input waits forever
CORPUS = Corpus.of(["the ship on the sea", "bread from the oven"] * 3, [["sea"], ["food"]] * 3)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in ("prior", "rocchio"):
        make(name).fit(CORPUS).save(folder / name)
    return folder


@pytest.fixture
def start(models: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start `xmtc predict` with pipes; what still runs at the end is ended. `prior` starts in half the time."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(model: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "xmtc", "predict", str(models / model), "-", "--k", "1", *options]
        pipe = subprocess.PIPE
        # Without a buffer of our own, in which a second line of an answer would hide.
        running.append(subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def said_to(process: subprocess.Popen[bytes], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line.encode())
    process.stdin.flush()


def answer_of(process: subprocess.Popen[bytes]) -> str:
    """The next line of standard output, which must come without any further input."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE)[0], "no answer"
    return process.stdout.readline().decode()


@pytest.mark.parametrize("format", ["text", "jsonl"])
def test_a_line_an_answer_a_line_an_answer(start: Callable[..., subprocess.Popen[bytes]], format: str) -> None:
    process = start("rocchio")
    for at, (text, label) in enumerate([("a ship", "sea"), ("warm bread", "food"), ("", None), ("ship", "sea")]):
        said_to(process, f"{text}\n" if format == "text" else json.dumps({"text": text}) + "\n")
        answer = json.loads(answer_of(process))
        assert (answer["id"], [each["label"] for each in answer["labels"]]) == (str(at), [label] if label else [])
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, b""), err


def test_the_table_for_people_comes_at_once_too(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start("prior", "--table")
    said_to(process, "a ship\n")
    assert answer_of(process) == "0  a ship\n"
    assert answer_of(process).split()[1] == "sea"


def test_a_bad_line_ends_it_after_the_answers_before(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start("prior")
    said_to(process, '{"id": "d1", "text": "a ship"}\n')
    assert json.loads(answer_of(process))["id"] == "d1"
    out, err = process.communicate(b"\nno json\n", timeout=PATIENCE)
    assert (process.returncode, out) == (2, b"")
    assert err.decode().splitlines()[-1].startswith("error: -:3: not JSON")


def test_memory_stays_flat(models: Path) -> None:
    """12 MB of documents, and 62 MB: whatever the second takes beyond the first, it is not the documents."""
    line = (json.dumps({"text": "ship bread " * 140, "labels": ["sea"]}) + "\n").encode()

    def peak(lines: int) -> int:
        command = [sys.executable, "-m", "xmtc", "predict", str(models / "prior"), "-", "--k", "1"]
        with open(os.devnull, "wb") as nowhere:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nowhere)
            assert process.stdin is not None
            for _ in range(lines // 100):
                process.stdin.write(line * 100)
            process.stdin.close()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_maxrss * 1024

    few, many = peak(8_000), peak(40_000)
    assert len(line) * 32_000 > 45e6
    assert many - few < 25e6


def parts_of(content: bytes, monkeypatch: pytest.MonkeyPatch, skip_bad: bool = False) -> list[Corpus]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    source = Source("-")
    format = streamed_format(source)
    assert format is not None
    return list(stream(source, format, ReadOptions(unlabelled=True, skip_bad=skip_bad)))


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"one\n\ntwo", ["one", "", "two"]),
        (b"\xef\xbb\xbfone\r\ntwo\r\n", ["one", "two"]),
        (b"\n\none\n", ["", "", "one"]),
        (b"__label__a one\n\n__label__b two\n", ["one", "two"]),
        (b'\n{"text": "one"}\n\n{"text": "two", "labels": ["x"]}', ["one", "two"]),
    ],
)
def test_the_documents_are_those_of_the_file(content: bytes, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of(content, monkeypatch)
    found = [(part.id(row), part.texts[row]) for part in parts if part.texts for row in range(len(part))]
    assert found == [(str(at), text) for at, text in enumerate(texts)]


def test_large_input_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Source, "waiting", lambda self: True)  # as of a pipe that is always full
    parts = parts_of(b"a ship on the sea\n" * 20_000, monkeypatch)
    assert sum(map(len, parts)) == 20_000
    assert all(DOCUMENTS <= len(part) < 3 * DOCUMENTS for part in parts[:-1])
    parts = parts_of((b"x" * 99_999 + b"\n") * 200, monkeypatch)
    assert all(part.texts is not None and part.texts.nbytes < 2 * BYTES for part in parts)
    assert len(parts) > 1 and parts[-1].id(len(parts[-1]) - 1) == "199"


def test_bad_lines_are_counted_over_the_whole_stream(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xmtc.corpus.sources.BLOCK", 16)
    parts = parts_of(b'{"text": "one"}\n{"text": 1}\n{"text": 2}\n{"text": "two"}\n', monkeypatch, skip_bad=True)
    assert [part.texts[0] for part in parts if part.texts] == ["one", "two"]
    assert [part.id(0) for part in parts] == ["0", "1"]
    assert capsys.readouterr().err == "-: 2 bad lines skipped, 2 documents read\n"
    with pytest.raises(BadInput, match="every line in it is bad"):
        parts_of(b'{"text": 1}\n', monkeypatch, skip_bad=True)


@pytest.mark.parametrize(
    "content", [b"", b" \n", b"id,text\nd1,a\n", b"[\n", b"a text\tto tag\n", b"\x1f\x8bzip", b"0,1 3:0.5\n"]
)
def test_other_input_is_read_as_a_whole(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    source = Source("-")
    assert streamed_format(source) is None
    assert b"".join(source._chunks()) == content, "nothing of it is lost"


@pytest.mark.parametrize("content", [b"id,text\nd1,a ship\n", b'[{"id": "d1", "text": "a ship"}]', b"a ship\tx\n"])
def test_tables_and_lists_still_work(
    content: bytes, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert main(["predict", str(models / "rocchio"), "-", "--k", "1"]) == 0
    (answer,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert [label["label"] for label in answer["labels"]] == ["sea"]
