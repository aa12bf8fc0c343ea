"""The figures that describe a corpus, against plain Python counts."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.corpus import statistics
from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.statistics import CURVE_POINTS, WIDE_SPACES, bars, describe, histogram, word_counts
from xmtc.corpus.strings import Strings

spaced_texts = st.text(
    st.sampled_from("ab\u00c2\u3042 \t\n\x1c\x08\x85\u00a0\u2003\u200b\u205f\u3000") | st.characters(), max_size=30
)


@pytest.fixture
def train() -> Corpus:
    texts = ["red fruit", "red fruit", "blue sky today", "", " \n", "red fruit"]
    labels = LabelSet.of(["apple", "food", "weather", "unused"])
    return Corpus.of(texts, [["apple", "food"], ["apple"], ["weather"], [], [], ["apple", "food", "weather"]], labels)


def test_figures_of_a_small_corpus(train: Corpus) -> None:
    figures = describe(train)
    assert (figures.documents, figures.labels, figures.labels_used, figures.labels_unused) == (6, 4, 3, 1)
    assert figures.labels_per_document.mean == pytest.approx(7 / 6)
    assert (figures.labels_per_document.min, figures.labels_per_document.max) == (0, 3)
    assert figures.labels_per_document_histogram == {"0": 2, "1": 2, "2": 1, "3": 1}
    assert figures.documents_without_labels == 2
    assert (figures.documents_per_label.median, figures.documents_per_label.max) == (2, 3)
    assert (figures.labels_with_one_document, figures.share_below_5_documents) == (0, 1.0)
    assert figures.rank_frequency == [(1, 3), (2, 2), (3, 2)]
    assert figures.words_per_document is not None
    assert figures.words_per_document.mean == 1.5
    assert (figures.empty_texts, figures.duplicates) == (2, 2)
    assert (figures.test_documents, figures.leakage, figures.labels_only_in_test) == (None, None, None)


def test_what_test_shares_with_training(train: Corpus) -> None:
    test = Corpus.of(["red fruit", "", "green", "red  fruit"], [["new"], ["apple"], ["unused", "new"], []])
    figures = describe(train, test)
    assert figures.test_documents == 4
    assert figures.leakage == 1  # neither the empty text nor the one with another space
    assert figures.labels_only_in_test == 2  # "new", and "unused", which training only has in its label set


def test_features_without_texts() -> None:
    features = csr_array(np.array([[1.0, 0, 2.0], [0, 0, 0]], np.float32))
    figures = describe(Corpus(label_matrix([0], np.array([0, 1, 1]), 1), LabelSet.of(["a"]), features=features))
    assert (figures.features, figures.words_per_document, figures.duplicates) == (3, None, None)
    assert figures.features_per_document is not None
    assert figures.features_per_document.mean == 1.0
    named = dict(figures.rows())
    assert named["features"] == "3"
    assert "words per document" not in named


def test_a_corpus_without_labels_can_be_described() -> None:
    figures = describe(Corpus.of(["one", "two"]))
    assert (figures.labels, figures.rank_frequency, figures.share_below_5_documents) == (0, [], 0.0)
    assert figures.rows()


def test_json_and_rows(train: Corpus) -> None:
    figures = describe(train, train)
    plain = json.loads(json.dumps(figures.to_json()))
    assert plain["words_per_document"]["max"] == 3
    assert plain["labels_unused"] == 1
    assert dict(figures.rows())["test documents also in training"] == "4 (66.7%)"


def test_the_curve_is_short_and_keeps_its_ends() -> None:
    labels = 5000
    indices = np.concatenate([np.arange(labels), np.zeros(300, int)])
    corpus = Corpus(label_matrix(indices, np.arange(len(indices) + 1), labels), LabelSet.of(map(str, range(labels))))
    curve = describe(corpus).rank_frequency
    assert len(curve) <= CURVE_POINTS
    assert (curve[0], curve[-1]) == ((1, 301), (labels, 1))


@given(st.lists(spaced_texts, max_size=8), st.integers(1, 40))
def test_words_are_counted_as_split_counts_them(texts: list[str], piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "PIECE_BYTES", piece)
        column = Strings.of(texts)
        assert word_counts(column).tolist() == [len(text.split()) for text in column]
        assert word_counts(column[::-1]).tolist() == [len(text.split()) for text in column[::-1]]


def test_all_wide_spaces_are_known() -> None:
    everything = map(chr, range(128, sys.maxunicode + 1))
    assert "".join(character for character in everything if character.isspace()) == WIDE_SPACES


@given(st.lists(st.integers(0, 300), max_size=80), st.integers(1, 20))
def test_histogram_counts_everything_once(values: list[int], bins: int) -> None:
    counted = histogram(np.array(values, np.int64), bins)
    assert sum(counted.values()) == len(values)
    assert len(counted) <= bins
    for name, count in counted.items():
        low, _, high = name.rstrip("+").partition("-")
        top = sys.maxsize if name.endswith("+") else int(high or low)
        assert count == sum(int(low) <= value <= top for value in values)


def test_bars_show_slivers_and_nothing() -> None:
    lines = bars([800, 1, 0], ["1", "20", "300"], width=10).splitlines()
    assert lines == ["  1 ██████████ 800", " 20 ▏ 1", "300 0"]
    assert bars([], []) == ""
    assert bars([0], ["0"]) == "0 0"
