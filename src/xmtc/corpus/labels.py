"""The set of labels: keys, names, descriptions, alternatives, parents and training counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from xmtc.corpus.sparse import Csr as Csr
from xmtc.corpus.sparse import checked_csr
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError


class LabelSet:
    """An ordered set of labels; a label's id is its position and never changes, new labels go to the end.

    `keys` identify labels in files; `names` are for people (a label without a name is called by its key). `parents` is
    a labels x labels CSR matrix with a 1 where the column is a parent of the row: thesauri give labels several parents.

    >>> labels = LabelSet.of(["a", "b"], names=["Animals", "Birds"], parents=[[], ["a"]])
    >>> labels.index("b"), labels.name(1), labels.parents_of(1), labels.ancestors(1)
    (1, 'Birds', [0], [0])
    >>> [labels.extend(["c", "a"]).name(i) for i in range(3)]
    ['Animals', 'Birds', 'c']
    """

    def __init__(
        self,
        keys: Strings,
        names: Strings | None = None,
        descriptions: Strings | None = None,
        alternatives: Strings | None = None,
        parents: Csr | None = None,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        self.keys = keys
        self.names = names
        self.descriptions = descriptions
        self._alternatives = alternatives
        self.parents = parents
        self.counts = counts
        if parents is not None and (cycle := _cycle(parents)):
            path = " > ".join(self.key(i) for i in cycle)
            raise XmtcError(f"the label hierarchy has a cycle: {path}; a label cannot be its own ancestor")

    @classmethod
    def of(
        cls,
        keys: Iterable[str],
        names: Sequence[str] | None = None,
        descriptions: Sequence[str] | None = None,
        alternatives: Sequence[Sequence[str]] | None = None,
        parents: Sequence[Sequence[str]] | None = None,
    ) -> LabelSet:
        """Make a label set from plain lists; an unknown parent is a KeyError that names it."""
        made = cls(Strings.of(keys))
        index, size = made._index, len(made)
        matrix = None
        if parents is not None and any(parents):
            rows = [i for i, above in enumerate(parents) for _ in above]
            columns = [index[parent] for above in parents for parent in above]
            matrix = csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(size, size))
        labels = cls(
            made.keys,
            Strings.of(names) if names is not None else None,
            Strings.of(descriptions) if descriptions is not None else None,
            Strings.of("\n".join(a) for a in alternatives) if alternatives is not None else None,
            matrix,
        )
        labels._index = index
        return labels

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"LabelSet({len(self):,} labels)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelSet):
            return NotImplemented
        if len(self) != len(other) or self.keys != other.keys:
            return False
        same_parents = (self.parents is None) == (other.parents is None)
        if self.parents is not None and other.parents is not None:
            same_parents = abs(self.parents - other.parents).max() == 0
        size = len(self)
        return (
            same_parents
            and (self.names == other.names or self._all_names() == other._all_names())
            and _filled(self.descriptions, size) == _filled(other.descriptions, size)
            and _filled(self._alternatives, size) == _filled(other._alternatives, size)
        )

    __hash__ = None  # type: ignore[assignment]  # compares by value, so it is no dictionary key

    @cached_property
    def _index(self) -> Mapping[str, int]:
        index = dict(zip(self.keys, range(len(self)), strict=True))
        if len(index) < len(self):
            twice = next(key for i, key in enumerate(self.keys) if index[key] != i)
            raise XmtcError(f"the label {twice!r} occurs twice in the label set; keys must be unique")
        return index

    @cached_property
    def _by_name(self) -> Mapping[str, int]:
        if self.names is None:
            return self._index
        # From the last to the first, so that of labels with the same name the first is found.
        return dict(zip(reversed(self._all_names()), reversed(range(len(self))), strict=True))

    def _all_names(self) -> list[str]:
        if self.names is None:
            return list(self.keys)
        return [name or key for name, key in zip(self.names, self.keys, strict=True)]

    def index(self, key: str) -> int:
        """The id of the label with this key, -1 if there is none."""
        return self._index.get(key, -1)

    def find(self, key_or_name: str) -> int:
        """The id of a label by key or, failing that, by name; an error that suggests close names if there is none."""
        at = self.index(key_or_name)
        if at < 0:
            at = self._by_name.get(key_or_name, -1)
        if at < 0:
            import difflib

            # Looking through more names than this takes seconds.
            close = difflib.get_close_matches(key_or_name, [*self._by_name], n=3) if len(self) <= 200_000 else []
            hint = f"; did you mean {', '.join(map(repr, close))}?" if close else ""
            raise XmtcError(f"there is no label {key_or_name!r}{hint}")
        return at

    def key(self, at: int) -> str:
        """The key of label `at`, as files have it."""
        return self.keys[at]

    def name(self, at: int) -> str:
        """The name of label `at` for people: its name, or its key where it has none."""
        return (self.names[at] if self.names is not None else "") or self.keys[at]

    def path(self, at: int) -> str:
        """The name behind the names of what is above it (its first parents), where names alone may be ambiguous.

        >>> LabelSet.of(["a", "b"], names=["Animals", "Birds"], parents=[[], ["a"]]).path(1)
        'Animals › Birds'
        """
        names = [self.name(at)]
        while above := self.parents_of(at):
            at = above[0]
            names.insert(0, self.name(at))
        return " › ".join(names)

    def description(self, at: int) -> str:
        """The description of label `at`, empty where it has none."""
        return self.descriptions[at] if self.descriptions is not None else ""

    def alternatives(self, at: int) -> list[str]:
        """Other names of label `at` (SKOS altLabel)."""
        joined = self._alternatives[at] if self._alternatives is not None else ""
        return joined.split("\n") if joined else []

    def parents_of(self, at: int) -> list[int]:
        """Ids of the direct parents of label `at`."""
        if self.parents is None:
            return []
        found: list[int] = self.parents.indices[self.parents.indptr[at] : self.parents.indptr[at + 1]].tolist()
        return found

    def ancestors(self, at: int) -> list[int]:
        """Ids of all labels above label `at`, nearest first."""
        found: dict[int, None] = {}
        queue = self.parents_of(at)
        while queue:
            above = queue.pop(0)
            if above not in found:
                found[above] = None
                queue += self.parents_of(above)
        return list(found)

    def extend(self, keys: Iterable[str]) -> LabelSet:
        """This set with the keys it lacks added at the end; ids of present labels stay."""
        new = [key for key in dict.fromkeys(keys) if key not in self._index]
        if not new:
            return self
        size = len(self) + len(new)
        parents = self.parents
        if parents is not None:
            indptr = np.concatenate([parents.indptr, np.full(len(new), parents.indptr[-1])])
            parents = csr_array((parents.data, parents.indices, indptr), shape=(size, size))

        def padded(column: Strings | None) -> Strings | None:
            return None if column is None else Strings.joined([column, Strings.of([""] * len(new))])

        counts = None if self.counts is None else np.concatenate([self.counts, np.zeros(len(new), np.int64)])
        extended = LabelSet(
            Strings.joined([self.keys, Strings.of(new)]),
            padded(self.names),
            padded(self.descriptions),
            padded(self._alternatives),
            parents,
            counts,
        )
        extended._index = {**self._index, **dict(zip(new, range(len(self), size), strict=True))}
        return extended

    def with_counts(self, counts: NDArray[np.int64]) -> LabelSet:
        """The same labels with these training counts."""
        if len(counts) != len(self):
            raise ValueError(f"{len(counts)} counts for {len(self)} labels")
        same = object.__new__(LabelSet)
        same.__dict__.update(self.__dict__)
        same.counts = np.asarray(counts, np.int64)
        return same

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as flat arrays, for storage."""
        arrays: dict[str, NDArray[Any]] = {}
        columns = {
            "keys": self.keys,
            "names": self.names,
            "descriptions": self.descriptions,
            "alternatives": self._alternatives,
        }
        for name, column in columns.items():
            if column is not None:
                arrays[f"{name}.utf8"], arrays[f"{name}.offsets"] = column.compact()
        if self.parents is not None:
            arrays["parents.indices"] = self.parents.indices.astype(np.int32)
            arrays["parents.indptr"] = self.parents.indptr.astype(np.int64)
        if self.counts is not None:
            arrays["counts"] = self.counts
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> LabelSet:
        """The inverse of `to_arrays`; a KeyError or ValueError for arrays that no `to_arrays` made."""

        def column(name: str) -> Strings | None:
            if f"{name}.offsets" not in arrays and name != "keys":
                return None
            found = Strings.checked(arrays[f"{name}.utf8"], arrays[f"{name}.offsets"])
            if len(found) != size:
                raise ValueError(f"{len(found)} {name} for {size} labels")
            return found

        size = len(arrays["keys.offsets"]) - 1
        keys = column("keys")
        assert keys is not None
        parents = None
        if "parents.indices" in arrays:
            indices = arrays["parents.indices"]
            parents = checked_csr(np.ones(len(indices), np.float32), indices, arrays["parents.indptr"], (size, size))
        counts = arrays.get("counts")
        if counts is not None and (counts.dtype != np.int64 or counts.shape != (size,) or np.any(counts < 0)):
            raise ValueError(f"the training counts are not one number for each of {size} labels")
        return cls(keys, column("names"), column("descriptions"), column("alternatives"), parents, counts)


def _filled(column: Strings | None, size: int) -> Strings:
    """A column that may be missing, which says the same as one of empty strings."""
    return column if column is not None else Strings.of([""] * size)


def _cycle(parents: Csr) -> list[int]:
    """The ids along a cycle of the parent relation (first = last), or [] if there is none."""
    # Without cycles each label is a strongly connected component of its own: seen in a tenth of a second for a million
    # labels. Only to name the labels of a cycle must the graph be walked.
    components, _ = connected_components(parents, directed=True, connection="strong")
    if components == parents.shape[0] and not parents.diagonal().any():
        return []
    indptr, indices = parents.indptr.tolist(), parents.indices.tolist()
    unseen, open_, done = 0, 1, 2
    state = bytearray(len(indptr) - 1)
    for root in range(len(state)):
        if state[root] != unseen:
            continue
        path, cursors = [root], [indptr[root]]
        state[root] = open_
        while path:
            node = path[-1]
            if cursors[-1] == indptr[node + 1]:
                state[node] = done
                path.pop()
                cursors.pop()
                continue
            above = indices[cursors[-1]]
            cursors[-1] += 1
            if state[above] == open_:
                return [*path[path.index(above) :], above]
            if state[above] == unseen:
                state[above] = open_
                path.append(above)
                cursors.append(indptr[above])
    return []
