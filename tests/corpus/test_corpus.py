"""The corpus: slices share memory, no label is lost, content and fingerprint go together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.corpus.corpus import FEW_DOCUMENTS, Corpus, label_matrix, take_rows
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError


@pytest.fixture
def corpus() -> Corpus:
    small = Corpus.of(["red fruit", "blue sky", "rain", ""], [["apple", "food"], ["weather"], ["weather", "water"], []])
    return replace(
        small,
        features=csr_array(np.arange(12, dtype=np.float32).reshape(4, 3)),
        ids=Strings.of(["d1", "d2", "d3", "d4"]),
        fields={"year": Strings.of(["2001", "2002", "2003", "2004"])},
    )


def test_of_plain_lists(corpus: Corpus) -> None:
    assert list(corpus.labels.keys) == ["apple", "food", "weather", "water"]
    assert [corpus.labels_of(row) for row in range(4)] == [[0, 1], [2], [2, 3], []]
    assert corpus.targets.dtype == np.float32
    assert corpus.label_counts.tolist() == [1, 1, 2, 1]
    assert (corpus.id(1), Corpus.of(["x"]).id(0)) == ("d2", "0")


def test_of_keeps_ids_of_a_given_label_set_and_counts_a_repeated_label_once() -> None:
    given_set = LabelSet.of(["z", "a"])
    corpus = Corpus.of(["x", "y"], [["a", "a", "new"], ["z"]], given_set)
    assert list(corpus.labels.keys) == ["z", "a", "new"]
    assert corpus.labels_of(0) == [1, 2]
    assert corpus.targets.data.tolist() == [1, 1, 1]


@pytest.mark.parametrize("documents", [0, 1, FEW_DOCUMENTS, FEW_DOCUMENTS + 1])
def test_texts_without_labels(documents: int) -> None:
    corpus = Corpus.of((f"text {at}" for at in range(documents)), name="new")
    assert (len(corpus), len(corpus.labels), corpus.name) == (documents, 0, "new")
    assert list(corpus.texts or []) == [f"text {at}" for at in range(documents)]
    assert corpus.targets.shape == (documents, 0)
    assert corpus.targets.dtype == np.float32
    assert corpus.targets.indptr.dtype == np.int32
    assert len(Corpus.of(["text"], label_set=LabelSet.of(["a"])).labels) == 1


def test_all_rows_are_the_corpus_itself(corpus: Corpus) -> None:
    assert corpus[:] is corpus[0:99] is corpus
    assert corpus[::-1] is not corpus
    assert corpus[::-1].id(0) == "d4"


def test_slices_share_memory(corpus: Corpus) -> None:
    part = corpus[1:3]
    assert part.texts is not None and corpus.texts is not None
    assert part.features is not None and corpus.features is not None
    assert part.texts.buffer is corpus.texts.buffer
    assert np.shares_memory(part.targets.indices, corpus.targets.indices)
    assert np.shares_memory(part.features.data, corpus.features.data)
    assert part.labels is corpus.labels


@given(st.slices(4) | st.lists(st.integers(0, 3)).map(lambda rows: np.array(rows, np.int64)))
def test_any_rows(rows: slice | np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    corpus = Corpus.of(["a", "b", "c", "d"], [["x", "y"], [], ["y"], ["x"]])
    part = corpus[rows]
    numbers = np.arange(4)[rows].tolist()
    assert part.texts is not None
    assert list(part.texts) == ["abcd"[row] for row in numbers]
    assert [part.labels_of(at) for at in range(len(part))] == [corpus.labels_of(row) for row in numbers]


def test_masks_take_along_ids_and_fields(corpus: Corpus) -> None:
    part = corpus[np.array([True, False, True, False])]
    assert part.ids is not None
    assert list(part.ids) == ["d1", "d3"]
    assert list(part.fields["year"]) == ["2001", "2003"]
    assert part.targets.shape == (2, 4)


def test_with_labels_loses_nothing(corpus: Corpus) -> None:
    training = LabelSet.of(["weather", "snow", "apple"])
    test = corpus.with_labels(training)
    assert list(test.labels.keys) == ["weather", "snow", "apple", "food", "water"]
    for row in range(len(corpus)):
        before = {corpus.labels.key(label) for label in corpus.labels_of(row)}
        assert {test.labels.key(label) for label in test.labels_of(row)} == before
    assert test.targets.has_sorted_indices
    assert corpus.with_labels(corpus.labels) is corpus


def test_with_labels_does_not_bring_unused_labels() -> None:
    corpus = Corpus.of(["x"], [["a"]], LabelSet.of(["unused", "a"]))
    assert list(corpus.with_labels(LabelSet.of(["b"])).labels.keys) == ["b", "a"]


def test_the_fingerprint_is_of_the_content(corpus: Corpus) -> None:
    assert corpus.fingerprint() == corpus[np.arange(4)].fingerprint() == replace(corpus, name="other").fingerprint()


def test_the_fingerprint_changes_when_anything_changes(corpus: Corpus) -> None:
    assert corpus.texts is not None and corpus.features is not None
    variants = [
        corpus,
        corpus[:3],
        corpus[::-1],
        replace(corpus, texts=None),
        replace(corpus, features=None),
        replace(corpus, texts=Strings.of(["red fruit", "blue sky", "rai", "n"])),
        replace(corpus, targets=label_matrix([0, 1, 2, 2], np.array([0, 2, 3, 4, 4]), 4)),
        replace(corpus, targets=label_matrix([0, 1, 2, 2, 0], np.array([0, 2, 3, 5, 5]), 4)),
        replace(corpus, labels=LabelSet.of(["apple", "food", "weather", "rain"])),
        replace(corpus, labels=corpus.labels.extend(["x"]), targets=label_matrix([0], np.array([0, 1, 1, 1, 1]), 5)),
        replace(corpus, features=corpus.features * np.float32(2)),
        replace(corpus, features=csr_array(corpus.features.toarray()[:, ::-1])),
        replace(
            corpus, features=csr_array((corpus.features.data, corpus.features.indices, corpus.features.indptr), (4, 9))
        ),
    ]
    assert len({variant.fingerprint() for variant in variants}) == len(variants)


def test_keys_with_separators_do_not_share_a_fingerprint() -> None:
    def with_keys(*keys: str) -> str:
        return Corpus(label_matrix([], np.zeros(2, int), 2), LabelSet.of(keys)).fingerprint()

    assert with_keys("a\0b", "c") != with_keys("a", "b\0c")


def test_lengths_that_do_not_match_are_errors(corpus: Corpus) -> None:
    two = Strings.of(["a", "b"])
    assert corpus.features is not None
    for wrong, message in (
        ({"texts": two}, "2 texts for 4 rows"),
        ({"ids": two}, "2 ids for 4 rows"),
        ({"fields": {"year": two}}, "2 field 'year' for 4 rows"),
        ({"features": corpus.features[:2]}, "2 features for 4 rows"),
        ({"labels": LabelSet.of(["a"])}, "4 label columns for 1 labels"),
    ):
        with pytest.raises(XmtcError, match=message):
            replace(corpus, **wrong)
    with pytest.raises(XmtcError, match="2 texts but 1 lists of labels"):
        Corpus.of(["a", "b"], [["x"]])


def test_repr_says_what_there_is(corpus: Corpus) -> None:
    assert repr(corpus) == "Corpus(corpus: 4 documents with texts and features, 4 labels)"
    assert repr(replace(corpus, texts=None, features=None)) == "Corpus(corpus: 4 documents, 4 labels)"


def test_empty_slices_stay_well_formed(corpus: Corpus) -> None:
    for empty in (corpus[3:1], corpus[2:2], corpus[[]]):
        assert len(empty) == 0
        assert empty.targets.shape == (0, 4)
    assert take_rows(corpus.targets, slice(-2, None)).shape == (2, 4)
