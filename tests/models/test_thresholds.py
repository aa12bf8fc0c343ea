"""Thresholds against a naive search with lists, and what they are good for."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.errors import ConfigError
from xmtc.models.calibration import Pairs
from xmtc.models.registry import make
from xmtc.models.thresholds import Thresholds

LABELS = 4
scores = st.integers(-4, 8).map(lambda eighths: eighths / 8)
rows = st.lists(st.tuples(st.integers(0, LABELS - 1), scores, st.booleans()), min_size=1, max_size=30)


def pairs_of(listed: list[tuple[int, float, bool]], missed: list[int]) -> Pairs:
    """Listed labels, and for each label how many documents carry it without its being listed."""
    label, score, relevant = (np.array(column) for column in zip(*listed, strict=True))
    carriers = np.bincount(label[relevant], minlength=LABELS) + np.array(missed)
    return Pairs(label.astype(np.int32), score.astype(np.float32), relevant, carriers, int(carriers.sum()))


def reaching(pairs: Pairs, threshold: float, label: int | None = None) -> tuple[int, int]:
    """(relevant ones, all) of the pairs, of one label or of all, that reach a threshold."""
    reached = [at for at, score in enumerate(pairs.score) if score >= np.float32(threshold)]
    own = [bool(pairs.relevant[at]) for at in reached if label is None or pairs.label[at] == label]
    return sum(own), len(own)


def smoothed_f1(pairs: Pairs, label: int, threshold: float, smoothing: float) -> float:
    (hits, taken), (all_hits, all_taken) = reaching(pairs, threshold, label), reaching(pairs, threshold)
    share = smoothing / pairs.assignments
    above = hits + share * all_hits
    return 2 * above / (taken + int(pairs.carriers[label]) + share * all_taken + smoothing)


def midways(scores: list[float]) -> list[float]:
    falling = sorted(set(scores), reverse=True)
    return [(a + b) / 2 for a, b in itertools.pairwise(falling)] + falling[-1:]


@given(rows, st.lists(st.integers(0, 3), min_size=LABELS, max_size=LABELS), st.sampled_from([0.01, 1.0, 20.0]))
def test_as_good_as_a_naive_search(listed: list[tuple[int, float, bool]], missed: list[int], smoothing: float) -> None:
    pairs = pairs_of([*listed, (0, 0.5, True)], missed)
    found = Thresholds.fit(pairs, smoothing)

    def micro_f1(threshold: float) -> float:
        hits, taken = reaching(pairs, threshold)
        return 2 * hits / (taken + pairs.assignments)

    candidates = midways(pairs.score.tolist())
    assert found.common in candidates
    assert micro_f1(float(found.common)) == pytest.approx(max(map(micro_f1, candidates)))
    assert found.each.shape == (LABELS,)
    for label, threshold in enumerate(found.each.tolist()):
        own = pairs.score[pairs.label == label].tolist()
        choice = [*midways(own), float(found.common)]
        assert threshold in choice
        best = max(smoothed_f1(pairs, label, at, smoothing) for at in choice)
        assert smoothed_f1(pairs, label, threshold, smoothing) == pytest.approx(best)
        if not own:
            assert threshold == found.common


@given(rows)
def test_much_smoothing_gives_every_label_a_threshold_as_good_as_the_common_one(
    listed: list[tuple[int, float, bool]],
) -> None:
    pairs = pairs_of([*listed, (0, 0.5, True)], [0] * LABELS)
    found = Thresholds.fit(pairs, smoothing=1e12)
    hits, taken = reaching(pairs, float(found.common))
    for threshold in found.each.tolist():
        h, t = reaching(pairs, threshold)
        assert h * (taken + pairs.assignments) == hits * (t + pairs.assignments)


def test_with_little_smoothing_each_label_has_its_best_f1() -> None:
    listed = [(0, 0.9, True), (0, 0.7, True), (0, 0.6, False), (1, 0.95, False), (1, 0.3, True), (1, 0.2, True)]
    found = Thresholds.fit(pairs_of([*listed, (1, 0.1, False)], [0] * LABELS), smoothing=1e-6)
    assert found.each[0] == pytest.approx(0.65)
    assert found.each[1] == pytest.approx(0.15)


def test_of_equally_good_thresholds_the_nearest_to_the_common_one() -> None:
    found = Thresholds.fit(pairs_of([(0, 0.5, True), (1, 0.0, False)], [0] * LABELS))
    assert found.common == 0.25
    assert found.each[0] == 0.25, "not 0.5, which takes no more and no less"


def test_neighbouring_floats_are_told_apart() -> None:
    lower = np.float32(0.5)
    upper = np.nextafter(lower, np.float32(1))
    pairs = Pairs(np.zeros(2, np.int32), np.array([upper, lower]), np.array([True, False]), np.array([1]), 1)
    assert Thresholds.fit(pairs).each.tolist() == [upper]


@pytest.mark.parametrize("smoothing", [0, -1.0, float("inf"), float("nan")])
def test_impossible_smoothing(smoothing: float) -> None:
    with pytest.raises(ConfigError, match="smoothing must be above 0"):
        Thresholds.fit(pairs_of([(0, 0.5, True)], [0] * LABELS), smoothing)


GOOD: dict[str, NDArray[Any]] = {"each": np.array([0.1, 0.2], np.float32), "common": np.array([0.3], np.float32)}


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("each", np.zeros(3, np.float32)),
        ("each", np.zeros((1, 2), np.float32)),
        ("each", np.zeros(2)),
        ("each", np.array([0.1, np.nan], np.float32)),
        ("each", np.array([0.1, np.inf], np.float32)),
        ("common", np.zeros(2, np.float32)),
        ("common", np.zeros(1)),
        ("common", np.array([np.nan], np.float32)),
    ],
    ids=str,
)
def test_nonsense_is_refused(key: str, wrong: NDArray[Any]) -> None:
    assert Thresholds.from_arrays(GOOD, 2).to_arrays()["each"] is GOOD["each"]
    with pytest.raises(ValueError, match="threshold"):
        Thresholds.from_arrays({**GOOD, key: wrong}, 2)


def test_new_labels_get_the_common_threshold() -> None:
    corpus = Corpus.of(["red apple", "blue sky"] * 4, [["fruit"], ["weather"]] * 4)
    model = make("knn").fit(corpus).calibrate(corpus).tune(corpus)
    before, calibration = model.thresholds_, model.calibration_
    assert before is not None
    model.partial_fit(Corpus.of(["old oak", "red apple"], [["tree"], ["fruit"]]))
    assert model.thresholds_ is not None
    assert model._thresholds is not None
    np.testing.assert_array_equal(model.thresholds_, [*before, model._thresholds.common])
    assert model.calibration_ is calibration
    assert model.predict(["old oak"], k=100).threshold(model.thresholds_).ids.shape == (1, 3)
