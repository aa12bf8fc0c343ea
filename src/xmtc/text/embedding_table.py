"""Texts to sequences of word ids, and the table of word vectors that a network starts from."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from xmtc.corpus.strings import Strings
from xmtc.seeding import derived_seed
from xmtc.text.ppmi_vectors import fill_missing, learn_vectors
from xmtc.text.token_store import TokenStore
from xmtc.text.word_tokenizer import WordTokenizer
from xmtc.text.word_vectors import read_vectors

LEARN = "learn"
RANDOM = "random"

RANDOM_SCALE = 0.5


def words_of(
    settings: WordSettings, texts: Strings, seed: int
) -> tuple[WordTokenizer, TokenStore, NDArray[np.float32]]:
    """The vocabulary of training texts, the texts as word ids, and a vector for each word.

    >>> texts = Strings.of(["the cat", "the dog"])
    >>> tokenizer, tokens, table = words_of(WordSettings(vectors="random", dimensions=4), texts, seed=0)
    >>> len(tokenizer), tokens.ids.tolist(), table.shape
    (5, [2, 3, 2, 4], (5, 4))
    """
    tokenizer = WordTokenizer.train(texts, settings.max_words, settings.min_df)
    tokens = tokenizer.encode(texts, settings.max_tokens)
    return tokenizer, tokens, word_table(settings, tokenizer, tokens, seed)


def word_table(settings: WordSettings, tokenizer: WordTokenizer, tokens: TokenStore, seed: int) -> NDArray[np.float32]:
    """A vector for each word, row 0 (padding) zero: from a file, learned on the documents, or random."""
    rng = np.random.default_rng(derived_seed(seed, 17))
    if settings.vectors == RANDOM:
        table = rng.uniform(-RANDOM_SCALE, RANDOM_SCALE, (len(tokenizer), settings.dimensions)).astype(np.float32)
        table[0] = 0
        return table
    if settings.vectors == LEARN:
        return learn_vectors(tokens, len(tokenizer), settings.dimensions, seed)
    words = tokenizer.words
    found = read_vectors(settings.vectors, only=set(words))
    table = found.table(words, rng)
    if settings.missing == RANDOM:
        return table
    present = set(found.words)
    known = np.array([word in present for word in words])
    return fill_missing(table, known, learn_vectors(tokens, len(tokenizer), table.shape[1], seed))


class VocabularySettings(BaseModel):
    """Texts as sequences of words."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    max_words: int = Field(500_000, ge=3)
    """Size of the vocabulary, which has the words in most training documents (two places are reserved)."""
    min_df: PositiveInt = 1
    """Leave out words that fewer training documents have; they are read as unknown."""
    max_tokens: PositiveInt = 500
    """Read only so many words of a document, from its beginning."""


class WordSettings(VocabularySettings):
    """Texts as sequences of word vectors; `xmtc.text.word_vectors` says which files of vectors can be read."""

    vectors: str = LEARN
    """Vectors to begin with: learn (from the training documents), random, or a file of word vectors."""
    missing: Literal["learn", "random"] = "learn"
    """Words that the file of vectors lacks: learn (from the documents, mapped into its space) or random."""
    dimensions: PositiveInt = 100
    """Length of a word vector; a file brings its own."""
    frozen: bool = False
    """Leave the word vectors as they are while the network is trained."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """Share of the word vectors' numbers set to 0 in training."""
