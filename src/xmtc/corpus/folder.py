"""A corpus as a folder: `train.*` and `test.*` in any format, and `labels.tsv` if the labels have names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from xmtc.corpus import label_file
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats import by_suffix, fulltext, jsonl
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import model_files
from xmtc.errors import BadInput, XmtcError

SUFFIX = ".jsonl.gz"


def has_part(folder: str | Path, part: str) -> bool:
    """Whether the folder has a file, or a folder of texts, of this part, "train", "dev" or "test"."""
    return bool(_candidates(Path(folder), part)) or _has_texts(Path(folder) / part, unlabelled=True)


def other_parts(path: str | Path) -> list[str]:
    """The parts beside "train" that a corpus which is a folder has: those of "dev" and "test"; none for a file."""
    if str(path) == "-" or not Path(path).is_dir():
        return []
    return [part for part in ("dev", "test") if has_part(path, part)]


def part_of_texts(path: str | Path, part: str, *, unlabelled: bool, format: str | None) -> Path | None:
    """The folder of `.txt` files to read: that of the part in this folder, or this folder itself; None if it is none.

    A folder with files like `train.csv` is no folder of texts.
    """
    folder = Path(path)
    if format not in (None, "fulltext") or any(_candidates(folder, each) for each in ("train", "test")):
        return None
    found = (each for each in (folder / part, folder) if _has_texts(each, unlabelled=unlabelled))
    return next(found, folder if format else None)


def _has_texts(folder: Path, *, unlabelled: bool) -> bool:
    return folder.is_dir() and fulltext.is_folder_of_texts(folder, unlabelled=unlabelled)


def part_file(folder: str | Path, part: str) -> Path:
    """The file of a part, one of `train.jsonl.gz`, `train_texts.txt`, `train_X.npz` and the like."""
    candidates = _candidates(Path(folder), part)
    if len(candidates) > 1:
        names = " and ".join(path.name for path in candidates)
        raise BadInput(folder, None, f"two files could be its {part} part: {names}", "name the file itself")
    if not candidates:
        found = sorted(path.name for path in Path(folder).iterdir() if not path.name.startswith("."))
        there = ", ".join(found[:20]) + (", ..." if len(found) > 20 else "") if found else "nothing"
        problem = f"the folder has no {part} file (there is: {there})"
        raise BadInput(
            folder, None, problem, f"name a file itself, or put {part}.jsonl, {part}.csv or the like into it"
        )
    return candidates[0]


def _candidates(folder: Path, part: str) -> list[Path]:
    name = re.compile(rf"{re.escape(part)}((_raw)?_texts|_X)?\.[^.]+(\.gz)?")
    return sorted(path for path in folder.iterdir() if name.fullmatch(path.name) and by_suffix(path))


def files_written(path: str | Path, parts: Iterable[str]) -> list[Path]:
    """The files that `write` makes or replaces.

    >>> [file.name for file in files_written("corpus", ["train", "test"])]
    ['train.jsonl.gz', 'test.jsonl.gz', 'labels.tsv']
    """
    return [Path(path) / name for name in (*(part + SUFFIX for part in parts), label_file.NAME)]


def write(parts: Mapping[str, Corpus], path: str | Path) -> None:
    """Write each part as JSON lines, and the labels of all of them, names and unused ones included, to `labels.tsv`.

    Files of these names are replaced; but a `labels.tsv` that a part needs which stays is only replaced by one that has
    all of its labels.
    """
    folder = Path(path)
    if not str(path):
        raise BadInput("''", None, "no folder is named", "give the name of one")
    if model_files(folder):
        raise BadInput(path, None, "is a model folder", "write to another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(path, None, f"the folder cannot be made: {error.strerror}", "write to another place") from error
    for part in parts:
        others = [file.name for file in _candidates(folder, part) if file.name != part + SUFFIX]
        if others:
            raise XmtcError(f"{folder} has a {part} part already, {others[0]}; write to another folder")
    labels = LabelSet.of([])
    for corpus in parts.values():
        labels = labels.extend(corpus.labels.keys) if len(labels) else corpus.labels
    if len(labels):
        _check_labels_kept(folder, parts, labels)
        label_file.write(labels, folder / label_file.NAME)
    for part, corpus in parts.items():
        jsonl.write(corpus, str(folder / (part + SUFFIX)))


def _check_labels_kept(folder: Path, parts: Mapping[str, Corpus], labels: LabelSet) -> None:
    """XmtcError if `labels.tsv` would lose labels, and their names, while another part of the folder stays."""
    stays = [part for part in ("train", "dev", "test") if part not in parts and has_part(folder, part)]
    file = folder / label_file.NAME
    if stays and file.is_file() and any(labels.index(key) < 0 for key in label_file.read(file).keys):
        raise XmtcError(f"{file} holds labels that the {stays[0]} part there may need; write to another folder")
