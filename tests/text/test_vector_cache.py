"""Texts are read once, whoever asks for their vectors, and once in all if a run goes on after a kill."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.strings import Strings
from xmtc.text import vector_cache as module
from xmtc.text.vector_cache import cached_vectors, sharing_vectors


class Reader:
    """Makes two numbers of a text, and remembers what it has read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, texts: Strings) -> NDArray[np.float32]:
        self.read.extend(texts)
        return np.array([[len(text), ord(text[0])] for text in texts], np.float32)


def vectors(reader: Reader, *texts: str, encoder: str | None = "one") -> list[list[float]]:
    found: list[list[float]] = cached_vectors(encoder, Strings.of(texts), reader).tolist()
    return found


def test_a_text_is_read_once_for_each_encoder() -> None:
    one, other = Reader(), Reader()
    with sharing_vectors(Checkpoints(None, {})):
        assert vectors(one, "b", "aa", "b") == [[1, 98], [2, 97], [1, 98]]
        assert vectors(one, "ccc", "b", "aa") == [[3, 99], [1, 98], [2, 97]]
        assert vectors(other, "b", encoder="other") == [[1, 98]]
    assert one.read == ["b", "aa", "ccc"]
    assert other.read == ["b"]


def test_outside_of_the_block_and_without_a_name_nothing_is_kept() -> None:
    reader = Reader()
    vectors(reader, "a")
    with sharing_vectors(Checkpoints(None, {})):
        vectors(reader, "a", encoder=None)
        vectors(reader, "a", encoder=None)
    vectors(reader, "a")
    assert reader.read == ["a"] * 4


def test_no_texts() -> None:
    with sharing_vectors(Checkpoints(None, {})):
        assert vectors(Reader(), "a") == [[1, 97]]
        assert vectors(Reader()) == []


def test_what_was_read_before_a_kill_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAVED_EVERY", 2)

    def killed(texts: Strings) -> NDArray[np.float32]:
        if "e" in list(texts):
            raise KeyboardInterrupt
        return Reader()(texts)

    with sharing_vectors(Checkpoints(tmp_path / "pieces", {})), pytest.raises(KeyboardInterrupt):
        cached_vectors("some/encoder", Strings.of(["a", "bb", "c", "dd", "e"]), killed)
    reader = Reader()
    with sharing_vectors(Checkpoints(tmp_path / "pieces", {})):
        found = vectors(reader, "a", "bb", "c", "dd", "e", encoder="some/encoder")
    assert reader.read == ["e"]
    assert found == [[1, 97], [2, 98], [1, 99], [2, 100], [1, 101]]
