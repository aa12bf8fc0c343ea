"""What `fasttext` and `extremetext` share: vectors of words and n-grams, the training loop over epochs, storage."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.weights import drawn_by_weight
from xmtc.errors import ConfigError, XmtcError
from xmtc.models.base import Model
from xmtc.models.config import ModelConfig
from xmtc.models.fasttext.features import TEXT, Inputs, WordNgrams
from xmtc.progress import progress
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.word_vectors import read_vectors

STRETCH = 1024  # texts between two looks at the clock
EPOCH = "epoch"

Floats = NDArray[np.float32]


class MeanVectorsConfig(ModelConfig):
    """What is a feature, and how vectors are learned; in brackets are fastText's own words."""

    dimensions: PositiveInt = 100
    """Length of the vectors of words, n-grams and labels (dim)."""
    epochs: PositiveInt = 25
    """How often all training documents are gone through (epoch)."""
    learning_rate: PositiveFloat = Field(2.0, allow_inf_nan=False)
    """Step size at the beginning; it falls to 0 (lr)."""
    word_ngrams: int = Field(2, ge=1, le=100)
    """Longest run of words that has a vector; 1: single words only (wordNgrams)."""
    char_ngrams: tuple[int, int] = (0, 0)
    """Shortest and longest n-gram of letters that has a vector; [0, 0]: none (minn, maxn)."""
    buckets: int = Field(2_000_000, ge=1, le=100_000_000)
    """Places that n-grams are hashed into; those that training leaves empty take no memory (bucket)."""
    min_df: PositiveInt = 1
    """Leave out words that fewer training documents have (minCount counts occurrences)."""
    vectors: str | None = None
    """A file of word vectors to begin with; null: random ones (pretrainedVectors)."""

    @field_validator("char_ngrams")
    @classmethod
    def _rising(cls, sizes: tuple[int, int]) -> tuple[int, int]:
        if sizes != (0, 0) and not 1 <= sizes[0] <= sizes[1] <= 100:
            raise ValueError(
                "char_ngrams are (shortest, longest), both from 1 to 100 and the first not above the second"
            )
        return sizes


class MeanVectors(Model):
    """A text is the mean of the vectors of its features; what is made of it is the subclass's business."""

    config: MeanVectorsConfig

    grams_: WordNgrams
    table_: Floats  # (features, dimensions)
    weights_: Floats  # (outputs, dimensions)

    @abstractmethod
    def _train(self, inputs: Inputs, corpus: Corpus, epoch: int, advance: Callable[[float], None]) -> None:
        """Change `table_` and `weights_` by one epoch; `advance` takes the number of documents that are done."""

    def _text_memory(self, corpus: Corpus) -> tuple[int, int]:
        """(vectors, bytes of the rows of all texts with what finding them takes), estimated without reading them."""
        assert corpus.texts is not None
        config = self.config
        words = corpus.texts.nbytes // 6
        letters = sum(max(0, 7 - size) for size in range(config.char_ngrams[0], config.char_ngrams[1] + 1) if size)
        grams = words * (config.word_ngrams - 1 + letters)
        vectors = words // 5 + 1000 + (min(config.buckets, grams) if grams else 0)
        return vectors, 4 * config.buckets + 30 * (words + grams)

    def _learn(self, inputs: Inputs, corpus: Corpus, features: int, outputs: int, checkpoints: Checkpoints) -> None:
        """All epochs, or those that an interrupted run has not done."""
        from threadpoolctl import threadpool_limits

        config = self.config
        kept = checkpoints.get(EPOCH)
        if kept is None:
            self.table_ = self._first_vectors(features)
            self.weights_ = np.zeros((outputs, config.dimensions), np.float32)
        else:
            self.table_, self.weights_ = kept["table"].copy(), kept["weights"].copy()
        begin = 0 if kept is None else int(kept["epochs"][0])
        # The products are small, and threads that wait for one another take minutes when another program has a core.
        one_thread = threadpool_limits(1, user_api="blas")
        with one_thread, progress("training vectors", (config.epochs - begin) * len(corpus)) as bar:
            for epoch in range(begin, config.epochs):
                self._train(inputs, corpus, epoch, bar.advance)
                if not (np.isfinite(self.table_).all() and np.isfinite(self.weights_).all()):
                    raise XmtcError(f"the weights grew beyond all bounds in epoch {epoch + 1}; lower learning_rate")
                done = {"epochs": np.array([epoch + 1]), "table": self.table_, "weights": self.weights_}
                checkpoints.put(EPOCH, done)

    def _new_grams(self) -> WordNgrams:
        config = self.config
        return WordNgrams(config.word_ngrams, config.char_ngrams, config.buckets, config.min_df)

    def _first_vectors(self, features: int) -> Floats:
        """Small random vectors, or those of a file for the words that it has."""
        config = self.config
        rng = np.random.default_rng(derived_seed(config.seed, 1))
        table = rng.random((features, config.dimensions), np.float32)
        table -= np.float32(0.5)
        table *= np.float32(2 / config.dimensions)
        if config.vectors is not None:
            row_of = {word: row for row, word in enumerate(self.grams_.words, start=TEXT + 1)}
            found = read_vectors(config.vectors, only=row_of)
            if found.matrix.shape[1] != config.dimensions:
                size = found.matrix.shape[1]
                raise ConfigError(f"{config.vectors} has vectors of {size} numbers; set dimensions={size}")
            table[[row_of[word] for word in found.words]] = found.matrix
        return table

    def _shuffled(
        self, corpus: Corpus, documents: NDArray[np.int64], epoch: int
    ) -> tuple[np.random.Generator, NDArray[np.int64]]:
        """(random numbers of an epoch, its order of these documents); with weights, as many drawn by them."""
        seed = self.config.seed
        rng = np.random.default_rng(derived_seed(seed, 2, epoch))
        if corpus.document_weights is not None:
            start = np.random.default_rng(derived_seed(seed, 3, epoch)).random()
            documents = documents[drawn_by_weight(corpus.document_weights[documents], start)]
        return rng, rng.permutation(documents)

    def _save(self, folder: FolderWriter) -> None:
        folder.arrays("words", self._word_arrays())
        tables = {"table": self.table_, "weights": self.weights_}
        folder.arrays("vectors", {**tables, **self._output_arrays()}, tables)

    def _word_arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved of the features."""
        return self.grams_.to_arrays()

    @abstractmethod
    def _output_arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved beside the vectors and the weights."""

    def _load_vectors(self, folder: FolderReader, features: int, outputs: int) -> None:
        """The inverse of `_save`, for this many features and outputs; their numbers are checked on first use."""
        with folder.building("vectors"):
            arrays = folder.arrays("vectors")
            self.table_, self.weights_ = arrays["table"], arrays["weights"]
            size = self.config.dimensions
            for array, length in ((self.table_, features), (self.weights_, outputs)):
                if array.dtype != np.float32 or array.shape != (length, size):
                    raise ValueError(f"an array of {array.dtype} {array.shape}, not float32 {length, size}")

        def check() -> None:
            with folder.building("vectors"):
                if not all(np.isfinite(part).all() for part in (self.table_, self.weights_)):
                    raise ValueError("it has numbers that are not finite")

        folder.check("vectors.safetensors", check)


def grouped(
    found: list[tuple[int, str]], parts: NDArray[np.floating[Any]]
) -> tuple[tuple[tuple[str, float], ...], float]:
    """(words with what they contribute, the strongest first, what row 0 does), from the part of each row of a text.

    >>> grouped([(TEXT, ""), (1, "a"), (2, "b"), (1, "a")], np.array([0.5, 1.0, -3.0, 1.0]))
    ((('b', -3.0), ('a', 2.0)), 0.5)
    """
    shares: dict[str, float] = defaultdict(float)
    every = 0.0
    for (row, name), part in zip(found, parts.tolist(), strict=True):
        if row == TEXT:
            every += part
        else:
            shares[name] += part
    return tuple(sorted(shares.items(), key=lambda entry: -abs(entry[1]))), every
