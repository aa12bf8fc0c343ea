"""What `xmtc info` says about single labels: the most frequent ones, and those that look like a mistake."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.oddities import packed_separator


@dataclass(frozen=True)
class LabelCount:
    """A label and the documents that carry it; `share` is of all documents."""

    label: str
    name: str
    documents: int
    share: float


def frequent_labels(corpus: Corpus, count: int = 10) -> list[LabelCount]:
    """The labels that most documents carry, the most frequent first; equally frequent ones in the label set's order.

    >>> frequent_labels(Corpus.of(["a", "b"], [["x", "y"], ["y"]]), count=1)
    [LabelCount(label='y', name='y', documents=2, share=1.0)]
    """
    counts = corpus.label_counts
    order = np.argsort(-counts, kind="stable")[:count]
    labels = corpus.labels
    return [
        LabelCount(labels.key(at), labels.name(at), int(counts[at]), int(counts[at]) / max(1, len(corpus)))
        for at in order.tolist()
        if counts[at]
    ]


def label_variants(corpus: Corpus) -> list[list[str]]:
    """Labels in use that differ only in case or white space, such as "Email" and "email ".

    >>> label_variants(Corpus.of(["a", "b", "c"], [["Email"], ["email "], ["sky"]]))
    [['Email', 'email ']]
    """
    alike: dict[str, list[str]] = {}
    for at in np.flatnonzero(corpus.label_counts).tolist():
        key = corpus.labels.key(at)
        alike.setdefault(" ".join(key.split()).casefold(), []).append(key)
    return [variants for variants in alike.values() if len(variants) > 1]


def separator_within_labels(corpus: Corpus) -> str | None:
    """What separates labels if the only label of a document looks like several, such as "apple;food"; else None."""
    sizes = np.diff(corpus.targets.indptr)
    alone = corpus.targets.indices[corpus.targets.indptr[:-1][sizes == 1]]
    keys = list(corpus.labels.keys)
    return packed_separator([keys[at] for at in alone.tolist()], int(np.count_nonzero(sizes)))
