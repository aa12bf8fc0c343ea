"""Near-duplicates against a plain Python reference that compares every pair."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus import near_duplicates as module
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.near_duplicates import SIMILAR, near_copies, near_duplicates, shingles, similarity
from xmtc.corpus.similar_texts import find_similar
from xmtc.corpus.strings import Strings

WORDS = [f"word{i}" for i in range(300)]
small_texts = st.lists(st.sampled_from(["red", "Red", "blue", "sky,", "!", "東", "京", " "]), max_size=8).map(" ".join)


def plain_shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[東京]|[a-z0-9]+", text.lower())
    if not words:
        return {("only", text.strip())} if text.strip() else set()
    if len(words) < 3:
        return {tuple(words)}
    return {tuple(words[at : at + 3]) for at in range(len(words) - 2)}


def plain_similarity(one: str, other: str) -> float:
    a, b = plain_shingles(one), plain_shingles(other)
    return len(a & b) / len(a | b) if a | b else 0.0


def plain_near_duplicates(texts: list[str]) -> list[int]:
    """Every text against every kept one before it."""
    kept: list[int] = []
    found = []
    for row, text in enumerate(texts):
        first = next((other for other in kept if plain_similarity(text, texts[other]) >= SIMILAR), row)
        kept += [row] if first == row else []
        found.append(first)
    return found


def edited(text: str, rng: np.random.Generator, changes: int) -> str:
    words = text.split()
    for at in rng.choice(len(words), changes, replace=False).tolist():
        words[at] = str(rng.choice(WORDS))
    return " ".join(words)


@pytest.fixture(scope="module")
def family() -> list[str]:
    """400 texts of 60 words: originals, and versions of them with one to eight other words."""
    rng = np.random.default_rng(3)
    originals = [" ".join(rng.choice(WORDS, 60)) for _ in range(200)]
    return originals + [edited(text, rng, int(rng.integers(1, 9))) for text in originals]


def test_the_same_as_comparing_every_pair(family: list[str]) -> None:
    expected = plain_near_duplicates(family)
    assert near_duplicates(Strings.of(family)).tolist() == expected
    assert 40 < sum(first != row for row, first in enumerate(expected)) < 160


def test_copies_of_training_texts_are_found_as_by_comparing_every_pair(family: list[str]) -> None:
    train, test = family[:200], family[200:]
    expected = [next((at for at, other in enumerate(train) if plain_similarity(t, other) >= SIMILAR), -1) for t in test]
    assert near_copies(Strings.of(test), Strings.of(train)).tolist() == expected


@given(small_texts, small_texts)
def test_similarity_is_that_of_the_sets_of_shingles(one: str, other: str) -> None:
    assert similarity(shingles(one), shingles(other)) == pytest.approx(plain_similarity(one, other))


@given(st.lists(small_texts, max_size=12))
def test_small_texts_as_by_comparing_every_pair(texts: list[str]) -> None:
    found = near_duplicates(Strings.of(texts)).tolist()
    expected = plain_near_duplicates(texts)
    for row, (first, reference) in enumerate(zip(found, expected, strict=True)):
        assert found[first] == first <= row
        assert first == row or plain_similarity(texts[row], texts[first]) >= SIMILAR
        # Those with the same shingles are always found; of similar ones, few may be missed.
        same = [at for at in range(row) if plain_shingles(texts[at]) == plain_shingles(texts[row])]
        assert not plain_shingles(texts[row]) or not same or first < row
        assert reference <= row


def test_the_answer_does_not_depend_on_what_is_taken_together(
    family: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = near_duplicates(Strings.of(family)).tolist()
    monkeypatch.setattr(module, "TOGETHER", 7)
    monkeypatch.setattr(module, "MOST_WORDS_KEPT", 10)
    assert near_duplicates(Strings.of(family)).tolist() == expected


def test_many_copies_of_one_text_are_quick() -> None:
    texts = Strings.of(["one text that fills the whole corpus again and again"] * 5000)
    assert near_duplicates(texts).max() == 0


def test_a_report_leaves_exact_copies_to_the_count_of_duplicates() -> None:
    long = " ".join(WORDS[:40])
    texts = [long, long, long + " more", long + " yet", "other words here", ""]
    found = find_similar(Corpus.of(texts), Corpus.of([long, long + " again", "unknown text", ""]))
    assert (found.documents, found.groups, found.leakage) == (2, 1, 1)
    (pair,) = found.examples
    assert (pair.ids, pair.further) == (("0", "2"), 1)
    assert pair.texts[1].endswith(" more")  # shown where the two begin to differ
    assert pair.texts[0] != pair.texts[1]


def test_nothing_is_found_in_nothing() -> None:
    assert near_duplicates(Strings.of([])).tolist() == []
    assert near_duplicates(Strings.of(["", " ", ""])).tolist() == [0, 1, 2]
    assert near_copies(Strings.of([""]), Strings.of([])).tolist() == [-1]
