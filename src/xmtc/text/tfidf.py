"""Tf-idf over n-grams of words or letters: fitted on training texts, then a fixed object inside the model.

Further texts bring further terms (`TfIdf.extended`): these go behind the old ones, and no number of an old term
changes, so that vectors and weights which were made before still fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator, model_validator

from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr
from xmtc.corpus.strings import Strings
from xmtc.errors import NotFitted, XmtcError
from xmtc.progress import progress
from xmtc.text.token_store import offsets_of
from xmtc.text.word_rules import WordRules

BLOCK_BYTES = 16 << 20
LETTERS_A_WORD = 8  # and its two marks
LONGEST_TEXT = 2**31 - 1  # places of words are kept as 32-bit numbers


Length = Annotated[int, Field(ge=1, le=100)]


class TfIdfSettings(BaseModel):
    """Every choice of a tf-idf; the defaults are scikit-learn's, with a logarithmic tf.

    A term's weight is tf x idf. The n-grams of `letters` count the two ends of a word as letters: they know a word by
    its parts, as other endings, compounds and misspellings have them, and are some ten times as many.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lowercase: bool = True
    """Treat upper and lower case alike."""
    strip_accents: bool = False
    """Treat letters with and without accents alike (é as e)."""
    min_chars: int = Field(2, ge=1, le=1000)
    """Leave out words with fewer characters."""
    ngrams: tuple[Length, Length] = (1, 1)
    """Shortest and longest run of words that is a term: [1, 2] has single words and pairs."""
    letters: tuple[Length, Length] | None = None
    """Shortest and longest n-gram of a word's letters, as terms in place of words: [3, 5]; null: words."""
    min_df: int = Field(1, ge=1)
    """Leave out terms that fewer training documents have."""
    max_df: float = Field(1.0, gt=0, le=1)
    """Leave out terms that more than this share of the training documents have."""
    max_terms: PositiveInt | None = None
    """Keep only so many terms, those in most documents; null: all."""
    log_tf: bool = True
    """Count a term 1 + ln(count) times instead of count times."""
    idf: Literal["smooth", "plain", "none"] = "smooth"
    """Weight of rare terms: smooth, ln((1 + N) / (1 + df)) + 1; plain, ln((1 + N) / df); none, 1."""
    unit_length: bool = True
    """Scale each document to length 1, so that long ones do not count more."""

    @field_validator("ngrams")
    @classmethod
    def _rising(cls, ngrams: tuple[int, int]) -> tuple[int, int]:
        if ngrams[0] > ngrams[1]:
            raise ValueError("ngrams are (shortest, longest), so the first must not be above the second")
        return ngrams

    @model_validator(mode="after")
    def _letters_or_words(self) -> Self:
        if self.letters is not None and not 2 <= self.letters[0] <= self.letters[1]:
            raise ValueError("letters are (shortest, longest), the first at least 2 and not above the second")
        if self.letters is not None and self.ngrams != (1, 1):
            raise ValueError("terms are n-grams of words (ngrams) or of letters, not of both")
        return self

    @property
    def rules(self) -> WordRules:
        """What a word is."""
        return WordRules(self.lowercase, self.strip_accents, self.min_chars)


class Counted(NamedTuple):
    """The distinct terms of each text: text i's are at indptr[i]:indptr[i + 1], each with its count and first place."""

    keys: NDArray[np.uint64]
    counts: NDArray[np.int32]
    begins: NDArray[np.int32]
    stops: NDArray[np.int32]
    indptr: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: list[Counted]) -> Counted:
        """The counts of consecutive blocks of texts as one."""
        if len(parts) == 1:
            return parts[0]
        joined = cls._make(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return joined._replace(indptr=offsets_of(np.concatenate([np.diff(part.indptr) for part in parts])))


class TfIdf:
    """Texts to a CSR matrix of tf-idf weights.

    Columns are ordered by falling document frequency, so that frequent terms lie together in memory.

    >>> tfidf = TfIdf(TfIdfSettings(unit_length=False, idf="none", min_chars=1))
    >>> matrix = tfidf.fit_transform(Strings.of(["a b b", "b c"]))
    >>> list(tfidf.terms)[0], matrix.shape
    ('b', (2, 3))
    """

    def __init__(self, settings: TfIdfSettings | None = None) -> None:
        self.settings = settings or TfIdfSettings()
        self.terms = Strings.of([])
        self.idf = np.zeros(0)
        self._keys = np.zeros(0, np.uint64)
        self._too_frequent = np.zeros(0, np.uint64)  # keys above `max_df`: not to come back as new words
        self._table: tuple[NDArray[np.uint64], NDArray[np.int32]] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def table(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """Terms' keys to columns, as `xmtc.kernels.term_counts` looks them up."""
        if self._table is None:
            raise NotFitted("this tf-idf was not fitted")
        return self._table

    def fit(self, texts: Strings) -> TfIdf:
        """Learn vocabulary and idf."""
        self._fit(texts)
        return self

    def fit_transform(self, texts: Strings) -> Csr:
        """As `fit`, then `transform` of the same texts, without counting them twice."""
        return self._weighed(self._fit(texts))

    def transform(self, texts: Strings) -> Csr:
        """Weights of the known terms; a text without any is an empty row."""
        return self._weighed(self._counted(texts))

    def _fit(self, texts: Strings) -> Counted:
        from xmtc.kernels import term_counts as kernel

        settings = self.settings
        counted = self._counted(texts)
        distinct, frequency, first_place = kernel.document_frequencies(counted.keys)
        too_frequent = frequency > settings.max_df * len(texts)
        self._too_frequent = np.sort(distinct[too_frequent])
        kept = _by_frequency(distinct, frequency, (frequency >= settings.min_df) & ~too_frequent)[: settings.max_terms]
        self._keys = distinct[kept]
        self._table = kernel.make_table(self._keys)
        self.idf = self._idf_of(frequency[kept], len(texts))
        self.terms = self._term_strings(texts, counted, first_place[kept])
        return counted

    def _idf_of(self, frequency: NDArray[np.int64], documents: int) -> NDArray[np.float64]:
        df = frequency.astype(float)
        if self.settings.idf == "smooth":
            return np.log((1 + documents) / (1 + df)) + 1
        return np.log((1 + documents) / df) if self.settings.idf == "plain" else np.ones(len(df))

    def extended(self, texts: Strings, documents: int) -> tuple[TfIdf, Csr]:
        """(this tf-idf with the new terms of further texts, their vectors), after `documents` earlier texts.

        New terms are columns behind the old ones, by falling document frequency. They are those that `min_df` of the
        further texts have, as long as there is room (`max_terms`); a term that was left out for its frequency stays
        out. Their idf counts all texts, of which the earlier ones lack them. The idf of old terms stays as it was, for
        the sake of vectors that were made before; so fit anew when the further texts outnumber the first ones.

        >>> tfidf = TfIdf(TfIdfSettings(idf="none")).fit(Strings.of(["red apple"]))
        >>> wider, matrix = tfidf.extended(Strings.of(["red kiwi"]), documents=1)
        >>> len(tfidf), list(wider.terms)[2:], matrix.shape
        (2, ['kiwi'], (1, 3))
        """
        from xmtc.kernels import term_counts as kernel

        settings, (keys, columns) = self.settings, self.table
        counted = self._counted(texts)
        distinct, frequency, first_place = kernel.document_frequencies(counted.keys)
        new = ~np.isin(distinct, np.concatenate([self._keys, self._too_frequent]))
        kept = _by_frequency(distinct, frequency, new & (frequency >= settings.min_df))
        room = len(kept) if settings.max_terms is None else max(0, settings.max_terms - len(self))
        if room < len(kept):
            warnings.warn(
                f"{len(kept) - room:,} new words have no place in the vocabulary: it is full with "
                f"tfidf.max_terms={settings.max_terms}; train again on all documents to choose its words anew",
                stacklevel=2,
            )
        kept = kept[:room]
        made = TfIdf(settings)
        made._too_frequent = self._too_frequent
        made._keys = np.concatenate([self._keys, distinct[kept]])
        made._table = kernel.make_table(made._keys) if len(kept) else (keys, columns)
        made.idf = np.concatenate([self.idf, self._idf_of(frequency[kept], documents + len(texts))])
        made.terms = Strings.joined([self.terms, self._term_strings(texts, counted, first_place[kept])])
        return made, made._weighed(counted)

    def _counted(self, texts: Strings) -> Counted:
        from xmtc.kernels.term_counts import count_terms

        rules, letters, parts = self.settings.rules, self.settings.letters, []
        kind = (*(letters or self.settings.ngrams), letters is not None)
        with progress("counting words", len(texts)) as bar:
            for rows in blocks_of(texts, BLOCK_BYTES if letters is None else BLOCK_BYTES // 4):
                block = rules.normalised(texts[rows])
                counted = count_terms(
                    block.buffer, block.starts, block.ends, rules.fold_table(), rules.min_chars, *kind
                )
                parts.append(Counted(*counted))
                bar.advance(rows.stop - rows.start)
        return Counted.joined(parts)

    def _weighed(self, counted: Counted) -> Csr:
        from xmtc.kernels import term_counts as kernel

        terms, options = (
            (counted.keys, counted.counts, counted.indptr),
            (self.settings.log_tf, self.settings.unit_length),
        )
        indices, values, indptr = kernel.weigh(*terms, *self.table, self.idf, *options)
        matrix = make_csr(values, indices, indptr, (len(indptr) - 1, len(self)))
        matrix.has_sorted_indices = True
        return matrix

    def _term_strings(self, texts: Strings, counted: Counted, places: NDArray[np.int64]) -> Strings:
        """The terms as text, each read from the document where it was counted first."""
        from xmtc.kernels.utf8_words import folded_terms

        rules = self.settings.rules
        min_chars = rules.min_chars if self.settings.letters is None else 1
        homes = np.searchsorted(counted.indptr, places, "right") - 1
        order = np.argsort(homes, kind="stable")
        pieces = []
        for rows in blocks_of(texts):
            block = rules.normalised(texts[rows])
            here = order[slice(*np.searchsorted(homes[order], [rows.start, rows.stop]))]
            starts = block.starts[homes[here] - rows.start]
            spans = starts + counted.begins[places[here]], starts + counted.stops[places[here]]
            folded = folded_terms(block.buffer, *spans, rules.fold_table(), min_chars)
            pieces.append(Strings.from_offsets(*folded))
        return Strings.joined(pieces)[np.argsort(order)]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The fitted state, for storage; the settings are part of the model's configuration."""
        utf8, offsets = self.terms.compact()
        left_out = {"too_frequent": self._too_frequent} if len(self._too_frequent) else {}
        return {"keys": self._keys, "idf": self.idf, "terms.utf8": utf8, "terms.offsets": offsets, **left_out}

    @classmethod
    def from_arrays(cls, settings: TfIdfSettings, arrays: Mapping[str, NDArray[Any]]) -> TfIdf:
        """The inverse of `to_arrays`; a KeyError or ValueError for arrays that no `to_arrays` made."""
        from xmtc.kernels import term_counts as kernel

        made = cls(settings)
        made.idf, made._keys = arrays["idf"], arrays["keys"]
        made.terms = Strings.checked(arrays["terms.utf8"], arrays["terms.offsets"])
        made._too_frequent = arrays.get("too_frequent", made._too_frequent)
        if made._too_frequent.dtype != np.uint64 or made._too_frequent.ndim != 1:
            raise ValueError("the terms that were too frequent are not stored as 64-bit keys")
        for array, kind in ((made.idf, np.float64), (made._keys, np.uint64)):
            if array.dtype != kind or array.shape != (len(made.terms),):
                raise ValueError(f"tf-idf of {len(made.terms)} terms has an array of {array.dtype} {array.shape}")
        if not np.isfinite(made.idf).all():
            raise ValueError("an idf is not a finite number")
        made._table = kernel.make_table(made._keys)
        return made


def _by_frequency(
    keys: NDArray[np.uint64], frequency: NDArray[np.int64], wanted: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Positions of the wanted terms, by falling document frequency, ties by key: whatever the order of the texts."""
    kept = np.flatnonzero(wanted)
    return kept[np.lexsort((keys[kept], -frequency[kept]))]


def blocks_of(texts: Strings, most: int | None = None) -> Iterator[slice]:
    """Consecutive rows of about 16 MB of text each, or of `most` bytes: bounds the working memory of counting."""
    lengths, most = texts.lengths, most or BLOCK_BYTES
    if lengths.sum() <= most:  # quickly, for a single document; without texts one block of none
        yield slice(0, len(texts))
        return
    if lengths.max(initial=0) > LONGEST_TEXT:
        raise XmtcError(f"a text of {lengths.max():,} bytes; the longest possible has {LONGEST_TEXT:,}")
    size = np.cumsum(lengths)
    start = 0
    while start < len(texts):
        before = int(size[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(size, before + most, "right")))
        yield slice(start, stop)
        start = stop
