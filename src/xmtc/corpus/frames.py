"""Tables of other libraries as columns of plain Python values; none of these libraries is imported here.

pandas and polars DataFrames, pyarrow tables, Hugging Face datasets, dictionaries of columns and lists of records all
become a `Frame`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xmtc.errors import XmtcError

#: A table of any of these libraries.
Table = Any


@dataclass(frozen=True)
class Frame:
    """The columns of a table; `index` has the names of its rows, unless they are merely numbered.

    `classes` are the label names of columns that hold numbers of classes (`ClassLabel` of Hugging Face).

    >>> frame = frame_of([{"text": "red fruit", "labels": ["apple"]}, {"text": "sky", "labels": None}])
    >>> frame.names, frame.column("labels")
    (['text', 'labels'], [['apple'], None])
    """

    names: list[Any]
    read: Callable[[Any], list[Any]]
    index: list[str] | None = None
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def column(self, name: Any, option: str = "text") -> list[Any]:
        """The values of a column; an error that names the columns if it is missing or there twice."""
        if not isinstance(name, Hashable):
            raise XmtcError(f"{option}= is {described(name)}; give the name of a column")
        if (times := self.names.count(name)) != 1:
            found = ", ".join(map(repr, self.names)) or "none"
            problem = f"no column {name!r}" if not times else f"{times} columns are called {name!r}"
            remedy = f"name the column with {option}=" if not times else "rename one of them"
            raise XmtcError(f"{problem} (columns found: {found}); {remedy}")
        return self.read(name)


def frame_of(value: Any) -> Frame | None:
    """The columns of a table of any library; None for what is no table."""
    if is_a(value, "pandas", "DataFrame"):
        return Frame(list(value.columns), lambda name: value[name].tolist(), row_names(value.index))
    if is_a(value, "polars", "DataFrame"):
        return Frame(list(value.columns), lambda name: value.get_column(name).to_list())
    if is_a(value, "pyarrow", "Table", "RecordBatch"):
        return Frame(list(value.schema.names), lambda name: value.column(name).to_pylist())
    if is_a(value, "datasets", "Dataset"):
        return Frame(list(value.column_names), lambda name: list(value[name]), classes=_classes(value.features))
    if is_a(value, "datasets", "DatasetDict", "IterableDatasetDict"):
        splits = ", ".join(map(repr, value))
        raise XmtcError(
            f"a {type(value).__name__} of several splits ({splits}); take one of them: data[{next(iter(value), '')!r}]"
        )
    if is_a(value, "datasets", "IterableDataset"):
        raise XmtcError("an IterableDataset is a stream; make a table of it: Dataset.from_list(list(data))")
    if isinstance(value, Mapping):
        return _dictionary(value)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Mapping):
        return _records(value)
    if is_a(value, "polars", "LazyFrame") or (hasattr(value, "columns") and hasattr(value, "dtypes")):
        raise XmtcError(
            f"a {type(value).__module__.partition('.')[0]} {type(value).__name__} cannot be read; "
            "turn it into a pandas DataFrame first"
        )
    return None


def is_a(value: Any, library: str, *names: str) -> bool:
    """Whether a value is of a class of a library, told by name so that nothing is imported.

    >>> import collections
    >>> is_a(collections.OrderedDict(), "collections", "OrderedDict"), is_a({}, "pandas", "DataFrame")
    (True, False)
    """
    return any(base.__name__ in names and base.__module__.partition(".")[0] == library for base in type(value).__mro__)


def row_names(index: Any) -> list[str] | None:
    """The index of a pandas frame or series as identifiers; None if it merely numbers the rows."""
    names = index.tolist()
    if names == list(range(len(names))):
        return None
    return [str(name) for name in names]


def missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, or pandas' NA and NaT.

    >>> missing(None), missing(float("nan")), missing(""), missing(0)
    (True, True, False, False)
    """
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _dictionary(value: Mapping[Any, Any]) -> Frame:
    for name, column in value.items():
        if isinstance(column, (str, bytes, Mapping)) or not hasattr(column, "__len__"):
            kind = type(column).__name__
            raise XmtcError(f"a dict is read as columns, but {name!r} is a {kind}; give each column as a list")
    sizes = {name: len(column) for name, column in value.items()}
    if len(set(sizes.values())) > 1:
        lengths = ", ".join(f"{name!r} has {size}" for name, size in sizes.items())
        raise XmtcError(f"the columns of a dict must be equally long: {lengths}")
    return Frame(list(value), lambda name: list(value[name]))


def _records(records: Sequence[Any]) -> Frame:
    for at, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise XmtcError(f"records[{at}] is a {type(record).__name__}; the records before it are dicts")

    def read(name: Any) -> list[Any]:
        for at, record in enumerate(records):
            if name not in record:
                raise XmtcError(f"records[{at}] has no {name!r}, other records have; give None where there is none")
        return [record[name] for record in records]

    return Frame(list(dict.fromkeys(name for record in records for name in record)), read)


def _classes(features: Mapping[str, Any] | None) -> dict[str, Sequence[str]]:
    """The names of the classes of each column that has some, also where a cell is a list of classes."""
    named = {}
    for name, feature in (features or {}).items():
        classes = getattr(
            feature[0] if isinstance(feature, list) else getattr(feature, "feature", feature), "names", None
        )
        if classes:
            named[name] = classes
    return named


class Cells(list[Any]):
    """The labels of documents as a column of a table has them: a string may hold several, as in a CSV file."""


def plain(values: Any) -> Any:
    """A series of pandas or polars, or an array, as a list; cells where it is a column of a table."""
    if is_a(values, "pandas", "Series", "Index"):
        return Cells(values.tolist())
    if is_a(values, "polars", "Series"):
        return Cells(values.to_list())
    if is_a(values, "pyarrow", "Array", "ChunkedArray"):
        return Cells(values.to_pylist())
    if isinstance(values, np.ndarray):
        return values.tolist()
    return values


def is_number(value: Any) -> bool:
    """Whether a value is a whole number, which True is not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def described(value: Any) -> str:
    """A value in a few words, for an error.

    >>> described(None), described(2.5), described(["a", "b"]), described(np.zeros((2, 3)))
    ('None', 'the float 2.5', 'a list', 'an array of shape (2, 3)')
    """
    if value is None or missing(value):
        return "None" if value is None else "NaN"
    if isinstance(value, (str, bytes, bool, int, float, np.generic)):
        value = value.item() if isinstance(value, np.generic) else value
        shown = repr(value)
        return f"the {type(value).__name__} {shown if len(shown) <= 40 else shown[:37] + '...'}"
    if isinstance(value, np.ndarray) or hasattr(value, "tocsr"):
        return f"an array of shape {tuple(map(int, value.shape))}"
    kind = type(value).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def whole_number(value: Any, name: str) -> int:
    """A number from 1, such as k; an error for anything else.

    >>> whole_number(np.int64(3), "k")
    3
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise XmtcError(f"{name} must be a whole number, not {described(value)}")
    if value < 1:
        raise XmtcError(f"{name} must be at least 1, not {value}")
    return int(value)
