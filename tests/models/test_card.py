from __future__ import annotations

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from altered_folders import change_manifest
from scipy.sparse import csr_array
from typer.testing import CliRunner

import xmtc
from xmtc.cli.app import app
from xmtc.corpus.corpus import Corpus
from xmtc.models.base import Model
from xmtc.models.card import card_of, escaped
from xmtc.models.registry import CATALOGUE, model_class

TEXTS = ["red apple", "green apple", "blue sky", "grey sky"] * 3
TAGS = [["fruit"], ["fruit"], ["weather"], ["weather"]] * 3
HOSTILE = (
    "x\n---\nlicense: evil\n# Title <script>alert(1)</script> | [go](https://evil.example) `c` *b* www.evil.example"
)


def front_matter(card: str) -> dict[str, Any]:
    start, metadata, _ = re.split("^---$", card, maxsplit=2, flags=re.MULTILINE)
    assert not start
    found: dict[str, Any] = yaml.safe_load(metadata)
    return found


def saved(model: Model, folder: Path, about: dict[str, Any] | None = None) -> str:
    model.save(folder, about)
    return (folder / "README.md").read_text("utf-8")


@pytest.fixture
def fitted() -> Model:
    return xmtc.make("dismec", cost=1.0, tfidf={"min_df": 2, "min_chars": 1}).fit(
        Corpus.of(TEXTS, TAGS, name="docs.csv")
    )


def test_card_says_what_the_model_is_and_how_to_use_it(fitted: Model, tmp_path: Path) -> None:
    card = saved(fitted, tmp_path / "model")
    metadata = front_matter(card)
    assert metadata["library_name"] == "xmtc"
    assert metadata["pipeline_tag"] == "text-classification"
    assert "dismec" in metadata["tags"]
    assert "model-index" not in metadata
    for words in (
        "Babbar, Schölkopf", "12 documents of docs\\.csv", "2 labels", "None were measured", "Only the order",
        "| fruit | 6 |", 'xmtc.load("', "xmtc predict", "no thresholds", "xmtc " + xmtc.__version__,
    ):  # fmt: skip
        assert words in card
    settings = json.loads(card.split("```json\n")[1].split("```")[0])
    assert settings == {"cost": 1.0, "seed": 0, "tfidf.min_df": 2}


def test_figures_are_in_the_card_and_in_its_front_matter_and_survive_loading(fitted: Model, tmp_path: Path) -> None:
    values = {"P@1": 64.125, "nDCG@5": 50.0, "coverage@5": 3.0, "PSP@5": float("nan")}
    card = saved(fitted, tmp_path / "model", {"metrics": {"validation": values}})
    results = front_matter(card)["model-index"][0]["results"]
    assert results[0]["dataset"] == {"type": "custom", "name": "docs.csv", "split": "validation"}
    assert results[0]["metrics"] == [
        {"type": "P@1", "name": "P@1", "value": 64.12},
        {"type": "nDCG@5", "name": "nDCG@5", "value": 50.0},
    ]
    assert "| validation | P\\@1 | 64.12 |" in card
    assert saved(xmtc.load(tmp_path / "model"), tmp_path / "again") == card


def test_figures_of_an_earlier_model_are_forgotten_when_it_learns_more(fitted: Model, tmp_path: Path) -> None:
    saved(fitted, tmp_path / "model", {"metrics": {"validation": {"P@1": 64.0}}})
    more = Corpus.of(["new apple", "new sky"] * 4, [["fruit"], ["weather"]] * 4)
    for change in (Model.partial_fit, Model.calibrate, Model.tune, Model.fit):
        card = saved(change(xmtc.load(tmp_path / "model"), more), tmp_path / "changed")
        assert "None were measured" in card, change
        assert "metrics" not in json.loads((tmp_path / "changed" / "manifest.json").read_text())


def test_calibration_and_thresholds_are_told(fitted: Model, tmp_path: Path) -> None:
    valid = Corpus.of(TEXTS, TAGS)
    card = saved(fitted.calibrate(valid, "platt").tune(valid), tmp_path / "model")
    assert "calibrated probability" in card
    assert "a threshold for each label" in card


def test_the_same_model_has_the_same_card(fitted: Model, tmp_path: Path) -> None:
    again = xmtc.make("dismec", cost=1.0, tfidf={"min_df": 2, "min_chars": 1}).fit(
        Corpus.of(TEXTS, TAGS, name="docs.csv")
    )
    assert saved(fitted, tmp_path / "one") == saved(again, tmp_path / "two")


def test_hostile_names_are_shown_as_they_are_and_change_nothing(tmp_path: Path) -> None:
    corpus = Corpus.of(["one", "two"], [[HOSTILE], ["b\udc80\x1b[31m\u202e"]], name=HOSTILE)
    card = saved(xmtc.make("prior").fit(corpus), tmp_path / "m", {"metrics": {HOSTILE: {"P@1": 1.0}}})
    assert set(front_matter(card)) == {"library_name", "pipeline_tag", "tags", "model-index"}
    assert front_matter(card)["model-index"][0]["results"][0]["dataset"]["split"].startswith("x --- license: evil")
    body = card.split("---\n", 2)[2]
    assert "<script" not in body
    assert "](http" not in body
    assert "https://" not in body
    assert "www.evil" not in body
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", card)
    assert len(re.findall(r"^# ", body, re.MULTILINE)) == 1
    assert all(line.count("|") - line.count("\\|") in (3, 4) for line in body.splitlines() if line.startswith("| x"))


@pytest.mark.parametrize("char", list('\\`*_{}[]()#+.!|~:@$^=/"'))
def test_every_character_with_a_meaning_is_escaped(char: str) -> None:
    assert escaped(f"a{char}b") == f"a\\{char}b"


def test_an_edited_card_does_not_stop_the_model_and_info_says_so(fitted: Model, tmp_path: Path) -> None:
    saved(fitted, tmp_path / "model")
    card = tmp_path / "model" / "README.md"
    card.write_text("mine\n")
    assert xmtc.load(tmp_path / "model").predict(["an apple"], k=1).names()[0][0][0] == "fruit"
    out = CliRunner().invoke(app, ["info", str(tmp_path / "model")]).output
    assert "README.md, which was edited" in out
    card.unlink()
    xmtc.load(tmp_path / "model")


def test_a_folder_without_a_card_loads_as_before(fitted: Model, tmp_path: Path) -> None:
    saved(fitted, tmp_path / "model")
    (tmp_path / "model" / "README.md").unlink()
    change_manifest(tmp_path / "model", lambda manifest: manifest["files"].pop("README.md"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xmtc.load(tmp_path / "model").predict(["an apple"])
        (tmp_path / "model" / "README.md").write_text("a card of my own")
        xmtc.load(tmp_path / "model").predict(["an apple"])
    out = CliRunner().invoke(app, ["info", str(tmp_path / "model")]).output
    assert "all intact\n" in out


def test_a_model_of_features_says_so(tmp_path: Path) -> None:
    corpus = Corpus.of(["", ""], [["a"], ["b"]])
    features = Corpus(corpus.targets, corpus.labels, features=csr_array(np.eye(2, dtype=np.float32)))
    card = saved(xmtc.make("dismec").fit(features), tmp_path / "model")
    assert "* Input: features" in card
    assert "model.predict(corpus, k=5)" in card


def test_an_ensemble_has_one_card(tmp_path: Path) -> None:
    model = xmtc.make("blend", members=["prior", "knn"]).fit(Corpus.of(TEXTS, TAGS))
    card = saved(model, tmp_path / "model")
    assert [file.name for file in (tmp_path / "model").glob("*.md")] == ["README.md"]
    assert '"members"' in card


def test_facts_of_a_hostile_folder_do_not_reach_the_page(fitted: Model, tmp_path: Path) -> None:
    saved(fitted, tmp_path / "model")
    strange = {"input": "<img src=x>", "corpus": {"<b>": 1}, "documents": 3}
    change_manifest(
        tmp_path / "model", lambda manifest: manifest.update(training=strange, metrics={"a": [1], "b": {"P@1": "x"}})
    )
    card = saved(xmtc.load(tmp_path / "model"), tmp_path / "again")
    assert "<img" not in card
    assert "<b>" not in card
    assert "None were measured" in card
    shutil.rmtree(tmp_path / "again")


@pytest.mark.needs("torch")
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_method_that_is_a_papers_cites_it(name: str, fitted: Model) -> None:
    class Pretended(model_class(name)):  # type: ignore[misc]
        __module__ = model_class(name).__module__

    made = Pretended()
    made.labels_, made.training_ = fitted.labels_, fitted.training_
    card = card_of(made, {})
    assert ("* Reference: " in card) == (name not in ("prior", "knn", "auto")), card
