"""Near-duplicates: texts that share most of their runs of three words.

The similarity of two texts is the Jaccard similarity of their sets of shingles: runs of three words, without regard to
case, punctuation and white space. MinHash signatures (Broder, 1997) in bands find the pairs that may be similar without
comparing every text with every other; what they find is then compared exactly. So nothing is taken for a near-duplicate
that is none; of the pairs with a similarity of 0.8, one in some 4,000 is missed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.strings import Strings
from xmtc.progress import track

SIMILAR = 0.8
SHINGLE = 3
BANDS, ROWS = 16, 4  # a pair of similarity s shares one of the bands with a chance of 1 - (1 - s^4)^16
TOGETHER = 256  # texts whose arrays fit into the processor's cache
# Texts in one bucket that a further one is compared with: a template that fills thousands of texts, each different
# enough from the others, would else cost the square of their number.
MOST_COMPARED = 200
# How far below the threshold an estimate from 64 hashes may lie: four standard deviations.
ESTIMATE_SLACK = 0.2

# Chinese and Japanese are written without spaces: each character is a word.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")

_RANDOM = np.random.default_rng(20260)
_FACTORS = _RANDOM.integers(1, 2**63, BANDS * ROWS, np.uint64) * np.uint64(2) + np.uint64(1)
_OFFSETS = _RANDOM.integers(0, 2**63, BANDS * ROWS, np.uint64)
Hashes = NDArray[np.uint64]


class _WordCodes(dict[str, int]):
    """A random-looking number for each word, the same in every process."""

    def __missing__(self, word: str) -> int:
        code = self[word] = _digest(word.encode())
        return code


def near_duplicates(texts: Strings, threshold: float = SIMILAR) -> NDArray[np.int64]:
    """For each text the row of the first kept text that it nearly repeats, or its own row: then it is kept itself.

    The first of similar texts is kept, and a text is compared with kept ones only: each is similar to what stands for
    it. Copies of a text are always found; texts without anything but white space are like no other.

    >>> near_duplicates(Strings.of(["Red fruit, on a tree!", "blue sky", "red fruit on a tree"])).tolist()
    [0, 1, 0]
    """
    signatures, has_words = _signatures(texts)
    keys = _band_keys(signatures)
    kept = np.arange(len(texts))
    index = _Index(texts, signatures, threshold)
    # Most texts share no bucket with any other, and need not be looked at.
    for row in track(np.flatnonzero(_shares_a_bucket(keys) & has_words).tolist(), "comparing similar texts"):
        found = index.first_similar(keys[row], signatures[row], texts, row)
        if found < 0:
            index.add(keys[row], row)
        else:
            kept[row] = found
    return kept


def near_copies(texts: Strings, others: Strings, threshold: float = SIMILAR) -> NDArray[np.int64]:
    """For each text the first row of `others` that it nearly repeats, -1 if there is none.

    >>> near_copies(Strings.of(["blue sky", "The red fruit"]), Strings.of(["the red fruit."])).tolist()
    [-1, 0]
    """
    signatures, has_words = _signatures(texts)
    other_signatures, other_has_words = _signatures(others)
    keys, other_keys = _band_keys(signatures), _band_keys(other_signatures)
    index = _Index(others, other_signatures, threshold)
    for row in np.flatnonzero(_shares_a_bucket(other_keys, keys) & other_has_words).tolist():
        index.add(other_keys[row], row)
    found = np.full(len(texts), -1)
    for row in track(np.flatnonzero(_shares_a_bucket(keys, other_keys) & has_words).tolist(), "comparing texts"):
        found[row] = index.first_similar(keys[row], signatures[row], texts, row)
    return found


class _Index:
    """Texts by the bands of their signatures."""

    def __init__(self, texts: Strings, signatures: NDArray[np.uint32], threshold: float) -> None:
        self._signatures = signatures
        self._threshold = threshold
        self._buckets: list[dict[int, list[int]]] = [{} for _ in range(BANDS)]
        # A kept text is often compared with many others in turn.
        self._shingles = lru_cache(maxsize=4096)(lambda row: shingles(texts[row]))

    def add(self, keys: Hashes, row: int) -> None:
        """Make a text findable."""
        for buckets, key in zip(self._buckets, keys.tolist(), strict=True):
            bucket = buckets.setdefault(key, [])
            if len(bucket) < MOST_COMPARED:
                bucket.append(row)

    def first_similar(self, keys: Hashes, signature: NDArray[np.uint32], texts: Strings, row: int) -> int:
        """The first text of the index that is similar enough to text `row`, -1 if there is none."""
        candidates: set[int] = set()
        for buckets, key in zip(self._buckets, keys.tolist(), strict=True):
            candidates.update(buckets.get(key, ()))
        if not candidates:
            return -1
        rows = np.sort(np.fromiter(candidates, np.int64, len(candidates)))
        estimates = (self._signatures[rows] == signature).mean(axis=1)
        own = shingles(texts[row])
        for other in rows[estimates >= self._threshold - ESTIMATE_SLACK].tolist():
            if similarity(own, self._shingles(other)) >= self._threshold:
                return int(other)
        return -1


def shingles(text: str) -> Hashes:
    """The set of a text's shingles, as sorted hashes; a text of fewer words than three is one shingle.

    >>> len(shingles("red fruit on a tree")), len(shingles("red")), len(shingles(" "))
    (3, 1, 0)
    """
    return np.unique(_shingles([text])[0])


def similarity(one: Hashes, other: Hashes) -> float:
    """The Jaccard similarity of two sets of shingles; 0 if both are empty.

    >>> similarity(shingles("red fruit on a tree"), shingles("red fruit on a big tree"))
    0.4
    """
    common = len(np.intersect1d(one, other, assume_unique=True))
    return common / max(1, len(one) + len(other) - common)


def _signatures(texts: Strings) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """The smallest value of each hash function over a text's shingles; and which texts have any shingle."""
    signatures = np.zeros((len(texts), BANDS * ROWS), np.uint32)
    has_words = np.zeros(len(texts), bool)
    for first in track(range(0, len(texts), TOGETHER), "looking for near-duplicates"):
        hashes, counts = _shingles(list(texts[first : first + TOGETHER]))
        some = np.flatnonzero(counts)
        has_words[first + some] = True
        if not len(some):
            continue
        starts = np.concatenate([[0], np.cumsum(counts[some])[:-1]])
        for at, (factor, offset) in enumerate(zip(_FACTORS, _OFFSETS, strict=True)):
            hashed = (hashes * factor + offset) >> np.uint64(32)
            signatures[first + some, at] = np.minimum.reduceat(hashed, starts)
    return signatures, has_words


def _shingles(texts: Sequence[str]) -> tuple[Hashes, NDArray[np.int64]]:
    """The hashes of all shingles of these texts, one text after the other, and how many each has."""
    codes = [list(_codes(text)) for text in texts]
    sizes = np.fromiter(map(len, codes), np.int64, len(codes))
    flat = np.fromiter((code for row in codes for code in row), np.uint64, int(sizes.sum()))
    # Short texts are padded, so that each has a run of three.
    short = (sizes > 0) & (sizes < SHINGLE)
    if short.any():
        ends = np.cumsum(sizes)[short]
        flat = np.insert(flat, np.repeat(ends, SHINGLE - sizes[short]), np.uint64(0))
        sizes = np.where(short, SHINGLE, sizes)
    counts = np.maximum(sizes - SHINGLE + 1, 0)
    ends = np.cumsum(sizes)
    begins = np.repeat(ends - sizes - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    hashed = np.zeros(len(begins), np.uint64)
    for place in range(SHINGLE):
        hashed = _mixed(hashed + flat[begins + place])
    return hashed, counts


_WORD_CODES = _WordCodes()
MOST_WORDS_KEPT = 1_000_000


def _codes(text: str) -> Iterator[int]:
    """A number for each word; one for the whole of a text that has only punctuation."""
    if len(_WORD_CODES) > MOST_WORDS_KEPT:
        _WORD_CODES.clear()
    words = WORD.findall(text.lower())
    if words:
        return map(_WORD_CODES.__getitem__, words)
    stripped = text.strip()
    return iter([_digest(stripped.encode())] if stripped else [])


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _mixed(values: Hashes) -> Hashes:
    """Each bit depends on all bits of the value (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _band_keys(signatures: NDArray[np.uint32]) -> Hashes:
    """One number for each band of each signature."""
    bands = signatures.reshape(len(signatures), BANDS, ROWS).astype(np.uint64)
    keys = np.zeros((len(signatures), BANDS), np.uint64)
    for row in range(ROWS):
        keys = _mixed(keys + bands[:, :, row])
    return keys


def _shares_a_bucket(keys: Hashes, others: Hashes | None = None) -> NDArray[np.bool_]:
    """Which texts share a band with another text, or with one of the others."""
    shared = np.zeros(len(keys), bool)
    for band in range(BANDS):
        column = keys[:, band]
        if others is not None:
            shared |= np.isin(column, others[:, band])
        else:
            _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
            shared |= counts[inverse] > 1
    return shared
