"""Predictions within some labels only, or without some."""

from __future__ import annotations

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError
from xmtc.models import restriction
from xmtc.models.base import Model
from xmtc.models.registry import make


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    rng = np.random.default_rng(0)
    rows = [rng.choice(60, 6, replace=False) for _ in range(120)]
    labels = LabelSet.of([f"l{i}" for i in range(60)], names=[f"name {i // 2}" for i in range(60)])
    return Corpus.of(
        [" ".join(f"w{i}" for i in row) for row in rows], [[f"l{i}" for i in row[:3]] for row in rows], labels
    )


@pytest.fixture(scope="module", params=["dismec", "rocchio", "prior", "knn"])
def model(request: pytest.FixtureRequest, corpus: Corpus) -> Model:
    return make(request.param).fit(corpus)


@pytest.mark.parametrize("k", [1, 4, 100])
def test_the_best_allowed_labels_are_those_of_the_whole_list(
    model: Model, corpus: Corpus, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restriction, "FIRST", 1)  # so that lists must grow
    monkeypatch.setattr(restriction, "ENTRIES", 50)  # and documents are predicted in blocks
    whole = model.predict(corpus[:20], 60)
    for only, exclude in ((["l3", "l40", "name 5"], None), (None, ["l3", "name 7"]), (["name 1", "name 2"], ["l2"])):
        allowed = restriction.allowed_labels(corpus.labels, only, exclude)
        expected = whole.keep(allowed[whole.ids]).top(min(k, int(allowed.sum())))
        found = model.predict(corpus[:20], k, only=only, exclude=exclude)
        assert np.array_equal(found.ids, expected.ids)
        assert np.array_equal(found.scores, expected.scores)
        assert found.kind is whole.kind


def test_calibrated_scores_stay_calibrated(corpus: Corpus) -> None:
    model = make("dismec").fit(corpus[:80]).calibrate(corpus[80:])
    found, whole = model.predict(corpus[:5], 3, only=["l1", "l2", "l3"]), model.predict(corpus[:5], 60)
    assert found.kind is whole.kind
    assert found.scores[0, 0] == pytest.approx(whole.scores[0][whole.ids[0] == found.ids[0, 0]][0], rel=1e-5)


def test_no_documents(model: Model) -> None:
    assert len(model.predict([], 3, only=["l1"])) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"only": ["name 5", "nam 7"]}, "there is no label 'nam 7'; did you mean 'name 7'"),
        ({"exclude": ["zoo"]}, "there is no label 'zoo'"),
        ({"only": []}, "no label is left to predict"),
        ({"only": ["l1"], "exclude": ["l1"]}, "no label is left to predict"),
        ({"exclude": [f"l{i}" for i in range(60)]}, "no label is left to predict"),
        ({"only": "l1"}, "put a single label into a list"),
        ({"exclude": "l1"}, "put a single label into a list"),
    ],
)
def test_labels_that_cannot_be_meant(model: Model, settings: dict[str, list[str]], message: str) -> None:
    with pytest.raises(XmtcError) as caught:
        model.predict(["w1"], 3, **settings)
    assert message in str(caught.value)


def test_no_labels_excluded_is_the_whole_list(model: Model, corpus: Corpus) -> None:
    assert np.array_equal(model.predict(corpus, 5, exclude=[]).ids, model.predict(corpus, 5).ids)
