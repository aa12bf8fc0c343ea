"""The string column: any text survives, and views do not copy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus.strings import Strings, StringsBuilder

texts = st.lists(st.text(), max_size=12)


@given(texts)
def test_round_trip(items: list[str]) -> None:
    column = Strings.of(items)
    assert list(column) == items
    assert [column[i] for i in range(len(column))] == items
    assert [column.utf8(i).decode() for i in range(len(column))] == items
    assert column.lengths.tolist() == [len(item.encode()) for item in items]
    assert column.nbytes == sum(len(item.encode()) for item in items)
    assert Strings.of(column) is column


@given(texts, st.slices(12))
def test_slices_are_views(items: list[str], rows: slice) -> None:
    column = Strings.of(items)
    part = column[rows]
    assert list(part) == items[rows]
    assert part.buffer is column.buffer


@given(texts.filter(len), st.data())
def test_index_arrays_and_masks_are_views(items: list[str], data: st.DataObject) -> None:
    column = Strings.of(items)
    rows = data.draw(st.lists(st.integers(-len(items), len(items) - 1)))
    chosen = column[np.array(rows, np.int64)]
    assert list(chosen) == [items[row] for row in rows]
    assert chosen.buffer is column.buffer
    assert list(column[rows]) == [items[row] for row in rows]
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items))), bool)
    assert list(column[mask]) == [item for item, keep in zip(items, mask, strict=True) if keep]


@given(texts, st.permutations(range(12)), st.slices(12))
def test_compact_holds_just_these_strings(items: list[str], order: list[int], rows: slice) -> None:
    column = Strings.of(items)
    shuffled = [row for row in order if row < len(items)]
    for part in (column, column[rows], column[shuffled], column[shuffled][rows]):
        buffer, offsets = part.compact()
        assert len(buffer) == offsets[-1] == part.nbytes
        assert Strings.from_offsets(buffer, offsets) == part


def test_compact_does_not_copy_a_contiguous_part() -> None:
    column = Strings.of(["one", "two", "three", "four"])
    buffer, _ = column[1:3].compact()
    assert buffer.tobytes() == b"twothree"
    assert np.shares_memory(buffer, column.buffer)


def test_equality_is_by_value() -> None:
    column = Strings.of(["a", "b"])
    assert column == Strings.of(["b", "a"])[::-1]
    assert column != Strings.of(["ab", ""])
    assert column != Strings.of(["a"])
    assert column != ["a", "b"]
    with pytest.raises(TypeError):
        hash(column)


def test_single_items() -> None:
    column = Strings.of(["a", "b"])
    assert column[-1] == "b"
    with pytest.raises(IndexError):
        column[2]


def test_lone_surrogates_become_question_marks() -> None:
    assert list(Strings.of(["a\ud800b"])) == ["a?b"]


def test_builder_takes_one_and_many() -> None:
    builder = StringsBuilder()
    builder.append("Löwe")
    builder.extend(["Bär"])
    assert len(builder) == 2
    assert list(builder.build()) == ["Löwe", "Bär"]
    assert repr(builder.build()) == "Strings(2 strings, 9 bytes)"


@pytest.mark.parametrize(
    ("raw", "offsets", "problem"),
    [
        (b"ab", [0, 3], "do not rise from 0 to 2"),
        (b"ab", [0, 2, 1, 2], "do not rise"),
        (b"ab", [1, 2], "do not rise"),
        (b"ab", [0, 1], "do not rise"),
        (b"ab", [-1, 2], "do not rise"),
        (b"ab", [], "do not rise"),
        (b"\xc3", [0, 1], "utf-8"),
        ("ä".encode(), [0, 1, 2], "within a character"),
    ],
)
def test_stored_columns_are_checked(raw: bytes, offsets: list[int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Strings.checked(np.frombuffer(raw, np.uint8), np.array(offsets, np.int64))


def test_stored_columns_have_their_types() -> None:
    good = np.frombuffer(b"ab", np.uint8), np.array([0, 2], np.int64)
    assert list(Strings.checked(*good)) == ["ab"]
    for wrong in ((good[0].astype(np.int8), good[1]), (good[0], good[1].astype(np.int32)), (good[0][None], good[1])):
        with pytest.raises(ValueError, match="bytes and 64-bit offsets"):
            Strings.checked(*wrong)


def test_texts_cannot_be_written_into() -> None:
    column = Strings.of(["abc"])
    with pytest.raises(ValueError, match="read-only"):
        column.buffer[0] = 0


@given(st.lists(st.text(max_size=5), max_size=6), st.lists(st.text(max_size=5), max_size=6))
def test_joined_and_equal(one: list[str], other: list[str]) -> None:
    first, second = Strings.of(one), Strings.of(other)
    one, other = list(first), list(second)  # without lone surrogates
    assert list(Strings.joined([first[::-1], second])) == [*one[::-1], *other]
    assert (first == second) == (one == other)
    assert Strings.of(one[::-1]) == first[::-1]
