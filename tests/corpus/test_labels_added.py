"""Labels of another set come with what is known about them."""

from __future__ import annotations

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet

MORE = LabelSet.of(
    ["a", "b", "c"],
    names=["Animals", "Birds", ""],
    descriptions=["", "they fly", ""],
    alternatives=[[], ["avians", "fowl"], []],
    parents=[[], ["a"], ["b"]],
)


def test_names_descriptions_alternatives_and_parents_come_along() -> None:
    known = LabelSet.of(["x", "a"], parents=[["a"], []]).with_counts(np.array([3, 4]))
    both = known.extend_by(MORE, np.array([1, 2]))
    assert list(both.keys) == ["x", "a", "b", "c"]
    assert [both.name(at) for at in range(4)] == ["x", "a", "Birds", "c"]
    assert (both.description(2), both.alternatives(2), both.alternatives(0)) == ("they fly", ["avians", "fowl"], [])
    assert [both.parents_of(at) for at in range(4)] == [[1], [], [1], [2]]
    assert both.counts is not None
    assert both.counts.tolist() == [3, 4, 0, 0]
    assert both.index("c") == 3


def test_what_the_other_set_does_not_know_is_left_out() -> None:
    both = LabelSet.of(["x"], names=["Ex"]).extend_by(LabelSet.of(["y"]), np.array([0]))
    assert [both.name(at) for at in range(2)] == ["Ex", "y"]
    lonely = LabelSet.of(["x"]).extend_by(MORE, np.array([1]))
    assert lonely.parents_of(1) == [], "its parent is not there"
    with pytest.raises(ValueError, match="known already"):
        LabelSet.of(["a"]).extend_by(MORE, np.array([0]))


def test_a_corpus_brings_its_names_to_a_model_that_lacks_them() -> None:
    corpus = Corpus.of(["tweet"], [["b"]], MORE).with_labels(LabelSet.of(["z"]))
    assert corpus.labels.name(corpus.labels_of(0)[0]) == "Birds"
    assert len(corpus.labels) == 2, "labels that no document has stay behind"
