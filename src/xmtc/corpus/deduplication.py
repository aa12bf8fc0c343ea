"""Removing documents whose text repeats an earlier one, exactly or nearly; labels that would be lost are counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.near_duplicates import near_copies, near_duplicates
from xmtc.corpus.statistics import word_counts
from xmtc.corpus.strings import Strings, digests
from xmtc.errors import ConfigError, XmtcError

Method = Literal["exact", "near"]
METHODS = ("exact", "near")


@dataclass(frozen=True)
class Deduplicated:
    """What is left of a corpus, and what was dropped: row `dropped[i]` of the old corpus repeats its row `kept[i]`."""

    corpus: Corpus
    dropped: NDArray[np.int64]
    kept: NDArray[np.int64]
    gained_labels: int  # documents that have labels of their copies now
    other_labels: int  # documents dropped with a label that the document kept for them has not
    lost_labels: list[str]  # that no document carries any more


def deduplicate(corpus: Corpus, method: Method = "exact") -> Deduplicated:
    """Keep the first of documents with the same text (`exact`) or nearly the same (`near`).

    Labels of exact copies go to the document that is kept: they are right for the same text. Those of other
    near-duplicates do not: of two texts that differ in the word "Korean" or "Romanian" only, each has its own label.
    Empty texts are not copies of each other.

    >>> texts = ["red fruit", "blue sky", "red fruit", "Red fruit!"]
    >>> result = deduplicate(Corpus.of(texts, [["apple"], ["weather"], ["food"], ["new"]]), "near")
    >>> [[result.corpus.labels.key(at) for at in result.corpus.labels_of(row)] for row in range(len(result.corpus))]
    [['apple', 'food'], ['weather']]
    >>> result.dropped.tolist(), result.gained_labels, result.other_labels, result.lost_labels
    ([2, 3], 1, 1, ['new'])
    """
    if method not in METHODS:
        raise ConfigError(f"deduplication {method!r}: {' or '.join(METHODS)} was expected")
    if corpus.texts is None:
        raise XmtcError(f"{corpus.name} has no texts, so there are no duplicates to find")
    rows = np.arange(len(corpus))
    copy_of = first_copies(corpus.texts)
    stands_for = copy_of if method == "exact" else near_duplicates(corpus.texts)
    dropped, kept = np.flatnonzero(stands_for != rows), np.flatnonzero(stands_for == rows)
    # Documents x documents: the exact copies of each.
    copies = csr_array((np.ones(len(rows), np.float32), (copy_of, rows)), shape=(len(rows), len(rows)))
    together = copies[kept] @ corpus.targets
    targets = label_matrix(together.indices, together.indptr, len(corpus.labels))
    left = replace(corpus[kept], targets=targets)
    place = np.searchsorted(kept, stands_for[dropped])
    missing = corpus.targets[dropped] - corpus.targets[dropped].multiply(targets[place])
    lost = np.flatnonzero((corpus.label_counts > 0) & (left.label_counts == 0))
    return Deduplicated(
        corpus=left,
        dropped=dropped,
        kept=stands_for[dropped],
        gained_labels=int((np.diff(targets.indptr) > np.diff(corpus.targets.indptr)[kept]).sum()),
        other_labels=int((missing.sum(axis=1) > 0).sum()) if len(dropped) else 0,
        lost_labels=list(corpus.labels.keys[lost]),
    )


def leaked(test: Corpus, train: Corpus, method: Method = "near") -> NDArray[np.int64]:
    """The rows of test documents whose text is, exactly or nearly, that of a training document."""
    if test.texts is None or train.texts is None:
        return np.zeros(0, np.int64)
    if method == "near":
        return np.flatnonzero(near_copies(test.texts, train.texts) >= 0)
    return np.flatnonzero((word_counts(test.texts) > 0) & np.isin(digests(test.texts), digests(train.texts)))


def first_copies(texts: Strings) -> NDArray[np.int64]:
    """For each text the row of the first one that is the same; empty texts stand for themselves.

    >>> first_copies(Strings.of(["red", "blue", "red", "", ""])).tolist()
    [0, 1, 0, 3, 4]
    """
    first = np.arange(len(texts))
    filled = np.flatnonzero(word_counts(texts) > 0)
    _, where, inverse = np.unique(digests(texts[filled]), return_index=True, return_inverse=True)
    first[filled] = filled[where[inverse]]
    return first
