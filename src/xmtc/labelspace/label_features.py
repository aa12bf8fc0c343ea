"""Labels as vectors, for clustering: what their documents say, which labels stand beside them, what they are called."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.sparse import hstack

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr, LabelSet
from xmtc.corpus.sparse import make_csr, unit_rows
from xmtc.corpus.strings import Strings
from xmtc.text.tfidf import TfIdf
from xmtc.text.token_store import offsets_of

Representation = Literal["documents", "neighbours", "both", "names"]
LABEL_BLOCK = 2000


def label_vectors(
    features: Csr, targets: Csr, labels: LabelSet, kind: Representation = "documents", smallest: float = 0.0
) -> Csr:
    """A unit vector for each label; a label without documents (or name) gets an empty one.

    "documents": the sum of its documents' feature rows (Parabel, AttentionXML). "neighbours": how often each other
    label stands beside it (Bonsai's label co-occurrence). "both": the two side by side. "names": tf-idf of its name and
    description. Entries below `smallest` times the row's largest are dropped, which bounds memory for large label sets.
    An entry of `targets` is how much its document counts.

    >>> rows = make_csr(np.ones(2, np.float32), np.array([0, 1]), np.array([0, 1, 2]), (2, 2))
    >>> label_vectors(rows, rows, LabelSet.of(["a", "b"])).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if kind == "names":
        texts = Strings.of(f"{labels.name(i)} {labels.description(i)}" for i in range(len(labels)))
        return TfIdf().fit_transform(texts)
    beside = make_csr(np.ones_like(targets.data), targets.indices, targets.indptr, targets.shape)
    if kind == "neighbours":
        return _products(targets, beside, smallest, skip_self=True)
    if kind == "documents":
        return _products(targets, features, smallest)
    parts = [_products(targets, features, smallest), _products(targets, beside, smallest, skip_self=True)]
    joined = hstack(parts, format="csr").astype(np.float32)
    return unit_rows(make_csr(joined.data, joined.indices, joined.indptr, joined.shape))


def _products(targets: Csr, features: Csr, smallest: float, skip_self: bool = False) -> Csr:
    """Unit rows of targets' @ features, made in blocks of labels so that only what is kept takes memory."""
    by_label = targets.T.tocsr()
    blocks: list[Csr] = []
    for start in range(0, by_label.shape[0], LABEL_BLOCK):
        block = take_rows(by_label, slice(start, start + LABEL_BLOCK)) @ features
        if not skip_self and smallest <= 0:
            kept = make_csr(block.data.astype(np.float32, copy=False), block.indices, block.indptr, block.shape)
        else:
            rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
            keep = np.ones(block.nnz, bool)
            if skip_self:
                keep &= block.indices != rows + start
            if smallest > 0:
                largest = np.zeros(block.shape[0], np.float32)
                np.maximum.at(largest, rows[keep], block.data[keep])
                keep &= block.data >= smallest * largest[rows]
            ends = offsets_of(np.bincount(rows[keep], minlength=block.shape[0]))
            kept = make_csr(block.data[keep].astype(np.float32), block.indices[keep], ends, block.shape)
        blocks.append(unit_rows(kept))
    indptr = offsets_of(np.concatenate([np.diff(block.indptr) for block in blocks]))
    # One after the other, so that no more than half of it exists twice.
    indices = np.concatenate([block.indices for block in blocks])
    data = [block.data for block in blocks]
    del blocks, block, kept
    return make_csr(np.concatenate(data), indices, indptr, (by_label.shape[0], features.shape[1]))
