"""A column of strings as one UTF-8 buffer and offsets.

A list of a million Python strings costs 50 to 100 bytes a string beside its text, and no compiled kernel can read it.
This column costs 16 bytes a string, is sliced without copying, and is handed to kernels as it is.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from xmtc.errors import XmtcError
from xmtc.progress import track

Rows = slice | NDArray[np.integer[Any]] | NDArray[np.bool_] | Sequence[int]


def row_index(rows: Rows) -> slice | NDArray[Any]:
    """Rows as numpy takes them; it would read an empty list as an array of floats and refuse it."""
    if isinstance(rows, slice):
        return rows
    index = np.asarray(rows)
    return index if index.size else index.astype(np.int64)


def chosen_rows(rows: Any, size: int, what: str, one: str) -> slice | NDArray[Any]:
    """Rows that someone chose of `size`: a slice, or row numbers; an error for anything else, as for a single row.

    >>> chosen_rows([True, False, True], 3, "corpus", "corpus.texts[{}]").tolist()
    [0, 2]
    """
    if isinstance(rows, slice):
        if all(end is None or hasattr(end, "__index__") for end in (rows.start, rows.stop, rows.step)):
            return rows
        raise XmtcError(f"a slice of a {what} has whole numbers, as in {what}[0:10]")
    if isinstance(rows, (int, np.integer)) and not isinstance(rows, bool):
        single = one.format(rows)
        raise XmtcError(
            f"{what}[{rows}] would be a single row; take {what}[{rows}:{rows + 1}] for a {what} of one, or {single}"
        )
    if isinstance(rows, (str, bytes)) or not hasattr(rows, "__iter__"):
        raise XmtcError(f"{what}[{rows!r:.60}]: choose rows by a slice or by row numbers, as in {what}[0:10]")
    index = row_index(rows if hasattr(rows, "__len__") else list(rows))
    assert isinstance(index, np.ndarray)
    if index.ndim != 1 or index.dtype.kind not in "biu":
        raise XmtcError(
            f"choose rows of a {what} by whole numbers or by a mask, not by {index.dtype} of shape {index.shape}"
        )
    if index.dtype == np.bool_:
        if len(index) != size:
            raise XmtcError(f"the mask has {len(index):,} values for {size:,} rows of the {what}")
        return np.flatnonzero(index)
    if index.size and not -size <= index.min() <= index.max() < size:
        raise XmtcError(
            f"there is no row {index.max() if index.max() >= size else index.min()}; the {what} has {size:,}"
        )
    return index


class Strings(Sequence[str]):
    """An immutable sequence of strings; a slice or an index array gives a view on the same buffer.

    >>> animals = Strings.of(["cat", "Löwe", ""])
    >>> list(animals), animals[1], list(animals[::-1])
    (['cat', 'Löwe', ''], 'Löwe', ['', 'Löwe', 'cat'])
    """

    __slots__ = ("buffer", "ends", "starts")

    def __init__(self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        if buffer.flags.writeable:
            buffer = buffer.view()
            buffer.flags.writeable = False
        self.buffer = buffer
        self.starts = starts
        self.ends = ends

    @classmethod
    def of(cls, items: Iterable[str]) -> Strings:
        """Copy any iterable of strings into a column."""
        if isinstance(items, Strings):
            return items
        builder = StringsBuilder()
        builder.extend(items)
        return builder.build()

    @classmethod
    def from_offsets(cls, buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Strings:
        """A column whose string i is `buffer[offsets[i]:offsets[i + 1]]`."""
        return cls(buffer, offsets[:-1], offsets[1:])

    @classmethod
    def checked(cls, buffer: NDArray[Any], offsets: NDArray[Any]) -> Strings:
        """As `from_offsets`, for arrays from a file: a ValueError unless every string is complete and valid UTF-8.

        >>> Strings.checked(np.frombuffer(b"ab", np.uint8), np.array([0, 3]))
        Traceback (most recent call last):
        ValueError: the offsets of strings do not rise from 0 to 2
        """
        if buffer.dtype != np.uint8 or offsets.dtype != np.int64 or buffer.ndim != 1 or offsets.ndim != 1:
            raise ValueError("strings must be stored as bytes and 64-bit offsets")
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(buffer) or np.any(offsets[1:] < offsets[:-1]):
            raise ValueError(f"the offsets of strings do not rise from 0 to {len(buffer)}")
        str(buffer.data, "utf-8")  # a UnicodeDecodeError is a ValueError
        begins = buffer[offsets[:-1][offsets[:-1] < len(buffer)]]
        if np.any(begins & 0xC0 == 0x80):
            raise ValueError("a string begins within a character")
        return cls.from_offsets(buffer, offsets)

    @classmethod
    def joined(cls, parts: Sequence[Strings]) -> Strings:
        """The strings of several columns, one after the other.

        >>> list(Strings.joined([Strings.of(["a", "b"])[1:], Strings.of(["c"])]))
        ['b', 'c']
        """
        buffers, offsets = zip(*(part.compact() for part in parts), strict=True)
        sizes = np.concatenate([np.zeros(1, np.int64), *map(np.diff, offsets)])
        return cls.from_offsets(np.concatenate(buffers), np.cumsum(sizes))

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: Rows) -> Strings: ...
    def __getitem__(self, at: int | Rows) -> str | Strings:
        if isinstance(at, (int, np.integer)):
            return self.utf8(int(at)).decode("utf-8")
        rows = row_index(at)
        return Strings(self.buffer, self.starts[rows], self.ends[rows])

    def __iter__(self) -> Iterator[str]:
        view = self.buffer.data
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            yield str(view[start:end], "utf-8")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strings):
            return NotImplemented
        if self is other or len(self) != len(other):
            return self is other
        # Compare lengths first, which copies no text.
        return np.array_equal(self.lengths, other.lengths) and np.array_equal(self.compact()[0], other.compact()[0])

    def __reduce__(self) -> tuple[Any, ...]:
        # A view of some strings is pickled without the others.
        return type(self).from_offsets, self.compact()

    __hash__ = None  # type: ignore[assignment]  # compares by value, so it is no dictionary key

    def __repr__(self) -> str:
        return f"Strings({len(self):,} strings, {self.nbytes:,} bytes)"

    def utf8(self, at: int) -> bytes:
        """String `at` as UTF-8 bytes."""
        return self.buffer[self.starts[at] : self.ends[at]].tobytes()

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of each string in bytes."""
        return self.ends - self.starts

    @property
    def nbytes(self) -> int:
        """Bytes of text, without offsets."""
        return int(self.lengths.sum())

    def compact(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """(buffer, offsets) of just these strings in order, for storage."""
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        if len(self) and np.all(self.starts[1:] == self.ends[:-1]):
            return self.buffer[self.starts[0] : self.ends[-1]], offsets
        parts = [self.buffer[s:e] for s, e in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]
        return (np.concatenate(parts) if parts else np.zeros(0, np.uint8)), offsets


class StringsBuilder:
    """Collects strings one by one; needs little more memory than the column it makes.

    >>> builder = StringsBuilder()
    >>> builder.append("one")
    >>> builder.extend(["two"])
    >>> list(builder.build())
    ['one', 'two']
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._offsets = array("q", [0])

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def append(self, item: str) -> None:
        """Add a string; lone surrogates, which UTF-8 cannot hold, become '?'."""
        self._bytes += item.encode("utf-8", "replace")
        self._offsets.append(len(self._bytes))

    def extend(self, items: Iterable[str]) -> None:
        """Add many strings, faster than one by one."""
        rest = iter(items)
        # In batches, so that there are never two copies of everything.
        while encoded := [item.encode("utf-8", "replace") for item in islice(rest, 1024)]:
            end = self._offsets.pop()
            self._bytes += b"".join(encoded)
            self._offsets.extend(accumulate(map(len, encoded), initial=end))

    def build(self) -> Strings:
        """The column; the builder must not be used afterwards."""
        buffer = np.frombuffer(self._bytes, np.uint8)
        return Strings.from_offsets(buffer, np.frombuffer(self._offsets, np.int64))


def digests(strings: Strings) -> NDArray[np.uint64]:
    """8 bytes for each string: equal for equal strings, and small enough for millions of documents.

    >>> one, other, again = digests(Strings.of(["cat", "dog", "cat"])).tolist()
    >>> one == again, one == other
    (True, False)
    """
    hashed = bytearray()
    for row in track(range(len(strings)), "hashing texts"):
        hashed += hashlib.blake2b(strings.utf8(row), digest_size=8).digest()
    return np.frombuffer(hashed, "<u8").astype(np.uint64, copy=False)
