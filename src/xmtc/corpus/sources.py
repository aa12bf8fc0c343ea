"""Files as streams of lines: gzip or plain, BOM or not, CRLF or LF, a path or `-` for standard input."""

from __future__ import annotations

import gzip
import json
import os
import re
import select
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from xmtc.corpus.frames import described
from xmtc.errors import BadInput, XmtcError
from xmtc.progress import progress

BLOCK = 1 << 17
BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
GZIP_MAGIC = b"\x1f\x8b"
SHEET = re.compile(r"(?P<file>.+\.xls[xm])#(?P<sheet>.+)", re.IGNORECASE | re.DOTALL)
MANIFEST = "manifest.json"  # makes a folder a model, see xmtc.storage
GZIP_WBITS = 31  # zlib's way of saying "with a gzip header and checksum"


class BadLine(Exception):
    """What is wrong with one line or document, and what to do; the reader adds the file and the line.

    >>> BadLine("an empty label").problem
    'an empty label'
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


class Source:
    """A file to read: its path for messages, its first bytes for detection, its content as lines."""

    def __init__(self, path: str | Path, *, folder: bool = False) -> None:
        self.path, self.sheet = file_and_sheet(path)
        self._peeked, self._ended = b"", False  # of standard input
        if self.path == "-":
            return
        if not self.path:
            raise BadInput("''", None, "no file is named", "name a file, a folder, or - for standard input")
        if not Path(self.path).exists():
            raise BadInput(self.path, None, "no such file", f"check the name; the current folder is {Path.cwd()}")
        if Path(self.path).is_dir() and not folder:
            raise BadInput(self.path, None, "is a folder, a file was expected", "name a file in it")

    @property
    def is_stdin(self) -> bool:
        """Whether this is standard input, which has no name, no neighbours and can be read only once."""
        return self.path == "-"

    @property
    def suffix(self) -> str:
        """The file's suffix without `.gz`, lower case: `.jsonl` for `docs.JSONL.gz`."""
        return Path(Path(self.path).name.lower().removesuffix(".gz")).suffix

    def head(self, size: int = 65536) -> bytes:
        """The first bytes, decompressed, without a byte order mark."""
        if self.is_stdin:
            raw = self._peek(lambda: len(self._peeked) >= size)
        else:
            with self._open() as stream:
                raw = stream.read(size)
        return next(self._unzipped(iter([raw])))[:size].removeprefix(BOM)

    def first_line(self) -> bytes:
        """The first line of standard input that is not blank, with its end, as soon as it is there; at most a block."""
        there = self._peek(lambda: b"\n" in self._peeked.lstrip() or len(self._peeked) >= BLOCK)
        line, newline, _ = there.removeprefix(BOM).lstrip().partition(b"\n")
        return line + newline

    def waiting(self) -> bool:
        """Whether more of standard input is there already, so that reading it takes no time; False if none can tell."""
        try:
            return bool(select.select([sys.stdin.buffer.fileno()], [], [], 0)[0])
        except (OSError, ValueError):  # no file, or a system on which only sockets can be asked
            return False

    def _peek(self, enough: Callable[[], bool]) -> bytes:
        """Bytes that detection takes from standard input; they are given again when the content is read."""
        while not enough() and (chunk := self._what_is_there()):
            self._peeked += chunk
        return self._peeked

    def _what_is_there(self) -> bytes:
        """The next bytes of standard input, as soon as there are some; none at its end, which is asked for once."""
        chunk = b"" if self._ended else cast(BufferedReader, sys.stdin.buffer).read1(BLOCK)
        self._ended = not chunk
        return chunk

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(line number from 1, line without its end); blank lines are skipped but counted."""
        for number, line in self.all_lines():
            if line and not line.isspace():
                yield number, line

    def all_lines(self) -> Iterator[tuple[int, bytes]]:
        """As `lines`, but with blank lines: for formats in which they are documents."""
        for number, line in enumerate(self.raw_lines(), 1):
            yield number, line[:-1] if line.endswith(b"\r") else line

    def raw_lines(self) -> Iterator[bytes]:
        """Every line without its newline but with a carriage return before it."""
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[list[bytes]]:
        """The raw lines, one block of the file at a time."""
        unfinished: list[bytes] = []
        for block in self.blocks():
            lines = block.split(b"\n")
            unfinished.append(lines[0])
            if len(lines) > 1:
                lines[0] = b"".join(unfinished)
                unfinished = [lines.pop()]
                yield lines
        if last := b"".join(unfinished):
            yield [last]

    def blocks(self) -> Iterator[bytes]:
        """The content in pieces, decompressed, without a byte order mark; a binary file is an error."""
        blocks = filter(None, self._unzipped(self._chunks()))
        first = next(blocks, b"")
        self.refuse_binary(first)
        yield first.removeprefix(BOM)
        yield from blocks

    def refuse_binary(self, head: bytes) -> None:
        """Raise if the first bytes are binary or UTF-16."""
        if head.startswith(UTF16_BOMS):
            remedy = "convert the file: iconv -f utf-16 -t utf-8"
            raise BadInput(self.path, 1, "this text is in UTF-16, UTF-8 was expected", remedy)
        if b"\0" in head[:8192]:
            raise BadInput(self.path, 1, "this is a binary file, not text", "give a file in one of the known formats")

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            stream = open(self.path, "rb")  # noqa: SIM115 - closed below, opened here so that only opening is caught
        except OSError as error:
            raise BadInput(self.path, None, f"cannot be read: {error.strerror}", "check its permissions") from error
        with stream:
            yield stream

    def _chunks(self) -> Iterator[bytes]:
        if self.is_stdin:
            if self._peeked:
                yield self._peeked
            while chunk := self._what_is_there():
                yield chunk
            return
        with self._open() as stream, progress(f"reading {self.path}", Path(self.path).stat().st_size) as bar:
            while chunk := stream.read(BLOCK):
                yield chunk
                bar.advance(len(chunk))

    def _unzipped(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The chunks as they are, or inflated; a gzip file may have several members, and zeros after the last.

        The gzip module does this in pieces of 8 kB, which takes a third longer.
        """
        first = next(chunks, b"")
        if not first.startswith(GZIP_MAGIC):
            yield first
            yield from chunks
            return
        member = None
        try:
            for chunk in chain([first], chunks):
                while chunk:
                    member = member or zlib.decompressobj(GZIP_WBITS)
                    yield member.decompress(chunk)
                    chunk = member.unused_data.lstrip(b"\0")
                    member = None if member.eof else member
        except zlib.error as error:
            raise self._damaged(str(error)) from error
        if member is not None:
            raise self._damaged("it ends before its time")

    def _damaged(self, how: str) -> BadInput:
        return BadInput(self.path, None, f"the gzip file is damaged: {how}", "make or fetch it again")


def file_and_sheet(path: str | Path) -> tuple[str, str]:
    """A file's path and, of a workbook, the sheet that is named after it; empty if none is.

    >>> file_and_sheet("docs.xlsx#Old ones"), file_and_sheet("docs#1.csv")
    (('docs.xlsx', 'Old ones'), ('docs#1.csv', ''))
    """
    found = SHEET.fullmatch(str(path))
    return (found["file"], found["sheet"]) if found and not Path(path).exists() else (str(path), "")


def decode(line: bytes) -> str:
    """The line as text; a BadLine that names the byte if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"not UTF-8: byte 0x{line[error.start]:02x} at column {error.start + 1}"
        raise BadLine(problem, "convert the file, e.g. `iconv -f latin1 -t utf-8`") from error


def check_output(path: str | Path) -> None:
    """BadInput if a file cannot be written there; long work checks this before it begins."""
    if str(path) == "-":
        return
    parent = Path(path).parent
    if not str(path) or Path(path).is_dir() or str(path).endswith(os.sep):
        raise BadInput(path or "''", None, "is a folder, a file was expected", "give the name of a file")
    if Path(path).exists() and not Path(path).is_file():
        # Renaming a file into its place would remove the device.
        raise BadInput(
            path, None, "is a device or a pipe, no file", "give the name of a file, or - for standard output"
        )
    if Path(path).name in model_files(parent):
        raise BadInput(path, None, "is part of a model, which writing would destroy", "write to another place")
    if not parent.is_dir():
        raise BadInput(path, None, "its folder does not exist", f"make it: mkdir -p {parent}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise BadInput(path, None, "its folder cannot be written into", "write to another place")


def model_files(folder: Path) -> set[str]:
    """The files of the model in a folder, none if it is no model folder."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        return {MANIFEST, *manifest["files"]} if "kind" in manifest else set()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()


def check_path(path: object, call: str, what: str = "the name of a file") -> None:
    """XmtcError if what a call was given is no path at all."""
    if not isinstance(path, (str, os.PathLike)):
        raise XmtcError(f"{call} takes {what}, not {described(path)}")


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Write a file (gzip if it ends in .gz) under another name and rename it into place once it is complete."""
    target = Path(path)
    check_output(path)
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        raw = open(partial, "wb")  # noqa: SIM115 - closed below, opened here so that only opening is caught
    except OSError as error:
        raise BadInput(path, None, f"cannot be written: {error.strerror}", "write to another place") from error
    try:
        with raw:
            if target.name.endswith(".gz"):
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as zipped:
                    yield cast(BinaryIO, zipped)
            else:
                yield raw
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write a text file, a line for each item, through `replacing`."""
    with replacing(path) as out:
        for line in lines:
            out.write(line.encode() + b"\n")
