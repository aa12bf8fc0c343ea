"""Held-out documents of two kinds, how sure they are, and when they prefer a blend."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.models.ensemble.holdout import IN_BLOCKS, ONE_BY_ONE, Holdout, split_holdout


def numbered(documents: int) -> Corpus:
    return Corpus.of(list(map(str, range(documents))), [["a"]] * documents)


def texts_of(corpus: Corpus) -> list[int]:
    assert corpus.texts is not None
    return list(map(int, corpus.texts))


@pytest.mark.parametrize("documents", [50, 333, 6000])
def test_half_of_them_one_by_one_and_half_in_blocks(documents: int) -> None:
    train, holdout = split_holdout(numbered(documents), seed=3)
    assert holdout is not None
    assert sorted(texts_of(train) + texts_of(holdout.corpus)) == list(range(documents))
    single, block = (holdout.kinds[kind] for kind in (ONE_BY_ONE, IN_BLOCKS))
    assert sorted([*single.tolist(), *block.tolist()]) == list(range(len(holdout)))
    assert abs(len(single) - len(block)) <= len(holdout) // 5


def test_runs_are_stretches_of_blocks_and_single_documents() -> None:
    _, holdout = split_holdout(numbered(6000), seed=0)
    assert holdout is not None
    places, inside = np.array(texts_of(holdout.corpus)), set(holdout.kinds[IN_BLOCKS].tolist())
    assert len(set(holdout.run[holdout.kinds[ONE_BY_ONE]].tolist())) == len(holdout.kinds[ONE_BY_ONE])
    for at in range(1, len(holdout)):
        together = {at, at - 1} <= inside and places[at] - places[at - 1] == 1
        assert (holdout.run[at] == holdout.run[at - 1]) == together


def test_too_few_documents() -> None:
    corpus = numbered(40)
    assert split_holdout(corpus, seed=0) == (corpus, None)


def test_another_seed_holds_out_others() -> None:
    (_, one), (_, two), (_, same) = (split_holdout(numbered(1000), seed) for seed in (0, 1, 0))
    assert one is not None
    assert two is not None
    assert same is not None
    assert texts_of(one.corpus) == texts_of(same.corpus) != texts_of(two.corpus)


def holdout_of(runs: NDArray[np.int64], kinds: Mapping[str, NDArray[np.int64]] | None = None) -> Holdout:
    return Holdout(numbered(len(runs)), runs, kinds or {})


def test_the_error_of_independent_documents_is_the_usual_one() -> None:
    values = np.random.default_rng(0).random(500)
    mean = holdout_of(np.arange(500)).mean(values)
    assert mean.mean == pytest.approx(values.mean())
    assert mean.error == pytest.approx(values.std(ddof=1) / np.sqrt(500))
    low, high = mean.interval
    assert low < mean.mean < high


def test_documents_that_vary_together_tell_less() -> None:
    values = np.repeat(np.random.default_rng(0).random(50), 10)
    apart, together = (holdout_of(runs).mean(values) for runs in (np.arange(500), np.arange(500) // 10))
    assert together.error > 2.5 * apart.error


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng, holdout, covered = np.random.default_rng(1), holdout_of(np.arange(200)), 0
    for _ in range(400):
        low, high = holdout.mean((rng.random(200) < 0.3).astype(float)).interval
        covered += low <= 0.3 <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_a_gain_that_may_be_luck_is_not_preferred() -> None:
    rng, holdout = np.random.default_rng(2), holdout_of(np.arange(300))
    lucky = sum(holdout.prefers(rng.normal(0, 0.2, 300)) for _ in range(400))
    assert 0.05 <= lucky / 400 <= 0.15
    assert holdout.prefers(rng.normal(0.05, 0.2, 300))


def test_neither_kind_may_speak_against_a_blend() -> None:
    kinds = {ONE_BY_ONE: np.arange(200), IN_BLOCKS: np.arange(200, 400)}
    noise = np.random.default_rng(3).normal(0, 0.05, 400)
    gain = np.where(np.arange(400) < 200, -0.05, 0.3) + noise
    assert not holdout_of(np.arange(400), kinds).prefers(gain), "it would lose on texts like those drawn one by one"
    assert holdout_of(np.arange(400)).prefers(gain), "which the mean over all does not show"
    assert holdout_of(np.arange(400), kinds).prefers(np.abs(gain))
