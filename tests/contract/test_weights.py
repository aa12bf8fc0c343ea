"""Weights in training, for every model: as declared, else refused with the methods that can."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import in_short, small_corpus

from xmtc.corpus.corpus import Corpus
from xmtc.errors import ConfigError
from xmtc.models.registry import load, make
from xmtc.predictions import Predictions
from xmtc.text.tfidf import TfIdf

TIGHT = {"tolerance": 1e-6, "rounds": 5000, "smallest_weight": 0.0}
#: Methods for which whole weights are repeated documents, with settings that let them find their optimum.
EXACT: dict[str, dict[str, Any]] = {
    "prior": {},
    "knn": {"neighbours": 1000},
    "rocchio": {"smallest": 0.0},
    "dismec": TIGHT,
    "proxml": TIGHT,
    "ppd_sparse": {"tolerance": 1e-4, "rounds": 1000, "searches": 50},
    "parabel": TIGHT | {"trees": 2, "max_leaf": 3},
    "bonsai": TIGHT | {"trees": 1, "max_leaf": 2, "loss": "logistic"},
    "blend": {"members": ["rocchio", {"model": "dismec", "set": TIGHT}]},
    "auto": {"methods": ["rocchio", "prior"]},
}
#: One that is exact only without validation documents: see tests/models/test_sparse_ovr.py.
CHOOSES_EPOCHS = {"pd_sparse"}
#: Those that draw documents by their weights in each epoch, so that only proportions count.
DRAWN = {
    "attentionxml",
    "xml_cnn",
    "bow_cnn",
    "mlc2seq",
    "sgm",
    "su4mlc",
    "fasttext",
    "extremetext",
    "c2ae",
    "rank_ae",
    "treaderxml",
    "aplc_xlnet",
    "x_transformer",
    "lightxml",
}


def with_features(corpus: Corpus) -> Corpus:
    """Features do not change with the documents around them, as tf-idf does."""
    assert corpus.texts is not None
    return replace(corpus, texts=None, features=TfIdf().fit_transform(corpus.texts))


def scores(top: Predictions) -> Any:
    return top.to_csr().toarray()


@pytest.fixture
def weighable(name: str) -> set[str]:
    return set(make(name, **in_short(name)).capabilities.weights)


def test_whole_weights_are_repeated_documents(name: str, weighable: set[str]) -> None:
    if name not in EXACT:
        assert name in DRAWN | CHOOSES_EPOCHS or "documents" not in weighable
        pytest.skip("draws documents by their weights, chooses its epochs by others, or takes none")
    corpus, valid = with_features(small_corpus(80)), with_features(small_corpus(80))[:30]
    weights = np.random.default_rng(4).integers(0, 4, len(corpus))
    often = corpus[np.repeat(np.arange(len(corpus)), weights)]
    k = len(corpus.labels)
    weighted = make(name, **EXACT[name]).fit(corpus, valid, document_weights=weights)
    repeated = make(name, **EXACT[name]).fit(often, valid)
    np.testing.assert_allclose(scores(weighted.predict(corpus, k)), scores(repeated.predict(corpus, k)), atol=5e-3)
    plain = make(name, **EXACT[name]).fit(corpus, valid)
    different = np.abs(scores(weighted.predict(corpus, k)) - scores(plain.predict(corpus, k))).max()
    assert different > 0.02, "else the weights would not matter here, and this would be no test"
    assert weighted.train_documents_ == np.count_nonzero(weights)


def test_weight_0_is_absent(name: str, weighable: set[str]) -> None:
    corpus = small_corpus(60)
    keep = np.arange(60) % 3 > 0
    if "documents" not in weighable:
        with pytest.raises(ConfigError, match=rf"{name} cannot take weights of documents; these can: .*dismec"):
            make(name, **in_short(name)).fit(corpus, document_weights=keep)
        return
    weighted = make(name, **in_short(name)).fit(corpus, document_weights=keep)
    without = make(name, **in_short(name)).fit(corpus[keep])
    np.testing.assert_allclose(scores(weighted.predict(corpus, 3)), scores(without.predict(corpus, 3)), atol=1e-4)
    assert weighted.training_["weights"].startswith("documents ")
    assert "weights" not in without.training_


def torn_corpus() -> Corpus:
    """The same texts, half of them with one label and half with another."""
    texts = ["ship sail wave harbour", "bread oven flour butter"] * 20
    return Corpus.of(texts, [["north"]] * 20 + [["south"]] * 20)


def test_heavy_documents_win(name: str, weighable: set[str], tmp_path: Path) -> None:
    if "documents" not in weighable or name == "rocchio":
        pytest.skip("takes no weights of documents, or only compares those of one label")
    settings: dict[str, Any] = dict(in_short(name))
    if "training" in settings:
        settings["training"] = settings["training"] | {"epochs": 8, "learning_rate": 0.02}
    # Of two labels with the same score, the first one wins.
    model = make(name, **settings).fit(torn_corpus(), document_weights=np.repeat([1.0, 30.0], 20))
    model.save(tmp_path / "model")
    for asked in (model, load(tmp_path / "model")):
        assert asked.predict(["ship sail"], k=1).names()[0][0][0] == "south"


def test_weights_of_labels(name: str, weighable: set[str]) -> None:
    corpus = torn_corpus()
    settings = {"members": ["dismec", "parabel"]} if name == "blend" else in_short(name)
    settings = {"methods": ["dismec"]} if name == "auto" else settings
    if "labels" not in weighable:
        with pytest.raises(ConfigError, match=rf"{name} cannot take weights of labels; these can: .*dismec"):
            make(name, **settings).fit(corpus, label_weights={"south": 3})
        return
    for label in ("north", "south"):
        model = make(name, **settings).fit(corpus, label_weights={label: 9})
        assert model.predict(["ship sail"], k=1).names()[0][0][0] == label
        assert model.training_["weights"].startswith("labels ")


@pytest.mark.parametrize("name", ["fasttext", pytest.param("xml_cnn", marks=pytest.mark.needs("torch"))])
def test_equal_weights_change_nothing_where_documents_are_drawn(name: str) -> None:
    corpus = small_corpus(60)
    weighted = make(name, **in_short(name)).fit(corpus, document_weights=np.full(60, 3.0))
    plain = make(name, **in_short(name)).fit(corpus)
    np.testing.assert_allclose(scores(weighted.predict(corpus, 3)), scores(plain.predict(corpus, 3)), atol=1e-6)


def test_another_run_resumes_only_with_the_same_weights(tmp_path: Path) -> None:
    from xmtc.errors import BadModelFolder

    corpus = small_corpus(60)
    make("dismec").fit(corpus, checkpoints=tmp_path / "pieces", document_weights=np.arange(60))
    make("dismec").fit(corpus, checkpoints=tmp_path / "pieces", document_weights=np.arange(60))
    for other in (None, np.arange(60) + 1):
        with pytest.raises(BadModelFolder, match=r"different: weights"):
            make("dismec").fit(corpus, checkpoints=tmp_path / "pieces", document_weights=other)


def test_labels_that_are_added_learn_from_documents_that_count() -> None:
    from xmtc.models.dismec import Dismec

    more = Corpus.of(["anchor deck", "anchor deck", "soup"], [["old"], ["new"], ["north"]])
    model = Dismec().fit(torn_corpus())
    model.add_labels(more.with_weights([0, 5, 1]))
    assert np.isfinite(model.biases_).all()
    assert model.predict(["anchor deck"], k=1).names()[0][0][0] == "new"


@pytest.mark.parametrize("name", ["prior", "knn", "dismec"])
def test_further_documents_have_weights_too(name: str, tmp_path: Path) -> None:
    first, more = torn_corpus()[:20], torn_corpus()[20:]
    settings = {"knn": {"neighbours": 1000}}.get(name, {})
    light, heavy = (make(name, **settings).fit(first) for _ in range(2))
    light.partial_fit(more.with_weights(np.full(20, 0.01)))
    heavy.partial_fit(more.with_weights(np.full(20, 50.0)))
    heavy.partial_fit(torn_corpus()[:1]).save(tmp_path / "model")
    assert light.predict(["ship sail"], k=1).names()[0][0][0] == "north"
    assert load(tmp_path / "model").predict(["ship sail"], k=1).names()[0][0][0] == "south"
