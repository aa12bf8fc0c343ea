"""Label noise: how many labels change, which, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.noise import Noise, with_noise
from xmtc.errors import XmtcError

KINDS: list[Noise] = ["missing", "swapped", "flipped"]


def corpus_of(rows: list[list[int]], labels: int) -> Corpus:
    ends = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    flat = [label for row in rows for label in row]
    return Corpus(label_matrix(flat, ends, labels), LabelSet.of(f"label {at}" for at in range(labels)))


LABELLED = st.lists(st.lists(st.integers(0, 5), max_size=6, unique=True), min_size=1, max_size=8)


@given(LABELLED, st.floats(0, 1), st.sampled_from(KINDS), st.integers(0, 9))
def test_labels_are_dropped_and_put_in(rows: list[list[int]], rate: float, kind: Noise, seed: int) -> None:
    corpus = corpus_of(rows, 6)
    noisy = with_noise(corpus, rate, kind, seed)
    before, after = corpus.targets.toarray(), noisy.targets.toarray()
    assert after.shape == before.shape
    assert set(np.unique(after)) <= {0, 1}
    np.testing.assert_array_equal(with_noise(corpus, rate, kind, seed).targets.toarray(), after)
    dropped, added = ((before - after) > 0).sum(1), ((after - before) > 0).sum(1)
    if kind == "missing":
        assert not added.any()
    if kind == "swapped":
        room = 6 - before.sum(1)
        np.testing.assert_array_equal(added, np.minimum(dropped, room))


@pytest.mark.parametrize("kind", KINDS)
def test_no_noise_and_nothing_but_noise(kind: Noise) -> None:
    corpus = corpus_of([[0, 2], [], [1]], 4)
    np.testing.assert_array_equal(with_noise(corpus, 0.0, kind).targets.toarray(), corpus.targets.toarray())
    after = with_noise(corpus, 1.0, kind).targets.toarray()
    assert not (after * corpus.targets.toarray()).any()
    if kind == "flipped":
        np.testing.assert_array_equal(after, 1 - corpus.targets.toarray())


@pytest.mark.parametrize(
    ("kind", "kept", "added"), [("missing", 0.7, 0.0), ("swapped", 0.7, 0.3), ("flipped", 0.7, 2.7)]
)
def test_rates(kind: Noise, kept: float, added: float) -> None:
    """Of 2 relevant and 18 irrelevant labels a document, as shares of the relevant ones."""
    corpus = corpus_of([[row % 20, (row + 7) % 20] for row in range(2000)], 20)
    before, after = corpus.targets.toarray(), with_noise(corpus, 0.3, kind).targets.toarray()
    assert (before * after).sum() / before.sum() == pytest.approx(kept, abs=0.03)
    assert ((1 - before) * after).sum() / before.sum() == pytest.approx(added, abs=0.06)


def test_texts_and_labels_stay() -> None:
    corpus = Corpus.of(["red apple", "blue sky"], [["fruit"], ["weather"]])
    noisy = with_noise(corpus, 1.0)
    assert noisy.texts is corpus.texts
    assert noisy.labels is corpus.labels
    assert noisy.targets.nnz == 0
    assert corpus.targets.nnz == 2


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_impossible_rates(rate: float) -> None:
    with pytest.raises(XmtcError, match="between 0 and 1"):
        with_noise(Corpus.of(["a"], [["x"]]), rate)
