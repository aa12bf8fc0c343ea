"""Trees of labels that fit into one leaf: they are all the same, so one is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.models.bonsai import Bonsai
from xmtc.models.parabel import Parabel
from xmtc.models.registry import load

TEXTS = ["red apple", "green pear", "blue sky", "grey sky", "sour apple", "rain"] * 4
TAGS = [["fruit"], ["fruit", "green"], ["weather"], ["weather", "grey"], ["fruit"], ["weather", "wet"]] * 4


@pytest.fixture
def corpus() -> Corpus:
    return Corpus.of(TEXTS, TAGS)


@pytest.mark.parametrize("kind", [Parabel, Bonsai])
def test_one_tree_is_trained_and_says_why(
    kind: type[Parabel], corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = kind(trees=3).fit(corpus)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "5 labels fit into one leaf" in said
    assert "all 3 trees are the same: one is trained" in said
    assert several.config.trees == 3
    assert len(several.trees_) == 1
    one = kind(trees=1).fit(corpus)
    assert capsys.readouterr().err == ""
    several.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").glob("tree*")) == ["tree0.safetensors"]
    for model in (several, load(tmp_path / "model")):
        assert np.array_equal(model.predict(corpus).ids, one.predict(corpus).ids)
        assert np.array_equal(model.predict(corpus).scores, one.predict(corpus).scores)


def test_predictions_are_those_of_three_such_trees(corpus: Corpus) -> None:
    model = Parabel(trees=3).fit(corpus)
    now = model.predict(corpus)
    model.trees_ *= 3  # as it was before
    before = model.predict(corpus)
    assert np.array_equal(now.ids, before.ids)
    assert np.allclose(now.scores, before.scores, rtol=1e-6)


def test_a_folder_with_all_three_can_be_read(corpus: Corpus, tmp_path: Path) -> None:
    """As an earlier version wrote it."""
    model = Parabel(trees=3).fit(corpus)
    expected = model.predict(corpus)
    model.trees_ *= 3
    model.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(corpus).scores, expected.scores)


def test_its_explanation_speaks_of_one_tree(corpus: Corpus) -> None:
    evidence = Parabel(trees=3).fit(corpus).explain("an apple", "fruit").evidence
    assert evidence[0] == "1 of 1 tree found this label among its best"
    assert evidence[1].startswith("tree 1, 1 decision: ")


@pytest.mark.parametrize("settings", [{"max_leaf": 2}, {"max_leaf": 1}])
def test_labels_that_need_clusters_get_all_trees(settings: dict[str, Any], corpus: Corpus, tmp_path: Path) -> None:
    model = Parabel(trees=3, **settings).fit(corpus)
    assert len(model.trees_) == 3
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert isinstance(loaded, Parabel)
    assert len(loaded.trees_) == 3
