"""Means of word vectors against a loop over words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.strings import Strings
from xmtc.errors import BadModelFolder, XmtcError
from xmtc.storage import opening, writing
from xmtc.text import mean_embeddings as mean_vectors
from xmtc.text.mean_embeddings import MeanVectors, roomy, token_idf
from xmtc.text.word_tokenizer import WordTokenizer

TEXTS = ["the ship the sea", "the bread", "unknown", "", "sea bread sea sea"]


@pytest.fixture(scope="module")
def tokenizer() -> WordTokenizer:
    return WordTokenizer.train(Strings.of(["the ship", "the sea", "the bread"]))


def table_for(tokenizer: WordTokenizer) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(0).normal(size=(len(tokenizer), 5)).astype(np.float32)


def naive(texts: list[str], tokenizer: WordTokenizer, table: Any, idf: Any) -> list[Any]:
    rows = []
    for text in texts:
        words = [word for word in text.split() if word in tokenizer.words]
        total = np.zeros(5)
        for word in set(words):
            at, count = tokenizer.words.index(word), words.count(word)
            total += table[at] * (count if idf is None else (1 + math.log(count)) * idf[at])
        rows.append(total / (np.linalg.norm(total) or 1))
    return rows


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("block", [2, 8192])
def test_means(tokenizer: WordTokenizer, weighted: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mean_vectors, "DOCUMENT_BLOCK", block)
    table, tokens = table_for(tokenizer), tokenizer.encode(Strings.of(TEXTS))
    idf = token_idf(tokens, len(tokenizer)) if weighted else None
    vectors = MeanVectors(tokenizer, table, idf)
    found = vectors.transform(Corpus.of(TEXTS))
    np.testing.assert_allclose(found, naive(TEXTS, tokenizer, table, idf), atol=1e-6)
    assert not found[2:4].any(), "no known word, no vector"
    for text, row in zip(TEXTS, found, strict=True):
        words, parts = vectors.shares(text)
        np.testing.assert_allclose(parts.sum(0), row, atol=1e-6)
        assert set(words) == set(text.split()) - {"unknown"}


def test_idf(tokenizer: WordTokenizer) -> None:
    tokens = tokenizer.encode(Strings.of(TEXTS))
    found = token_idf(tokens, len(tokenizer))
    for word, documents in {"the": 2, "sea": 2, "ship": 1}.items():
        assert found[tokenizer.words.index(word)] == pytest.approx(math.log(6 / (1 + documents)) + 1)


def test_only_the_first_words_count(tokenizer: WordTokenizer) -> None:
    table = table_for(tokenizer)
    cut, whole = (
        MeanVectors(tokenizer, table, None, 2).transform(Corpus.of([text])) for text in (TEXTS[0], "the ship")
    )
    np.testing.assert_array_equal(cut, whole)


def test_large_arrays_lie_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mean_vectors, "LARGE", 100)
    assert not isinstance(roomy((2, 3)), np.memmap)
    large = roomy((20, 3))
    assert isinstance(large, np.memmap)
    large[7] = 1
    assert large.sum() == 3


def test_no_texts(tokenizer: WordTokenizer) -> None:
    features = Corpus(Corpus.of(["a"]).targets, Corpus.of(["a"]).labels)
    with pytest.raises(XmtcError, match="trained on texts"):
        MeanVectors(tokenizer, table_for(tokenizer)).transform(features)


def test_stored_parts_are_checked(tokenizer: WordTokenizer, tmp_path: Path) -> None:
    table, idf = table_for(tokenizer), np.ones(len(tokenizer), np.float32)

    def stored(table: Any, idf: Any) -> MeanVectors:
        with writing(tmp_path / "model", "knn", {}, {}) as folder:
            MeanVectors(tokenizer, table, idf).save(folder)
        return MeanVectors.load(opening(tmp_path / "model"), True, None)

    np.testing.assert_array_equal(
        stored(table, idf).transform(Corpus.of(TEXTS)), MeanVectors(tokenizer, table, idf).transform(Corpus.of(TEXTS))
    )
    for wrong in ((table[:-1], idf), (table.astype(float), idf), (table, idf[:3]), (table, None)):
        with pytest.raises(BadModelFolder, match="word_vectors"):
            stored(*wrong)
    with pytest.raises(BadModelFolder, match="finite"):
        stored(table * np.nan, idf)
