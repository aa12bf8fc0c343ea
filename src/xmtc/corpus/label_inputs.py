"""The labels of documents as people hand them over from Python, made a label matrix and a label set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain
from typing import Any

import numpy as np

from xmtc.corpus.builder import ReadOptions
from xmtc.corpus.corpus import label_matrix
from xmtc.corpus.formats.table import labels_in_cell, likely_separator
from xmtc.corpus.frames import Cells, Frame, described, frame_of, is_number, missing, plain
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sparse import Csr
from xmtc.errors import XmtcError

ZERO_ONE = (0, 1)
NUMBERS = "biuf"  # kinds of numpy types: bool, whole numbers and floats


def targets_of(
    labels: Any, size: int, label_set: LabelSet | None, label_names: Any = None, label_separator: str | None = None
) -> tuple[Csr, LabelSet]:
    """The label matrix of `size` documents and its labels: those of `label_set` first, then new ones as they come."""
    if label_set is not None and not isinstance(label_set, LabelSet):
        raise XmtcError(f"label_set is {described(label_set)}; make one with LabelSet.of(keys, names)")
    if label_separator is not None and (not isinstance(label_separator, str) or not label_separator):
        raise XmtcError(f"label_separator is {described(label_separator)}; give a string such as ';'")
    known = label_set or LabelSet.of([])
    names = None if label_names is None else _names(label_names)
    if labels is None:
        return label_matrix([], np.zeros(size + 1, np.int32), len(known)), known
    labels, names = _plain_labels(labels, names)
    if _is_matrix(labels):
        if names is None and len(known) == labels.shape[1]:
            names = list(known.keys)
        return _multi_hot(labels, size, known, names)
    if names is None:
        rows = label_rows(labels, label_separator)
    elif _is_multi_hot(labels := list(labels), len(names)):
        return _multi_hot(np.array(labels), size, known, names)
    else:
        rows = [[names[at] for at in row] for row in _numbered_rows(labels, len(names))]
        known = known.extend(names)
    if len(rows) != size:
        raise XmtcError(f"{size} texts but {len(rows)} lists of labels")
    known = known.extend(chain.from_iterable(rows))
    indices = [known.index(tag) for row in rows for tag in row]
    return label_matrix(indices, np.cumsum([0, *map(len, rows)]), len(known)), known


def _is_matrix(labels: Any) -> bool:
    if isinstance(labels, np.ndarray):
        return labels.ndim == 2 and labels.dtype.kind in NUMBERS
    return hasattr(labels, "tocsr")


def _plain_labels(labels: Any, names: list[str] | None) -> tuple[Any, list[str] | None]:
    """(labels as a list or a matrix, names of its columns); an error for what cannot be the labels of documents."""
    if isinstance(labels, list) or _is_matrix(labels):
        return labels, names
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise XmtcError(f"the labels are {described(labels)}; give a list with the labels of each document")
    if isinstance(labels, (Mapping, set, frozenset)):
        raise XmtcError(f"the labels are {described(labels)}; give a list, in the order of the texts")
    if isinstance(labels, np.ndarray) and labels.ndim not in (1, 2):
        raise XmtcError(f"the labels are {described(labels)}; give documents x labels")
    frame = None if isinstance(labels, tuple) else frame_of(labels)
    if frame is None:
        return plain(labels), names
    first = frame.column(frame.names[0], "labels") if len(frame.names) == 1 else []
    if len(frame.names) == 1 and not all(map(is_number, first)):
        return Cells(first), names
    return indicators(frame, frame.names), names if names is not None else _names(frame.names)


def indicators(frame: Frame, names: Sequence[Any]) -> Any:
    """The 0/1 columns of a frame, each that of a label, as a matrix."""
    if not names:
        raise XmtcError("labels=[] names no column; name those of the labels, or give labels=None for none")
    columns = [frame.column(name, "labels") for name in names]
    for name, column in zip(names, columns, strict=True):
        for at, cell in enumerate(column):
            if not isinstance(cell, (int, float, np.generic)) or cell not in ZERO_ONE:
                raise XmtcError(
                    f"column {name!r} has {described(cell)} in row {at}; a column for one label holds 0 and 1"
                )
    return np.array(columns, bool).reshape(len(columns), -1).T


def label_rows(labels: Iterable[Any], label_separator: str | None = None) -> list[list[str]]:
    """The label keys of each document, each once; sets in sorted order, whatever the hash seed.

    >>> label_rows(["sport", None]), label_rows([{"b", "a"}, [2, 7]])
    ([['sport'], []], [['a', 'b'], ['2', '7']])
    """
    options = ReadOptions(label_separator=label_separator)
    rows = list(labels)
    separator = None
    if isinstance(labels, Cells) and label_separator is None:
        separator = likely_separator([cell for cell in rows if isinstance(cell, str)])
    found: list[list[str]] = []
    kinds: dict[bool, int] = {}  # whether a row is a list, and the first such row
    for at, row in enumerate(rows):
        if type(row) is not list:
            if missing(row):
                found.append([])
                continue
            if isinstance(row, str):
                kinds.setdefault(False, at)
                found.append(_split(row, options, separator))
                continue
        several = not is_number(row)
        kinds.setdefault(several, at)
        found.append(_keys(at, row if several else [row]))
    if len(kinds) > 1 and not isinstance(labels, Cells):
        raise XmtcError(
            f"labels[{kinds[False]}] is one label and labels[{kinds[True]}] a list; give a list for each document"
        )
    if True in kinds and len(kinds) == 1:
        _refuse_multi_hot(rows)
    return found


def _split(cell: str, options: ReadOptions, separator: str | None) -> list[str]:
    if separator is not None:
        return labels_in_cell(cell, options, separator)
    return options.split(cell) if options.label_separator else [cell] if cell.strip() else []


def _keys(at: int, row: Any) -> list[str]:
    """The labels of one document as keys; whole numbers count as keys, as they do in files."""
    if isinstance(row, (bytes, Mapping)) or not isinstance(row, Iterable):
        raise XmtcError(f"labels[{at}] is {described(row)}; give the labels of a document as a list of strings")
    if isinstance(row, (set, frozenset)):
        row = sorted(row, key=str)
    keys = list(plain(row))
    for key in keys:
        if isinstance(key, str):
            if not key.strip():
                raise XmtcError(f"labels[{at}] has an empty label; leave it out")
        elif not is_number(key):
            raise XmtcError(f"labels[{at}] has the label {described(key)}; labels are strings or whole numbers")
    return list(dict.fromkeys(map(str, keys)))


def _refuse_multi_hot(rows: Sequence[Any]) -> None:
    """Lists of as many 0s and 1s for each document look like an indicator matrix: that is not guessed."""
    lists = [row for row in rows if isinstance(row, (list, tuple))]
    if lists and len(lists) == len(rows) and _is_multi_hot(lists, len(lists[0])) and len(lists[0]) > 1:
        raise XmtcError(
            "the labels look like rows of 0 and 1, one column a label; say what the columns are with label_names=[...]"
        )


def _is_multi_hot(rows: Sequence[Any], columns: int) -> bool:
    return all(
        isinstance(row, (list, tuple))
        and len(row) == columns
        and all(is_number(cell) and cell in ZERO_ONE for cell in row)
        for row in rows
    ) and bool(rows)


def _multi_hot(matrix: Any, size: int, known: LabelSet, names: list[str] | None) -> tuple[Csr, LabelSet]:
    """Targets from a 0/1 matrix, documents x labels, whose columns have names."""
    if matrix.shape[0] != size:
        raise XmtcError(f"{size} texts but {matrix.shape[0]} rows of labels")
    columns = int(matrix.shape[1])
    if names is None:
        raise XmtcError(
            f"the labels are {described(matrix)} without names; say what its columns are: label_names=[...] "
            f"(numbers if there are no names: label_names=range({columns}))"
        )
    if len(names) != columns:
        raise XmtcError(f"{columns} label columns but {len(names)} label_names")
    values = matrix.tocoo().data if hasattr(matrix, "tocsr") else matrix
    if not np.isin(values, ZERO_ONE).all():
        wrong = values[~np.isin(values, ZERO_ONE)].flat[0]
        raise XmtcError(f"the label matrix has the value {described(wrong)}; it must hold 0 and 1 only")
    rows, at = matrix.nonzero()
    known = known.extend(names)
    ids = np.array([known.index(name) for name in names], np.int32)
    order = np.argsort(rows, kind="stable")
    indptr = np.cumsum(np.append(0, np.bincount(rows, minlength=size)))
    return label_matrix(ids[at[order]], indptr, len(known)), known


def _numbered_rows(labels: Sequence[Any], size: int) -> list[list[int]]:
    """Numbers of labels, one or several for each document."""
    rows: list[list[int]] = []
    for at, row in enumerate(labels):
        if missing(row):
            rows.append([])
            continue
        numbers = [row] if is_number(row) or isinstance(row, str) or not isinstance(row, Iterable) else list(row)
        for number in numbers:
            if not is_number(number):
                raise XmtcError(f"labels[{at}] has {described(number)}; label_names is for labels given as numbers")
            if not 0 <= number < size:
                raise XmtcError(f"labels[{at}] has the number {number}, but there are {size} label_names")
        rows.append(list(map(int, numbers)))
    return rows


def _names(label_names: Any) -> list[str]:
    if isinstance(label_names, (str, bytes, Mapping, Set)) or not isinstance(label_names, Iterable):
        raise XmtcError(f"label_names is {described(label_names)}; give a list with the name of each column")
    names = list(label_names)
    for at, name in enumerate(names):
        if not (isinstance(name, str) and name.strip()) and not is_number(name):
            raise XmtcError(f"label_names[{at}] is {described(name)}; each must be a string")
    if len(set(map(str, names))) < len(names):
        raise XmtcError("label_names has a name twice; each column must have its own")
    return list(map(str, names))
