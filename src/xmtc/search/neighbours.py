"""The nearest training documents of a document: one interface for sparse and for dense vectors, and one rule.

The rule: neighbours are training documents only, and never a copy. A document whose text is the query's own
does not count, be it that document itself (a training document would find itself, and with itself its own labels) or a
duplicate. So training, validation and test documents all see their neighbours in the same way.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr
from xmtc.corpus.strings import Strings, digests
from xmtc.search.dense_index import DenseIndex
from xmtc.search.sparse_index import SparseIndex
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.mean_embeddings import MeanVectors
from xmtc.text.token_store import offsets_of

Floats = NDArray[np.float32]
VectorKind = Literal["mean", "tfidf_mean", "tfidf", "encoder"]
SPARE = 2  # neighbours searched beyond k: the document itself, and perhaps a copy
MORE = 4  # times as many are searched where copies took the places


class SearchSettings(BaseModel):
    """How the neighbours of a document are found."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    vectors: VectorKind = "mean"
    """What documents are compared by: tfidf, mean of word vectors, tfidf_mean (weighted by tf-idf), or encoder."""
    index: Literal["auto", "flat", "ivf"] = "auto"
    """For dense vectors: flat is exact, ivf searches some cells only, auto goes by the number of documents."""
    same_texts: bool = False
    """Whether duplicates of a text are its neighbours; a training document is never its own."""
    max_similarity: Annotated[float, Field(gt=0, le=1)] | None = None
    """Nearer documents count as copies and are left out, such as 0.95 for near duplicates; null: none."""


class TextVectors(Protocol):
    """How documents become unit vectors; fitted."""

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        ...

    def transform(self, corpus: Corpus) -> Csr | Floats:
        """The vectors of documents, (documents, width)."""
        ...

    def save(self, folder: FolderWriter) -> None:
        """Write what is needed to do this again."""
        ...


@dataclass(frozen=True)
class Neighbours:
    """For each document the ids of its neighbours, nearest first and -1 where there are fewer, and how near they are.

    >>> some = Neighbours(np.array([[2, 0], [1, -1]], np.int32), np.array([[0.9, 0.5], [0.4, 0]], np.float32))
    >>> some.matrix(some.similarities, documents=3).toarray().round(1).tolist()
    [[0.5, 0.0, 0.8999999761581421], [0.0, 0.4000000059604645, 0.0]]
    """

    ids: NDArray[np.int32]
    similarities: Floats

    def __len__(self) -> int:
        return len(self.ids)

    def top(self, k: int) -> Neighbours:
        """The k nearest."""
        return Neighbours(self.ids[:, :k], self.similarities[:, :k])

    def matrix(self, weights: Floats, documents: int) -> Csr:
        """Documents x training documents: the weight of each neighbour."""
        near = self.ids >= 0
        return make_csr(weights[near], self.ids[near], offsets_of(near.sum(1)), (len(self), documents))

    def votes(self, power: float) -> Floats:
        """What each neighbour's vote weighs: similarity ** power, relative to the nearest so that it cannot vanish."""
        nearest = self.similarities[:, :1].astype(np.float64)
        relative = np.divide(self.similarities, nearest, out=np.zeros(self.ids.shape), where=nearest > 0)
        weights: Floats = (relative**power).astype(np.float32)
        return weights

    def shares(self, power: float, targets: Csr) -> Csr:
        """Documents x labels: the share of all votes that each label gets."""
        votes = self.votes(power)
        whole = votes.sum(1, keepdims=True)
        shares = np.divide(votes, whole, out=np.zeros_like(votes), where=whole > 0)
        summed: Csr = (self.matrix(shares, targets.shape[0]) @ targets).tocsr()
        summed.sort_indices()
        return summed


class DocumentSearch:
    """Training documents as vectors in an index, and how further documents become such vectors."""

    def __init__(
        self,
        settings: SearchSettings,
        vectors: TextVectors,
        index: SparseIndex | DenseIndex,
        texts: NDArray[np.uint64] | None,
    ) -> None:
        self.settings, self.vectors, self.index = settings, vectors, index
        self.texts = texts  # digests of the training texts, if duplicates are to be left out

    @classmethod
    def of(
        cls, settings: SearchSettings, vectors: TextVectors, matrix: Csr | Floats, texts: Strings | None, seed: int = 0
    ) -> DocumentSearch:
        """Index training documents: `matrix` has their vectors, as `vectors` makes them."""
        index: SparseIndex | DenseIndex
        if isinstance(matrix, np.ndarray):
            index = DenseIndex.of(matrix, None if settings.index == "auto" else settings.index, seed)
        else:
            index = SparseIndex.of(matrix)
        return cls(settings, vectors, index, None if settings.same_texts or texts is None else digests(texts))

    def __len__(self) -> int:
        return len(self.index)

    def nearest(self, corpus: Corpus, k: int, matrix: Csr | Floats | None = None, limited: bool = True) -> Neighbours:
        """The k nearest training documents of further documents, whose vectors may be known already.

        `max_similarity` holds for them if the search is `limited`.
        """
        texts = digests(corpus.texts) if self.texts is not None and corpus.texts is not None else None
        queries = self.vectors.transform(corpus) if matrix is None else matrix
        return self._without_copies(queries, k, texts, None, self.settings.max_similarity if limited else None)

    def nearest_of_training(self, matrix: Csr | Floats, k: int) -> Neighbours:
        """The same of the training documents, all of them, from their vectors: each without itself."""
        return self._without_copies(matrix, k, self.texts, np.arange(len(self)), self.settings.max_similarity)

    def _without_copies(
        self,
        queries: Csr | Floats,
        k: int,
        texts: NDArray[np.uint64] | None,
        own: NDArray[np.int64] | None,
        limit: float | None,
    ) -> Neighbours:
        if texts is None and own is None and limit is None:
            return Neighbours(*self.index.nearest(queries, k))  # type: ignore[arg-type]
        count = queries.shape[0]
        ids, similarities = np.full((count, k), -1, np.int32), np.zeros((count, k), np.float32)
        rows, wanted = np.arange(count), k + SPARE
        while len(rows):
            if len(rows) == count:
                part = queries
            else:
                part = queries[rows] if isinstance(queries, np.ndarray) else take_rows(queries, rows)
            found, near = self.index.nearest(part, wanted)  # type: ignore[arg-type]
            good = found >= 0
            full = good.all(1)
            if own is not None:
                good &= found != own[rows, None]
            if texts is not None and self.texts is not None:
                good &= self.texts[found] != texts[rows, None]
            if limit is not None:
                good &= near <= limit
            order = np.argsort(~good, axis=1, kind="stable")[:, :k]  # what is good moves to the front
            kept = np.take_along_axis(good, order, 1)
            width = order.shape[1]
            ids[rows, :width] = np.where(kept, np.take_along_axis(found, order, 1), -1)
            similarities[rows, :width] = np.where(kept, np.take_along_axis(near, order, 1), 0)
            # Where copies took places and the list was full, further ones may follow.
            rows = rows[(good.sum(1) < k) & full & (wanted < len(self))]
            wanted *= MORE
        return Neighbours(ids, similarities)

    def extended(self, corpus: Corpus) -> DocumentSearch:
        """This search with further training documents, whose new words count where documents are compared by tf-idf.

        The words of word vectors stay as they are: documents that have none of them are reported.
        """
        texts, vectors = self.texts, self.vectors
        matrix: Csr | Floats
        if isinstance(vectors, DocumentVectors):
            vectors, matrix = vectors.extended(corpus, len(self))
        else:
            matrix = np.asarray(vectors.transform(corpus))
            if unknown := int(np.count_nonzero(~np.any(matrix, axis=1))):
                warnings.warn(
                    f"{corpus.name}: {unknown:,} of {len(corpus):,} further documents have no word with a vector and "
                    f"will never be found; search.vectors=tfidf learns new words, or train again on all documents",
                    stacklevel=2,
                )
        if texts is not None and corpus.texts is not None:
            texts = np.concatenate([texts, digests(corpus.texts)])
        index = self.index.extended(matrix)  # type: ignore[arg-type]
        return DocumentSearch(self.settings, vectors, index, texts)

    def shares(self, text: str, rows: NDArray[np.int32]) -> tuple[list[str], NDArray[np.float64]]:
        """(words of a text, what each adds to the similarity with each training document): (words, rows).

        An encoder reads a text as a whole; then there are no words.
        """
        if isinstance(self.vectors, MeanVectors):
            assert isinstance(self.index, DenseIndex)
            words, parts = self.vectors.shares(text)
            return words, parts.astype(np.float64) @ self.index.vectors[rows].T.astype(np.float64)
        if not isinstance(self.vectors, DocumentVectors) or self.vectors.tfidf is None:
            return [], np.zeros((0, len(rows)))
        assert isinstance(self.index, SparseIndex)
        query = self.vectors.tfidf.transform(Strings.of([text]))
        terms = self.vectors.tfidf.terms
        products = self.index.shared(query, rows).toarray().astype(np.float64)
        return [terms[at] for at in query.indices.tolist()], products

    def save(self, folder: FolderWriter) -> None:
        """Write all that is needed to search again."""
        self.vectors.save(folder)
        if isinstance(self.index, SparseIndex):
            folder.matrix("index", self.index.columns, weights=True)
        else:
            folder.arrays("index", self.index.to_arrays(), ["vectors"])
        if self.texts is not None:
            folder.arrays("texts", {"digests": self.texts})

    @classmethod
    def load(
        cls, folder: FolderReader, settings: SearchSettings, vectors: TextVectors, documents: int
    ) -> DocumentSearch:
        """The inverse of `save`, for this many training documents; BadModelFolder if the parts do not fit."""
        index: SparseIndex | DenseIndex
        if isinstance(vectors, DocumentVectors):
            index = SparseIndex(folder.matrix("index", (vectors.width, documents)))
        else:
            with folder.building("index"):
                dense = index = DenseIndex.from_arrays(folder.arrays("index"), (documents, vectors.width))

            def check() -> None:
                with folder.building("index"):
                    dense.check()

            folder.check("index.safetensors", check)
        texts = None
        if folder.has("texts.safetensors"):
            with folder.building("texts"):
                texts = folder.arrays("texts")["digests"]
                if texts.dtype != np.uint64 or texts.shape != (documents,):
                    raise ValueError(f"digests of {texts.dtype} {texts.shape} for {documents} documents")
        return cls(settings, vectors, index, texts)
