"""The ways in which documents become vectors for the search of neighbours; torch is loaded for an encoder only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.errors import ConfigError
from xmtc.extras import LIBRARIES, require
from xmtc.nn.settings import EncoderSettings
from xmtc.search.neighbours import TextVectors, VectorKind
from xmtc.storage import FolderReader
from xmtc.text.document_features import DocumentVectors
from xmtc.text.embedding_table import WordSettings, words_of
from xmtc.text.mean_embeddings import MeanVectors, token_idf
from xmtc.text.tfidf import TfIdfSettings
from xmtc.text.token_store import TokenStore
from xmtc.text.word_tokenizer import WordTokenizer

Words = tuple[WordTokenizer, TokenStore, NDArray[np.float32]]  # vocabulary, documents as word ids, a vector each word


def fit_vectors(
    kind: VectorKind, corpus: Corpus, tfidf: TfIdfSettings, words: WordSettings, encoder: EncoderSettings, seed: int,
    known: Words | None = None, encoded: tuple[TextVectors | None, NDArray[np.float32] | None] = (None, None),
) -> tuple[TextVectors, Csr | NDArray[np.float32]]:  # fmt: skip
    """(what makes vectors of documents, those of the training documents).

    `known` saves making the words again, and `encoded` the same pair, of an encoder that has read the documents before.

    None of this looks at labels: else a training document would find neighbours that a new one does not find.
    """
    if kind == "tfidf":
        sparse = DocumentVectors(tfidf)
        return sparse, sparse.fit_transform(corpus)
    if corpus.texts is None:
        raise ConfigError(f"search.vectors={kind} needs texts, which {corpus.name} does not have; take tfidf")
    check_vectors(kind)
    if kind == "encoder":
        from xmtc.nn.encoders.embeddings import EncoderVectors

        reader, read = encoded
        if reader is not None and read is not None:
            return reader, read
        vectors = EncoderVectors.pretrained(encoder)
        return vectors, vectors.transform(corpus)
    tokenizer, tokens, table = known or words_of(words, corpus.texts, seed)
    idf = token_idf(tokens, len(tokenizer)) if kind == "tfidf_mean" else None
    means = MeanVectors(tokenizer, table, idf, words.max_tokens)
    return means, means.of_tokens(tokens)


def check_vectors(kind: VectorKind) -> None:
    """A MissingExtra if documents cannot become such vectors with what is installed; the core has tf-idf."""
    if kind != "tfidf":
        libraries = LIBRARIES["neural"] if kind == "encoder" else ("tokenizers",)
        require(f"search.vectors={kind}", "neural", *libraries, "faiss")


def load_vectors(
    folder: FolderReader, kind: VectorKind, tfidf: TfIdfSettings, words: WordSettings, encoder: EncoderSettings
) -> TextVectors:
    """What makes vectors, from a model folder."""
    if kind == "tfidf":
        return DocumentVectors.load(folder, tfidf)
    check_vectors(kind)
    if kind == "encoder":
        from xmtc.nn.encoders.embeddings import EncoderVectors

        return EncoderVectors.load(folder, encoder)
    return MeanVectors.load(folder, kind == "tfidf_mean", words.max_tokens)
