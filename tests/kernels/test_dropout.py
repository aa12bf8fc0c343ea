"""Dropout masks beside the same hash in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from xmtc.kernels.dropout import keep_mask

WORDS = st.integers(0, 2**32 - 1)


def hashed(place: int, seed: int, second_seed: int) -> int:
    code = (place + seed) % 2**32
    code = ((code ^ code >> 17) * 0xED5AD4BB + second_seed) % 2**32
    code = (code ^ code >> 11) * 0xAC4C1B51 % 2**32
    code = (code ^ code >> 15) * 0x31848BAB % 2**32
    return code ^ code >> 14


def mask(seed: int, second_seed: int, start: int, count: int, limit: int, scale: float = 2.0) -> list[float]:
    found = keep_mask(np.uint32(seed), np.uint32(second_seed), start, count, np.uint32(limit), np.float32(scale))
    assert found.dtype == np.float32
    values: list[float] = found.tolist()
    return values


@given(WORDS, WORDS, WORDS, st.integers(0, 70), WORDS, st.floats(1, 50, width=32))
@example(2**32 - 1, 2**32 - 1, 2**32 - 1, 70, 2**31, 2.0)
@example(0, 0, 0, 70, 0, 2.0)
def test_a_place_is_kept_where_its_hash_is_not_below_the_limit(
    seed: int, second_seed: int, start: int, count: int, limit: int, scale: float
) -> None:
    expected = [scale * (hashed(start + at, seed, second_seed) >= limit) for at in range(count)]
    assert mask(seed, second_seed, start, count, limit, scale) == expected


@pytest.mark.parametrize("limit", [2**32 // 10, 2**31, 2**32 // 5 * 4])
@pytest.mark.parametrize("step", [1, 2, 64, 300, 65536])
def test_places_next_to_each_other_have_nothing_to_do_with_each_other(limit: int, step: int) -> None:
    count = 400_000
    dropped = np.array(mask(12345, 678, 0, count, limit)) == 0
    share = limit / 2**32
    assert dropped.mean() == pytest.approx(share, abs=0.004)
    assert (dropped[step:] & dropped[:-step]).mean() == pytest.approx(share**2, abs=0.004)


@pytest.mark.parametrize("seeds", [(1, 0), (0, 1), (2**31, 0), (0, 2**31), (1, 1)])
def test_seeds_that_differ_little_have_nothing_to_do_with_each_other(seeds: tuple[int, int]) -> None:
    one, other = (np.array(mask(*pair, 0, 100_000, 2**31)) == 0 for pair in ((0, 0), seeds))
    assert (one & other).mean() == pytest.approx(0.25, abs=0.01)


def test_with_another_second_seed_a_mask_is_not_that_of_places_further_on() -> None:
    one, other = (np.array(mask(*pair, 0, 100_000, 2**31)) == 0 for pair in ((0, 0), (1, 1)))
    for shift in range(1, 5):
        assert (one[shift:] & other[:-shift]).mean() == pytest.approx(0.25, abs=0.01)
