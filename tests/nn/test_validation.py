"""Which documents are checked with."""

from __future__ import annotations

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.nn.validation import FEWEST, validation_rows


@pytest.mark.parametrize(("documents", "most", "held_out"), [(1000, 50, 50), (1000, 500, 100), (100, 500, 10)])
def test_some_documents_are_held_out_of_what_is_learned(documents: int, most: int, held_out: int) -> None:
    train, check = validation_rows(documents, None, most, seed=0)
    assert len(check) == held_out
    assert sorted([*train, *check]) == list(range(documents))
    assert train.tolist() == sorted(train)
    assert check.tolist() == sorted(check)


@pytest.mark.parametrize(("documents", "most"), [(10 * FEWEST - 1, 500), (1, 500), (1000, 0), (1000, FEWEST - 1)])
def test_too_few_are_not_held_out_at_all(documents: int, most: int) -> None:
    train, check = validation_rows(documents, None, most, seed=0)
    assert train.tolist() == list(range(documents))
    assert len(check) == 0


@pytest.mark.parametrize(("most", "drawn"), [(3, 3), (8, 8), (99, 8), (0, 0)])
def test_given_documents_are_drawn_from_and_all_others_learned(most: int, drawn: int) -> None:
    valid = Corpus.of(["text"] * 8, [["label"]] * 8)
    train, check = validation_rows(200, valid, most, seed=0)
    assert train.tolist() == list(range(200))
    assert len(check) == drawn
    assert check.tolist() == sorted(set(check.tolist()) & set(range(8)))


def test_the_seed_draws() -> None:
    one, same, other = (validation_rows(1000, None, 50, seed)[1] for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
