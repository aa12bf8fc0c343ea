"""Learned vectors: each step against a naive reference, and what they are good for."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmtc.corpus.sparse import make_csr
from xmtc.text import ppmi_vectors as learned_vectors
from xmtc.text.ppmi_vectors import SPREAD, cooccurrences, fill_missing, learn_vectors, ppmi, truncated_svd
from xmtc.text.token_store import TokenStore

Matrix = NDArray[np.float64]


def random_documents(words: int, count: int = 60, seed: int = 0) -> TokenStore:
    rng = np.random.default_rng(seed)
    return TokenStore.of([rng.integers(0, words, rng.integers(0, 20)).tolist() for _ in range(count)])


def naive_counts(tokens: TokenStore, words: int, window: int) -> Matrix:
    counts = np.zeros((words, words))
    for document in tokens:
        for i, one in enumerate(document):
            for j, other in enumerate(document):
                if 0 < abs(i - j) <= window and min(one, other) >= 2:
                    counts[one, other] += 1 / abs(i - j)
    return counts


def cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize("block", [5, 16_000_000])
def test_cooccurrences(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(learned_vectors, "BLOCK_CODES", block)
    tokens = random_documents(9)
    np.testing.assert_allclose(cooccurrences(tokens, 9, 3).toarray(), naive_counts(tokens, 9, 3), rtol=1e-5)


def test_too_many_pairs_leave_rare_contexts_out_and_the_others_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_vectors, "BLOCK_CODES", 50)
    tokens = random_documents(40)
    counts = cooccurrences(tokens, 40, 3, most_pairs=200)
    contexts = counts.shape[1]
    assert 2 < contexts < 40
    assert counts.nnz < 2 * 200
    np.testing.assert_allclose(counts.toarray(), naive_counts(tokens, 40, 3)[:, :contexts], rtol=1e-5)


def test_memory_mapped_store(tmp_path: Path) -> None:
    tokens = random_documents(9)
    np.save(tmp_path / "ids.npy", tokens.ids)
    mapped = cooccurrences(TokenStore(np.load(tmp_path / "ids.npy", mmap_mode="r"), tokens.offsets), 9, 3)
    np.testing.assert_array_equal(mapped.toarray(), cooccurrences(tokens, 9, 3).toarray())


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=5))
def test_ppmi(rows: list[list[int]]) -> None:
    counts = np.array(rows, np.float64)
    expected = np.zeros_like(counts)
    smooth = counts.sum(axis=0) ** 0.75
    for word, context in zip(*counts.nonzero(), strict=True):
        joint = counts[word, context] / counts.sum()
        independent = counts[word].sum() / counts.sum() * smooth[context] / smooth.sum()
        expected[word, context] = max(0, np.log(joint / independent))
    given_counts = csr_array(counts.astype(np.float32))
    found = ppmi(given_counts)
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-5)
    assert (found.data > 0).all()
    np.testing.assert_array_equal(given_counts.toarray(), counts)


@pytest.mark.parametrize("shape", [(60, 40), (40, 60), (6, 5)])
def test_svd_is_numpys(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    # Singular values that fall, as those of texts do.
    dense = (rng.normal(size=shape) @ np.diag(0.8 ** np.arange(shape[1]))).astype(np.float32)
    left, singular = truncated_svd(csr_array(dense), 5, seed=1)
    expected_left, expected, _ = np.linalg.svd(dense, full_matrices=False)
    np.testing.assert_allclose(singular, expected[:5], rtol=1e-3)
    np.testing.assert_allclose(left.T @ left, np.eye(5), atol=1e-4)
    best = (expected_left[:, :5] @ expected_left[:, :5].T) @ dense
    np.testing.assert_allclose(left @ left.T @ dense, best, atol=0.01 * expected[0])
    assert (np.take_along_axis(left, np.abs(left).argmax(axis=0)[None], axis=0) > 0).all()


def test_svd_keeps_what_is_small_beside_the_first() -> None:
    left, singular = truncated_svd(csr_array(np.diag(np.logspace(0, -2, 8)).astype(np.float32)), 8, seed=0)
    np.testing.assert_allclose(singular, np.logspace(0, -2, 8), rtol=0.01)
    np.testing.assert_allclose(left, np.eye(8), atol=0.02)


def test_svd_of_low_rank_and_of_nothing() -> None:
    left, singular = truncated_svd(csr_array(np.outer([1, 2, 2], [3, 4]).astype(np.float32)), 2, seed=0)
    np.testing.assert_allclose(singular, [15], rtol=1e-5)
    np.testing.assert_allclose(left, np.array([[1], [2], [2]]) / 3, atol=1e-5)
    left, singular = truncated_svd(csr_array(np.zeros((4, 3), np.float32)), 2, seed=0)
    assert left.shape == (4, 0)
    assert singular.shape == (0,)


def test_same_seed_same_vectors() -> None:
    tokens = random_documents(30)
    one, same, other = (learn_vectors(tokens, 32, 4, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_scale_and_special_rows() -> None:
    vectors = learn_vectors(random_documents(200, count=300), 400, 50)
    assert vectors.dtype == np.float32
    assert not vectors[0].any()
    for rows in (vectors[1:], vectors[2:200], vectors[200:]):
        assert rows.std() == pytest.approx(SPREAD, rel=0.15)
    assert vectors[1].std() == pytest.approx(SPREAD, rel=0.4)


def test_words_in_like_contexts_get_like_vectors() -> None:
    # Words 10 to 19 stand among 20 to 29, words 30 to 39 among 40 to 49; never beside each other.
    rng = np.random.default_rng(0)
    documents = []
    for topic in rng.choice([10, 30], 400):
        beside = rng.integers(topic + 10, topic + 20, 4).tolist()
        documents.append([*beside[:2], int(rng.integers(topic, topic + 10)), *beside[2:]])
    vectors = learn_vectors(TokenStore.of(documents), 50, 6)
    like = [cosine(vectors[one], vectors[other]) for one, other in pairwise(range(10, 20))]
    unlike = [cosine(vectors[one], vectors[one + 20]) for one in range(10, 20)]
    assert min(like) > 0.5 > max(unlike) + 0.2


@pytest.mark.parametrize(
    "documents",
    [[], [[]], [[2]], [[1], [1]], [[2], [], [1]], [[2, 2, 2]], [[1, 2, 0]]],
    ids=["no store", "no word", "one word", "unknown", "apart", "itself", "beside no word"],
)
@pytest.mark.parametrize("words", [3, 4])
def test_next_to_nothing_to_learn_from(documents: list[list[int]], words: int) -> None:
    vectors = learn_vectors(TokenStore.of(documents), words, 5)
    assert vectors.shape == (words, 5)
    assert np.isfinite(vectors).all()
    assert not vectors[0].any()
    assert vectors[1:].any(axis=1).all()


def test_ids_beyond_the_vocabulary() -> None:
    with pytest.raises(ValueError, match="token id 7 in a vocabulary of 5"):
        learn_vectors(TokenStore.of([[2, 7]]), 5, 2)


def linear_case(words: int) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    learned = rng.normal(size=(words, 4)).astype(np.float32)
    learned[0] = 0
    truth = (learned @ rng.normal(size=(4, 3))).astype(np.float32)
    known = np.arange(words) % 3 > 0
    table = np.where(known[:, None], truth, rng.normal(size=truth.shape)).astype(np.float32)
    table[0] = 0
    return table, known, learned, truth


def test_missing_words_follow_a_linear_relation() -> None:
    table, known, learned, truth = linear_case(60)
    before = table.copy()
    filled = fill_missing(table, known, learned)
    np.testing.assert_array_equal(table, before)
    np.testing.assert_array_equal(filled[known], table[known])
    assert not filled[0].any()
    missing = np.flatnonzero(~known)[1:]
    # Right but for one factor, which makes the mean lengths equal.
    factor = np.linalg.norm(truth[known], axis=1).mean() / np.linalg.norm(truth[missing], axis=1).mean()
    np.testing.assert_allclose(filled[missing], truth[missing] * factor, atol=0.01)


def test_too_few_known_words_change_nothing() -> None:
    table, known, learned, _ = linear_case(10)
    assert known.sum() < 8
    np.testing.assert_array_equal(fill_missing(table, known, learned), table)
    np.testing.assert_array_equal(fill_missing(table, np.ones(10, np.bool_), learned), table)


def test_padding_alone_is_missing() -> None:
    table, _, learned, _ = linear_case(60)
    np.testing.assert_array_equal(fill_missing(table, np.arange(60) > 0, learned), table)


def test_ppmi_of_nothing() -> None:
    empty = make_csr(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(4, np.int32), (3, 3))
    assert ppmi(empty).nnz == 0
