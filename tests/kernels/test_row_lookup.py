"""A document's rows by bitmap and by binary search, against a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.kernels import row_lookup as kernel
from xmtc.kernels.csr import CsrArrays
from xmtc.kernels.row_lookup import WORD, Bitmaps
from xmtc.text.token_store import offsets_of

Array = np.ndarray[Any, Any]
WIDTH = 40 * WORD
NOTHING = Bitmaps(np.zeros(100, np.int64), np.zeros(0, np.uint64))

features_of_a_node: st.SearchStrategy[set[int]] = st.one_of(
    st.sets(st.integers(0, WIDTH - 1), max_size=60),  # few, anywhere: no bitmap or a short one
    st.sets(st.integers(0, 4 * WORD), max_size=60),  # frequent ones
    st.builds(set, st.just(range(WIDTH))),  # all of them
    st.sets(st.integers(0, 5 * WORD), min_size=50, max_size=90).map(lambda few: few | {WIDTH - 1, WIDTH - 40}),  # both
)


def arrays_of(nodes: list[set[int]]) -> tuple[Array, Array]:
    """(node_rows, features) of nodes with these features."""
    return offsets_of(list(map(len, nodes))), np.array([one for node in nodes for one in sorted(node)], np.int32)


def found(nodes: list[set[int]], bitmaps: Bitmaps, node: int, terms: list[int]) -> list[tuple[int, float]]:
    """(row, value) of a document's terms in a node."""
    node_rows, features = arrays_of(nodes)
    data = np.arange(1, len(terms) + 1, dtype=np.float32)
    vectors = CsrArrays(np.array([0, len(terms)], np.int32), np.array(terms, np.int32), data)
    rows, values = np.zeros(len(terms) + 1, np.int64), np.zeros(len(terms) + 1, np.float32)
    hits = kernel.find_rows(node, node_rows, features, bitmaps, vectors, 0, rows, values)
    return list(zip(rows[:hits].tolist(), values[:hits].tolist(), strict=True))


@given(st.lists(features_of_a_node, min_size=1, max_size=4), st.lists(st.integers(0, WIDTH - 1), max_size=30))
def test_rows_are_those_of_a_dictionary(nodes: list[set[int]], terms: list[int]) -> None:
    """Empty nodes, empty documents, terms that no node has, in any order: by bitmaps and without them."""
    node_rows, features = arrays_of(nodes)
    bitmaps = Bitmaps(*kernel.make_bitmaps(node_rows, features))
    assert 8 * len(bitmaps.words) <= kernel.BYTES_A_ROW * len(features), "no larger than what it stands for"
    for node in range(len(nodes)):
        row_of = {one: row for row, one in enumerate(sorted(nodes[node]), int(node_rows[node]))}
        expected = [(row_of[term], at + 1.0) for at, term in enumerate(terms) if term in row_of]
        assert found(nodes, bitmaps, node, terms) == expected
        assert found(nodes, NOTHING, node, terms) == expected, "by binary search alone"


@pytest.mark.parametrize(
    ("node", "words"),
    [(set(), 0), ({WIDTH - 1}, 0), (set(range(WIDTH)), 40), ({*range(64), WIDTH - 1}, 2), ({0, 1}, 1), ({0}, 0)],
)
def test_a_bitmap_ends_where_features_get_rare(node: set[int], words: int) -> None:
    starts, found_words = kernel.make_bitmaps(*arrays_of([node]))
    assert starts.tolist() == [0, words] and len(found_words) == words
