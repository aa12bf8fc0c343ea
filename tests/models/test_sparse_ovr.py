"""ProXML, PPD-Sparse and PD-Sparse: what they learn, odd corpora, going on after a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadModelFolder, OutOfMemory, XmtcError
from xmtc.models.registry import make
from xmtc.models.sparse_ovr.separable import TrainLabels
from xmtc.search.label_blocks import NEVER

METHODS = ("proxml", "ppd_sparse", "pd_sparse")
TOPICS = {"sea": "ship sail wave harbour", "sky": "cloud wind rain storm", "kitchen": "bread oven flour butter"}


def corpus(documents: int = 90, seed: int = 0) -> Corpus:
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(list(TOPICS), rng.integers(1, 3), replace=False).tolist() for _ in range(documents)]
    texts = [" ".join(rng.choice(" ".join(TOPICS[topic] for topic in tags).split(), 6)) for tags in chosen]
    return Corpus.of(texts, chosen, name="topics")


def dense(model: Any, documents: Corpus) -> Any:
    """The scores of all labels, by hand."""
    return model.vectors_.transform(documents).toarray() @ model.index_.columns.toarray() + model.biases_


@pytest.fixture(params=METHODS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        *((method, {}) for method in METHODS),
        ("proxml", {"propensity": "default"}),
        ("ppd_sparse", {"loss": "hinge", "cost": 1.0}),
        ("ppd_sparse", {"bias": 0.3}),
        ("pd_sparse", {"bias": 0.3, "sampled_words": 3}),
        ("pd_sparse", {"held_out": 0.0, "post_epochs": 0, "violators": 1}),
    ],
)
def test_learns_and_scores_as_by_hand(method: str, settings: dict[str, Any]) -> None:
    model = make(method, **settings).fit(corpus(200))
    documents = corpus(100, seed=7)
    assert xmtc.evaluate(model, documents).values["P@1"] > 95
    top = model.predict(documents, k=3)
    np.testing.assert_allclose(np.take_along_axis(dense(model, documents), top.ids, 1), top.scores, atol=1e-5)


def test_more_l1_leaves_fewer_words() -> None:
    for method, few, many in (
        ("proxml", {"cost": 0.2}, {"cost": 10.0}),
        ("ppd_sparse", {"l1": 1.0}, {"l1": 0.01}),
        ("pd_sparse", {"l1": 1.0}, {"l1": 0.01}),
    ):
        small, large = (make(method, **settings).fit(corpus()) for settings in (few, many))
        assert small.index_.columns.nnz < large.index_.columns.nnz, method  # type: ignore[attr-defined]


def test_propensities_raise_the_scores_of_rare_labels() -> None:
    documents = corpus(60)
    plain, raised = (make("proxml", propensity=kind).fit(documents) for kind in ("none", "default"))
    has = documents.targets.toarray() > 0
    assert dense(raised, documents)[has].mean() > dense(plain, documents)[has].mean()


def test_a_label_without_documents_comes_last(name: str) -> None:
    documents = corpus()
    model = make(name).fit(documents.with_labels(LabelSet.of([*documents.labels.keys, "nothing"])))
    assert model.predict(["ship sail"], k=4).names()[0][-1] == ("nothing", NEVER)
    assert "no document" in model.explain("ship", "nothing").evidence[0]


def test_one_label(name: str) -> None:
    model = make(name).fit(Corpus.of(["red apple", "green apple", "blue sky"], [["fruit"], ["fruit"], []]))
    assert model.predict(["apple"], k=3).names()[0][0][0] == "fruit"


def test_equal_documents(name: str) -> None:
    model = make(name).fit(Corpus.of(["same words"] * 6, [["a"], ["a"], ["a"], ["a"], ["b"], ["b"]]))
    assert np.isfinite(model.predict(["same words", "nothing known"], k=2).scores).all()


def test_documents_without_labels_and_without_words(name: str) -> None:
    known = corpus(60)
    assert known.texts is not None
    tags = [[known.labels.key(at) for at in np.flatnonzero(row).tolist()] for row in known.targets.toarray()]
    more = Corpus.of([*known.texts, "ship", "", ""], [*tags, [], ["sea"], []])
    assert xmtc.evaluate(make(name).fit(more), corpus(50, seed=7)).values["P@1"] > 95
    with pytest.raises(XmtcError, match="no document has a label"):
        make(name).fit(Corpus.of(["ship", "sail"], [[], []]))


def test_features_do_as_well_as_texts(name: str) -> None:
    texts = corpus()
    model = make(name).fit(texts)
    features = replace(texts, texts=None, features=model.vectors_.transform(texts))  # type: ignore[attr-defined]
    np.testing.assert_allclose(dense(make(name).fit(features), features), dense(model, texts), atol=1e-4)


def test_more_than_memory_allows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmtc.models.base.available_memory", lambda: 1000)
    with pytest.raises(OutOfMemory, match=f"training {name} on topics needs about"):
        make(name).fit(corpus())


@pytest.mark.parametrize("method", ["proxml", "ppd_sparse"])
def test_goes_on_after_a_finished_block(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = corpus()
    whole = make(method, block=1).fit(documents, checkpoints=tmp_path / "pieces")
    (tmp_path / "pieces" / "block2.safetensors").unlink()
    trained: list[int] = []
    own = TrainLabels.__call__

    def counted(*given: Any) -> object:
        trained.append(1)
        return own(*given)

    monkeypatch.setattr(TrainLabels, "__call__", counted)
    again = make(method, block=1).fit(documents, checkpoints=tmp_path / "pieces")
    assert len(trained) == 1
    np.testing.assert_array_equal(dense(again, documents), dense(whole, documents))
    with pytest.raises(BadModelFolder, match="different: settings"):
        make(method, block=1, cost=2.0).fit(documents, checkpoints=tmp_path / "pieces")


def test_goes_on_after_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from xmtc.models.sparse_ovr.pd_sparse import PdSparse

    documents = corpus()
    whole = PdSparse(patience=20, epochs=5).fit(documents)
    epoch, calls = PdSparse._epoch, []

    def killed(*given: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return epoch(*given)

    monkeypatch.setattr(PdSparse, "_epoch", killed)
    with pytest.raises(KeyboardInterrupt):
        PdSparse(patience=20, epochs=5).fit(documents, checkpoints=tmp_path / "pieces")
    again = PdSparse(patience=20, epochs=5).fit(documents, checkpoints=tmp_path / "pieces")
    np.testing.assert_array_equal(dense(again, documents), dense(whole, documents))


def test_validation_documents_choose_the_epochs() -> None:
    documents = corpus()
    model = make("pd_sparse", epochs=10, patience=1).fit(documents, corpus(30, seed=5))
    assert xmtc.evaluate(model, corpus(50, seed=7)).values["P@1"] > 95


def test_whole_weights_are_repeated_documents_without_held_out_ones() -> None:
    documents = corpus(40)
    model = make("pd_sparse").fit(documents)
    features = replace(documents, texts=None, features=model.vectors_.transform(documents))  # type: ignore[attr-defined]
    weights = np.random.default_rng(1).integers(1, 4, len(documents))
    often = features[np.repeat(np.arange(len(documents)), weights)]
    exact: dict[str, Any] = {"epochs": 300, "held_out": 0.0, "post_epochs": 0, "cost": 0.1}
    weighted = make("pd_sparse", **exact).fit(features, document_weights=weights)
    repeated = make("pd_sparse", **exact).fit(often)
    np.testing.assert_allclose(dense(weighted, features), dense(repeated, features), atol=1e-2)
