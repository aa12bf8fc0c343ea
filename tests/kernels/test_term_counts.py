"""The kernels for words: the versions with and without threads agree, and small work takes the latter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from xmtc.corpus.strings import Strings
from xmtc.kernels import term_counts as kernel
from xmtc.kernels import utf8_words
from xmtc.text.word_rules import WordRules

documents = st.lists(st.text(st.sampled_from("ab Zé東 \u0301-"), max_size=30), max_size=70)


def by_both(function: Any, *arguments: Any) -> tuple[NDArray[Any], ...]:
    """What a kernel returns, after checking that its two versions agree to the last bit."""
    parallel, serial = (version(*arguments) for version in function.versions)
    for one, other in zip(parallel, serial, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    answer: tuple[NDArray[Any], ...] = parallel
    return answer


@settings(max_examples=50)
@given(documents, st.sampled_from([(1, 1, False), (1, 3, False), (2, 4, True)]), st.booleans())
def test_threads_make_no_difference(texts: list[str], kind: tuple[int, int, bool], log_tf: bool) -> None:
    column, fold = Strings.of(texts), WordRules().fold_table()
    where = column.buffer, column.starts, column.ends, fold
    by_both(utf8_words.suspects, *where)
    by_both(utf8_words.folded_terms, *where, 1)
    keys, counts, _, _, indptr = by_both(kernel.count_terms, *where, 1, *kind)
    known = np.unique(keys)[::2].copy()
    idf = 1 / np.arange(1.0, 1 + len(known))
    by_both(kernel.weigh, keys, counts, indptr, *kernel.make_table(known), idf, log_tf, True)


@pytest.mark.parametrize(
    ("texts", "small"),
    [
        ([], True),
        (["word " * 100_000], True),  # one text is never shared out
        (["word"] * 32, True),
        (["word " * 1000] * 32, False),
        ([""] * 100_000, False),
    ],
    ids=["none", "one", "short", "long", "many"],
)
def test_what_is_little_text(texts: list[str], small: bool) -> None:
    column = Strings.of(texts)
    assert utf8_words.little_text(column.buffer, column.starts, column.ends) == small
