"""`xml_cnn` beside the contract: what its options do, going on after a kill, hostile weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from xmtc import storage
from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, ConfigError, OutOfMemory
from xmtc.models import base
from xmtc.models.registry import load
from xmtc.models.xml_cnn.model import XmlCnn
from xmtc.nn import level as levels
from xmtc.nn.serialization import weights_of

SMALL: dict[str, Any] = {
    "widths": [2, 3],
    "filters": 6,
    "chunks": 2,
    "bottleneck": 5,
    "dropout": 0.0,
    "words": {"vectors": "random", "dimensions": 7},
    "training": {"epochs": 1, "batch_size": 10},
}


def first_or_last(documents: int = 90) -> Corpus:
    """The word `key` at the beginning or at the end: only its place tells the label."""
    rng = np.random.default_rng(0)
    texts, tags = [], []
    for at in range(documents):
        others = rng.choice(["cloud", "wind", "rain", "storm", "sun", "snow"], 7).tolist()
        texts.append(" ".join(["key", *others] if at % 2 else [*others, "key"]))
        tags.append(["begins" if at % 2 else "ends"])
    return Corpus.of(texts, tags)


def relevant(model: XmlCnn, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0]
    return float(np.mean([label in corpus.labels_of(row) for row, label in enumerate(top.tolist())]))


def settings(**changes: Any) -> dict[str, Any]:
    """Those that are small, with changes; of nested ones only the named."""
    merged = {**SMALL, **changes}
    return merged | {
        key: {**SMALL[key], **value} for key, value in changes.items() if isinstance(value, dict) and key in SMALL
    }


def test_chunks_keep_where_something_stands() -> None:
    """Windows of one word do not know their place, so one chunk cannot tell the labels apart, and two can."""
    training = {"epochs": 10, "learning_rate": 0.02}
    corpus, unseen = first_or_last(), first_or_last(130)[90:]
    models = [XmlCnn(**settings(widths=[1], chunks=n, training=training)).fit(corpus) for n in (1, 2)]
    assert relevant(models[0], unseen) < 0.8
    assert relevant(models[1], unseen) == 1.0


@pytest.mark.parametrize(
    ("changes", "name", "shape"),
    [
        ({}, "convolution.windows.1", (6, 3, 7)),
        ({"widths": [5]}, "convolution.windows.0", (6, 5, 7)),
        ({"filters": 4}, "convolution.bias", (2, 1, 4)),
        ({"chunks": 3}, "bottleneck.weight", (5, 36)),
        ({"bottleneck": 4}, "output.weight", (2, 4)),
        ({"words": {"dimensions": 3}}, "convolution.windows.0", (6, 2, 3)),
        ({"words": {"max_words": 4}}, "words.words.weight", (4, 7)),
    ],
    ids=str,
)
def test_sizes(changes: dict[str, Any], name: str, shape: tuple[int, ...]) -> None:
    model = XmlCnn(**settings(**changes)).fit(first_or_last(30))
    assert weights_of(model.network_)[name].shape == shape


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"stride": 2},
        {"dropout": 0.5},
        {"words": {"dropout": 0.5}},
        {"words": {"max_tokens": 4}},
        {"words": {"vectors": "learn"}},
        {"training": {"epochs": 2}},
        {"training": {"learning_rate": 0.1}},
        {"training": {"swa_start_epoch": 0, "evaluate_every": 1}},
        {"training": {"batch_size": 5}},
        {"training": {"gradient_accumulation": 2}},
    ],
    ids=str,
)
def test_options_have_an_effect(changes: dict[str, Any]) -> None:
    corpus = first_or_last(30)
    plain, other = (XmlCnn(**settings(**each)).fit(corpus).predict(corpus, k=2).scores for each in ({}, changes))
    assert not np.array_equal(plain, other)


def test_frozen_words_stay() -> None:
    corpus = first_or_last(30)
    tables = []
    for frozen in (True, False):
        for learning_rate in (1e-3, 1e-2):
            changes = {"words": {"frozen": frozen}, "training": {"learning_rate": learning_rate}}
            tables.append(weights_of(XmlCnn(**settings(**changes)).fit(corpus).network_)["words.words.weight"])
    np.testing.assert_array_equal(tables[0], tables[1])
    assert not np.array_equal(tables[2], tables[3])


def test_weights_are_averaged_only_if_asked_for() -> None:
    assert XmlCnn(training={"epochs": 3}).config.training.swa_start_epoch is None
    assert XmlCnn(training={"swa_start_epoch": 2}).config.training.swa_start_epoch == 2


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"widths": []}, "widths"),
        ({"widths": [0]}, r"widths\.0=0"),
        ({"filters": 0}, "filters=0"),
        ({"stride": 0}, "stride=0"),
        ({"chunks": 0}, "chunks=0"),
        ({"bottleneck": 0}, "bottleneck=0"),
        ({"dropout": 1.0}, r"dropout=1\.0"),
        ({"words": {"frozen": 3}}, r"words\.frozen=3"),
    ],
)
def test_impossible_settings_are_named(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        XmlCnn(**wrong)


def test_texts_shorter_than_windows_and_chunks() -> None:
    corpus = Corpus.of(["a", "b", "a b"] * 10, [["x"], ["y"], ["x", "y"]] * 10)
    model = XmlCnn(**settings(widths=[8], chunks=8, training={"epochs": 10, "learning_rate": 0.02})).fit(corpus)
    assert model.predict(["a", "b"], k=1).ids.ravel().tolist() == [0, 1]


def test_few_documents_at_a_time_where_labels_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = first_or_last(40)
    model = XmlCnn(**SMALL).fit(corpus)
    expected = model.predict(corpus, k=2)
    monkeypatch.setattr(levels, "MAX_SCORES", 3)
    found = model.predict(corpus, k=2)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def test_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from xmtc.nn.trainer import Trainer

    corpus, config = first_or_last(40), settings(dropout=0.3, training={"epochs": 3})
    whole = XmlCnn(**config).fit(corpus).predict(corpus, k=2)
    step = Trainer.step

    def killed_in_the_third_epoch(trainer: Trainer, batches: int) -> None:
        if trainer.steps == 9:
            raise MemoryError
        step(trainer, batches)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", killed_in_the_third_epoch)
        with pytest.raises(MemoryError):
            XmlCnn(**config).fit(corpus, checkpoints=tmp_path / "pieces")
    resumed = XmlCnn(**config).fit(corpus, checkpoints=tmp_path / "pieces").predict(corpus, k=2)
    np.testing.assert_array_equal(resumed.scores, whole.scores)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_numbers_of_another_type_are_refused(tmp_path: Path, dtype: type[Any]) -> None:
    XmlCnn(**SMALL).fit(first_or_last(30)).save(tmp_path / "model")
    change_weights(tmp_path / "model", "output.weight", dtype)
    with pytest.raises(BadModelFolder, match=r"network\.safetensors.*output\.weight are of the type"):
        load(tmp_path / "model")


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = XmlCnn(**SMALL).fit(first_or_last(30))
    with torch.no_grad():
        model.network_.output.bias[1] = torch.nan
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match="not finite"):
        load(tmp_path / "model")


@pytest.mark.parametrize("change", [{"filters": 10**18}, {"widths": [10**15] * 3}, {"bottleneck": 6}, {"chunks": 4}])
def test_settings_that_do_not_fit_to_the_weights(tmp_path: Path, change: dict[str, Any]) -> None:
    model = XmlCnn(**SMALL).fit(first_or_last(30))
    model.config = XmlCnn(**settings(**change)).config
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match=r"network\.safetensors is damaged"):
        load(tmp_path / "model")


def change_weights(folder: Path, name: str, dtype: type[Any]) -> None:
    arrays = {key: np.array(array) for key, array in storage.read_arrays(folder / "network.safetensors").items()}
    arrays[name] = arrays[name].astype(dtype)
    storage.FolderWriter(folder).arrays("network", arrays)
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    manifest["files"]["network.safetensors"] = storage._facts(folder / "network.safetensors")
    manifest["checksum"] = storage._checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def test_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        XmlCnn(**SMALL).fit(first_or_last(30))


def test_the_estimate_of_memory_grows_with_what_takes_it() -> None:
    corpus = first_or_last(30)
    wider = corpus.with_labels(corpus.labels.extend([f"more {at}" for at in range(1000)]))
    plain = XmlCnn(**SMALL).memory_needed(corpus)
    assert XmlCnn(**SMALL).memory_needed(wider) > plain
    for change in ({"filters": 99}, {"bottleneck": 99}, {"chunks": 99}, {"words": {"dimensions": 99}}):
        assert XmlCnn(**settings(**change)).memory_needed(corpus) > plain
