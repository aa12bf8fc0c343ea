"""How much documents and labels count in training: numbers from what users have, checked.

A document with the weight 2 counts as if it were there twice, one with the weight 0 as if it were not there. The weight
of a label multiplies the loss of its positive examples, the documents that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.frames import described, plain
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode
from xmtc.corpus.strings import Strings
from xmtc.errors import BadInput, XmtcError

Floats = NDArray[np.float32]
LARGEST = float(np.finfo(np.float32).max)
FORM = "a line for each label: its key or name, a tab, and its weight"


def document_weights(values: Any, documents: Strings | int, name: str = "document_weights") -> Floats:
    """A weight from 0 for each document; `documents` are their ids, for errors, or their number.

    >>> document_weights([1, "2.5", 0], 3).tolist()
    [1.0, 2.5, 0.0]
    """

    def called(at: int) -> str:
        return f"document {at} (from 0)" if isinstance(documents, int) else f"document {documents[at]!r}"

    weights = _numbers(values, name, called)
    count = documents if isinstance(documents, int) else len(documents)
    if len(weights) != count:
        raise XmtcError(f"{name}: {len(weights)} weights for {count} documents")
    wrong = np.flatnonzero(~((weights >= 0) & (weights <= LARGEST)))
    if len(wrong):
        at = int(wrong[0])
        raise XmtcError(f"{name}: the weight of {called(at)} is {weights[at]:g}; a finite number from 0 is needed")
    if not weights.any():
        raise XmtcError(f"{name}: all weights are 0, so there is nothing to learn from")
    return weights.astype(np.float32)


def label_weights(values: Any, labels: LabelSet, name: str = "label_weights") -> Floats:
    """A weight above 0 for each label: from a mapping by key or name, where labels without one have 1, or an array.

    >>> label_weights({"b": 3}, LabelSet.of(["a", "b"])).tolist()
    [1.0, 3.0]
    """
    if isinstance(values, Mapping):
        keys = list(map(str, values))
        given = _numbers(list(values.values()), name, lambda at: repr(keys[at]))
        weights = np.ones(len(labels))
        for ids, weight in zip(_ids(keys, labels, name), given.tolist(), strict=True):
            weights[ids] = weight
    else:
        weights = _numbers(values, name, lambda at: repr(labels.name(at)) if at < len(labels) else f"label {at}")
        if len(weights) != len(labels):
            raise XmtcError(f"{name}: {len(weights)} weights for {len(labels)} labels")
    wrong = np.flatnonzero(~((weights.astype(np.float32) > 0) & (weights <= LARGEST)))
    if len(wrong):
        at = int(wrong[0])
        raise XmtcError(f"{name}: the weight of {labels.name(at)!r} is {weights[at]:g}; a number above 0 is needed")
    return weights.astype(np.float32)


def _ids(keys: list[str], labels: LabelSet, name: str) -> Iterator[list[int]]:
    """For each key or name its labels: a name stands for every label that has it."""
    named: dict[str, list[int]] = {}
    if any(labels.index(key) < 0 for key in keys):
        for label in range(len(labels)):
            named.setdefault(labels.name(label), []).append(label)
    for key in keys:
        at = labels.index(key)
        try:
            yield [at] if at >= 0 else named.get(key) or [labels.find(key)]
        except XmtcError as error:
            raise XmtcError(f"{name}: {error}") from error


def read_label_weights(path: str | Path) -> dict[str, float]:
    """Read a file with a label and its weight on each line, separated by a tab; a header `label weight` is skipped."""
    found: dict[str, float] = {}
    for number, line in Source(path).lines():
        try:
            label, tab, cell = decode(line).rpartition("\t")
            label, cell = label.strip(), cell.strip()
            if not found and (label, cell) == ("label", "weight"):
                continue
            if not tab or not label:
                raise BadLine("no label and weight with a tab between them")
            if label in found:
                raise BadLine(f"the label {label!r} is there twice")
            try:
                found[label] = float(cell)
            except ValueError:
                raise BadLine(f"the weight of {label!r} is {cell!r}, not a number") from None
        except BadLine as error:
            raise BadInput(path, number, error.problem, error.remedy or FORM) from error
    if not found:
        raise BadInput(path, None, "there is no weight in it", FORM)
    return found


def drawn_by_weight(weights: Floats, start: float) -> NDArray[np.int64]:
    """As many documents as there are weights, each about as often as its share of all weight says (rising numbers).

    Systematic sampling: a document whose share is 2.3 times the mean is drawn two or three times, whichever `start`,
    a random number in [0, 1), decides. Equal weights give each document once.

    >>> drawn_by_weight(np.array([2, 1, 1, 0], np.float32), 0.5).tolist()
    [0, 0, 1, 2]
    """
    ends = np.cumsum(weights, dtype=np.float64)
    steps = (start + np.arange(len(weights))) * (ends[-1] / len(weights))
    # Rounding must not lead behind the last document that counts.
    drawn: NDArray[np.int64] = np.minimum(np.searchsorted(ends, steps, side="right"), np.flatnonzero(weights)[-1])
    return drawn


def _numbers(values: Any, name: str, called: Callable[[int], str]) -> NDArray[np.float64]:
    """The values as numbers; an error that says of what the one that is none is."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise XmtcError(f"{name} is {described(values)}; a list or array of numbers is needed")
    listed = list(plain(values))
    try:
        numbers = np.asarray(listed, np.float64)
    except (ValueError, TypeError):
        numbers = np.zeros((0, 0))
    if numbers.ndim == 1:
        return numbers
    for at, value in enumerate(listed):
        try:
            float(value)
        except (ValueError, TypeError):
            raise XmtcError(f"{name}: the weight of {called(at)} is {described(value)}, not a number") from None
    raise XmtcError(f"{name}: a list or array of one dimension is needed")
