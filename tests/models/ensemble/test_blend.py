"""Blends of models: what members see, what is kept, saving, explaining, resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from altered_folders import renew_checksum
from contract_corpus import small_corpus

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, ConfigError, XmtcError
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.base import Model
from xmtc.models.ensemble import blend as module
from xmtc.models.ensemble.blend import Blend
from xmtc.models.ensemble.holdout import split_holdout
from xmtc.models.knn import NearestNeighbours
from xmtc.models.registry import make

PARABEL: dict[str, Any] = {"model": "parabel", "set": {"trees": 1}}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Two kinds of labels: topics that many words tell, and numbers that stand in the text."""
    rng = np.random.default_rng(3)
    topics = small_corpus(400, seed=3)
    assert topics.texts is not None
    numbers = [f"n{int(number)}" for number in rng.geometric(0.05, 400)]
    texts = [f"{text} {number}" for text, number in zip(topics.texts, numbers, strict=True)]
    tags = [[*(topics.labels.key(at) for at in topics.labels_of(row)), numbers[row]] for row in range(400)]
    return Corpus.of(texts, tags, name="topics and numbers")


@pytest.fixture(scope="module")
def blended(corpus: Corpus) -> Blend:
    return Blend(members=["knn", PARABEL, {"model": "rocchio", "set": {"documents": 0}}]).fit(corpus[:300])


def test_better_than_its_members(corpus: Corpus, blended: Blend) -> None:
    test = corpus[300:]
    alone = [evaluate(make(name).fit(corpus[:300]), test).values["nDCG@5"] for name in ("knn", "prior")]
    assert evaluate(blended, test).values["nDCG@5"] > max(alone)
    assert len(blended.members_) > 1


def test_members_see_all_documents_in_the_end(corpus: Corpus, blended: Blend) -> None:
    assert [member.train_documents_ for member in blended.members_] == [300] * len(blended.members_)
    train, holdout = split_holdout(corpus[:300], 0)
    assert holdout is not None
    assert len(train) + len(holdout) == 300
    once = Blend(members=["knn", PARABEL], refit=False).fit(corpus[:300])
    assert {member.train_documents_ for member in once.members_} == {len(train)}
    assert once.train_documents_ == 300


def test_given_validation_documents_are_for_the_weights_only(corpus: Corpus) -> None:
    fits: list[int] = []

    class Counting(NearestNeighbours):
        def fit(self, corpus: Corpus, *args: Any, **kwargs: Any) -> Counting:
            fits.append(len(corpus))
            return super().fit(corpus, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xmtc.models.knn.NearestNeighbours", Counting)
        blend = Blend(members=["knn", "prior"]).fit(corpus[:300], corpus[300:])
    assert fits == [300]
    assert blend.members_[0].train_documents_ == 300


def test_seed_of_members() -> None:
    one, two = Blend(members=["knn", {"model": "knn", "set": {"seed": 5}}], seed=9)._members()
    assert (one.config.seed, two.config.seed) == (9, 5)


def test_of_fitted_models(corpus: Corpus) -> None:
    train, valid = corpus[:300], corpus[300:]
    models: list[Model] = [make("knn").fit(train), make("parabel", trees=1).fit(train), make("prior").fit(train)]
    blend = Blend.of(models, valid, names=["neighbours", "trees", "counts"])
    assert blend.train_documents_ == 300
    best = max(evaluate(model, valid).values["nDCG@5"] for model in models)
    assert evaluate(blend, valid).values["nDCG@5"] >= best
    assert set(blend.names_) <= {"neighbours", "trees", "counts"}
    with pytest.raises(XmtcError, match="different labels"):
        Blend.of([models[0], make("prior").fit(small_corpus())], valid)
    with pytest.raises(XmtcError, match="at least one"):
        Blend.of([], valid)


def test_one_member_keeps_its_order(corpus: Corpus) -> None:
    train, valid = corpus[:300], corpus[300:]
    knn = make("knn").fit(train)
    nobody = Corpus.of(["..."], [["x"]])
    blend = Blend.of([knn], nobody)  # nothing to learn from
    np.testing.assert_array_equal(blend.predict(valid, k=3).ids, knn.predict(valid, k=3).ids)
    np.testing.assert_allclose(blend.predict(valid, k=3).scores, knn.predict(valid, k=3).scores, atol=1e-5)
    from xmtc.models.calibration import Platt
    from xmtc.models.ensemble.stacking import Stack

    assert knn.labels_ is not None
    assert knn.labels_.counts is not None
    flat = Platt(0.0, 0.3, of_probabilities=False)  # even if all probabilities are the same
    blend.adopt(["knn"], [knn], Stack.single(flat, knn.labels_.counts))
    np.testing.assert_array_equal(blend.predict(valid, k=3).ids, knn.predict(valid, k=3).ids)


def test_explains_who_spoke(corpus: Corpus, blended: Blend) -> None:
    assert corpus.texts is not None
    text = corpus.texts[305]
    name, score = blended.predict([text], k=1).names()[0][0]
    why = blended.explain(text, name)
    assert why.score == pytest.approx(score, abs=1e-3)
    assert why.words
    for member in blended.names_:
        assert any(line.startswith(member) for line in why.evidence)
    assert any("log-odds" in line for line in why.evidence)
    assert any(line.startswith("the words are those of") for line in why.evidence)


def test_explains_without_a_member_that_can(corpus: Corpus) -> None:
    why = Blend(members=["prior"]).fit(corpus).explain("ship", "sea")
    assert why.words == ()
    assert "prior lists it in place" in why.evidence[0]


def test_saved_as_one_folder(corpus: Corpus, blended: Blend, tmp_path: Path) -> None:
    blended.save(tmp_path / "model")
    names = {file.name for file in (tmp_path / "model").iterdir()}
    assert {"members.json", "stack.safetensors", "member0-counts.safetensors"} <= names
    loaded = xmtc.load(tmp_path / "model")
    assert isinstance(loaded, Blend)
    np.testing.assert_array_equal(loaded.predict(corpus, k=4).ids, blended.predict(corpus, k=4).ids)
    assert loaded.names_ == blended.names_
    assert [m.train_documents_ for m in loaded.members_] == [m.train_documents_ for m in blended.members_]


@pytest.mark.parametrize(
    "facts",
    [
        "[]",
        "3",
        "[3]",
        '[{"name": "a"}]',
        '[{"name": "a", "kind": "blend", "config": {}, "training": {}}]',
        '[{"name": "a", "kind": "new", "config": {}, "training": {}}]',
        '[{"name": 1, "kind": "knn"}]',
    ],
)
def test_odd_members(blended: Blend, tmp_path: Path, facts: str) -> None:
    blended.save(tmp_path / "model")
    (tmp_path / "model" / "members.json").write_text(facts)
    renew_checksum(tmp_path / "model", "members.json")
    with pytest.raises(BadModelFolder, match=r"members\.json"):
        xmtc.load(tmp_path / "model")


def test_goes_on_after_a_kill(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while the second member is trained, a run does not train the first one's trees again."""
    members = [{"model": "parabel", "set": {"trees": 2, "max_leaf": 20}}, "knn"]
    whole = Blend(members=members).fit(corpus)
    with monkeypatch.context() as patch:
        patch.setattr(NearestNeighbours, "_fit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Blend(members=members).fit(corpus, checkpoints=tmp_path / "pieces")
    monkeypatch.setattr(module, "choose", lambda *_: None)  # and then no more parabel to train than the refit
    from xmtc.models.parabel import Parabel

    trained: list[str] = []
    train = Parabel._train

    def noticed(self: Parabel, *args: Any) -> Any:
        trained.append(args[-1])
        return train(self, *args)

    monkeypatch.setattr(Parabel, "_train", noticed)
    again = Blend(members=members).fit(corpus, checkpoints=tmp_path / "pieces")
    assert len(trained) == 2, "only for all documents"
    monkeypatch.undo()
    resumed = Blend(members=members).fit(corpus, checkpoints=tmp_path / "pieces")
    np.testing.assert_array_equal(resumed.predict(corpus).ids, whole.predict(corpus).ids)
    assert len(again.members_) == 2
    with pytest.raises(BadModelFolder, match="another run"):
        Blend(members=["knn"]).fit(corpus, checkpoints=tmp_path / "pieces")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (["knn", "blend"], "blend cannot be a member"),
        (["svm"], "no model 'svm'"),
        ([{"model": "knn", "set": {"neighbors": 3}}], "did you mean 'neighbours'"),
        ([{"modell": "knn"}], "a member of a blend is"),
        ([{"model": "knn", "settings": {}}], "a member of a blend is"),
        ([], "at least 1"),
        ("knn", "members"),
    ],
)
def test_impossible_members(members: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Blend(members=members)


def test_a_member_that_needs_texts_says_so(corpus: Corpus) -> None:
    from dataclasses import replace

    from scipy.sparse import csr_array

    features = replace(corpus, texts=None, features=csr_array(np.ones((len(corpus), 2), np.float32)))
    with pytest.raises(XmtcError, match="fasttext needs text"):
        Blend(members=["knn", "fasttext"]).fit(features)


def test_memory_is_that_of_all_members(corpus: Corpus) -> None:
    needed = Blend(members=["knn", "parabel"]).memory_needed(corpus)
    assert needed == make("knn").memory_needed(corpus) + make("parabel").memory_needed(corpus)
