"""Documents as short dense vectors: tf-idf or features, projected to the first singular vectors of the training set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.mean_embeddings import roomy, unit
from xmtc.text.ppmi_vectors import truncated_svd
from xmtc.text.tfidf import TfIdfSettings

DOCUMENT_BLOCK = 8192
Floats = NDArray[np.float32]


class ProjectedVectors:
    """Unit vectors of `dimensions` numbers (latent semantic analysis); fitted.

    Features that are no more than that stay as they are: the projection would only turn them.

    >>> settings, texts = TfIdfSettings(), Corpus.of(["red apple", "green apple", "blue sky"])
    >>> vectors, training = ProjectedVectors.fit(settings, texts, dimensions=2, seed=0)
    >>> np.abs(training @ training.T).round(1).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(self, source: DocumentVectors, table: Floats | None) -> None:
        self.source, self.table = source, table  # a vector for each word or feature; None: features as they are

    @classmethod
    def fit(
        cls, settings: TfIdfSettings, corpus: Corpus, dimensions: int, seed: int
    ) -> tuple[ProjectedVectors, Floats]:
        """(what makes vectors, those of the training documents)."""
        source = DocumentVectors(settings)
        matrix = source.fit_transform(corpus)
        if not matrix.nnz or not matrix.data.any():
            raise XmtcError(f"{corpus.name}: every document's vector is 0, so nothing can be compared")
        table = None
        if matrix.shape[1] > dimensions:
            with threadpool_limits(1, user_api="blas"):  # sums of one thread do not depend on their number
                left, singular = truncated_svd(matrix, min(dimensions, *matrix.shape), seed)
                table = np.asarray((matrix.T @ left) / singular, np.float32)
        made = cls(source, table)
        return made, made._project(matrix)

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return self.source.width if self.table is None else int(self.table.shape[1])

    def transform(self, corpus: Corpus) -> Floats:
        """The vectors of documents, (documents, width)."""
        return self._project(self.source.transform(corpus))

    def _project(self, matrix: Csr) -> Floats:
        vectors = roomy((matrix.shape[0], self.width))
        for start in range(0, matrix.shape[0], DOCUMENT_BLOCK):
            block = take_rows(matrix, slice(start, start + DOCUMENT_BLOCK))
            vectors[start : start + DOCUMENT_BLOCK] = unit(
                block.toarray() if self.table is None else block @ self.table
            )
        return vectors

    def shares(self, text: str) -> tuple[list[str], Floats]:
        """(words of a text, the part of its vector that comes from each); the parts add up to it."""
        if self.source.tfidf is None or self.table is None:
            raise XmtcError("this model was trained on features, so no words explain its answers")
        row = self.source.tfidf.transform(Strings.of([text]))
        terms = self.source.tfidf.terms
        length = np.linalg.norm((row @ self.table)[0])
        return [terms[at] for at in row.indices.tolist()], self.table[row.indices] * row.data[:, None] / (length or 1)

    def save(self, folder: FolderWriter) -> None:
        """Write the fitted state."""
        self.source.save(folder)
        table = np.zeros((0, 0), np.float32) if self.table is None else self.table
        folder.arrays("projection", {"table": table}, ["table"])

    @classmethod
    def load(cls, folder: FolderReader, settings: TfIdfSettings) -> ProjectedVectors:
        """The inverse of `save`; BadModelFolder if the parts do not fit together."""
        source = DocumentVectors.load(folder, settings)
        with folder.building("projection"):
            table = folder.arrays("projection")["table"]
            if table.shape == (0, 0):
                return cls(source, None)
            if table.dtype != np.float32 or table.ndim != 2 or len(table) != source.width:
                raise ValueError(f"a projection of {table.dtype} {table.shape} for {source.width} features")

        def check() -> None:
            with folder.building("projection"):
                if not np.isfinite(table).all():
                    raise ValueError("it has numbers that are not finite")

        folder.check("projection.safetensors", check)
        return cls(source, table)
