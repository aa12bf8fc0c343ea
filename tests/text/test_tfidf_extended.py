"""Further texts bring new terms; nothing changes for the old ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.strings import Strings
from xmtc.errors import NotFitted
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdf, TfIdfSettings

FIRST = ["ship sail wave", "ship harbour", "bread oven", "flour bread"]
FURTHER = ["kiwi mango ship", "kiwi bread", "mango kiwi lime"]


def extended(further: list[str] = FURTHER, **settings: Any) -> tuple[TfIdf, TfIdf]:
    first = TfIdf(TfIdfSettings.model_validate(settings))
    first.fit(Strings.of(FIRST))
    return first, first.extended(Strings.of(further), len(FIRST))[0]


@pytest.mark.parametrize("kind", [{"ngrams": (1, 2)}, {"letters": (3, 4)}, {"idf": "plain"}, {}])
def test_old_terms_keep_their_columns_and_their_idf(kind: dict[str, Any]) -> None:
    first, grown = extended(**kind)
    assert len(grown) > len(first)
    assert list(grown.terms)[: len(first)] == list(first.terms)
    np.testing.assert_array_equal(grown.idf[: len(first)], first.idf)
    texts = Strings.of(FIRST)
    old, new = first.transform(texts), grown.transform(texts)
    np.testing.assert_array_equal(new.toarray()[:, : len(first)], old.toarray())


def test_new_terms_are_ordered_by_frequency_and_weighed_by_all_texts() -> None:
    _, grown = extended(idf="smooth")
    assert list(grown.terms)[-3:-1] == ["kiwi", "mango"]
    assert grown.idf[-3] == pytest.approx(np.log((1 + 7) / (1 + 3)) + 1)
    again = extended(FURTHER[::-1])[1]
    assert list(again.terms) == list(grown.terms), "whatever the order of the documents"


@pytest.mark.parametrize("kind", [{"ngrams": (1, 2)}, {"letters": (2, 3)}, {}])
def test_without_idf_it_equals_a_tfidf_of_all_texts(kind: dict[str, Any]) -> None:
    first, _ = extended(idf="none", **kind)
    grown, matrix = first.extended(Strings.of(FURTHER), len(FIRST))
    whole = TfIdf(TfIdfSettings.model_validate({"idf": "none", **kind}))
    expected = whole.fit_transform(Strings.of(FIRST + FURTHER))
    keys, expected_keys = (tfidf.to_arrays()["keys"].tolist() for tfidf in (grown, whole))
    assert set(keys) == set(expected_keys)
    order = [keys.index(key) for key in expected_keys]
    np.testing.assert_array_equal(matrix.toarray()[:, order], expected.toarray()[len(FIRST) :])


def test_rare_terms_of_the_further_texts_stay_out() -> None:
    _, grown = extended(min_df=2)
    assert set(grown.terms) == {"ship", "bread", "kiwi", "mango"}


def test_a_term_that_was_too_frequent_does_not_come_back_as_a_new_word() -> None:
    first = TfIdf(TfIdfSettings(max_df=0.5)).fit(Strings.of([f"the {text}" for text in FIRST]))
    again = TfIdf.from_arrays(first.settings, first.to_arrays())
    for tfidf in (first, again):
        grown, _ = tfidf.extended(Strings.of(["the kiwi"]), len(FIRST))
        assert "the" not in set(grown.terms)
        assert "kiwi" in set(grown.terms)
        assert "the" not in set(grown.extended(Strings.of(["the lime"]), 5)[0].terms)


def test_a_full_vocabulary_says_that_new_words_have_no_place() -> None:
    with pytest.warns(UserWarning, match=r"2 new words have no place.*max_terms=8"):
        _, grown = extended(max_terms=8)
    assert len(grown) == 8
    assert list(grown.terms)[-1] == "kiwi"


def test_texts_without_new_words_or_without_words() -> None:
    first, grown = extended(["ship", "", "bread bread"])
    assert list(grown.terms) == list(first.terms)
    assert first.extended(Strings.of([]), 4)[1].shape == (0, len(first))


def test_an_extended_tfidf_is_stored_like_any_other() -> None:
    _, grown = extended()
    loaded = TfIdf.from_arrays(grown.settings, grown.to_arrays())
    texts = Strings.of(FURTHER)
    np.testing.assert_array_equal(loaded.transform(texts).toarray(), grown.transform(texts).toarray())


def test_only_a_fitted_one_can_be_extended() -> None:
    with pytest.raises(NotFitted):
        TfIdf().extended(Strings.of(FURTHER), 0)


@pytest.mark.parametrize("damaged", [np.zeros(2, np.int64), np.zeros((1, 1), np.uint64)])
def test_damaged_keys_of_frequent_terms_are_refused(damaged: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> None:
    first, _ = extended()
    with pytest.raises(ValueError, match="too frequent"):
        TfIdf.from_arrays(first.settings, {**first.to_arrays(), "too_frequent": damaged})


def test_document_vectors_widen_and_the_old_ones_stay() -> None:
    vectors = DocumentVectors(TfIdfSettings())
    before = vectors.fit_transform(Corpus.of(FIRST))
    wider, matrix = vectors.extended(Corpus.of(FURTHER), len(FIRST))
    assert wider.width == matrix.shape[1] > vectors.width == before.shape[1]
