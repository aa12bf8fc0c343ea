"""How documents become vectors for the search of neighbours; torch is loaded for a transformer only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.errors import ConfigError
from xmtc.extras import LIBRARIES, require
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.search.neighbours import SearchSettings, TextVectors, VectorKind
from xmtc.storage import FolderReader
from xmtc.text.document_features import DocumentVectors
from xmtc.text.embedding_table import WordSettings, words_of
from xmtc.text.mean_embeddings import MeanVectors, token_idf
from xmtc.text.sentence_vectors import MULTILINGUAL, SentenceVectors, check_multilingual
from xmtc.text.tfidf import TfIdfSettings
from xmtc.text.token_store import TokenStore
from xmtc.text.word_tokenizer import WordTokenizer

if TYPE_CHECKING:
    from torch import nn

Floats = NDArray[np.float32]
Words = tuple[WordTokenizer, TokenStore, Floats]  # vocabulary, documents as word ids, a vector for each word


class VectorSettings(Protocol):
    """What the configuration of a method with neighbours says about vectors."""

    @property
    def search(self) -> SearchSettings:
        """Which vectors."""

    @property
    def tfidf(self) -> TfIdfSettings:
        """For tfidf."""

    @property
    def words(self) -> WordSettings:
        """For mean and tfidf_mean."""

    @property
    def encoder(self) -> EncoderSettings:
        """For encoder."""

    @property
    def seed(self) -> int:
        """For word vectors that are learned or random."""


def fit_vectors(
    config: VectorSettings,
    corpus: Corpus,
    known: Words | None = None,
    encoded: tuple[TextVectors | None, Floats | None] = (None, None),
    device: str = "cpu",
) -> tuple[TextVectors, Csr | Floats]:
    """(what turns documents into vectors, the vectors of the training documents).

    `known` are the words if they were made before, `encoded` this function's result if the encoder has read the corpus.
    An encoder computes on `device`, such as "auto".

    None of this looks at labels: else a training document would find neighbours that a new one does not find.
    """
    kind = config.search.vectors
    if kind == "tfidf":
        sparse = DocumentVectors(config.tfidf)
        return sparse, sparse.fit_transform(corpus)
    if corpus.texts is None:
        raise ConfigError(f"search.vectors={kind} needs texts, which {corpus.name} does not have; take tfidf")
    check_vectors(kind, config.encoder)
    if kind == "encoder":
        reader, read = encoded
        if reader is not None and read is not None:
            return reader, read
        vectors = encoder_vectors(config.encoder, device)
        return vectors, vectors.transform(corpus)
    tokenizer, tokens, table = known or words_of(config.words, corpus.texts, config.seed)
    idf = token_idf(tokens, len(tokenizer)) if kind == "tfidf_mean" else None
    means = MeanVectors(tokenizer, table, idf, config.words.max_tokens)
    return means, means.of_tokens(tokens)


def encoder_vectors(settings: EncoderSettings, device: str = "cpu") -> TextVectors:
    """What turns documents into the vectors of an encoder that is used as it is."""
    if settings.name == MULTILINGUAL:
        return SentenceVectors(settings.max_tokens)
    from xmtc.nn.encoders.embeddings import EncoderVectors

    return EncoderVectors.pretrained(settings, device)


def load_encoder(folder: FolderReader, settings: EncoderSettings) -> TextVectors:
    """The same from a model folder."""
    if settings.name == MULTILINGUAL:
        return SentenceVectors.load(folder, settings.max_tokens)
    from xmtc.nn.encoders.embeddings import EncoderVectors

    return EncoderVectors.load(folder, settings)


def networks_of(vectors: object) -> list[nn.Module]:
    """The network that makes the vectors, if it is one of torch."""
    if isinstance(vectors, SentenceVectors):
        return []
    from xmtc.nn.encoders.embeddings import EncoderVectors

    return [vectors.encoder] if isinstance(vectors, EncoderVectors) else []


def check_vectors(kind: VectorKind, encoder: EncoderSettings) -> None:
    """A MissingExtra if documents cannot become such vectors with what is installed; the core has tf-idf."""
    if kind == "encoder" and encoder.name == MULTILINGUAL:
        check_multilingual()
    elif kind != "tfidf":
        libraries = LIBRARIES["neural"] if kind == "encoder" else ("tokenizers",)
        require(f"search.vectors={kind}", "neural", *libraries, "faiss")


def load_vectors(folder: FolderReader, config: VectorSettings) -> TextVectors:
    """What turns documents into vectors, from a model folder."""
    kind = config.search.vectors
    if kind == "tfidf":
        return DocumentVectors.load(folder, config.tfidf)
    check_vectors(kind, config.encoder)
    if kind == "encoder":
        return load_encoder(folder, config.encoder)
    return MeanVectors.load(folder, kind == "tfidf_mean", config.words.max_tokens)
