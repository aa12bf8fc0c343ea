"""A sketch of the documents of a training: 8 KB that say which share of other documents was among them.

A bottom-k sketch: each document is hashed, and the SIZE smallest of the distinct hashes are kept. Hashes are as good as
random numbers, so the documents whose hash is below the largest kept one are a random sample of any collection, and
which of these are in the sketch is known exactly. With fewer than SIZE documents nothing is left to chance.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.strings import digests

SIZE = 1024
HEX_DIGITS = 16  # of a 64-bit hash
LOUD_SHARE = 0.2  # of documents known from training: duplicates alone are seldom as many
FEWEST = 3  # documents of the sample that must be known, lest one duplicate of a small sample is taken for many


class Overlap(NamedTuple):
    """How many of the sampled documents were in training; the sample is all of them if training had few."""

    known: int
    sampled: int
    exact: bool

    @property
    def share(self) -> float:
        """Estimated share of the documents that were in training; 0 if no document could be compared."""
        return self.known / self.sampled if self.sampled else 0.0

    def __str__(self) -> str:
        return f"{'' if self.exact else 'about '}{100 * self.share:.0f} %"

    @property
    def is_loud(self) -> bool:
        """Whether so many were in training that figures on these documents say little."""
        return self.share >= LOUD_SHARE and (self.exact or self.known >= FEWEST)


@dataclass(frozen=True, eq=False)
class Sketch:
    """The smallest hashes of some documents, rising.

    >>> seen = Sketch.of(Corpus.of(["red apple", "blue sky"]))
    >>> seen.overlap(Corpus.of(["red apple", "grey sky", "old oak", "green leaf"])).share
    0.25
    """

    hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, corpus: Corpus) -> Sketch:
        """The sketch of the documents of a corpus."""
        return cls(np.unique(document_hashes(corpus))[:SIZE])

    def __or__(self, other: Sketch) -> Sketch:
        """The sketch of the documents of both."""
        return Sketch(np.union1d(self.hashes, other.hashes)[:SIZE])

    def overlap(self, corpus: Corpus) -> Overlap:
        """How many documents of a corpus are among those of the sketch, by their text or else their features.

        Documents with neither are left out: they say nothing about where they come from.
        """
        hashes = document_hashes(corpus)
        exact = len(self.hashes) < SIZE
        sample = hashes if exact else hashes[hashes <= self.hashes[-1]]
        return Overlap(int(np.isin(sample, self.hashes).sum()), len(sample), exact)

    def to_hex(self) -> str:
        """The hashes as one string, for a manifest."""
        return "".join(f"{value:016x}" for value in self.hashes.tolist())

    @classmethod
    def from_hex(cls, text: str) -> Sketch:
        """The inverse of `to_hex`; a ValueError for anything that it does not make."""
        if not isinstance(text, str) or len(text) % HEX_DIGITS or len(text) > SIZE * HEX_DIGITS:
            raise ValueError("a sketch is a string of 16 hexadecimal digits for each document")
        hashes = np.frombuffer(bytes.fromhex(text), ">u8").astype(np.uint64)
        if np.any(hashes[1:] <= hashes[:-1]):
            raise ValueError("the hashes of a sketch rise")
        return cls(hashes)


def document_hashes(corpus: Corpus) -> NDArray[np.uint64]:
    """A hash of each document that has a text, or else features; the same on every machine."""
    if corpus.texts is not None:
        return digests(corpus.texts[corpus.texts.lengths > 0])
    if corpus.features is None:
        return np.zeros(0, np.uint64)
    hashed, ends = bytearray(), corpus.features.indptr.tolist()
    columns, values = corpus.features.indices.astype("<i4").data, corpus.features.data.astype("<f4").data
    for start, end in pairwise(ends):
        if end > start:
            row = hashlib.blake2b(columns[start:end], digest_size=8)
            row.update(values[start:end])
            hashed += row.digest()
    return np.frombuffer(hashed, "<u8").astype(np.uint64)
