"""`Corpus`: documents (texts and/or features) with the labels they carry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sparse import Csr, make_csr
from xmtc.corpus.strings import Rows, Strings, chosen_rows
from xmtc.display import escaped, further, html_box, html_table, printable, shortened
from xmtc.errors import XmtcError
from xmtc.extras import require

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

    from xmtc.corpus.splits import SplitMethod

FEW_DOCUMENTS = 32
SHOWN_ROWS, SHOWN_LABELS, SHOWN_TEXT = 5, 6, 200  # documents, labels of each and characters of a text in a notebook
_PLAIN = (list, tuple, Strings)
WEIGHTS = ("document_weights", "label_weights")
WeightKind = Literal["documents", "labels"]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents and their labels; immutable, and slicing shares the texts: do not write into its arrays.

    `corpus[10:20]`, `corpus[[3, 1]]` and `corpus[mask]` are corpora; `corpus[0]` is an error that says `corpus[0:1]`.

    `targets` is the documents x labels 0/1 CSR matrix (float32, sorted indices); `fields` holds the
    columns kept when reading (`keep=`), such as the key of a split. `document_weights` and `label_weights` say how much
    each counts in training, see `with_weights`.

    >>> corpus = Corpus.of(["red fruit", "blue sky"], [["apple", "food"], ["weather"]])
    >>> len(corpus), corpus.labels.name(2), corpus[1:].texts[0]
    (2, 'weather', 'blue sky')
    """

    targets: Csr
    labels: LabelSet
    texts: Strings | None = None
    features: Csr | None = None
    ids: Strings | None = None
    fields: Mapping[str, Strings] = field(default_factory=dict)
    name: str = "corpus"
    document_weights: NDArray[np.float32] | None = None
    label_weights: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        for what, size in (
            ("texts", None if self.texts is None else len(self.texts)),
            ("features", None if self.features is None else self.features.shape[0]),
            ("ids", None if self.ids is None else len(self.ids)),
            ("document weights", None if self.document_weights is None else len(self.document_weights)),
            *((f"field {name!r}", len(column)) for name, column in self.fields.items()),
        ):
            if size is not None and size != len(self):
                raise XmtcError(f"{self.name}: {size} {what} for {len(self)} rows of labels")
        if self.targets.shape[1] != len(self.labels):
            raise XmtcError(f"{self.name}: {self.targets.shape[1]} label columns for {len(self.labels)} labels")
        if self.label_weights is not None and len(self.label_weights) != len(self.labels):
            raise XmtcError(f"{self.name}: {len(self.label_weights)} label weights for {len(self.labels)} labels")

    @classmethod
    def of(
        cls,
        texts: Any,
        labels: Any = None,
        label_set: LabelSet | None = None,
        name: str = "corpus",
        *,
        label_names: Iterable[Any] | None = None,
        label_separator: str | None = None,
    ) -> Corpus:
        """Make a corpus from what Python programs have; one without labels serves prediction only.

        Args:
            texts: a list, array, series or iterator of strings; or a table (pandas or polars DataFrame, pyarrow table,
                Hugging Face dataset, list of records) with a column `text` and perhaps `labels`, see `from_frame`.
            labels: for each document a list or set of labels, a single label, or None; sets are taken in sorted order.
                Or a 0/1 matrix, documents x labels, whose columns `label_names` (or `label_set`) names.
            label_set: labels that come first, with their names and parents.
            label_names: what the columns of a matrix are, or the labels that numbers stand for.
            label_separator: splits labels that are given as one string. Without it, a string in a list is one label,
                and one in a column of a table is split as in CSV files.

        >>> Corpus.of(["red fruit", "blue sky"], ["apple", "weather"]).labels_of(1)
        [1]
        """
        if labels is None and type(texts) in _PLAIN:
            # The way of single texts to a prediction, where microseconds count.
            try:
                texts = Strings.of(texts)
            except AttributeError:
                pass  # what is no text has no `encode`: found and named below
            else:
                if not label_set and len(texts) <= FEW_DOCUMENTS:
                    targets, nothing = no_labels(len(texts))
                    return cls(targets, nothing, texts=texts, name=name)
        from xmtc.corpus.inputs import corpus_of

        return corpus_of(texts, labels, label_set, name, label_names, label_separator)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        text: str | Sequence[str] = "text",
        labels: str | Sequence[str] | None = "labels",
        id: str | None = None,
        *,
        keep: Sequence[str] = (),
        label_set: LabelSet | None = None,
        label_names: Iterable[Any] | None = None,
        label_separator: str | None = None,
        name: str = "corpus",
    ) -> Corpus:
        """Make a corpus from a table: a DataFrame, a dataset, or a list of records.

        Args:
            text: the column of texts; several are joined by a blank line.
            labels: the column of labels. A cell is a list, a set, a string (split as in CSV files, see
                `label_separator`) or empty. Several columns hold 0 and 1 each, and their names are the labels. None: no
                labels.
            id: the column of identifiers; else `id` if there is one, else the index unless it only numbers the rows.
            keep: further columns to keep in `fields`.

        >>> records = [{"title": "red fruit", "tags": "apple|food"}, {"title": "blue sky", "tags": "weather"}]
        >>> list(Corpus.from_frame(records, text="title", labels="tags").labels.keys)
        ['apple', 'food', 'weather']
        """
        from xmtc.corpus.inputs import from_frame

        return from_frame(frame, text, labels, id, label_set, name, keep, label_names, label_separator)

    def to_frame(self) -> pd.DataFrame:
        """The documents as a pandas DataFrame: id (if they have some), text, labels (lists of keys), kept fields."""
        require("Corpus.to_frame", "pandas")
        import pandas as pd

        keys = list(self.labels.keys)
        columns: dict[str, Any] = {} if self.ids is None else {"id": list(self.ids)}
        if self.texts is not None:
            columns["text"] = list(self.texts)
        columns["labels"] = [[keys[label] for label in self.labels_of(at)] for at in range(len(self))]
        return pd.DataFrame(columns | {name: list(column) for name, column in self.fields.items()})

    def __len__(self) -> int:
        return int(self.targets.shape[0])

    def __getitem__(self, rows: Rows) -> Corpus:
        rows = chosen_rows(rows, len(self), "corpus", "corpus.texts[{}] for its text")
        if isinstance(rows, slice) and rows.indices(len(self)) == (0, len(self), 1):
            return self
        return replace(
            self,
            targets=take_rows(self.targets, rows),
            texts=self.texts[rows] if self.texts is not None else None,
            features=take_rows(self.features, rows) if self.features is not None else None,
            ids=self.ids[rows] if self.ids is not None else None,
            fields={name: column[rows] for name, column in self.fields.items()},
            document_weights=self.document_weights[rows] if self.document_weights is not None else None,
        )

    def __repr__(self) -> str:
        return f"Corpus({printable(self.name)}: {self._size()})"

    def _size(self) -> str:
        holds = " and ".join(w for w, has in (("texts", self.texts), ("features", self.features)) if has is not None)
        documents = f"{len(self):,} documents" + (f" with {holds}" if holds else "")
        return f"{documents}, {len(self.labels):,} labels"

    def _repr_html_(self) -> str:
        """The first documents as a table."""
        rows = []
        for at in range(min(SHOWN_ROWS, len(self))):
            labels = self.labels_of(at)
            names = [shortened(self.labels.name(label)) for label in labels[:SHOWN_LABELS]]
            names += further(SHOWN_LABELS, len(labels), "label")
            text = [] if self.texts is None else [escaped(shortened(self.texts[at], SHOWN_TEXT))]
            features = [] if self.features is None else [f"{np.diff(self.features.indptr[at : at + 2])[0]:,}"]
            rows.append([escaped(shortened(self.id(at))), *text, *features, ", ".join(map(escaped, names))])
        kinds = [kind for kind, has in (("text", self.texts), ("features", self.features)) if has is not None]
        table = html_table(["id" if self.ids is not None else "", *kinds, "labels"], rows) if rows else ""
        return html_box(self.name, self._size(), table, notes=further(SHOWN_ROWS, len(self), "document"))

    def id(self, at: int) -> str:
        """The identifier of document `at`, or its position where the corpus has no identifiers."""
        return self.ids[at] if self.ids is not None else str(at)

    def labels_of(self, at: int) -> list[int]:
        """Ids of the labels of document `at`."""
        found: list[int] = self.targets.indices[self.targets.indptr[at] : self.targets.indptr[at + 1]].tolist()
        return found

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """Number of documents that carry each label."""
        return np.bincount(self.targets.indices, minlength=len(self.labels)).astype(np.int64)

    def with_labels(self, labels: LabelSet) -> Corpus:
        """The same documents with label ids as in `labels`; labels it lacks are appended, so none is lost."""
        if labels is self.labels:
            return self
        if labels.keys == self.labels.keys:
            return replace(self, labels=labels)
        used = np.flatnonzero(self.label_counts)
        keys = self.labels.keys[used]
        ids = np.fromiter(map(labels.index, keys), np.int32, len(used))
        lacking = np.flatnonzero(ids < 0)
        merged = labels.extend_by(self.labels, used[lacking]) if len(lacking) else labels
        ids[lacking] = np.arange(len(labels), len(merged))
        new_id = np.full(len(self.labels), -1, np.int32)
        new_id[used] = ids
        targets = label_matrix(new_id[self.targets.indices], self.targets.indptr, len(merged))
        weights = None
        if self.label_weights is not None:
            weights = np.ones(len(merged), np.float32)
            weights[ids] = self.label_weights[used]
        return replace(self, targets=targets, labels=merged, label_weights=weights)

    def with_weights(self, documents: Any = None, labels: Any = None, names: tuple[str, str] = WEIGHTS) -> Corpus:
        """The same corpus with weights for training; what is not given stays as it is.

        Args:
            documents: a number from 0 for each document: one with the weight 2 counts as if it were there twice.
            labels: a number above 0 for each label, or a mapping from keys or names to numbers, where other labels have
                1. It multiplies the loss of the documents that have the label.
            names: what errors call the two.

        >>> Corpus.of(["red fruit", "blue sky"], ["apple", "weather"]).with_weights([2, 1], {"apple": 3}).label_weights
        array([3., 1.], dtype=float32)
        """
        from xmtc.corpus.weights import document_weights, label_weights

        made = self
        if documents is not None:
            known = len(self) if self.ids is None else self.ids
            made = replace(made, document_weights=document_weights(documents, known, names[0]))
        if labels is not None:
            made = replace(made, label_weights=label_weights(labels, self.labels, names[1]))
        return made

    @property
    def weight_kinds(self) -> list[WeightKind]:
        """Whose weights it has."""
        given: dict[WeightKind, Any] = {"documents": self.document_weights, "labels": self.label_weights}
        return [kind for kind, weights in given.items() if weights is not None]

    def without_zero_weights(self) -> Corpus:
        """The documents that count in training: all but those with the weight 0."""
        weights = self.document_weights
        if weights is None or weights.all():
            return self
        if not weights.any():
            raise XmtcError(f"{self.name}: every document has the weight 0, so there is nothing to learn")
        return self[weights > 0]

    @property
    def weighted_targets(self) -> Csr:
        """`targets` with the weight of its document in each entry."""
        if self.document_weights is None:
            return self.targets
        data = np.repeat(self.document_weights, np.diff(self.targets.indptr))
        return make_csr(data, self.targets.indices, self.targets.indptr, self.targets.shape)

    def weights_fingerprint(self) -> str | None:
        """What has weights and a hash of each, None without any."""
        given = {"documents": self.document_weights, "labels": self.label_weights}
        hashes = {kind: hashlib.sha256(each.tobytes()).hexdigest() for kind, each in given.items() if each is not None}
        return ", ".join(f"{kind} {digest[:16]}" for kind, digest in hashes.items()) or None

    def fingerprint(self) -> str:
        """A hash of documents and labels: the same content gives the same value."""
        digest = hashlib.sha256()
        for strings in (self.texts, self.labels.keys):
            if strings is not None:
                for part in strings.compact():
                    digest.update(part.tobytes())
        for matrix in (self.targets, self.features):
            if matrix is not None:
                digest.update(repr(tuple(map(int, matrix.shape))).encode())
                digest.update(matrix.indptr.astype(np.int64).tobytes())
                digest.update(matrix.indices.astype(np.int32).tobytes())
        if self.features is not None:
            digest.update(self.features.data.astype(np.float32).tobytes())
        return digest.hexdigest()[:16]

    def split(
        self, test: float | int = 0.1, *, seed: int = 0, method: SplitMethod = "random", key: str | None = None
    ) -> tuple[Corpus, Corpus]:
        """(rest, test part); see `xmtc.corpus.splits.split_rows` for the methods."""
        from xmtc.corpus.splits import split_rows

        rest, held_out = split_rows(self, test, seed=seed, method=method, key=key)
        return self[rest], self[held_out]

    def folds(
        self, k: int = 5, *, seed: int = 0, method: SplitMethod = "random", key: str | None = None
    ) -> Iterator[tuple[Corpus, Corpus]]:
        """k pairs (train, test) in which each document is in exactly one test part."""
        from xmtc.corpus.splits import fold_rows

        rows = fold_rows(self, k, seed=seed, method=method, key=key)
        return ((self[rest], self[held_out]) for rest, held_out in rows)


def label_matrix(indices: Sequence[int] | NDArray[Any], indptr: NDArray[Any], labels: int) -> Csr:
    """A 0/1 CSR matrix from flat label ids; sorts each row and removes repeated labels."""
    flat = np.array(indices, np.int32)
    matrix = make_csr(np.ones(len(flat), np.float32), flat, np.asarray(indptr), (len(indptr) - 1, labels))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


@lru_cache(maxsize=FEW_DOCUMENTS + 1)
def no_labels(documents: int) -> tuple[Csr, LabelSet]:
    """Empty targets and label set; cached, since making them takes longer than the rest of `Corpus.of`."""
    return label_matrix([], np.zeros(documents + 1, np.int32), 0), LabelSet.of([])


def take_rows(matrix: Csr, rows: slice | NDArray[Any]) -> Csr:
    """Rows of a CSR matrix; a contiguous slice shares its memory, and one of all rows is the matrix itself."""
    if isinstance(rows, slice):
        start, stop, step = rows.indices(matrix.shape[0])
        if (start, stop, step) == (0, matrix.shape[0], 1):
            return matrix
        if step == 1:
            stop = max(stop, start)
            a, b = int(matrix.indptr[start]), int(matrix.indptr[stop])
            view: Csr = csr_array(
                (matrix.data[a:b], matrix.indices[a:b], matrix.indptr[start : stop + 1] - a),
                shape=(stop - start, matrix.shape[1]),
                copy=False,
            )
            return view
        rows = np.arange(start, stop, step)
    taken: Csr = matrix[rows]
    return taken
