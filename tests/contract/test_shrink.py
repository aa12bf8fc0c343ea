"""Every model that declares it can be shrunk: what is written loads, answers almost the same, and stays as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.errors import ConfigError
from xmtc.evaluation.shrinking import shrink
from xmtc.models.base import Model
from xmtc.models.registry import load
from xmtc.packing import WEIGHT_TYPES

QUERIES = ["ship wave captain bread", "bread oven", "東京 大阪 街", ""]


@pytest.fixture
def shrinkable(fitted: Model) -> Model:
    if not fitted.shrinking:
        pytest.skip("declares no weights")
    return fitted


@pytest.mark.parametrize("kind", WEIGHT_TYPES[1:])
def test_rounded_weights_answer_almost_the_same(shrinkable: Model, corpus: Corpus, tmp_path: Path, kind: str) -> None:
    shrinkable.shrunk(kind).save(tmp_path / "small")  # type: ignore[arg-type]
    small = load(tmp_path / "small")
    assert small.weight_type == kind
    own, whole = small.predict(corpus, k=3), shrinkable.predict(corpus, k=3)
    assert np.mean(own.ids[:, 0] == whole.ids[:, 0]) > 0.9
    assert np.isfinite(own.scores).all()
    small.save(tmp_path / "again")  # what is loaded and saved stays as small
    for name in ("small", "again"):
        assert load(tmp_path / name).weight_type == kind
    again = load(tmp_path / "again").predict(QUERIES, k=3)
    np.testing.assert_allclose(again.scores, small.predict(QUERIES, k=3).scores, rtol=1e-3, atol=1e-4)


def test_rounding_changes_no_biases_nor_other_arrays(shrinkable: Model, tmp_path: Path) -> None:
    from xmtc.storage import opening

    shrinkable.save(tmp_path / "whole")
    shrinkable.shrunk("int8").save(tmp_path / "small")
    whole, small = opening(tmp_path / "whole"), opening(tmp_path / "small")
    names = [name.removesuffix(".safetensors") for name in whole.manifest["files"] if name.endswith(".safetensors")]
    changed = 0
    for name in names:
        old, new = whole.arrays(name), small.arrays(name)
        assert old.keys() == new.keys()
        for key, array in old.items():
            assert (new[key].dtype, new[key].shape) == (array.dtype, array.shape)
            if not np.array_equal(new[key], array, equal_nan=array.dtype.kind == "f"):
                changed += 1
                assert array.dtype == np.float32
                assert np.abs(new[key] - array).max() <= np.abs(array).max() / 127
    assert changed


def test_pruned_to_a_small_share_it_still_answers(shrinkable: Model, tmp_path: Path) -> None:
    if "prune" not in shrinkable.shrinking:
        pytest.skip("stores all of its weights")
    whole = shrinkable.predict(QUERIES, k=3)
    shrinkable.shrunk("int8", 0.2).save(tmp_path / "small")
    small = load(tmp_path / "small")
    top = small.predict(QUERIES, k=3)
    assert np.isfinite(top.scores).all()
    assert small.training_["shrunk"]["share"] == pytest.approx(0.2)
    after = shrinkable.predict(QUERIES, k=3)
    np.testing.assert_array_equal(after.scores, whole.scores)  # the model itself is as it was
    if shrinkable.capabilities.explain:
        assert small.explain(QUERIES[0], small.predict(QUERIES, k=1).labels.key(0)).label


def test_the_command_s_function(fitted: Model, corpus: Corpus, tmp_path: Path) -> None:
    if not fitted.shrinking:
        with pytest.raises(ConfigError, match="has no weights that could be pruned or rounded; these methods have: "):
            shrink(fitted, tmp_path / "small", mb=1)
        return
    found = shrink(fitted, tmp_path / "small", mb=100)
    assert found.chosen is found.trials[0]  # it fits, so nothing is changed
    own, whole = found.model.predict(QUERIES, 2), fitted.predict(QUERIES, 2)
    np.testing.assert_allclose(own.scores, whole.scores, rtol=1e-6)
