"""Lists of several models become one: the table, the weights and the choice, each against something plain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.evaluation.ranking import RankingMetrics
from xmtc.models.ensemble import stacking
from xmtc.models.ensemble.holdout import Holdout
from xmtc.models.ensemble.stacking import BAND_L2, L2, Stack, Table, choose, is_relevant, ndcg
from xmtc.predictions import Predictions, ScoreKind

LABELS = 9
NAMES = LabelSet.of(map(str, range(LABELS)))

one_list = st.lists(
    st.tuples(st.integers(0, LABELS - 1), st.floats(-2, 2, width=32)), max_size=6, unique_by=lambda e: e[0]
)


def predictions(rows: list[list[tuple[int, float]]], k: int = 6) -> Predictions:
    ids, scores = np.full((len(rows), k), -1, np.int32), np.zeros((len(rows), k), np.float32)
    for row, entries in enumerate(rows):
        for place, (label, score) in enumerate(entries):
            ids[row, place], scores[row, place] = label, score
    return Predictions.sorted(ids, scores, NAMES)


@settings(max_examples=40)
@given(
    st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(one_list, min_size=n, max_size=n), min_size=1, max_size=3))
)
def test_table_has_every_listed_label_once(members: list[list[list[tuple[int, float]]]]) -> None:
    lists = [predictions(rows) for rows in members]
    table = Table.of(lists)
    found = {(d, c): at for at, (d, c) in enumerate(zip(table.document.tolist(), table.label.tolist(), strict=True))}
    assert len(found) == len(table)
    assert list(found) == sorted(found)
    assert set(found) == {(d, c) for part in lists for d, row in enumerate(part.ids.tolist()) for c in row if c >= 0}
    for member, part in enumerate(lists):
        listed: dict[tuple[int, int], int] = {}
        for document, row in enumerate(part.ids.tolist()):
            listed |= {(document, label): place for place, label in enumerate(row) if label >= 0}
        for pair, at in found.items():
            assert table.rank[at, member] == listed.get(pair, -1)
            if pair in listed:
                assert table.score[at, member] == part.scores[pair[0], listed[pair]]
            else:
                assert np.isnan(table.score[at, member])


@settings(max_examples=40)
@given(st.lists(one_list, min_size=1, max_size=5), st.data())
def test_ndcg_is_that_of_the_evaluation(rows: list[list[tuple[int, float]]], data: st.DataObject) -> None:
    tags = data.draw(st.lists(st.sets(st.integers(0, LABELS + 1)), min_size=len(rows), max_size=len(rows)))
    valid = Corpus.of(["..."] * len(rows), [[*map(str, sorted(row))] for row in tags], NAMES)
    top = predictions(rows)
    table = Table.of([top])
    metrics = RankingMetrics.of(top, valid)
    found = ndcg(table, table.score[:, 0], valid.targets)
    np.testing.assert_allclose(found, metrics.per_document("nDCG@5")[0], atol=1e-9)
    assert is_relevant(table, valid.targets).sum() == metrics.hits.sum()
    ids, scores = table.top(table.score[:, 0], top.k)
    np.testing.assert_array_equal(ids, top.ids)
    np.testing.assert_array_equal(scores, top.scores)


@pytest.mark.needs("sklearn")
def test_weights_of_one_group_are_those_of_a_ridge_logistic_regression() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(size=(400, 3)), np.ones(400)])
    relevant = rng.random(400) < 1 / (1 + np.exp(-features @ [1.0, -2.0, 0.5, -1.0]))
    (found,) = stacking._logistic([(features, relevant)])
    # Common weights and a group's own share the penalty; the offset is free, since the common one is.
    penalty = L2 * BAND_L2 / (L2 + BAND_L2)
    expected = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=1000).fit(features[:, :-1], relevant)
    np.testing.assert_allclose(found, [*expected.coef_[0], expected.intercept_[0]], atol=1e-3)


def test_groups_differ_as_far_as_their_data_ask_for() -> None:
    rng = np.random.default_rng(1)
    groups = []
    for slope, size in ((3.0, 2000), (0.5, 2000), (-3.0, 2)):
        x = np.column_stack([rng.normal(size=size), np.ones(size)])
        groups.append((x, rng.random(size) < 1 / (1 + np.exp(-slope * x[:, 0]))))
    first, second, rare = stacking._logistic(groups)[:, 0]
    assert first == pytest.approx(3.0, abs=0.5)
    assert second == pytest.approx(0.5, abs=0.2)
    assert rare > 0, "two rows are no evidence against what the others say"


class Lists:
    """Documents with two labels each, and members that know one kind of label each."""

    def __init__(self, documents: int = 400, labels: int = 30, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.labels = LabelSet.of(map(str, range(labels)))
        self.truth = np.stack([self.rng.permutation(labels)[:2] for _ in range(documents)])
        tags = [[str(label) for label in row] for row in self.truth.tolist()]
        self.valid = Corpus.of(["..."] * documents, tags, self.labels)
        self.holdout = Holdout.given(self.valid)
        self.counts = np.maximum(1, 300 // (1 + np.arange(labels))).astype(np.int64)

    def member(self, knows: NDArray[np.bool_], scale: float = 1.0, noise: float = 1.0) -> Predictions:
        scores = self.rng.normal(0, noise, (len(self.valid), len(self.labels)))
        for document, row in enumerate(self.truth):
            scores[document, row[knows[row]]] += 3
        ids = np.broadcast_to(np.arange(len(self.labels)), scores.shape)
        return Predictions.sorted(ids, scale * scores, self.labels, k=25)


def test_members_that_know_different_labels_are_better_together() -> None:
    lists = Lists()
    even = np.arange(30) % 2 == 0
    choice = choose([lists.member(even), lists.member(~even, scale=500)], lists.holdout, lists.counts)
    assert choice is not None
    assert choice.kept == (0, 1)
    assert choice.ndcg > max(choice.alone) + 0.1


def test_what_is_found_of_each_band() -> None:
    counts = np.array([50, 9, 1, 0, 0, 0, 0, 0, 0], np.int64)
    top = predictions([[(0, 0.9), (1, 0.8)], [(2, 0.9), (3, 0.5)], []])
    valid = Corpus.of(["..."] * 3, [["0", "1"], ["3"], ["2", "0"]], NAMES)
    table = Table.of([top])
    band = stacking._of_labels(counts)[0]
    assert [stacking.BAND_NAMES[at] for at in band[:4]] == ["head", "tail", "tail", "unseen"]
    found = stacking.found_by_band(table, table.score[:, 0], valid.targets, band)
    np.testing.assert_array_equal(found, [1 / 2, np.nan, 1 / 2, 1.0])


def test_a_member_that_knows_nothing_is_dropped() -> None:
    lists = Lists()
    everything = np.ones(30, bool)
    choice = choose([lists.member(~everything), lists.member(everything)], lists.holdout, lists.counts)
    assert choice is not None
    assert choice.kept == (1,)
    assert choice.ndcg >= max(choice.alone)


def test_frequent_and_rare_labels_have_weights_of_their_own() -> None:
    """One member knows the head, the other the tail, and each guesses about the rest."""
    lists = Lists(labels=30)
    head = stacking._of_labels(lists.counts)[0] == 0
    members = [lists.member(head), lists.member(~head)]
    choice = choose(members, lists.holdout, lists.counts)
    assert choice is not None
    assert choice.kept == (0, 1)
    table = Table.of(members, stacking.LEARNED_FROM)
    first = ((table.rank >= 0) & (table.rank < 3)).all(axis=1)  # where both say the same, with similar scores
    shares = choice.stack.shares(table)
    frequent, rare = first & head[table.label], first & (choice.stack.band[table.label] == 2)
    assert frequent.any()
    assert rare.any()
    assert shares[frequent, 0].mean() > shares[frequent, 1].mean()
    assert shares[rare, 1].mean() > shares[rare, 0].mean()


def test_a_blend_that_the_test_does_not_prefer_is_not_taken() -> None:
    """Two members that know the same: together a little better by luck at most; but a third may find both useful."""
    lists = Lists(150, seed=4)
    everything = np.ones(30, bool)
    good = lists.member(everything, noise=0.5)
    close = Predictions(good.ids, good.scores + 0.0, good.labels)
    close.ids[::9] = close.ids[::9, ::-1]
    choice = choose([good, close], lists.holdout, lists.counts)
    assert choice is not None
    assert choice.kept == (0,)
    assert choice.stack.as_it_is
    assert choice.quality.mean == max(choice.alone)
    assert 0 in choice.pool


def test_a_blend_that_loses_on_one_kind_of_documents_is_not_taken() -> None:
    """On the first documents one member knows all and the other misleads, on the others only the other knows any."""
    lists = Lists(600)
    everything = np.ones(30, bool)
    first, second = lists.member(everything, noise=0.5), lists.member(everything, noise=0.5)
    order = lists.rng.permutation(30)
    second.ids[:300], first.ids[300:] = order[second.ids[:300]], order[first.ids[300:]]
    kinds = {"one by one": np.arange(300), "in blocks": np.arange(300, 600)}
    mixed = choose([first, second], replace(lists.holdout, kinds=kinds), lists.counts)
    plain = choose([first, second], lists.holdout, lists.counts)
    assert plain is not None
    assert mixed is not None
    assert len(plain.kept) == 2
    assert len(mixed.kept) == 1
    assert set(mixed.by_kind) == set(kinds)
    assert mixed.pool == (0, 1), "both may be useful with a third"


def test_a_blend_drops_what_it_misses_least_until_it_is_allowed() -> None:
    lists = Lists()
    part = np.arange(30) % 4
    members = [lists.member(part == at) for at in (0, 1, 2)] + [lists.member(part >= 2)]
    every = choose(members, lists.holdout, lists.counts)
    two = choose(members, lists.holdout, lists.counts, lambda some: len(some) <= 2)
    one = choose(members, lists.holdout, lists.counts, lambda some: len(some) == 1)
    assert every is not None
    assert two is not None
    assert one is not None
    assert len(every.kept) > 2
    assert 3 in two.kept
    assert len(two.kept) == 2
    assert one.kept == (3,)


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_never_worse_than_the_best_member(seed: int, members: int) -> None:
    lists = Lists(60, 12, seed)
    some = [lists.member(lists.rng.random(12) < 0.5, noise=2.0) for _ in range(members)]
    choice = choose(some, lists.holdout, lists.counts)
    assert choice is not None
    assert choice.ndcg >= max(choice.alone)
    if choice.stack.as_it_is:
        assert choice.kept == (int(np.argmax(choice.alone)),)
    else:  # also on the documents that it was learned on
        table = Table.of([some[at] for at in choice.kept], stacking.LEARNED_FROM)
        assert ndcg(table, choice.stack.probabilities(table), lists.valid.targets).mean() > max(choice.alone)


def test_labels_that_no_training_document_has_are_left_to_those_that_list_them() -> None:
    """A classifier lists labels with documents only, a matcher of names all of them."""
    lists = Lists(900, seed=2)
    lists.counts[20:] = 0
    seen = np.arange(30) < 20
    classifier, matcher = lists.member(seen, noise=0.7), lists.member(np.ones(30, bool), noise=0.7)
    known = seen[classifier.ids]
    classifier = Predictions.sorted(np.where(known, classifier.ids, -1), classifier.scores, lists.labels)
    choice = choose([classifier, matcher], lists.holdout, lists.counts)
    assert choice is not None
    assert choice.kept == (0, 1)
    table = Table.of([classifier, matcher])
    relevant, unseen = is_relevant(table, lists.valid.targets), ~seen[table.label]
    probabilities = choice.stack.probabilities(table)
    for part in (unseen, ~unseen):
        assert probabilities[part].mean() == pytest.approx(relevant[part].mean(), abs=0.02)
    first = table.top(probabilities, 2)[0]
    right = (first[:, :, None] == lists.truth[:, None, :]).any(axis=2)
    assert right[~seen[first]].mean() > 0.8
    assert (~seen[first]).mean() > 0.25, "a third of the labels is unseen"


def test_more_documents_move_labels_to_another_band() -> None:
    lists = Lists()
    counts = lists.counts.copy()
    counts[-1] = 0
    table = Table.of([lists.member(np.ones(30, bool))])
    stack = Stack.fit(table, is_relevant(table, lists.valid.targets), counts)
    assert stack.band[-1] == stacking.UNSEEN
    later = stack.with_counts(lists.counts)
    assert later.band[-1] == 2
    assert later.frequency[-1] > stack.frequency[-1] == 0
    np.testing.assert_array_equal(later.weights, stack.weights)


def test_models_from_before_there_was_a_band_for_unseen_labels() -> None:
    lists = Lists()
    table = Table.of([lists.member(np.ones(30, bool))])
    stack = Stack.fit(table, is_relevant(table, lists.valid.targets), lists.counts)
    old = {**stack.to_arrays(), "weights": stack.weights[:3]}
    read = Stack.from_arrays(old, 1, 30)
    np.testing.assert_array_equal(read.probabilities(table), stack.probabilities(table))
    with pytest.raises(ValueError, match="bands of labels go from 0 to 2"):
        Stack.from_arrays({**old, "band": np.full(30, 3, np.int8)}, 1, 30)


def test_too_little_to_learn_from() -> None:
    lists = Lists(9)
    assert choose([lists.member(np.ones(30, bool))], lists.holdout, lists.counts) is None
    lists = Lists(20)
    nobody = Corpus.of(["..."] * 20, [["unknown"]] * 20, lists.labels)
    assert choose([lists.member(np.ones(30, bool))], Holdout.given(nobody), lists.counts) is None


def test_a_member_that_lists_nothing_here() -> None:
    lists = Lists()
    nothing = Predictions(np.full((400, 5), -1, np.int32), np.zeros((400, 5), np.float32), lists.labels)
    choice = choose([nothing, lists.member(np.ones(30, bool))], lists.holdout, lists.counts)
    assert choice is not None
    assert choice.kept == (1,)


def test_probabilities_are_calibrated() -> None:
    lists = Lists(1500)
    top = lists.member(np.arange(30) % 3 > 0)
    table = Table.of([top], stacking.LEARNED_FROM)
    relevant = is_relevant(table, lists.valid.targets)
    first = table.document < 750
    probabilities = Stack.fit(table.rows(first), relevant[first], lists.counts).probabilities(table.rows(~first))
    for low in (0.1, 0.5, 0.8):
        near = np.abs(probabilities - low) < 0.1
        assert relevant[~first][near].mean() == pytest.approx(probabilities[near].mean(), abs=0.08)


def test_shares_and_the_rest_are_the_log_odds() -> None:
    lists = Lists()
    table = Table.of([lists.member(np.ones(30, bool)), lists.member(np.zeros(30, bool))])
    stack = Stack.fit(table, is_relevant(table, lists.valid.targets), lists.counts)
    weights = stack.weights[stack.band[table.label]]
    rest = weights[:, 2] + weights[:, 5] + weights[:, 6] * stack.frequency[table.label] + weights[:, 7]
    np.testing.assert_allclose(stack.shares(table).sum(axis=1) + rest, stack.log_odds(table), atol=1e-9)


def test_equal_say_is_the_mean_of_log_odds() -> None:
    one = predictions([[(0, 0.8), (1, 0.5)]])
    stack = Stack.equal([ScoreKind.PROBABILITY] * 2, np.ones(LABELS, np.int64))
    table = Table.of([one, one])
    np.testing.assert_allclose(stack.probabilities(table), [0.8, 0.5], atol=1e-6)


def test_arrays_there_and_back() -> None:
    lists = Lists()
    table = Table.of([lists.member(np.ones(30, bool))])
    stack = Stack.fit(table, is_relevant(table, lists.valid.targets), lists.counts)
    arrays = stack.to_arrays()
    same = Stack.from_arrays(arrays, 1, 30)
    np.testing.assert_array_equal(same.probabilities(table), stack.probabilities(table))
    for key, wrong in (
        ("weights", arrays["weights"][:2]),
        ("weights", arrays["weights"] * np.nan),
        ("band", arrays["band"] + 4),
        ("band", arrays["band"] - 3),
        ("frequency", arrays["frequency"][:3]),
        ("as_it_is", np.array([2], np.uint8)),
    ):
        with pytest.raises(ValueError, match=r"array|bands|member"):
            Stack.from_arrays({**arrays, key: wrong}, 1, 30)
    with pytest.raises(ValueError, match="not finite"):
        Stack.from_arrays(arrays, 1, 31)
    with pytest.raises((KeyError, ValueError)):
        Stack.from_arrays(arrays, 2, 30)
