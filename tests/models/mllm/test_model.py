"""`mllm`: candidates' features, what is learned of them, labels without documents, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from altered_folders import renew_checksum
from scipy.special import expit

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.errors import BadModelFolder, ConfigError, MissingExtra
from xmtc.models.mllm.binned_logistic import BinnedLogistic
from xmtc.models.mllm.candidates import FEATURES, Candidates, LabelFacts
from xmtc.models.mllm.matching import Terms
from xmtc.models.mllm.model import Mllm

TOPICS = ["trade policy", "fish", "weather", "energy", "railways"]
LABELS = LabelSet.of([*"tfwer", "n"], names=[*TOPICS, "night sky"])
RNG = np.random.default_rng(0)


def made(documents: int) -> Corpus:
    """Each document names two topics; the one that stands first is right."""
    texts, labels = [], []
    for _ in range(documents):
        first, second = RNG.permutation(len(TOPICS))[:2]
        texts.append(f"On {TOPICS[first]} in our time. Some words lie between it and {TOPICS[second]}, as always.")
        labels.append(["tfwer"[first]])
    return Corpus.of(texts, labels, LABELS)


@pytest.fixture(scope="module")
def model() -> Mllm:
    return Mllm(languages=[]).fit(made(200))


def test_it_learns_that_the_first_name_is_the_right_one(model: Mllm) -> None:
    assert xmtc.evaluate(model, made(100)).values["P@1"] > 95


def test_a_label_without_documents_is_found_by_its_name(model: Mllm) -> None:
    assert model.predict(["On the night sky above us"], k=1).names()[0][0][0] == "night sky"


def test_scores_are_probabilities_that_hold_on_the_whole(model: Mllm) -> None:
    new = made(300)
    top = model.predict(new, k=5)
    listed = top.ids >= 0
    relevant = np.array([[at in new.labels_of(row) for at in ids] for row, ids in enumerate(top.ids.tolist())])
    assert abs(top.scores[listed].mean() - relevant[listed].mean()) < 0.05


def test_a_text_that_names_no_label_gets_none(model: Mllm) -> None:
    assert model.predict(["nothing of the kind", ""], k=3).names() == [[], []]


def test_explanation_marks_the_names(model: Mllm) -> None:
    why = model.explain("On fish: fish and weather.", "fish")
    assert [why.text[start:end] for start, end, _ in why.spans] == ["fish", "fish"]
    assert why.score == pytest.approx(dict(model.predict([why.text], k=5).names()[0])["fish"], abs=1e-4)
    assert "stands in" in why.evidence[0]
    assert "none of the label's names" in model.explain("On fish", "railways").evidence[0]


def test_features_are_what_they_are_called() -> None:
    text = "Fish and trade policy for trade, fish"
    found = Candidates.of(Terms(LABELS, [None], compounds=False).matches(Strings.of([text, "fish"])), len(LABELS))
    assert list(zip(found.texts.tolist(), found.labels.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1)]
    facts = LabelFacts(np.array([4, 9, 0, 0, 0, 0]), np.array([1, 3, 0, 0, 0, 0]), np.array([2, 7, 0, 0, 0, 0]))
    values = dict(zip(FEATURES, facts.values(found).T, strict=True))
    np.testing.assert_allclose(np.expm1(values["count"]), [1, 2, 1], atol=1e-6)
    np.testing.assert_allclose(np.exp(values["frequency"]), [1 / 7, 2 / 7, 1], atol=1e-6)
    np.testing.assert_allclose(np.expm1(values["first"]), [2, 0, 0], atol=1e-6)
    np.testing.assert_allclose(np.expm1(values["spread"]), [0, 6, 0], atol=1e-5)
    assert values["words"].tolist() == [2, 1, 1]
    np.testing.assert_allclose(np.expm1(values["candidates"]), [2, 2, 1], atol=1e-6)
    usual = 5 / 15
    np.testing.assert_allclose(
        np.exp(values["precision"]), [(1 + 10 * usual) / 14, (3 + 10 * usual) / 19, (3 + 10 * usual) / 19], atol=1e-6
    )
    # In training a candidate does not count for itself.
    own = dict(zip(FEATURES, facts.values(found, np.array([True, False, True])).T, strict=True))
    np.testing.assert_allclose(
        np.exp(own["precision"]), [10 * usual / 13, (3 + 10 * usual) / 18, (2 + 10 * usual) / 18], atol=1e-6
    )
    np.testing.assert_allclose(np.expm1(own["documents"]), [1, 7, 6], atol=1e-5)


def test_the_regression_is_at_the_minimum_of_its_loss() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(400, 3)).astype(np.float32)
    relevant = values[:, 0] * values[:, 1] + rng.normal(size=400) > 0
    model = BinnedLogistic.fit(values, relevant, ((0, 1),), l2=2.0)
    ranges = model._ranges(values).toarray()
    assert (ranges.sum(axis=1) == 4).all()
    slopes = expit(model.logits(values)) - relevant
    np.testing.assert_allclose(ranges.T @ slopes + 2.0 * model.weights, 0, atol=0.05)
    assert abs(slopes.sum()) < 0.05
    # The pair learns what neither feature alone can tell.
    assert ((model.logits(values) > 0) == relevant).mean() > 0.7


def test_no_name_in_any_text_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    corpus = Corpus.of(["one two", "three"], [["x9"], ["y9"]])
    model = Mllm(languages=[]).fit(corpus)
    assert "no name of a label stands in any text" in capsys.readouterr().err
    assert model.predict(["one two"], k=1).names() == [[]]


@pytest.mark.needs("Stemmer")
def test_languages_are_those_of_the_texts() -> None:
    texts = ["The fish of the sea and the weather of the day", "Der Fisch und das Wetter sind nicht mit der Zeit"]
    assert Mllm().fit(Corpus.of(texts * 20, [["f"], ["w"]] * 20, LABELS)).languages_ == ["de", "en"]


def test_without_stemmers_words_are_compared_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "Stemmer", None)
    corpus = Corpus.of(["The fish of the sea and the weather of the day"] * 20, [["f"]] * 20, LABELS)
    model = Mllm().fit(corpus)
    assert model.languages_ == []
    assert "pip install 'xmtc[stemming]'" in capsys.readouterr().err
    with pytest.raises(MissingExtra, match=r"mllm with stems of de needs Stemmer; .*xmtc\[stemming\]"):
        xmtc.make("mllm", languages=["de"])
    model.save(tmp_path / "tagger")
    assert xmtc.load(tmp_path / "tagger").predict(["fish"], k=1).names()[0][0][0] == "fish"


def test_an_unknown_language_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no stemmer for the language 'xx'; there are: ar, ca"):
        xmtc.make("mllm", languages=["xx"])


@pytest.mark.parametrize("damage", [["xx"], {"de": 1}, "de"])
def test_a_damaged_folder_is_refused(model: Mllm, tmp_path: Path, damage: object) -> None:
    model.save(tmp_path / "tagger")
    (tmp_path / "tagger" / "languages.json").write_text(json.dumps(damage), "utf-8")
    renew_checksum(tmp_path / "tagger", "languages.json")
    with pytest.raises(BadModelFolder, match="languages"):
        xmtc.load(tmp_path / "tagger")
