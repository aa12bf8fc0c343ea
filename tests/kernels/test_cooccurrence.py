"""Pairs of words against a naive count."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmtc.kernels.cooccurrence import merge_pairs, pair_codes
from xmtc.text.token_store import TokenStore

WORDS, SPECIAL = 7, 2


def naive(documents: list[list[int]], window: int, contexts: int) -> dict[int, float]:
    weights: Counter[int] = Counter()
    for document in documents:
        for i, one in enumerate(document):
            for j, other in enumerate(document):
                if i < j <= i + window and min(one, other) >= SPECIAL and min(one, other) < contexts:
                    weights[max(one, other) * WORDS + min(one, other)] += 1 / (j - i)  # type: ignore[assignment]
    return dict(sorted(weights.items()))


@settings(max_examples=100)
@given(
    st.lists(st.lists(st.integers(0, WORDS - 1), max_size=12), max_size=5),
    st.integers(1, 6),
    st.integers(SPECIAL, WORDS),
    st.integers(1, 20),
)
def test_blocks_add_up_to_a_naive_count(documents: list[list[int]], window: int, contexts: int, block: int) -> None:
    store = TokenStore.of(documents)
    pairs, weights = np.zeros(0, np.int64), np.zeros(0, np.float32)
    for start in range(0, len(store.ids), block):
        stop = min(start + block, len(store.ids))
        codes = pair_codes(store.ids, store.offsets, start, stop, window, SPECIAL, WORDS, contexts)
        pairs, weights = merge_pairs(pairs, weights, np.sort(codes), window)
    expected = naive(documents, window, contexts)
    assert pairs.tolist() == list(expected)
    assert weights.tolist() == pytest.approx(list(expected.values()), rel=1e-5)


def test_largest_vocabulary_fits_a_code() -> None:
    words, last = 500_000, 499_999
    store = TokenStore.of([[last, 5, last - 1]])
    codes = pair_codes(store.ids, store.offsets, 0, 3, 10, SPECIAL, words, words)
    pairs, weights = merge_pairs(np.zeros(0, np.int64), np.zeros(0, np.float32), np.sort(codes), 10)
    assert [divmod(pair, words) for pair in pairs.tolist()] == [(last - 1, 5), (last, 5), (last, last - 1)]
    assert weights.tolist() == [1, 1, 0.5]
