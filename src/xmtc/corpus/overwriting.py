"""Which files a conversion reads and which it writes, so that it never destroys what it reads.

A corpus is read into memory before it is written, and a file is replaced by renaming a complete one into its place; yet
what a reader leaves out (other columns, skipped lines, the other part of a folder) would be gone.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from xmtc.corpus import folder, label_file
from xmtc.corpus.formats import by_suffix, format_module
from xmtc.corpus.sources import file_and_sheet
from xmtc.errors import BadInput

CORPUS_FILE = re.compile(r"(train|dev|test)[._]|labels\.").match


def becomes_folder(path: str | Path, format: str | None = None) -> bool:
    """Whether `xmtc.corpus.io.write` makes a folder of this path: it is one, or has no suffix.

    >>> becomes_folder("corpus"), becomes_folder("corpus", "jsonl"), becomes_folder("docs.csv"), becomes_folder("-")
    (True, False, False, False)
    """
    return format is None and str(path) != "-" and (Path(path).is_dir() or not Path(path).suffix)


def files_written(path: str | Path, format: str | None = None) -> list[Path]:
    """The files that `xmtc.corpus.io.write` makes or replaces for this path; none for standard output.

    >>> [str(file) for file in files_written("train_X.npz")]
    ['train_X.npz', 'train_Y.npz']
    """
    if str(path) == "-":
        return []
    if becomes_folder(path, format):
        return folder.files_written(path, ["train"])
    return _with_partners(path, [format] if format else by_suffix(path))


def files_read(path: str | Path, label_set: str | Path | None = None) -> list[Path]:
    """The files that are read for a corpus: a folder counts with all its files, a file with what lies beside it."""
    given = [Path(label_set)] if label_set is not None else []
    if str(path) == "-":
        return given
    if Path(path).is_dir():
        return [*given, *(file for file in Path(path).iterdir() if file.is_file())]
    path, _ = file_and_sheet(path)
    beside = label_file.beside(path)
    # By content a file may be of another format than its suffix says; only a pair's name matters here.
    return [*given, *_with_partners(path, by_suffix(path)), *([beside] if beside is not None else [])]


def check_overwriting(
    source: str | Path, target: str | Path, written: Sequence[Path], read: Sequence[Path], *, force: bool
) -> None:
    """BadInput if writing would replace what is read, or, without `force`, any file that exists."""
    both_folders = str(target) != "-" and Path(target).is_dir() and str(source) != "-" and Path(source).is_dir()
    if both_folders and Path(source).samefile(target):
        raise BadInput(target, None, "is the folder that is read", "write to another folder")
    if str(target) == "-" and any(_is_stream(file, sys.stdout) for file in read):
        raise BadInput(source, None, "standard output is the file that is read", "write to another file")
    for file in written:
        if not os.path.lexists(file):
            continue
        if any(_same(file, other) for other in read) or (str(source) == "-" and _is_stream(file, sys.stdin)):
            raise BadInput(file, None, "is read, and writing would replace it", "write to another file or folder")
        if not force:
            raise BadInput(file, None, "exists already", "write to another place, or replace it with --force")


def check_not_input(path: str | Path, *inputs: str | Path | None) -> None:
    """BadInput if a result, written to this file, would replace one that is read.

    An input that is a folder stands for the corpus files in it, such as `train.csv`, `test_texts.txt`, `labels.tsv`:
    other files there, such as an earlier result, may be replaced.
    """
    if str(path) == "-" or not Path(path).is_file():
        return
    for given in (name for name in inputs if name):
        files = files_read(given)
        if Path(given).is_dir():
            files = [file for file in files if CORPUS_FILE(file.name)]
        if any(_same(Path(path), file) for file in files):
            raise BadInput(path, None, "is read, and writing would replace it", "write to another file")


def _with_partners(path: str | Path, formats: Iterable[str]) -> list[Path]:
    found = [file for name in formats for file in getattr(format_module(name), "pair_of", lambda _: [])(Path(path))]
    return list(dict.fromkeys([Path(path), *found]))


def _same(one: Path, other: Path) -> bool:
    """Whether two names, links or hard links lead to one file; also where upper and lower case do not count."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def _is_stream(file: Path, stream: object) -> bool:
    """Whether a standard stream was redirected from or to this file."""
    try:
        return os.path.samestat(file.stat(), os.fstat(stream.fileno()))  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):  # closed, or replaced by something that is no file
        return False
