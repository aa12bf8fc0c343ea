"""Where the names of labels stand in texts: all terms of all labels are found at once.

A term is one of a label's names, as a bag of stems. It matches a window of as many words with the same stems in any
order, so that "policy of trade" does not match "trade policy", but "Ungleichheit, soziale" matches "soziale
Ungleichheit". A bag's key is the sum of its stems' digests, so that the keys of all windows of a length are differences
of one cumulative sum.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings, digests
from xmtc.kernels.utf8_words import folded_terms
from xmtc.kernels.word_sequence import word_sequence
from xmtc.models.mllm.stemming import stems
from xmtc.text.word_rules import WordRules

RULES = WordRules()
MOST_WORDS = 5  # of a term; longer descriptions are sentences, which no text repeats
NAME, ALTERNATIVE, DESCRIPTION, COMPOUND_END, COMPOUND_START = range(5)  # what matched
LEAST_PART = 5  # letters of a stem that is looked for in compounds
LEAST_REST = 3  # letters of the rest of a compound
LONGEST_COMPOUND = 60  # letters; longer words are no words
QUALIFIER = re.compile(r"\s*[<(][^<>()]*[>)]\s*$")  # as in "Mercury (planet)"

Ints = NDArray[np.int64]


class Words(NamedTuple):
    """The words of some texts: text i has `which[indptr[i]:indptr[i + 1]]`, numbers into the distinct `words`."""

    which: Ints
    indptr: Ints
    words: list[str]

    @classmethod
    def of(cls, texts: Strings) -> Words:
        """Split texts into words."""
        texts, fold = RULES.normalised(texts), RULES.fold_table()
        keys, begins, stops, indptr = word_sequence(texts.buffer, texts.starts, texts.ends, fold, RULES.min_chars)
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        distinct = folded_terms(texts.buffer, begins[first], stops[first], fold, RULES.min_chars)
        return cls(which, indptr, list(Strings.from_offsets(*distinct)))


@dataclass(frozen=True)
class Matches:
    """Where terms of labels stand in texts: an entry for each label and window, the same window never twice."""

    texts: Ints  # which text
    labels: Ints
    starts: Ints  # the window's first word in the text
    sizes: Ints  # its number of words
    kinds: Ints  # NAME, ...
    sharing: Ints  # how many labels have this term
    covered: NDArray[np.bool_]  # whether a longer term covers the window
    lengths: Ints  # words of each text


class Terms:
    """The terms of a label set, ready to be looked for.

    >>> labels = LabelSet.of(["a", "b"], names=["Trade policy", "Fish"], alternatives=[[], ["Seafood"]])
    >>> found = Terms(labels, [None], compounds=True).matches(Strings.of(["policy of trade, trade policy, seafood"]))
    >>> found.labels.tolist(), found.starts.tolist()
    ([0, 1], [3, 5])
    """

    def __init__(self, labels: LabelSet, languages: Sequence[str | None], compounds: bool) -> None:
        self.languages = languages
        texts, owners, kinds = _terms(labels)
        words = Words.of(Strings.of(texts))
        sizes = np.diff(words.indptr)
        keys, sizes_of, entries = [], [], []
        self._parts: list[dict[str, list[int]]] = []
        for language in languages:
            stemmed = stems(words.words, language)
            keys.append(_window_keys(_digests(stemmed)[words.which], words.indptr[:-1], words.indptr[1:]))
            sizes_of.append(sizes)
            entries.append(np.arange(len(texts)))
            self._parts.append(self._single(words, stemmed, owners, kinds) if compounds else {})
        key, size, entry = np.concatenate(keys), np.concatenate(sizes_of), np.concatenate(entries)
        label, kind = owners[entry], kinds[entry]
        order = np.lexsort((kind, label, key, size))
        key, size, label, kind = key[order], size[order], label[order], kind[order]
        new = np.ones(len(key), bool)
        new[1:] = (key[1:] != key[:-1]) | (size[1:] != size[:-1]) | (label[1:] != label[:-1])
        keep = new & (size > 0) & (size <= MOST_WORDS)
        self._keys, self._sizes, self._labels, self._kinds = key[keep], size[keep], label[keep], kind[keep]

    @staticmethod
    def _single(words: Words, stemmed: list[str], owners: Ints, kinds: Ints) -> dict[str, list[int]]:
        """The labels of each stem that is a name of one word and long enough to be a part of a compound."""
        single: dict[str, list[int]] = defaultdict(list)
        alone = np.flatnonzero((np.diff(words.indptr) == 1) & (kinds != DESCRIPTION))
        for term in alone.tolist():
            stem = stemmed[words.which[words.indptr[term]]]
            if len(stem) >= LEAST_PART and owners[term] not in single[stem]:
                single[stem].append(int(owners[term]))
        return dict(single)

    def matches(self, texts: Strings) -> Matches:
        """All windows of the texts that match a term, and words of which a term is the beginning or the end."""
        words = Words.of(texts)
        lengths = np.diff(words.indptr)
        text_of = np.repeat(np.arange(len(texts)), lengths)
        ends = words.indptr[1:][text_of]
        parts: list[tuple[Ints, ...]] = []
        for language, single in zip(self.languages, self._parts, strict=True):
            stemmed = stems(words.words, language)
            digest = _digests(stemmed)[words.which]
            parts.extend(self._windows(digest, ends, size) for size in range(1, MOST_WORDS + 1))
            if single:
                parts.append(_compounds(stemmed, single, words.which))
        places, labels, kinds, sizes, sharing = (np.concatenate(each) for each in zip(*parts, strict=True))
        # Two languages often agree on a stem; and a compound that is itself a label's name is no compound.
        order = np.lexsort((kinds, sizes, labels, places))
        places, labels, kinds, sizes, sharing = (each[order] for each in (places, labels, kinds, sizes, sharing))
        new = np.ones(len(places), bool)
        new[1:] = (places[1:] != places[:-1]) | (labels[1:] != labels[:-1]) | (sizes[1:] != sizes[:-1])
        places, labels, kinds, sizes, sharing = (each[new] for each in (places, labels, kinds, sizes, sharing))
        starts = places - words.indptr[text_of[places]]
        covered = _covered(places, sizes, len(words.which))
        return Matches(text_of[places], labels, starts, sizes, kinds, sharing, covered, lengths)

    def _windows(self, digest: NDArray[np.uint64], ends: Ints, size: int) -> tuple[Ints, ...]:
        """(places, labels, kinds, sizes, sharing) of the windows of so many words that match a term."""
        first, last = np.searchsorted(self._sizes, [size, size + 1])
        starts = np.flatnonzero(np.arange(len(digest)) + size <= ends)
        windows = _window_keys(digest, starts, starts + size)
        keys = self._keys[first:last]
        low, high = np.searchsorted(keys, windows, "left"), np.searchsorted(keys, windows, "right")
        found = np.flatnonzero(high > low)
        counts = (high - low)[found]
        entries = first + _ranges(low[found], counts)
        places = np.repeat(starts[found], counts)
        return (
            places,
            self._labels[entries],
            self._kinds[entries],
            np.full(len(places), size),
            np.repeat(counts, counts),
        )


def _terms(labels: LabelSet) -> tuple[list[str], Ints, Ints]:
    """(texts, labels, kinds): all names of all labels, without qualifiers in brackets behind them."""
    texts: list[str] = []
    owners: list[int] = []
    kinds: list[int] = []
    for label in range(len(labels)):
        given = [(NAME, labels.name(label)), *((ALTERNATIVE, name) for name in labels.alternatives(label))]
        for kind, name in [*given, (DESCRIPTION, labels.description(label))]:
            if name:
                texts.append(QUALIFIER.sub("", name) or name)
                owners.append(label)
                kinds.append(kind)
    return texts, np.array(owners, np.int64), np.array(kinds, np.int64)


def _digests(words: Sequence[str]) -> NDArray[np.uint64]:
    return digests(Strings.of(words))


def _window_keys(digest: NDArray[np.uint64], starts: Ints, ends: Ints) -> NDArray[np.uint64]:
    """The sum of the words' digests in each window; sums overflow, and so do their differences, to the same effect."""
    total = np.zeros(len(digest) + 1, np.uint64)
    np.cumsum(digest, out=total[1:])
    keys: NDArray[np.uint64] = total[ends] - total[starts]
    return keys


def _ranges(starts: Any, counts: Any) -> Ints:
    """starts[0], starts[0] + 1, ... (counts[0] numbers), starts[1], ...

    >>> _ranges(np.array([5, 9]), np.array([2, 3])).tolist()
    [5, 6, 9, 10, 11]
    """
    before = np.cumsum(counts) - counts
    ranges: Ints = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
    return ranges


def _compounds(stemmed: Sequence[str], single: dict[str, list[int]], which: Ints) -> tuple[Ints, ...]:
    """As `_windows`: words that begin or end with the name of a label, the longest such name of each."""
    labels: list[int] = []
    kinds: list[int] = []
    counts = np.zeros(len(stemmed), np.int64)
    for word, stem in enumerate(stemmed):
        if len(stem) > LONGEST_COMPOUND:
            continue
        before = len(labels)
        end = next((stem[at:] for at in range(LEAST_REST, len(stem) - LEAST_PART + 1) if stem[at:] in single), "")
        start = next((stem[:at] for at in range(len(stem) - LEAST_REST, LEAST_PART - 1, -1) if stem[:at] in single), "")
        for part, kind in ((end, COMPOUND_END), (start, COMPOUND_START)):
            if part:
                labels.extend(single[part])
                kinds.extend([kind] * len(single[part]))
        counts[word] = len(labels) - before
    first = np.cumsum(counts) - counts
    places = np.flatnonzero(counts[which])
    number = counts[which[places]]
    entries = _ranges(first[which[places]], number)
    places = np.repeat(places, number)
    found = np.array(labels, np.int64)[entries], np.array(kinds, np.int64)[entries]
    return places, *found, np.ones(len(places), np.int64), np.ones(len(places), np.int64)


def _covered(places: Ints, sizes: Ints, words: int) -> NDArray[np.bool_]:
    """Whether each window of one word lies within a longer one; longer ones in still longer ones count as well."""
    furthest = np.zeros(words + 1, np.int64)  # how far any window reaches that begins here or before
    np.maximum.at(furthest, places, places + sizes)
    longest_here = np.zeros(words + 1, np.int64)
    np.maximum.at(longest_here, places, sizes)
    reach = np.maximum.accumulate(furthest)
    before = np.zeros(words + 1, np.int64)
    before[1:] = reach[:-1]
    covered: NDArray[np.bool_] = (before[places] >= places + sizes) | (longest_here[places] > sizes)
    return covered
