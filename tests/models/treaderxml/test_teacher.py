"""Teacher knowledge against sets: Algorithm 1, descriptions, and that nobody is told the own labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmtc.corpus.corpus import label_matrix
from xmtc.corpus.labels import Csr, LabelSet
from xmtc.corpus.strings import Strings
from xmtc.labelspace.tree import LabelTree
from xmtc.models.treaderxml.teacher import Strongest, Teacher, first_words, knowledge
from xmtc.search.neighbours import Neighbours
from xmtc.text.word_tokenizer import WordTokenizer

TOKENIZER = WordTokenizer.train(Strings.of(["animals birds of prey fish food safety sea sky"]))
NAMES = TOKENIZER.words
LABELS = 6
tags = st.lists(st.sets(st.integers(0, LABELS - 1), max_size=3), min_size=2, max_size=7)
#: A parent has a higher number, so there is no cycle.
above = st.lists(st.sets(st.integers(1, 5)), min_size=LABELS, max_size=LABELS).map(
    lambda sets: [{at + step for step in each if at + step < LABELS} for at, each in enumerate(sets)]
)


def matrix(rows: list[set[int]], width: int) -> Csr:
    flat = [sorted(row) for row in rows]
    return label_matrix([at for row in flat for at in row], np.cumsum([0, *map(len, flat)]), width)


def teacher_of(parents: list[set[int]]) -> Teacher:
    return Teacher(np.ones((LABELS, 2), np.int32), matrix(parents, LABELS))


def nobody(rows: Csr) -> Any:
    raise AssertionError("no label needs the words of its documents")


@settings(deadline=None)
@given(tags, above)
def test_algorithm_1_as_printed(rows: list[set[int]], parents: list[set[int]]) -> None:
    found = teacher_of(parents).carried(matrix(rows, LABELS), parentless=False).toarray()
    for row, own in enumerate(rows):
        expected: set[int] = set()
        for label in range(LABELS):
            if label in own and parents[label]:
                expected |= {label} | parents[label]
        assert {*np.flatnonzero(found[row]).tolist()} == expected
        assert set(found[row].tolist()) <= {0.0, 1.0}


@settings(deadline=None)
@given(tags, above)
def test_algorithm_1_with_labels_without_parents(rows: list[set[int]], parents: list[set[int]]) -> None:
    found = teacher_of(parents).carried(matrix(rows, LABELS)).toarray()
    for row, own in enumerate(rows):
        expected = own | {parent for at in own for parent in parents[at]}
        assert {*np.flatnonzero(found[row]).tolist()} == expected
        assert set(found[row].tolist()) <= {0.0, 1.0}


@settings(deadline=None)
@given(tags, above, st.data())
def test_knowledge_is_the_union_over_neighbours_and_never_depends_on_the_own_labels(
    rows: list[set[int]], parents: list[set[int]], data: Any
) -> None:
    count = len(rows)
    others = [[at for at in range(count) if at != row] for row in range(count)]
    chosen = [data.draw(st.lists(st.sampled_from(each), max_size=3, unique=True)) for each in others]
    ids = np.array([each + [-1] * (3 - len(each)) for each in chosen], np.int32)
    near = Neighbours(ids, np.where(ids < 0, 0, [0.9, 0.5, 0.25]).astype(np.float32))
    teacher = teacher_of(parents)

    def known(rows: list[set[int]], weighted: bool) -> Any:
        weights = near.similarities if weighted else np.ones_like(near.similarities)
        return knowledge(near.matrix(weights, count), teacher.carried(matrix(rows, LABELS)), weighted).toarray()

    told = [own | {parent for at in own for parent in parents[at]} for own in rows]
    plain, weighed = known(rows, False), known(rows, True)
    for row in range(count):
        for label in range(LABELS):
            who = [place for place, other in enumerate(chosen[row]) if label in told[other]]
            assert plain[row, label] == (len(who) > 0), "each label once"
            assert weighed[row, label] == pytest.approx(sum([0.9, 0.5, 0.25][place] for place in who), abs=1e-6)
    for row in range(count):
        changed = [own if at != row else {0, 5} for at, own in enumerate(rows)]
        np.testing.assert_array_equal(known(changed, False)[row], plain[row])


def test_names_and_descriptions() -> None:
    labels = LabelSet.of(
        ["a", "b", "c"],
        names=["Birds", "", "Fish: unheard!"],
        descriptions=["of prey and sky", "Sea, sky", ""],
        parents=[[], ["a"], []],
    )
    teacher = Teacher.of(labels, TOKENIZER, 3, nobody)
    assert [teacher.description(at, NAMES) for at in range(3)] == ["birds of prey", "sea sky", "fish"]
    assert teacher.fallbacks == ()
    assert teacher.parents.toarray()[1].tolist() == [1, 0, 0]


def test_keys_that_are_words_are_names() -> None:
    labels = LabelSet.of(["food-safety", "sea:unheard", "gnd:4711-0", "123"], parents=[[], [], [], ["gnd:4711-0"]])
    teacher = Teacher.of(labels, TOKENIZER, 2, lambda rows: np.full((rows.shape[0], 2), 5, np.int32))
    strongest = f"{NAMES[5]} {NAMES[5]}"
    assert [teacher.description(at, NAMES) for at in range(4)] == ["food safety", "sea", strongest, strongest]
    assert "2 of 4 labels have no name" in teacher.fallbacks[0]


def test_clusters_stand_in_for_a_hierarchy() -> None:
    labels = LabelSet.of(["birds", "fish", "sky"])
    vectors = matrix([{2, 3}, {3, 4}, {6}], len(TOKENIZER)).astype(np.float32)
    vectors.data[:2] = 0.5
    clusters = LabelTree.of([[[0, 1]], [[0, 1], [2]]]).levels[-1]
    teacher = Teacher.of(labels, TOKENIZER, 2, Strongest(vectors, 2), clusters)
    assert len(teacher) == 5
    assert teacher.parents.toarray().tolist() == [[0, 0, 0, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    assert teacher.words[3].tolist() == [3, 4], "the sum of its labels' vectors; word 3 is in both"
    assert teacher.words[4].tolist() == [6, 0]
    assert "no hierarchy" in teacher.fallbacks[-1]


def test_an_empty_hierarchy_is_none() -> None:
    labels = LabelSet(Strings.of(["birds", "fish"]), parents=matrix([set(), set()], 2))
    teacher = Teacher.of(labels, TOKENIZER, 2, lambda rows: np.zeros((1, 2), np.int32), matrix([{0, 1}], 2))
    assert teacher.parents.toarray().tolist() == [[0, 0, 1], [0, 0, 1]]


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=6), st.integers(1, 4))
def test_first_words(documents: list[list[int]], most: int) -> None:
    from xmtc.text.token_store import TokenStore

    found = first_words(TokenStore.of(documents), most).tolist()
    known = [[word for word in document if word >= 2][:most] for document in documents]
    assert found == [words + [0] * (most - len(words)) for words in known]


def test_stored_arrays_are_checked() -> None:
    teacher = teacher_of([{1}, set(), set(), set(), set(), set()])
    arrays: dict[str, Any] = teacher.to_arrays()
    again = Teacher.from_arrays(arrays, LABELS, 9)
    np.testing.assert_array_equal(again.parents.toarray(), teacher.parents.toarray())
    words = arrays["words"]
    for irrelevant in (
        {"words": words[:-1]},
        {"words": words.astype(float)},
        {"words": words + 9},
        {"words": words - 2},
        {"words": words[:, :0]},
        {"indices": arrays["indices"] + 6},
        {"indptr": arrays["indptr"][1:]},
    ):
        with pytest.raises(ValueError, match=r"descriptions|column|arrays"):
            Teacher.from_arrays({**arrays, **irrelevant}, LABELS, 9)
