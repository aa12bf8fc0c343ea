"""A sentence encoder in place of the package of `multilingual`: words that mean the same have the same numbers."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from xmtc.text import sentence_vectors
from xmtc.text.sentence_vectors import LIBRARY

WIDTH = 64
MEANINGS = {"apfel": "apple", "wetter": "weather", "himmel": "sky"}


class TinyUse:
    """The package's only class, as far as it is used; `read` are all texts that any of them was given."""

    read: list[str] = []  # noqa: RUF012
    salt = ""

    def __init__(self, threads: int) -> None:
        assert threads == 1, "more make it slower"

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        self.read.extend(texts)
        return np.array([sum(map(self._word, text.lower().split())) for text in texts], np.float32)

    def _word(self, word: str) -> NDArray[np.float64]:
        word = MEANINGS.get(word.strip(".,"), word.strip(".,"))
        return np.random.default_rng(zlib.crc32(f"{self.salt}{word}".encode())).normal(size=WIDTH)


@contextmanager
def tiny_package(monkeypatch: pytest.MonkeyPatch, salt: str = "") -> Iterator[type[TinyUse]]:
    """The package is installed, in a version of this salt."""
    package = ModuleType(LIBRARY)
    package.USE = made = type("USE", (TinyUse,), {"read": [], "salt": salt})  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, LIBRARY, package)
        sentence_vectors._encoder.cache_clear()
        try:
            yield made
        finally:
            sentence_vectors._encoder.cache_clear()
