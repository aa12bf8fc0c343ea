"""Documents as vectors, from texts and from features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdf, TfIdfSettings

TEXTS = Corpus.of(["red apple", "blue sky", "red sky"], [["a"], ["b"], ["b"]])


def features(dense: Any) -> Corpus:
    matrix = csr_array(np.array(dense, np.float32))
    none = label_matrix([], np.zeros(matrix.shape[0] + 1, np.int64), 1)
    return Corpus(none, LabelSet.of(["a"]), features=matrix)


def test_texts_are_tfidf() -> None:
    vectors = DocumentVectors(TfIdfSettings())
    assert TEXTS.texts is not None
    expected = TfIdf().fit_transform(TEXTS.texts).toarray()
    np.testing.assert_array_equal(vectors.fit_transform(TEXTS).toarray(), expected)
    np.testing.assert_array_equal(vectors.transform(TEXTS[1:]).toarray(), expected[1:])
    assert vectors.width == 4


def test_features_get_length_one() -> None:
    vectors = DocumentVectors(TfIdfSettings())
    found = vectors.fit_transform(features([[3, 4, 0], [0, 0, 0]])).toarray()
    np.testing.assert_allclose(found, np.array([[0.6, 0.8, 0], [0, 0, 0]]))


@pytest.mark.parametrize("width", [2, 3, 5])
def test_other_features_than_in_training(width: int) -> None:
    """Missing ones are 0; those that training did not have are like unknown words."""
    vectors = DocumentVectors(TfIdfSettings())
    vectors.fit_transform(features(np.ones((2, 3))))
    found = vectors.transform(features(np.eye(1, width)))
    assert found.toarray().tolist() == [[1, 0, 0]]


def test_the_other_kind_of_document() -> None:
    vectors = DocumentVectors(TfIdfSettings())
    vectors.fit_transform(TEXTS)
    with pytest.raises(XmtcError, match="trained on texts"):
        vectors.transform(features([[1, 0]]))
    vectors.fit_transform(features([[1, 0]]))
    with pytest.raises(XmtcError, match="trained on features"):
        vectors.transform(TEXTS)


def test_no_word_is_left() -> None:
    with pytest.raises(XmtcError, match=r"no word is left .* lower tfidf\.min_df"):
        DocumentVectors(TfIdfSettings(min_df=9)).fit_transform(TEXTS)


@pytest.mark.parametrize("corpus", [TEXTS, features([[3, 4, 0], [0, 0, 1]])], ids=["texts", "features"])
def test_stored_and_read_again(corpus: Corpus) -> None:
    vectors = DocumentVectors(TfIdfSettings())
    expected = vectors.fit_transform(corpus).toarray()
    arrays = vectors.to_arrays()
    again = DocumentVectors.from_arrays(TfIdfSettings(), arrays)
    np.testing.assert_array_equal(again.transform(corpus).toarray(), expected)
    for missing in arrays:
        rest = {name: array for name, array in arrays.items() if name != missing}
        with pytest.raises((KeyError, ValueError)):
            DocumentVectors.from_arrays(TfIdfSettings(), rest)
    with pytest.raises(ValueError, match="cannot be -1 features"):
        DocumentVectors.from_arrays(TfIdfSettings(), {**arrays, "width": np.array([-1])})


def test_memory_grows_with_the_words() -> None:
    small, large = (DocumentVectors(TfIdfSettings(ngrams=(1, n))).memory_needed(TEXTS) for n in (1, 3))
    assert 0 < small < large
    assert DocumentVectors(TfIdfSettings()).memory_needed(features([[1, 1, 0]])) == 32
