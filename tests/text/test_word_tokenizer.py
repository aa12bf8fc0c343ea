"""Word tokenizer, vocabulary and token store."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from xmtc.corpus.strings import Strings
from xmtc.errors import BadModelFolder, ConfigError
from xmtc.text.token_store import TokenStore
from xmtc.text.word_rules import WordRules
from xmtc.text.word_tokenizer import PAD, UNKNOWN, WordTokenizer

TEXTS = Strings.of(["The ship sails.", "The ship, the sea", "Ein Schiff: ÖL 東京"])


def test_vocabulary_is_by_document_frequency() -> None:
    tokenizer = WordTokenizer.train(TEXTS)
    words = tokenizer.words
    assert words[PAD] == "<pad>"
    assert words[UNKNOWN] == "<unk>"
    assert set(words[2:4]) == {"the", "ship"}  # in two documents each, though "the" stands there three times
    assert set(words[4:]) == {"sails", "sea", "ein", "schiff", "öl", "東", "京"}
    assert len(tokenizer) == 11


def test_vocabulary_limits() -> None:
    assert len(WordTokenizer.train(TEXTS, max_words=4)) == 4
    assert set(WordTokenizer.train(TEXTS, min_df=2).words[2:]) == {"the", "ship"}
    with pytest.raises(ConfigError, match="max_words"):
        WordTokenizer.train(TEXTS, max_words=2)


def test_encoding_agrees_with_the_word_rules() -> None:
    for rules in (WordRules(), WordRules(lowercase=False), WordRules(strip_accents=True, min_chars=2)):
        tokenizer = WordTokenizer.train(TEXTS, rules=rules)
        words = tokenizer.words
        for text, ids in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
            assert [words[i] for i in ids.tolist()] == list(rules.words(text))


def test_unknown_and_empty() -> None:
    store = WordTokenizer.train(TEXTS).encode(Strings.of(["quux ship", "", "?!"]))
    assert [ids.tolist()[:1] for ids in store] == [[UNKNOWN], [UNKNOWN], [UNKNOWN]]
    assert store.lengths.tolist() == [2, 1, 1]


def test_truncation() -> None:
    store = WordTokenizer.train(TEXTS).encode(Strings.of(["ship " * 10_000]), max_tokens=500)
    assert store.lengths.tolist() == [500]


def test_spans_are_characters_of_the_text() -> None:
    text = "Über 東京: the ship"
    spans = WordTokenizer.train(TEXTS).spans(text)
    assert [text[start:end] for start, end in spans] == ["Über", "東", "京", "the", "ship"]


def test_json_round_trip_and_hf_reads_it() -> None:
    tokenizer = WordTokenizer.train(TEXTS)
    content = tokenizer.to_json()
    assert WordTokenizer.from_json(content).encode(TEXTS).ids.tolist() == tokenizer.encode(TEXTS).ids.tolist()
    assert Tokenizer.from_str(content).encode("the ship").ids == tokenizer.encode(Strings.of(["the ship"])).ids.tolist()


@pytest.mark.parametrize("content", ["", "{}", '{"model": {"type": "BPE", "vocab": {}}}', "[1]"])
def test_damaged_json(content: str) -> None:
    with pytest.raises(BadModelFolder, match=r"tokenizer\.json"):
        WordTokenizer.from_json(content)


ragged = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=6)


@given(ragged)
def test_store_against_lists(documents: list[list[int]]) -> None:
    store = TokenStore.of(documents)
    assert [ids.tolist() for ids in store] == documents
    assert store.lengths.tolist() == list(map(len, documents))
    order = np.arange(len(documents))[::-1]
    assert [ids.tolist() for ids in store.take(order)] == documents[::-1]
    with pytest.raises(IndexError):
        store[len(documents)]
