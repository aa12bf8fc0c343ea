"""A corpus as a folder: `train.*` and `test.*` in any format, and `labels.tsv` if the labels have names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from xmtc.corpus import label_file
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats import by_suffix, jsonl
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadInput, XmtcError

SUFFIX = ".jsonl.gz"


def has_part(folder: str | Path, part: str) -> bool:
    """Whether the folder has a file of this part, "train" or "test"."""
    return bool(_candidates(Path(folder), part))


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


def write(parts: Mapping[str, Corpus], path: str | Path) -> None:
    """Write each part as JSON lines, and the labels of all of them, names and unused ones included, to `labels.tsv`."""
    folder = Path(path)
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
        label_file.write(labels, folder / label_file.NAME)
    for part, corpus in parts.items():
        jsonl.write(corpus, str(folder / (part + SUFFIX)))
