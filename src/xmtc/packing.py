"""Arrays in less space: how `xmtc.storage` writes the parts of a model.

Whole numbers lose nothing. They are written in blocks, each with as many bits a number as its largest needs, as they
are or as steps from one to the next, whichever is smaller; so are the bits of idf, which rises slowly. Weights, if a
model asks for it, are rounded: to float16 (3 digits), or to int8 with a scale for each row of a table, for each block
of other weights.

A packed array NAME is stored as arrays NAME/..., and the header of the file says how: see `pack` and `unpack`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
WeightType = Literal["float32", "float16", "int8"]
WEIGHT_TYPES: tuple[str, ...] = get_args(WeightType)

SMALL = 4096  # bytes of an array that is not worth packing
WORTH = 0.75  # of its size: what saves less is left as it is, to be memory-mapped
CHUNK = 1 << 20  # numbers that are packed at a time
SCALED = 128  # weights with one scale, where they are no table
SHORT_ROW = 16  # fewer weights are not worth a scale of their own
LARGEST = 127  # of int8
INT64 = 1 << 63  # what an int64 is below
#: As what the bits of an array are packed.
INTEGERS = {"int32": np.int32, "int64": np.int64, "float32": np.int32, "float64": np.int64}


def pack(arrays: Mapping[str, Array], rounded: Collection[str] = (), kind: str = "float32") -> tuple[Any, Any]:
    """(arrays to store, what is to be said in the header about the packed ones); those in `rounded` become `kind`.

    >>> stored, packed = pack({"ends": np.arange(0, 6000, 3)})
    >>> sorted(stored), packed["ends"]["type"], sum(array.nbytes for array in stored.values())
    (['ends/widths', 'ends/words'], 'int64', 528)
    """
    stored: dict[str, Array] = {}
    packed: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        found = _packed(np.ascontiguousarray(array), kind if name in rounded else "float32")
        if found is None:
            stored[name] = array
        else:
            packed[name], parts = found
            stored.update({f"{name}/{part}": content for part, content in parts.items()})
    return stored, packed


def unpack(stored: Mapping[str, Array], packed: Any) -> dict[str, Array]:
    """The inverse of `pack`; a ValueError or KeyError for what no `pack` made. Other arrays are given as they are."""
    found = {name: array for name, array in stored.items() if "/" not in name}
    for name, facts in packed.items():
        shape = tuple(facts["shape"])
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"array {name!r} of the shape {shape}")
        try:
            found[name] = _UNPACK[facts["packing"]](facts, lambda part, name=name: stored[f"{name}/{part}"], shape)
        except MemoryError as error:  # a shape beyond all bounds
            raise ValueError(f"array {name!r} of the shape {shape}") from error
    return found


def header_of(packed: Mapping[str, Any]) -> dict[str, str] | None:
    """The metadata of a safetensors file: one entry, since the library orders several by chance."""
    return {"packed": json.dumps(packed, sort_keys=True)} if packed else None


def _packed(array: Array, kind: str) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """(facts for the header, arrays to store) of one array, or None if it is to stay as it is."""
    shape = list(array.shape)
    if kind != "float32" and array.dtype == np.float32 and array.size and np.isfinite(array).all():
        if kind == "float16" and np.abs(array).max() <= np.finfo(np.float16).max:
            return {"packing": "float16", "shape": shape}, {"half": array.astype(np.float16)}
        if kind == "int8":
            values, scales = round_to_bytes(array)
            return {"packing": "int8", "shape": shape}, {"bytes": values, "scales": scales}
    if array.nbytes <= SMALL:
        return None
    if array.dtype.name not in INTEGERS:
        return None
    bits = array.ravel().view(INTEGERS[array.dtype.name])
    if array.dtype == np.float32 and (bits != bits[0]).any():  # only a column of ones, as of plain targets, is worth it
        return None
    return _packed_integers(array, bits)


def _packed_integers(array: Array, flat: Array) -> tuple[dict[str, Any], dict[str, Array]] | None:
    from xmtc.kernels.bit_packing import WIDEST, pack_bits

    base, most = int(flat.min()), int(flat.max())
    bits = (most - base).bit_length()
    if bits > WIDEST or not _within_words(base, bits):
        return None
    best: dict[str, Array] | None = None
    best_steps = False
    for steps in (False, True):
        chunks = []
        for start in range(0, len(flat), CHUNK):
            before = int(flat[start - 1]) if start else base
            chunks.append(pack_bits(flat[start : start + CHUNK].astype(np.int64), before, base, 2**bits - 1, steps))
        parts = {
            name: np.concatenate(each)
            for name, each in zip(("widths", "words"), zip(*chunks, strict=True), strict=True)
        }
        if best is None or _bytes(parts) < _bytes(best):
            best, best_steps = parts, steps
    if best is None or _bytes(best) > WORTH * array.nbytes:
        return None
    facts = {"packing": "bits", "shape": list(array.shape), "type": array.dtype.name}
    return facts | {"base": base, "bits": bits, "steps": best_steps}, best


def _within_words(base: int, bits: int) -> bool:
    return -INT64 <= base <= INT64 - (1 << bits)


def _bytes(parts: Mapping[str, Array]) -> int:
    return sum(array.nbytes for array in parts.values())


def _unpacked_integers(facts: Mapping[str, Any], part: Any, shape: tuple[int, ...]) -> Array:
    from xmtc.kernels.bit_packing import BLOCK, WIDEST, unpack_bits

    kind, base, bits, steps = INTEGERS[facts["type"]], facts["base"], facts["bits"], facts["steps"]
    widths, words = _array(part("widths"), np.uint8, 1), _array(part("words"), np.int64, 1)
    sound = type(base) is int and type(bits) is int and type(steps) is bool
    if not sound or not 0 <= bits <= WIDEST or not _within_words(base, bits):
        raise ValueError("how its numbers are packed is not known")
    size = math.prod(shape)
    if len(widths) != -(-size // BLOCK) or widths.max(initial=0) > bits:
        raise ValueError(f"{len(widths):,} blocks of numbers do not make {size:,}")
    if len(words) != int(widths.sum(dtype=np.int64)) * (BLOCK // 64):
        raise ValueError(f"{len(words):,} words are not those of its blocks")
    values = np.empty(size, kind)
    unpack_bits(widths, words, base, 2**bits - 1, steps, values)
    found: Array = values.view(facts["type"]).reshape(shape)
    return found


def round_to_bytes(array: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """(a table's rows as int8, the scale of each row); other weights in rows of `SCALED`, the last one filled up.

    >>> values, scales = round_to_bytes(np.array([[1.0, -0.5]], np.float32))
    >>> values.tolist(), (values * scales[:, None]).round(2).tolist()
    ([[127, -64]], [[1.0, -0.5]])
    """
    rows = np.pad(array.ravel(), (0, -array.size % _row_length(array.shape))).reshape(-1, _row_length(array.shape))
    largest = np.maximum(np.abs(rows).max(axis=1, initial=0), np.float32(1e-30))
    scales = (largest / np.float32(LARGEST)).astype(np.float32)
    return np.rint(rows / scales[:, None]).astype(np.int8), scales


def _row_length(shape: tuple[int, ...]) -> int:
    """How many weights share a scale: a row of a table unless it is short."""
    row = math.prod(shape[1:])
    return row if len(shape) > 1 and row >= SHORT_ROW else SCALED


def _from_bytes(_: Mapping[str, Any], part: Any, shape: tuple[int, ...]) -> Array:
    values, scales = _array(part("bytes"), np.int8, 2), _array(part("scales"), np.float32, 1)
    size, length = math.prod(shape), _row_length(shape)
    rows = (-(-size // length), length)
    if values.shape != rows or scales.shape != rows[:1]:
        raise ValueError(f"{values.shape} bytes and {scales.shape} scales do not make an array of {shape}")
    found = values.astype(np.float32)
    found *= scales[:, None]
    return found.ravel()[:size].reshape(shape)


def _from_half(_: Mapping[str, Any], part: Any, shape: tuple[int, ...]) -> Array:
    half: Array = part("half")
    if half.dtype != np.float16 or half.shape != shape:
        raise ValueError(f"{half.dtype} {half.shape} in place of float16 {shape}")
    return half.astype(np.float32)


def _array(array: Array, kind: Any, dimensions: int) -> Array:
    if array.dtype != kind or array.ndim != dimensions:
        raise ValueError(f"a part of a packed array has the type {array.dtype} and the shape {array.shape}")
    return np.require(array, requirements=["C", "A"])


_UNPACK = {"bits": _unpacked_integers, "int8": _from_bytes, "float16": _from_half}
