"""What people hand over from Python, made a corpus: lists, frames, series, records, datasets, multi-hot arrays.

Every call that takes documents reads them here. What is clearly meant is accepted; the rest is an XmtcError of one line
that says where the first wrong value is and what to give instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from xmtc.corpus.builder import PARAGRAPH
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.frames import Cells, Frame, described, frame_of, is_a, is_number, missing, plain, row_names
from xmtc.corpus.label_inputs import indicators, targets_of
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError

TEXT, LABELS, ID = "text", "labels", "id"  # the columns of a frame, unless others are named
ONE_TEXT = "a list of texts is needed, not one string; put a text into a list, [text], or read a file with xmtc.read"
TWO_ARGUMENTS = "fit takes one corpus, not texts and labels: fit(Corpus.of(texts, labels), valid=another_corpus)"


def corpus_of(
    texts: Any,
    labels: Any = None,
    label_set: LabelSet | None = None,
    name: str = "corpus",
    label_names: Any = None,
    label_separator: str | None = None,
) -> Corpus:
    """`Corpus.of` for anything but a plain list of texts."""
    if isinstance(texts, Corpus):
        if labels is None:
            return texts
        raise XmtcError("this is a corpus with labels of its own; for others: Corpus.of(corpus.texts, labels)")
    frame = frame_of(texts := _peeked(texts))
    if frame is not None and labels is None:
        column = LABELS if LABELS in frame.names else None
        return from_frame(frame, _text_column(frame), column, None, label_set, name, (), label_names, label_separator)
    if frame is not None:
        read, ids = _frame_texts(frame, _text_column(frame)), _ids(frame, None)
    else:
        read, ids = texts_of(texts, labels), _series_index(texts)
    _check_aligned(texts, labels)
    targets, known = targets_of(labels, len(read), label_set, label_names, label_separator)
    return Corpus(targets, known, texts=read, ids=ids, name=name)


def from_frame(
    table: Any,
    text: Any = TEXT,
    labels: Any = LABELS,
    id: str | None = None,
    label_set: LabelSet | None = None,
    name: str = "corpus",
    keep: Sequence[str] = (),
    label_names: Any = None,
    label_separator: str | None = None,
) -> Corpus:
    """`Corpus.from_frame`."""
    frame = table if isinstance(table, Frame) else frame_of(table)
    if frame is None:
        raise XmtcError(f"from_frame takes a table such as a DataFrame, not {described(table)}; see Corpus.of")
    texts, ids = _frame_texts(frame, text), _ids(frame, id)
    given: Any = None
    if isinstance(labels, (list, tuple)):
        given, label_names = indicators(frame, labels), label_names or list(labels)
    elif labels is not None:
        given = Cells(frame.column(labels, LABELS))
        if label_names is None and labels in frame.classes:
            label_names, given = frame.classes[labels], Cells(map(_without_minus_one, given))
    targets, known = targets_of(given, len(texts), label_set, label_names, label_separator)
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise XmtcError(f"keep is {described(keep)}; give a list of columns: keep=['year']")
    fields = {column: Strings.of(map(_cell, frame.column(column, "keep"))) for column in keep}
    return Corpus(targets, known, texts=texts, ids=ids, fields=fields, name=name)


def labelled(documents: Any, call: str) -> Corpus:
    """The corpus that a call learns from or measures on: a corpus, or a table with the columns text and labels."""
    if isinstance(documents, Corpus):
        return documents
    if isinstance(documents, str):
        raise XmtcError(f"{call} takes a corpus, not a string; to read a file: {call}(xmtc.read({documents[:60]!r}))")
    frame = frame_of(_peeked(documents))
    if frame is None:
        raise XmtcError(f"{call} takes a corpus, not {described(documents)}; make one with Corpus.of(texts, labels)")
    for column in (TEXT, LABELS):
        if column not in frame.names:
            found = ", ".join(map(repr, frame.names)) or "none"
            raise XmtcError(
                f"{call}: no column {column!r} (columns found: {found}); name the columns: "
                f"{call}(Corpus.from_frame(frame, text=..., labels=...))"
            )
    return from_frame(frame)


def validation(valid: Any) -> Corpus | None:
    """The `valid=` of `fit`; labels in its place, as in `fit(X, y)`, are an error that says what to write."""
    if valid is None or isinstance(valid, Corpus):
        return valid
    if isinstance(valid, (int, float)):
        raise XmtcError(f"valid is a corpus, not {valid!r}; hold some documents out: train, valid = corpus.split(0.1)")
    if frame_of(valid) is None:
        raise XmtcError(TWO_ARGUMENTS)
    return labelled(valid, "fit")


def unlabelled(documents: Any, call: str) -> Corpus:
    """The documents of a call that needs no labels; the label column of a table is not even read."""
    if isinstance(documents, Corpus):
        return documents
    if type(documents) in (list, tuple) and documents and type(documents[0]) is str:
        return Corpus.of(documents)  # the quick way
    if isinstance(documents, str):
        raise XmtcError(f"{call} takes a list of texts or a corpus; put a single text into a list: [text]")
    frame = frame_of(documents := _peeked(documents))
    if frame is not None:
        return from_frame(frame, _text_column(frame), None)
    return corpus_of(documents)


def texts_of(texts: Any, labels: Any = None) -> Strings:
    """A column of texts from any iterable of strings but a set, which has no order."""
    if isinstance(texts, Strings):
        return texts
    if isinstance(texts, str):
        raise XmtcError(ONE_TEXT)
    if (isinstance(texts, np.ndarray) and texts.ndim != 1) or hasattr(texts, "tocsr"):
        raise XmtcError(f"the texts are {described(texts)}; give one column of strings, such as array[:, 0]")
    if isinstance(texts, (set, frozenset)):
        raise XmtcError("the texts are a set, which has no order; give a list")
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise XmtcError(f"a list of texts is needed, not {described(texts)}")
    return Strings.of(_strings(plain(texts), labels))


def _strings(texts: Iterable[Any], labels: Any) -> Iterator[str]:
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise XmtcError(f"texts[{at}] is {described(text)}, not a string{_remedy(text, labels)}")
        yield text


def _remedy(text: Any, labels: Any) -> str:
    """What to do about a text that is none."""
    if missing(text):
        return "; leave such documents out, or give them the text ''"
    if isinstance(text, bytes):
        return "; decode it: text.decode()"
    if isinstance(text, (list, tuple, set, frozenset)) and labels is not None:
        return "; texts come first, then labels: Corpus.of(texts, labels)"
    if isinstance(text, (list, tuple)):
        return "; for pairs of text and labels: Corpus.of(*zip(*pairs))"
    return "; str(text) makes one"


def _frame_texts(frame: Frame, text: str | Sequence[str]) -> Strings:
    """The texts of a frame; of several columns those that are missing count as empty, if one is not."""
    names = list(text) if isinstance(text, (list, tuple)) else [text]
    if not names:
        raise XmtcError("text=[] names no column; name one or several")
    columns = [frame.column(name) for name in names]
    if len(columns) == 1 and set(map(type, columns[0])) <= {str}:
        return Strings.of(columns[0])
    for name, column in zip(names, columns, strict=True):
        for at, cell in enumerate(column):
            if not isinstance(cell, str) and not missing(cell):
                raise XmtcError(f"column {name!r} has {described(cell)} in row {at}, not a string; str(cell) makes one")
    texts = []
    for at, cells in enumerate(zip(*columns, strict=True)):
        if all(map(missing, cells)):
            where = " and ".join(map(repr, names))
            remedy = f"drop such rows, df.dropna(subset={names!r}), or fill them, df.fillna('')"
            raise XmtcError(f"row {at} has no text (column {where}); {remedy}")
        texts.append(PARAGRAPH.join("" if missing(cell) else cell for cell in cells))
    return Strings.of(texts)


def _text_column(frame: Frame) -> str:
    """The column `text`, or the only one."""
    return TEXT if TEXT in frame.names or len(frame.names) != 1 else frame.names[0]


def _ids(frame: Frame, column: str | None) -> Strings | None:
    """The identifiers in a column: the one that is named, else `id`, else the index if it names the rows."""
    if column is None and ID not in frame.names:
        return Strings.of(frame.index) if frame.index is not None else None
    cells = frame.column(column if column is not None else ID, "id")
    if any(map(missing, cells)):
        raise XmtcError(f"row {list(map(missing, cells)).index(True)} has no id; number the documents or leave ids out")
    return Strings.of(map(str, cells))


def _without_minus_one(cell: Any) -> Any:
    """A cell of class numbers, in which -1 says that there is no class."""
    if is_number(cell):
        return None if cell == -1 else cell
    return cell


def _peeked(texts: Any) -> Any:
    """The same values; an iterator whose first value is a record becomes a list, which `frame_of` knows."""
    if not isinstance(texts, Iterator):
        return texts
    for first in texts:
        return [first, *texts] if isinstance(first, Mapping) else chain([first], texts)
    return []


def _series_index(texts: Any) -> Strings | None:
    names = row_names(texts.index) if is_a(texts, "pandas", "Series") else None
    return Strings.of(names) if names is not None else None


def _check_aligned(texts: Any, labels: Any) -> None:
    """Two columns with different indexes are no pairs: pandas would match them by index, and a list by place."""
    both = all(is_a(column, "pandas", "Series", "DataFrame") for column in (texts, labels))
    if both and not texts.index.equals(labels.index):
        raise XmtcError("the indexes of texts and labels differ; bring both into one order: labels.loc[texts.index]")


def _cell(value: Any) -> str:
    return "" if missing(value) else str(value)
