"""`knn` beside the contract: features as input, what an explanation adds up to, settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sparse import unit_rows
from xmtc.errors import ConfigError, OutOfMemory, XmtcError
from xmtc.models import base
from xmtc.models.knn import NearestNeighbours
from xmtc.models.registry import load, make
from xmtc.text.document_features import DocumentVectors

TEXTS = ["ship sail wave", "ship harbour", "bread oven", "bread butter knife", "wave storm"]
TAGS = [["sea"], ["sea", "town"], ["kitchen"], ["kitchen"], ["sea", "sky"]]


def features_only(corpus: Corpus, rng: np.random.Generator) -> Corpus:
    features = csr_array(rng.integers(0, 3, (len(corpus), 9)).astype(np.float32))
    return replace(corpus, features=features, texts=None)


def test_scores_are_shares_of_votes() -> None:
    corpus = Corpus.of(TEXTS, TAGS)
    model = NearestNeighbours(neighbours=2, power=2.0).fit(corpus)
    top = model.predict(["ship wave"], k=5)
    vectors, query = (model.search_.vectors.transform(Corpus.of(texts)) for texts in (TEXTS, ["ship wave"]))
    similarity = (vectors @ query.T).toarray().ravel()  # type: ignore[union-attr]
    near = np.argsort(-similarity)[:2]
    weights = similarity[near] ** 2
    expected: dict[str, float] = {}
    for row, weight in zip(near.tolist(), weights.tolist(), strict=True):
        for tag in TAGS[row]:
            expected[tag] = expected.get(tag, 0) + weight / weights.sum()
    assert dict(top.names()[0]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.5])
def test_words_of_an_explanation_add_up_to_the_score(power: float) -> None:
    model = NearestNeighbours(neighbours=4, power=power).fit(Corpus.of(TEXTS, TAGS))
    for label in ("sea", "town", "kitchen"):
        why = model.explain("ship wave bread", label)
        assert sum(weight for _, weight in why.words) == pytest.approx(why.score, abs=1e-5)
    assert model.explain("ship wave bread", "sea").words[0][0] in ("ship", "wave")
    assert "none of" in model.explain("oven", "sky").evidence[0]


def test_features_as_input(tmp_path: Path) -> None:
    corpus = features_only(Corpus.of(TEXTS, TAGS), np.random.default_rng(0))
    model = NearestNeighbours(neighbours=1).fit(corpus)
    assert [row[0] for row in model.predict(corpus, k=1).ids.tolist()] == [corpus.labels_of(row)[0] for row in range(5)]
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(corpus).ids, model.predict(corpus).ids)
    with pytest.raises(XmtcError, match="trained on features"):
        model.predict(["ship"])
    with pytest.raises(XmtcError, match="features without words"):
        model.explain("ship", "sea")


def test_texts_model_refuses_features() -> None:
    corpus = Corpus.of(TEXTS, TAGS)
    model = NearestNeighbours().fit(corpus)
    with pytest.raises(XmtcError, match="trained on texts"):
        model.predict(features_only(corpus, np.random.default_rng(0)))


def test_neither_text_nor_features() -> None:
    empty = Corpus(label_matrix([0], np.array([0, 1]), 1), LabelSet.of(["a"]))
    with pytest.raises(XmtcError, match="needs features or text"):
        NearestNeighbours().fit(empty)


def test_unit_rows() -> None:
    matrix = csr_array(np.array([[3, 4], [0, 0], [0, 5]], np.float32))
    np.testing.assert_allclose(unit_rows(matrix).toarray(), np.array([[0.6, 0.8], [0, 0], [0, 1]]))


def test_settings_reach_the_tf_idf() -> None:
    model = make("knn", tfidf={"ngrams": [1, 2], "min_df": 2}).fit(Corpus.of(TEXTS, TAGS))
    assert isinstance(model, NearestNeighbours)
    assert isinstance(model.search_.vectors, DocumentVectors)
    assert model.search_.vectors.tfidf is not None
    assert set(model.search_.vectors.tfidf.terms) == {"ship", "wave", "bread"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"neighbours": 0}, "neighbours=0"),
        ({"power": -1}, "power=-1"),
        ({"tfidf": {"ngram": [1, 2]}}, r"tfidf\.ngram"),
        ({"tfidf": {"idf": "steep"}}, r"tfidf\.idf='steep'"),
    ],
)
def test_impossible_settings_are_named(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make("knn", **settings)


def test_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        NearestNeighbours().fit(Corpus.of(TEXTS, TAGS))


def test_steep_votes_do_not_vanish() -> None:
    """0.4 to the power of 300 is 0 for every computer; the nearest document's labels are still right."""
    corpus = Corpus.of(TEXTS * 20, TAGS * 20)
    model = NearestNeighbours(power=300.0).fit(corpus)
    top = model.predict(["ship and much more that nobody ever said of anything like it", "bread"], k=2)
    assert np.isfinite(top.scores).all()
    assert top.names()[1] == [("kitchen", 1.0)]
    assert "sea" in dict(top.names()[0])
    assert model.explain("bread", "kitchen").score == pytest.approx(1.0)


def test_features_that_training_did_not_have(tmp_path: Path) -> None:
    """As with words: unknown ones say nothing. More and fewer columns than in training are no error."""
    corpus = features_only(Corpus.of(TEXTS, TAGS), np.random.default_rng(1))
    model = NearestNeighbours().fit(corpus)
    assert corpus.features is not None
    expected = model.predict(corpus, k=3)
    for width in (20, 500_000):
        wider = csr_array(
            (corpus.features.data, corpus.features.indices, corpus.features.indptr), shape=(len(corpus), width)
        )
        np.testing.assert_array_equal(model.predict(replace(corpus, features=wider), k=3).ids, expected.ids)
    far = csr_array((np.ones(1, np.float32), ([0], [400_000])), shape=(1, 500_000))
    assert model.predict(replace(corpus[:1], features=far), k=3).names() == [[]]
    narrow = corpus.features[:, :4]
    assert model.predict(replace(corpus, features=narrow), k=3).ids.shape == (5, 3)
    model.partial_fit(replace(corpus, features=narrow))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scale_of_features_does_not_matter(scale: float) -> None:
    corpus = features_only(Corpus.of(TEXTS, TAGS), np.random.default_rng(1))
    assert corpus.features is not None
    scaled = replace(corpus, features=(corpus.features * np.float32(scale)).astype(np.float32))
    one, other = (NearestNeighbours().fit(c).predict(c, k=3) for c in (corpus, scaled))
    np.testing.assert_array_equal(one.ids, other.ids)


def test_no_word_left() -> None:
    with pytest.raises(XmtcError, match=r"no word is left.*lower tfidf\.min_df"):
        NearestNeighbours(tfidf={"min_df": 100}).fit(Corpus.of(TEXTS, TAGS))


@pytest.mark.parametrize("power", [float("inf"), float("nan")])
def test_power_is_finite(power: float) -> None:
    with pytest.raises(ConfigError, match=r"power=.*finite"):
        NearestNeighbours(power=power)


def by_means(**settings: object) -> NearestNeighbours:
    words = {"vectors": "random", "dimensions": 8}
    return NearestNeighbours(**{"search": {"vectors": "mean"}, "words": words, "neighbours": 3, **settings})


@pytest.mark.needs("tokenizers", "faiss")
@pytest.mark.parametrize("vectors", ["mean", "tfidf_mean"])
def test_documents_compared_by_means_of_word_vectors(vectors: str, tmp_path: Path) -> None:
    corpus = Corpus.of(TEXTS, TAGS)
    model = by_means(search={"vectors": vectors}).fit(corpus)
    assert [row[0][0] for row in model.predict(["sail ship", "oven bread bread"], k=1).names()] == ["sea", "kitchen"]
    for label in ("sea", "kitchen"):
        why = model.explain("ship wave bread", label)
        assert sum(weight for _, weight in why.words) == pytest.approx(why.score, abs=1e-5)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.predict(corpus).names() == model.predict(corpus).names()
    loaded.partial_fit(Corpus.of(["sail sail"], [["new"]]))
    assert "new" in dict(loaded.predict(["sail sail"], k=3).names()[0])
    with pytest.raises(XmtcError, match="needs texts"):
        by_means().fit(features_only(corpus, np.random.default_rng(0)))


@pytest.mark.needs("tokenizers", "faiss")
def test_copies_of_a_text_can_be_left_out() -> None:
    corpus = Corpus.of([*TEXTS, "ship harbour"], [*TAGS, ["copy"]])
    for vectors in ("tfidf", "mean"):
        with_copies, without = (
            by_means(search={"vectors": vectors, "same_texts": same}).fit(corpus).predict(["ship harbour"], k=5)
            for same in (True, False)
        )
        assert "copy" in dict(with_copies.names()[0])
        assert not {"copy", "town"} & set(dict(without.names()[0]))


@pytest.mark.needs("tokenizers", "faiss")
def test_memory_of_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        by_means().fit(Corpus.of(TEXTS, TAGS))
