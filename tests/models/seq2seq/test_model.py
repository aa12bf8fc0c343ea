"""`mlc2seq`, `sgm` and `su4mlc` beside the contract: options, bad input, clusters, explanations, a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_seq2seq import METHODS

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadInput, BadModelFolder, ConfigError, OutOfMemory
from xmtc.models import base
from xmtc.models.registry import load
from xmtc.models.seq2seq.model import Mlc2Seq, Seq2Seq, Sgm
from xmtc.nn.trainer import Trainer

WORDS = {"vectors": "random", "dimensions": 8, "dropout": 0.0}
SMALL: dict[str, Any] = {
    "hidden": 8,
    "label_dimensions": 8,
    "dropout": 0.0,
    "words": WORDS,
    "training": {"epochs": 2, "batch_size": 10, "learning_rate": 0.02},
}
TAGS, SIGNS = ["fruit", "weather", "music", "sport"], ["apple", "storm", "violin", "ball"]


def corpus_of(documents: int = 60, seed: int = 0) -> Corpus:
    """A word for each label; the last label is above all others."""
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(4)[: rng.integers(1, 4)] for _ in range(documents)]
    texts = [" ".join([*(SIGNS[at] for at in each), f"w{rng.integers(9)}"]) for each in chosen]
    labels = LabelSet.of(TAGS, parents=[["sport"], ["sport"], ["sport"], []])
    return Corpus.of(texts, [[TAGS[at] for at in each] for each in chosen], label_set=labels)


def settings(**changes: Any) -> dict[str, Any]:
    found = {**SMALL, **changes}
    return found | {key: {**SMALL[key], **changes.get(key, {})} for key in ("words", "training")}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("adaptive_above", [10_000, 2], ids=["one softmax", "clusters"])
def test_finds_all_labels_of_a_document(method: type[Seq2Seq], adaptive_above: int) -> None:
    model = method(**settings(adaptive_above=adaptive_above, training={"epochs": 20})).fit(corpus_of(120))
    assert len(model.network_.output.tails) == (adaptive_above == 2) * 2
    top = model.predict(["violin w3 apple", "ball"], k=4)
    assert {name for name, score in top.names()[0] if score > 0.5} == {"fruit", "music"}
    assert {name for name, score in top.names()[1] if score > 0.5} == {"sport"}


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"hidden": 4},
        {"label_dimensions": 4},
        {"dropout": 0.5},
        {"order": "hierarchy"},
        {"max_labels": 1},
        {"beam_width": 1},
        {"adaptive_above": 3},
        {"words": {"dropout": 0.5}},
        {"training": {"epochs": 3}},
        {"training": {"epoch_decay": 0.5}},
        {"training": {"max_grad_norm": 0.1}},
        {"training": {"swa_start_epoch": 0, "evaluate_every": 1}},
    ],
    ids=str,
)
def test_options_have_an_effect(changes: dict[str, Any]) -> None:
    corpus = corpus_of()
    plain, other = (Mlc2Seq(**settings(**each)).fit(corpus).predict(corpus, k=3).scores for each in ({}, changes))
    assert not np.array_equal(plain, other)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"hidden": 0}, "hidden=0"),
        ({"label_dimensions": 0}, "label_dimensions=0"),
        ({"max_labels": 0}, "max_labels=0"),
        ({"beam_width": 0}, "beam_width=0"),
        ({"adaptive_above": 0}, "adaptive_above=0"),
        ({"dropout": 1}, "dropout=1"),
        ({"training": {"epoch_decay": 0}}, r"training\.epoch_decay=0"),
    ],
)
def test_impossible_settings_are_named(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Mlc2Seq(**wrong)


def test_longer_documents_than_the_decoder_allows(capsys: pytest.CaptureFixture[str]) -> None:
    model = Sgm(**settings(max_labels=2)).fit(corpus_of())
    assert "have more than max_labels=2 labels (up to 3); the last ones in the order are not" in capsys.readouterr().err
    assert model.max_labels_ == 2
    assert Sgm(**SMALL).fit(corpus_of()).max_labels_ == 3


def test_orders_that_cannot_be(tmp_path: Path) -> None:
    corpus = corpus_of()
    (tmp_path / "order").write_text("music\nfruit\n")
    with pytest.raises(BadInput, match="the order lacks labels that training documents have: "):
        Mlc2Seq(**settings(order=str(tmp_path / "order"))).fit(corpus)
    with pytest.raises(BadInput, match="hierarchie"):
        Mlc2Seq(**settings(order="hierarchie")).fit(corpus)
    plain = replace(corpus, labels=replace(corpus.labels, parents=None))
    with pytest.raises(ConfigError, match="these labels have no parents"):
        Mlc2Seq(**settings(order="hierarchy")).fit(plain)


@pytest.mark.parametrize("method", METHODS)
def test_documents_without_labels_end_at_once(method: type[Seq2Seq]) -> None:
    corpus = Corpus.of(["apple", "storm", "nothing"] * 20, [["fruit"], ["fruit"], []] * 20)
    model = method(**settings(training={"epochs": 15})).fit(corpus)
    scores = model.predict(["apple", "nothing"], k=1).scores[:, 0]
    assert scores[0] > 0.8
    assert scores[1] < 0.2
    (only,) = model.predict(["storm"], k=9).names()[0]
    assert only[0] == "fruit"


def test_an_explanation_is_the_attention_where_the_label_was_emitted() -> None:
    model = Mlc2Seq(**settings(training={"epochs": 20})).fit(corpus_of(120))
    first, second = model.explain("violin w3 apple", k=2)
    assert {first.label, second.label} == {"fruit", "music"}
    assert first.evidence[0].startswith("emitted as the first label with probability 0.")
    assert second.evidence[0].startswith(f"emitted after {first.label} with probability 0.")
    for why in (first, second):
        assert sum(weight for _, weight in why.words) == pytest.approx(1, abs=1e-4)
    unseen = corpus_of().with_labels(corpus_of().labels.extend(["never"]))
    assert Mlc2Seq(**SMALL).fit(unseen).explain("apple", "never").evidence == ("no training document had this label",)


def test_validation_documents_with_labels_of_their_own() -> None:
    valid = Corpus.of(["apple w1"] * 12, [["fruit", "never seen"]] * 12)
    model = Mlc2Seq(**settings(training={"evaluate_every": 1})).fit(corpus_of(), valid)
    assert model.predict(valid, k=9).ids.max() == 3


def test_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, config = corpus_of(), settings(dropout=0.3, training={"epochs": 3})
    whole = Sgm(**config).fit(corpus).predict(corpus, k=2)
    step = Trainer.step

    def killed_in_the_third_epoch(trainer: Trainer, batches: int) -> None:
        if trainer.steps == 14:
            raise MemoryError
        step(trainer, batches)

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(Trainer, "step", killed_in_the_third_epoch)
        Sgm(**config).fit(corpus, checkpoints=tmp_path / "kept")
    again = Sgm(**config).fit(corpus, checkpoints=tmp_path / "kept").predict(corpus, k=2)
    np.testing.assert_array_equal(again.scores, whole.scores)


@pytest.mark.parametrize("change", [{"hidden": 10**18}, {"hidden": 9}, {"label_dimensions": 4}, {"adaptive_above": 2}])
def test_settings_that_do_not_fit_to_the_weights(tmp_path: Path, change: dict[str, Any]) -> None:
    model = Mlc2Seq(**SMALL).fit(corpus_of())
    model.config = Mlc2Seq(**settings(**change)).config
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match=r"network\.safetensors is damaged"):
        load(tmp_path / "model")


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = Mlc2Seq(**SMALL).fit(corpus_of())
    with torch.no_grad():
        model.network_.output.head.bias[1] = torch.nan
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match="not finite"):
        load(tmp_path / "model")


def test_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        Mlc2Seq(**SMALL).fit(corpus_of())


def test_the_estimate_of_memory_grows_with_what_takes_it() -> None:
    corpus = corpus_of()
    plain = Mlc2Seq(**SMALL).memory_needed(corpus)
    for change in ({"hidden": 99}, {"label_dimensions": 99}, {"training": {"batch_size": 99}}):
        assert Mlc2Seq(**settings(**change)).memory_needed(corpus) > plain
