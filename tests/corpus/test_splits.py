"""Splits: sizes, seeds, groups that stay together, and labels that reach both sides."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus import splits
from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.splits import RowNumbers, SplitMethod, fold_rows, split_rows
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError

METHODS: list[SplitMethod] = ["random", "stratified", "key", "blocks"]

label_lists = st.lists(st.lists(st.integers(0, 12), max_size=5, unique=True), min_size=4, max_size=40)


def corpus_of(label_ids: list[list[int]], groups: list[str] | None = None) -> Corpus:
    indptr = np.cumsum([0, *map(len, label_ids)])
    targets = label_matrix([label for row in label_ids for label in row], indptr, 13)
    fields = {"group": Strings.of(groups if groups is not None else [str(row // 2) for row in range(len(label_ids))])}
    return Corpus(targets, LabelSet.of(map(str, range(13))), fields=fields)


@pytest.fixture(scope="module")
def long_tail() -> Corpus:
    """2,000 documents whose 500 labels have a Zipf-like frequency, as they have in life."""
    rng = np.random.default_rng(5)
    probabilities = 1 / np.arange(1, 501)
    sizes = rng.integers(1, 6, 2000)
    indices = rng.choice(500, sizes.sum(), p=probabilities / probabilities.sum())
    targets = label_matrix(indices, np.concatenate([[0], np.cumsum(sizes)]), 500)
    group = Strings.of(str(number) for number in rng.integers(0, 300, 2000))
    return Corpus(targets, LabelSet.of(map(str, range(500))), fields={"group": group})


def key_for(method: SplitMethod) -> str | None:
    return "group" if method == "key" else None


def assert_partition(parts: list[RowNumbers], documents: int) -> None:
    assert sorted(np.concatenate(parts).tolist()) == list(range(documents))
    for part in parts:
        assert part.dtype == np.int64
        assert np.all(np.diff(part) > 0)
        assert len(part)


@pytest.mark.parametrize("method", METHODS)
@given(label_ids=label_lists, seed=st.integers(0, 99), k=st.integers(2, 4))
def test_parts_are_a_partition(method: SplitMethod, label_ids: list[list[int]], seed: int, k: int) -> None:
    corpus = corpus_of(label_ids, [str(row % 4) for row in range(len(label_ids))])
    folds = list(fold_rows(corpus, k, seed=seed, method=method, key=key_for(method)))
    assert_partition([test for _, test in folds], len(corpus))
    for train, test in folds:
        assert_partition([train, test], len(corpus))
    try:
        assert_partition(list(split_rows(corpus, 1, seed=seed, method=method, key=key_for(method))), len(corpus))
    except XmtcError as error:  # every document is the only one of some label
        assert "each label must keep a document" in str(error)


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_rows_and_another_seed_others(method: SplitMethod, long_tail: Corpus) -> None:
    def rows(seed: int) -> list[int]:
        return list(split_rows(long_tail, 0.2, seed=seed, method=method, key=key_for(method))[1])

    def folds(seed: int) -> list[list[int]]:
        pairs = fold_rows(long_tail, 3, seed=seed, method=method, key=key_for(method))
        return [test.tolist() for _, test in pairs]

    assert rows(1) == rows(1) != rows(2)
    assert folds(1) == folds(1) != folds(2)


@pytest.mark.parametrize("method", METHODS[:3])
def test_sizes_are_as_requested(method: SplitMethod, long_tail: Corpus) -> None:
    for test, size in ((0.1, 200), (0.5, 1000), (1, 1), (333, 333)):
        assert len(split_rows(long_tail, test, method=method, key=key_for(method))[1]) == size
    sizes = [len(test) for _, test in fold_rows(long_tail, 7, method=method, key=key_for(method))]
    assert max(sizes) - min(sizes) <= 1


@given(label_ids=label_lists, seed=st.integers(0, 99), test=st.floats(0.2, 0.8))
def test_stratified_keeps_each_label_in_the_rest(label_ids: list[list[int]], seed: int, test: float) -> None:
    corpus = corpus_of(label_ids)
    try:
        rest, held_out = split_rows(corpus, test, seed=seed, method="stratified")
    except XmtcError as error:
        assert "each label must keep a document" in str(error)
        return
    assert len(held_out) == round(test * len(corpus))
    assert np.all(corpus[rest].label_counts[corpus.label_counts > 0] > 0)


def test_stratified_says_how_many_documents_it_can_set_aside() -> None:
    corpus = corpus_of([[0], [1], [2], [3], [4], [4]])
    assert len(split_rows(corpus, 1, method="stratified")[1]) == 1
    with pytest.raises(XmtcError, match=r"only 1 of the 2 documents .* ask for at most 1, or take method='random'"):
        split_rows(corpus, 2, method="stratified")


def test_frequent_labels_have_their_share(long_tail: Corpus) -> None:
    counts = long_tail.label_counts
    frequent = counts >= 50
    held_out = long_tail[split_rows(long_tail, 0.2, method="stratified")[1]].label_counts
    assert np.abs(held_out[frequent] / counts[frequent] - 0.2).max() < 0.05
    for _, test in fold_rows(long_tail, 5, method="stratified"):
        assert np.abs(long_tail[test].label_counts[frequent] / counts[frequent] - 0.2).max() < 0.05


def test_rare_labels_reach_test_in_their_share(long_tail: Corpus) -> None:
    """The paper's fractional desired counts would leave labels of 2 to 4 documents out of a small test part."""
    counts = long_tail.label_counts
    rare = (counts >= 2) & (counts <= 4)
    shares = []
    for seed in range(5):
        held_out = long_tail[split_rows(long_tail, 0.1, seed=seed, method="stratified")[1]].label_counts
        shares.append(held_out[rare].sum() / counts[rare].sum())
    assert 0.07 < np.mean(shares) < 0.15


def test_labels_of_two_documents_are_in_different_folds(long_tail: Corpus) -> None:
    pairs = long_tail.label_counts == 2
    for train, _ in fold_rows(long_tail, 5, method="stratified"):
        assert np.all(long_tail[train].label_counts[pairs] >= 1)


@pytest.mark.parametrize("seed", range(3))
def test_stratified_is_nearer_to_the_label_distribution_than_random(long_tail: Corpus, seed: int) -> None:
    counts = long_tail.label_counts
    several = counts >= 2

    def distance(test: RowNumbers) -> float:
        shares = long_tail[test].label_counts[several] / counts[several]
        return float(np.abs(shares - len(test) / len(long_tail)).mean())

    at_random, stratified = (split_rows(long_tail, 0.2, seed=seed, method=m)[1] for m in ("random", "stratified"))
    assert distance(stratified) < 0.75 * distance(at_random)
    random_folds, stratified_folds = (
        [distance(test) for _, test in fold_rows(long_tail, 5, seed=seed, method=m)] for m in ("random", "stratified")
    )
    assert np.mean(stratified_folds) < 0.75 * np.mean(random_folds)


@given(sizes=st.lists(st.integers(1, 12), min_size=2, max_size=7), seed=st.integers(0, 99), share=st.floats(0.05, 0.95))
def test_groups_stay_together_and_come_as_near_as_can_be(sizes: list[int], seed: int, share: float) -> None:
    groups = [str(group) for group, size in enumerate(sizes) for _ in range(size)]
    corpus = corpus_of([[] for _ in groups], groups)
    size = min(max(1, round(share * len(groups))), len(groups) - 1)
    rest, test = split_rows(corpus, size, seed=seed, method="key", key="group")
    assert not {groups[row] for row in rest} & {groups[row] for row in test}
    sums = [sum(some) for n in range(1, len(sizes)) for some in combinations(sizes, n)]
    assert abs(len(test) - size) == min(abs(total - size) for total in sums)


def test_large_test_parts_are_drawn_at_random_first(monkeypatch: pytest.MonkeyPatch, long_tail: Corpus) -> None:
    monkeypatch.setattr(splits, "EXACT_SEARCH", 20)
    rest, test = split_rows(long_tail, 700, method="key", key="group")
    assert len(test) == 700
    assert not set(long_tail.fields["group"][rest]) & set(long_tail.fields["group"][test])


def test_documents_can_be_grouped_by_id() -> None:
    corpus = Corpus(label_matrix([], np.zeros(5, int), 0), LabelSet.of([]), ids=Strings.of(["a", "a", "b", "b"]))
    rest, test = split_rows(corpus, 2, method="key", key="id")
    assert {*map(tuple, (rest.tolist(), test.tolist()))} == {(0, 1), (2, 3)}


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (0, "from 1 to 3"),
        (4, "from 1 to 3"),
        (-1, "from 1 to 3"),
        (1.0, "for a number of documents give a whole number"),
        (0.0, "no fraction between 0 and 1"),
        (float("nan"), "no fraction between 0 and 1"),
        (True, "no fraction"),
        (0.01, "leaves one side empty"),
        (0.99, "leaves one side empty"),
    ],
)
def test_impossible_sizes_say_what_to_do(test: float, message: str) -> None:
    with pytest.raises(XmtcError, match=message):
        split_rows(Corpus.of(list("abcd")), test)


@pytest.mark.parametrize(("documents", "size"), [(20_000, 50), (1_000, 10), (30, 1)])
def test_blocks_stay_together(documents: int, size: int) -> None:
    corpus = corpus_of([[row % 13] for row in range(documents)])
    rest, held_out = split_rows(corpus, 0.2, method="blocks")
    assert len(held_out) == documents // 5
    assert not {*(rest // size).tolist()} & {*(held_out // size).tolist()}
    assert len({*(held_out // size).tolist()}) > 5


def test_impossible_requests_say_what_to_do() -> None:
    corpus = corpus_of([[0], [1], [0], [1]])
    with pytest.raises(XmtcError, match="random, stratified, key"):
        split_rows(corpus, 0.5, method="best")  # type: ignore[arg-type]
    with pytest.raises(XmtcError, match="method='key' and key="):
        split_rows(corpus, 0.5, key="group")
    with pytest.raises(XmtcError, match="method='key' and key="):
        split_rows(corpus, 0.5, method="key")
    with pytest.raises(XmtcError, match=r"no field 'year' .*'group'.* keep=\['year'\]"):
        split_rows(corpus, 0.5, method="key", key="year")
    with pytest.raises(XmtcError, match="fields there are: none"):
        split_rows(Corpus.of(list("ab")), 0.5, method="key", key="id")
    with pytest.raises(XmtcError, match="take another key"):
        split_rows(corpus_of([[], []], ["same", "same"]), 0.5, method="key", key="group")
    with pytest.raises(XmtcError, match="give at least 2"):
        split_rows(Corpus.of(["one"]), 0.5)
    with pytest.raises(XmtcError, match="take 2 to 4"):
        fold_rows(corpus, 5)
    with pytest.raises(XmtcError, match="take at most 2"):
        fold_rows(corpus, 3, method="key", key="group")


def test_corpus_methods_hand_on(long_tail: Corpus) -> None:
    rest, test = long_tail.split(0.25, seed=3, method="stratified")
    assert (len(rest), len(test)) == (1500, 500)
    assert sum(len(test) for _, test in long_tail.folds(4)) == 2000
