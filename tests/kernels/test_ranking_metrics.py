"""The kernels of the ranking metrics, on their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmtc.kernels.ranking_metrics import COLUMNS, find_hits, measure_documents, sum_by_group


def csr(rows: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return np.cumsum([0, *map(len, rows)]).astype(np.int64), np.array([at for row in rows for at in row], np.int32)


def test_hits_at_the_ends_of_a_row_and_never_in_the_next_row() -> None:
    indptr, indices = csr([[1, 4, 9], [], [0, 2]])
    ids = np.array([[1, 9, 4, 0], [0, 1, 2, -1], [2, -1, -1, 0]], np.int32)
    assert find_hits(ids, indptr, indices).tolist() == [
        [True, True, True, False],
        [False, False, False, False],
        [True, False, False, True],
    ]


def test_sums_are_those_of_the_documents() -> None:
    rng = np.random.default_rng(0)
    rows = [sorted(rng.choice(50, size, replace=False).tolist()) for size in rng.integers(0, 8, 5000)]
    indptr, indices = csr(rows)
    ids = np.argsort(rng.random((5000, 50)), axis=1)[:, :5].astype(np.int32)
    hits = find_hits(ids, indptr, indices)
    weights, ks = rng.random(50) + 1, np.array([1, 3, 5])
    each = measure_documents(ids, hits, indptr, indices, weights, ks, True)
    assert each.shape == (5000, 3, len(COLUMNS))
    sums, carriers = sum_by_group(ids, hits, indptr, indices, weights, np.zeros(50, np.int8), 1, ks, True)
    np.testing.assert_allclose(sums[0], each.sum(axis=0))
    assert carriers.tolist() == [sum(map(bool, rows))]


def test_same_result_whatever_the_number_of_threads() -> None:
    import numba

    rng = np.random.default_rng(1)
    indptr, indices = csr([sorted(rng.choice(30, 3, replace=False).tolist()) for _ in range(3000)])
    ids = np.argsort(rng.random((3000, 30)), axis=1)[:, :5].astype(np.int32)
    arguments = (ids, find_hits(ids, indptr, indices), indptr, indices, rng.random(30))
    group, ks = rng.integers(-1, 4, 30).astype(np.int8), np.array([5])
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = sum_by_group(*arguments, group, 4, ks, True)
    finally:
        numba.set_num_threads(threads)
    together = sum_by_group(*arguments, group, 4, ks, True)
    assert np.array_equal(alone[0], together[0])
    assert np.array_equal(alone[1], together[1])


def test_the_largest_weights_are_found_in_any_order() -> None:
    indptr, indices = csr([[0, 1, 2, 3, 4]])
    ids = np.full((1, 2), -1, np.int32)
    for weights in ([1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [2, 5, 1, 4, 3]):
        each = measure_documents(
            ids, np.zeros((1, 2), bool), indptr, indices, np.array(weights, float), np.array([1, 2, 9]), True
        )
        assert each[0, :, COLUMNS.index("best PSP")].tolist() == [5, 9, 15]
