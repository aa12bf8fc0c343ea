"""`fasttext` beside the contract: what its options do, exact explanations, going on after a kill, hostile arrays."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xmtc import storage
from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadInput, BadModelFolder, ConfigError, OutOfMemory, XmtcError
from xmtc.models import base
from xmtc.models.fasttext import model as fasttext
from xmtc.models.fasttext.model import FastText
from xmtc.models.registry import load

SMALL: dict[str, Any] = {"dimensions": 6, "epochs": 3}
LOSSES = ("ova", "softmax", "ns")


def order_matters(documents: int = 80) -> Corpus:
    """Which of two words comes first tells the label: words alone cannot."""
    texts = [f"{'man bites dog' if at % 2 else 'dog bites man'} w{at % 7} only{at}" for at in range(documents)]
    return Corpus.of(texts, [["news" if at % 2 else "no news"] for at in range(documents)])


def relevant(model: FastText, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0]
    return float(np.mean([label in corpus.labels_of(row) for row, label in enumerate(top.tolist())]))


@pytest.mark.parametrize("loss", LOSSES)
def test_word_ngrams_know_the_order(loss: str) -> None:
    corpus = order_matters()
    common = {"dimensions": 8, "loss": loss, "learning_rate": 1.0, "min_df": 2}  # else a text is known by its own word
    one, two = (FastText(**common, word_ngrams=n).fit(corpus) for n in (1, 2))
    assert relevant(one, corpus) < 0.8
    assert relevant(two, corpus) == 1.0


def test_letters_know_unseen_words() -> None:
    texts = ["baking", "bakery", "baked", "fishing", "fishery", "fished"]
    corpus = Corpus.of(texts * 8, ([["b"]] * 3 + [["f"]] * 3) * 8)
    plain, letters = (FastText(dimensions=8, char_ngrams=sizes).fit(corpus) for sizes in ((0, 0), (3, 4)))
    one, other = plain.predict(["bakes", "fishes"], k=1), letters.predict(["bakes", "fishes"], k=1)
    assert one.ids[0] == one.ids[1]
    assert [letters._fitted().name(label) for label in other.ids.ravel().tolist()] == ["b", "f"]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"epochs": 4},
        {"learning_rate": 0.1},
        {"word_ngrams": 1},
        {"char_ngrams": (2, 3)},
        {"buckets": 3},
        {"min_df": 5},
        {"dimensions": 5},
        {"loss": "softmax"},
        {"loss": "ns"},
    ],
    ids=str,
)
def test_options_have_an_effect(changes: dict[str, Any]) -> None:
    corpus = order_matters(40)
    plain, other = (FastText(**{**SMALL, **each}).fit(corpus).predict(corpus, k=2).scores for each in ({}, changes))
    assert not np.array_equal(plain, other)


def test_the_number_of_negatives_has_an_effect() -> None:
    corpus = order_matters(40)
    few, many = (FastText(**SMALL, loss="ns", negatives=n).fit(corpus).predict(corpus, k=2).scores for n in (1, 9))
    assert not np.array_equal(few, many)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loss": "hs"}, "loss='hs'"),
        ({"dimensions": 0}, "dimensions=0"),
        ({"epochs": 0}, "epochs=0"),
        ({"learning_rate": 0}, "learning_rate=0"),
        ({"learning_rate": math.inf}, "learning_rate=inf"),
        ({"word_ngrams": 0}, "word_ngrams=0"),
        ({"buckets": 0}, "buckets=0"),
        ({"negatives": 0}, "negatives=0"),
        ({"char_ngrams": (3, 2)}, "shortest, longest"),
        ({"char_ngrams": (0, 2)}, "shortest, longest"),
        ({"char_ngrams": (1, 999)}, "from 1 to 100"),
    ],
)
def test_impossible_settings_are_named(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        FastText(**changes)


@pytest.mark.parametrize("loss", LOSSES)
def test_explanations_are_exact(loss: str) -> None:
    corpus = order_matters(40)
    model = FastText(**SMALL, loss=loss, char_ngrams=(3, 3), learning_rate=2.0).fit(corpus)
    for text in ("man bites dog", "Man bites, man BITES unheard-of dogs", ""):
        top = model.predict([text], k=2)
        vectors = np.mean([model.table_[row] for row, _ in model.grams_.named(text)], axis=0)
        scores = model.weights_ @ vectors
        for label, probability in zip(top.ids[0].tolist(), top.scores[0].tolist(), strict=True):
            why = model.explain(text, corpus.labels.key(label))
            assert why.score == pytest.approx(probability, abs=1e-5)
            every = float(model.table_[0] @ model.weights_[label]) / len(model.grams_.named(text))
            assert sum(weight for _, weight in why.words) + every == pytest.approx(scores[label], abs=1e-5)
            weights = [abs(weight) for _, weight in why.words]
            assert weights == sorted(weights, reverse=True)
            assert len({word for word, _ in why.words}) == len(why.words)
    assert "bites dog" in dict(model.explain("man bites dog", "news").words)


@pytest.mark.parametrize("loss", LOSSES)
def test_probabilities(loss: str) -> None:
    corpus = order_matters(40)
    scores = FastText(**SMALL, loss=loss).fit(corpus).predict(corpus, k=2).scores
    assert ((scores > 0) & (scores < 1)).all()
    if loss == "softmax":
        np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-5)


def test_labels_of_average_frequency_begin_at_their_frequency() -> None:
    """Nothing is learned by steps this small."""
    corpus = order_matters(40)
    wider = corpus.with_labels(corpus.labels.extend([f"more {at}" for at in range(8)]))
    scores = FastText(**SMALL, learning_rate=1e-9).fit(wider).predict(wider, k=10).scores
    np.testing.assert_allclose(scores, 0.1, rtol=1e-5)


def test_documents_without_labels_are_left_out() -> None:
    corpus = order_matters(40)
    texts = ["nothing to see", *(corpus.texts or ())]
    tags = [[], *([corpus.labels.key(label) for label in corpus.labels_of(row)] for row in range(40))]
    more = Corpus.of(texts, tags, label_set=corpus.labels)
    model = FastText(**SMALL, word_ngrams=1).fit(more)
    unseen = dict(zip(model.grams_.words, model.table_[1:], strict=True))["nothing"]
    assert np.abs(unseen).max() <= 1 / SMALL["dimensions"], "its vector is still as it began"


def test_given_vectors(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("dog 1 2 3\nunheard 4 5 6\n")
    corpus = order_matters(40)
    rate = 1e-9  # nothing moves
    model = FastText(dimensions=3, epochs=1, learning_rate=rate, vectors=str(file)).fit(corpus)
    rows = dict(zip(model.grams_.words, model.table_[1:], strict=False))
    np.testing.assert_allclose(rows["dog"], [1, 2, 3], rtol=1e-5)
    assert np.abs(rows["man"]).max() <= 1 / 3 + 1e-6
    with pytest.raises(ConfigError, match=r"vectors of 3 numbers; set dimensions=3"):
        FastText(dimensions=4, vectors=str(file)).fit(corpus)
    with pytest.raises(BadInput, match="none of the wanted words"):
        file.write_text("unheard 4 5 6\n")
        FastText(dimensions=3, vectors=str(file)).fit(corpus)


def test_steps_that_are_too_large_are_told() -> None:
    with pytest.raises(XmtcError, match="lower learning_rate"):
        FastText(dimensions=8, epochs=30, learning_rate=1e18).fit(order_matters(40))


class Killed(Exception):
    """A run that was stopped from outside."""


@pytest.mark.parametrize("loss", LOSSES)
def test_goes_on_after_a_kill(loss: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = order_matters(40)
    config = {**SMALL, "loss": loss, "epochs": 4}
    whole = FastText(**config).fit(corpus)
    train = FastText._train
    epochs: list[int] = []

    def killed_in_the_third(model: FastText, rows: Any, targets: Any, epoch: int, advance: Any) -> None:
        epochs.append(epoch)
        if epochs == [0, 1, 2]:
            raise Killed
        train(model, rows, targets, epoch, advance)

    monkeypatch.setattr(FastText, "_train", killed_in_the_third)
    with pytest.raises(Killed):
        FastText(**config).fit(corpus, checkpoints=tmp_path / "kept")
    again = FastText(**config).fit(corpus, checkpoints=tmp_path / "kept")
    assert epochs == [0, 1, 2, 2, 3]
    np.testing.assert_array_equal(again.table_, whole.table_)
    np.testing.assert_array_equal(again.weights_, whole.weights_)


def test_blocks_of_documents_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = order_matters(40)
    model = FastText(**SMALL).fit(corpus)
    expected = model.predict(corpus, k=2)
    monkeypatch.setattr(fasttext, "BLOCK", 3)
    found = model.predict(corpus, k=2)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        FastText(**SMALL).fit(order_matters(40))


def test_the_estimate_of_memory_grows_with_what_takes_it() -> None:
    corpus = order_matters(40)
    wider = corpus.with_labels(corpus.labels.extend([f"more {at}" for at in range(1000)]))
    plain = FastText(**SMALL).memory_needed(corpus)
    assert FastText(**SMALL).memory_needed(wider) > plain
    for change in ({"dimensions": 99}, {"word_ngrams": 3}, {"char_ngrams": (3, 6)}, {"buckets": 3_000_000}):
        assert FastText(**{**SMALL, **change}).memory_needed(corpus) > plain


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays["table"].__setitem__((0, 0), np.nan),
        lambda arrays: arrays["weights"].__setitem__((1, 2), np.inf),
        lambda arrays: arrays.update(table=arrays["table"][1:]),
        lambda arrays: arrays.update(weights=arrays["weights"][:, 1:]),
        lambda arrays: arrays.update(weights=arrays["weights"].astype(np.float64)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, change: Any) -> None:
    model = FastText(**SMALL).fit(order_matters(40))
    arrays = {"table": model.table_.copy(), "weights": model.weights_.copy()}
    change(arrays)
    model.table_, model.weights_ = arrays["table"], arrays["weights"]
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match=r"vectors\.safetensors is damaged"):
        load(tmp_path / "model")


def test_only_filled_buckets_are_kept(tmp_path: Path) -> None:
    FastText(**SMALL).fit(order_matters(40)).save(tmp_path / "model")
    arrays = storage.read_arrays(tmp_path / "model" / "vectors.safetensors")
    assert len(arrays["table"]) < 200
