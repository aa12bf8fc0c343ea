"""Head, middle and tail; deciles; propensities."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.labelspace.frequency_bands import frequency_bands, frequency_deciles
from xmtc.labelspace.propensity import PROPENSITIES, Propensity

counted = st.lists(st.integers(0, 50), min_size=1, max_size=60).map(lambda counts: np.array(counts))


@given(counted, st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(lambda cuts: (min(cuts), max(cuts))))
def test_bands_follow_the_rule(counts: np.typing.NDArray[np.int64], cuts: tuple[float, float]) -> None:
    bands = frequency_bands(counts, cuts).of_label
    total = counts.sum()
    for count, band in zip(counts, bands, strict=True):
        if not count:
            assert band == 2
            continue
        share = counts[counts > count].sum() / total
        if min(abs(share - cut) for cut in cuts) > 1e-9:
            assert band == (0 if share < cuts[0] else 1 if share < cuts[1] else 2)


def test_cuts_must_rise() -> None:
    with pytest.raises(ValueError, match="must rise"):
        frequency_bands(np.array([1]), (0.5, 0.2))


@given(counted)
def test_deciles_are_even_and_fall(counts: np.typing.NDArray[np.int64]) -> None:
    deciles = frequency_deciles(counts).of_label
    assert np.array_equal(deciles == 10, counts == 0)
    sizes = np.bincount(deciles[counts > 0], minlength=10)
    assert sizes.max() - sizes.min() <= 1
    order = np.argsort(deciles, kind="stable")
    lows = [counts[order][deciles[order] == decile] for decile in range(10)]
    filled = [group for group in lows if len(group)]
    for more, less in itertools.pairwise(filled):
        assert more.min() >= less.max()


def test_propensity_formula() -> None:
    inverse = Propensity(0.6, 2.6).inverse(np.array([0, 7]), 1000)
    c = (math.log(1000) - 1) * 3.6**0.6
    assert inverse.tolist() == pytest.approx([1 + c * 2.6**-0.6, 1 + c * 9.6**-0.6])


def test_propensity_table() -> None:
    assert (PROPENSITIES["default"].a, PROPENSITIES["default"].b) == (0.55, 1.5)
    assert PROPENSITIES["amazon"] == Propensity(0.6, 2.6)
    assert PROPENSITIES["wikipedia"] == Propensity(0.5, 0.4)


def test_propensity_of_tiny_corpora_is_never_below_one() -> None:
    assert Propensity().inverse(np.array([0, 1]), 1).tolist() == [1, 1]
    with pytest.raises(ValueError, match="at least one"):
        Propensity().inverse(np.array([0]), 0)
