"""Documents drawn by their weights, for the epochs of networks and of fastText."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xmtc.corpus.weights import drawn_by_weight


@pytest.mark.parametrize("seed", range(20))
def test_each_document_is_drawn_as_often_as_its_share_rounded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = (rng.random(50) * rng.integers(0, 9, 50)).astype(np.float32)
    for start in (0.0, rng.random(), np.nextafter(1.0, 0.0)):
        times = np.bincount(drawn_by_weight(weights, start), minlength=50)
        share = weights * (50 / weights.sum(dtype=np.float64))
        assert times.sum() == 50
        assert (np.abs(times - share) < 1 + 1e-4).all()
        assert not times[weights == 0].any()


@pytest.mark.parametrize("weight", [1, 0.3, 7e-30, 1e30])
@pytest.mark.parametrize("start", [0.0, 0.5, float(np.nextafter(1.0, 0.0))])
def test_equal_weights_draw_each_once(weight: float, start: float) -> None:
    drawn = drawn_by_weight(np.full(1001, weight, np.float32), start)
    assert len(np.unique(drawn)) >= 1000  # rounding may move one of them at an extreme start
    if start == 0.5:
        assert drawn.tolist() == list(range(1001))


def test_on_average_in_proportion() -> None:
    weights: Any = np.array([1, 2.5, 0.25, 4], np.float32)
    starts = (np.arange(1000) + 0.5) / 1000
    times = sum(np.bincount(drawn_by_weight(weights, start), minlength=4) for start in starts) / 1000
    np.testing.assert_allclose(times, weights / weights.mean(), atol=0.01)
