"""Files as streams of lines, and writing that leaves nothing half done."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus import sources
from xmtc.corpus.sources import BadLine, Source, decode, replacing, write_lines
from xmtc.errors import BadInput


@given(
    content=st.binary(max_size=60).map(lambda raw: raw.replace(b"\0", b"\n")),
    block=st.integers(4, 9),
    zipped=st.booleans(),
)
def test_lines_do_not_depend_on_blocks(content: bytes, block: int, zipped: bool) -> None:
    content = b"x" + content.removeprefix(b"\x1f\x8b")
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(sources, "BLOCK", block)
        patched.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(content) if zipped else content)))
        found = list(Source("-").raw_lines())
    wanted = content.split(b"\n")
    assert found == (wanted if wanted[-1] else wanted[:-1])


def test_kinds_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"\xef\xbb\xbfa\r\n\n \nb\r")
    assert list(Source(path).lines()) == [(1, b"a"), (4, b"b")]
    assert list(Source(path).all_lines()) == [(1, b"a"), (2, b""), (3, b" "), (4, b"b")]
    assert list(Source(path).raw_lines()) == [b"a\r", b"", b" ", b"b\r"]


def test_head_of_standard_input_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"line\n" * 50_000
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(content))))
    source = Source("-")
    assert source.head(10) == source.head(10) == b"line\nline\n"[: len(source.head(10))]
    assert sum(1 for _ in source.lines()) == 50_000


@pytest.mark.parametrize(("name", "suffix"), [("a.JSONL.gz", ".jsonl"), ("a.csv", ".csv"), ("a", ""), ("a.gz", "")])
def test_suffix(name: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    assert Source(tmp_path / name).suffix == suffix


def test_damaged_head(tmp_path: Path) -> None:
    (tmp_path / "f.gz").write_bytes(b"\x1f\x8b and then something else")
    with pytest.raises(BadInput, match="the gzip file is damaged"):
        Source(tmp_path / "f.gz").head()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_forbidden_file(tmp_path: Path) -> None:
    (tmp_path / "f").touch(mode=0)
    with pytest.raises(BadInput, match="cannot be read: Permission denied"):
        Source(tmp_path / "f").head()


def test_decode() -> None:
    assert decode("ä".encode()) == "ä"
    with pytest.raises(BadLine, match="not UTF-8: byte 0xe4 at column 3"):
        decode(b"ab\xe4")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as out:
        out.write(b"new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["f.txt"]


def test_gzip_output_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        write_lines(tmp_path / name, ["x", "y"])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"x\ny\n"


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be written: File name too long; write to another place"):
        write_lines(tmp_path / ("x" * 250), [])
