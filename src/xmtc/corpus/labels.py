"""The set of labels: keys, names, descriptions, alternatives, parents and training counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from xmtc.corpus.frames import described
from xmtc.corpus.sparse import Csr as Csr
from xmtc.corpus.sparse import checked_csr, make_csr
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError


@dataclass(eq=False, repr=False)
class LabelSet:
    """An ordered set of labels; a label's id is its position and never changes, new labels go to the end.

    `keys` identify labels in files; `names` are for people (a label without a name is called by its key), and
    `alternative_names` has the other names of a label, one per line. `parents` is a labels x labels CSR matrix with a 1
    where the column is a parent of the row: thesauri give labels several parents.

    >>> labels = LabelSet.of(["a", "b"], names=["Animals", "Birds"], parents=[[], ["a"]])
    >>> labels.index("b"), labels.name(1), labels.parents_of(1)
    (1, 'Birds', [0])
    >>> [labels.extend(["c", "a"]).name(i) for i in range(3)]
    ['Animals', 'Birds', 'c']
    """

    keys: Strings
    names: Strings | None = None
    descriptions: Strings | None = None
    alternative_names: Strings | None = None
    parents: Csr | None = None
    counts: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.parents is not None and (cycle := _cycle(self.parents)):
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
        labels = cls(
            _column("keys", keys),
            _column("names", names) if names is not None else None,
            _column("descriptions", descriptions) if descriptions is not None else None,
            _column("alternatives", ["\n".join(a) for a in alternatives]) if alternatives is not None else None,
        )
        index, size = labels._index, len(labels)
        further = {"names": labels.names, "descriptions": labels.descriptions, "alternatives": labels.alternative_names}
        for what, column in further.items():
            if column is not None and len(column) != size:
                raise XmtcError(f"{size:,} labels but {len(column):,} {what}; give one for each label")
        if parents is not None and any(parents):
            rows = [i for i, above in enumerate(parents) for _ in above]
            columns = [index[parent] for above in parents for parent in above]
            matrix = csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(size, size))
            labels = replace(labels, parents=matrix)
            labels._index = index
        return labels

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"LabelSet({len(self):,} labels)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelSet):
            return NotImplemented
        if self.keys != other.keys:
            return False
        if self.parents is None or other.parents is None:
            same_parents = self.parents is other.parents
        else:
            same_parents = abs(self.parents - other.parents).max() == 0
        return (
            same_parents
            and (self.names == other.names or self._all_names() == other._all_names())
            and self._filled(self.descriptions) == other._filled(other.descriptions)
            and self._filled(self.alternative_names) == other._filled(other.alternative_names)
        )

    __hash__ = None  # type: ignore[assignment]  # compares by value, so it is no dictionary key

    @cached_property
    def _index(self) -> dict[str, int]:
        index = dict(zip(self.keys, range(len(self)), strict=True))
        if len(index) < len(self):
            twice = next(key for i, key in enumerate(self.keys) if index[key] != i)
            raise XmtcError(f"the label {twice!r} occurs twice in the label set; keys must be unique")
        return index

    @cached_property
    def _by_name(self) -> dict[str, int]:
        if self.names is None:
            return self._index
        # From the last to the first, so that of labels with the same name the first is found.
        return dict(zip(reversed(self._all_names()), reversed(range(len(self))), strict=True))

    def _all_names(self) -> list[str]:
        if self.names is None:
            return list(self.keys)
        return [name or key for name, key in zip(self.names, self.keys, strict=True)]

    def _filled(self, column: Strings | None) -> Strings:
        """A column that may be missing, which means the same as one of empty strings."""
        return column if column is not None else Strings.of([""] * len(self))

    def index(self, key: str) -> int:
        """The id of the label with this key, -1 if there is none."""
        return self._index.get(key, -1)

    def lookup(self, key_or_name: str) -> int:
        """The id of a label by key or, failing that, by name; -1 if there is none.

        >>> LabelSet.of(["a", "b"], names=["Animals", "Birds"]).lookup("Birds")
        1
        """
        at = self.index(key_or_name)
        return at if at >= 0 else self._by_name.get(key_or_name, -1)

    def find(self, key_or_name: str) -> int:
        """The id of a label by key or, failing that, by name; an error that suggests close names if there is none."""
        if not isinstance(key_or_name, str):
            raise XmtcError(f"a label is given by key or name, a string, not {described(key_or_name)}")
        at = self.lookup(key_or_name)
        if at < 0:
            import difflib

            # Comparing with more names than this takes seconds.
            close = difflib.get_close_matches(key_or_name, [*self._by_name], n=3) if len(self) <= 200_000 else []
            hint = f"did you mean {', '.join(map(repr, close))}?" if close else "give the key or the name of a label"
            raise XmtcError(f"there is no label {key_or_name!r:.100}; {hint}")
        return at

    def find_all(self, keys_or_names: Iterable[Any]) -> NDArray[np.int64]:
        """The ids of labels by key or by name, where a name stands for every label that has it; else as `find`.

        >>> LabelSet.of(["a", "b", "c"], names=["Apple", "Berry", "Berry"]).find_all(["Berry", "a"]).tolist()
        [0, 1, 2]
        """
        given = list(keys_or_names)
        for label in given:
            if not isinstance(label, str):
                self.find(label)  # which says what is wrong
        wanted = set(given)
        by_key = {key: at for key in wanted if (at := self.index(key)) >= 0}
        names = wanted - by_key.keys()
        for name in sorted(names):
            self.find(name)
        named = [at for at, name in enumerate(self._all_names()) if name in names] if names else []
        return np.array(sorted({*by_key.values(), *named}), np.int64)

    def key(self, at: int) -> str:
        """The key of label `at`, as files have it."""
        return self.keys[at]

    def name(self, at: int) -> str:
        """The name of label `at` for people: its name, or its key where it has none."""
        return (self.names[at] if self.names is not None else "") or self.keys[at]

    def path(self, at: int) -> str:
        """The name after those of its ancestors (first parents only), where a name alone may be ambiguous.

        >>> LabelSet.of(["a", "b"], names=["Animals", "Birds"], parents=[[], ["a"]]).path(1)
        'Animals › Birds'
        """
        return " › ".join(self.path_names(at))

    def path_names(self, at: int) -> list[str]:
        """The names of the ancestors of label `at` (first parents only) from the root on, and its own.

        >>> LabelSet.of(["a", "b"], names=["Animals", "Birds"], parents=[[], ["a"]]).path_names(1)
        ['Animals', 'Birds']
        """
        names = [self.name(at)]
        while above := self.parents_of(at):
            at = above[0]
            names.insert(0, self.name(at))
        return names

    def description(self, at: int) -> str:
        """The description of label `at`, empty where it has none."""
        return self.descriptions[at] if self.descriptions is not None else ""

    def alternatives(self, at: int) -> list[str]:
        """Other names of label `at` (SKOS altLabel)."""
        joined = self.alternative_names[at] if self.alternative_names is not None else ""
        return joined.split("\n") if joined else []

    def parents_of(self, at: int) -> list[int]:
        """Ids of the direct parents of label `at`."""
        if self.parents is None:
            return []
        found: list[int] = self.parents.indices[self.parents.indptr[at] : self.parents.indptr[at + 1]].tolist()
        return found

    def extend(self, keys: Iterable[str]) -> LabelSet:
        """This set with the keys it lacks added at the end; ids of present labels stay."""
        new = [key for key in dict.fromkeys(keys) if key not in self._index]
        if not new:
            return self
        size = len(self) + len(new)
        parents = self.parents
        if parents is not None:
            indptr = np.pad(parents.indptr, (0, len(new)), "edge")
            parents = make_csr(parents.data, parents.indices, indptr, (size, size))

        def padded(column: Strings | None) -> Strings | None:
            return None if column is None else Strings.joined([column, Strings.of([""] * len(new))])

        extended = LabelSet(
            Strings.joined([self.keys, Strings.of(new)]),
            padded(self.names),
            padded(self.descriptions),
            padded(self.alternative_names),
            parents,
            None if self.counts is None else np.pad(self.counts, (0, len(new))),
        )
        extended._index = self._index | dict(zip(new, range(len(self), size), strict=True))
        return extended

    def extend_by(self, other: LabelSet, which: NDArray[np.integer[Any]]) -> LabelSet:
        """This set with some labels of another, which it lacks, added at the end: with names and all that is known.

        A parent that neither this set nor the added labels have is left out.

        >>> animals = LabelSet.of(["a", "b"], names=["Animals", "Birds"], parents=[[], ["a"]])
        >>> both = LabelSet.of(["a"]).extend_by(animals, np.array([1]))
        >>> both.name(1), both.parents_of(1)
        ('Birds', [0])
        """
        extended = self.extend(other.keys[which])
        if len(extended) != len(self) + len(which):
            raise ValueError("a label that is known already cannot be added")

        def column(own: Strings | None, added: Strings | None) -> Strings | None:
            if added is None:
                return own
            return Strings.joined([(own or Strings.of([""] * len(extended)))[: len(self)], added[which]])

        parents = [(at, extended.index(other.key(above))) for at in which.tolist() for above in other.parents_of(at)]
        place = dict(zip(which.tolist(), range(len(self), len(extended)), strict=True))
        rows, columns = (
            [place[at] for at, above in parents if above >= 0],
            [above for _, above in parents if above >= 0],
        )
        matrix = extended.parents
        if rows:
            new = csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(len(extended), len(extended)))
            matrix = new if matrix is None else csr_array(matrix + new)
        made = LabelSet(
            extended.keys,
            column(extended.names, other.names),
            column(extended.descriptions, other.descriptions),
            column(extended.alternative_names, other.alternative_names),
            matrix,
            extended.counts,
        )
        made._index = extended._index
        return made

    def with_counts(self, counts: NDArray[np.int64]) -> LabelSet:
        """The same labels with these training counts."""
        if len(counts) != len(self):
            raise ValueError(f"{len(counts)} counts for {len(self)} labels")
        same = copy(self)
        same.counts = np.asarray(counts, np.int64)
        return same

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as flat arrays, for storage."""
        arrays: dict[str, NDArray[Any]] = {}
        columns = {
            "keys": self.keys,
            "names": self.names,
            "descriptions": self.descriptions,
            "alternatives": self.alternative_names,
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
        keys = Strings.checked(arrays["keys.utf8"], arrays["keys.offsets"])
        size = len(keys)

        def column(name: str) -> Strings | None:
            if f"{name}.offsets" not in arrays:
                return None
            found = Strings.checked(arrays[f"{name}.utf8"], arrays[f"{name}.offsets"])
            if len(found) != size:
                raise ValueError(f"{len(found)} {name} for {size} labels")
            return found

        parents = None
        if "parents.indices" in arrays:
            indices = arrays["parents.indices"]
            parents = checked_csr(np.ones(len(indices), np.float32), indices, arrays["parents.indptr"], (size, size))
        counts = arrays.get("counts")
        if counts is not None and (counts.dtype != np.int64 or counts.shape != (size,) or np.any(counts < 0)):
            raise ValueError(f"the training counts are not one number for each of {size} labels")
        return cls(keys, column("names"), column("descriptions"), column("alternatives"), parents, counts)


def _column(what: str, values: Iterable[str]) -> Strings:
    """A column of a label set; an error that names the first value that is no string."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise XmtcError(f"the {what} of a label set are {described(values)}; give a list of strings")
    values = values if isinstance(values, Strings) else list(values)
    for at, value in enumerate(values):
        if not isinstance(value, str):
            raise XmtcError(f"{what}[{at}] of a label set is {described(value)}, not a string; str(...) makes one")
        if what == "keys" and not value:
            raise XmtcError(f"label {at} of the label set is empty; give each label a key")
    return Strings.of(values)


def _cycle(parents: Csr) -> list[int]:
    """The ids along a cycle of the parent relation (first = last), or [] if there is none."""
    # Without cycles each label is a strongly connected component of its own: seen in a tenth of a second for a million
    # labels. Within a larger component every label has a parent, so walking from parent to parent must come round.
    _, component = connected_components(parents, directed=True, connection="strong")
    in_cycle = (np.bincount(component)[component] > 1) | (parents.diagonal() != 0)
    if not in_cycle.any():
        return []
    path: dict[int, None] = {}
    label = int(np.argmax(in_cycle))
    while label not in path:
        path[label] = None
        above = parents.indices[parents.indptr[label] : parents.indptr[label + 1]]
        label = int(above[component[above] == component[label]][0])
    walked = list(path)
    return [*walked[walked.index(label) :], label]
