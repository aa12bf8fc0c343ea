"""Label sets: ids that stay, hierarchies without cycles, storage that loses nothing."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError


@pytest.fixture
def animals() -> LabelSet:
    return LabelSet.of(
        ["a", "b", "f", "d"],
        names=["Animals", "Birds", "Flyers", ""],
        descriptions=["", "feathered", "", ""],
        alternatives=[["beasts", "fauna"], [], [], []],
        parents=[[], ["a"], ["a"], ["b", "f"]],
    )


def test_lookups(animals: LabelSet) -> None:
    assert (animals.index("b"), animals.index("Birds")) == (1, -1)
    assert (animals.find("b"), animals.find("Birds")) == (1, 1)
    assert (animals.key(1), animals.name(1), animals.description(1)) == ("b", "Birds", "feathered")
    assert animals.name(3) == "d"
    assert (animals.alternatives(0), animals.alternatives(1)) == (["beasts", "fauna"], [])
    assert repr(animals) == "LabelSet(4 labels)"


def test_a_plain_set_has_empty_extras() -> None:
    plain = LabelSet.of(["a"])
    assert (plain.name(0), plain.description(0), plain.alternatives(0)) == ("a", "", [])
    assert plain.parents_of(0) == []


def test_find_prefers_keys_to_names_and_the_first_of_equal_names() -> None:
    labels = LabelSet.of(["a", "b", "c"], names=["b", "same", "same"])
    assert labels.find("b") == 1
    assert labels.find("same") == 1


def test_find_suggests_close_names(animals: LabelSet) -> None:
    with pytest.raises(XmtcError, match="there is no label 'Brids'; did you mean 'Birds'"):
        animals.find("Brids")
    with pytest.raises(XmtcError, match=r"there is no label 'zzz'; give the key or the name of a label$"):
        animals.find("zzz")


def test_find_suggests_a_key_where_a_label_has_no_name() -> None:
    labels = LabelSet.of(["economics", "law"], names=["", "Law"])
    with pytest.raises(XmtcError, match="did you mean 'economics'"):
        labels.find("economic")
    with pytest.raises(XmtcError, match="no label ''"):
        labels.find("")


def test_several_parents(animals: LabelSet) -> None:
    assert animals.parents_of(3) == [1, 2]
    assert animals.path(3) == "Animals › Birds › d"


def test_duplicate_keys_are_an_error() -> None:
    with pytest.raises(XmtcError, match="'a' occurs twice"):
        LabelSet.of(["a", "b", "a"])


def test_an_unknown_parent_is_named() -> None:
    with pytest.raises(KeyError, match="zoo"):
        LabelSet.of(["a"], parents=[["zoo"]])


@pytest.mark.parametrize(
    "parents",
    [
        [["a"], [], []],
        [["b"], ["a"], []],
        [["b"], ["c"], ["a"]],
        [[], ["c"], ["b"]],
    ],
)
def test_cycles_are_shown(parents: list[list[str]]) -> None:
    with pytest.raises(XmtcError, match=r"has a cycle: (\w)( > \w)* > \1; a label cannot be its own ancestor"):
        LabelSet.of(["a", "b", "c"], parents=parents)


def test_a_diamond_is_no_cycle() -> None:
    LabelSet.of(["a", "b", "c", "d"], parents=[["b", "c"], ["d"], ["d"], []])


def test_a_long_chain_needs_no_recursion() -> None:
    size = 20_000
    keys = [str(i) for i in range(size)]
    chain = LabelSet.of(keys, parents=[[], *([key] for key in keys[:-1])])
    assert chain.path(size - 1) == " › ".join(keys)


def test_extend_keeps_ids(animals: LabelSet) -> None:
    counted = animals.with_counts(np.array([4, 3, 2, 1]))
    wider = counted.extend(["x", "b", "y", "x"])
    assert list(wider.keys) == ["a", "b", "f", "d", "x", "y"]
    assert [wider.name(i) for i in (1, 4)] == ["Birds", "x"]
    assert (wider.description(1), wider.description(5), wider.alternatives(0)) == ("feathered", "", ["beasts", "fauna"])
    assert (wider.parents_of(3), wider.parents_of(5)) == ([1, 2], [])
    assert wider.counts is not None
    assert wider.counts.tolist() == [4, 3, 2, 1, 0, 0]
    assert animals.extend(["a", "d"]) is animals


def test_with_counts_leaves_the_original_alone(animals: LabelSet) -> None:
    counted = animals.with_counts(np.array([1, 2, 3, 4]))
    assert animals.counts is None
    assert counted == animals
    with pytest.raises(ValueError, match="1 counts for 4 labels"):
        animals.with_counts(np.array([1]))


def test_arrays_round_trip(animals: LabelSet) -> None:
    for labels in (animals, animals.with_counts(np.array([1, 2, 3, 4])), LabelSet.of([]), LabelSet.of(["only"])):
        arrays = labels.to_arrays()
        assert not any(array.dtype.hasobject for array in arrays.values())
        back = LabelSet.from_arrays(arrays)
        assert back == labels
        assert (back.counts is None) == (labels.counts is None)
        if labels.counts is not None and back.counts is not None:
            assert back.counts.tolist() == labels.counts.tolist()
    with pytest.raises(KeyError, match="keys"):
        LabelSet.from_arrays({})


@given(st.lists(st.text(), unique=True, max_size=10), st.lists(st.text(), max_size=10))
def test_any_keys_round_trip(keys: list[str], more: list[str]) -> None:
    labels = LabelSet.of(keys).extend(more)
    assert list(labels.keys) == list(dict.fromkeys([*keys, *more]))
    assert LabelSet.from_arrays(labels.to_arrays()) == labels
    assert [labels.index(key) for key in labels.keys] == list(range(len(labels)))


def test_sets_that_differ_are_not_equal(animals: LabelSet) -> None:
    assert animals != LabelSet.of(["a", "b", "f", "d"])
    assert animals != animals.extend(["x"])
    assert animals != "animals"
    with pytest.raises(TypeError):
        hash(animals)


def test_equal_whatever_is_left_out(animals: LabelSet) -> None:
    plain = LabelSet.of(["a", "b"])
    assert plain == LabelSet.of(["a", "b"], names=["", "b"], descriptions=["", ""], alternatives=[[], []])
    assert plain != LabelSet.of(["a", "b"], names=["", "B"])
    assert plain != LabelSet.of(["a", "b"], parents=[[], ["a"]])
    assert plain != LabelSet.of(["a", "c"])
    assert animals != LabelSet.of(["a", "b", "f", "d"], parents=[[], ["a"], ["a"], ["b"]])


def test_a_large_hierarchy_is_checked_quickly() -> None:
    """A model with a million labels must open in half a second, so no Python code may look at each label."""
    size = 300_000
    labels = LabelSet.of(map(str, range(size)))
    arrays = labels.to_arrays() | {
        "parents.indices": np.arange(size - 1, dtype=np.int32),  # one long chain
        "parents.indptr": np.concatenate([[0], np.arange(size)]),
    }
    start = time.perf_counter()
    LabelSet.from_arrays(arrays)
    assert time.perf_counter() - start < 1
