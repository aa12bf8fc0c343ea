"""Options for reading a corpus file, and the builder that every reader fills."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Literal

import numpy as np

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.oddities import NEARLY_ALL, packed_separator, repeated_ids, stray_blanks
from xmtc.corpus.sources import BadLine
from xmtc.corpus.sparse import Csr, make_csr
from xmtc.corpus.strings import Strings, StringsBuilder
from xmtc.errors import BadInput

PARAGRAPH = "\n\n"  # between the texts of a document that has several text fields
MAX_ID = 2**31 - 1
MAX_WEIGHT = 3.4028235677973362e38  # the largest number that float32 rounds to a finite value


def named(name: str, fields: Container[str]) -> str | None:
    """The field that is meant: the one of this name, else the one without the blanks around it ("title, body").

    >>> named(" body", ["title", "body"]), named(" body", [" body", "body"]), named("text", ["title"])
    ('body', ' body', None)
    """
    return next((each for each in (name, name.strip()) if each in fields), None)


@dataclass(frozen=True)
class ReadOptions:
    """Options of all readers; each format uses those that apply to it.

    `text` may name several fields, joined by a blank line; `unlabelled` allows documents without a label field (for
    prediction); `index_base` is 0 or 1 where a format has numbered labels or features.
    """

    text: tuple[str, ...] = ("text",)
    labels: str = "labels"
    id: str = "id"
    keep: tuple[str, ...] = ()
    label_separator: str | None = None
    index_base: Literal[0, 1] = 0
    unlabelled: bool = False
    skip_bad: bool = False

    def among(self, fields: Container[str]) -> ReadOptions:
        """The same options with fields called as they are in a file, see `named`; those it lacks stay."""
        keep, text = (tuple(named(name, fields) or name for name in names) for names in (self.keep, self.text))
        labels, id = (named(name, fields) or name for name in (self.labels, self.id))
        return replace(self, keep=keep, text=text, labels=labels, id=id)

    def split(self, cell: str, default: str | None = None) -> list[str]:
        """The labels in a string, split at the given separator, else at the default one, else not at all.

        >>> ReadOptions(label_separator=",").split("import policy, fish"), ReadOptions().split("import, export")
        (['import policy', 'fish'], ['import, export'])
        """
        separator = self.label_separator or default
        parts = cell.split(separator) if separator else [cell]
        return [part.strip() for part in parts if part.strip()]


class CorpusBuilder:
    """Collects documents one by one in compact form; knows what to do with a bad one.

    >>> builder = CorpusBuilder("docs", ReadOptions())
    >>> builder.add(["apple", "food"], text="red fruit", id="d1")
    >>> builder.build()
    Corpus(docs: 1 documents with texts, 2 labels)
    """

    def __init__(self, path: str, options: ReadOptions, labels: LabelSet | None = None) -> None:
        self.path = path
        self.options = options
        self.skipped = 0
        self.taken = 0  # documents that `take` has handed out
        self.label_strings = 0  # documents whose labels were one string, which may have to be split
        self._given = labels or LabelSet.of([])
        self._has: tuple[bool, bool] | None = None  # whether the documents have texts, and features
        self._begin()

    def _begin(self) -> None:
        """Make room for documents."""
        self._label_ids: dict[str, int] = {key: i for i, key in enumerate(self._given.keys)}
        self._label_indices = array("i")
        self._label_indptr = array("q", [0])
        self._texts = StringsBuilder()
        self._ids = StringsBuilder()
        self._fields = {name: StringsBuilder() for name in self.options.keep}
        self._feature_indices = array("i")
        self._feature_values = array("f")
        self._feature_indptr = array("q", [0])

    def __len__(self) -> int:
        return len(self._label_indptr) - 1

    def add(
        self,
        labels: Sequence[str],
        *,
        text: str | None = None,
        id: str | None = None,
        fields: Sequence[str] = (),
        features: tuple[Sequence[int], Sequence[float]] | None = None,
    ) -> None:
        """Add a document: its text and/or its features, and its label keys; BadLine, and nothing added, if it is bad.

        A corpus must be uniform: either every document has a text or none has, and likewise for ids and features.
        """
        if "" in labels:
            raise BadLine("one of the labels is empty")
        has = (text is not None, features is not None)
        if has != self._has:
            self._check_uniform(has)
        if features is not None:
            _check_features(*features)
        ids = self._label_ids
        self._add([ids.setdefault(key, len(ids)) for key in labels], features)
        if text is not None:
            self._texts.append(text)
        if id is not None:
            self._ids.append(id)
        if fields:
            for column, value in zip(self._fields.values(), fields, strict=True):
                column.append(value)

    def add_texts(self, labels: Sequence[Sequence[str]], texts: Sequence[str], ids: Sequence[str]) -> None:
        """Add many documents with text and id, faster than one by one; no label may be empty."""
        if self._has != (True, False):
            self._check_uniform((True, False))
        known = self._label_ids
        end = self._label_indptr.pop()
        self._label_indptr.extend(accumulate(map(len, labels), initial=end))
        self._label_indices.extend([known.setdefault(key, len(known)) for keys in labels for key in keys])
        self._texts.extend(texts)
        self._ids.extend(ids)

    def add_numbered(self, labels: Sequence[int], features: tuple[Sequence[int], Sequence[float]]) -> None:
        """Add a document of a format that identifies labels by number; `build` takes the label set."""
        if labels and not 0 <= min(labels) <= max(labels) <= MAX_ID:
            raise BadLine(f"label {min(labels) if min(labels) < 0 else max(labels)} is out of range")
        _check_features(*features)
        self._add(labels, features)

    def _add(self, labels: Sequence[int], features: tuple[Sequence[int], Sequence[float]] | None) -> None:
        self._label_indices.extend(labels)
        self._label_indptr.append(len(self._label_indices))
        if features is not None:
            self._feature_indices.extend(features[0])
            self._feature_values.extend(features[1])
            self._feature_indptr.append(len(self._feature_indices))

    def _check_uniform(self, has: tuple[bool, bool]) -> None:
        """Check for text and features as in the documents before; the first document decides."""
        if self._has is None:
            self._has = has
            return
        for what, here, before in zip(("text", "features"), has, self._has, strict=True):
            if here and not before:
                raise BadLine(f"this document has {what}, but those before it have none")
            if before and not here:
                raise BadLine(f"this document has no {what}, but those before it have")

    def bad(self, line: int | None, error: BadLine, path: str | Path | None = None) -> None:
        """Raise for a bad line (of the file, or of another that belongs to it), or count it if it is to be skipped."""
        if not self.options.skip_bad:
            remedy = error.remedy or "mend the line, or skip bad lines with --skip-bad"
            raise BadInput(path or self.path, line, error.problem, remedy)
        self.skipped += 1

    @property
    def next_id(self) -> str:
        """What the next document is called if it has no id of its own: its number."""
        return str(self.taken + len(self))

    def take(self) -> Corpus:
        """The documents so far, of a stream to be tagged, as a corpus of their own; then go on with none.

        Those without an id have their number in the stream. Labels of the documents are left out: nobody asks for them.
        """
        documents = len(self)
        numbers = map(str, range(self.taken, self.taken + documents))
        corpus = Corpus(
            label_matrix([], np.zeros(documents + 1, np.int64), 0),
            LabelSet.of([]),
            texts=self._texts.build() if len(self._texts) else None,
            features=self._features(None) if len(self._feature_indptr) > 1 else None,
            ids=self._ids.build() if len(self._ids) else Strings.of(numbers),
            name=self.path,
        )
        self.taken += documents
        self._begin()
        return corpus

    def finish(self) -> None:
        """End a stream: say what was skipped; one without documents is an error."""
        self._check_documents(self.taken)

    def _check_documents(self, documents: int) -> None:
        if self.skipped:
            self.say(f"{self.skipped:,} bad lines skipped, {documents:,} documents read")
        if not documents:
            problem = "every line in it is bad" if self.skipped else "there is no document in it"
            raise BadInput(self.path, None, problem, "give a file with one document a line")

    @property
    def numbered_label_count(self) -> int:
        """The highest label number so far, plus one."""
        return int(np.frombuffer(self._label_indices, np.int32).max(initial=-1)) + 1

    def build(self, labels: LabelSet | None = None, feature_count: int | None = None) -> Corpus:
        """The corpus; a file without documents or without labels is an error. The builder cannot be used afterwards.

        `labels` belongs to documents added by number.
        """
        self._check_documents(len(self))
        if not self._label_indices and not self.options.unlabelled:
            remedy = "name the labels with --labels-field, or read it as documents to be tagged (unlabelled=True)"
            raise BadInput(self.path, None, "no document has a label", remedy)
        if labels is None:
            labels = self._given.extend(self._label_ids) if len(self._label_ids) > len(self._given) else self._given
            self._report_labels()
        indptr = np.frombuffer(self._label_indptr, np.int64)
        corpus = Corpus(
            label_matrix(np.frombuffer(self._label_indices, np.int32), indptr, len(labels)),
            labels,
            texts=self._texts.build() if len(self._texts) else None,
            features=self._features(feature_count) if len(self._feature_indptr) > 1 else None,
            ids=self._ids.build() if len(self._ids) else None,
            fields={name: column.build() for name, column in self._fields.items()},
            name=self.path,
        )
        repeated, id = repeated_ids(corpus.ids)
        if repeated:
            self.say(f"documents whose id an earlier one has: {repeated:,}, the first {id!r}; all of them are read")
        return corpus

    def _report_labels(self) -> None:
        """Say which labels of the documents look like a mistake; they are read as they are."""
        new = list(self._label_ids)[len(self._given) :]
        if blanks := stray_blanks(new):
            known = set(new).union(self._given.keys)
            twins = sum(" ".join(label.split()) in known for label in blanks)
            also = f"; without the blanks they are other labels: {twins:,}" if twins else ""
            self.say(f"labels with stray blanks: {len(blanks):,}, such as {blanks[0]!r}{also}; read as they are")
        if not self.label_strings or self.options.label_separator is not None:
            return
        sizes = np.diff(np.frombuffer(self._label_indptr, np.int64))
        starts = np.frombuffer(self._label_indptr, np.int64)[:-1][sizes == 1]
        alone = np.frombuffer(self._label_indices, np.int32)[starts] - len(self._given)
        labelled = int(np.count_nonzero(sizes))
        if self.label_strings >= NEARLY_ALL * labelled and (
            separator := packed_separator([new[label] for label in alone[alone >= 0].tolist()], labelled)
        ):
            self.say(
                f"labels look like several in one string, separated by {separator!r}: "
                f"say --label-separator {separator!r} (label_separator={separator!r} in Python)"
            )

    def say(self, what: str) -> None:
        """Say something about the file on standard error."""
        print(f"{self.path}: {what}", file=sys.stderr)

    def _features(self, count: int | None) -> Csr:
        indices = np.frombuffer(self._feature_indices, np.int32)
        width = count if count is not None else int(indices.max(initial=-1)) + 1
        values = np.frombuffer(self._feature_values, np.float32)
        matrix = make_csr(values, indices, np.frombuffer(self._feature_indptr, np.int64), (len(self), width))
        matrix.sort_indices()
        return matrix


def _check_features(indices: Sequence[int], values: Sequence[float]) -> None:
    """BadLine unless the ids are unique and not negative, and the values finite."""
    if not indices:
        return
    if min(indices) < 0:
        raise BadLine(f"feature {min(indices)} is negative", "features are numbered from 0; see --index-base")
    if max(indices) > MAX_ID:
        raise BadLine(f"feature {max(indices)} is too large: {MAX_ID} is the highest number possible")
    if len(set(indices)) < len(indices):
        twice = next(index for at, index in enumerate(indices) if index in indices[:at])
        raise BadLine(f"feature {twice} occurs twice in the document")
    # One sum finds NaN and infinity faster than a check of each value.
    if not sum(map(abs, values)) <= MAX_WEIGHT:
        for index, value in zip(indices, values, strict=True):
            if not abs(value) <= MAX_WEIGHT:
                raise BadLine(f"feature {index} has the weight {value}, a finite number was expected")
