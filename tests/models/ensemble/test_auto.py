"""`auto`: what it tries, in which order and how long; what it keeps; what Ctrl-C, errors and the clock leave."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import small_corpus
from scipy.sparse import csr_array

import xmtc
from xmtc.budget import end_of_training
from xmtc.corpus.corpus import Corpus
from xmtc.errors import ConfigError, XmtcError
from xmtc.models.ensemble import search as module
from xmtc.models.ensemble import search_space
from xmtc.models.ensemble.auto import Auto
from xmtc.models.ensemble.search_space import CANDIDATES, Candidate, Facts
from xmtc.models.knn import NearestNeighbours
from xmtc.models.registry import CATALOGUE, model_class
from xmtc.models.rocchio import Rocchio

PRIOR = Candidate("prior", "prior", lambda _: 0.0)
KNN = Candidate("knn", "knn", lambda _: 0.1)
ROCCHIO = Candidate("rocchio", "rocchio", lambda _: 0.2)

Chosen = Callable[..., None]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return small_corpus(300, seed=2)


@pytest.fixture
def candidates(monkeypatch: pytest.MonkeyPatch) -> Chosen:
    return lambda *chosen: monkeypatch.setattr(search_space, "CANDIDATES", chosen)


def notes(auto: Auto) -> dict[str, str]:
    return {trial["method"]: trial["note"] for trial in auto.report_["methods"]}


def test_tries_the_cheapest_first_and_blends(
    corpus: Corpus, candidates: Chosen, capsys: pytest.CaptureFixture[str]
) -> None:
    candidates(ROCCHIO, KNN, PRIOR)
    auto = Auto(budget="1m").fit(corpus)
    assert [trial["method"] for trial in auto.report_["methods"]] == ["prior", "knn", "rocchio"]
    assert auto.names_
    assert {trial["method"] for trial in auto.report_["methods"] if trial["kept"]} == set(auto.names_)
    assert "prior" not in auto.names_
    qualities = [trial["quality"] for trial in auto.report_["methods"]]
    assert auto.report_["nDCG@5"] >= max(qualities)
    assert [member.train_documents_ for member in auto.members_] == [300] * len(auto.members_)
    assert set(auto.report_["trained on all documents"]) == set(auto.names_)
    said = capsys.readouterr().err
    for words in ("240 documents", "1:00 to spend", "60 held out", "knn:", "the best alone"):
        assert words in said


def test_given_validation_documents(corpus: Corpus, candidates: Chosen) -> None:
    candidates(KNN)
    auto = Auto(budget="1m").fit(corpus[:200], corpus[200:])
    assert auto.report_["held-out documents"] == 100
    assert auto.members_[0].train_documents_ == 200
    assert auto.report_["trained on all documents"] == [], "they have seen all of them"


def test_a_method_that_would_take_too_long_is_not_tried(corpus: Corpus, candidates: Chosen) -> None:
    candidates(KNN, Candidate("slow", "rocchio", lambda _: 1e6))
    auto = Auto(budget="30s").fit(corpus)
    assert auto.names_ == ["knn"]
    assert "not tried: it would take" in notes(auto)["slow"]


def test_one_method_is_trained_however_short_the_time(corpus: Corpus, candidates: Chosen) -> None:
    candidates(Candidate("first", "knn", lambda _: 1e6), Candidate("second", "rocchio", lambda _: 2e6))
    auto = Auto(budget="0.001s").fit(corpus)
    assert auto.names_ == ["first"]
    assert auto.predict(["ship sail"], k=1).names()[0]


def test_what_does_not_end_is_stopped(corpus: Corpus, candidates: Chosen, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates(KNN, Candidate("endless", "rocchio", lambda _: 0.2), Candidate("late", "prior", lambda _: 0.3))
    monkeypatch.setattr(Rocchio, "_fit", lambda *_: time.sleep(60))
    start = time.monotonic()
    auto = Auto(budget="3s").fit(corpus)
    assert time.monotonic() - start < 40
    assert auto.names_ == ["knn"]
    assert notes(auto)["endless"] == "not finished when the time was up"
    assert "not tried" in notes(auto)["late"]


def test_ctrl_c_keeps_the_best_so_far(corpus: Corpus, candidates: Chosen, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    candidates(KNN, ROCCHIO)
    with monkeypatch.context() as patch:
        patch.setattr(Rocchio, "_fit", interrupted)
        auto = Auto(budget="1m").fit(corpus)
    assert auto.names_ == ["knn"]
    assert notes(auto)["rocchio"] == "stopped"
    assert auto.members_[0].train_documents_ < 300, "and nothing is begun anew"
    monkeypatch.setattr(NearestNeighbours, "_fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Auto(budget="1m").fit(corpus)


def test_a_method_that_fails_does_not_take_the_others_down(
    corpus: Corpus, candidates: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates(KNN, ROCCHIO)
    monkeypatch.setattr(NearestNeighbours, "_fit", lambda *_: (_ for _ in ()).throw(RuntimeError("no luck")))
    auto = Auto(budget="1m").fit(corpus)
    assert auto.names_ == ["rocchio"]
    assert notes(auto)["knn"] == "failed: no luck"
    monkeypatch.setattr(Rocchio, "_fit", lambda *_: (_ for _ in ()).throw(RuntimeError("none here")))
    with pytest.raises(XmtcError, match=r"no method could be trained.*no luck.*none here"):
        Auto(budget="1m").fit(corpus)


def test_memory_is_looked_at_first(corpus: Corpus, candidates: Chosen, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates(PRIOR, KNN)
    monkeypatch.setattr(NearestNeighbours, "memory_needed", lambda *_: 1 << 60)
    auto = Auto(budget="1m").fit(corpus)
    assert "GiB of memory, more than there is" in notes(auto)["knn"]


def test_a_method_without_what_it_needs_is_not_tried(
    corpus: Corpus, candidates: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any) -> int:
        raise XmtcError("no encoder here; install one")

    candidates(PRIOR, KNN, ROCCHIO)
    monkeypatch.setattr(NearestNeighbours, "memory_needed", missing)
    auto = Auto(budget="1m").fit(corpus)
    assert notes(auto)["knn"] == "not tried: no encoder here; install one"
    assert "rocchio" in auto.names_


def test_a_member_that_cannot_be_trained_again_stays_as_it_is(
    corpus: Corpus, candidates: Chosen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = NearestNeighbours._fit

    def once(self: NearestNeighbours, documents: Corpus, *args: Any) -> None:
        if len(documents) == len(corpus):
            raise MemoryError
        fit(self, documents, *args)

    candidates(KNN)
    monkeypatch.setattr(NearestNeighbours, "_fit", once)
    auto = Auto(budget="1m").fit(corpus)
    assert auto.members_[0].train_documents_ == 240
    assert auto.report_["trained on all documents"] == []
    assert "knn on all documents: failed: MemoryError" in capsys.readouterr().err


def test_there_is_a_model_on_disk_while_it_goes_on(corpus: Corpus, candidates: Chosen, tmp_path: Path) -> None:
    candidates(PRIOR, KNN)
    seen: list[list[str]] = []
    auto = Auto(budget="1m")

    def saved() -> None:
        auto.save(tmp_path / "model")
        loaded = xmtc.load(tmp_path / "model")
        assert isinstance(loaded, Auto)
        loaded.predict(["ship"], k=2)
        seen.append(loaded.names_)

    auto.on_better = saved
    auto.fit(corpus)
    assert seen == [["prior"], ["knn"]]


def test_a_network_gets_the_time_that_is_left(
    corpus: Corpus, candidates: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[float] = []

    def fit(self: NearestNeighbours, *args: Any) -> None:
        ends.append((end_of_training() or 0) - time.monotonic())
        knn(self, *args)

    knn = NearestNeighbours._fit
    monkeypatch.setattr(NearestNeighbours, "_fit", fit)
    network = Candidate("network", "knn", lambda _: 100.0, network=True, least=0.1, trainings=lambda _: 2)
    candidates(PRIOR, network)
    auto = Auto(budget="50s").fit(corpus)
    assert len(ends) == 1, "not tried on a few documents before, nor trained again"
    assert 12 < ends[0] < 25
    assert auto.members_[0].train_documents_ == 240


def test_goes_on_after_a_kill(
    corpus: Corpus, candidates: Chosen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates(KNN, ROCCHIO)
    monkeypatch.setattr(module, "WORTH_KEEPING", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(Rocchio, "_fit", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            Auto(budget="1m").fit(corpus, checkpoints=tmp_path / "pieces")
    fits: list[int] = []
    fit = NearestNeighbours._fit

    def noticed(self: NearestNeighbours, corpus: Corpus, *args: Any) -> None:
        fits.append(len(corpus))
        fit(self, corpus, *args)

    monkeypatch.setattr(NearestNeighbours, "_fit", noticed)
    auto = Auto(budget="1m").fit(corpus, checkpoints=tmp_path / "pieces")
    assert 240 not in fits
    assert notes(auto)["knn"] == "found as an earlier run left it"


def test_too_few_documents_to_hold_any_out(candidates: Chosen) -> None:
    candidates(KNN, ROCCHIO)
    auto = Auto(budget="1m").fit(Corpus.of(["red apple", "blue sky"] * 5, [["fruit"], ["weather"]] * 5))
    assert auto.names_ == ["knn"]
    assert auto.report_["nDCG@5"] is None


def test_features_instead_of_texts(corpus: Corpus) -> None:
    assert corpus.texts is not None
    words = np.random.default_rng(0).random((len(corpus), 8)).astype(np.float32)
    numbers = replace(corpus, texts=None, features=csr_array(words))
    auto = Auto(budget="1m", methods=["knn", "names", "fasttext"]).fit(numbers)
    assert notes(auto)["names"] == notes(auto)["fasttext"] == "not tried: needs texts"


def test_same_seed_same_model(corpus: Corpus) -> None:
    one, two = (Auto(methods=["knn", "rocchio"], seed=4).fit(corpus).predict(corpus) for _ in range(2))
    np.testing.assert_array_equal(one.scores, two.scores)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": "soon"}, "'soon' is no duration"),
        ({"methods": ["svm"]}, "no method 'svm'"),
        ({"methods": []}, "methods"),
    ],
)
def test_impossible_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Auto(**settings)


def test_every_candidate_fits_the_code() -> None:
    small = Facts(1000, 100, 2.0, 50.0, texts=True, hierarchy=True, named=0.5)
    large = Facts(1_000_000, 500_000, 5.0, 200.0, texts=True, hierarchy=False, named=0.0)
    assert len({candidate.name for candidate in CANDIDATES}) == len(CANDIDATES)
    for candidate in CANDIDATES:
        assert candidate.model in CATALOGUE
        model = model_class(candidate.model)(**candidate.settings)
        assert candidate.seconds(small) <= candidate.seconds(large)
        assert candidate.refusal(small) == ""
        assert candidate.trainings(small) >= 1
        assert 0 < candidate.least <= 1
        if "text" not in "".join(model.capabilities.input) or "features" not in model.capabilities.input:
            assert candidate.refusal(replace(small, texts=False)) == "needs texts"


def test_facts() -> None:
    texts = ["red apple pie", "blue sky", "nothing"]
    facts = Facts.of(Corpus.of(texts, [["apple pie", "food"], ["sky"], []]))
    assert (facts.documents, facts.labels, facts.labels_a_document) == (3, 3, 1.0)
    assert facts.named == pytest.approx(2 / 3)
    assert "67% of the labels are called by their names" in str(facts)
