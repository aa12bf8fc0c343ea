"""Label sets as sequences: the decoder's vocabulary, and in which order a document's labels come."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr, LabelSet
from xmtc.corpus.sources import Source
from xmtc.errors import BadInput, ConfigError
from xmtc.text.token_store import TokenStore, offsets_of

Ints = NDArray[np.int64]
FREQUENCY, HIERARCHY = "frequency", "hierarchy"


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The decoder's symbols: the labels that training documents have, most frequent first, and after them the end.

    Frequent labels come first because the output layer's clusters are ranges of symbols.

    >>> vocabulary = Vocabulary.of(np.array([3, 0, 7]))
    >>> vocabulary.labels.tolist(), vocabulary.end, vocabulary.symbol(0), vocabulary.symbol(1)
    ([2, 0], 2, 1, None)
    """

    labels: Ints  #: the label of each symbol

    @classmethod
    def of(cls, counts: Ints) -> Vocabulary:
        """From the number of training documents of each label."""
        order = np.argsort(-counts, kind="stable")
        return cls(order[: np.count_nonzero(counts)])

    @classmethod
    def from_array(cls, labels: Ints, total: int) -> Vocabulary:
        """As saved with a model that has `total` labels; ValueError if they cannot be that."""
        labels = labels.astype(np.int64, casting="safe")
        if labels.ndim != 1 or not len(labels) or labels.min() < 0 or labels.max() >= total:
            raise ValueError("the labels of the network are not those of the model")
        if len(np.unique(labels)) != len(labels):
            raise ValueError("a label is twice among the labels of the network")
        return cls(labels)

    @property
    def end(self) -> int:
        """The symbol after the last label."""
        return len(self.labels)

    def symbol(self, label: int) -> int | None:
        """The symbol of a label; None if no training document had it."""
        found = np.flatnonzero(self.labels == label)
        return int(found[0]) if len(found) else None


def ranks(order: str, vocabulary: Vocabulary, labels: LabelSet) -> Ints:
    """Which place each symbol has in the order in which a document's labels are emitted.

    `frequency`: the most frequent first; `hierarchy`: those nearer to a root first, of one level the most frequent;
    else a file with a label's key on each line.

    >>> labels = LabelSet.of(["a", "b", "c"], parents=[["b"], [], ["b"]])
    >>> vocabulary = Vocabulary.of(np.array([9, 3, 5]))
    >>> ranks("frequency", vocabulary, labels).tolist(), ranks("hierarchy", vocabulary, labels).tolist()
    ([0, 1, 2], [1, 2, 0])
    """
    symbols = np.arange(len(vocabulary.labels))
    if order == FREQUENCY:
        return symbols
    places = _depths(labels) if order == HIERARCHY else _places_in_file(order, vocabulary, labels)
    found = np.empty_like(symbols)
    found[np.lexsort((symbols, places[vocabulary.labels]))] = symbols
    return found


def _depths(labels: LabelSet) -> Ints:
    """How far each label is from a root: one more than its deepest parent."""
    if labels.parents is None or not labels.parents.nnz:
        raise ConfigError("order=hierarchy: these labels have no parents; give them in labels.tsv or take frequency")
    depths = np.zeros(len(labels), np.int64)
    rows = np.repeat(np.arange(len(labels)), np.diff(labels.parents.indptr))
    while True:  # as often as the hierarchy is deep: a LabelSet has no cycles
        deeper = depths.copy()
        np.maximum.at(deeper, rows, depths[labels.parents.indices] + 1)
        if np.array_equal(deeper, depths):
            return depths
        depths = deeper


def _places_in_file(path: str, vocabulary: Vocabulary, labels: LabelSet) -> Ints:
    """The line of each label in an order file, which must name all labels that training documents have."""
    places = np.full(len(labels), -1, np.int64)
    for number, line in Source(path).lines():
        key = line.decode("utf-8", "replace").strip()
        at = labels.lookup(key)
        if at < 0:
            continue  # the order may be that of a larger vocabulary
        if places[at] >= 0:
            raise BadInput(path, number, f"the label {key!r} stands on line {places[at]} already", "delete one of them")
        places[at] = number
    missing = vocabulary.labels[places[vocabulary.labels] < 0]
    if len(missing):
        names = ", ".join(repr(labels.key(at)) for at in missing[:3].tolist())
        more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
        remedy = "add each on a line of its own, or take order=frequency"
        raise BadInput(path, None, f"the order lacks labels that training documents have: {names}{more}", remedy)
    return places


def label_sequences(targets: Csr, vocabulary: Vocabulary, rank: Ints, max_labels: int | None, name: str) -> TokenStore:
    """The symbols of each document in their order, and then the end; a document without labels ends at once.

    Of a document with more than `max_labels` only the first ones are kept, and a line says of how many documents.

    >>> from scipy.sparse import csr_array
    >>> vocabulary = Vocabulary.of(np.array([1, 0, 2]))
    >>> targets = csr_array(np.array([[1, 0, 1], [0, 0, 0], [0, 0, 1]], np.float32))
    >>> [row.tolist() for row in label_sequences(targets, vocabulary, np.arange(2), None, "")]
    [[0, 1, 2], [2], [0, 2]]
    """
    symbol_of = np.full(targets.shape[1], -1, np.int64)
    symbol_of[vocabulary.labels] = np.arange(vocabulary.end)
    sizes = np.diff(targets.indptr).astype(np.int64)
    rows, symbols = np.repeat(np.arange(len(sizes)), sizes), symbol_of[targets.indices]
    rows, symbols = rows[symbols >= 0], symbols[symbols >= 0]
    order = np.lexsort((rank[symbols], rows))
    rows, symbols = rows[order], symbols[order]
    kept = np.bincount(rows, minlength=len(sizes))
    if max_labels is not None:
        place = np.arange(len(rows)) - offsets_of(kept)[rows]
        too_long = np.count_nonzero(kept > max_labels)
        if too_long:
            print(
                f"{name}: {too_long:,} of {len(sizes):,} training documents have more than max_labels={max_labels} "
                f"labels (up to {kept.max():,}); the last ones in the order are not learned",
                file=sys.stderr,
            )
        rows, symbols = rows[place < max_labels], symbols[place < max_labels]
        kept = np.minimum(kept, max_labels)
    offsets = offsets_of(kept + 1)
    ids = np.full(offsets[-1], vocabulary.end, np.int32)
    ids[np.arange(len(rows)) + rows] = symbols  # before each document there are as many ends as documents
    return TokenStore(ids, offsets)
