"""`Model.explain`: one label, or the best ones; training documents by their ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.strings import Strings
from xmtc.errors import BadModelFolder, XmtcError
from xmtc.models.explanation import Explanation, Explanations
from xmtc.models.registry import load, make

TEXTS = ["the ship on the sea", "a ship and its sail", "bread from the oven", "warm bread and butter"]
CORPUS = Corpus.of(TEXTS, [["sea"], ["sea"], ["food"], ["food"]])
NAMED = Corpus(CORPUS.targets, CORPUS.labels, texts=CORPUS.texts, ids=Strings.of(["d-1", "d-2", "d-3", "d-4"]))


def test_without_a_label_the_best_are_explained() -> None:
    model = make("knn").fit(CORPUS)
    found = model.explain("a ship with bread and butter")
    assert isinstance(found, Explanations)
    best = model.predict(["a ship with bread and butter"], k=3).names()[0]
    assert [(why.label, round(why.score, 4)) for why in found] == best
    assert found[0] == model.explain("a ship with bread and butter", best[0][0])
    assert len(model.explain("a ship with bread", k=1)) == 1
    assert model.explain("xyz") == ()


def test_an_explanation_knows_its_text_and_the_label() -> None:
    corpus = Corpus.of(TEXTS, [["l1"], ["l1"], ["l2"], ["l2"]])
    why = make("dismec").fit(corpus).explain("a ship", "l1")
    assert isinstance(why, Explanation)
    assert (why.text, why.key, why.to_json()["label"]) == ("a ship", "l1", "l1")


def test_what_is_no_text_is_refused() -> None:
    model = make("knn").fit(CORPUS)
    with pytest.raises(XmtcError, match="explain takes one text, not a list; call it for each text"):
        model.explain(["a ship"])  # type: ignore[call-overload]
    with pytest.raises(XmtcError, match="prior cannot explain its answers"):
        make("prior").fit(CORPUS).explain("a ship")
    with pytest.raises(XmtcError, match="k must be at least 1"):
        model.explain("a ship", k=0)


def test_neighbours_are_named_by_their_ids(tmp_path: Path) -> None:
    model = make("knn").fit(NAMED)
    model.save(tmp_path / "model")
    for asked in (model, load(tmp_path / "model")):
        assert "training document d-2 (similarity" in asked.explain("a sail", "sea").evidence[0]


def test_without_ids_neighbours_have_numbers(tmp_path: Path) -> None:
    make("knn").fit(CORPUS).save(tmp_path / "model")
    assert not (tmp_path / "model" / "documents.safetensors").exists()
    assert "training document 1 (" in load(tmp_path / "model").explain("a sail", "sea").evidence[0]


@pytest.mark.parametrize(("first", "more", "name"), [(CORPUS, NAMED, "d-2"), (NAMED, CORPUS, "5")])
def test_further_documents_keep_theirs(first: Corpus, more: Corpus, name: str, tmp_path: Path) -> None:
    # The same documents again, but for one word, so that the new one is nearer.
    again = Corpus(more.targets, more.labels, texts=Strings.of([f"{text} new" for text in TEXTS]), ids=more.ids)
    model = make("knn").fit(first).partial_fit(again)
    assert f"training document {name} (" in model.explain("a sail new", "sea").evidence[0]
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model").partial_fit(again)
    assert loaded.train_documents_ == 12


def test_a_blend_names_them_too(tmp_path: Path) -> None:
    make("blend", members=["knn"]).fit(NAMED).save(tmp_path / "model")
    assert any("training document d-2 (" in line for line in load(tmp_path / "model").explain("a sail", "sea").evidence)


def test_too_few_ids_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("knn").fit(NAMED)
    model.ids_ = model.ids_[:3]  # type: ignore[attr-defined]
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match=r"documents\.safetensors is damaged: it has 3 strings, not 4"):
        load(tmp_path / "model")
