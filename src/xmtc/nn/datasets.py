"""Which documents a network learns from, and which it is checked with while it is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import with_columns
from xmtc.corpus.strings import Strings
from xmtc.nn.batching import Ints
from xmtc.nn.encoders.encoder import EncoderTexts
from xmtc.nn.settings import TrainingSettings
from xmtc.seeding import derived_seed
from xmtc.text.document_features import DocumentVectors
from xmtc.text.embedding_table import WordSettings, words_of
from xmtc.text.token_store import TokenStore
from xmtc.text.word_tokenizer import WordTokenizer

Weights = NDArray[np.float32]
FEWEST = 10  # fewer documents would make the choice random


def validation_rows(
    documents: int, valid: Corpus | None, most: int, seed: int, share: float = 0.1
) -> tuple[Ints, Ints]:
    """(rows to learn from, rows to check with), the latter of `valid` if it is given, else held out of the documents.

    Checking many documents every few steps would take longer than learning, so at most `most` are drawn, and never
    more than a `share` of the documents; a corpus with fewer than a hundred documents is learned whole.

    >>> train, check = validation_rows(1000, None, most=50, seed=0)
    >>> len(train), len(check), len(validation_rows(60, None, most=50, seed=0)[1])
    (950, 50, 0)
    """
    rng = np.random.default_rng(derived_seed(seed, 23))
    if valid is not None:
        return np.arange(documents), np.sort(rng.permutation(len(valid))[:most])
    count = min(most, int(documents * share))
    if count < FEWEST:
        return np.arange(documents), np.zeros(0, np.int64)
    order = rng.permutation(documents)
    return np.sort(order[count:]), np.sort(order[:count])


@dataclass(frozen=True)
class Examples:
    """Documents as rows of features, and which labels they have."""

    features: Csr
    targets: Csr
    weights: Weights | None = None

    def take(self, rows: Ints) -> Examples:
        """Some of them."""
        weights = self.weights[rows] if self.weights is not None else None
        return Examples(take_rows(self.features, rows), take_rows(self.targets, rows), weights)


def examples_of(
    corpus: Corpus, valid: Corpus | None, vectors: DocumentVectors, most: int, seed: int, share: float = 0.1
) -> tuple[Examples, Ints, Examples]:
    """(all documents, rows to learn from, documents to check with), as `vectors`, fitted here, has them.

    >>> from xmtc.text.tfidf import TfIdfSettings
    >>> corpus = Corpus.of(["red apple", "blue sky"] * 60, [["fruit"], ["weather"]] * 60)
    >>> every, rows, check = examples_of(corpus, None, DocumentVectors(TfIdfSettings()), most=50, seed=0)
    >>> every.features.shape, len(rows), check.targets.shape
    ((120, 4), 108, (12, 2))
    """
    everything = Examples(vectors.fit_transform(corpus), corpus.targets, corpus.document_weights)
    rows, held_out = validation_rows(len(corpus), valid, most, seed, share)
    if valid is None:
        return everything, rows, everything.take(held_out)
    some = valid[held_out]
    return everything, rows, Examples(vectors.transform(some), _of_training(some.targets, corpus))


def _of_training(targets: Csr, corpus: Corpus) -> Csr:
    """Labels that only validation documents have come after all others, and cannot be found."""
    return with_columns(targets, len(corpus.labels))


def prepare_word_datasets(
    corpus: Corpus, valid: Corpus | None, words: WordSettings, training: TrainingSettings, seed: int
) -> tuple[WordTokenizer, NDArray[np.float32], Documents, Documents]:
    """(vocabulary, a vector for each word, documents to learn from, documents to check with).

    >>> corpus = Corpus.of(["red apple", "blue sky"] * 60, [["fruit"], ["weather"]] * 60)
    >>> words, training = WordSettings(vectors="random"), TrainingSettings()
    >>> _, table, train, valid = prepare_word_datasets(corpus, None, words, training, seed=0)
    >>> table.shape, len(train.tokens), len(valid.tokens)
    ((6, 100), 108, 12)
    """
    assert corpus.texts is not None
    tokenizer, tokens, table = words_of(words, corpus.texts, seed)

    def encode(texts: Strings) -> TokenStore:
        return tokenizer.encode(texts, words.max_tokens)

    return tokenizer, table, *train_valid_split(corpus, valid, tokens, encode, training.valid_documents, seed)


def train_valid_split(
    corpus: Corpus,
    valid: Corpus | None,
    tokens: TokenStore,
    encode: Callable[[Strings], TokenStore],
    most: int,
    seed: int,
) -> tuple[Documents, Documents]:
    """(documents to learn from, documents to check with), of a corpus that has these tokens; see `validation_rows`."""
    rows, held_out = validation_rows(len(corpus), valid, most, seed)
    weights = corpus.document_weights[rows] if corpus.document_weights is not None else None
    train_set = Documents(tokens.take(rows), take_rows(corpus.targets, rows), weights)
    if valid is None:
        return train_set, Documents(tokens.take(held_out), take_rows(corpus.targets, held_out))
    texts = valid[held_out].texts
    assert texts is not None
    return train_set, Documents(encode(texts), _of_training(take_rows(valid.targets, held_out), corpus))


@dataclass(frozen=True)
class Documents:
    """Documents as word ids, and which labels they have."""

    tokens: TokenStore
    targets: Csr
    weights: Weights | None = None  #: in training


@dataclass(frozen=True)
class LabelledTexts:
    """Documents as the encoder reads them, and which labels they have."""

    texts: EncoderTexts
    targets: Csr
    weights: Weights | None = None  #: in training
