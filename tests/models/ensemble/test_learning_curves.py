"""Samples that fit the time, and what a curve on them foretells."""

from __future__ import annotations

import numpy as np
import pytest
from contract_corpus import small_corpus

from xmtc.models.ensemble import learning_curves as module
from xmtc.models.ensemble.learning_curves import Curve, sample_for
from xmtc.models.ensemble.search_space import Candidate, Facts

FACTS = Facts(1000, 100, 2.0, 50.0, texts=True, hierarchy=False, named=0.0)
SLOW = Candidate("slow", "knn", lambda facts: facts.documents / 100)


def test_the_largest_sample_that_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEWEST", 20)
    corpus = small_corpus(400, seed=0)
    found = sample_for(corpus, [SLOW], seconds=10.0, speed=1.0, seed=0)
    assert found is not None
    sample, half, facts = found
    assert (len(sample), len(half), facts.documents) == (50, 25, 50)
    assert set(half.texts or ()) <= set(sample.texts or ())
    shorter = sample_for(corpus, [SLOW], seconds=1.5, speed=4.0, seed=0)
    assert shorter is not None
    assert len(shorter[0]) == 25, "25 and 12 documents take 4 x 0.37 seconds"
    assert sample_for(corpus, [SLOW], seconds=1.4, speed=4.0, seed=0) is None


def test_time_grows_as_the_formula_says() -> None:
    curve = Curve(FACTS, seconds=3.0, half_ndcg=0.1, ndcg=0.2)
    larger = Facts(8000, 100, 2.0, 50.0, texts=True, hierarchy=False, named=0.0)
    assert curve.seconds_for(SLOW, larger) == pytest.approx(24.0)


def test_a_steep_curve_overtakes_a_flat_one() -> None:
    flat, steep = Curve(FACTS, 1.0, half_ndcg=0.40, ndcg=0.41), Curve(FACTS, 1.0, half_ndcg=0.25, ndcg=0.32)
    assert flat.promise(2000) > steep.promise(2000)
    assert flat.promise(16_000) < steep.promise(16_000)
    assert Curve(FACTS, 1.0, half_ndcg=0.5, ndcg=0.4).promise(8000) == 0.4, "it was luck, and does not fall further"
    assert steep.promise(1 << 40) == 1.0
    assert np.isclose(flat.promise(1000), 0.41)
