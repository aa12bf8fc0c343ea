"""DiSMEC: one classifier a label, against scoring by hand; further documents and labels; going on after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import random_array

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadModelFolder, OutOfMemory
from xmtc.kernels import coordinate_descent as svm
from xmtc.models import dismec
from xmtc.models.dismec import Dismec
from xmtc.search.label_blocks import NEVER

TOPICS = {"sea": "ship sail wave harbour", "sky": "cloud wind rain storm", "kitchen": "bread oven flour butter"}


def corpus(documents: int = 90, topics: dict[str, str] = TOPICS, seed: int = 0) -> Corpus:
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(list(topics), rng.integers(1, 3), replace=False).tolist() for _ in range(documents)]
    texts = [" ".join(rng.choice(" ".join(topics[topic] for topic in tags).split(), 6)) for tags in chosen]
    return Corpus.of(texts, chosen, name="topics")


def dense(model: Dismec, documents: Corpus) -> Any:
    """The scores of all labels, by hand."""
    return model.vectors_.transform(documents).toarray() @ model.index_.columns.toarray() + model.biases_


@given(st.integers(0, 20), st.integers(1, 3))
def test_predicts_the_best_scores(seed: int, k: int) -> None:
    model = Dismec(smallest_weight=0.0).fit(corpus(seed=seed))
    documents = corpus(20, seed=seed + 1)
    scores = dense(model, documents)
    top = model.predict(documents, k=k)
    np.testing.assert_allclose(top.scores, -np.sort(-scores, axis=1)[:, :k], atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(scores, top.ids, 1), top.scores, atol=1e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_learns(loss: str) -> None:
    documents = corpus(200)
    model = Dismec(loss=loss).fit(documents)
    assert xmtc.evaluate(model, corpus(100, seed=7)).values["P@1"] > 95


def test_blocks_do_not_change_what_is_learned() -> None:
    documents = corpus()
    whole = dense(Dismec(tolerance=1e-4, rounds=1000).fit(documents), documents)
    cut = dense(Dismec(tolerance=1e-4, rounds=1000, block=1).fit(documents), documents)
    np.testing.assert_allclose(whole, cut, atol=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_active_documents_give_the_same_classifiers(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = corpus(300)
    if weighted:
        documents = documents.with_weights(labels={"sea": 3})
    exact = {"tolerance": 1e-4, "rounds": 1000}
    whole = dense(Dismec(**exact).fit(documents), documents)
    monkeypatch.setattr(dismec, "most_positives", len_of)
    active = Dismec(**exact).fit(documents)
    np.testing.assert_allclose(dense(active, documents), whole, atol=2e-3)
    monkeypatch.setattr("xmtc.executor.in_threads", lambda work, items: [work(item) for item in items])
    again = Dismec(**exact).fit(documents)
    np.testing.assert_array_equal(dense(again, documents), dense(active, documents))


def len_of(features: Any, labels: int) -> int:
    """Every label counts as rare."""
    return int(features.shape[0])


def test_a_label_is_rare_in_a_corpus_of_many_short_texts() -> None:
    texts: Any = random_array((30_000, 100), density=0.05, format="csr", rng=0, dtype=np.float32)
    assert dismec.most_positives(texts, 100_000) == 40
    assert dismec.most_positives(texts, 1000) == 0, "quick enough"
    assert dismec.most_positives(texts[:300], 10_000_000) == 0, "few documents"


def test_small_weights_are_dropped() -> None:
    documents = corpus()
    every = Dismec(smallest_weight=0.0).fit(documents).index_.columns
    large = Dismec(smallest_weight=0.5).fit(documents).index_.columns
    assert 0 < large.nnz < every.nnz
    assert np.abs(large.data).min() >= 0.5


def test_a_label_without_documents_comes_last() -> None:
    documents = corpus()
    more = LabelSet.of([*documents.labels.keys, "nothing"])
    model = Dismec().fit(documents.with_labels(more))
    assert model.predict(["ship sail"], k=4).names()[0][-1] == ("nothing", NEVER)
    assert "no document" in model.explain("ship", "nothing").evidence[0]


def test_odd_corpora() -> None:
    one_label = Dismec().fit(Corpus.of(["red apple", "green apple", "blue sky"], [["fruit"], ["fruit"], []]))
    assert one_label.predict(["apple"], k=3).names()[0][0][0] == "fruit"
    identical = Dismec().fit(Corpus.of(["same words"] * 6, [["a"], ["a"], ["a"], ["a"], ["b"], ["b"]]))
    top = identical.predict(["same words", "nothing known"], k=2)
    assert [label for label, _ in top.names()[0]] == ["a", "b"], "more documents have it"
    assert np.isfinite(top.scores).all()


def test_more_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmtc.models.base.available_memory", lambda: 1000)
    with pytest.raises(OutOfMemory, match="training dismec on topics needs about"):
        Dismec().fit(corpus())


def test_explains_its_score() -> None:
    model = Dismec().fit(corpus())
    why = model.explain("ship bread", "sea")
    score = dict(model.predict(["ship bread"], k=3).names()[0])["sea"]
    assert why.score == pytest.approx(score, abs=1e-4)
    assert sum(weight for _, weight in why.words) + model.biases_[model.labels_.find("sea")] == pytest.approx(why.score)  # type: ignore[union-attr]
    assert dict(why.words)["ship"] > 0 > dict(why.words)["bread"]


def test_half_precision_on_disk(tmp_path: Path) -> None:
    # So many words that the weights take more room than what the file says of them.
    documents = corpus(topics={name: " ".join(f"{name}{number}" for number in range(100)) for name in TOPICS})
    sizes = {}
    for kind in ("float32", "float16"):
        model = Dismec(weights=kind).fit(documents)
        model.save(tmp_path / kind)
        sizes[kind] = (tmp_path / kind / "weights.safetensors").stat().st_size
        again = xmtc.load(tmp_path / kind)
        np.testing.assert_allclose(
            again.predict(documents, 3).scores,
            model.predict(documents, 3).scores,
            atol=0 if kind == "float32" else 5e-3,
        )
    assert sizes["float16"] < sizes["float32"]


def test_further_documents_change_only_what_they_must() -> None:
    model = Dismec().fit(corpus())
    before = dense(model, corpus(50, seed=3))
    model.partial_fit(corpus(30, seed=5))
    assert xmtc.evaluate(model, corpus(100, seed=7)).values["P@1"] > 95
    after = dense(model, corpus(50, seed=3))
    assert 0 < np.abs(after - before).max() < 1.0
    assert model.train_documents_ == 120


def test_further_documents_teach_a_new_word_use_and_a_new_label() -> None:
    model = Dismec().fit(corpus())
    lessons = [("rain oven", ["sky", "baking"]), ("flour oven", ["baking"]), ("ship sail", ["sea"])] * 10
    further = Corpus.of([text for text, _ in lessons], [tags for _, tags in lessons])
    model.partial_fit(further)
    assert model.predict(["flour oven"], k=1).names()[0][0][0] == "baking"
    assert model.predict(["ship sail"], k=1).names()[0][0][0] == "sea"
    assert model.labels_ is not None
    assert model.labels_.counts is not None
    assert model.labels_.counts[model.labels_.find("baking")] == 20


def test_new_labels_leave_the_old_ones_alone() -> None:
    model = Dismec().fit(corpus())
    documents = corpus(40, seed=3)
    before = dense(model, documents)
    model.add_labels(Corpus.of(["thunder rain", "cloud storm", "ship wave"] * 9, [["thunder"], ["sky"], ["sea"]] * 9))
    after = dense(model, documents)
    np.testing.assert_array_equal(before, after[:, : before.shape[1]])
    assert model.predict(["rain"], k=2).names()[0][0][0] in ("sky", "thunder")
    assert after.shape[1] == before.shape[1] + 1


def test_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = corpus()
    whole = Dismec(block=1).fit(documents)
    calls: list[int] = []
    train_node = svm.train_node

    def killed(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return train_node(*arguments)

    monkeypatch.setattr(svm, "train_node", killed)
    monkeypatch.setattr("xmtc.executor.in_threads", lambda work, items: [work(item) for item in items])
    with pytest.raises(KeyboardInterrupt):
        Dismec(block=1).fit(documents, checkpoints=tmp_path / "pieces")
    again = Dismec(block=1).fit(documents, checkpoints=tmp_path / "pieces")
    assert len(calls) == 4, "two blocks were kept, the third is trained again"
    np.testing.assert_array_equal(dense(again, documents), dense(whole, documents))
    with pytest.raises(BadModelFolder, match="different: settings"):
        Dismec(block=1, cost=2.0).fit(documents, checkpoints=tmp_path / "pieces")
    with pytest.raises(BadModelFolder, match="different: documents"):
        Dismec(block=1).fit(corpus(seed=4), checkpoints=tmp_path / "pieces")
