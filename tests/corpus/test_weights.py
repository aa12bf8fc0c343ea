"""Weights of documents and labels: what is taken, what is refused, and how they follow documents and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.corpus.weights import document_weights, label_weights, read_label_weights
from xmtc.errors import BadInput, XmtcError

LABELS = LabelSet.of(["a", "b", "c"], names=["Apple", "Berry", "Berry"])


@pytest.fixture
def corpus() -> Corpus:
    return Corpus.of(["one", "two", "three"], [["a", "b"], ["c"], []], LABELS)


@pytest.mark.parametrize(
    "values", [[1, 2.5, 0], ("1", "2.5", "0"), np.array([1, 2.5, 0]), Strings.of(["1", "2.5", "0"])]
)
def test_numbers_of_documents(values: Any) -> None:
    found = document_weights(values, 3)
    assert found.dtype == np.float32
    assert found.tolist() == [1, 2.5, 0]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([1, 2], "2 weights for 3 documents"),
        ([1, -1, 1], r"the weight of document 1 \(from 0\) is -1; a finite number from 0"),
        ([1, 1, float("nan")], r"document 2 \(from 0\) is nan"),
        ([1, None, 1], r"document 1 \(from 0\) is nan"),
        ([1, 1, float("inf")], "is inf"),
        ([1, 1, 1e300], "is 1e"),
        ([1, "heavy", 1], r"document 1 \(from 0\) is the str 'heavy', not a number"),
        ([0, 0, 0], "all weights are 0"),
        ([[1], [2], [3]], "document 0"),
        (np.ones((3, 2)), "document 0"),
        ("111", "a list or array of numbers is needed"),
        (3, "a list or array of numbers is needed"),
    ],
)
def test_bad_weights_of_documents(values: Any, problem: str) -> None:
    with pytest.raises(XmtcError, match=problem):
        document_weights(values, 3)


def test_a_document_is_called_by_its_id() -> None:
    with pytest.raises(XmtcError, match="weight: the weight of document 'd2' is -1"):
        document_weights([1, -1], Strings.of(["d1", "d2"]), "weight")


def test_weights_of_labels_by_key_or_name() -> None:
    assert label_weights({"a": 2}, LABELS).tolist() == [2, 1, 1]
    assert label_weights({"Berry": 3, "Apple": 0.5}, LABELS).tolist() == [0.5, 3, 3]
    assert label_weights([1, 2, 3], LABELS).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"Bery": 2}, "label_weights: there is no label 'Bery'; did you mean 'Berry'"),
        ({"a": 0}, "the weight of 'Apple' is 0; a number above 0"),
        ({"a": float("nan")}, "the weight of 'Apple' is nan"),
        ({"a": "much"}, "the weight of 'a' is the str 'much', not a number"),
        ([1, 2], "2 weights for 3 labels"),
        ([1, 2, 1e-60], "a number above 0"),
    ],
)
def test_bad_weights_of_labels(values: Any, problem: str) -> None:
    with pytest.raises(XmtcError, match=problem):
        label_weights(values, LABELS)


def test_weights_follow_documents_and_labels(corpus: Corpus) -> None:
    weighted = corpus.with_weights([1, 2, 3], {"c": 5})
    part = weighted[[2, 1]]
    assert part.document_weights is not None
    assert part.document_weights.tolist() == [3, 2]
    other = weighted.with_labels(LabelSet.of(["x", "c"]))
    assert other.label_weights is not None
    assert dict(zip(other.labels.keys, other.label_weights.tolist(), strict=True)) == {"x": 1, "c": 5, "a": 1, "b": 1}
    assert weighted.weighted_targets.toarray().tolist() == [[1, 1, 0], [0, 0, 2], [0, 0, 0]]
    assert corpus.targets.toarray().max() == 1


def test_the_fingerprint_of_weights_tells_them_apart(corpus: Corpus) -> None:
    assert corpus.weights_fingerprint() is None
    given = [([1, 2, 3], None), ([1, 2, 4], None), (None, [1, 2, 3]), ([1, 2, 3], [1, 2, 3])]
    found = {corpus.with_weights(*each).weights_fingerprint() for each in given}
    assert len(found) == 4
    assert {corpus.with_weights(*each).fingerprint() for each in given} == {corpus.fingerprint()}


def test_label_weights_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "weights.tsv"
    file.write_text("label\tweight\nApple pie\t2\n\nb\t0.5\n")
    assert read_label_weights(file) == {"Apple pie": 2, "b": 0.5}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a 2\n", ":1: no label and weight with a tab between them; a line for each label"),
        ("a\t2\nb\tmuch\n", ":2: the weight of 'b' is 'much', not a number"),
        ("a\t2\na\t3\n", ":2: the label 'a' is there twice"),
        ("\t3\n", ":1: no label"),
        ("label\tweight\n", "there is no weight in it"),
    ],
)
def test_bad_files_of_label_weights(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "weights.tsv"
    file.write_text(content)
    with pytest.raises(BadInput, match=problem):
        read_label_weights(file)
