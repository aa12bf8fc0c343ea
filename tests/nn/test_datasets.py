"""Which documents are checked with."""

from __future__ import annotations

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.nn.datasets import FEWEST, prepare_word_datasets, validation_rows
from xmtc.nn.settings import TrainingSettings
from xmtc.text.embedding_table import WordSettings


@pytest.mark.parametrize(("documents", "most", "held_out"), [(1000, 50, 50), (1000, 500, 100), (100, 500, 10)])
def test_some_documents_are_held_out_of_what_is_learned(documents: int, most: int, held_out: int) -> None:
    train, check = validation_rows(documents, None, most, seed=0)
    assert len(check) == held_out
    assert sorted([*train, *check]) == list(range(documents))
    assert train.tolist() == sorted(train)
    assert check.tolist() == sorted(check)


def test_a_share_of_the_documents_can_be_asked_for() -> None:
    assert len(validation_rows(1000, None, 5000, seed=0, share=0.2)[1]) == 200


@pytest.mark.parametrize(("documents", "most"), [(10 * FEWEST - 1, 500), (1, 500), (1000, 0), (1000, FEWEST - 1)])
def test_too_few_are_not_held_out_at_all(documents: int, most: int) -> None:
    train, check = validation_rows(documents, None, most, seed=0)
    assert train.tolist() == list(range(documents))
    assert len(check) == 0


@pytest.mark.parametrize(("most", "drawn"), [(3, 3), (8, 8), (99, 8), (0, 0)])
def test_given_documents_are_drawn_from_and_all_others_learned(most: int, drawn: int) -> None:
    valid = Corpus.of(["text"] * 8, [["label"]] * 8)
    train, check = validation_rows(200, valid, most, seed=0)
    assert train.tolist() == list(range(200))
    assert len(check) == drawn
    assert check.tolist() == sorted(set(check.tolist()) & set(range(8)))


def test_the_seed_draws() -> None:
    one, same, other = (validation_rows(1000, None, 50, seed)[1] for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


WORDS, TRAINING = WordSettings(vectors="random", dimensions=2), TrainingSettings(valid_documents=20)


def corpus_of(numbers: range) -> Corpus:
    """Document i has the words "common" and "word<i>" and the label "label<i modulo 7>"."""
    return Corpus.of([f"common word{i}" for i in numbers], [[f"label{i % 7}"] for i in numbers])


def test_words_and_labels_of_held_out_documents_are_theirs() -> None:
    corpus = corpus_of(range(300))
    tokenizer, table, train, check = prepare_word_datasets(corpus, None, WORDS, TRAINING, seed=0)
    assert table.shape == (len(tokenizer), 2)
    texts = []
    for documents in (train, check):
        for at, words in enumerate(documents.tokens):
            texts.append(" ".join(tokenizer.words[word] for word in words))
            (label,) = documents.targets.indices[documents.targets.indptr[at] : documents.targets.indptr[at + 1]]
            assert corpus.labels.name(int(label)) == f"label{int(texts[-1].removeprefix('common word')) % 7}"
    assert len(check.tokens) == 20
    assert sorted(texts) == sorted(corpus.texts or ())


def test_given_documents_are_read_with_the_words_of_the_training_documents() -> None:
    corpus = corpus_of(range(300))
    valid = corpus_of(range(295, 310)).with_labels(corpus.labels)
    tokenizer, _, train, check = prepare_word_datasets(corpus, valid, WORDS, TRAINING, seed=0)
    assert len(train.tokens) == 300
    read = [[tokenizer.words[word] for word in words] for words in check.tokens]
    assert read == [["common", f"word{i}" if i < 300 else "<unk>"] for i in range(295, 310)]
    assert check.targets.shape == (15, 7)


def test_labels_that_only_given_documents_have_are_left_out() -> None:
    corpus = corpus_of(range(3))  # has the labels 0 to 2
    valid = corpus_of(range(2, 5)).with_labels(corpus.labels)
    assert valid.targets.shape[1] == 5
    *_, check = prepare_word_datasets(corpus, valid, WORDS, TRAINING, seed=0)
    assert check.targets.toarray().tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
