"""Rows of words and hashed n-grams against a plain Python account of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus.strings import Strings
from xmtc.models.fasttext.features import TEXT, WordNgrams
from xmtc.text.word_rules import WordRules

STEP, GRAM_STEP, MASK = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 2**64 - 1
TEXTS = ["The red apple", "a red, red sky", "über den Wolken", "東京 tower", "", "!?"]


def mixed(key: int) -> int:
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    key = (key ^ (key >> 27)) * 0x94D049BB133111EB & MASK
    return key ^ (key >> 31) or 1


def hashed(codes: list[int]) -> int:
    key = STEP
    for code in codes:
        key = (key ^ code) * STEP & MASK
        key ^= key >> 32
    return mixed(key)


def features(text: str, grams: WordNgrams) -> list[str | int]:
    """Known words by name, n-grams by bucket, in order."""
    words = list(WordRules().words(text))
    found: list[str | int] = []
    known = set(grams.words)
    shortest, longest = grams.letters
    for word in words:
        if word in known:
            found.append(word)
        codes = [1, *map(ord, word), 2]
        for size in range(shortest, longest + 1) if longest else ():
            firsts = range(len(codes) - size + 1) if size > 1 else range(1, len(codes) - 1)
            found += [hashed(codes[first : first + size]) % grams.buckets for first in firsts]
    keys = [hashed([ord(letter) for letter in word]) for word in words]
    for size in range(2, grams.words_together + 1):
        for first in range(len(keys) - size + 1):
            key = keys[first]
            for other in keys[first + 1 : first + size]:
                key = mixed((key * GRAM_STEP + other) & MASK)
            found.append(key % grams.buckets)
    return found


def expected_rows(text: str, grams: WordNgrams, filled: list[int]) -> list[int]:
    words = list(grams.words)
    rows = [TEXT]
    for feature in features(text, grams):
        if isinstance(feature, str):
            rows.append(1 + words.index(feature))
        elif feature in filled:
            rows.append(1 + len(words) + filled.index(feature))
    return rows


@pytest.mark.parametrize("together", [1, 2, 3])
@pytest.mark.parametrize("letters", [(0, 0), (1, 2), (3, 5)])
@pytest.mark.parametrize("buckets", [7, 1000])
def test_rows_are_those_of_a_plain_account(together: int, letters: tuple[int, int], buckets: int) -> None:
    grams = WordNgrams(together, letters, buckets)
    rows = grams.fit_transform(Strings.of(TEXTS))
    every = [features(text, grams) for text in TEXTS]
    filled = sorted({feature for found in every for feature in found if isinstance(feature, int)})
    assert [document.tolist() for document in rows] == [expected_rows(text, grams, filled) for text in TEXTS]
    assert len(grams) == 1 + len(grams.words) + len(filled)
    unseen = ["a red apple in the sky", "redder towers", "東京東京"]
    found = [document.tolist() for document in grams.transform(Strings.of(unseen))]
    assert found == [expected_rows(text, grams, filled) for text in unseen]


@given(st.lists(st.text(max_size=30), max_size=5), st.text(max_size=30))
def test_any_text_has_rows_within_the_table(texts: list[str], unseen: str) -> None:
    grams = WordNgrams(2, (1, 3), buckets=50)
    for rows in (grams.fit_transform(Strings.of(texts)), grams.transform(Strings.of([*texts, unseen]))):
        assert all(document[0] == TEXT for document in rows)
        assert rows.ids.min(initial=0) >= 0
        assert rows.ids.max(initial=0) < len(grams)
    alone = grams.transform(Strings.of([unseen]))[0]
    np.testing.assert_array_equal(alone, rows[len(texts)])
    assert [row for row, _ in grams.named(unseen)] == alone.tolist()


def test_names_are_what_stands_in_the_text() -> None:
    grams = WordNgrams(2, (3, 4))
    grams.fit_transform(Strings.of(["Grüne Äpfel", "grüne Wolken"]))
    names = Counter(name for _, name in grams.named("GRÜNE Äpfel!"))
    # A word by itself, and as its longest n-grams with marks; an n-gram's marks are not shown.
    assert names["grüne äpfel"] == 1
    assert names["grüne"] == 1
    assert {"gr", "grü", "rün", "üne", "ne", "grün", "äpf", "fel", "el"} <= set(names)
    assert names[""] == 1


def test_rare_words_have_no_row_of_their_own() -> None:
    grams = WordNgrams(2, min_df=2)
    grams.fit_transform(Strings.of(["red apple", "red sky"]))
    assert list(grams.words) == ["red"]
    assert [name for _, name in grams.named("red apple")] == ["", "red", "red apple"]


def test_stored_and_read_again() -> None:
    grams = WordNgrams(2, (2, 3), buckets=99)
    grams.fit_transform(Strings.of(TEXTS))
    other = WordNgrams(2, (2, 3), buckets=99)
    other.load_arrays(grams.to_arrays())
    texts = Strings.of([*TEXTS, "a red tower"])
    np.testing.assert_array_equal(grams.transform(texts).ids, other.transform(texts).ids)
    assert len(other) == len(grams)


@pytest.mark.parametrize("filled", [[3, 3], [5, 2], [-1, 4], [4, 99], [[1], [2]]], ids=str)
def test_buckets_that_cannot_be(filled: list[int]) -> None:
    grams = WordNgrams(2, buckets=99)
    grams.fit_transform(Strings.of(TEXTS))
    arrays = {**grams.to_arrays(), "filled": np.array(filled, np.int32)}
    with pytest.raises(ValueError, match="filled buckets"):
        WordNgrams(2, buckets=99).load_arrays(arrays)
    with pytest.raises(ValueError, match="filled buckets"):
        WordNgrams(2, buckets=99).load_arrays({**arrays, "filled": np.array([1.0])})
