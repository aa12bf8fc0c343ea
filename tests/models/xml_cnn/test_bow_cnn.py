"""`bow_cnn` beside the contract: what its options do, odd documents, explanations, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, ConfigError, OutOfMemory
from xmtc.models import base
from xmtc.models.registry import load
from xmtc.models.xml_cnn.bow_cnn import BowCnn
from xmtc.nn.serialization import weights_of

SMALL: dict[str, Any] = {
    "regions": [2, 3],
    "units": 6,
    "chunks": 2,
    "dropout": 0.0,
    "training": {"epochs": 1, "batch_size": 10, "learning_rate": 0.02},
}


def settings(**changes: Any) -> dict[str, Any]:
    """Those that are small, with changes; of nested ones only the named."""
    merged = {**SMALL, **changes}
    return merged | {
        key: {**SMALL[key], **value} for key, value in changes.items() if isinstance(value, dict) and key in SMALL
    }


def beside_or_apart(documents: int = 90) -> Corpus:
    """Two words beside each other or far apart: only which words are near tells the label."""
    rng = np.random.default_rng(0)
    texts, tags = [], []
    for at in range(documents):
        others = rng.choice(["cloud", "wind", "rain", "storm", "sun", "snow"], 9).tolist()
        pair = ["left", "right"] if rng.integers(2) else ["right", "left"]
        texts.append(" ".join([*others[:4], *pair, *others[4:]] if at % 2 else [pair[0], *others, pair[1]]))
        tags.append(["beside" if at % 2 else "apart"])
    return Corpus.of(texts, tags)


def relevant(model: BowCnn, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0]
    return float(np.mean([label in corpus.labels_of(row) for row, label in enumerate(top.tolist())]))


def test_regions_tell_which_words_are_near() -> None:
    """With regions of one word and one chunk a text is a bag of words, which is the same for both labels."""
    training = {"epochs": 12}
    corpus, unseen = beside_or_apart(), beside_or_apart(130)[90:]
    models = [BowCnn(**settings(regions=[n], chunks=1, pooling="max", training=training)).fit(corpus) for n in (1, 2)]
    assert relevant(models[0], unseen) < 0.8
    assert relevant(models[1], unseen) == 1.0


@pytest.mark.parametrize(
    ("changes", "name", "shape"),
    [
        ({}, "regions.tables.1.weight", (10, 6)),
        ({"regions": [5]}, "regions.bias", (1, 1, 6)),
        ({"units": 4}, "regions.tables.0.weight", (10, 4)),
        ({"chunks": 3}, "output.weight", (2, 36)),
        ({"words": {"max_words": 4}}, "regions.tables.0.weight", (4, 6)),
    ],
    ids=str,
)
def test_sizes(changes: dict[str, Any], name: str, shape: tuple[int, ...]) -> None:
    model = BowCnn(**settings(**changes)).fit(beside_or_apart(30))
    assert weights_of(model.network_)[name].shape == shape


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"regions": [4, 3]},
        {"pooling": "max"},
        {"normalise": True},
        {"dropout": 0.5},
        {"loss": "softmax"},
        {"words": {"max_tokens": 4}},
        {"words": {"min_df": 30}},
        {"training": {"epochs": 2}},
        {"training": {"batch_size": 5}},
        {"training": {"swa_start_epoch": 0, "evaluate_every": 1}},
    ],
    ids=str,
)
def test_options_have_an_effect(changes: dict[str, Any]) -> None:
    corpus = beside_or_apart(30)
    plain, other = (BowCnn(**settings(**each)).fit(corpus).predict(corpus, k=2).scores for each in ({}, changes))
    assert not np.array_equal(plain, other)


def test_probabilities_of_a_softmax_add_up_to_1() -> None:
    corpus = beside_or_apart(30)
    top = BowCnn(**settings(loss="softmax")).fit(corpus).predict(corpus, k=2)
    np.testing.assert_allclose(top.scores.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["average", "max"])
def test_texts_shorter_than_regions_and_chunks_or_empty(pooling: str) -> None:
    corpus = Corpus.of(["a", "b", "a b"] * 10, [["x"], ["y"], ["x", "y"]] * 10)
    training = {"epochs": 10, "batch_size": 5, "learning_rate": 0.05}
    model = BowCnn(**settings(regions=[8], chunks=12, pooling=pooling, training=training)).fit(corpus)
    assert model.predict(["a", "b"], k=1).ids.ravel().tolist() == [0, 1]
    empty, unknown = model.predict(["", "zebra"], k=2).scores
    np.testing.assert_array_equal(empty, unknown)


@pytest.mark.parametrize("loss", ["sigmoid", "softmax"])
def test_one_label(loss: str) -> None:
    corpus = Corpus.of(["a b", "b c"] * 10, [["x"]] * 20)
    model = BowCnn(**settings(loss=loss)).fit(corpus)
    assert model.predict(["a"], k=1).ids.tolist() == [[0]]


def test_explained_by_words() -> None:
    corpus = Corpus.of(["ship sail", "bread oven"] * 20, [["sea"], ["kitchen"]] * 20)
    model = BowCnn(**settings(training={"epochs": 5})).fit(corpus)
    why = model.explain("Ship ship and bread", "sea")
    weights = dict(why.words)
    assert weights.keys() == {"ship", "bread"}, "the network knows no other word"
    assert weights["ship"] > 0 > weights["bread"]
    assert "the words add up to" in why.evidence[0]
    assert model.explain("", "sea").words == ()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"regions": []}, "regions"),
        ({"regions": [0]}, r"regions\.0=0"),
        ({"units": 0}, "units=0"),
        ({"chunks": 0}, "chunks=0"),
        ({"pooling": "min"}, "pooling='?min"),
        ({"loss": "hinge"}, "loss='?hinge"),
        ({"dropout": 1.0}, r"dropout=1\.0"),
        ({"words": {"dimensions": 100}}, "dimensions"),
    ],
)
def test_impossible_settings_are_named(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        BowCnn(**wrong)


@pytest.mark.parametrize("change", [{"units": 10**18}, {"units": 7}, {"chunks": 4}, {"regions": [2]}])
def test_settings_that_do_not_fit_to_the_weights(tmp_path: Path, change: dict[str, Any]) -> None:
    model = BowCnn(**SMALL).fit(beside_or_apart(30))
    model.config = BowCnn(**settings(**change)).config
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match=r"network\.safetensors is damaged"):
        load(tmp_path / "model")


def test_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        BowCnn(**SMALL).fit(beside_or_apart(30))


def test_the_estimate_of_memory_grows_with_what_takes_it() -> None:
    corpus = beside_or_apart(30)
    wider = corpus.with_labels(corpus.labels.extend([f"more {at}" for at in range(1000)]))
    plain = BowCnn(**SMALL).memory_needed(corpus)
    assert BowCnn(**SMALL).memory_needed(wider) > plain
    changes: tuple[dict[str, Any], ...] = ({"units": 99}, {"regions": [2, 99]}, {"chunks": 99}, {"regions": [2, 3, 3]})
    for change in changes:
        assert BowCnn(**settings(**change)).memory_needed(corpus) > plain
