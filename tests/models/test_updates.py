"""Further documents with new words and new labels: found where they belong, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.sketch import Sketch
from xmtc.errors import BadModelFolder, XmtcError
from xmtc.models.base import Model
from xmtc.models.registry import load, make
from xmtc.models.training_facts import check_facts

WORDS = {"sea": "ship sail wave harbour", "kitchen": "bread oven flour yeast", "sky": "rain cloud storm wind"}
NEW = ["kiwi mango papaya", "mango lime guava", "papaya kiwi lychee", "guava lychee lime", "kiwi lime pomelo"]
LEARNERS = ["knn", "dismec", "prior"]
READERS: list[tuple[str, dict[str, Any]]] = [
    ("knn", {}),
    ("knn", {"tfidf": {"letters": (3, 5)}}),
    ("knn", {"tfidf": {"ngrams": (1, 2), "idf": "smooth"}}),
    ("dismec", {}),
    ("dismec", {"loss": "logistic", "cost": 10.0}),
    ("dismec", {"tfidf": {"letters": (3, 5)}}),
]


def corpus(documents: int = 90, seed: int = 0) -> Corpus:
    rng = np.random.default_rng(seed)
    tags = [list(WORDS)[at % 3] for at in range(documents)]
    texts = [" ".join(rng.choice(WORDS[tag].split(), 3)) for tag in tags]
    return Corpus.of(texts, [[tag] for tag in tags], name="topics")


def fruit(documents: int = 5) -> Corpus:
    return Corpus.of((NEW * documents)[:documents], [["fruit"]] * documents, name="more")


def first(model: Model, texts: list[str]) -> list[str]:
    return [row[0][0] if row else "" for row in model.predict(texts, k=1).names()]


@pytest.mark.parametrize("documents", [1, 5, 60])
@pytest.mark.parametrize(("name", "settings"), READERS)
def test_a_new_label_with_new_words_is_found_for_its_texts_and_for_no_others(
    name: str, settings: dict[str, Any], documents: int
) -> None:
    model = make(name, **settings).fit(corpus()).partial_fit(fruit(documents))
    assert first(model, ["mango kiwi", "ship wave", "oven flour", "storm"]) == ["fruit", "sea", "kitchen", "sky"]
    others = corpus(60, seed=3)
    top = model.predict(others, k=1).ids[:, 0]
    assert (top == others.with_labels(model.labels_).targets.indices).all()  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "settings"), READERS)
def test_old_labels_are_scored_almost_as_before(name: str, settings: dict[str, Any]) -> None:
    model, others = make(name, **settings).fit(corpus()), corpus(40, seed=3)
    before = model.predict(others, k=3)
    after = model.partial_fit(fruit()).predict(others, k=3)
    np.testing.assert_array_equal(before.ids[:, 0], after.ids[:, 0])
    np.testing.assert_allclose(before.scores[:, 0], after.scores[:, 0], atol=0.1)


def test_an_old_label_that_all_further_documents_have_is_not_found_everywhere() -> None:
    model = make("dismec").fit(corpus())
    further = Corpus.of([f"word{at} other{at} third{at}" for at in range(100)], [["sea"]] * 100)
    model.partial_fit(further)
    assert first(model, ["oven flour", "rain cloud", "word3 other3"]) == ["kitchen", "sky", "sea"]


def test_new_labels_alone_are_not_found_everywhere() -> None:
    model = make("dismec").fit(corpus())
    further = [f"word{at} other{at} third{at}" for at in range(100)]
    model.add_labels(Corpus.of(further, [["odd"]] * 100))  # type: ignore[attr-defined]
    assert first(model, ["oven flour", "rain cloud", "word3 other3"]) == ["kitchen", "sky", "odd"]
    assert first(model, ["quite unknown"]) != ["odd"]


def test_a_label_that_was_known_without_documents_is_learned() -> None:
    wider = corpus().with_labels(corpus().labels.extend(["fruit", "never"]))
    model = make("dismec").fit(wider).partial_fit(fruit())
    assert first(model, ["mango lime", "ship"]) == ["fruit", "sea"]
    assert model.predict(["mango"], k=9).names()[0][-1] == ("never", -10.0)


def test_knn_with_frozen_idf_equals_training_on_all_documents() -> None:
    settings = {"tfidf": {"idf": "none"}}
    grown = make("knn", **settings).fit(corpus()).partial_fit(fruit())
    all_texts = [*corpus().texts, *fruit().texts]  # type: ignore[misc]
    whole = make("knn", **settings).fit(Corpus.of(all_texts, [*([[tag] for tag in WORDS] * 30), *[["fruit"]] * 5]))
    queries = ["mango ship", "kiwi", "bread rain wave", *all_texts[::7]]
    one, other = grown.predict(queries, k=4), whole.predict(queries, k=4)
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6)


def test_prior_equals_training_on_all_documents() -> None:
    documents = corpus(100)
    grown, whole = make("prior").fit(documents[:40]).partial_fit(documents[40:]), make("prior").fit(documents)
    assert grown.predict(["x"], k=3).names() == whole.predict(["x"], k=3).names()


@pytest.mark.parametrize(("name", "settings"), READERS)
def test_an_updated_model_is_saved_and_updated_again(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    model = make(name, **settings).fit(corpus()).partial_fit(fruit())
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    queries = ["mango kiwi", "ship wave", "granite"]
    np.testing.assert_array_equal(loaded.predict(queries, 4).scores, model.predict(queries, 4).scores)
    loaded.partial_fit(Corpus.of(["granite basalt", "basalt gneiss"], [["rock"], ["rock"]]))
    assert first(loaded, ["granite gneiss", "mango kiwi", "ship"]) == ["rock", "fruit", "sea"]


def features_of(columns: list[list[int]], width: int, labels: list[str]) -> Corpus:
    rows = [row for row, found in enumerate(columns) for _ in found]
    flat = [column for found in columns for column in found]
    matrix = csr_array((np.ones(len(flat), np.float32), (rows, flat)), shape=(len(columns), width))
    return replace(Corpus.of([""] * len(columns), [[label] for label in labels]), texts=None, features=matrix)


@pytest.mark.parametrize("name", ["knn", "dismec"])
def test_features_beyond_the_width_of_training_are_learned(name: str) -> None:
    model = make(name).fit(features_of([[0, 1], [1, 2], [3, 4], [4, 5]] * 5, 6, ["a", "a", "b", "b"] * 5))
    model.partial_fit(features_of([[7, 8], [8, 9]] * 3, 10, ["new"] * 6))
    top = model.predict(features_of([[8, 9], [0, 1], [4, 5]], 12, ["a"] * 3), k=1)
    assert [row[0][0] for row in top.names()] == ["new", "a", "b"]


@pytest.mark.parametrize("name", ["knn", "dismec"])
def test_texts_for_a_model_of_features_are_refused(name: str) -> None:
    model = make(name).fit(features_of([[0, 1], [2, 3]] * 5, 6, ["a", "b"] * 5))
    with pytest.raises(XmtcError, match="was trained on features, which more does not have"):
        model.partial_fit(fruit())
    assert model.train_documents_ == 10


@pytest.mark.needs("tokenizers", "faiss")
def test_word_vectors_say_which_documents_they_cannot_read() -> None:
    words = {"vectors": "random", "dimensions": 8}
    model = make("knn", search={"vectors": "mean"}, words=words).fit(corpus())
    with pytest.warns(UserWarning, match=r"more: 5 of 5 further documents have no word with a vector.*tfidf"):
        model.partial_fit(fruit())


@pytest.mark.parametrize("name", LEARNERS)
def test_the_facts_follow(name: str) -> None:
    model = make(name).fit(corpus())
    before = dict(model.training_)
    model.partial_fit(corpus(30, seed=9)).partial_fit(fruit())
    facts = model.training_
    assert (facts["documents"], facts["labels"]) == (125, 4)
    assert facts["fingerprint"] != before["fingerprint"]
    assert facts["seconds"] >= before["seconds"]
    assert facts["updates"] | {"on": ""} == {
        "times": 2,
        "on": "",
        "corpus": "more",
        "documents": 5,
        "new_labels": 1,
    }
    seen = Sketch.from_hex(facts["sketch"])
    assert all(seen.overlap(part).share == 1 for part in (corpus(), corpus(30, seed=9), fruit()))
    check_facts(facts, "model")


def test_the_same_updates_give_the_same_fingerprint_and_another_order_another() -> None:
    parts = corpus(), corpus(30, seed=9), fruit()
    one, again, other = (
        make("prior").fit(parts[0]).partial_fit(parts[a]).partial_fit(parts[b]).training_
        for a, b in ((1, 2), (1, 2), (2, 1))
    )
    assert one["fingerprint"] == again["fingerprint"] != other["fingerprint"]
    assert one["sketch"] == other["sketch"]


@pytest.mark.filterwarnings("ignore:.* were in training")
def test_calibration_and_thresholds_are_known_to_be_older_than_the_update() -> None:
    valid = corpus(60, seed=4)
    model = make("knn").fit(corpus())
    model.calibrate(valid).tune(valid)
    assert "before_update" not in model.training_["calibration"]
    model.partial_fit(fruit())
    assert model.training_["calibration"]["before_update"] is model.training_["thresholds"]["before_update"] is True
    model.calibrate(valid)
    assert "before_update" not in model.training_["calibration"]


def test_a_model_from_before_sketches_has_none_after_an_update() -> None:
    model = make("prior").fit(corpus())
    model.training_ = {key: value for key, value in model.training_.items() if key != "sketch"}
    assert "sketch" not in model.partial_fit(fruit()).training_


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(
    ("further", "sentence"),
    [
        (Corpus.of([], []), "no documents, so there is nothing to learn"),
        (Corpus.of(["kiwi"], [[]]), "no document has a label, so there is nothing to learn"),
    ],
)
def test_nothing_to_learn_is_said(name: str, further: Corpus, sentence: str) -> None:
    model = make(name).fit(corpus())
    with pytest.raises(XmtcError, match=sentence):
        model.partial_fit(further)
    assert "updates" not in model.training_


def test_an_interrupted_update_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model, queries = make("dismec").fit(corpus()), ["ship kiwi", "oven"]
    before = model.predict(queries, k=3)
    with monkeypatch.context() as patch:
        patch.setattr("xmtc.executor.in_threads", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(fruit())
    np.testing.assert_array_equal(model.predict(queries, k=3).scores, before.scores)


UPDATES = {"times": 1, "on": "2026-01-01", "corpus": "c", "documents": 3, "new_labels": 0}


@pytest.mark.parametrize(
    "facts",
    [
        {"sketch": "xyz"},
        {"sketch": 7},
        {"sketch": ["0" * 16]},
        {"updates": 3},
        {"updates": []},
        {"updates": {}},
        {"updates": UPDATES | {"times": "1"}},
        {"updates": UPDATES | {"times": True}},
        {"updates": UPDATES | {"documents": None}},
        {"updates": UPDATES | {"corpus": 5}},
        {"calibration": "isotonic"},
        {"thresholds": [1]},
        {"seconds": "long"},
    ],
)
def test_facts_that_no_training_wrote_are_refused(facts: dict[str, Any], tmp_path: Path) -> None:
    model = make("prior").fit(corpus())
    model.training_ = {**model.training_, **facts}
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match="what it says about training"):
        load(tmp_path / "model")
