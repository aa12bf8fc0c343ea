"""`evaluate` of a file of predictions: the same figures as of the model that made them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.data import demo_folder
from xmtc.errors import BadInput, XmtcError
from xmtc.evaluation.result import Evaluation
from xmtc.models.base import Model
from xmtc.prediction_files.reading import read_predictions
from xmtc.prediction_files.writing import writing_predictions
from xmtc.predictions import Predictions

SUFFIXES = ["jsonl", "json", "csv", "tsv.gz", "parquet", pytest.param("xlsx", marks=pytest.mark.needs("openpyxl"))]


@pytest.fixture(scope="module")
def train() -> Corpus:
    return xmtc.read(demo_folder())[:800]


@pytest.fixture(scope="module")
def test() -> Corpus:
    return xmtc.read(demo_folder(), part="test")[:60]


@pytest.fixture(scope="module")
def model(train: Corpus) -> Model:
    return xmtc.make("knn").fit(train)


def written(path: Path, corpus: Corpus, top: Predictions) -> Path:
    with writing_predictions(path) as writer:
        writer.add([corpus.id(row) for row in range(len(corpus))], top)
    return path


def without_calibration(figures: dict[str, float]) -> dict[str, float]:
    """A file does not say that scores are probabilities."""
    return {name: value for name, value in figures.items() if not name.startswith("ECE")}


def assert_same(found: Evaluation, expected: Evaluation) -> None:
    assert found.values == pytest.approx(without_calibration(expected.values))
    assert found.bands.keys() == expected.bands.keys()
    assert found.deciles.keys() == expected.deciles.keys()
    for one, other in ((found.bands, expected.bands), (found.deciles, expected.deciles)):
        for group, values in one.items():
            assert values == pytest.approx(other[group]), group
    assert found.labels_unseen == expected.labels_unseen


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_is_as_good_as_its_model(model: Model, train: Corpus, test: Corpus, tmp_path: Path, suffix: str) -> None:
    file = written(tmp_path / f"answers.{suffix}", test, model.predict(test, k=5))
    assert_same(xmtc.evaluate(file, test, train=train), xmtc.evaluate(model, test))
    assert_same(xmtc.evaluate(str(file), test, [1, 2], train=train), xmtc.evaluate(model, test, [1, 2]))


def test_at_a_threshold_too(model: Model, train: Corpus, test: Corpus, tmp_path: Path) -> None:
    file = written(tmp_path / "answers.csv", test, model.predict(test, k=100))
    assert_same(
        xmtc.evaluate(file, test, threshold=0.25, train=train, propensity="amazon"),
        xmtc.evaluate(model, test, threshold=0.25, propensity="amazon"),
    )


def test_without_training_documents_there_is_no_psp(model: Model, test: Corpus, tmp_path: Path) -> None:
    file = written(tmp_path / "answers.csv", test, model.predict(test, k=5))
    found = xmtc.evaluate(file, test)
    assert found.values["P@5"] == pytest.approx(xmtc.evaluate(model, test).values["P@5"])
    assert not any(name.startswith("PS") for name in found.values)
    assert found.labels_unseen is None
    assert "no training counts" in str(found)
    assert "were not seen" not in str(found)


def test_predictions_that_were_read_can_be_counted_too(
    model: Model, train: Corpus, test: Corpus, tmp_path: Path
) -> None:
    top = read_predictions(written(tmp_path / "answers.csv", test, model.predict(test, k=5)), test)
    found, expected = xmtc.evaluate(top, test, train=train), xmtc.evaluate(model, test)
    assert found.values == pytest.approx(without_calibration(expected.values))
    assert found.bands["tail"] == pytest.approx(expected.bands["tail"])


def test_documents_that_were_in_training_are_reported(
    model: Model, train: Corpus, test: Corpus, tmp_path: Path
) -> None:
    file = written(tmp_path / "answers.csv", train[:50], model.predict(train[:50], k=5))
    with pytest.warns(UserWarning, match="100 % of these documents were in training"):
        xmtc.evaluate(file, train[:50], train=train)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xmtc.evaluate(written(tmp_path / "answers.csv", test, model.predict(test, k=5)), test, train=train)


def test_what_is_no_file_of_predictions(model: Model, train: Corpus, test: Corpus, tmp_path: Path) -> None:
    with pytest.raises(XmtcError, match=r"is a folder; to evaluate the model in it: evaluate\(xmtc.load"):
        xmtc.evaluate(tmp_path, test)
    with pytest.raises(BadInput, match="no such file"):
        xmtc.evaluate(tmp_path / "absent.csv", test)
    with pytest.raises(BadInput, match="it lacks 10 documents"):
        xmtc.evaluate(written(tmp_path / "answers.csv", test[:50], model.predict(test[:50], k=5)), test)
    with pytest.raises(XmtcError, match="leave train= out"):
        xmtc.evaluate(model, test, train=train)
