"""The store of what frozen layers find."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xmtc.errors import XmtcError
from xmtc.nn.encoders import hidden_state_cache as states
from xmtc.nn.encoders.hidden_state_cache import HiddenStateCache


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=9),
    left=st.booleans(),
    in_file=st.booleans(),
    seed=st.integers(0, 99),
)
def test_what_is_put_is_found(lengths: list[int], left: bool, in_file: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.array(lengths)
    vectors = [torch.from_numpy(rng.normal(size=(size, 3))).half().float() for size in lengths]
    store = HiddenStateCache(sizes, 3, in_file)
    for documents in np.array_split(rng.permutation(len(lengths)), 3):
        longest = int(sizes[documents].max(initial=1)) + int(rng.integers(2))  # more padding than is needed
        batch = torch.full((len(documents), longest, 3), 7.0)
        for row, document in enumerate(documents.tolist()):
            size = lengths[document]
            batch[row, longest - size if left else 0 : longest if left else size] = vectors[document]
        store.put(documents, batch, left)
    assert store.lengths.tolist() == lengths
    order = rng.permutation(len(lengths))
    found = store.padded(order, left)
    longest = max(1, max(lengths))
    assert found.shape == (len(lengths), longest, 3)
    assert found.dtype == torch.float16
    found = found.float()
    for row, document in enumerate(order.tolist()):
        size = lengths[document]
        inside = found[row, longest - size :] if left else found[row, :size]
        assert torch.equal(inside, vectors[document])
        assert float(found[row].abs().sum()) == pytest.approx(float(vectors[document].abs().sum()), rel=1e-5)


def test_too_much_for_memory_goes_into_a_file_that_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "available_memory", lambda: 100)
    store = HiddenStateCache(np.array([2, 1]), 30)
    assert store.file is not None
    store.put(np.array([0, 1]), torch.ones(2, 2, 30))
    assert torch.equal(store.values, torch.ones(3, 30, dtype=torch.float16))
    file: Path = store.file
    assert file.stat().st_size == 180
    # Another process opens the same file.
    other: HiddenStateCache = pickle.loads(pickle.dumps(store))
    assert torch.equal(other.values, store.values)
    assert len(pickle.dumps(store)) < 2000
    del store, other
    gc.collect()
    assert not file.exists()


def test_in_memory_it_can_be_handed_over_too() -> None:
    store = HiddenStateCache(np.array([1]), 2)
    store.put(np.array([0]), torch.ones(1, 1, 2))
    assert store.file is None
    other: HiddenStateCache = pickle.loads(pickle.dumps(store))
    assert torch.equal(other.padded(np.array([0])), torch.ones(1, 1, 2, dtype=torch.float16))


def test_no_room_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "available_memory", lambda: 0)

    def full(folder: Any) -> Any:
        return type("Usage", (), {"free": 10})

    monkeypatch.setattr("xmtc.nn.encoders.hidden_state_cache.shutil.disk_usage", full)
    with pytest.raises(XmtcError, match="TMPDIR"):
        HiddenStateCache(np.array([9]), 9)
