"""Batches: every document once, similar lengths together, padding on the right."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.nn import batching as module
from xmtc.nn.batching import Ints, bucketed, by_length, padded
from xmtc.text.token_store import TokenStore

LENGTHS = st.lists(st.integers(1, 30), max_size=60).map(lambda sizes: np.array(sizes, np.int64))
BATCH = st.integers(1, 9)


def assert_each_once(parts: Sequence[Ints], lengths: Ints, batch: int) -> None:
    assert sorted(np.concatenate([*parts, np.zeros(0, np.int64)]).tolist()) == list(range(len(lengths)))
    assert len(parts) == -(-len(lengths) // batch), "as many batches as the training counts on"
    assert sum(len(part) == batch for part in parts) == len(lengths) // batch


@given(LENGTHS, BATCH, st.integers(0, 9), st.sampled_from([1, 2, 50]))
def test_every_document_is_in_one_training_batch(lengths: Ints, batch: int, seed: int, together: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SORTED_TOGETHER", together)
        parts, again = (bucketed(lengths, batch, np.random.default_rng(seed)) for _ in range(2))
    assert_each_once(parts, lengths, batch)
    assert [part.tolist() for part in parts] == [part.tolist() for part in again]


@given(LENGTHS, BATCH, st.integers(0, 9))
def test_documents_of_a_training_batch_are_of_similar_length(lengths: Ints, batch: int, seed: int) -> None:
    parts = bucketed(lengths, batch, np.random.default_rng(seed))  # few enough to be sorted all together
    sizes = sorted(sorted(lengths[part].tolist()) for part in parts)
    assert all(shorter[-1] <= longer[0] for shorter, longer in pairwise(sizes))


def test_training_batches_and_their_order_are_random() -> None:
    lengths = np.repeat(np.arange(1, 11), 10)
    one, other = ([part.tolist() for part in bucketed(lengths, 5, np.random.default_rng(seed))] for seed in (0, 1))
    assert {tuple(sorted(part)) for part in one} != {tuple(sorted(part)) for part in other}
    firsts = [lengths[part[0]] for part in one]
    assert firsts not in (sorted(firsts), sorted(firsts)[::-1])


@given(LENGTHS, BATCH)
def test_for_prediction_the_longest_come_first(lengths: Ints, batch: int) -> None:
    parts = by_length(lengths, batch)
    assert_each_once(parts, lengths, batch)
    in_order = [int(lengths[document]) for part in parts for document in part]
    assert in_order == sorted(in_order, reverse=True)


@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=6), min_size=1, max_size=8), st.data())
def test_documents_are_padded_on_the_right(documents: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(documents) - 1), min_size=1))
    ids, lengths = padded(TokenStore.of(documents), np.array(chosen))
    longest = max(len(documents[at]) for at in chosen)
    assert ids.tolist() == [documents[at] + [0] * (longest - len(documents[at])) for at in chosen]
    assert lengths.tolist() == [len(documents[at]) for at in chosen]
