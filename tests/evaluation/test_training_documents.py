"""Evaluating on documents of the training is said; a test set with a few duplicates is not."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.base import Model
from xmtc.models.registry import make


def numbered(start: int, stop: int) -> Corpus:
    tags = [[f"label{at % 7}"] for at in range(start, stop)]
    return Corpus.of([f"document {at} of topic{at % 7}" for at in range(start, stop)], tags, name="docs.jsonl")


@pytest.fixture(scope="module")
def model() -> Model:
    return make("prior").fit(numbered(0, 4000))


@pytest.mark.parametrize(
    ("start", "stop", "share"),
    [(0, 4000, "about 100 %"), (3000, 4000, "about 100 %"), (0, 4444, r"about (8[6-9]|9[0-4]) %")],
)
def test_documents_of_the_training_are_reported(model: Model, start: int, stop: int, share: str) -> None:
    with pytest.warns(UserWarning, match=rf"docs.jsonl: {share} of these documents were in training: the figures"):
        evaluate(model, numbered(start, stop))


@pytest.mark.parametrize("start", [3990, 3950, 4000])
def test_few_duplicates_are_not(model: Model, start: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(model, numbered(start, start + 1000))


def test_no_false_alarm_over_many_small_test_sets(model: Model) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for start in range(4000, 24_000, 100):
            evaluate(model, numbered(start, start + 100), k=[1])


def test_a_loaded_and_an_updated_model_know_their_documents(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = xmtc.load(tmp_path / "model").partial_fit(numbered(10_000, 12_000))
    for part in (numbered(0, 1000), numbered(11_000, 12_000)):
        with pytest.warns(UserWarning, match="were in training"):
            evaluate(loaded, part)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(loaded, numbered(20_000, 21_000))
        evaluate(loaded.predict(numbered(0, 100)), numbered(0, 100))


def test_calibrating_and_tuning_on_them_is_reported() -> None:
    model = make("knn").fit(numbered(0, 100))
    for use in (model.calibrate, model.tune):
        with pytest.warns(UserWarning, match=r"100 % of these documents were in training, where the model is too sure"):
            use(numbered(0, 100))
