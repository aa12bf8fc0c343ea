"""Documents projected to singular vectors, against numpy's singular value decomposition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus
from xmtc.errors import XmtcError
from xmtc.models.slice.projected_vectors import ProjectedVectors
from xmtc.text.tfidf import TfIdfSettings

TEXTS = ["red apple pie", "green apple pie", "blue sky today", "grey sky today", "red sky"]


def of_features(dense: Any) -> Corpus:
    return replace(Corpus.of([""] * len(dense)), texts=None, features=csr_array(dense))


def test_cosines_are_those_of_the_closest_matrix_of_that_rank() -> None:
    rng = np.random.default_rng(0)
    dense = rng.random((20, 3)).astype(np.float32) @ rng.random((3, 9)).astype(np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    vectors, training = ProjectedVectors.fit(TfIdfSettings(), of_features(dense), 3, seed=0)
    assert training.shape == (20, 3)
    np.testing.assert_allclose(training @ training.T, dense @ dense.T, atol=1e-3)
    np.testing.assert_allclose(vectors.transform(of_features(dense)), training, atol=1e-5)


def test_few_features_stay_as_they_are() -> None:
    dense = np.array([[3, 4], [0, 2]], np.float32)
    vectors, training = ProjectedVectors.fit(TfIdfSettings(), of_features(dense), 5, seed=0)
    np.testing.assert_allclose(training, np.array([[0.6, 0.8], [0, 1]], np.float32), rtol=1e-6)
    assert vectors.table is None
    assert vectors.width == 2


def test_the_words_parts_add_up_to_the_vector() -> None:
    vectors, training = ProjectedVectors.fit(TfIdfSettings(), Corpus.of(TEXTS), 3, seed=0)
    words, parts = vectors.shares(TEXTS[0])
    assert sorted(words) == ["apple", "pie", "red"]
    np.testing.assert_allclose(parts.sum(axis=0), training[0], atol=1e-6)


def test_nothing_to_compare_is_said() -> None:
    with pytest.raises(XmtcError, match="every document's vector is 0"):
        ProjectedVectors.fit(TfIdfSettings(), of_features(np.zeros((3, 4), np.float32)), 2, seed=0)
