"""Loops over a document's features for one, two or eight labels side by side, given to LLVM as vectors.

Numba's compiler makes single loads and stores of anything that is written for several labels side by side; these loops
take a third of the time. Weights are (features + 1) x stride, the biases last, all flat.
"""

# ruff: noqa: ARG001, D103 - kernels; what each does stands in its first comment, and an intrinsic has arguments that
# only the code that it generates uses
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xmtc.kernels.csr import CsrArrays

LANES = 8  # labels side by side: a vector of eight floats
UNROLLED = 4  # sums side by side: each addition waits for the one before it in the same sum
LONG = ir.IntType(64)
CACHE_LINE = 16  # numbers of four bytes
INDICES, DATA, FIRST, LAST, WEIGHTS, OTHER = range(6)  # the arguments of both loops


class _Loop:
    """Builds code of a loop over a document's entries and the weights of its features for all lanes."""

    def __init__(self, lanes: int, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.lanes, self.vector = lanes, ir.VectorType(ir.FloatType(), lanes)
        self.context, self.builder, self.signature, self.arguments = context, builder, signature, arguments

    def item(self, at: int, index: Any) -> Any:
        """A pointer to an item of an argument that is an array."""
        array = self.context.make_array(self.signature.args[at])(self.context, self.builder, self.arguments[at])
        return self.builder.gep(array.data, [index])

    def lanes_at(self, at: int, index: Any) -> Any:
        """The same, as a pointer to as many items as there are lanes."""
        return self.builder.bitcast(self.item(at, index), self.vector.as_pointer())

    def feature(self, entry: Any) -> tuple[Any, Any]:
        """Of a document's entry: (pointer to the feature's weights for all lanes, the value as often)."""
        build = self.builder
        index = build.zext(build.load(self.item(INDICES, entry)), LONG)
        where = self.lanes_at(WEIGHTS, build.mul(index, LONG(self.lanes)))
        value = build.load(self.item(DATA, entry))
        one = build.insert_element(ir.Constant(self.vector, ir.Undefined), value, ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return where, build.shuffle_vector(one, one, zeros)

    def plus_product(self, total: Any, a: Any, b: Any) -> Any:
        """Total + a * b, in one instruction where there is one."""
        return self.builder.fadd(total, self.builder.fmul(a, b, flags=("contract",)), flags=("contract",))


def _vector_loop(generate: Any, plain: Any) -> Any:
    """A loop (indices, data, first, last, weights, other) from its generated code; `plain` for when the JIT is off."""
    if numba.config.DISABLE_JIT:
        return plain

    @intrinsic
    def loop(_: Any, indices: Any, data: Any, first: Any, last: Any, weights: Any, other: Any) -> Any:
        return types.void(indices, data, types.int64, types.int64, weights, other), generate

    return loop


def _add_scores(lanes: int) -> Any:
    """A loop: scores[:lanes] += sum over entries of data[entry] * weights[lanes * indices[entry] :][:lanes]."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        loop = _Loop(lanes, context, build, signature, arguments)
        scores = loop.lanes_at(OTHER, LONG(0))
        sums = [cgutils.alloca_once_value(build, ir.Constant(loop.vector, None)) for _ in range(UNROLLED)]
        build.store(build.load(scores, align=4), sums[0])

        def add(entry: Any, total: Any) -> None:
            weights, value = loop.feature(entry)
            build.store(loop.plus_product(build.load(total), value, build.load(weights, align=4)), total)

        first, last, many = arguments[FIRST], arguments[LAST], LONG(UNROLLED)
        whole = build.add(first, build.mul(build.sdiv(build.sub(last, first), many), many))
        with cgutils.for_range_slice(build, first, whole, many) as (entry, _count):
            for at, total in enumerate(sums):
                add(build.add(entry, LONG(at)), total)
        with cgutils.for_range_slice(build, whole, last, LONG(1)) as (entry, _count):
            add(entry, sums[0])
        result = build.load(sums[0])
        for total in sums[1:]:
            result = build.fadd(result, build.load(total))
        build.store(result, scores, align=4)
        return context.get_dummy_value()

    def plain(indices: Any, data: Any, first: int, last: int, weights: Any, scores: Any) -> None:
        rows = weights.reshape(-1, lanes)[indices[first:last]]
        scores[:lanes] += data[first:last] @ rows

    return _vector_loop(generate, plain)


def _add_change(lanes: int) -> Any:
    """A loop: weights[lanes * indices[entry] :][:lanes] += data[entry] * change[:lanes] for all entries."""

    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        loop = _Loop(lanes, context, build, signature, arguments)
        change = build.load(loop.lanes_at(OTHER, LONG(0)), align=4)
        with cgutils.for_range_slice(build, arguments[FIRST], arguments[LAST], LONG(1)) as (entry, _count):
            weights, value = loop.feature(entry)
            build.store(loop.plus_product(build.load(weights, align=4), value, change), weights, align=4)
        return context.get_dummy_value()

    def plain(indices: Any, data: Any, first: int, last: int, weights: Any, change: Any) -> None:
        rows = weights.reshape(-1, lanes)
        rows[indices[first:last]] += data[first:last, None] * change[:lanes]

    return _vector_loop(generate, plain)


@intrinsic
def _prefetch_entries(_: Any, indices: Any, data: Any, first: Any, last: Any) -> Any:
    def generate(context: Any, build: Any, signature: Any, arguments: Any) -> Any:
        loop = _Loop(1, context, build, signature, arguments)
        anything = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [anything, number, number, number])
        fetch = cgutils.get_or_insert_function(build.module, kind, "llvm.prefetch.p0")
        reading, keep, is_data = (number(flag) for flag in (0, 3, 1))
        with cgutils.for_range_slice(build, arguments[FIRST], arguments[LAST], LONG(CACHE_LINE)) as (entry, _count):
            for at in (INDICES, DATA):
                build.call(fetch, [build.bitcast(loop.item(at, entry), anything), reading, keep, is_data])
        return context.get_dummy_value()

    return types.void(indices, data, types.int64, types.int64), generate


_add_scores_1, _add_scores_2, _add_scores_8 = _add_scores(1), _add_scores(2), _add_scores(LANES)
_add_change_1, _add_change_2, _add_change_8 = _add_change(1), _add_change(2), _add_change(LANES)
_prefetch = (lambda *_: None) if numba.config.DISABLE_JIT else _prefetch_entries


@numba.njit(nogil=True)  # cached with the kernel that calls it, as the two below
def prefetch(documents: CsrArrays, row: int) -> None:
    # Have the processor bring a document's entries into its cache while it works on another one.
    indptr, indices, data = documents
    _prefetch(indices, data, indptr[row], indptr[row + 1])


@numba.njit(nogil=True)
def prefetch_first(matrix: CsrArrays, row: int, most: int) -> None:
    # The same of a row's first entries: enough until the processor notices by itself what is read next.
    indptr, indices, data = matrix
    _prefetch(indices, data, np.int64(indptr[row]), np.int64(min(indptr[row + 1], indptr[row] + most)))


@numba.njit(nogil=True)
def score_labels(documents: CsrArrays, row: int, weights: Any, stride: int, scores: Any) -> None:
    # The scores of a document for one, two or eight labels.
    indptr, indices, data = documents
    first, last = indptr[row], indptr[row + 1]
    for lane in range(stride):
        scores[lane] = weights[len(weights) - stride + lane]
    if stride == LANES:
        _add_scores_8(indices, data, first, last, weights, scores)
    elif stride == 2:
        _add_scores_2(indices, data, first, last, weights, scores)
    else:
        _add_scores_1(indices, data, first, last, weights, scores)


@numba.njit(nogil=True)
def add_document(documents: CsrArrays, row: int, weights: Any, stride: int, change: Any, bias_square: Any) -> None:
    # Add a document, times the one, two or eight changes, to the weights.
    indptr, indices, data = documents
    first, last = indptr[row], indptr[row + 1]
    for lane in range(stride):
        weights[len(weights) - stride + lane] += change[lane] * bias_square
    if stride == LANES:
        _add_change_8(indices, data, first, last, weights, change)
    elif stride == 2:
        _add_change_2(indices, data, first, last, weights, change)
    else:
        _add_change_1(indices, data, first, last, weights, change)
