"""The decoder's vocabulary and the order of labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadInput, ConfigError
from xmtc.models.seq2seq.sequences import Vocabulary, label_sequences, ranks

LABELS = LabelSet.of(["a", "b", "c", "d"])
COUNTS = np.array([2, 0, 5, 2])


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 8))
def test_sequences_have_each_document_s_labels_in_order_and_the_end(seed: int, documents: int, labels: int) -> None:
    rng = np.random.default_rng(seed)
    targets = csr_array((rng.random((documents, labels)) < 0.5).astype(np.float32))
    vocabulary = Vocabulary.of(np.asarray(targets.sum(0)).astype(np.int64))
    rank = rng.permutation(vocabulary.end)
    found = label_sequences(targets, vocabulary, rank, None, "")
    for row, sequence in enumerate(found):
        *symbols, last = sequence.tolist()
        assert last == vocabulary.end
        assert sorted(vocabulary.labels[symbols].tolist()) == np.flatnonzero(targets.toarray()[row]).tolist()
        assert rank[symbols].tolist() == sorted(rank[symbols].tolist())


def test_symbols_are_labels_by_falling_frequency() -> None:
    vocabulary = Vocabulary.of(COUNTS)
    assert vocabulary.labels.tolist() == [2, 0, 3]
    assert [vocabulary.symbol(label) for label in range(4)] == [1, None, 0, 2]


@pytest.mark.parametrize("wrong", [[], [0, 0], [-1], [4], [[0]]], ids=str)
def test_a_saved_vocabulary_that_cannot_be_one(wrong: list[int]) -> None:
    with pytest.raises(ValueError, match="of the network"):
        Vocabulary.from_array(np.array(wrong, np.int64), 4)


def test_longer_sequences_than_allowed_are_cut_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    targets = csr_array(np.array([[1, 0, 1, 1], [0, 0, 1, 0]], np.float32))
    cut = label_sequences(targets, Vocabulary.of(COUNTS), np.array([2, 1, 0]), 2, "sgm")
    assert [row.tolist() for row in cut] == [[2, 1, 3], [0, 3]]
    assert capsys.readouterr().err == (
        "sgm: 1 of 2 training documents have more than max_labels=2 labels (up to 3); the last ones in the order are "
        "not learned\n"
    )
    label_sequences(targets, Vocabulary.of(COUNTS), np.array([2, 1, 0]), 3, "sgm")
    assert capsys.readouterr().err == ""


def test_along_the_hierarchy_parents_come_before_children() -> None:
    labels = LabelSet.of(["a", "b", "c", "d"], parents=[["d"], [], [], ["c"]])
    vocabulary = Vocabulary.of(np.array([9, 1, 2, 3]))
    order = np.argsort(ranks("hierarchy", vocabulary, labels))
    assert [labels.key(at) for at in vocabulary.labels[order]] == ["c", "b", "d", "a"]
    with pytest.raises(ConfigError, match="order=hierarchy: these labels have no parents"):
        ranks("hierarchy", vocabulary, LABELS)


def test_an_order_file(tmp_path: Path) -> None:
    file = tmp_path / "order.txt"
    file.write_text("d\n\nof another corpus\na\nb\nc\n")
    assert ranks(str(file), Vocabulary.of(COUNTS), LABELS).tolist() == [2, 1, 0]
    file.write_text("d\n")
    with pytest.raises(BadInput, match=r"order\.txt: the order lacks labels .*: 'c', 'a'; add each on a line"):
        ranks(str(file), Vocabulary.of(COUNTS), LABELS)
    file.write_text("d\na\nd\n")
    with pytest.raises(BadInput, match=r"order\.txt:3: the label 'd' stands on line 1 already"):
        ranks(str(file), Vocabulary.of(COUNTS), LABELS)
    with pytest.raises(BadInput, match="nowhere"):
        ranks(str(tmp_path / "nowhere"), Vocabulary.of(COUNTS), LABELS)
