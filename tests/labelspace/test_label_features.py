"""Label vectors against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmtc.corpus.labels import LabelSet
from xmtc.labelspace import label_features as vectors
from xmtc.labelspace.label_features import Representation, label_vectors

Array = np.ndarray[Any, Any]
LABELS = 7
NAMES = LabelSet.of([f"l{i}" for i in range(LABELS)], names=["red apple", "green apple", "sky", "", "sea", "x1", "x2"])


def example() -> tuple[Array, Array]:
    """(documents x features, documents x labels); label 3 has no document, document 0 no label."""
    rng = np.random.default_rng(0)
    features = (rng.random((20, 12)) * (rng.random((20, 12)) < 0.4)).astype(np.float32)
    targets = (rng.random((20, LABELS)) < 0.3).astype(np.float32)
    targets[:, 3] = 0
    targets[0] = 0
    return features, targets


def unit(dense: Array) -> Array:
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    scaled: Array = np.divide(dense, lengths, out=np.zeros_like(dense), where=lengths > 0)
    return scaled


def expected(kind: str, features: Array, targets: Array) -> Array:
    beside = targets.T @ targets
    np.fill_diagonal(beside, 0)
    parts = {"documents": [targets.T @ features], "neighbours": [beside], "both": [targets.T @ features, beside]}
    return unit(np.hstack([unit(part) for part in parts[kind]]))


@pytest.mark.parametrize("block", [3, 20_000])
@pytest.mark.parametrize("kind", ["documents", "neighbours", "both"])
def test_against_dense(kind: Representation, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "LABEL_BLOCK", block)
    features, targets = example()
    found = label_vectors(csr_array(features), csr_array(targets), NAMES, kind)
    np.testing.assert_allclose(found.toarray(), expected(kind, features, targets), atol=1e-6)
    assert found.data.dtype == np.float32
    assert found.indices.dtype == found.indptr.dtype == np.int32
    assert not found.toarray()[3].any(), "a label without documents"


def test_small_entries_are_dropped() -> None:
    features, targets = example()
    whole = label_vectors(csr_array(features), csr_array(targets), NAMES).toarray()
    cut = label_vectors(csr_array(features), csr_array(targets), NAMES, smallest=0.3)
    kept = whole >= 0.3 * whole.max(1, keepdims=True) - 1e-6
    np.testing.assert_allclose(cut.toarray(), unit(np.where(kept, whole, 0)), atol=1e-6)
    assert cut.nnz < np.count_nonzero(whole)


def test_names() -> None:
    features, targets = example()
    found = label_vectors(csr_array(features), csr_array(targets), NAMES, "names").toarray()
    closeness = found @ found.T
    assert found.shape[0] == LABELS
    assert 0.1 < closeness[0, 1] < 1
    assert closeness[0, 2] == 0
