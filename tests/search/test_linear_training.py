"""The classifiers of a level against training each node on its own documents."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmtc.corpus.sparse import unit_rows
from xmtc.kernels.coordinate_descent import Solver, train_node
from xmtc.kernels.csr import CsrArrays
from xmtc.labelspace.tree import LabelTree
from xmtc.progress import Progress
from xmtc.search.linear_training import (
    NEVER,
    SURE,
    TrainChildren,
    child_documents,
    importance_of,
    reached_by,
    train_level,
    work_of,
)
from xmtc.search.linear_tree import LOSSES, NO_OFFSETS, LinearTree, NodeWeights
from xmtc.text.token_store import offsets_of

TREE = LabelTree.of([[[2, 0, 1]], [[0, 3], [1, 4, 2], [5]]])


def case(seed: int) -> tuple[Any, Any]:
    """Documents and their labels; nobody has label 4."""
    rng = np.random.default_rng(seed)
    targets = (rng.random((40, 6)) < 0.3).astype(np.float32)
    targets[:, 4] = 0
    features = targets @ rng.random((6, 30)) + 0.3 * rng.random((40, 30))
    return unit_rows(csr_array(features.astype(np.float32))), csr_array(targets)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("with_reached", [False, True])
def test_each_node_learns_from_its_documents(loss: str, with_reached: bool) -> None:
    features, targets = case(1)
    how = SimpleNamespace(loss=loss, cost=1.0, bias=0.3, tolerance=1e-4, rounds=3000, smallest_weight=0.0)
    found = np.random.default_rng(2).integers(0, 3, (40, 1)).astype(np.int32)
    reached = reached_by(found, 3) if with_reached else None
    lists, bar = child_documents(TREE, targets), Progress("", 1)
    level = TREE.levels[1]
    weights = train_level(TrainChildren(features, None, how, seed=7), level, lists[1], reached, bar)
    assert bar.done == work_of(level, lists[1])

    whole = LinearTree(TREE, NodeWeights.of_levels([NodeWeights.nothing(1, 3), weights]), 30)
    whole.check()
    dense, right = features.toarray(), targets.toarray()
    for node in range(3):
        labels = TREE.children(1, node).tolist()
        documents = np.flatnonzero(right[:, labels].any(1) | (found[:, 0] == node if with_reached else False))
        for child, label in enumerate(labels):
            step = whole.path(label)[1]
            scores = np.array(
                [whole.contributions(step, np.arange(30), row).sum() + whole.bias(step) for row in dense[documents]]
            )
            if len(labels) == 1 and not with_reached:  # no document to say no to
                assert (scores == SURE).all()
                continue
            if not right[:, label].any():
                assert (scores == NEVER).all()
                continue
            solver = Solver(LOSSES.index(loss), 1.0, 1e-4, 3000, 0.0, 0.3)
            positives = np.flatnonzero(right[documents, label])
            ends, terms, values, bias = train_node(
                CsrArrays.of(features),
                30,
                documents.astype(np.int32),
                offsets_of([len(positives)]),
                positives.astype(np.int64),
                NO_OFFSETS,
                importance_of(None, np.zeros(0, np.float32)),
                solver,
                1,
            )
            expected = dense[documents][:, terms] @ values + bias[0]
            assert ends.tolist() == [0, len(terms)]
            np.testing.assert_allclose(scores, expected, atol=0.01, err_msg=f"label {label}, child {child}")


def test_levels_above_have_the_documents_of_all_labels_below() -> None:
    _, targets = case(3)
    top, below = child_documents(TREE, targets)
    dense = targets.toarray()
    for place, cluster in enumerate(TREE.levels[0].indices.tolist()):
        expected = np.flatnonzero(dense[:, TREE.children(1, cluster)].any(1))
        np.testing.assert_array_equal(np.sort(top.indices[top.indptr[place] : top.indptr[place + 1]]), expected)
    np.testing.assert_array_equal(below.toarray(), dense[:, TREE.levels[1].indices])


def test_a_group_counts_as_its_label_that_counts_most() -> None:
    _, targets = case(3)
    worth = np.array([1, 2, 5, 3, 1, 0.5], np.float32)
    weighted = csr_array((worth[targets.indices], targets.indices, targets.indptr), shape=targets.shape)
    top, below = child_documents(TREE, weighted)
    dense = targets.toarray() * worth
    for place, cluster in enumerate(TREE.levels[0].indices.tolist()):
        expected = dense[:, TREE.children(1, cluster)].max(1)
        np.testing.assert_array_equal(top[:, [place]].toarray()[:, 0], expected)
    np.testing.assert_array_equal(below.toarray(), dense[:, TREE.levels[1].indices])


def test_nothing_is_scored_zero() -> None:
    """Whoever takes the scores of a level from elsewhere stores no weights for it."""
    empty = LinearTree(LabelTree((TREE.levels[0],)), NodeWeights.nothing(1, 3), 30)
    empty.check()
    assert [empty.bias(empty.path(cluster)[0]) for cluster in range(3)] == [0, 0, 0]
