"""Words with their n-grams as rows of one table: words by name, n-grams of words and of letters by hashing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.strings import Strings
from xmtc.progress import progress
from xmtc.text.tfidf import BLOCK_BYTES, TfIdf, TfIdfSettings, blocks_of
from xmtc.text.token_store import TokenStore, offsets_of

Rows = NDArray[np.int32]
TEXT = 0  # the row that every text has


class Inputs(NamedTuple):
    """Text i has the rows rows[offsets[i] : offsets[i + 1]], each with its share in the text's vector.

    Without any shares all rows of a text count the same.
    """

    rows: Rows
    offsets: NDArray[np.int64]
    shares: NDArray[np.float32] = np.zeros(0, np.float32)


class WordNgrams:
    """Which rows a text has: row 0, which every text has; a row for each known word; rows for n-grams.

    N-grams of 2 to `words_together` words, and those of `letters` (shortest and longest; none if the longest is 0) of
    each word, fall into `buckets`. Only buckets that the training texts fill have a row: the others know nothing. A
    word must stand in `min_df` training texts; n-grams are made of unknown words too.

    >>> grams = WordNgrams(words_together=2)
    >>> rows = grams.fit_transform(Strings.of(["red apple", "red sky"]))
    >>> [document.tolist() for document in rows], len(grams)
    ([[0, 1, 3, 5], [0, 1, 2, 4]], 6)
    >>> grams.transform(Strings.of(["a red apple"]))[0].tolist()
    [0, 1, 3, 5]
    """

    def __init__(
        self, words_together: int = 1, letters: tuple[int, int] = (0, 0), buckets: int = 2_000_000, min_df: int = 1
    ) -> None:
        self.words_together, self.letters = words_together, letters
        self.buckets = buckets if words_together > 1 or letters[1] else 1
        self.vocabulary = TfIdf(TfIdfSettings(min_chars=1, min_df=min_df, idf="none"))
        self._set_filled(np.zeros(0, np.int32))

    def __len__(self) -> int:
        return 1 + len(self.vocabulary) + len(self._filled)

    @property
    def words(self) -> Strings:
        """The known words; word i has row i + 1."""
        return self.vocabulary.terms

    def fit_transform(self, texts: Strings) -> TokenStore:
        """Learn the words and the filled buckets; gives the rows of the same texts."""
        self.vocabulary.fit(texts)
        ids, offsets = self._ids(texts)
        first = 1 + len(self.vocabulary)
        self._set_filled(np.unique(ids[ids >= first]) - np.int32(first))
        return self._known(ids, offsets)

    def transform(self, texts: Strings) -> TokenStore:
        """The rows of further texts; what has no row is left out, and each text has at least row 0."""
        return self._known(*self._ids(texts))

    def named(self, text: str) -> list[tuple[int, str]]:
        """Each row of one text, as often as it has it, and the words or letters that it stands for."""
        from xmtc.kernels.utf8_words import folded_terms

        normal = self.vocabulary.settings.rules.normalised(Strings.of([text]))
        ids, begins, stops, _ = self._features(normal)
        fold = self.vocabulary.settings.rules.fold_table()
        spans = normal.starts[0] + begins.astype(np.int64), normal.starts[0] + stops.astype(np.int64)
        names = Strings.from_offsets(*folded_terms(normal.buffer, *spans, fold, 1))
        rows = self._rows(ids)
        return [(row, name) for row, name in zip(rows.tolist(), names, strict=True) if row >= 0]

    def _ids(self, texts: Strings) -> tuple[Rows, NDArray[np.int64]]:
        """All features of texts, n-grams by their bucket."""
        parts, sizes = [], []
        block = BLOCK_BYTES // (2 * (self.words_together + self.letters[1] - self.letters[0] + 1))
        with progress("finding words", len(texts)) as bar:
            for rows in blocks_of(texts, block):
                ids, _, _, offsets = self._features(self.vocabulary.settings.rules.normalised(texts[rows]))
                parts.append(ids)
                sizes.append(np.diff(offsets))
                bar.advance(rows.stop - rows.start)
        return np.concatenate(parts), offsets_of(np.concatenate(sizes))

    def _features(self, normal: Strings) -> tuple[Rows, Rows, Rows, NDArray[np.int64]]:
        from xmtc.kernels.hashed_ngrams import FeatureKinds, feature_ids

        words = self.vocabulary
        kinds = FeatureKinds(*words.table, len(words), self.words_together, *self.letters, self.buckets)
        found: tuple[Rows, Rows, Rows, NDArray[np.int64]] = feature_ids(
            normal.buffer, normal.starts, normal.ends, words.settings.rules.fold_table(), kinds
        )
        return found

    def _set_filled(self, filled: Rows) -> None:
        self._filled = filled
        self._of_bucket = np.full(self.buckets, -1, np.int32)
        self._of_bucket[filled] = np.arange(len(filled), dtype=np.int32)

    def _rows(self, ids: Rows) -> Rows:
        """Rows of features, -1 for those without."""
        first = 1 + len(self.vocabulary)
        rows = ids.copy()
        grams = ids >= first
        within = self._of_bucket[ids[grams] - first]
        rows[grams] = np.where(within >= 0, within + np.int32(first), np.int32(-1))
        return rows

    def _known(self, ids: Rows, offsets: NDArray[np.int64]) -> TokenStore:
        rows = self._rows(ids)
        known = rows >= 0
        return TokenStore(rows[known], offsets_of(known)[offsets])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What was learned, for storage."""
        return {**self.vocabulary.to_arrays(), "filled": self._filled}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `to_arrays`; a KeyError or ValueError for arrays that no `to_arrays` made."""
        self.vocabulary = TfIdf.from_arrays(self.vocabulary.settings, arrays)
        filled = arrays["filled"]
        if filled.dtype != np.int32 or filled.ndim != 1:
            raise ValueError(f"filled buckets of {filled.dtype} {filled.shape}")
        if len(filled) and (filled[0] < 0 or filled[-1] >= self.buckets or np.any(filled[1:] <= filled[:-1])):
            raise ValueError(f"filled buckets do not rise within 0 to {self.buckets - 1}")
        self._set_filled(filled)
