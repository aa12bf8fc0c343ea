r"""`labels.tsv`: a header line and a line for each label, columns separated by tabs.

The column `label` (the key) is required; `name`, `parent`, `description` and `alternatives` are optional, in any order,
and other columns are ignored. Cells missing at the end of a line are empty. Tab, newline, carriage return and backslash
inside a cell are written `\t`, `\n`, `\r` and `\\`. Several parents, and several alternatives, are separated by `|`; a
`|` inside one of them is written `\|`, and a parent cell that as a whole is the key of a label is that label.

Formats that identify labels only by number (xmc, npz) take keys and names from a `labels.tsv` in the same folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode, write_lines
from xmtc.corpus.strings import Strings
from xmtc.errors import BadInput, XmtcError

NAME = "labels.tsv"
COLUMNS = ("label", "name", "parent", "description", "alternatives")
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
UNESCAPES = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r", "\\|": "|"}
ESCAPED = re.compile(r"\\[\\tnr|]")
# A bar after an even number of backslashes: one that is not escaped.
BAR = re.compile(r"(?<!\\)((?:\\\\)*)\|")


def beside(path: str | Path) -> Path | None:
    """The `labels.tsv` in the folder of a corpus file (or in a corpus that is a folder), None if there is none."""
    if str(path) == "-":
        return None
    found = Path(path) / NAME if Path(path).is_dir() else Path(path).with_name(NAME)
    return found if found.is_file() else None


def read(path: str | Path) -> LabelSet:
    """Read `labels.tsv`; a duplicate label and an unknown parent are errors with their line."""
    source = Source(path)
    lines = _lines(source)
    at = _columns(source, lines)
    width = max(at.values()) + 1
    padding = [""] * width
    numbers: list[int] = []
    cells: dict[str, list[str]] = {name: [] for name in at}
    # By column: a million rows as lists would keep the garbage collector busy.
    columns = [(cells[name].append, position) for name, position in at.items()]
    for number, line in lines:
        row = line.split("\t")
        if len(row) < width:
            row += padding
        for append, position in columns:
            append(row[position])
        numbers.append(number)
    if not numbers:
        raise BadInput(path, None, "there is no label in it", "give a line for each label")
    index = unique_index(source.path, list(map(_unescape, cells["label"])), numbers)
    parents = _parents(source.path, cells["parent"], index, numbers) if any(cells.get("parent", ())) else None
    try:
        return LabelSet.of(
            index,
            list(map(_unescape, cells["name"])) if "name" in cells else None,
            list(map(_unescape, cells["description"])) if "description" in cells else None,
            [_listed(cell) for cell in cells["alternatives"]] if any(cells.get("alternatives", ())) else None,
            parents,
        )
    except XmtcError as cycle:
        raise BadInput(path, None, str(cycle), "correct the parents along this path") from cycle


def unique_index(path: str, keys: Sequence[str], numbers: Sequence[int]) -> dict[str, int]:
    """Key to position; an error if a key is empty or occurs twice."""
    index = dict(zip(keys, range(len(keys)), strict=True))
    if "" in index:
        raise BadInput(path, numbers[keys.index("")], "the label is empty", "give each line a label")
    if len(index) < len(keys):
        first: dict[str, int] = {}
        for key, number in zip(keys, numbers, strict=True):
            if first.setdefault(key, number) != number:
                problem = f"the label {key!r} occurs twice, first on line {first[key]}"
                raise BadInput(path, number, problem, "remove one of them")
    return index


def _parents(path: str, cells: list[str], index: dict[str, int], numbers: list[int]) -> list[Sequence[str]]:
    parents: list[Sequence[str]] = []
    for cell, number in zip(cells, numbers, strict=True):
        whole = _unescape(cell)
        above = (whole,) if whole in index else tuple(_listed(cell))
        for parent in above:
            if parent not in index:
                remedy = "add a line for it, or correct the parent"
                raise BadInput(path, number, f"the parent {parent!r} is not a label of this file", remedy)
        parents.append(above)
    return parents


def _columns(source: Source, lines: Iterator[tuple[int, str]]) -> dict[str, int]:
    """The position of each of our columns, from the header line."""
    number, line = next(lines, (1, ""))
    header = line.split("\t")
    if "label" not in header:
        found = ", ".join(map(repr, header))
        problem = f"no column 'label' in the header (columns found: {found})"
        raise BadInput(source.path, number, problem, f"the columns are {', '.join(COLUMNS)}, separated by tabs")
    return {name: header.index(name) for name in COLUMNS if name in header}


def _lines(source: Source) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines that are not empty."""
    first = 1
    for lines in source.batches():
        try:
            texts = b"\n".join(lines).decode().split("\n")  # at once: there may be millions of short lines
        except UnicodeDecodeError:
            texts = [_decoded(source, number, raw) for number, raw in enumerate(lines, first)]
        for number, line in enumerate(texts, first):
            if text := line.removesuffix("\r"):
                yield number, text
        first += len(lines)


def _decoded(source: Source, number: int, line: bytes) -> str:
    try:
        return decode(line)
    except BadLine as error:
        raise BadInput(source.path, number, error.problem, error.remedy) from error


def _unescape(cell: str) -> str:
    return ESCAPED.sub(lambda found: UNESCAPES[found[0]], cell) if "\\" in cell else cell


def _listed(cell: str) -> list[str]:
    """The parts of a cell that are separated by bars."""
    parts = BAR.sub("\\1\n", cell).split("\n") if "|" in cell else [cell]
    return [_unescape(part) for part in parts if part]


def write(labels: LabelSet, path: str | Path) -> None:
    """Write `labels.tsv`; reading it gives the same labels in the same order."""
    keys = list(labels.keys)

    def parent_cell(at: int) -> str:
        parents = [keys[parent] for parent in labels.parents_of(at)]
        cell = _joined(parents)
        # For the parents a and b where a label "a|b" exists too, an empty third parent says that these are two.
        while len(parents) > 1 and labels.index(_unescape(cell)) >= 0:
            cell += "|"
        return cell

    def line(at: int) -> str:
        name = labels.names[at] if labels.names is not None else ""
        key, name, description = (text.translate(ESCAPES) for text in (keys[at], name, labels.description(at)))
        return "\t".join([key, name, parent_cell(at), description, _joined(labels.alternatives(at))])

    write_lines(path, ["\t".join(COLUMNS), *map(line, range(len(labels)))])


def _joined(parts: Sequence[str]) -> str:
    return "|".join(part.translate(ESCAPES).replace("|", "\\|") for part in parts)


def numbered_labels(path: str, count: int, given: LabelSet | None, *, exact: bool) -> LabelSet:
    """The label set of a file with labels 0 to count - 1.

    Number i is the i-th label of the given label set, else of a `labels.tsv` in the same folder if that has `count`
    labels, else the label with the key "i". Without `exact`, `count` only covers the numbers that occur in the file,
    and a longer label set fits as well.
    """

    def fits(labels: LabelSet) -> bool:
        return len(labels) == count or (not exact and len(labels) > count)

    if given is not None and (fits(given) or _is_numbers(given)):
        return given.extend(map(str, range(len(given), count)))
    if given is not None:
        problem = f"it has {count} labels, but the label set that was given has {len(given)}"
        raise BadInput(path, None, problem, "give the label set that belongs to it, or none")
    if (found := beside(path)) and fits(labels := read(found)):
        return labels
    return LabelSet(Strings.of(map(str, range(count))))


def _is_numbers(labels: LabelSet) -> bool:
    """Whether the labels are just "0", "1", ... without names or parents."""
    plain = labels.names is None and labels.descriptions is None and labels.parents is None
    return plain and all(key == str(i) for i, key in enumerate(labels.keys))


def write_beside(labels: LabelSet, path: str) -> None:
    """Write `labels.tsv` into the folder of a file that has only numbers; never overwrite one with other labels."""
    target = Path(path).with_name(NAME)
    if target.exists():
        if read(target) != labels:
            raise XmtcError(f"{target} is there already and holds other labels; write to another folder")
    elif not _is_numbers(labels):
        write(labels, target)
