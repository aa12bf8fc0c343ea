"""Batches: every document once, similar lengths together, padding, and tensors that can be split by documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from torch import Tensor

from xmtc.corpus.labels import Csr
from xmtc.nn import batching as module
from xmtc.nn.batching import Batch, Entries, Ints, bucketed, by_length, by_tokens, epoch_batches, padded
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


@given(LENGTHS, st.integers(1, 60), st.one_of(st.none(), BATCH))
def test_for_prediction_by_tokens_no_batch_has_too_many(lengths: Ints, most: int, documents: int | None) -> None:
    parts = by_tokens(lengths, most, documents)
    assert [int(document) for part in parts for document in part] == np.argsort(-lengths, kind="stable").tolist()
    for part in parts:
        assert 1 <= len(part) <= (documents or len(lengths))
        assert len(part) == 1 or len(part) * lengths[part].max() <= most


@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=6), min_size=1, max_size=8), st.data())
def test_documents_are_padded_on_the_right(documents: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(documents) - 1), min_size=1))
    ids, lengths = padded(TokenStore.of(documents), np.array(chosen))
    longest = max(len(documents[at]) for at in chosen)
    assert ids.tolist() == [documents[at] + [0] * (longest - len(documents[at])) for at in chosen]
    assert lengths.tolist() == [len(documents[at]) for at in chosen]


@dataclass(frozen=True)
class Inner(Batch):
    ids: Tensor
    longest: int


@dataclass(frozen=True)
class Outer(Batch):
    """All that a batch may have."""

    shared: ClassVar[frozenset[str]] = frozenset({"candidates"})

    inner: Inner
    entries: Entries
    targets: Tensor
    candidates: Tensor
    missing: Tensor | None = None


@st.composite
def matrices(draw: st.DrawFn) -> Csr:
    """Sparse rows, some of them empty."""
    rows = draw(st.lists(st.lists(st.integers(0, 4), unique=True, max_size=5).map(sorted), max_size=9))
    indices = np.array([column for row in rows for column in row], np.int32)
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return csr_array((np.arange(1.0, len(indices) + 1, dtype=np.float32), indices, indptr), shape=(len(rows), 5))


def assert_entries_of(found: Entries, matrix: Csr) -> None:
    expected = matrix.tocoo()
    assert found.rows.tolist() == expected.coords[0].tolist()
    assert found.columns.tolist() == expected.coords[1].tolist()
    assert found.values.tolist() == expected.data.tolist()
    assert found.lengths.tolist() == np.diff(matrix.indptr).tolist()
    assert found.starts.tolist() == matrix.indptr[:-1].tolist()
    assert found.count == matrix.shape[0]
    assert {each.dtype for each in (found.rows, found.columns, found.lengths)} == {torch.int64}
    assert found.values.dtype == torch.float32


@given(matrices(), st.data())
def test_a_part_of_the_entries_is_a_part_of_the_matrix(matrix: Csr, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, matrix.shape[0]))
    end = data.draw(st.integers(start, matrix.shape[0]))
    entries = Entries.of(matrix)
    assert_entries_of(entries, matrix)
    part = entries.part(slice(start, end))
    assert_entries_of(part, matrix[start:end])
    middle = data.draw(st.integers(0, end - start))
    assert_entries_of(part.part(slice(middle, end - start)), matrix[start + middle : end])


def some_batch(matrix: Csr) -> Outer:
    count = matrix.shape[0]
    ids, targets = torch.arange(count * 2).view(count, 2), torch.arange(count) / 10
    return Outer(Inner(ids, longest=2), Entries.of(matrix), targets, candidates=torch.arange(50))


@given(matrices(), st.data())
def test_a_part_of_a_batch_has_its_documents_and_what_is_shared(matrix: Csr, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, matrix.shape[0]))
    end = data.draw(st.integers(start, matrix.shape[0]))
    whole = some_batch(matrix)
    part = whole.part(slice(start, end))
    assert torch.equal(part.inner.ids, whole.inner.ids[start:end])
    assert torch.equal(part.targets, whole.targets[start:end])
    assert_entries_of(part.entries, matrix[start:end])
    assert part.candidates is whole.candidates
    assert (part.inner.longest, part.missing) == (2, None)


def test_a_part_of_a_batch_is_not_copied() -> None:
    whole = some_batch(csr_array(np.eye(5, dtype=np.float32)))
    part = whole.part(slice(2, 4))
    assert part.inner.ids.data_ptr() == whole.inner.ids[2:].data_ptr()
    assert part.entries.values.data_ptr() == whole.entries.values[2:].data_ptr()
    assert whole.to(torch.device("cpu")).targets is whole.targets


def test_all_tensors_of_a_batch_go_to_a_device() -> None:
    batch = some_batch(csr_array(np.eye(5, dtype=np.float32))).to(torch.device("meta"))
    tensors = [batch.inner.ids, batch.targets, batch.candidates, batch.entries.rows, batch.entries.columns]
    assert {each.device.type for each in [*tensors, batch.entries.values, batch.entries.lengths]} == {"meta"}
    assert (batch.inner.longest, batch.missing, batch.entries.count) == (2, None, 5)


def test_random_batches_do_not_look_at_lengths() -> None:
    """The same whatever the lengths, and every document once."""
    lengths = np.random.default_rng(0).integers(1, 500, 200)
    one, other = (epoch_batches(each, 8, 3, 1, random=True) for each in (lengths, lengths[::-1].copy()))
    assert sorted(np.concatenate(one).tolist()) == list(range(200))
    assert [sorted(part.tolist()) for part in one] == [sorted(part.tolist()) for part in other]
    assert np.mean([np.ptp(lengths[part]) for part in one]) > 300
