"""Rocchio's labels: means of documents and names, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import ConfigError, XmtcError
from xmtc.models.rocchio import Rocchio, with_names
from xmtc.search.sparse_index import SparseIndex
from xmtc.text.tfidf import TfIdf

LABELS = LabelSet.of(["f", "w", "n"], names=["Fruit", "Weather", "Night sky"], alternatives=[["orchard"], [], []])
CORPUS = Corpus.of(["red apple", "green apple orchard", "blue sky", "rain"], [["f"], ["f"], ["w"], ["w"]], LABELS)


@pytest.mark.parametrize(("documents", "names"), [(1.0, 1.0), (1.0, 0.0), (0.0, 2.0), (0.5, 3.0)])
def test_scores_are_the_cosines_of_the_formula(documents: float, names: float) -> None:
    model = Rocchio(documents=documents, names=names, smallest=0).fit(CORPUS)
    assert CORPUS.texts is not None
    texts = ["an apple under the night sky", "weather", "orchard rain", "unknown words"]
    tfidf = TfIdf(model.config.tfidf)
    both = with_names(CORPUS).texts
    assert both is not None
    vectors = tfidf.fit_transform(both if names else CORPUS.texts).toarray()
    sums = CORPUS.targets.T.toarray() @ vectors[: len(CORPUS)]

    def unit(rows: np.ndarray) -> np.ndarray:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(lengths, lengths, 1))

    total = documents * unit(sums) + (names * vectors[len(CORPUS) :] if names else 0)
    top = model.predict(texts, k=3)
    from xmtc.corpus.strings import Strings

    expected = tfidf.transform(Strings.of(texts)).toarray() @ unit(total).T
    found = top.to_csr().toarray()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_label_without_documents_is_found_by_its_name() -> None:
    assert Rocchio().fit(CORPUS).predict(["a dark night"], k=1).names()[0][0][0] == "Night sky"
    assert Rocchio(names=0).fit(CORPUS).predict(["a dark night"], k=1).names() == [[]]


def test_explanation_adds_up() -> None:
    model = Rocchio().fit(CORPUS)
    text = "a green apple and rain"
    for name, score in model.predict([text], k=3).names()[0]:
        why = model.explain(text, name)
        assert sum(weight for _, weight in why.words) == pytest.approx(score, abs=1e-4)
        assert "known by" in why.evidence[0]


def test_small_weights_are_dropped() -> None:
    full, few = (Rocchio(smallest=smallest).fit(CORPUS).index_ for smallest in (0.0, 0.9))
    assert isinstance(full, SparseIndex) and isinstance(few, SparseIndex)
    assert few.columns.nnz < full.columns.nnz


def test_features_have_no_names() -> None:
    features = csr_array(np.eye(4, 3, dtype=np.float32))
    corpus = Corpus(CORPUS.targets, CORPUS.labels, features=features, name="numbers")
    model = Rocchio().fit(corpus)
    assert model.predict(corpus, k=1).ids[:3, 0].tolist() == [0, 0, 1]
    with pytest.raises(XmtcError, match="trained on features"):
        model.explain("apple", "f")
    with pytest.raises(XmtcError, match="names alone"):
        Rocchio(documents=0).fit(corpus)


def test_nothing_to_know_labels_by() -> None:
    with pytest.raises(ConfigError, match="nothing"):
        Rocchio(documents=0, names=0)
