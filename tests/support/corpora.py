"""Small corpora, and their comparison, for tests of the file formats."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet


def rows(corpus: Corpus) -> list[set[str]]:
    return [{corpus.labels.key(label) for label in corpus.labels_of(row)} for row in range(len(corpus))]


def assert_same(found: Corpus, wanted: Corpus) -> None:
    assert rows(found) == rows(wanted)
    if wanted.texts is not None:
        assert found.texts is not None
        assert list(found.texts) == list(wanted.texts)
    if wanted.features is not None:
        assert found.features is not None
        width = max(found.features.shape[1], wanted.features.shape[1])
        padded = [
            csr_array((m.data, m.indices, m.indptr), shape=(len(wanted), width))
            for m in (found.features, wanted.features)
        ]
        assert abs(padded[0] - padded[1]).nnz == 0
    assert {name: list(column) for name, column in found.fields.items()} == {
        name: list(column) for name, column in wanted.fields.items()
    }


def feature_corpus(labels: list[str] | None = None) -> Corpus:
    features = csr_array(np.array([[0, 0.1, 0], [2, 0, 1e-7], [0, 0, 0]], np.float32))
    targets = label_matrix([0, 2, 1], np.array([0, 2, 3, 3]), 3)
    return Corpus(targets, LabelSet.of(labels or ["0", "1", "2"]), features=features)
