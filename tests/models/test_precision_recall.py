"""Thresholds that reach a precision or a recall on validation documents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, ConfigError, XmtcError
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.base import Model
from xmtc.models.calibration import Pairs
from xmtc.models.precision_recall import POINTS, ThresholdCurve
from xmtc.models.registry import load, make


def pairs_of(score: list[float], relevant: list[bool], missed: int = 0) -> Pairs:
    hits = sum(relevant)
    return Pairs(
        np.zeros(len(score), np.int32),
        np.array(score, np.float32),
        np.array(relevant),
        np.array([hits + missed]),
        hits + missed,
    )


@pytest.fixture(scope="module")
def valid() -> Corpus:
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(40)]
    rows = [rng.choice(40, 6, replace=False) for _ in range(300)]
    texts = [" ".join(words[i] for i in row) for row in rows]
    return Corpus.of(texts, [[f"label{i}" for i in row if i < 10 or rng.random() < 0.2] for row in rows])


@pytest.fixture
def model(valid: Corpus) -> Model:
    return make("knn", neighbours=5).fit(valid[:200])


scores = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.9]), st.booleans()), min_size=1, max_size=30)


@given(scores, st.floats(0.05, 1))
def test_the_chosen_threshold_is_the_best_of_all(found: list[tuple[float, bool]], share: float) -> None:
    score, relevant = [s for s, _ in found], [r for _, r in found]
    if not any(relevant):
        return
    curve = ThresholdCurve.fit(pairs_of(score, relevant, missed=1))
    points = []
    for at in {*score}:
        taken = [r for s, r in found if np.float32(s) >= np.float32(at)]
        points.append((sum(taken) / len(taken), sum(taken) / (sum(relevant) + 1)))
    reaching = [recall for precision, recall in points if precision >= np.float32(share)]
    if reaching:
        choice = curve.reaching(precision=share)
        assert choice.recall == pytest.approx(max(reaching), abs=1e-3)
        taken = [r for s, r in found if np.float32(s) >= np.float32(choice.threshold)]
        assert sum(taken) / len(taken) >= np.float32(share) - 1e-6
    else:
        with pytest.raises(XmtcError, match="no threshold reaches it"):
            curve.reaching(precision=share)
    reaching = [precision for precision, recall in points if recall >= np.float32(share)]
    if reaching:
        assert curve.reaching(recall=share).precision == pytest.approx(max(reaching), abs=1e-3)


def test_a_long_curve_is_thinned() -> None:
    rng = np.random.default_rng(0)
    score = np.sort(rng.random(200_000))[::-1]
    relevant = rng.random(200_000) < score
    curve = ThresholdCurve.fit(pairs_of(score.tolist(), relevant.tolist()))
    assert len(curve.threshold) <= POINTS
    assert curve.reaching(recall=1.0).recall == 1.0


def test_a_threshold_reaches_the_precision_on_the_validation_documents(model: Model, valid: Corpus) -> None:
    model.measure(valid[200:])
    for precision in (0.3, 0.5, 0.7):
        threshold = model.threshold_for(precision=precision)
        values = evaluate(model, valid[200:], threshold=threshold).values
        assert values["micro-P"] >= 100 * precision - 1e-4
        assert values["micro-R"] == pytest.approx(100 * model.threshold_choice(precision=precision).recall, abs=0.1)


def test_tuning_measures_and_calibrating_forgets(model: Model, valid: Corpus) -> None:
    model.tune(valid[200:])
    assert model.threshold_for(recall=0.3) > 0
    model.calibrate(valid[200:])
    with pytest.raises(ConfigError, match="not measured on validation documents"):
        model.threshold_for(recall=0.3)
    assert "curve" not in model.training_


def test_the_curve_is_saved_with_the_model(model: Model, valid: Corpus, tmp_path: Path) -> None:
    model.measure(valid[200:]).save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.threshold_choice(precision=0.5) == model.threshold_choice(precision=0.5)
    assert loaded.training_["curve"]["documents"] == 100


def test_fitting_again_forgets_the_curve(model: Model, valid: Corpus) -> None:
    model.measure(valid[200:]).fit(valid[:100])
    with pytest.raises(ConfigError, match=r"--valid 0\.1"):
        model.threshold_for(precision=0.5)


@pytest.mark.parametrize("share", [0, -0.1, 1.5, 80, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["precision", "recall"])
def test_shares_that_are_none(name: str, share: float) -> None:
    curve = ThresholdCurve.fit(pairs_of([0.5], [True]))
    with pytest.raises(ConfigError, match=r"such as 0\.8"):
        curve.reaching(**{name: share})


def test_one_of_the_two_is_asked_for() -> None:
    curve = ThresholdCurve.fit(pairs_of([0.5], [True]))
    for both in ({}, {"precision": 0.5, "recall": 0.5}):
        with pytest.raises(ConfigError, match="either a precision or a recall"):
            curve.reaching(**both)


def test_what_cannot_be_reached_names_the_highest() -> None:
    curve = ThresholdCurve.fit(pairs_of([0.9, 0.8, 0.3], [False, True, True], missed=2))
    with pytest.raises(XmtcError, match=r"the highest is 0\.667, at the threshold 0\.3"):
        curve.reaching(precision=0.9)
    with pytest.raises(XmtcError, match=r"the highest is 0\.500, at the threshold 0\.3"):
        curve.reaching(recall=0.8)


@pytest.mark.parametrize(
    "change",
    [
        {"threshold": np.zeros(0, np.float32), "precision": np.zeros(0, np.float32), "recall": np.zeros(0, np.float32)},
        {"threshold": np.array([np.nan, 0], np.float32)},
        {"threshold": np.array([0.1, 0.2], np.float32)},
        {"threshold": np.array([0.2, 0.1])},
        {"precision": np.array([2, 1], np.float32)},
        {"precision": np.array([0.1, 0.2], np.float32)},
        {"recall": np.array([0.2, 0.1], np.float32)},
        {"recall": np.array([0.2], np.float32)},
        {"recall": None},
    ],
)
def test_damaged_curves(model: Model, tmp_path: Path, change: dict[str, np.ndarray | None]) -> None:
    from xmtc.storage import writing

    good = {
        "threshold": np.array([0.2, 0.1], np.float32),
        "precision": np.array([0.9, 0.5], np.float32),
        "recall": np.array([0.1, 0.6], np.float32),
    }
    arrays = {key: value for key, value in {**good, **change}.items() if value is not None}
    with writing(tmp_path / "m", "knn", model.config.model_dump(mode="json"), {"training": model.training_}) as folder:
        assert model.labels_ is not None
        folder.labels(model.labels_)
        model.write(folder)
        folder.arrays("curve", arrays)
    with pytest.raises(BadModelFolder, match=r"curve\.safetensors"):
        load(tmp_path / "m")


def test_a_long_curve_keeps_points_near_every_precision() -> None:
    """Scores of validation documents are mostly low; what is asked for are the high ones."""
    rng = np.random.default_rng(0)
    score = np.concatenate([rng.uniform(0.3, 1, 3000), rng.uniform(0, 0.01, 97_000)]).astype(np.float32)
    relevant = rng.random(len(score)) < score
    total = int(relevant.sum())
    curve = ThresholdCurve.fit(Pairs(np.zeros(len(score), np.int32), score, relevant, np.array([total]), total))
    sorted_hits = np.cumsum(relevant[np.argsort(-score)])
    precisions = sorted_hits / np.arange(1, len(score) + 1)
    for wanted in (0.95, 0.9, 0.8, 0.7):
        exact = sorted_hits[np.flatnonzero(precisions >= wanted).max()] / total
        assert curve.reaching(precision=wanted).recall == pytest.approx(exact, abs=0.02)
