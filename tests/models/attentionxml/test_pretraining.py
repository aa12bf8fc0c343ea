"""Word vectors learned with a bag of words, beside sums that are written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from split_batches import assert_same_in_threads

from xmtc.corpus.sparse import make_csr
from xmtc.models.attentionxml.pretraining import WordBag, WordBagLearner, pretrain_words
from xmtc.nn import learner
from xmtc.nn.datasets import Documents
from xmtc.text.token_store import TokenStore

LABELS, WORDS = 3, 30


def some_documents(count: int, seed: int) -> Documents:
    """Each of ten words belongs to a label, and a document has words of its one label and others of no label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, LABELS, count)
    tokens = [[*rng.integers(1 + 9 * at, 10 + 9 * at, 3), *rng.integers(28, WORDS, 2)] for at in labels.tolist()]
    return Documents(
        TokenStore.of(tokens), make_csr(np.ones(count, np.float32), labels, np.arange(count + 1), (count, 3))
    )


def some_table() -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(WORDS, 5)).astype(np.float32)


def test_the_bag_is_a_weighted_sum() -> None:
    rng = np.random.default_rng(1)
    rarity = rng.uniform(0.5, 2, WORDS).astype(np.float32)
    bag = WordBag(some_table(), LABELS)
    torch.nn.init.normal_(bag.output.weight)
    documents = [[4, 4, 9], [2], [7, 1, 3, 28]]
    nothing = some_documents(0, 0)
    found = bag(WordBagLearner(bag, nothing, nothing, rarity).words(TokenStore.of(documents))).detach().numpy()
    for row, words in enumerate(documents):
        summed = sum(rarity[word] * some_table()[word] for word in words)
        summed = summed / np.sqrt(sum(rarity[word] ** 2 for word in words))
        expected = bag.output.weight.detach().numpy() @ summed + bag.output.bias.detach().numpy()
        np.testing.assert_allclose(found[row], expected, rtol=1e-5)


def test_the_loss_does_not_depend_on_threads() -> None:
    bag, documents = WordBag(some_table(), LABELS), some_documents(9, 0)
    torch.nn.init.normal_(bag.output.weight)
    learner = WordBagLearner(bag, documents, documents, np.linspace(0.5, 2, WORDS, dtype=np.float32))
    assert_same_in_threads(learner, np.arange(9), tolerance=1e-5)


def test_words_of_a_label_come_together() -> None:
    table = some_table() * np.float32(0.1)
    warm = pretrain_words(table, some_documents(300, 0), some_documents(0, 1), epochs=40, seed=0)
    unit = warm[1:28] / np.linalg.norm(warm[1:28], axis=1, keepdims=True)
    alike = unit @ unit.T
    same = np.equal.outer(np.arange(27) // 9, np.arange(27) // 9)
    assert alike[same].mean() > 0.8 > 0.2 > alike[~same].mean()
    assert np.square(warm).sum() == pytest.approx(np.square(table).sum(), rel=1e-4)


def test_same_seed_same_vectors() -> None:
    one, same, other = (
        pretrain_words(some_table(), some_documents(200, 0), some_documents(30, 1), epochs=2, seed=seed)
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("checked", [30, 0])
def test_the_best_epoch_counts_where_it_can_be_told(monkeypatch: pytest.MonkeyPatch, checked: int) -> None:
    judged = iter([0.4, 0.9, 0.5])
    monkeypatch.setattr(learner, "ndcg", lambda found, targets: next(judged))
    train, valid = some_documents(200, 0), some_documents(checked, 1)
    three = pretrain_words(some_table(), train, valid, epochs=3, seed=0)
    judged = iter([0.4, 0.9, 0.5])
    two = pretrain_words(some_table(), train, valid, epochs=2, seed=0)
    assert np.array_equal(three, two) == bool(checked)
