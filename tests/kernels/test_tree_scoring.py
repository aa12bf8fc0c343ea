"""Small kernels of the search in trees; the large ones are tested where they are used, in tests/search."""

from __future__ import annotations

import numpy as np

from xmtc.kernels import tree_scoring as kernel


def test_by_feature() -> None:
    # Child 0 has features 5 and 2, child 1 none, child 2 feature 5.
    features, indptr, children, weights = kernel.by_feature(
        np.array([0, 2, 2, 3]), np.array([2, 5, 5], np.int32), np.array([1, 2, 3], np.float32)
    )
    assert (features.tolist(), indptr.tolist()) == ([2, 5], [0, 1, 3])
    assert (children.tolist(), weights.tolist()) == ([0, 0, 2], [1, 2, 3])


def test_best_of_groups() -> None:
    ids = np.array([4, 2, 9, 1, 7], np.int32)
    values = np.array([1, 3, 3, 0, -2], np.float32)
    top, scores = kernel.best_of_groups(np.array([0, 3, 3, 5]), ids, values, 2)
    assert top.tolist() == [[2, 9], [-1, -1], [1, 7]], "ties to the lower id"
    assert scores[0].tolist() == [3, 3]
