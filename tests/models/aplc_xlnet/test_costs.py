"""The paper's formulas of size and cost, against counting."""

from __future__ import annotations

import numpy as np
import pytest

from xmtc.errors import ConfigError
from xmtc.models.aplc_xlnet.costs import (
    access_probabilities,
    approximate_batch_cost,
    approximate_parameter_count,
    batch_cost,
    parameter_count,
    tail_widths,
)

AMAZON_670K = [167_522, 167_523, 167_521, 167_525]


def test_parameters_of_a_small_layer() -> None:
    """Width 8, tails of 5 and 6 labels with 4 and 2 numbers; a head of 3 labels and two roots."""
    head, first, second = 8 * (3 + 2), 8 * 4 + 4 * 5, 8 * 2 + 2 * 6
    assert parameter_count([3, 5, 6], width=8, decay=2) == head + first + second


def test_with_many_labels_the_short_formulas_are_close() -> None:
    short, whole = (count(AMAZON_670K, 512, 2) for count in (approximate_parameter_count, parameter_count))
    assert short == 512 * sum(size / 2**at for at, size in enumerate(AMAZON_670K))
    assert short == pytest.approx(whole, rel=0.01)
    access = [0.3, 0.2, 0.1]
    short, whole = (total(AMAZON_670K, access, 512, 2, 32) for total in (approximate_batch_cost, batch_cost))
    assert short == pytest.approx(whole, rel=0.01)
    assert short == 32 * 512 * (167_522 + 0.3 * 167_523 / 2 + 0.2 * 167_521 / 4 + 0.1 * 167_525 / 8)


def test_without_decay_and_with_all_accessed_it_is_a_flat_layer() -> None:
    assert approximate_parameter_count([3, 4, 5], width=8, decay=1) == 8 * 12
    assert approximate_batch_cost([3, 4, 5], [1.0, 1.0], width=8, decay=1, batch=10) == 10 * 8 * 12


@pytest.mark.parametrize("batch", [1, 4])
def test_access_is_how_often_a_batch_has_a_label_of_the_tail(batch: int) -> None:
    frequencies, sizes = np.array([0.5, 0.2, 0.1, 0.05, 0.01]), [1, 2, 2]
    has = np.random.default_rng(0).random((20_000, batch, 5)) < frequencies
    seen = [has[:, :, 1:3].any((1, 2)).mean(), has[:, :, 3:].any((1, 2)).mean()]
    np.testing.assert_allclose(access_probabilities(sizes, frequencies, batch), seen, atol=0.01)


@pytest.mark.parametrize("decay", [0.5, 0, -2, float("nan")])
def test_tails_are_not_wider_than_the_head(decay: float) -> None:
    with pytest.raises(ConfigError, match="decay is"):
        tail_widths(8, 1, decay)


def test_a_tail_without_numbers() -> None:
    with pytest.raises(ConfigError, match="leaves none for tail 3 with decay 3; take fewer clusters"):
        tail_widths(9, 3, 3)
