"""Calibration: what it learns, that it keeps the order, that nonsense is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import ConfigError, NotFitted, XmtcError
from xmtc.models.calibration import METHODS, Calibration, Isotonic, Method, Pairs, Platt
from xmtc.models.registry import make
from xmtc.predictions import Predictions, ScoreKind

KINDS = (ScoreKind.PROBABILITY, ScoreKind.RANKING)


def pairs_of(scores: NDArray[Any], relevant: NDArray[np.bool_]) -> Pairs:
    return Pairs(np.zeros(len(scores), np.int32), scores.astype(np.float32), relevant, np.array([1]), 1)


def drawn(size: int, kind: ScoreKind, seed: int = 0) -> tuple[Pairs, NDArray[np.float64]]:
    """Pairs, and the probability that each is relevant: scores are too low, or no probabilities at all."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(1, 4, size) if kind is ScoreKind.PROBABILITY else rng.normal(3, 10, size)
    t = np.log(scores / (1 - scores)) if kind is ScoreKind.PROBABILITY else scores / 10
    probability = 1 / (1 + np.exp(-(1.5 * t + 1)))
    return pairs_of(scores, rng.random(size) < probability), probability


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_finds_the_probabilities_that_made_the_data(method: Method, kind: ScoreKind) -> None:
    calibration = Calibration.fit(drawn(40_000, kind)[0], method, kind)
    fresh, probability = drawn(10_000, kind, seed=1)
    off = np.abs(calibration.probabilities(fresh.score.astype(np.float64)) - probability)
    assert off.mean() < 0.01
    assert off.max() < 0.12


def test_platt_is_where_the_likelihood_is_greatest() -> None:
    pairs, _ = drawn(300, ScoreKind.RANKING)
    found = Platt.fit_sigmoid(pairs.score, pairs.relevant, of_probabilities=False)
    hits = pairs.relevant.sum()
    target = np.where(pairs.relevant, (hits + 1) / (hits + 2), 1 / (len(pairs.relevant) - hits + 2))

    def loss(slope: float, offset: float) -> float:
        z = slope * pairs.score.astype(float) + offset
        return float(np.sum(np.logaddexp(0, z) - target * z))

    best = loss(found.slope, found.offset)
    for step in (1e-3, -1e-3):
        assert loss(found.slope + step, found.offset) > best
        assert loss(found.slope, found.offset + step) > best


@pytest.mark.needs("sklearn")
def test_isotonic_is_what_scikit_learn_finds() -> None:
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(3)
    scores = rng.random(500).round(2)  # with many ties
    relevant = rng.random(500) < scores**2
    curve = Isotonic.fit_curve(scores, relevant)
    # The relevant label that is added below all others, and the irrelevant one above them.
    x, y = np.r_[scores, scores.min(), scores.max()], np.r_[relevant, True, False]
    steps = IsotonicRegression().fit(x, y).predict(x)
    levels = np.unique(steps.round(9))
    np.testing.assert_allclose(curve.probability, levels, atol=1e-8)
    np.testing.assert_allclose(curve.at, [x[np.isclose(steps, level)].mean() for level in levels], atol=1e-8)
    np.testing.assert_allclose(curve.probabilities(curve.at), curve.probability)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_scores_that_say_nothing_or_the_opposite_are_not_turned_round(method: Method, kind: ScoreKind) -> None:
    scores = np.linspace(0.1, 0.9, 100)
    calibration = Calibration.fit(pairs_of(scores, scores < 0.3), method, kind)
    probabilities = calibration.probabilities(np.array([0.1, 0.5, 0.9]))
    np.testing.assert_allclose(probabilities, 0.25, atol=0.05)
    assert (np.diff(probabilities) >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scores", [[0.5], [0.5, 0.5, 0.5], [0.0, 0.5, 1.0]])
def test_all_right_is_sure_but_not_quite(method: Method, kind: ScoreKind, scores: list[float]) -> None:
    pairs = pairs_of(np.array(scores), np.ones(len(scores), bool))
    probabilities = Calibration.fit(pairs, method, kind).probabilities(np.array(scores))
    assert ((probabilities >= 0.6) & (probabilities < 1)).all()


lists = st.integers(1, 12).flatmap(
    lambda k: hnp.arrays(
        np.float32, st.tuples(st.integers(1, 4), st.just(k)), elements=st.floats(-1e6, 1e6, width=32, allow_nan=False)
    )
)


def top_of(scores: NDArray[np.float32]) -> Predictions:
    labels = LabelSet.of([f"l{i}" for i in range(scores.shape[1])])
    ids = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    return Predictions.sorted(ids, scores, labels, ScoreKind.RANKING)


@given(lists, st.sampled_from(METHODS), st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_the_order_within_a_document_never_changes(
    scores: NDArray[np.float32], method: Method, kind: ScoreKind, random: Any
) -> None:
    if kind is ScoreKind.PROBABILITY:
        scores = (np.abs(scores) / 1e6).astype(np.float32)
    top = top_of(scores)
    seen = np.random.default_rng(random.randrange(1 << 30)).choice(scores.ravel(), 6)
    calibration = Calibration.fit(pairs_of(seen, np.array([True, False, True, True, False, False])), method, kind)
    after = calibration.apply(top)
    assert after.kind is ScoreKind.CALIBRATED
    assert after.scores.dtype == np.float32
    np.testing.assert_array_equal(after.ids, top.ids)
    assert ((after.scores > 0) & (after.scores < 1)).all()
    # Also where float32 could not tell the probabilities apart: lower stays lower, equal stays equal.
    np.testing.assert_array_equal(np.sign(np.diff(after.scores, axis=1)), np.sign(np.diff(top.scores, axis=1)))
    exact = np.clip(calibration.probabilities(top.scores.astype(np.float64)), 1e-6, 1)
    np.testing.assert_allclose(after.scores, exact, rtol=1e-5)
    # Neither the rest of the batch nor the rest of the list has a say.
    np.testing.assert_array_equal(calibration.apply(top[:1]).top(2).scores, calibration.apply(top.top(2))[:1].scores)


def test_better_than_all_validation_scores_is_still_told_apart() -> None:
    for method in METHODS:
        calibration = Calibration.fit(drawn(500, ScoreKind.RANKING)[0], method, ScoreKind.RANKING)
        top = calibration.apply(top_of(np.array([[1000, 999, 60, 50, -50, -1000]], np.float32)))
        assert (np.diff(top.scores[0]) < 0).all()
    beyond = Isotonic(np.array([0.2, 0.6]), np.array([0.1, 0.5])).probabilities(
        np.array([-3.0, -2.0, 0.2, 0.6, 2.0, 3.0])
    )
    assert (np.diff(beyond) > 0).all()


def test_no_more_labels_stays_no_more() -> None:
    labels = LabelSet.of(["a", "b"])
    top = Predictions(np.array([[1, -1]], np.int32), np.array([[-2.0, 0.0]], np.float32), labels)
    after = Platt(1.0, 0.0, of_probabilities=False).apply(top)
    assert after.ids.tolist() == [[1, -1]]
    assert after.scores[0, 1] == 0
    assert after.scores[0, 0] == pytest.approx(1 / (1 + np.exp(2)))
    nothing = Predictions(np.zeros((0, 2), np.int32), np.zeros((0, 2), np.float32), labels)
    assert Platt(1.0, 0.0, of_probabilities=False).apply(nothing).scores.shape == (0, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_arrays_make_the_same_map(method: Method, kind: ScoreKind) -> None:
    pairs, _ = drawn(300, kind)
    calibration = Calibration.fit(pairs, method, kind)
    again = Calibration.from_arrays(calibration.to_arrays())
    x = np.linspace(-1, 2, 50)
    np.testing.assert_array_equal(again.probabilities(x), calibration.probabilities(x))


CURVE = {"at": np.array([0.1, 0.5]), "probability": np.array([0.2, 0.6])}
SIGMOID = {"slope": np.array([1.0]), "offset": np.array([0.0]), "of_probabilities": np.array([1], np.uint8)}


WRONG: dict[str, list[NDArray[Any]]] = {
    "at": [
        *(np.array([0.1, last]) for last in (0.1, 0.05, np.nan, np.inf, 1e300)),
        np.array([0.1]),
        np.array([[0.1, 0.5]]),
        np.array([1, 2]),
    ],
    "probability": [
        *(np.array(pair) for pair in ([0.6, 0.2], [0.2, 1.0], [0.0, 0.6], [0.2, np.nan])),
        np.array([0.2, 0.6], np.float32),
    ],
    "slope": [np.array([slope]) for slope in (-1.0, np.inf, np.nan)],
    "offset": [np.array([np.nan]), np.zeros(2)],
    "of_probabilities": [np.array([7], np.uint8)],
}


@pytest.mark.parametrize(("key", "array"), [(key, array) for key, arrays in WRONG.items() for array in arrays], ids=str)
def test_nonsense_is_refused(key: str, array: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match=r"curve|sigmoid"):
        Calibration.from_arrays({**(CURVE if key in CURVE else SIGMOID), key: array})


def test_a_curve_without_points_is_refused() -> None:
    with pytest.raises(ValueError, match="curve"):
        Calibration.from_arrays({"at": np.zeros(0), "probability": np.zeros(0)})


def test_extreme_numbers_make_no_warning() -> None:
    largest = float(np.finfo(np.float32).max)
    x = np.array([-largest, -1.0, 0.0, 1.0, largest])
    for calibration in (
        Platt(1e308, 1e308, of_probabilities=False),
        Isotonic(np.array([0.0, 1e-300]), np.array([0.5, 0.6])),
        Isotonic(np.array([-largest, largest]), np.array([0.5, 0.6])),
    ):
        probabilities = calibration.probabilities(x)
        assert ((probabilities >= 0) & (probabilities <= 1)).all()


CORPUS = Corpus.of(
    ["red apple", "green apple", "blue sky", "grey sky"] * 5, [["fruit"], ["fruit"], ["sky"], ["sky", "fruit"]] * 5
)


def test_model_is_calibrated_on_documents_that_can_teach_it() -> None:
    model = make("knn").fit(CORPUS)
    before = model.predict(["red apple"])
    with pytest.raises(XmtcError, match="empty: no document has a label"):
        model.calibrate(Corpus.of(["red"], [[]], name="empty"))
    with pytest.raises(XmtcError, match="no document has a label"):
        model.tune(Corpus.of([], []))
    others = Corpus.of(["red apple"], [["Fruit"]], name="others")
    for call in (model.calibrate, model.tune):
        with pytest.raises(XmtcError, match=r"others: no label .* is relevant.*called as in training"):
            call(others)
    with pytest.raises(ConfigError, match="no calibration 'magic'; there are: isotonic, platt"):
        model.calibrate(CORPUS, "magic")  # type: ignore[arg-type]
    with pytest.raises(XmtcError, match="knn needs features or text"):
        model.calibrate(Corpus(CORPUS.targets, CORPUS.labels))
    for call in (make("knn").calibrate, make("knn").tune):
        with pytest.raises(NotFitted):
            call(CORPUS)
    assert model.calibration_ is None
    np.testing.assert_array_equal(model.predict(["red apple"]).scores, before.scores)


def test_labels_that_the_model_does_not_know_are_no_obstacle() -> None:
    valid = Corpus.of(["red apple", "blue sky"], [["new", "fruit"], ["sky", "newer"]])
    model = make("knn").fit(CORPUS).calibrate(valid).tune(valid)
    assert model.thresholds_ is not None
    assert len(model.thresholds_) == 2


def test_calibrating_again_starts_from_the_models_own_scores() -> None:
    once = make("knn").fit(CORPUS).calibrate(CORPUS, "platt").predict(CORPUS)
    twice = make("knn").fit(CORPUS).calibrate(CORPUS).tune(CORPUS).calibrate(CORPUS, "platt")
    assert twice.thresholds_ is None, "they were for other scores"
    assert "thresholds" not in twice.training_
    assert twice.training_["calibration"]["method"] == "platt"
    np.testing.assert_array_equal(twice.predict(CORPUS).scores, once.scores)


def test_an_explanation_has_the_calibrated_score() -> None:
    model = make("knn").fit(CORPUS)
    raw = model.explain("grey sky", "fruit")
    why = model.calibrate(CORPUS).explain("grey sky", "fruit")
    assert why.score == pytest.approx(dict(model.predict(["grey sky"]).names()[0])["fruit"], abs=1e-3)
    assert why.score != pytest.approx(raw.score, abs=1e-3)
    assert why.words == raw.words
