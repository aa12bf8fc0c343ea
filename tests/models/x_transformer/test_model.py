"""`x_transformer` beside the contract: what the ranker sees, its negatives, members, kills, bad input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import small_corpus
from scipy.sparse import csr_array

from xmtc import storage
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadModelFolder, ConfigError, OutOfMemory, XmtcError
from xmtc.models import base
from xmtc.models.parabel import Parabel
from xmtc.models.registry import load
from xmtc.models.x_transformer import matcher
from xmtc.models.x_transformer.model import XTransformer
from xmtc.nn.serialization import weights_of
from xmtc.predictions import Predictions, ScoreKind
from xmtc.search import linear_training
from xmtc.storage import FolderWriter

Maker = Callable[[str], Path]
Settings = dict[str, Any]
Shorten = Callable[..., Settings]


@pytest.fixture
def short(tiny_encoder: Maker) -> Shorten:
    """Settings for one epoch with a tiny encoder, with changes; of nested ones only the named."""

    def made(**changes: Any) -> Settings:
        plain: Settings = {
            "encoder": {"name": str(tiny_encoder("bert")), "max_tokens": 24, "pooling": "mean"},
            "max_leaf": 2,
            "training": {"epochs": 1, "batch_size": 20, "encoder_learning_rate": 0.003, "learning_rate": 0.02},
        }
        nested = {key: {**plain[key], **changes.get(key, {})} for key in ("encoder", "training")}
        return {**plain, **changes, **nested}

    return made


def share_right(model: XTransformer, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0]
    rows = np.flatnonzero(np.diff(corpus.targets.indptr)).tolist()
    return float(np.mean([top[row] in corpus.labels_of(row) for row in rows]))


@pytest.mark.parametrize(
    "changes",
    [
        {"matcher": "linear"},
        {"label_vectors": ["embeddings"]},
        {"label_vectors": ["names"]},
        {"label_vectors": ["documents", "names"], "ensemble": "ranks"},
        {"embedding_weight": 0.0},
        {"encoder": {"frozen_layers": 2}},
        {"encoder": {"frozen_layers": 3}},
        {"ranker": {"loss": "logistic"}},
        {"max_leaf": 100},
        {"matcher": "linear", "label_vectors": ["documents", "embeddings"]},
    ],
    ids=str,
)
def test_variants_learn_and_load(short: Shorten, changes: Settings, tmp_path: Path) -> None:
    corpus = small_corpus()
    model = XTransformer(**short(**changes, discount=0.1)).fit(corpus)  # an epoch makes no good matcher
    assert share_right(model, corpus) > 0.9
    model.save(tmp_path / "model")
    top, again = model.predict(corpus, k=6), load(tmp_path / "model").predict(corpus, k=6)
    np.testing.assert_array_equal(top.ids, again.ids)
    np.testing.assert_allclose(top.scores, again.scores, rtol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"beam_width": 1},
        {"negatives": "teacher", "beam_width": 4},
        {"discount": 0.5},
        {"embedding_weight": 2.0},
        {"max_leaf": 1},
        {"ranker": {"cost": 0.1}},
        {"ranker": {"smallest_weight": 0.3}},
        {"dropout": 0.6},
        {"label_vectors": ["names"]},
        {"ensemble": "ranks"},
        {"matcher": "linear"},
        {"encoder": {"frozen_layers": 2}},
        {"encoder": {"max_tokens": 5}},
        {"training": {"epochs": 2}},
    ],
    ids=str,
)
def test_options_have_an_effect(short: Shorten, changes: Settings) -> None:
    corpus = small_corpus(60)
    plain, other = (
        XTransformer(**short(**{"beam_width": 4, **each})).fit(corpus).predict(corpus, k=3) for each in ({}, changes)
    )
    assert not np.array_equal(plain.scores, other.scores)


def test_documents_are_tf_idf_beside_the_encoders_vectors_of_length_one(short: Shorten) -> None:
    model = XTransformer(**short(embedding_weight=0.5))
    sparse = csr_array(np.array([[0.6, 0.8], [0, 0], [1, 0]], np.float32))
    dense = np.array([[3, 4, 0], [0, 2, 0], [0, 0, 0]], np.float32)
    found = model._joined(sparse, dense).toarray()
    whole = np.sqrt(1 + 0.25)
    expected = [[0.6 / whole, 0.8 / whole, 0.3 / whole, 0.4 / whole, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    wild = model._joined(sparse, np.full((3, 3), np.nan, np.float32))
    assert np.isfinite(wild.data).all()


def test_with_linear_matcher_and_tiny_embeddings_it_is_parabel_with_two_levels(short: Shorten) -> None:
    """The same classifiers over the same tree; vectors of hardly any length change nothing."""
    corpus = small_corpus()
    linear = {"cost": 1.0, "bias": 0.3, "tolerance": 0.01, "smallest_weight": 0.0, "rounds": 100}
    settings = short(matcher="linear", embedding_weight=1e-4, beam_width=2, discount=1.0, ranker=linear)
    one = XTransformer(**settings).fit(corpus)
    two = Parabel(trees=1, levels=1, max_leaf=2, negatives="matcher", beam_width=2, **linear).fit(corpus)
    np.testing.assert_array_equal(one.rankers_[0].tree.levels[1].toarray(), two.trees_[0].tree.levels[1].toarray())
    top = one.predict(corpus, k=3)
    np.testing.assert_array_equal(top.ids, two.predict(corpus, k=3).ids)
    np.testing.assert_allclose(top.scores, two.predict(corpus, k=3).scores, atol=0.02)


@pytest.mark.parametrize("discount", [1.0, 0.3, 0.0])
def test_scores_are_the_rankers_times_the_matchers(short: Shorten, discount: float) -> None:
    corpus = small_corpus(60)
    model = XTransformer(**short(beam_width=100, discount=discount)).fit(corpus)
    features, vectors = next(model._read(corpus))
    ranker = model.rankers_[0]
    clusters = np.exp(-np.square(np.maximum(0, 1 - model.networks_[0].scores(vectors))))
    top = model.predict(corpus, k=6)
    assert (top.ids >= 0).all()
    for row in range(0, 60, 7):
        words = slice(features.indptr[row], features.indptr[row + 1])
        for label, score in zip(top.ids[row].tolist(), top.scores[row].tolist(), strict=True):
            cluster = int(ranker.tree.levels[1].toarray()[:, label].argmax())
            step = ranker.path(label)[1]
            own = ranker.contributions(step, features.indices[words], features.data[words]).sum() + ranker.bias(step)
            expected = np.exp(-(max(0, 1 - own) ** 2)) * clusters[row, cluster] ** discount
            assert score == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("kind", ["transformer", "linear"])
def test_negatives_are_documents_for_which_the_cluster_is_found(
    short: Shorten, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, Any]] = []
    real = linear_training.tasks_of

    def spy(level: Any, lists: Any, reached: Any) -> Any:
        seen.append((level, reached))
        return real(level, lists, reached)

    monkeypatch.setattr(linear_training, "tasks_of", spy)
    corpus = small_corpus(60)
    model = XTransformer(**short(matcher=kind, beam_width=2)).fit(corpus)
    reached = seen[-1][1].toarray()  # (clusters, documents)
    assert reached.sum(0).tolist() == [2] * 60
    _, vectors = next(model._read(corpus))
    if kind == "transformer":
        assert len(seen) == 1
        best = np.sort(np.argsort(-model.networks_[0].scores(vectors), axis=1)[:, :2], axis=1)
        found = np.sort(np.stack([np.flatnonzero(column) for column in reached.T]), axis=1)
        # Documents that were read together with others may be a hair apart.
        assert (best == found).all(1).mean() > 0.95
    else:
        assert [each[1] is None for each in seen] == [True, False]
    seen.clear()
    XTransformer(**short(matcher=kind, negatives="teacher")).fit(corpus)
    assert all(each[1] is None for each in seen)


def test_members_are_averaged_by_probability_or_by_rank(short: Shorten) -> None:
    corpus = small_corpus(60)
    several = short(matcher="linear", label_vectors=["documents", "names"], beam_width=2)
    model = XTransformer(**several).fit(corpus)
    alone = [
        XTransformer(**{**several, "label_vectors": [kind]}).fit(corpus).predict(corpus, k=6)
        for kind in ("documents", "names")
    ]
    lists = model._lists(corpus, 6)
    np.testing.assert_array_equal(lists[0].ids[:, :6], alone[0].ids)
    expected = Predictions.blend(lists, k=6)
    np.testing.assert_array_equal(model.predict(corpus, k=6).ids, expected.ids)
    assert model.score_kind is ScoreKind.PROBABILITY

    by_rank = XTransformer(**several, ensemble="ranks").fit(corpus)
    assert by_rank.score_kind is ScoreKind.RANKING
    top = by_rank.predict(corpus, k=6)
    assert top.kind is ScoreKind.RANKING
    for row in range(0, 60, 9):
        points = np.zeros(6)
        for found in lists:
            for place, label in enumerate(found.ids[row][found.ids[row] >= 0].tolist()):
                points[label] += (1 - place / 6) / 2
        listed = top.ids[row] >= 0
        np.testing.assert_allclose(top.scores[row][listed], points[top.ids[row][listed]], rtol=1e-5)
        assert points[top.ids[row][0]] == points.max()
    assert by_rank.calibrate(corpus).score_kind is ScoreKind.CALIBRATED


def test_clusterings_differ(short: Shorten) -> None:
    corpus = small_corpus()
    several = short(matcher="linear", label_vectors=["documents", "embeddings", "names"], training={"epochs": 1})
    rankers = XTransformer(**several).fit(corpus).rankers_
    assert len({ranker.tree.levels[1].indices.tobytes() for ranker in rankers}) > 1
    assert {ranker.tree.depth for ranker in rankers} == {2}


@pytest.mark.parametrize(
    ("owner", "name", "calls"),
    [
        (matcher.MatcherLearner, "loss", 26),  # in the last epoch of the second matcher
        (XTransformer, "_ranker", 0),
        (XTransformer, "_ranker", 1),
    ],
)
def test_going_on_after_a_kill_gives_the_same_model(
    short: Shorten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, calls: int
) -> None:
    settings = short(training={"epochs": 3}, label_vectors=["documents", "names"])
    corpus = small_corpus(100)
    whole = XTransformer(**settings).fit(corpus)
    real, done = getattr(owner, name), [0]

    def killed(*given: Any) -> Any:
        done[0] += 1
        if done[0] > calls:
            raise KeyboardInterrupt
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killed)
        with pytest.raises(KeyboardInterrupt):
            XTransformer(**settings).fit(corpus, checkpoints=tmp_path / "pieces")
    resumed = XTransformer(**settings).fit(corpus, checkpoints=tmp_path / "pieces")
    for one, other in zip(whole.networks_, resumed.networks_, strict=True):
        expected = weights_of(one)
        for weight_name, weight in weights_of(other).items():
            np.testing.assert_array_equal(weight, expected[weight_name], err_msg=weight_name)
    np.testing.assert_array_equal(resumed.predict(corpus).scores, whole.predict(corpus).scores)


def test_finished_pieces_are_not_done_again(short: Shorten, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from xmtc.nn.encoders.encoder import Encoder

    settings, corpus = short(matcher="linear"), small_corpus(40)
    whole = XTransformer(**settings).fit(corpus, checkpoints=tmp_path / "pieces")
    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "vectors", None)
        patch.setattr(XTransformer, "_ranker", None)
        again = XTransformer(**settings).fit(corpus, checkpoints=tmp_path / "pieces")
    np.testing.assert_array_equal(again.predict(corpus).scores, whole.predict(corpus).scores)
    with pytest.raises(BadModelFolder, match="another run"):
        XTransformer(**short(matcher="linear", beam_width=3)).fit(corpus, checkpoints=tmp_path / "pieces")


@pytest.mark.parametrize("kind", ["transformer", "linear"])
def test_explains_by_words_and_vector(short: Shorten, kind: str) -> None:
    corpus = small_corpus()
    model = XTransformer(**short(matcher=kind, label_vectors=["documents", "names"])).fit(corpus)
    why = model.explain("ship bread anchor", "sea")
    weights = dict(why.words)
    assert weights["ship"] > 0
    assert weights["ship"] > weights["bread"]
    assert len(why.evidence) == 2
    assert why.evidence[0].startswith("clustering by documents: score 0.")
    assert "the encoder's vector" in why.evidence[1]
    beyond = XTransformer(**short(matcher=kind, beam_width=1, max_leaf=1)).fit(corpus).explain("ship sail", "kitchen")
    assert "not among those found" in beyond.evidence[0]
    assert beyond.score == 0


def test_labels_without_documents(short: Shorten) -> None:
    some = small_corpus()
    wider = some.with_labels(some.labels.extend(f"never used {i}" for i in range(9)))
    model = XTransformer(**short(label_vectors=["documents", "names", "embeddings"])).fit(wider)
    assert share_right(model, wider) > 0.9
    assert (model.predict(wider, k=3).ids[:, 0] < len(some.labels)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"matcher": "linear", "embedding_weight": 0}, "take the model parabel"),
        ({"beam_width": 0}, "beam"),
        ({"label_vectors": []}, "label_vectors"),
        ({"label_vectors": ["neighbours"]}, "label_vectors"),
        ({"discount": 1.5}, "discount"),
        ({"embedding_weight": -1}, "embedding_weight"),
        ({"ranker": {"loss": "hinge"}}, "loss"),
    ],
    ids=str,
)
def test_settings_that_cannot_be(settings: Settings, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        XTransformer(**settings)


def test_bad_input(short: Shorten, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        XTransformer(encoder={"name": str(tmp_path / "none")}).fit(small_corpus(40))
    some = small_corpus(40)
    features = Corpus(some.targets, some.labels, features=csr_array(np.ones((40, 2), np.float32)))
    with pytest.raises(XmtcError, match="x_transformer needs text"):
        XTransformer(**short()).fit(features)


def test_titles(short: Shorten) -> None:
    assert XTransformer().title == "X-Transformer"
    assert XTransformer(encoder={"name": "roberta-large"}).title == "X-Transformer"
    assert XTransformer(encoder={"name": "minilm"}).title == "X-MiniLM"
    assert XTransformer(**short()).title == "X-bert"


def test_a_saved_model_needs_no_folder_of_the_encoder(short: Shorten, tmp_path: Path) -> None:
    settings = short()
    folder = shutil.copytree(settings["encoder"]["name"], tmp_path / "encoder")
    corpus = small_corpus(40)
    model = XTransformer(**{**settings, "encoder": {**settings["encoder"], "name": str(folder)}}).fit(corpus)
    model.save(tmp_path / "model")
    shutil.rmtree(folder)
    np.testing.assert_array_equal(load(tmp_path / "model").predict(corpus).ids, model.predict(corpus).ids)


def test_a_ranker_of_other_clusters_is_refused(short: Shorten, tmp_path: Path) -> None:
    corpus = small_corpus(40)
    one, other = (XTransformer(**short(max_leaf=size)).fit(corpus) for size in (1, 2))
    one.save(tmp_path / "one")
    FolderWriter(tmp_path / "one").arrays("ranker0", other.rankers_[0].to_arrays())
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    manifest["files"]["ranker0.safetensors"] = storage._facts(tmp_path / "one" / "ranker0.safetensors")
    manifest["checksum"] = storage._checksum(manifest)
    (tmp_path / "one" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadModelFolder, match="clusters are not those of the matcher"):
        load(tmp_path / "one")


def test_names_of_labels_make_clusters(short: Shorten) -> None:
    """Labels with the same name are in one cluster, whatever their documents say."""
    labels = LabelSet.of(["a", "b", "c", "d"], names=["ship", "bread", "ship", "bread"])
    tags = [["a"], ["b"], ["c"], ["d"]] * 10
    corpus = Corpus.of(["ship", "bread", "cloud wind", "butter"] * 10, tags, labels)
    ranker = XTransformer(**short(label_vectors=["names"])).fit(corpus).rankers_[0]
    clusters = ranker.tree.levels[1].toarray().argmax(0)
    assert clusters[0] == clusters[2] != clusters[1] == clusters[3]


def test_memory_grows_with_what_is_learned(short: Shorten, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus(40)

    def needed(**changes: Any) -> int:
        return XTransformer(**short(**changes)).memory_needed(corpus)

    assert needed(matcher="linear") < needed()
    assert needed(encoder={"frozen_layers": 2}) < needed()
    assert needed(label_vectors=["documents", "names"]) > needed()
    assert XTransformer().memory_needed(corpus) > 3 << 30  # XLNet-base
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        XTransformer(**short()).fit(corpus)
