"""Matches of names against a search written out, window by window."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.models.mllm.matching import (
    ALTERNATIVE,
    COMPOUND_END,
    COMPOUND_START,
    DESCRIPTION,
    LEAST_PART,
    LEAST_REST,
    MOST_WORDS,
    NAME,
    RULES,
    Matches,
    Terms,
    Words,
)

LABELS = LabelSet.of(
    ["p", "t", "f", "m", "e"],
    names=["Trade policy", "Trade", "Fish", "Mercury (planet)", "Energie"],
    alternatives=[[], [], ["Seafood"], [], []],
    descriptions=["", "", "what lives in water", "", ""],
)


def found(text: str, labels: LabelSet = LABELS, compounds: bool = False) -> list[tuple[int, int, int, int]]:
    """(label, first word, number of words, kind) of each match in a text."""
    matches = Terms(labels, [None], compounds).matches(Strings.of([text]))
    every = (matches.labels, matches.starts, matches.sizes, matches.kinds)
    return sorted(zip(*(each.tolist() for each in every), strict=True))


def test_names_other_names_and_descriptions_are_found() -> None:
    assert found("Seafood is fish") == [(2, 0, 1, ALTERNATIVE), (2, 2, 1, NAME)]
    assert found("all that in water lives") == []
    assert found("In water lives what?") == [(2, 0, 4, DESCRIPTION)]


def test_words_of_a_name_may_stand_in_any_order_but_not_apart() -> None:
    assert found("policy, trade") == [(0, 0, 2, NAME), (1, 1, 1, NAME)]
    assert found("policy of trade") == [(1, 2, 1, NAME)]


def test_a_qualifier_is_no_part_of_a_name() -> None:
    assert found("the god Mercury") == [(3, 2, 1, NAME)]
    only = LabelSet.of(["x"], names=["(untitled)"])
    assert found("an untitled work", only) == [(0, 1, 1, NAME)]


def test_no_window_goes_from_one_text_to_the_next() -> None:
    matches = Terms(LABELS, [None], compounds=False).matches(Strings.of(["a trade", "policy", "", "trade policy"]))
    assert list(zip(matches.texts.tolist(), matches.labels.tolist(), strict=True)) == [(0, 1), (3, 0), (3, 1)]
    assert matches.lengths.tolist() == [2, 1, 0, 2]


def test_a_name_within_a_longer_match_is_covered() -> None:
    matches = Terms(LABELS, [None], compounds=False).matches(Strings.of(["trade policy and trade"]))
    covered = dict(
        zip(zip(matches.labels.tolist(), matches.starts.tolist(), strict=True), matches.covered, strict=True)
    )
    assert covered == {(0, 0): False, (1, 0): True, (1, 3): False}


def test_compounds_begin_or_end_with_a_name() -> None:
    assert found("Energiepolitik und Kernenergie", compounds=True) == [
        (4, 0, 1, COMPOUND_START),
        (4, 2, 1, COMPOUND_END),
    ]
    assert found("Energien", compounds=True) == []  # one letter more is an ending, no word
    assert found("Energie", compounds=True) == [(4, 0, 1, NAME)]
    assert found("Energiepolitik") == []


def test_labels_that_share_a_term_say_so() -> None:
    labels = LabelSet.of(["a", "b", "c"], names=["Bank", "bank", "Water"])
    matches = Terms(labels, [None], compounds=False).matches(Strings.of(["water, bank"]))
    assert list(zip(matches.labels.tolist(), matches.sharing.tolist(), strict=True)) == [(2, 1), (0, 2), (1, 2)]


WORD = st.sampled_from(["sea", "food", "trade", "policy", "seafood", "energy", "energypolicy"])
TERM = st.lists(WORD, min_size=1, max_size=MOST_WORDS + 1)


def naive(labels: LabelSet, texts: list[list[str]], compounds: bool) -> Counter[tuple[int, int, int, int]]:
    """(text, label, first word, words) of each match, by comparing every window with every term."""
    result = set()
    names = {at: labels.name(at).split() for at in range(len(labels))}
    for row, words in enumerate(texts):
        for label, name in names.items():
            for start in range(len(words) - len(name) + 1):
                if len(name) <= MOST_WORDS and Counter(words[start : start + len(name)]) == Counter(name):
                    result.add((row, label, start, len(name)))
        single = {name[0] for name in names.values() if len(name) == 1 and len(name[0]) >= LEAST_PART}
        for start, word in enumerate(words if compounds else []):
            ends = [part for part in single if word.endswith(part) and len(word) - len(part) >= LEAST_REST]
            begins = [part for part in single if word.startswith(part) and len(word) - len(part) >= LEAST_REST]
            for parts in (ends, begins):
                if parts:
                    longest = max(parts, key=len)
                    result |= {(row, label, start, 1) for label, name in names.items() if name == [longest]}
    return Counter(result)


@given(
    st.lists(TERM, min_size=1, max_size=5), st.lists(st.lists(WORD, max_size=7), min_size=1, max_size=4), st.booleans()
)
def test_matches_are_those_of_a_search_window_by_window(
    terms: list[list[str]], texts: list[list[str]], compounds: bool
) -> None:
    labels = LabelSet.of([f"l{at}" for at in range(len(terms))], names=[" ".join(term) for term in terms])
    matches = Terms(labels, [None], compounds).matches(Strings.of([" ".join(words) for words in texts]))
    every = (matches.texts, matches.labels, matches.starts, matches.sizes)
    assert Counter(zip(*(each.tolist() for each in every), strict=True)) == naive(labels, texts, compounds)
    assert_covered(matches)


def assert_covered(matches: Matches) -> None:
    windows = list(zip(matches.texts.tolist(), matches.starts.tolist(), matches.sizes.tolist(), strict=True))
    for (text, start, size), covered in zip(windows, matches.covered.tolist(), strict=True):
        longer = [
            other
            for other in windows
            if other[0] == text and other[2] > size and other[1] <= start and start + size <= other[1] + other[2]
        ]
        # A window may also be called covered by two that reach as far together; never the other way round.
        assert covered or not longer


def test_words_are_those_of_the_rules_in_order() -> None:
    texts = ["Über Öl, 東京 & x_1", "", "öl ÜBER alles"]
    words = Words.of(Strings.of(texts))
    assert [
        [words.words[at] for at in words.which[start:end]]
        for start, end in zip(words.indptr[:-1], words.indptr[1:], strict=True)
    ] == [list(RULES.words(text)) for text in texts]


@pytest.mark.needs("Stemmer")
def test_each_language_brings_its_stems() -> None:
    labels = LabelSet.of(["a", "b"], names=["Häuser", "Policies"])
    texts = Strings.of(["viele Hauses", "one policy"])
    assert not len(Terms(labels, [None], compounds=False).matches(texts).labels)
    german, both = (Terms(labels, each, compounds=False).matches(texts) for each in (["de"], ["de", "en"]))
    assert german.labels.tolist() == [0]
    assert sorted(both.labels.tolist()) == [0, 1]
    same = Terms(labels, ["de", "en"], compounds=False).matches(Strings.of(["Häuser"]))
    np.testing.assert_array_equal(same.labels, [0])  # found in both languages, counted once
