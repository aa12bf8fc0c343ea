"""Clusters by frequency: every way to cut, and the search for the cheapest cut-offs against trying all."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from xmtc.errors import ConfigError
from xmtc.models.aplc_xlnet import label_clusters as module
from xmtc.models.aplc_xlnet.costs import access_probabilities, approximate_batch_cost
from xmtc.models.aplc_xlnet.label_clusters import FrequencyClusters

DOCUMENTS = 50
TEN = np.arange(10)


def cost(clusters: FrequencyClusters, counts: NDArray[np.int64], decay: float, batch: int) -> float:
    """Equation 12 of the paper for one number of the hidden state."""
    access = access_probabilities(clusters.sizes, counts[clusters.order] / DOCUMENTS, batch).tolist()
    return approximate_batch_cost(clusters.sizes, access, width=1, decay=decay, batch=1)


def costs(
    counts: NDArray[np.int64], documents: int, cut_offs: NDArray[np.int64], decay: float, batch: int
) -> NDArray[np.float64]:
    """The same for many lists of cut-offs, each a row, and labels by falling counts."""
    absent = np.append(0, np.cumsum(batch * np.log(np.maximum(1 - counts / documents, 1e-12))))
    ends = np.column_stack([cut_offs, np.full(len(cut_offs), len(counts))])
    access = 1 - np.exp(absent[ends[:, 1:]] - absent[ends[:, :-1]])
    shrunk = np.diff(ends, axis=1) / decay ** np.arange(1, ends.shape[1])
    total: NDArray[np.float64] = ends[:, 0] + (access * shrunk).sum(1)
    return total


def lowest_cost(counts: NDArray[np.int64], tails: int, decay: float, batch: int) -> float:
    every = np.array(list(combinations(range(1, len(counts)), tails)))
    return float(costs(np.sort(counts)[::-1], DOCUMENTS, every, decay, batch).min())


label_counts = st.lists(st.integers(0, DOCUMENTS), min_size=2, max_size=30).map(lambda each: np.array(each, np.int64))


@given(label_counts, st.data())
def test_every_label_has_one_place(counts: NDArray[np.int64], data: st.DataObject) -> None:
    labels = len(counts)
    cuts = sorted(data.draw(st.sets(st.integers(1, labels - 1), min_size=1)))
    clusters = FrequencyClusters.by_cut_offs(counts, cuts)
    assert (clusters.labels, clusters.tails, sum(clusters.sizes)) == (labels, len(cuts), labels)
    seen = []
    for cluster, size in enumerate(clusters.sizes):
        members = clusters.members(cluster)
        assert len(members) == size
        for place, label in enumerate(members.tolist()):
            assert (clusters.cluster_of[label], clusters.place_of[label]) == (cluster, place)
            seen.append(label)
    assert sorted(seen) == list(range(labels))
    assert seen == sorted(range(labels), key=lambda label: (-counts[label], label))
    again = FrequencyClusters.from_arrays(clusters.to_arrays())
    np.testing.assert_array_equal(again.cluster_of, clusters.cluster_of)
    np.testing.assert_array_equal(again.place_of, clusters.place_of)


@pytest.mark.parametrize(
    ("labels", "proportions", "cut_offs"),
    [
        (3_956, [0.5, 0.5], [1978]),  # EURLex-4k, as the authors' code has it
        (13_330, [0.5, 0.5], [6665]),  # AmazonCat-13k
        (30_938, [0.5, 0.5], [15469]),  # Wiki10-31k
        (670_091, [0.25] * 4, [167522, 335045, 502568]),  # Amazon-670k; their last is 502566, three times the first
        (10, [0.1, 0.7, 0.2], [1, 8]),  # 0.1 + 0.7 is less than 0.8
    ],
)
def test_proportions_of_the_paper(labels: int, proportions: list[float], cut_offs: list[int]) -> None:
    clusters = FrequencyClusters.by_proportions(np.zeros(labels, np.int64), proportions)
    assert clusters.ends.tolist() == [*cut_offs, labels]


@settings(max_examples=40)
@given(label_counts, st.integers(1, 3), st.sampled_from([1.0, 2.0, 4.0]), st.sampled_from([1, 32]))
@example(np.array([0, 50, 50]), 2, 1.0, 32)
def test_auto_is_the_best_of_all_cut_offs(counts: NDArray[np.int64], tails: int, decay: float, batch: int) -> None:
    counts = counts[:14]
    tails = min(tails, len(counts) - 1)
    found = FrequencyClusters.cheapest(counts, DOCUMENTS, tails, decay, batch)
    assert found.tails == tails
    assert cost(found, counts, decay, batch) == pytest.approx(lowest_cost(counts, tails, decay, batch))


@pytest.mark.parametrize("exponent", [0.6, 1.0, 1.4])
@pytest.mark.parametrize("tails", [1, 2])
@pytest.mark.parametrize("batch", [1, 32])
def test_search_in_rounds_is_near_the_best(
    monkeypatch: pytest.MonkeyPatch, exponent: float, tails: int, batch: int
) -> None:
    """Even with choices that are 70 % apart at first, where the real ones are 3 %."""
    counts = (DOCUMENTS / np.arange(1, 301) ** exponent).astype(np.int64)
    monkeypatch.setattr(module, "CHOICES", 12)
    found = FrequencyClusters.cheapest(counts, DOCUMENTS, tails, 2, batch)
    assert cost(found, counts, 2, batch) <= 1.003 * lowest_cost(counts, tails, 2, batch)


def test_auto_with_very_many_labels() -> None:
    """No cut-off would be better somewhat to the left or to the right."""
    counts = 1_000_000 // np.arange(1, 3_000_001)
    found = FrequencyClusters.cheapest(counts, documents=1_000_000, tails=4).ends[:-1]
    moves = [step * np.eye(4, dtype=np.int64)[at] for step in (1, -1, 300, -300) for at in range(4)]
    moved = np.array([found, *(found + move for move in moves)])
    moved = moved[np.diff(moved, prepend=0).min(1) > 0]
    assert len(moved) > 12
    assert costs(counts, 1_000_000, moved, decay=2, batch=1).argmin() == 0


def test_frequent_labels_make_a_small_head() -> None:
    """A few labels in most documents, many in hardly any: the rare ones must not be scored for each document."""
    counts = np.array([40] * 20 + [0] * 80)
    assert FrequencyClusters.cheapest(counts, DOCUMENTS, tails=1).sizes == [20, 80]


def test_a_label_of_all_documents() -> None:
    counts = np.array([DOCUMENTS, DOCUMENTS, 1, 1])
    assert FrequencyClusters.cheapest(counts, DOCUMENTS, tails=1).sizes[0] <= 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FrequencyClusters.by_proportions(TEN, [0.5, 0.4]), "add up to 1, not"),
        (lambda: FrequencyClusters.by_proportions(TEN, [1.5, -0.5]), "above 0"),
        (lambda: FrequencyClusters.by_proportions(TEN, [0.5, float("nan")]), "add up to 1"),
        (lambda: FrequencyClusters.by_proportions(TEN, []), "add up to 1"),
        (lambda: FrequencyClusters.by_proportions(TEN, [0.05, 0.95]), "empty"),
        (lambda: FrequencyClusters.by_proportions(TEN, [1.0]), "a head and one tail"),
        (lambda: FrequencyClusters.by_proportions(TEN[:3], [0.25] * 4), "3 labels cannot fill 4 clusters"),
        (lambda: FrequencyClusters.by_cut_offs(TEN, [4, 4]), "empty"),
        (lambda: FrequencyClusters.by_cut_offs(TEN, [0]), "empty"),
        (lambda: FrequencyClusters.by_cut_offs(TEN, [10]), "from at least 1 to at most 9"),
        (lambda: FrequencyClusters.by_cut_offs(TEN[:1], [1]), "1 labels cannot fill 2 clusters"),
        (lambda: FrequencyClusters.cheapest(TEN, 10, tails=0), "a head and one tail"),
        (lambda: FrequencyClusters.cheapest(TEN, 10, tails=10), "10 labels cannot fill 11 clusters"),
        (lambda: FrequencyClusters.cheapest(TEN, 10, tails=2, decay=0), "decay is 0"),
    ],
)
def test_clusters_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("order", "ends"),
    [([0, 0, 1], [1, 3]), ([0, 1, 3], [1, 3]), ([0, 1, 2], [1, 2]), ([0, 1, 2], [0, 3]), ([0, 1, 2], [])],
)
def test_arrays_that_make_no_clusters(order: list[int], ends: list[int]) -> None:
    with pytest.raises(ValueError, match=r"every label once|do not cut"):
        FrequencyClusters.from_arrays({"order": np.array(order, np.int32), "ends": np.array(ends, np.int64)})
    with pytest.raises(ValueError, match="integer type"):
        FrequencyClusters.from_arrays({"order": np.arange(3.0), "ends": np.array([1, 3])})
