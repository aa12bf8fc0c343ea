"""Packed arrays: whole numbers come back as they were, weights within their rounding, and nothing damaged is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xmtc import packing
from xmtc.errors import BadModelFolder
from xmtc.packing import pack, round_to_bytes, unpack
from xmtc.storage import FolderWriter, read_arrays

Array = np.ndarray[Any, Any]
INT32 = np.iinfo(np.int32)

#: Numbers as indices are: all sizes, or rising by small steps as within a row of a matrix.
NUMBERS = hnp.arrays(np.int32, st.integers(0, 700), elements=st.integers(INT32.min, INT32.max)) | hnp.arrays(
    np.int64, st.integers(0, 700), elements=st.integers(-3, 300)
).map(np.cumsum)


@pytest.fixture
def everything_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "SMALL", 0)
    monkeypatch.setattr(packing, "WORTH", 100)


def packed_and_back(arrays: dict[str, Array], **options: Any) -> dict[str, Array]:
    stored, packed = pack(arrays, **options)
    assert not options or packed
    return unpack(stored, json.loads(json.dumps(packed)))


@given(values=NUMBERS, chunk=st.sampled_from([128, 256, 1 << 20]))
def test_whole_numbers_come_back(values: Array, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "SMALL", 0)
        patch.setattr(packing, "WORTH", 100)
        patch.setattr(packing, "CHUNK", chunk)
        found = packed_and_back({"x": values})["x"]
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("value", [0, -1, 2**55 - 1, 2**62, -(2**62)])
def test_extreme_numbers_come_back(value: int, everything_is_worth_it: None) -> None:
    for other in (0, value, 7):
        values = np.array([value, other] * 100, np.int64)
        np.testing.assert_array_equal(packed_and_back({"x": values})["x"], values)


def test_a_table_of_numbers_keeps_its_shape(everything_is_worth_it: None) -> None:
    table = np.arange(6, dtype=np.int32).reshape(2, 3)
    np.testing.assert_array_equal(packed_and_back({"x": table})["x"], table)


def test_indices_take_few_bits() -> None:
    rising = np.cumsum(np.random.default_rng(0).integers(0, 8, 100_000)).astype(np.int32)
    stored, _ = pack({"x": rising})
    assert sum(array.nbytes for array in stored.values()) < 0.42 * len(rising)  # bytes, of 4


def test_equal_floats_are_stored_once() -> None:
    ones = np.ones(100_000, np.float32)
    stored, _ = pack({"x": ones})
    assert sum(array.nbytes for array in stored.values()) < 1000
    np.testing.assert_array_equal(packed_and_back({"x": ones})["x"], ones)


def test_slowly_rising_floats_lose_nothing() -> None:
    idf = np.log(40_000 / np.sort(np.random.default_rng(0).zipf(1.5, 50_000).clip(1, 40_000))[::-1]) + 1
    stored, _ = pack({"x": idf})
    assert sum(array.nbytes for array in stored.values()) < 0.3 * idf.nbytes
    found = packed_and_back({"x": idf})["x"]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, idf)


def test_what_does_not_get_smaller_stays_as_it_is() -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, Array] = {
        "floats": rng.random(5000),
        "keys": rng.integers(0, 2**63, 5000).astype(np.uint64),
        "random": rng.integers(INT32.min, INT32.max, 5000, dtype=np.int32),
        "small": np.arange(5),
    }
    assert pack(arrays) == (arrays, {})


WEIGHTS = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=40),
    elements=st.floats(-60000, 60000, width=32),
)


@given(WEIGHTS)
def test_int8_is_within_half_a_step_of_its_row(weights: Array) -> None:
    found = packed_and_back({"x": weights}, rounded=["x"], kind="int8")["x"]
    assert found.dtype == np.float32
    rows, scales = round_to_bytes(weights)
    each = np.repeat(scales, rows.shape[1])[: weights.size].reshape(weights.shape)
    assert np.all(np.abs(found - weights) <= each * 0.5001)
    again = packed_and_back({"x": found}, rounded=["x"], kind="int8")["x"]
    np.testing.assert_allclose(again, found, rtol=1e-6)  # rounding what is rounded changes nothing


@given(WEIGHTS)
def test_float16_is_numpys(weights: Array) -> None:
    found = packed_and_back({"x": weights}, rounded=["x"], kind="float16")["x"]
    np.testing.assert_array_equal(found, weights.astype(np.float16).astype(np.float32))


def test_only_weights_are_rounded() -> None:
    arrays = {"weights": np.full(3, 0.1, np.float32), "biases": np.full(3, 0.1, np.float32)}
    found = packed_and_back(arrays, rounded=["weights"], kind="float16")
    np.testing.assert_array_equal(found["biases"], arrays["biases"])
    assert found["weights"][0] != arrays["weights"][0]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["int8", "float16"])
def test_numbers_that_are_not_finite_are_not_rounded(value: float, kind: str) -> None:
    weights = np.array([1, value], np.float32)
    assert pack({"x": weights}, ["x"], kind)[1] == {}


def test_weights_too_large_for_float16_are_not_rounded() -> None:
    assert pack({"x": np.array([1e6], np.float32)}, ["x"], "float16")[1] == {}


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_no_weights(kind: str) -> None:
    for shape in ((0,), (0, 3), (3, 0)):
        arrays = {"x": np.zeros(shape, np.float32)}
        assert unpack(*pack(arrays, ["x"], kind))["x"].shape == shape


ARRAYS: dict[str, Array] = {
    "ends": np.cumsum(np.arange(2000) % 9),
    "weights": np.linspace(-1, 1, 2000, dtype=np.float32),
    "table": np.ones((20, 100), np.float32),
}

WRONG: dict[str, Callable[[dict[str, Array], dict[str, Any]], Any]] = {
    "no words": lambda stored, packed: stored.pop("ends/words"),
    "fewer words": lambda stored, packed: stored.update({"ends/words": stored["ends/words"][:-1]}),
    "words of another type": lambda stored, packed: stored.update({"ends/words": stored["ends/words"].view(np.int32)}),
    "wider blocks": lambda stored, packed: stored.update({"ends/widths": stored["ends/widths"] + np.uint8(200)}),
    "fewer blocks": lambda stored, packed: stored.update({"ends/widths": stored["ends/widths"][1:]}),
    "a larger shape": lambda stored, packed: packed["ends"].update(shape=[10**9]),
    "a shape beyond all bounds": lambda stored, packed: packed["ends"].update(shape=[2**40, 2**40]),
    "a negative shape": lambda stored, packed: packed["ends"].update(shape=[-5, -400]),
    "no shape": lambda stored, packed: packed["ends"].pop("shape"),
    "an unknown packing": lambda stored, packed: packed["ends"].update(packing="zip"),
    "an unknown type": lambda stored, packed: packed["ends"].update(type="float16"),
    "too many bits": lambda stored, packed: packed["ends"].update(bits=64),
    "bits that are text": lambda stored, packed: packed["ends"].update(bits="3"),
    "a base beyond all bounds": lambda stored, packed: packed["ends"].update(base=2**63 - 1),
    "steps that are text": lambda stored, packed: packed["ends"].update(steps="yes"),
    "fewer bytes": lambda stored, packed: stored.update({"weights/bytes": stored["weights/bytes"][1:]}),
    "fewer scales": lambda stored, packed: stored.update({"table/scales": stored["table/scales"][1:]}),
    "a shape that is no list": lambda stored, packed: packed["table"].update(shape="20"),
    "facts that are no object": lambda stored, packed: packed.update(table=3),
}


@pytest.mark.parametrize("what", WRONG)
def test_damaged_packed_arrays_are_an_error(what: str, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    stored, packed = pack(ARRAYS, ["weights", "table"], "int8")
    WRONG[what](stored, packed)
    file = tmp_path / "part.safetensors"
    save_file({key: np.ascontiguousarray(array) for key, array in stored.items()}, file, packing.header_of(packed))
    with pytest.raises(BadModelFolder, match=r"part\.safetensors: a packed array is damaged: .*restore it from a copy"):
        read_arrays(file)


@given(seed=st.integers(0, 2**32 - 1))
def test_any_words_are_read_without_harm(seed: int) -> None:
    """What no check finds gives other numbers, of the right size and type: checksums are for that."""
    rng = np.random.default_rng(seed)
    stored, packed = pack(ARRAYS)
    words = stored["ends/words"]
    stored["ends/words"] = rng.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max, words.shape)
    found = unpack(stored, packed)["ends"]
    assert found.shape == ARRAYS["ends"].shape and found.dtype == np.int64


@pytest.mark.parametrize("metadata", [{"packed": "{"}, {"packed": "[1]"}, {"packed": '{"x": {}}'}, {"packed": "3"}])
def test_odd_headers(metadata: dict[str, str], tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(3)}, tmp_path / "part.safetensors", metadata)
    with pytest.raises(BadModelFolder):
        read_arrays(tmp_path / "part.safetensors")


def test_foreign_metadata_do_not_matter(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(3)}, tmp_path / "part.safetensors", {"format": "pt"})
    assert read_arrays(tmp_path / "part.safetensors")["a"].tolist() == [0, 0, 0]


def test_the_same_arrays_make_the_same_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        FolderWriter(tmp_path, weight_type="int8").arrays(name, ARRAYS, ["weights", "table"])
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
