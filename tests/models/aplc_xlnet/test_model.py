"""`aplc_xlnet` beside the contract: encoders, partitions, frozen layers, kills, processes, bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import TOPICS, small_corpus
from numpy.typing import NDArray
from scipy.sparse import csr_array
from tiny_encoders import tiny_bert
from warm_processes import ForkServer

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadModelFolder, ConfigError, OutOfMemory, XmtcError
from xmtc.models import base
from xmtc.models.aplc_xlnet import network as cluster_network
from xmtc.models.aplc_xlnet.label_clusters import FrequencyClusters
from xmtc.models.aplc_xlnet.model import AplcTraining, AplcXlNet
from xmtc.models.registry import load
from xmtc.nn.serialization import weights_of

Maker = Callable[[str], Path]
Settings = dict[str, Any]
CHILD = Path(__file__).parent / "children" / "aplc_two_processes.py"


@pytest.fixture
def short(tiny_encoder: Maker) -> Callable[..., Settings]:
    """Settings for two epochs with a tiny encoder, with changes; of nested ones only the named."""

    def made(kind: str = "bert", **changes: Any) -> Settings:
        plain: Settings = {
            "encoder": {"name": str(tiny_encoder(kind)), "max_tokens": 24, "pooling": "mean"},
            "training": {"epochs": 2, "batch_size": 20, "encoder_learning_rate": 0.003},
        }
        return {**plain, **changes} | {key: {**plain[key], **value} for key, value in changes.items() if key in plain}

    return made


def relevant(model: AplcXlNet, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0]
    rows = np.flatnonzero(np.diff(corpus.targets.indptr)).tolist()
    return float(np.mean([top[row] in corpus.labels_of(row) for row in rows]))


def assert_same_weights(one: AplcXlNet, other: AplcXlNet) -> None:
    found, expected = weights_of(one.network_), weights_of(other.network_)
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        np.testing.assert_array_equal(found[name], weight, err_msg=name)


LONGER = {"epochs": 12, "batch_size": 10, "learning_rate": 0.02, "hidden_learning_rate": 0.02, "evaluate_every": 12}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("xlnet", {}),
        ("xlnet", {"encoder": {"pooling": "auto", "frozen_layers": 1}}),
        ("bert", {"hidden": 24}),
        ("bert", {"encoder": {"frozen_layers": 1}}),
        ("bert", {"partition": "auto", "clusters": 3}),
        ("bert", {"training": {"swa_start_epoch": 6}}),
        ("albert", {}),
        ("bert", {"training": {"head_epochs": 4}, "encoder": {"frozen_layers": 1}}),
    ],
    ids=str,
)
def test_variants_learn(short: Callable[..., Settings], kind: str, changes: Settings) -> None:
    training = {"training": {**LONGER, **changes.get("training", {})}}
    corpus = small_corpus()
    model = AplcXlNet(**short(kind, **{**changes, **training})).fit(corpus)
    assert relevant(model, corpus) > 0.7


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"hidden": 12},
        {"dropout": 0.5},
        {"partition": [2]},
        {"partition": [0.2, 0.8]},
        {"clusters": 3},
        {"partition": "auto"},
        {"decay": 4.0},
        {"encoder": {"max_tokens": 5}},
        {"encoder": {"pooling": "first"}},
        {"encoder": {"frozen_layers": 2}},
        {"training": {"epochs": 3}},
        {"training": {"learning_rate": 0.1}},
        {"training": {"encoder_learning_rate": 0.1}},
        {"training": {"hidden_learning_rate": 0.1}},
        {"training": {"warmup_ratio": 0.5}},
        {"training": {"max_grad_norm": 1e-6}},
        {"training": {"weight_decay": 0.9}},
        {"training": {"gradient_accumulation": 2}},
        {"training": {"swa_start_epoch": 0, "evaluate_every": 1}},
    ],
    ids=str,
)
def test_options_have_an_effect(short: Callable[..., Settings], changes: Settings) -> None:
    corpus = small_corpus(40)
    plain, other = (AplcXlNet(**short(**each)).fit(corpus).predict(corpus, k=3).scores for each in ({}, changes))
    assert not np.array_equal(plain, other)


def test_checkpointing_changes_memory_only(short: Callable[..., Settings]) -> None:
    corpus = small_corpus(40)
    plain, other = (AplcXlNet(**short(encoder={"checkpointing": each})).fit(corpus) for each in (False, True))
    np.testing.assert_allclose(plain.predict(corpus).scores, other.predict(corpus).scores, atol=1e-4)


def sizes(counts: NDArray[np.int64], **settings: Any) -> list[int]:
    return AplcXlNet(**settings)._clusters(counts, documents=1000).sizes


@pytest.mark.parametrize(
    ("labels", "settings", "expected"),
    [
        (10, {}, [5, 5]),
        (11, {}, [5, 6]),
        (1, {}, [1]),
        (10, {"clusters": 1}, [10]),
        (10, {"clusters": 3}, [3, 3, 4]),
        (150_000, {}, [50_000] * 3),
        (670_091, {}, [167_522, 167_523, 167_523, 167_523]),
        (3956, {}, [1978, 1978]),
        (10, {"partition": [0.7, 0.2, 0.1]}, [7, 2, 1]),
        (10, {"partition": [2, 9]}, [2, 7, 1]),
    ],
    ids=str,
)
def test_partitions(labels: int, settings: Settings, expected: list[int]) -> None:
    assert sizes(1 + 1000 // np.arange(1, labels + 1), **settings) == expected


def test_the_cheapest_partition() -> None:
    counts = 1 + 1000 // np.arange(1, 1001)
    cheapest = FrequencyClusters.cheapest(counts, documents=1000, tails=2, decay=3)
    assert sizes(counts, partition="auto", clusters=3, decay=3.0) == cheapest.sizes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"partition": [0.5, 0.4]}, r"must add up to 1, these add up to 0\.9"),
        ({"partition": [0.5, 0.5, 0.5]}, "must add up to 1"),
        ({"partition": [-0.5, 1.5]}, "partition"),
        ({"partition": []}, "partition"),
        ({"partition": [5, 5]}, "must rise"),
        ({"partition": [9, 5]}, "must rise"),
        ({"partition": "odd"}, "partition"),
        ({"partition": [0.5, 0.5], "clusters": 3}, "makes 2 clusters, not clusters=3"),
        ({"partition": [5], "clusters": 3}, "makes 2 clusters, not clusters=3"),
        ({"decay": 0.5}, "decay"),
        ({"encoder": {"name": ""}}, "name"),
        ({"encoder": {"pooling": "max"}}, "pooling"),
        ({"training": {"warmup_ratio": 1.0}}, "warmup_ratio"),
        ({"partition": [0.5, 0.6]}, r"^aplc_xlnet: partition=\[0.5, 0.6\]: proportions must add up to 1, these"),
        (
            {"partition": [-0.5, 1.5]},
            r"^aplc_xlnet: partition=\[-0.5, 1.5\]: must be even, auto, proportions",
        ),
        ({"partition": "odd"}, r"^aplc_xlnet: partition='odd': must be even, auto,"),
    ],
    ids=str,
)
def test_settings_that_cannot_be(settings: Settings, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AplcXlNet(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clusters": 7}, "clusters=7 are more than the 6 labels"),
        ({"partition": [0.1] * 10}, "6 labels cannot fill 10 clusters"),
        ({"partition": [3, 60]}, "leave a cluster of the 6 labels empty"),
        ({"partition": [0.01, 0.99]}, "the proportions .* leave a cluster of the 6 labels empty"),
        ({"clusters": 6}, "leaves none for tail 5"),
        ({"encoder": {"frozen_layers": 9}}, "has 3 layers"),
        ({"encoder": {"max_tokens": 2}}, "no room"),
        ({"encoder": {"max_tokens": 999}}, "reads at most 130 tokens"),
    ],
    ids=str,
)
def test_what_does_not_go_with_the_corpus_or_encoder(
    short: Callable[..., Settings], settings: Settings, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        AplcXlNet(**short(**settings)).fit(small_corpus(40))


def test_an_encoder_that_is_not_there_is_found_out_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        AplcXlNet(encoder={"name": str(tmp_path / "none")}).fit(small_corpus(40))


def test_a_corpus_without_texts(short: Callable[..., Settings]) -> None:
    some = small_corpus(40)
    features = Corpus(some.targets, some.labels, features=csr_array(np.ones((40, 2), np.float32)))
    with pytest.raises(XmtcError, match="aplc_xlnet needs text"):
        AplcXlNet(**short()).fit(features)


def test_titles(short: Callable[..., Settings], tmp_path: Path) -> None:
    assert AplcXlNet().title == "APLC-XLNet"
    assert AplcXlNet(encoder={"name": "minilm"}).title == "APLC-MiniLM"
    assert AplcXlNet(encoder={"name": "some/bert-small"}).title == "APLC-bert-small"
    model = AplcXlNet(**short("xlnet", training={"epochs": 1})).fit(small_corpus(40))
    assert model.title == "APLC-XLNet"
    # A name does not make an XLNet.
    folder = tiny_bert(tmp_path / "xlnet-no")
    model = AplcXlNet(**short(encoder={"name": str(folder)}, training={"epochs": 1}))
    assert model.title == "APLC-XLNet"
    model.fit(small_corpus(40)).save(tmp_path / "model")
    assert model.title == load(tmp_path / "model").title == "APLC-xlnet-no"


@pytest.mark.parametrize("kind", ["bert", "xlnet"])
def test_a_saved_model_needs_neither_the_encoders_folder_nor_the_hub(
    short: Callable[..., Settings], tmp_path: Path, kind: str
) -> None:
    settings = short(kind)
    folder = shutil.copytree(settings["encoder"]["name"], tmp_path / "encoder")
    corpus = small_corpus(40)
    model = AplcXlNet(**{**settings, "encoder": {**settings["encoder"], "name": str(folder)}}).fit(corpus)
    model.save(tmp_path / "model")
    shutil.rmtree(folder)
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(corpus).ids, model.predict(corpus).ids)
    np.testing.assert_allclose(loaded.predict(corpus).scores, model.predict(corpus).scores, rtol=1e-5)
    assert str(tmp_path) not in (tmp_path / "model" / "encoder.json").read_text()


def change_facts(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    from xmtc import storage

    facts = json.loads((folder / "encoder.json").read_text())
    change(facts)
    (folder / "encoder.json").write_text(json.dumps(facts))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["encoder.json"] = storage._facts(folder / "encoder.json")
    manifest["checksum"] = storage._checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "change",
    [
        {"pooling": "evil"},
        {"last_layers": 2},
        {"last_layers": -1},
        {"config": {}},
        {"config": []},
        {"config": {"model_type": "gpt2"}},
        {"config": {"model_type": "xlnet"}},
    ],
    ids=str,
)
def test_facts_that_do_not_fit_the_weights(
    short: Callable[..., Settings], tmp_path: Path, change: Mapping[str, Any]
) -> None:
    AplcXlNet(**short(training={"epochs": 1})).fit(small_corpus(40)).save(tmp_path / "model")
    change_facts(tmp_path / "model", lambda facts: facts.update(change))
    with pytest.raises(BadModelFolder):
        load(tmp_path / "model")


def test_labels_without_documents_are_left_out(short: Callable[..., Settings], tmp_path: Path) -> None:
    some = small_corpus(40)
    known = [some.labels.name(at) for at in range(len(some.labels))]
    names = [name for label in known for name in (f"never {label}", label)]
    tags = [[known[label] for label in some.labels_of(row)] for row in range(len(some))]
    assert some.texts is not None
    AplcXlNet(**short()).fit(Corpus.of(some.texts, tags, LabelSet.of(names))).save(tmp_path / "model")
    model = load(tmp_path / "model")
    assert {name for name, _ in model.predict(["ship"], k=len(names)).names()[0]} == set(known)
    assert model.predict(some, k=3).names() == AplcXlNet(**short()).fit(some).predict(some, k=3).names()


@pytest.mark.parametrize("frozen", [0, 2])
def test_going_on_after_a_kill_gives_the_same_model(
    short: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: int
) -> None:
    training = {"epochs": 4, "evaluate_every": 2, "swa_start_epoch": 2, "warmup_ratio": 0.2}
    settings = short(encoder={"frozen_layers": frozen}, training=training)
    corpus = small_corpus(100)
    whole = AplcXlNet(**settings).fit(corpus)
    calls, loss = [0], cluster_network.AplcLearner.loss

    def killed(self: cluster_network.AplcLearner, *given: Any) -> Any:
        calls[0] += 1
        if calls[0] > 12:
            raise KeyboardInterrupt
        return loss(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(cluster_network.AplcLearner, "loss", killed)
        with pytest.raises(KeyboardInterrupt):
            AplcXlNet(**settings).fit(corpus, checkpoints=tmp_path / "pieces")
    assert list((tmp_path / "pieces").glob("*-epoch.safetensors"))
    assert_same_weights(AplcXlNet(**settings).fit(corpus, checkpoints=tmp_path / "pieces"), whole)


def test_frozen_weights_stay_as_they_were(short: Callable[..., Settings]) -> None:
    before = AplcXlNet(**short(encoder={"frozen_layers": 3}, training={"epochs": 1})).fit(small_corpus(40))
    after = AplcXlNet(**short(encoder={"frozen_layers": 2}, training={"epochs": 1})).fit(small_corpus(40))
    one, other = weights_of(before.network_), weights_of(after.network_)
    moved = {name for name in one if name.startswith("encoder.") and not np.array_equal(one[name], other[name])}
    assert moved
    assert all(".layer.2." in name for name in moved)


def test_two_processes_learn_what_one_learns(fork_server: Callable[..., ForkServer], tmp_path: Path) -> None:
    words = list(TOPICS.values())
    dropout = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.3, "num_hidden_layers": 2}
    settings = {
        "encoder": {
            "name": str(tiny_bert(tmp_path / "bert", words, **dropout)),
            "max_tokens": 24,
            "frozen_layers": 1,
            "precision": "single",  # bfloat16 rounds sums of other documents in other ways
        },
        "dropout": 0.3,
        "training": {"epochs": 1, "batch_size": 7, "learning_rate": 0.01, "encoder_learning_rate": 0.003},
        "partition": [1, 4],  # the last tail is needed by few documents
    }
    run = fork_server("numba", "lightning.fabric").run(CHILD, json.dumps(settings))
    assert run.returncode == 0, run.stderr[-3000:]
    for name, (apart, largest) in json.loads(run.stdout.splitlines()[-1]).items():
        assert apart <= 1e-4 * max(1.0, largest), name


def test_rates() -> None:
    training = AplcTraining(learning_rate=3.0, encoder_learning_rate=1.0, hidden_learning_rate=2.0)
    names = ("encoder.model.layer.0.weight", "hidden.weight", "output.head.weight", "output.tails.0.labels.weight")
    assert [training.rate_of(name, False) for name in names] == [1.0, 2.0, 3.0, 3.0]


def test_memory_grows_with_what_is_learned(short: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus(40)

    def needed(**changes: Any) -> int:
        return AplcXlNet(**short(**changes)).memory_needed(corpus)

    assert needed(encoder={"frozen_layers": 2}) < needed() < needed(hidden=4096)
    assert needed(training={"batch_size": 1}) < needed()
    assert needed(encoder={"checkpointing": True}) < needed()
    assert AplcXlNet().memory_needed(corpus) > 3 << 30  # XLNet-base
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        AplcXlNet(**short()).fit(corpus)
