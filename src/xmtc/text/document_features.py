"""Documents as unit vectors: tf-idf of their texts, or the features that they come with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import unit_rows, with_columns
from xmtc.errors import XmtcError
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.tfidf import LETTERS_A_WORD, TfIdf, TfIdfSettings


class DocumentVectors:
    """Fitted on the training corpus: on its texts where it has them, else on its features, scaled to length 1.

    >>> vectors = DocumentVectors(TfIdfSettings())
    >>> vectors.fit_transform(Corpus.of(["red apple", "blue sky"])).shape
    (2, 4)
    """

    def __init__(self, settings: TfIdfSettings) -> None:
        self.settings = settings
        self.tfidf: TfIdf | None = None
        self.width = 0

    def fit_transform(self, corpus: Corpus) -> Csr:
        """Learn the vocabulary, if there are texts, and give the training vectors."""
        if corpus.texts is not None:
            self.tfidf = TfIdf(self.settings)
            matrix = self.tfidf.fit_transform(corpus.texts)
            if not len(self.tfidf):
                raise XmtcError(
                    f"{corpus.name}: no word is left to compare documents by; "
                    "lower tfidf.min_df or tfidf.min_chars, or raise tfidf.max_df"
                )
        else:
            assert corpus.features is not None
            self.tfidf = None
            matrix = unit_rows(corpus.features)
        self.width = matrix.shape[1]
        return matrix

    def transform(self, corpus: Corpus) -> Csr:
        """The vectors of further documents of the same kind."""
        kind = "texts" if self.tfidf is not None else "features"
        if getattr(corpus, kind) is None:
            raise XmtcError(f"this model was trained on {kind}, which {corpus.name} does not have")
        if self.tfidf is not None:
            assert corpus.texts is not None
            return self.tfidf.transform(corpus.texts)
        assert corpus.features is not None
        # A feature that training did not have is like an unknown word.
        return with_columns(unit_rows(corpus.features), self.width)

    def extended(self, corpus: Corpus, documents: int) -> tuple[DocumentVectors, Csr]:
        """(these with the new words or features of further documents, their vectors), after `documents` earlier ones.

        Columns of old words and features stay as they are; see `TfIdf.extended`.
        """
        made = DocumentVectors(self.settings)
        if self.tfidf is not None and corpus.texts is not None:
            made.tfidf, matrix = self.tfidf.extended(corpus.texts, documents)
            made.width = len(made.tfidf)
            return made, matrix
        made.tfidf, made.width = self.tfidf, self.width
        if corpus.features is not None:
            made.width = max(self.width, corpus.features.shape[1])
        return made, made.transform(corpus)

    def terms_of(self, corpus: Corpus) -> int:
        """About how many entries the matrix will have, estimated without reading the texts."""
        if corpus.texts is None:
            return int(corpus.features.nnz) if corpus.features is not None else 0
        words = corpus.texts.nbytes // 6  # a word and a space, in most languages and on average
        if self.settings.letters is not None:
            shortest, longest = self.settings.letters
            return words * sum(max(1, LETTERS_A_WORD - size + 1) for size in range(shortest, longest + 1)) // 2
        shortest, longest = self.settings.ngrams
        return words * (longest - shortest + 1)

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes for fitting: word keys and counts, and the matrix; all grow with its non-zeros."""
        return (16 if corpus.texts is None else 40) * self.terms_of(corpus)

    def save(self, folder: FolderWriter) -> None:
        """Write the fitted state."""
        folder.arrays("tfidf", self.to_arrays())

    @classmethod
    def load(cls, folder: FolderReader, settings: TfIdfSettings) -> DocumentVectors:
        """The inverse of `save`."""
        with folder.building("tfidf"):
            return cls.from_arrays(settings, folder.arrays("tfidf"))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The fitted state, for storage."""
        width = {"width": np.array([self.width], np.int64)}
        return width if self.tfidf is None else {**width, **self.tfidf.to_arrays()}

    @classmethod
    def from_arrays(cls, settings: TfIdfSettings, arrays: Mapping[str, NDArray[Any]]) -> DocumentVectors:
        """The inverse of `to_arrays`; a KeyError or ValueError for arrays that no `to_arrays` made."""
        made = cls(settings)
        (made.width,) = map(int, arrays["width"])
        if len(arrays) > 1:
            made.tfidf = TfIdf.from_arrays(settings, arrays)
        if made.width < 0 or (made.tfidf is not None and len(made.tfidf) != made.width):
            raise ValueError(f"there cannot be {made.width} features")
        return made
