"""Slice: candidates by centroids, classifiers on confusing documents, given vectors, going on after a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.errors import ConfigError, OutOfMemory
from xmtc.models.dismec import Dismec
from xmtc.models.slice.model import Slice, TrainLabels

TOPICS = {"sea": "ship sail wave harbour", "sky": "cloud wind rain storm", "kitchen": "bread oven flour butter"}


def corpus(documents: int = 90, seed: int = 0) -> Corpus:
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(list(TOPICS), rng.integers(1, 3), replace=False).tolist() for _ in range(documents)]
    texts = [" ".join(rng.choice(" ".join(TOPICS[topic] for topic in tags).split(), 6)) for tags in chosen]
    return Corpus.of(texts, chosen, name="topics")


def dense_corpus(documents: int = 300, labels: int = 20, seed: int = 0) -> Corpus:
    """Documents as dense unit vectors near one or two of the labels' own directions."""
    directions = np.random.default_rng(99).normal(size=(labels, 16))
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(labels, rng.integers(1, 3), replace=False).tolist() for _ in range(documents)]
    vectors = np.array([directions[tags].sum(axis=0) for tags in chosen]) + 0.5 * rng.normal(size=(documents, 16))
    some = Corpus.of([""] * documents, [[str(tag) for tag in tags] for tags in chosen], name="vectors")
    return replace(some, texts=None, features=csr_array(vectors.astype(np.float32)))


def nearest_centroids(model: Slice, documents: Corpus, queries: Any) -> list[list[int]]:
    """The shortlist by similarity with each label's centroid."""
    similarities = queries @ model.index_.vectors.T
    order = np.argsort(-similarities, axis=1)[:, : model.config.shortlist]
    return [[label for label in row if similarities[at, label] > 0] for at, row in enumerate(order)]


def labels_of_neighbours(model: Slice, documents: Corpus, queries: Any) -> list[list[int]]:
    """The shortlist by the votes of the nearest documents, each by its similarity."""
    assert documents.features is not None
    rows, carried = documents.features.toarray(), documents.targets.toarray()[:, model.seen_]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    axes = np.linalg.svd(rows)[2][: model.config.search_dimensions].T
    rows, asked = rows @ axes, queries @ axes
    near = asked @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T
    near /= np.linalg.norm(asked, axis=1, keepdims=True)
    lists = []
    for row in near:
        nearest = [at for at in np.argsort(-row)[: model.config.neighbours] if row[at] > 0]
        votes = row[nearest] @ carried[nearest]
        lists.append([label for label in np.argsort(-votes)[: model.config.shortlist] if votes[label] > 0])
    return lists


@pytest.mark.parametrize(
    ("neighbours", "searched", "candidates"),
    [(0, 100, nearest_centroids), (7, 100, labels_of_neighbours), (7, 5, labels_of_neighbours)],
)
def test_scores_mix_the_classifier_and_the_similarity_of_candidates(
    neighbours: int, searched: int, candidates: Any
) -> None:
    documents, asked = dense_corpus(), dense_corpus(30, seed=1)
    model = Slice(neighbours=neighbours, search_dimensions=searched, shortlist=8, beta=0.3).fit(documents)
    top = model.predict(asked.with_labels(documents.labels), k=5)
    queries = np.asarray(model.vectors_.transform(asked))
    every = 0.3 * (queries @ model.weights_.T + model.biases_) + 0.7 * queries @ model.index_.vectors.T
    for row, listed in enumerate(candidates(model, documents, queries)):
        best = sorted(listed, key=lambda label: -every[row, label])[:5]
        assert top.ids[row][: len(best)].tolist() == model.seen_[best].tolist()
        np.testing.assert_allclose(top.scores[row][: len(best)], every[row, best], atol=1e-5)


@pytest.mark.parametrize("neighbours", [0, 7])
def test_a_stored_model_has_the_same_candidates(neighbours: int, tmp_path: Path) -> None:
    model = Slice(neighbours=neighbours, shortlist=4).fit(dense_corpus())
    model.save(tmp_path / "model")
    loaded, asked = xmtc.load(tmp_path / "model"), dense_corpus(30, seed=1)
    for one, two in zip(*((top.ids, top.scores) for top in (model.predict(asked), loaded.predict(asked))), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_centroid_is_the_mean_direction_of_its_documents() -> None:
    documents = dense_corpus()
    model = Slice().fit(documents)
    assert documents.features is not None
    rows = documents.features.toarray()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    mean = rows[documents.targets[:, [model.seen_[3]]].toarray()[:, 0] > 0].sum(axis=0)
    np.testing.assert_allclose(model.index_.vectors[3], mean / np.linalg.norm(mean), atol=1e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_with_all_labels_as_candidates_classifiers_are_those_of_dismec(loss: str) -> None:
    documents = dense_corpus()
    exact: dict[str, Any] = {
        "loss": loss,
        "tolerance": 1e-4,
        "rounds": 1000,
        "cost": 1.0,
        "bias": 1.0,
        "smallest_weight": 0.0,
    }
    # A similarity below 0 is no candidate, so each vector gets a large part in common.
    assert documents.features is not None
    shifted = np.hstack([documents.features.toarray(), np.full((300, 1), 50, np.float32)])
    documents = replace(documents, features=csr_array(shifted))
    ours, theirs = Slice(neighbours=0, shortlist=20, **exact).fit(documents), Dismec(**exact).fit(documents)
    np.testing.assert_allclose(ours.weights_, theirs.index_.columns.toarray().T[ours.seen_], atol=2e-2)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_learns_from_texts_and_from_vectors(loss: str) -> None:
    model = Slice(dimensions=6, loss=loss).fit(corpus(200))
    assert xmtc.evaluate(model, corpus(100, seed=7)).values["P@1"] > 95
    given, asked = dense_corpus(), dense_corpus(100, seed=1)
    found = Slice(loss=loss).fit(given)
    similar = Slice(loss=loss, beta=0.0).fit(given)
    scores = [xmtc.evaluate(each, asked.with_labels(given.labels)).values["P@1"] for each in (found, similar)]
    assert scores[0] > 85


def test_few_candidates_cost_little() -> None:
    given, asked = dense_corpus(), dense_corpus(100, seed=1)
    scores = [
        xmtc.evaluate(Slice(shortlist=size).fit(given), asked.with_labels(given.labels)).values["P@1"]
        for size in (5, 20)
    ]
    assert scores[0] >= scores[1] - 3


def test_cells_find_what_the_exact_search_finds() -> None:
    pytest.importorskip("faiss")
    given = dense_corpus()
    flat, cells = Slice(index="flat", shortlist=5).fit(given), Slice(index="ivf", shortlist=5).fit(given)
    assert cells.index_.kind == "ivf"
    same = flat.predict(given, k=1).ids == cells.predict(given, k=1).ids
    assert same.mean() > 0.9


@pytest.mark.needs("tokenizers", "faiss")
@pytest.mark.parametrize("vectors", ["mean", "tfidf_mean"])
def test_means_of_word_vectors(vectors: str, tmp_path: Path) -> None:
    model = Slice(vectors=vectors, words={"vectors": "random", "dimensions": 16}).fit(corpus(200))
    assert xmtc.evaluate(model, corpus(100, seed=7)).values["P@1"] > 90
    model.save(tmp_path / "model")
    one, two = model.predict(["ship"], k=2), xmtc.load(tmp_path / "model").predict(["ship"], k=2)
    np.testing.assert_array_equal(one.scores, two.scores)
    why = model.explain("ship wave", "sea")
    assert {word for word, _ in why.words} == {"ship", "wave"}


@pytest.mark.needs("tokenizers", "faiss")
def test_features_have_no_word_vectors() -> None:
    with pytest.raises(ConfigError, match="vectors=mean needs texts, which vectors does not have; take vectors=svd"):
        Slice(vectors="mean").fit(dense_corpus())


def test_explains_its_score() -> None:
    model = Slice(dimensions=6).fit(corpus())
    why = model.explain("ship wave bread", "sea")
    assert why.score == pytest.approx(dict(model.predict(["ship wave bread"], k=3).names()[0])["sea"], abs=1e-4)
    at = model.seen_.tolist().index(model._fitted().find("sea"))
    rest = model.config.beta * float(model.biases_[at])
    assert sum(weight for _, weight in why.words) + rest == pytest.approx(why.score, abs=1e-4)
    assert dict(why.words)["ship"] > 0
    assert "the classifier's" in why.evidence[0]


def test_a_label_without_documents_is_never_listed() -> None:
    documents = corpus()
    model = Slice(dimensions=6).fit(documents.with_labels(documents.labels.extend(["nothing"])))
    listed = model.predict(corpus(), k=4).ids
    assert model._fitted().find("nothing") not in listed
    assert model.explain("ship", "nothing").evidence == ("no document had this label",)


def test_odd_corpora() -> None:
    one_label = Slice().fit(Corpus.of(["red apple", "green apple", "blue sky"], [["fruit"], ["fruit"], []]))
    assert one_label.predict(["apple"], k=3).names()[0][0][0] == "fruit"
    same = [["a"], ["a"], ["a"], ["a"], ["b"], ["b"]]
    identical = Slice().fit(Corpus.of(["same words"] * 6, same))
    top = identical.predict(["same words", "nothing known"], k=2)
    assert [label for label, _ in top.names()[0]] == ["a", "b"], "more documents have it"
    assert top.names()[1] == []
    assert np.isfinite(top.scores).all()


def test_a_killed_training_goes_on_with_the_next_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmtc.executor.in_threads", lambda work, items: list(map(work, items)))
    whole = Slice(block=8).fit(dense_corpus())
    train = TrainLabels.__call__
    calls: list[int] = []

    def killed(self: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(self, *arguments)

    monkeypatch.setattr(TrainLabels, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        Slice(block=8).fit(dense_corpus(), checkpoints=tmp_path / "kept")
    resumed = Slice(block=8).fit(dense_corpus(), checkpoints=tmp_path / "kept")
    assert len(calls) == 2 + 2, "the first block of 8 labels was kept"
    np.testing.assert_array_equal(whole.weights_, resumed.weights_)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Slice().fit(dense_corpus()).weights_
    monkeypatch.setattr("xmtc.executor.in_threads", lambda work, items: list(map(work, items)))
    np.testing.assert_array_equal(one, Slice().fit(dense_corpus()).weights_)


def test_small_weights_are_dropped() -> None:
    some = Slice(smallest_weight=0.3).fit(dense_corpus()).weights_
    assert np.abs(some[some != 0]).min() >= 0.3
    assert (some == 0).any()


def test_more_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmtc.models.base.available_memory", lambda: 1000)
    with pytest.raises(OutOfMemory, match="training slice on topics needs about"):
        Slice().fit(corpus())
