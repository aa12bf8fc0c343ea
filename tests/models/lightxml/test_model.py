"""`lightxml` beside the contract: flat and clusters, layers, rates, kills, bad input."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import small_corpus
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import ConfigError, OutOfMemory, XmtcError
from xmtc.models import base
from xmtc.models.lightxml import network as light_network
from xmtc.models.lightxml.model import LightXml, LightXmlTraining
from xmtc.models.registry import load
from xmtc.nn.serialization import weights_of

Maker = Callable[[str], Path]
Settings = dict[str, Any]
Shorten = Callable[..., Settings]
CLUSTERS = {"tree": "clusters", "max_leaf": 2}


@pytest.fixture
def short(tiny_encoder: Maker) -> Shorten:
    """Settings for two epochs with a tiny encoder, with changes; of nested ones only the named."""

    def made(kind: str = "bert", **changes: Any) -> Settings:
        plain: Settings = {
            "encoder": {"name": str(tiny_encoder(kind)), "max_tokens": 24, "pooling": "mean"},
            "layers": 2,
            "bottleneck": 12,
            "beam_width": 2,
            "training": {"epochs": 2, "batch_size": 20, "encoder_learning_rate": 0.003, "learning_rate": 0.02},
        }
        nested = {key: {**plain[key], **changes.get(key, {})} for key in ("encoder", "training")}
        return {**plain, **changes, **nested}

    return made


def share_right(model: LightXml, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0]
    rows = np.flatnonzero(np.diff(corpus.targets.indptr)).tolist()
    return float(np.mean([top[row] in corpus.labels_of(row) for row in rows]))


LONGER = {"epochs": 10, "batch_size": 10, "evaluate_every": 12}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("bert", {}),
        ("bert", CLUSTERS),
        ("xlnet", {**CLUSTERS, "encoder": {"pooling": "auto"}}),
        ("bert", {**CLUSTERS, "encoder": {"frozen_layers": 2}}),
        ("bert", {"training": {"swa_start_epoch": None}}),
        ("albert", {}),
    ],
    ids=str,
)
def test_variants_learn(short: Shorten, kind: str, changes: Settings) -> None:
    training = {"training": {**LONGER, **changes.get("training", {})}}
    corpus = small_corpus()
    model = LightXml(**short(kind, **{"dropout": 0.1, **changes, **training})).fit(corpus)
    assert share_right(model, corpus) > 0.7


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"layers": 1},
        {"dropout": 0.1},
        {"tree": "flat"},
        {"max_leaf": 1},
        {"beam_width": 1},
        {"bottleneck": 5},
        {"encoder": {"pooling": "first"}},
        {"encoder": {"frozen_layers": 1}},
        {"training": {"learning_rate": 0.1}},
        {"training": {"warmup_ratio": 0.5}},
        {"training": {"weight_decay": 0.9}},
        {"training": {"max_grad_norm": 1e-6}},
        {"training": {"swa_start_epoch": 0, "evaluate_every": 1}},
    ],
    ids=str,
)
def test_options_have_an_effect(short: Shorten, changes: Settings) -> None:
    corpus = small_corpus(40)
    plain, other = (
        LightXml(**short(**{**CLUSTERS, **each})).fit(corpus).predict(corpus, k=3).scores for each in ({}, changes)
    )
    assert not np.array_equal(plain, other)


def test_few_labels_are_flat_and_many_are_in_clusters() -> None:
    assert LightXml()._is_flat(31_000)
    assert not LightXml()._is_flat(100_000)
    assert LightXml(tree="flat")._is_flat(100_000)
    assert not LightXml(tree="clusters")._is_flat(10)


def test_a_single_cluster_is_flat(short: Shorten) -> None:
    model = LightXml(**short(tree="clusters", max_leaf=100)).fit(small_corpus(40))
    assert model.network_.tree.depth == 1


def test_rates_rise_and_stay() -> None:
    training = LightXmlTraining(warmup_ratio=0.25, learning_rate=3.0, encoder_learning_rate=1.0)
    assert [training.lr_multiplier(step, 8) for step in (0, 1, 2, 7)] == [0.0, 0.5, 1.0, 1.0]
    assert LightXmlTraining().lr_multiplier(0, 8) == 1.0
    assert training.rate_of("encoder.model.x", False) == 1.0
    assert training.rate_of("labels.weight", True) == training.rate_of("generator.weight", False) == 3.0


@pytest.mark.parametrize("changes", [CLUSTERS, {}], ids=["clusters", "flat"])
def test_going_on_after_a_kill_gives_the_same_model(
    short: Shorten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: Settings
) -> None:
    settings = short(**changes, training={"epochs": 4, "evaluate_every": 2, "swa_start_epoch": 2, "warmup_ratio": 0.2})
    corpus = small_corpus(100)
    whole = LightXml(**settings).fit(corpus)
    calls, loss = [0], light_network.LightLearner.loss

    def killed(self: light_network.LightLearner, *given: Any) -> Any:
        calls[0] += 1
        if calls[0] > 12:
            raise KeyboardInterrupt
        return loss(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(light_network.LightLearner, "loss", killed)
        with pytest.raises(KeyboardInterrupt):
            LightXml(**settings).fit(corpus, checkpoints=tmp_path / "pieces")
    assert list((tmp_path / "pieces").glob("*-epoch.safetensors"))
    resumed = weights_of(LightXml(**settings).fit(corpus, checkpoints=tmp_path / "pieces").network_)
    for name, weight in weights_of(whole.network_).items():
        np.testing.assert_array_equal(resumed[name], weight, err_msg=name)


def test_labels_without_documents_are_left_out(short: Shorten, tmp_path: Path) -> None:
    some = small_corpus(40)
    known = [some.labels.name(at) for at in range(len(some.labels))]
    names = [name for label in known for name in (f"never {label}", label)]
    tags = [[known[label] for label in some.labels_of(row)] for row in range(len(some))]
    assert some.texts is not None
    settings = short(**CLUSTERS, **{"beam_width": 9})
    LightXml(**settings).fit(Corpus.of(some.texts, tags, LabelSet.of(names))).save(tmp_path / "model")
    model = load(tmp_path / "model")
    assert {name for name, _ in model.predict(["ship"], k=len(names)).names()[0]} == set(known)
    assert model.predict(some, k=3).names() == LightXml(**settings).fit(some).predict(some, k=3).names()


def test_a_saved_model_needs_no_folder_of_the_encoder(short: Shorten, tmp_path: Path) -> None:
    settings, corpus = short(**CLUSTERS), small_corpus(40)
    folder = shutil.copytree(settings["encoder"]["name"], tmp_path / "encoder")
    model = LightXml(**{**settings, "encoder": {**settings["encoder"], "name": str(folder)}}).fit(corpus)
    model.save(tmp_path / "model")
    shutil.rmtree(folder)
    np.testing.assert_array_equal(load(tmp_path / "model").predict(corpus).ids, model.predict(corpus).ids)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": 4}, "layers=4: this encoder has 3 layers, not 4"),
        ({"layers": 3, "encoder": {"frozen_layers": 2}}, "freeze 1 at most, or all 3"),
    ],
    ids=str,
)
def test_what_does_not_go_with_the_encoder(short: Shorten, settings: Settings, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LightXml(**short(**settings)).fit(small_corpus(40))


def test_bad_input(short: Shorten, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        LightXml(encoder={"name": str(tmp_path / "none")}).fit(small_corpus(40))
    with pytest.raises(ConfigError, match="bottleneck"):
        LightXml(bottleneck=0)
    some = small_corpus(40)
    features = Corpus(some.targets, some.labels, features=csr_array(np.ones((40, 2), np.float32)))
    with pytest.raises(XmtcError, match="lightxml needs text"):
        LightXml(**short()).fit(features)


def test_titles() -> None:
    assert LightXml().title == LightXml(encoder={"name": "bert-base-uncased"}).title == "LightXML"
    assert LightXml(encoder={"name": "minilm"}).title == "LightXML-MiniLM"


def test_memory_grows_with_what_is_learned(short: Shorten, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus(40)

    def needed(**changes: Any) -> int:
        return LightXml(**short(**{**CLUSTERS, **changes})).memory_needed(corpus)

    assert needed(encoder={"frozen_layers": 2}) < needed() < needed(bottleneck=100_000)
    assert needed(tree="flat", layers=1) < needed(tree="flat", layers=2)
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        LightXml(**short()).fit(corpus)
