"""`rank_ae` beside the contract: what its options do, features, many labels, explanations, kills, hostile weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, ConfigError, OutOfMemory, XmtcError
from xmtc.models import base
from xmtc.models.rank_ae import model as rank_ae
from xmtc.models.rank_ae.model import RankAe
from xmtc.models.registry import load
from xmtc.nn.serialization import weights_of

SMALL: dict[str, Any] = {
    "channels": 8,
    "ratio": 2,
    "latent": 4,
    "hidden": 6,
    "dropout": 0.0,
    "denoise": 0.0,
    "x_decode": 0.0,
    "training": {"epochs": 2, "batch_size": 20, "swa_start_epoch": None, "row_learning_rate": None},
}
LONGER: dict[str, Any] = {"training": {"epochs": 30, "batch_size": 20, "learning_rate": 0.02}}


def settings(**changes: Any) -> dict[str, Any]:
    """Those that are small, with changes; of nested ones only the named."""
    merged = {**SMALL, **changes}
    return merged | {
        key: {**SMALL[key], **value} for key, value in changes.items() if isinstance(value, dict) and key in SMALL
    }


def weather(documents: int = 60) -> Corpus:
    """One word tells the label, and one of two further labels goes with it."""
    rng = np.random.default_rng(0)
    texts, tags = [], []
    for at in range(documents):
        others = rng.choice(["cloud", "wind", "grey", "blue"], 3).tolist()
        texts.append(" ".join([("sun", "rain", "snow")[at % 3], *others]))
        tags.append([("dry", "wet", "cold")[at % 3], "weather"])
    return Corpus.of(texts, tags)


def as_features(corpus: Corpus, dense: bool = False) -> Corpus:
    """The same documents as numbers: one column for each word; or random mixtures of these, none of which is zero."""
    assert corpus.texts is not None
    columns = sorted({word for text in corpus.texts for word in text.split()})
    matrix = np.array([[text.split().count(word) for word in columns] for text in corpus.texts], np.float32)
    if dense:
        matrix = matrix @ np.random.default_rng(0).normal(size=(len(columns), 12)).astype(np.float32)
    return Corpus(corpus.targets, corpus.labels, features=csr_array(matrix))


def relevant(model: RankAe, corpus: Corpus) -> float:
    top = model.predict(corpus, k=2).ids
    return float(np.mean([set(row) == set(corpus.labels_of(at)) for at, row in enumerate(top.tolist())]))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"attention": False},
        {"loss": "bce"},
        {"x_decode": 1.0},
        {"x_decode": 0.1, "x_loss": "ranking"},
        {"output": "sigmoid", "margin": 0.5},
        {"normalise": False, "balance": 0.1},
        {"refit": False},
        {"denoise": 0.3},
        {"feature_noise": 0.0, "values": "plain", "pooling": "mean", "output_bias": "zero", "standardise": False},
        {"feature_noise": 0.0, "values": "plain", "pooling": "sum", "activation": "tanh"},
        {"training": {"swa_start_epoch": 5}},
    ],
    ids=str,
)
def test_every_variant_learns(changes: dict[str, Any]) -> None:
    corpus = weather(120)
    training = {**LONGER["training"], **changes.get("training", {})}
    model = RankAe(**settings(**{**changes, "training": training})).fit(corpus[:90])
    assert relevant(model, corpus[90:]) > 0.9


@pytest.mark.parametrize("dense", [False, True])
def test_features(dense: bool) -> None:
    corpus = as_features(weather(120), dense)
    model = RankAe(**settings(**LONGER)).fit(corpus[:90])
    assert relevant(model, corpus[90:]) > 0.9


@pytest.mark.parametrize(
    ("changes", "name", "shape"),
    [
        ({}, "attention.features.weight", (7, 8)),
        ({"channels": 12}, "attention.features.weight", (7, 12)),
        ({}, "attention.excitation.0.weight", (4, 8)),
        ({"ratio": 4}, "attention.excitation.0.weight", (2, 8)),
        ({"ratio": 99}, "attention.excitation.0.weight", (1, 8)),
        ({"latent": 3}, "to_latent.weight", (3, 8)),
        ({"hidden": 5}, "encoder.weight", (4, 5)),
        ({"hidden": 5}, "scores.weight", (4, 5)),
        ({"tfidf": {"max_terms": 3}}, "attention.features.weight", (3, 8)),
    ],
    ids=str,
)
def test_sizes(changes: dict[str, Any], name: str, shape: tuple[int, ...]) -> None:
    model = RankAe(**settings(**changes)).fit(weather(30))
    assert weights_of(model.network_)[name].shape == shape


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"attention": False},
        {"loss": "bce"},
        {"output": "sigmoid"},
        {"margin": 0.001},
        {"normalise": False},
        {"balance": 0.1},
        {"x_decode": 0.5},
        {"x_decode": 0.5, "x_loss": "ranking"},
        {"standardise": False},
        {"feature_noise": 0.0, "values": "plain"},
        {"feature_noise": 0.0, "pooling": "mean"},
        {"feature_noise": 0.0, "pooling": "sum"},
        {"activation": "tanh"},
        {"output_bias": "zero"},
        {"denoise": 0.5},
        {"dropout": 0.5},
        {"feature_dropout": 0.5},
        {"feature_noise": 0.1},
        {"training": {"epochs": 3}},
        {"training": {"learning_rate": 0.1}},
        {"training": {"row_learning_rate": 0.1}},
        {"training": {"swa_start_epoch": 0, "evaluate_every": 1}},
        {"training": {"batch_size": 10}},
        {"tfidf": {"idf": "none"}},
    ],
    ids=str,
)
def test_options_have_an_effect(changes: dict[str, Any]) -> None:
    corpus = weather(40)
    plain, other = (RankAe(**settings(**each)).fit(corpus).predict(corpus, k=2).scores for each in ({}, changes))
    assert not np.array_equal(plain, other)


def test_without_attention_there_is_nothing_to_learn_for_it() -> None:
    model = RankAe(**settings(attention=False)).fit(weather(30))
    assert not any("excitation" in name for name in weights_of(model.network_))


def test_sigmoid_scores_lie_between_0_and_1() -> None:
    scores = RankAe(**settings(output="sigmoid")).fit(weather(30)).predict(weather(30), k=4).scores
    assert ((scores > 0) & (scores < 1)).all()


def test_word_vectors_are_the_beginning(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("rain 1 2 3\nunknown 4 5 6\n", "utf-8")
    tiny_steps = {"epochs": 1, "learning_rate": 1e-12}
    model = RankAe(**settings(channels=3, vectors=str(file), training=tiny_steps)).fit(weather(30))
    assert model.vectors_.tfidf is not None
    table = weights_of(model.network_)["attention.features.weight"]
    at = list(model.vectors_.tfidf.terms).index("rain")
    np.testing.assert_allclose(table[at], [1, 2, 3], atol=1e-5)
    assert np.abs(np.delete(table, at, 0)).max() <= rank_ae.RANDOM_SCALE
    assert (table != 0).all()


def test_word_vectors_that_do_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("rain 1 2 3\n", "utf-8")
    with pytest.raises(ConfigError, match="set channels=3"):
        RankAe(**settings(vectors=str(file))).fit(weather(30))
    with pytest.raises(ConfigError, match="features only"):
        RankAe(**settings(vectors=str(file))).fit(as_features(weather(30)))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"margin": -0.1}, r"margin=-0\.1"),
        ({"margin": float("nan")}, "margin=nan"),
        ({"margin": 0}, "above 0"),
        ({"output": "sigmoid", "margin": 1.5}, r"margin=1\.5.*output=raw"),
        ({"balance": 0}, "balance=0"),
        ({"x_decode": -1}, "x_decode=-1"),
        ({"denoise": 1.0}, r"denoise=1\.0"),
        ({"loss": "hinge"}, "loss='hinge'"),
        ({"latent": 0}, "latent=0"),
        ({"ratio": 0}, "ratio=0"),
        ({"negative_samples": 0}, "negative_samples=0"),
        ({"pooling": "mean", "feature_noise": 0.1}, "feature_noise is for values=scaled and pooling=root"),
        ({"pooling": "sum", "feature_noise": 0.1}, "feature_noise is for values=scaled and pooling=root"),
        ({"activation": "gelu"}, "activation='gelu'"),
        ({"values": "plain", "feature_noise": 0.1}, "feature_noise is for values=scaled and pooling=root"),
        ({"training": {"valid_share": 0}}, "valid_share"),
    ],
)
def test_impossible_settings_are_named(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        RankAe(**wrong)


def test_a_margin_of_zero_is_for_pure_noise_in_bounded_scores() -> None:
    assert RankAe(output="sigmoid", margin=0).config.margin == 0


def test_documents_without_features_or_labels_and_with_all_labels() -> None:
    texts = ["sun", "", "rain", "sun rain", "snow"] * 12
    corpus = Corpus.of(texts, [["dry"], ["dry"], ["wet"], ["dry", "wet"], []] * 12)
    model = RankAe(**settings(**LONGER)).fit(corpus)
    assert model.predict(["sun", "rain"], k=1).ids.ravel().tolist() == [0, 1]
    assert np.isfinite(model.predict(["", "unheard of"], k=2).scores).all()


def test_only_documents_with_all_labels() -> None:
    corpus = Corpus.of(["sun", "rain"] * 20, [["a", "b"]] * 40)
    assert np.isfinite(RankAe(**SMALL).fit(corpus).predict(corpus, k=2).scores).all()


def test_features_with_other_columns() -> None:
    """Unknown features are like unknown words, missing ones like words that do not occur."""
    corpus = as_features(weather(30))
    assert corpus.features is not None
    model = RankAe(**SMALL).fit(corpus)
    more = np.hstack([corpus.features.toarray(), np.zeros((30, 2), np.float32)])
    wider = Corpus(corpus.targets, corpus.labels, features=csr_array(more))
    np.testing.assert_array_equal(model.predict(wider, k=2).scores, model.predict(corpus, k=2).scores)
    narrower = Corpus(corpus.targets, corpus.labels, features=csr_array(more[:, :4]))
    assert np.isfinite(model.predict(narrower, k=2).scores).all()
    with pytest.raises(XmtcError, match="trained on features"):
        model.predict(weather(3), k=1)


def test_refit_learns_from_all_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    from xmtc.nn import trainer as task

    runs: list[tuple[str, int, int]] = []
    train = task.train

    def noticed(learner: Any, training: Any, seed: int, checkpoints: Any, name: str) -> int:
        runs.append((name, len(learner.lengths), training.epochs))
        steps = train(learner, training, seed, checkpoints, name)
        return steps if name.endswith("refit") else 6

    monkeypatch.setattr(task, "train", noticed)
    corpus = weather(200)
    RankAe(**settings(training={"epochs": 9})).fit(corpus)
    assert runs == [("network", 180, 9), ("network-refit", 200, 1)]  # 9 steps of 20 are an epoch of 180
    runs.clear()
    RankAe(**settings(refit=False)).fit(corpus)
    RankAe(**SMALL).fit(corpus[:90])  # too few to hold some out
    RankAe(**SMALL).fit(corpus[:150], corpus[150:])  # others were given
    assert [(name, documents) for name, documents, _ in runs] == [("network", 180), ("network", 90), ("network", 150)]


def test_many_labels_are_learned_by_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    from xmtc.models.rank_ae.network import AutoEncoder

    decode, asked = AutoEncoder.decode, []

    def noticed(network: AutoEncoder, latent: Any, candidates: Any = None) -> Any:
        asked.append(None if candidates is None else len(candidates))
        return decode(network, latent, candidates)

    monkeypatch.setattr(rank_ae, "MANY_LABELS", 3)
    monkeypatch.setattr(AutoEncoder, "decode", noticed)
    corpus = weather(90)
    model = RankAe(**settings(negative_samples=2, refit=False, **LONGER)).fit(corpus)
    learned = [count for count in asked if count is not None]
    assert learned
    assert max(learned) <= 4
    assert relevant(model, corpus) > 0.9


def test_explanation_shows_word_and_channel_attention() -> None:
    model = RankAe(**settings(**LONGER)).fit(weather(90))
    why = model.explain("Rain and wind, more rain", "wet")
    weights = dict(why.words)
    assert set(weights) == {"rain", "wind"}
    assert sum(weights.values()) == pytest.approx(1)
    assert list(weights.values()) == sorted(weights.values(), reverse=True)
    assert any(line.startswith("rain: tf-idf 0.") and "channel attention 0." in line for line in why.evidence)
    without = next(line for line in why.evidence if line.startswith("without rain the score would be"))
    expected = dict(model.predict(["wind"], k=4).names()[0])["wet"]
    assert float(without.rpartition(" ")[2]) == pytest.approx(expected, abs=2e-3)
    assert why.score > expected


def test_features_are_not_explained() -> None:
    with pytest.raises(XmtcError, match="trained on features"):
        RankAe(**SMALL).fit(as_features(weather(30))).explain("rain", "wet")


@pytest.mark.parametrize("killed_at", [9, 22], ids=["first training", "refit"])
def test_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int) -> None:
    from xmtc.nn.trainer import Trainer

    corpus, config = weather(100), settings(dropout=0.3, denoise=0.3, training={"epochs": 4, "evaluate_every": 5})
    whole = RankAe(**config).fit(corpus).predict(corpus, k=2)
    step, taken = Trainer.step, []

    def killed(trainer: Trainer, batches: int) -> None:
        taken.append(1)
        if len(taken) == killed_at:
            raise MemoryError
        step(trainer, batches)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", killed)
        with pytest.raises(MemoryError):
            RankAe(**config).fit(corpus, checkpoints=tmp_path / "pieces")
    resumed = RankAe(**config).fit(corpus, checkpoints=tmp_path / "pieces").predict(corpus, k=2)
    np.testing.assert_array_equal(resumed.scores, whole.scores)


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = RankAe(**SMALL).fit(weather(30))
    with torch.no_grad():
        model.network_.biases.weight[1] = torch.nan
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match="not finite"):
        load(tmp_path / "model")


@pytest.mark.parametrize("change", [{"channels": 10**18}, {"hidden": 7}, {"attention": False}, {"ratio": 4}])
def test_settings_that_do_not_fit_to_the_weights(tmp_path: Path, change: dict[str, Any]) -> None:
    model = RankAe(**SMALL).fit(weather(30))
    model.config = RankAe(**settings(**change)).config
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match=r"network\.safetensors is damaged"):
        load(tmp_path / "model")


def test_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        RankAe(**SMALL).fit(weather(30))


def test_the_estimate_of_memory_grows_with_what_takes_it() -> None:
    corpus = weather(30)
    wider = corpus.with_labels(corpus.labels.extend([f"more {at}" for at in range(1000)]))
    plain = RankAe(**SMALL).memory_needed(corpus)
    assert RankAe(**SMALL).memory_needed(wider) > plain
    for change in ({"channels": 99}, {"hidden": 99}, {"training": {"batch_size": 999}}):
        assert RankAe(**settings(**change)).memory_needed(corpus) > plain
