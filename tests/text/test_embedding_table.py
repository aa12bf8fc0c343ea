"""Texts to word ids, and the vectors that a network starts from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xmtc.corpus.strings import Strings
from xmtc.errors import BadInput
from xmtc.text.embedding_table import RANDOM_SCALE, WordSettings, words_of

TEXTS = Strings.of(["the cat sat", "the cat ran off", "a dog", "the dog ran"])


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "glove.txt"
    path.write_text("zebra 9 9\ncat 0.25 -3\nthe 1.5 2\ndog -1 0.5\nran 0.5 4\n")
    return path


def test_a_files_vectors_are_taken_as_they_are(glove: Path) -> None:
    tokenizer, tokens, table = words_of(WordSettings(vectors=str(glove), dimensions=100), TEXTS, seed=0)
    assert table.shape == (len(tokenizer), 2)
    assert table.dtype == np.float32
    row = dict(zip(tokenizer.words, table.tolist(), strict=True))
    assert row["cat"] == [0.25, -3]
    assert row["the"] == [1.5, 2]
    assert row["<pad>"] == [0, 0]
    assert [tokenizer.words[word] for word in tokens[1]] == ["the", "cat", "ran", "off"]


def test_words_that_a_file_does_not_have_get_random_vectors(glove: Path) -> None:
    settings = WordSettings(vectors=str(glove), missing="random")
    (tokenizer, _, one), (_, _, same), (_, _, other) = (words_of(settings, TEXTS, seed) for seed in (0, 0, 1))
    rows = [tokenizer.words.index(word) for word in ("sat", "off", "<unk>")]
    assert (np.abs(one[rows]) <= 1).all()
    assert len(np.unique(one[rows])) == 6
    assert np.array_equal(one, same)
    assert not np.isclose(one[rows], other[rows]).any()


def test_or_vectors_learned_and_mapped_into_the_files_space(glove: Path) -> None:
    settings = WordSettings(vectors=str(glove), missing="learn")
    tokenizer, _, table = words_of(settings, TEXTS, seed=0)
    _, _, random = words_of(settings.model_copy(update={"missing": "random"}), TEXTS, seed=0)
    known = [tokenizer.words.index(word) for word in ("<pad>", "the", "cat", "dog", "ran")]
    unknown = [tokenizer.words.index(word) for word in ("sat", "off")]
    assert np.array_equal(table[known], random[known])
    assert not np.isclose(table[unknown], random[unknown]).any()
    assert np.isfinite(table).all()


def test_a_file_without_any_of_the_words(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("zebra 1 2\n")
    with pytest.raises(BadInput, match="none of the wanted words"):
        words_of(WordSettings(vectors=str(tmp_path / "v.txt")), TEXTS, seed=0)


@pytest.mark.parametrize("vectors", ["random", "learn"])
def test_vectors_without_a_file(vectors: str) -> None:
    settings = WordSettings(vectors=vectors, dimensions=3)
    (tokenizer, _, one), (_, _, same), (_, _, other) = (words_of(settings, TEXTS, seed) for seed in (0, 0, 1))
    assert one.shape == (len(tokenizer), 3)
    assert one.dtype == np.float32
    assert not one[0].any()
    assert (one[1:] != 0).all()
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    if vectors == "random":
        assert 0.8 * RANDOM_SCALE < np.abs(one).max() <= RANDOM_SCALE


def test_words_in_like_contexts_get_like_vectors() -> None:
    texts = Strings.of(["red apple", "red pear", "grey cloud", "grey sky"] * 5)
    tokenizer, _, table = words_of(WordSettings(vectors="learn", dimensions=2), texts, seed=0)
    apple, pear, cloud = (table[tokenizer.words.index(word)] for word in ("apple", "pear", "cloud"))
    assert np.linalg.norm(apple - pear) < 0.1 * np.linalg.norm(apple - cloud)


def test_rare_words_and_the_ends_of_long_texts_are_left_out() -> None:
    settings = WordSettings(vectors="random", dimensions=2, min_df=2, max_tokens=3)
    tokenizer, tokens, _ = words_of(settings, TEXTS, seed=0)
    assert set(tokenizer.words) == {"<pad>", "<unk>", "the", "cat", "ran", "dog"}
    assert [tokenizer.words[word] for word in tokens[1]] == ["the", "cat", "ran"]
    assert [tokenizer.words[word] for word in tokens[2]] == ["<unk>", "dog"]
    assert len(words_of(WordSettings(vectors="random", max_words=4), TEXTS, seed=0)[0]) == 4
