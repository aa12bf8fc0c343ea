"""SLEEC and AnnexML: clusters, votes, explanations, going on after a kill, and corpora with little to learn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.errors import OutOfMemory
from xmtc.models.base import Model
from xmtc.models.local_embedding.model import LocalEmbedding
from xmtc.models.registry import make
from xmtc.text.tfidf import TfIdf

TOPICS = {"sea": "ship sail wave harbour", "sky": "cloud wind rain storm", "kitchen": "bread oven flour butter"}
SHELL = pytest.mark.parametrize("name", ["sleec", "annexml"])
QUICK: dict[str, dict[str, Any]] = {
    "sleec": {"learners": 2, "dimensions": 8, "label_neighbours": 20, "neighbours": 5},
    "annexml": {"learners": 2, "dimensions": 8, "neighbours": 5, "epochs": 4},
}


def corpus(documents: int = 90, seed: int = 0) -> Corpus:
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(list(TOPICS), rng.integers(1, 3), replace=False).tolist() for _ in range(documents)]
    texts = [" ".join(rng.choice(" ".join(TOPICS[topic] for topic in tags).split(), 6)) for tags in chosen]
    return Corpus.of(texts, chosen, name="topics")


def quick(name: str, **more: Any) -> LocalEmbedding:
    model = make(name, **QUICK[name], **more)
    assert isinstance(model, LocalEmbedding)
    return model


def by_hand(model: LocalEmbedding, documents: Corpus) -> np.ndarray[Any, Any]:
    """Documents x labels: the shares of the votes, with everything dense."""
    features, targets = model.vectors_.transform(documents).toarray(), model.targets_.toarray()
    votes = np.zeros((len(documents), targets.shape[1]))
    total = np.zeros((len(documents), 1))
    nearest, found = np.zeros(len(documents)), []
    for learner in model.learners_:
        home = (features @ learner.partition.toarray().T).argmax(axis=1)
        for row in range(len(documents)):
            cluster = learner.clusters[home[row]]
            vector = features[row, cluster.features] @ cluster.table
            cosines = cluster.embeddings @ (vector / (np.linalg.norm(vector) or 1))
            best = np.argsort(-cosines, kind="stable")[: model.config.neighbours]
            best = best[cosines[best] > 0]
            nearest[row] = max(nearest[row], cosines.max())
            found.append((row, cluster.documents[best], cosines[best]))
    for row, rows, cosines in found:
        weights = (cosines / nearest[row]) ** model.config.power
        votes[row] += weights @ targets[rows]
        total[row] += weights.sum()
    shares: np.ndarray[Any, Any] = votes / np.maximum(total, 1e-9)
    return shares


@SHELL
@pytest.mark.parametrize("cluster", [1000, 30])
def test_scores_are_shares_of_the_votes_of_all_learners(name: str, cluster: int) -> None:
    model = quick(name, cluster=cluster, power=2.0).fit(corpus())
    assert isinstance(model, LocalEmbedding)
    documents = corpus(40, seed=1)
    expected = by_hand(model, documents)
    top = model.predict(documents, k=3)
    for row in range(len(documents)):
        there = top.ids[row] >= 0
        np.testing.assert_allclose(top.scores[row][there], expected[row][top.ids[row][there]], atol=2e-3)
        assert (expected[row] > 0).sum() == there.sum()


@SHELL
@pytest.mark.parametrize("cluster", [1000, 40])
def test_learns(name: str, cluster: int) -> None:
    model = quick(name, cluster=cluster).fit(corpus(200))
    assert xmtc.evaluate(model, corpus(100, seed=7)).values["P@1"] > 95


@SHELL
def test_every_labelled_document_is_in_one_cluster_of_each_learner(name: str) -> None:
    documents = corpus()
    without = Corpus.of(list(documents.texts or []), [documents.labels_of(at) if at % 3 else [] for at in range(90)])
    model: Any = quick(name, cluster=20).fit(without)
    for learner in model.learners_:
        rows = np.concatenate([cluster.documents for cluster in learner.clusters])
        assert sorted(rows.tolist()) == [at for at in range(90) if at % 3]
        assert len(learner.clusters) <= 3


@SHELL
def test_learners_differ_and_seeds_too(name: str) -> None:
    model: Any = quick(name, cluster=30).fit(corpus())
    other: Any = quick(name, cluster=30, seed=1).fit(corpus())
    tables = [learner.clusters[0].table.tobytes() for each in (model, other) for learner in each.learners_]
    assert len(set(tables)) == 4


@SHELL
def test_features_give_the_same_as_their_texts(name: str) -> None:
    documents, asked = corpus(), corpus(20, seed=1)
    model: Any = quick(name).fit(documents)
    assert documents.texts is not None
    assert asked.texts is not None
    tfidf = TfIdf(model.config.tfidf)
    features = replace(documents, texts=None, features=tfidf.fit_transform(documents.texts))
    questions = replace(asked, texts=None, features=tfidf.transform(asked.texts))
    one, two = model.predict(asked, k=3), quick(name).fit(features).predict(questions, k=3)
    np.testing.assert_array_equal(one.ids, two.ids)
    np.testing.assert_allclose(one.scores, two.scores, rtol=1e-5)


@SHELL
def test_a_killed_training_goes_on_with_the_next_cluster(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmtc.models.local_embedding.model.in_threads", lambda work, items: list(map(work, items)))
    whole = quick(name, cluster=30).fit(corpus())
    learned = type(whole)._learn_cluster
    calls = []

    def killed(self: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return learned(self, *arguments)

    monkeypatch.setattr(type(whole), "_learn_cluster", killed)
    with pytest.raises(KeyboardInterrupt):
        quick(name, cluster=30).fit(corpus(), checkpoints=tmp_path / "kept")
    resumed: Any = quick(name, cluster=30).fit(corpus(), checkpoints=tmp_path / "kept")
    clusters = sum(len(learner.clusters) for learner in resumed.learners_)
    assert len(calls) == 3 + clusters - 2, "the first two were kept"
    one, two = whole.predict(corpus(), k=3), resumed.predict(corpus(), k=3)
    np.testing.assert_array_equal(one.ids, two.ids)
    np.testing.assert_array_equal(one.scores, two.scores)


@SHELL
def test_explains_its_score_by_words_and_neighbours(name: str) -> None:
    documents = replace(corpus(), ids=None)
    model = quick(name, cluster=40).fit(documents)
    why = model.explain("ship wave bread", "sea")
    assert why.score == pytest.approx(dict(model.predict(["ship wave bread"], k=3).names()[0])["sea"], abs=1e-4)
    assert sum(weight for _, weight in why.words) == pytest.approx(why.score, abs=1e-3)
    assert "neighbours, over 2 learners, have this label" in why.evidence[0]
    shares = dict(model.explain("ship wave harbour", "sea").words)
    assert min(shares.values()) > 0
    assert model.explain("nothing known", "sea").evidence == ("none of 0 neighbours has this label",)


@SHELL
def test_a_document_without_known_words_gets_no_label(name: str) -> None:
    assert quick(name).fit(corpus()).predict(["nothing known"], k=3).ids.tolist() == [[-1, -1, -1]]


def odd() -> dict[str, Corpus]:
    same = [["a"], ["a"], ["a"], ["a"], ["b"], ["b"]]
    return {
        "one label": Corpus.of(["red apple", "green apple", "blue sky"], [["fruit"], ["fruit"], []]),
        "all documents equal": Corpus.of(["same words"] * 6, same),
        "all documents equal and empty but one": Corpus.of(["", "", "", "", "", "x"], same),
        "fewer documents than dimensions": Corpus.of(["red apple", "blue sky"], [["fruit"], ["weather"]]),
        "a document": Corpus.of(["red apple"], [["fruit"]]),
        "no two documents share a label": Corpus.of(["red", "green", "blue"], [["a"], ["b"], ["c"]]),
    }


@SHELL
@pytest.mark.parametrize("kind", odd())
@pytest.mark.parametrize("cluster", [1, 2, 6000])
def test_little_to_learn_from(name: str, kind: str, cluster: int) -> None:
    """Clusters smaller than the embedding, more neighbours than documents, and so on: an answer, sound and finite."""
    documents = odd()[kind]
    model: Model = make(name, learners=2, dimensions=20, neighbours=50, cluster=cluster).fit(documents)
    top = model.predict(documents, k=2)
    assert np.isfinite(top.scores).all()
    first = [None if row[0] < 0 else documents.labels.key(int(row[0])) for row in top.ids]
    expected = {"one label": ["fruit", "fruit"], "all documents equal": ["a"] * 6, "a document": ["fruit"]}
    if kind in expected and cluster > 2:
        assert first[: len(expected[kind])] == expected[kind]


@SHELL
def test_more_than_memory_allows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmtc.models.base.available_memory", lambda: 1000)
    with pytest.raises(OutOfMemory, match=f"training {name} on topics needs about"):
        quick(name).fit(corpus())


@SHELL
def test_threads_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = quick(name, cluster=30).fit(corpus()).predict(corpus(), k=3)
    monkeypatch.setattr("xmtc.models.local_embedding.model.in_threads", lambda work, items: list(map(work, items)))
    other = quick(name, cluster=30).fit(corpus()).predict(corpus(), k=3)
    np.testing.assert_array_equal(one.scores, other.scores)


@SHELL
def test_documents_are_named_by_their_ids(name: str, tmp_path: Path) -> None:
    lines = [f'{{"id": "doc-{at}", "text": "ship sail {at}", "labels": ["sea"]}}' for at in range(6)]
    (tmp_path / "docs.jsonl").write_text("\n".join(lines))
    model = quick(name).fit(xmtc.read(tmp_path / "docs.jsonl"))
    model.save(tmp_path / "model")
    assert "doc-" in xmtc.load(tmp_path / "model").explain("ship sail", "sea").evidence[0]
