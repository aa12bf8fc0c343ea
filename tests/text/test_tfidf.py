"""Tf-idf against a plain reference and against scikit-learn."""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from xmtc.corpus.strings import Strings
from xmtc.errors import NotFitted, XmtcError
from xmtc.kernels.utf8_words import LITTLE_TEXT
from xmtc.text import tfidf as module
from xmtc.text.tfidf import TfIdf, TfIdfSettings

words = st.sampled_from(["ship", "sea", "wave", "Öl", "öl", "x", "東", "kelp"])
documents = st.lists(st.lists(words, max_size=12).map(" ".join), max_size=8)
any_settings = st.builds(
    TfIdfSettings,
    lowercase=st.booleans(),
    strip_accents=st.booleans(),
    min_chars=st.integers(1, 3),
    ngrams=st.sampled_from([(1, 1), (1, 2), (2, 3), (3, 3)]),
    min_df=st.integers(1, 2),
    max_df=st.sampled_from([0.5, 1.0]),
    max_terms=st.sampled_from([None, 1, 4]),
    log_tf=st.booleans(),
    idf=st.sampled_from(["smooth", "plain", "none"]),
    unit_length=st.booleans(),
)


def grams(text: str, settings: TfIdfSettings) -> Counter[str]:
    found = list(settings.rules.words(text))
    sizes = range(settings.ngrams[0], settings.ngrams[1] + 1)
    return Counter(" ".join(found[i : i + n]) for n in sizes for i in range(len(found) - n + 1))


def reference(texts: list[str], settings: TfIdfSettings, vocabulary: list[str]) -> np.ndarray[Any, Any]:
    """Documents x vocabulary, by the formulas of the docstring."""
    counts = [grams(text, settings) for text in texts]
    df = Counter(chain.from_iterable(counts))
    n = len(texts)
    dense = np.zeros((n, len(vocabulary)))
    for row, found in enumerate(counts):
        for column, term in enumerate(vocabulary):
            if term in found:
                tf = 1 + math.log(found[term]) if settings.log_tf else found[term]
                idf = {
                    "smooth": math.log((1 + n) / (1 + df[term])) + 1,
                    "plain": math.log((1 + n) / df[term]),
                    "none": 1,
                }
                dense[row, column] = tf * idf[settings.idf]
        length = np.linalg.norm(dense[row])
        if settings.unit_length and length:
            dense[row] /= length
    return dense


@settings(max_examples=150, deadline=None)
@given(documents, any_settings)
def test_equals_the_reference(texts: list[str], options: TfIdfSettings) -> None:
    tfidf = TfIdf(options)
    matrix = tfidf.fit_transform(Strings.of(texts))
    vocabulary = list(tfidf.terms)
    df = Counter(chain.from_iterable(grams(text, options) for text in texts))
    wanted = {term for term, n in df.items() if options.min_df <= n <= options.max_df * len(texts)}
    assert set(vocabulary) <= wanted
    assert len(vocabulary) == len(set(vocabulary)) == min(len(wanted), options.max_terms or len(wanted))
    # The most frequent are kept, and come first.
    frequencies = [df[term] for term in vocabulary]
    assert frequencies == sorted(frequencies, reverse=True)
    assert not wanted - set(vocabulary) or min(frequencies) >= max(df[term] for term in wanted - set(vocabulary))
    np.testing.assert_allclose(matrix.toarray(), reference(texts, options, vocabulary), atol=1e-6)
    assert matrix.has_canonical_format
    np.testing.assert_allclose(tfidf.transform(Strings.of(texts)).toarray(), matrix.toarray())


def letter_grams(text: str, settings: TfIdfSettings) -> Counter[str]:
    assert settings.letters is not None
    shortest, longest = settings.letters
    found: Counter[str] = Counter()
    for word in settings.rules.words(text):
        marked = f"<{word}>"
        for size in range(min(shortest, len(marked)), min(longest, len(marked)) + 1):
            found.update(marked[at : at + size] for at in range(len(marked) - size + 1))
    return found


@settings(max_examples=60, deadline=None)
@given(documents, st.sampled_from([(2, 2), (2, 4), (3, 5), (6, 7)]), st.integers(1, 3), st.integers(1, 2))
def test_letters_equal_the_reference(texts: list[str], letters: tuple[int, int], min_chars: int, min_df: int) -> None:
    options = TfIdfSettings(letters=letters, min_chars=min_chars, min_df=min_df, idf="none", log_tf=False)
    options = options.model_copy(update={"unit_length": False})
    tfidf = TfIdf(options)
    matrix = tfidf.fit_transform(Strings.of(texts)).toarray()
    counts = [letter_grams(text, options) for text in texts]
    df = Counter(chain.from_iterable(counts))
    wanted = [term for term, n in df.items() if n >= min_df]
    # Terms have no marks, so that several may be called the same: compare the columns as a whole.
    expected = sorted((term.strip("<>"), *(found[term] for found in counts)) for term in wanted)
    assert sorted((term, *column) for term, column in zip(tfidf.terms, matrix.T.tolist(), strict=True)) == expected
    np.testing.assert_array_equal(tfidf.transform(Strings.of(texts)).toarray(), matrix)


def test_letters_of_many_texts_are_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """With threads and in blocks as well as one by one."""
    rng = np.random.default_rng(0)
    texts = Strings.of(" ".join(f"wörd{i}" for i in rng.geometric(0.01, 100)) for _ in range(LITTLE_TEXT // 200))
    tfidf = TfIdf(TfIdfSettings(letters=(3, 5)))
    together = tfidf.fit_transform(texts)
    monkeypatch.setattr(module, "BLOCK_BYTES", 4000)
    np.testing.assert_array_equal(tfidf.transform(texts).toarray(), together.toarray())


@pytest.mark.parametrize("wrong", [{"letters": (1, 3)}, {"letters": (4, 3)}, {"letters": (3, 4), "ngrams": (1, 2)}])
def test_impossible_letters(wrong: dict[str, tuple[int, int]]) -> None:
    with pytest.raises(ValidationError, match="letters"):
        TfIdfSettings(**wrong)


@pytest.mark.needs("sklearn")
def test_equals_scikit_learn_on_real_texts() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    from xmtc.corpus.io import read
    from xmtc.data import demo_folder

    texts = read(demo_folder()).texts
    assert texts is not None
    options = TfIdfSettings(ngrams=(1, 2), min_df=2)
    tfidf = TfIdf(options)
    ours = tfidf.fit_transform(texts)
    theirs = TfidfVectorizer(
        sublinear_tf=True,
        ngram_range=(1, 2),
        min_df=2,
        tokenizer=lambda text: list(options.rules.words(text)),
        lowercase=False,
        token_pattern=None,
    )
    expected = theirs.fit_transform(list(texts))
    assert set(tfidf.terms) == set(theirs.vocabulary_)
    columns = [theirs.vocabulary_[term] for term in tfidf.terms]
    assert abs(ours - expected[:, columns]).max() < 1e-6


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = Strings.of(f"word{i % 7} common e\u0301t{i % 3} word{i % 5}" for i in range(50))
    whole = TfIdf(TfIdfSettings(ngrams=(1, 2)))
    expected = whole.fit_transform(texts)
    monkeypatch.setattr(module, "BLOCK_BYTES", 100)
    pieces = TfIdf(TfIdfSettings(ngrams=(1, 2)))
    np.testing.assert_array_equal(pieces.fit_transform(texts).toarray(), expected.toarray())
    assert list(pieces.terms) == list(whole.terms)


def test_one_text_gets_the_same_weights_as_among_many() -> None:
    """One is counted without threads, many with them."""
    rng = np.random.default_rng(0)
    texts = Strings.of(" ".join(f"w{i}" for i in rng.geometric(0.01, 100)) for _ in range(LITTLE_TEXT // 200))
    tfidf = TfIdf(TfIdfSettings(ngrams=(1, 2)))
    together = tfidf.fit_transform(texts)
    for at in range(0, len(texts), 10):
        alone, row = tfidf.transform(Strings.of([texts[at]])), slice(*together.indptr[at : at + 2])
        np.testing.assert_array_equal(alone.indices, together.indices[row])
        np.testing.assert_array_equal(alone.data, together.data[row])


def test_a_text_too_long_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 10)
    monkeypatch.setattr(module, "LONGEST_TEXT", 20)
    with pytest.raises(XmtcError, match="a text of 21 bytes; the longest possible has 20"):
        TfIdf().fit(Strings.of(["short", "x" * 21]))


def test_unknown_words_give_an_empty_row() -> None:
    tfidf = TfIdf().fit(Strings.of(["ship sea"]))
    assert np.diff(tfidf.transform(Strings.of(["quux", "", "ship"])).indptr).tolist() == [0, 0, 1]


def test_storage_round_trip() -> None:
    texts = Strings.of(["ship sea", "sea wave Öl"])
    tfidf = TfIdf(TfIdfSettings(ngrams=(1, 2)))
    matrix = tfidf.fit_transform(texts)
    same = TfIdf.from_arrays(tfidf.settings, tfidf.to_arrays())
    np.testing.assert_array_equal(same.transform(texts).toarray(), matrix.toarray())
    assert list(same.terms) == list(tfidf.terms)


def test_unfitted() -> None:
    with pytest.raises(NotFitted):
        TfIdf().transform(Strings.of(["x"]))


@pytest.mark.parametrize("wrong", [{"ngrams": (2, 1)}, {"ngrams": (0, 1)}, {"max_df": 0}, {"min_df": 0}, {"typo": 1}])
def test_impossible_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TfIdfSettings(**wrong)
