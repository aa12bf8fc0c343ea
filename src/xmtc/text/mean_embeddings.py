"""Documents as dense vectors: the mean of the vectors of their words, all alike or rare words more."""

from __future__ import annotations

import tempfile

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError
from xmtc.progress import progress
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.token_store import TokenStore, offsets_of
from xmtc.text.word_tokenizer import SPECIAL, WordTokenizer

DOCUMENT_BLOCK = 8192
LARGE = 1 << 30  # bytes; a larger matrix lies in a file that the system keeps in memory as far as there is room

Floats = NDArray[np.float32]


class MeanVectors:
    """Texts to unit vectors: the mean of their words' vectors, or with `idf` the mean weighed by tf-idf.

    Unknown words count for nothing; a text without any known word has the vector 0, which is like no other.

    >>> tokenizer = WordTokenizer.train(Strings.of(["cat", "dog"]))
    >>> vectors = MeanVectors(tokenizer, np.array([[0, 0], [9, 9], [3, 0], [0, 4]], np.float32))
    >>> vectors.transform(Corpus.of(["cat bird", "cat dog", "bird"])).round(1).tolist()
    [[1.0, 0.0], [0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """

    def __init__(
        self, tokenizer: WordTokenizer, table: Floats, idf: Floats | None = None, max_tokens: int | None = None
    ) -> None:
        self.tokenizer, self.table, self.idf, self.max_tokens = tokenizer, table, idf, max_tokens

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return int(self.table.shape[1])

    def transform(self, corpus: Corpus) -> Floats:
        """The documents' vectors, (documents, dimensions)."""
        if corpus.texts is None:
            raise XmtcError(f"this model was trained on texts, which {corpus.name} does not have")
        return self.of_tokens(self.tokenizer.encode(corpus.texts, self.max_tokens))

    def of_tokens(self, tokens: TokenStore) -> Floats:
        """The same of documents as word ids."""
        vectors = roomy((len(tokens), self.width))
        with progress("vectors of documents", len(tokens)) as bar:
            for start in range(0, len(tokens), DOCUMENT_BLOCK):
                block = np.arange(start, min(start + DOCUMENT_BLOCK, len(tokens)))
                sums = token_matrix(tokens.take(block), len(self.table), self.idf) @ self.table
                vectors[block] = unit(sums)
                bar.advance(len(block))
        return vectors

    def shares(self, text: str) -> tuple[list[str], Floats]:
        """(distinct known words of a text, the part of its vector that comes from each); the parts add up to it."""
        tokens = self.tokenizer.encode(Strings.of([text]), self.max_tokens)
        row = token_matrix(tokens, len(self.table), self.idf)
        parts = self.table[row.indices] * row.data[:, None]
        length = np.linalg.norm((row @ self.table)[0])
        words = self.tokenizer.words
        return [words[at] for at in row.indices.tolist()], parts / np.float32(length or 1)

    def save(self, folder: FolderWriter) -> None:
        """Write the tokenizer and the vectors of words."""
        folder.text("tokenizer.json", self.tokenizer.to_json())
        idf = {} if self.idf is None else {"idf": self.idf}
        folder.arrays("word_vectors", {"table": self.table, **idf}, ["table"])

    @classmethod
    def load(cls, folder: FolderReader, weighted: bool, max_tokens: int | None) -> MeanVectors:
        """The inverse of `save`; BadModelFolder if the parts do not fit together."""
        tokenizer = WordTokenizer.from_json(folder.text("tokenizer.json"))
        with folder.building("word_vectors"):
            arrays = folder.arrays("word_vectors")
            table, idf = arrays["table"], arrays["idf"] if weighted else None
            if table.dtype != np.float32 or table.ndim != 2 or len(table) != len(tokenizer):
                raise ValueError(f"vectors of {table.dtype} {table.shape} for {len(tokenizer)} words")
            if idf is not None and (idf.dtype != np.float32 or idf.shape != (len(tokenizer),)):
                raise ValueError(f"an idf of {idf.dtype} {idf.shape} for {len(tokenizer)} words")

        def check() -> None:
            with folder.building("word_vectors"):
                if not all(np.isfinite(array).all() for array in (table, idf) if array is not None):
                    raise ValueError("it has numbers that are not finite")

        folder.check("word_vectors.safetensors", check)
        return cls(tokenizer, table, idf, max_tokens)


def token_matrix(tokens: TokenStore, words: int, idf: Floats | None = None) -> Csr:
    """Documents x words: how often each known word occurs, or with `idf` (1 + ln of that) x idf.

    >>> token_matrix(TokenStore.of([[2, 3, 2, 1]]), words=4).toarray().tolist()
    [[0.0, 0.0, 2.0, 1.0]]
    """
    known = tokens.ids >= len(SPECIAL)
    ends = offsets_of(known)[tokens.offsets]
    ids = tokens.ids[known]
    matrix = make_csr(np.ones(len(ids), np.float32), ids, ends, (len(tokens), words))
    matrix.sum_duplicates()
    if idf is not None:
        matrix.data = (1 + np.log(matrix.data)) * idf[matrix.indices]
    return matrix


def token_idf(tokens: TokenStore, words: int) -> Floats:
    """ln((1 + documents) / (1 + documents with the word)) + 1, for each word.

    >>> token_idf(TokenStore.of([[2, 2], [2, 3]]), words=4).round(2).tolist()[2:]
    [1.0, 1.409999966621399]
    """
    frequency = np.bincount(token_matrix(tokens, words).indices, minlength=words)
    return (np.log((1 + len(tokens)) / (1 + frequency)) + 1).astype(np.float32)


def unit(rows: Floats) -> Floats:
    """The rows scaled to length 1; zero stays zero.

    >>> unit(np.array([[3, 4], [0, 0]], np.float32)).round(1).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))[:, None]
    scaled = np.zeros(rows.shape, np.float32)
    np.divide(rows, lengths, out=scaled, where=lengths > 0, casting="same_kind")
    return scaled


def roomy(shape: tuple[int, int]) -> Floats:
    """An array of zeros; a large one lies in a temporary file and need not fit into memory at once.

    >>> roomy((2, 3)).shape
    (2, 3)
    """
    if 4 * shape[0] * shape[1] < LARGE:
        return np.zeros(shape, np.float32)
    with tempfile.TemporaryFile() as file:  # gone from the folder at once, from the disk with the last use
        return np.memmap(file, np.float32, "w+", shape=shape)
