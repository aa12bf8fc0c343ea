"""`c2ae` beside the contract: what its options do, features instead of texts, a kill, hostile weights."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.errors import BadModelFolder, ConfigError, OutOfMemory, XmtcError
from xmtc.models import base
from xmtc.models.c2ae.model import C2ae
from xmtc.models.registry import load
from xmtc.nn.serialization import weights_of
from xmtc.nn.trainer import Trainer

SMALL: dict[str, Any] = {"hidden": 8, "latent": 3, "dropout": 0.0, "training": {"epochs": 2, "batch_size": 10}}
TAGS = ["fruit", "weather", "music"]
WORDS = ["apple", "storm", "violin"]


def corpus_of(documents: int = 40, seed: int = 0) -> Corpus:
    """A word for each label, among others."""
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(3)[: rng.integers(1, 3)] for _ in range(documents)]
    texts = [" ".join([*(WORDS[at] for at in each), f"w{rng.integers(9)}"]) for each in chosen]
    return Corpus.of(texts, [[TAGS[at] for at in each] for each in chosen], label_set=LabelSet.of(TAGS))


def with_features(corpus: Corpus, scale: float = 1.0) -> Corpus:
    assert corpus.texts is not None
    matrix = np.array([[scale * (word in text) for word in WORDS] for text in corpus.texts], np.float32)
    return replace(corpus, texts=None, features=csr_array(matrix))


def settings(**changes: Any) -> dict[str, Any]:
    training = {**SMALL["training"], **changes.pop("training", {})}
    return {**SMALL, **changes, "training": training}


def relevant(model: C2ae, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0]
    return float(np.mean([label in corpus.labels_of(row) for row, label in enumerate(top.tolist())]))


def test_learns_from_features_of_any_scale() -> None:
    train, test = with_features(corpus_of(120)), with_features(corpus_of(40, seed=1), scale=100.0)
    model = C2ae(**settings(training={"epochs": 20, "learning_rate": 0.01})).fit(train)
    assert relevant(model, test) > 0.9
    empty = replace(test[:1], features=csr_array(np.zeros((1, 3), np.float32)))
    assert (model.predict(empty, k=3).ids >= 0).all()
    with pytest.raises(XmtcError, match="trained on features"):
        model.predict(["apple"])


def test_features_that_training_did_not_have_are_left_out() -> None:
    train = with_features(corpus_of(40))
    model = C2ae(**SMALL).fit(train)
    assert train.features is not None
    wider = replace(train, features=csr_array(np.pad(train.features.toarray(), ((0, 0), (0, 2)))))
    np.testing.assert_array_equal(model.predict(wider, k=2).ids, model.predict(train, k=2).ids)


@pytest.mark.parametrize(
    ("changes", "name", "shape"),
    [
        ({}, "features_latent.weight", (3, 8)),
        ({"latent": 5}, "decoder.weight", (8, 5)),
        ({"latent": None}, "labels_latent.weight", (2, 8)),
        ({"hidden": 4}, "output.weight", (3, 4)),
        ({"tfidf": {"min_df": 39}}, "features.weights.weight", (1, 8)),
    ],
    ids=str,
)
def test_sizes(changes: dict[str, Any], name: str, shape: tuple[int, ...]) -> None:
    corpus = corpus_of(40)
    assert corpus.texts is not None
    common = replace(corpus, texts=Strings.of(f"the {text}" for text in corpus.texts))
    assert weights_of(C2ae(**settings(**changes)).fit(common).network_)[name].shape == shape


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"alpha": 0.5},
        {"lagrange": 0.0},
        {"dropout": 0.5},
        {"training": {"epochs": 3}},
        {"training": {"learning_rate": 0.1}},
        {"training": {"batch_size": 5}},
        {"training": {"swa_start_epoch": 0, "evaluate_every": 1}},
    ],
    ids=str,
)
def test_options_have_an_effect(changes: dict[str, Any]) -> None:
    corpus = corpus_of(40)
    plain, other = (C2ae(**settings(**each)).fit(corpus).predict(corpus, k=2).scores for each in ({}, changes))
    assert not np.array_equal(plain, other)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"latent": 0}, "latent=0"),
        ({"hidden": 0}, "hidden=0"),
        ({"alpha": -1}, "alpha=-1"),
        ({"lagrange": -1}, "lagrange=-1"),
        ({"alpha": math.inf}, "alpha=inf"),
        ({"dropout": 1}, "dropout=1"),
        ({"training": {"batch_size": 0}}, r"training\.batch_size=0"),
    ],
)
def test_impossible_settings_are_named(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        C2ae(**wrong)


def test_documents_with_all_labels_or_none() -> None:
    corpus = Corpus.of(["apple storm", "apple", "storm"] * 10, [["fruit", "weather"], ["fruit"], []] * 10)
    model = C2ae(**settings(training={"epochs": 20, "learning_rate": 0.01})).fit(corpus)
    assert model.predict(["apple"], k=1).names()[0][0][0] == "fruit"


def test_validation_documents_with_labels_of_their_own() -> None:
    valid = Corpus.of(["apple w1"] * 12, [["fruit", "never seen"]] * 12)
    model = C2ae(**settings(training={"evaluate_every": 1})).fit(corpus_of(40), valid)
    assert model.predict(valid, k=9).ids.max() == 2


def test_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, config = corpus_of(40), settings(dropout=0.3, training={"epochs": 3})
    whole = C2ae(**config).fit(corpus).predict(corpus, k=2)
    step = Trainer.step

    def killed_in_the_third_epoch(trainer: Trainer, batches: int) -> None:
        if trainer.steps == 9:
            raise MemoryError
        step(trainer, batches)

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(Trainer, "step", killed_in_the_third_epoch)
        C2ae(**config).fit(corpus, checkpoints=tmp_path / "kept")
    assert list((tmp_path / "kept").glob("*-epoch.safetensors"))
    again = C2ae(**config).fit(corpus, checkpoints=tmp_path / "kept").predict(corpus, k=2)
    np.testing.assert_array_equal(again.scores, whole.scores)


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = C2ae(**SMALL).fit(corpus_of(40))
    with torch.no_grad():
        model.network_.output.bias[1] = torch.nan
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match="not finite"):
        load(tmp_path / "model")


@pytest.mark.parametrize("change", [{"hidden": 10**18}, {"hidden": 9}, {"latent": 4}, {"latent": None}])
def test_settings_that_do_not_fit_to_the_weights(tmp_path: Path, change: dict[str, Any]) -> None:
    model = C2ae(**SMALL).fit(corpus_of(40))
    model.config = C2ae(**settings(**change)).config
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match=r"network\.safetensors is damaged"):
        load(tmp_path / "model")


def test_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        C2ae(**SMALL).fit(corpus_of(40))


def test_the_estimate_of_memory_grows_with_what_takes_it() -> None:
    for corpus in (corpus_of(40), with_features(corpus_of(40))):
        wider = corpus.with_labels(corpus.labels.extend([f"more {at}" for at in range(1000)]))
        plain = C2ae(**SMALL).memory_needed(corpus)
        assert C2ae(**SMALL).memory_needed(wider) > plain
        for change in ({"hidden": 99}, {"latent": 99}, {"training": {"batch_size": 99}}):
            assert C2ae(**settings(**change)).memory_needed(corpus) > plain
