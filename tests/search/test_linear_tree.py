"""The search in a tree against one with dense matrices; documents alone against the same among others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.sparse import Csr, unit_rows
from xmtc.labelspace.tree import LabelTree
from xmtc.search import linear_tree as linear
from xmtc.search.linear_tree import LOSSES, LinearTree, NodeWeights

Array = np.ndarray[Any, Any]
Rng = np.random.Generator


def random_tree(rng: Rng, labels: int, width: int) -> LinearTree:
    """Three levels, 2 and 6 nodes; each classifier uses a third of the features, each for half of the children."""
    tree = LabelTree.of(
        [[[1, 0]], [[0, 2, 4], [1, 3, 5]], [part.tolist() for part in np.array_split(rng.permutation(labels), 6)]]
    )
    rows, features, entries, children = [0], [], [0], []
    biases = 0
    for level in tree.levels:
        for size in np.diff(level.indptr).tolist():
            for feature in np.flatnonzero(rng.random(width) < 0.3).tolist():
                found = np.flatnonzero(rng.random(size) < 0.5).tolist()
                features.append(feature)
                children += found
                entries.append(len(children))
            rows.append(len(features))
            biases += size
    weights = NodeWeights(
        np.array(rows, np.int64),
        np.array(features, np.int32),
        np.array(entries, np.int64),
        np.array(children, np.int32),
        rng.normal(size=len(children)).astype(np.float32),
        rng.normal(size=biases).astype(np.float32),
    )
    return LinearTree(tree, weights, width)


def random_documents(rng: Rng, count: int, width: int) -> Csr:
    """Unit rows; the last has no words."""
    dense = rng.random((count, width)) * (rng.random((count, width)) < 0.1)
    dense[count - 1 if count > 1 else count :] = 0
    return unit_rows(csr_array(dense.astype(np.float32)))


def dense_weights(made: LinearTree, node: int) -> tuple[Array, Array]:
    """(features x children, biases) of a node."""
    parts = made.weights
    children = slice(*made.child_starts[node : node + 2])
    dense = np.zeros((made.width, children.stop - children.start), np.float32)
    for row in range(parts.node_rows[node], parts.node_rows[node + 1]):
        for entry in range(parts.entries[row], parts.entries[row + 1]):
            dense[parts.features[row], parts.children[entry]] = parts.weights[entry]
    return dense, parts.biases[children]


def chance(scores: Array, loss: str) -> Array:
    found: Array = -(np.maximum(0, 1 - scores) ** 2) if loss == "squared_hinge" else -np.log1p(np.exp(-scores))
    return found


def naive_search(made: LinearTree, document: Array, loss: str, beam: int, k: int, discount: float) -> dict[int, float]:
    """The k best labels of a dense document with their log-probabilities, from dense weights."""
    best = {0: 0.0}
    for depth, level in enumerate(made.tree.levels):
        found = {}
        for node, above in best.items():
            weights, biases = dense_weights(made, int(made.level_starts[depth]) + node)
            own = chance(document @ weights + biases, loss)
            children = level.indices[level.indptr[node] : level.indptr[node + 1]].tolist()
            found.update({child: discount * above + float(own[at]) for at, child in enumerate(children)})
        keep = k if depth == made.tree.depth - 1 else beam
        best = dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:keep])
    return best


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("documents", "discount"), [(1, 1.0), (1, 0.9), (70, 0.9)])
def test_search_is_that_of_dense_weights(loss: str, documents: int, discount: float) -> None:
    rng = np.random.default_rng(documents)
    made = random_tree(rng, labels=30, width=400)
    vectors = random_documents(rng, documents, 400)
    ids, scores = made.search(vectors, loss, 3, 7, discount)
    for row, dense in enumerate(vectors.toarray()):
        expected = naive_search(made, dense, loss, 3, 7, discount)
        found = dict(zip(ids[row].tolist(), scores[row].tolist(), strict=True))
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_a_document_alone_and_among_others_gets_the_same(
    loss: str, discount: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    made = random_tree(rng, labels=40, width=60)
    vectors = random_documents(rng, 90, 60)
    together = made.search(vectors, loss, 3, 7, discount)
    alone = [made.search(take_rows(vectors, slice(row, row + 1)), loss, 3, 7, discount) for row in range(90)]
    monkeypatch.setattr(linear, "MOST_TOGETHER", 20)
    monkeypatch.setattr(linear, "FEW_DOCUMENTS", 1)
    in_pieces = made.search(vectors, loss, 3, 7, discount)
    for part in range(2):
        np.testing.assert_array_equal(together[part], np.concatenate([found[part] for found in alone]))
        np.testing.assert_array_equal(together[part], in_pieces[part])


@pytest.mark.parametrize("documents", [1, 50])
def test_search_goes_on_from_nodes_that_something_else_found(documents: int) -> None:
    rng = np.random.default_rng(8)
    made = random_tree(rng, labels=40, width=60)
    vectors = random_documents(rng, documents, 60)
    top = LinearTree(LabelTree(made.tree.levels[:2]), made.weights, 60)
    nodes = top.search(vectors, "logistic", 3, 3)
    whole, rest = made.search(vectors, "logistic", 3, 7), made.search(vectors, "logistic", 3, 7, begin=(2, *nodes))
    np.testing.assert_array_equal(whole[0], rest[0])
    np.testing.assert_array_equal(whole[1], rest[1])
    none = np.full((documents, 3), -1, np.int32), np.full((documents, 3), -np.inf, np.float32)
    ids, scores = made.search(vectors, "logistic", 3, 7, begin=(2, *none))
    assert (ids == -1).all() and (scores == -np.inf).all()


def test_the_smallest_trees_and_no_documents() -> None:
    rng = np.random.default_rng(9)
    tree = LabelTree.of([[[0]]])
    one = LinearTree(tree, NodeWeights.nothing(1, 1), 60)
    ids, scores = one.search(random_documents(rng, 2, 60), "squared_hinge", 1, 3)
    assert ids.tolist() == [[0, -1, -1]] * 2 and scores[:, 0].tolist() == [-1, -1], "the bias is 0, the gap 1"
    made = random_tree(rng, labels=40, width=60)
    ids, scores = made.search(random_documents(rng, 3, 60)[:0], "logistic", 3, 7)
    assert ids.shape == scores.shape == (0, 7)
    with pytest.raises(ValueError, match="61 features for a tree of 60"):
        made.search(random_documents(rng, 2, 61), "logistic", 3, 7)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 12), st.integers(1, 40))
@settings(max_examples=40)
def test_search_of_any_tree(seed: int, labels: int, beam: int, k: int) -> None:
    """Nodes without children, children without weights, documents without words, ties: a naive search finds the same.

    Weights and values are halves, so that sums are exact in any order.
    """
    rng = np.random.default_rng(seed)
    made = random_tree(rng, labels, width=30)
    halves = (rng.integers(-2, 3, len(made.weights.weights)) / 2).astype(np.float32)
    biases = (rng.integers(-2, 2, len(made.weights.biases)) / 2).astype(np.float32)
    made = LinearTree(made.tree, made.weights._replace(weights=halves, biases=biases), 30)
    dense = (rng.integers(0, 3, (4, 30)) * (rng.random((4, 30)) < 0.2)).astype(np.float32) / 2
    ids, scores = made.search(csr_array(dense), "squared_hinge", beam, k)
    for row in range(4):
        best = naive_search(made, dense[row], "squared_hinge", beam, k, 1.0)
        there = ids[row] >= 0
        assert list(zip(ids[row][there].tolist(), scores[row][there].tolist(), strict=True)) == list(best.items())


def test_huge_weights_stay_numbers() -> None:
    rng = np.random.default_rng(4)
    made = random_tree(rng, labels=40, width=60)
    vectors = random_documents(rng, 5, 60)
    signs = np.where(rng.random(len(made.weights.weights)) < 0.5, -1, 1)
    wild = LinearTree(made.tree, made.weights._replace(weights=(signs * 3e38).astype(np.float32)), 60)
    for loss in LOSSES:
        ids, scores = wild.search(vectors, loss, 3, 40)
        assert np.isfinite(scores[ids >= 0]).all()


def damaged_weights(made: LinearTree) -> list[dict[str, Array]]:
    good = made.weights
    changes = []
    for name, place, value in (
        ("node_rows", 0, 1),
        ("node_rows", 1, 10**6),
        ("node_rows", 1, -5),
        ("node_rows", -1, 0),
        ("features", 0, -1),
        ("features", 0, 60),
        ("features", 1, 0),
        ("entries", 1, 10**7),
        ("entries", 0, -1),
        ("entries", -1, 0),
        ("children", 0, -1),
        ("children", 0, 1000),
        ("weights", 0, np.nan),
        ("weights", 3, np.inf),
        ("biases", 0, np.nan),
    ):
        array = getattr(good, name).copy()
        array[place] = value
        changes.append({name: array})
    changes += [{name: getattr(good, name)[:-1]} for name in good._fields]
    changes += [{name: getattr(good, name).astype(np.float64)} for name in good._fields]
    changes.append({"width": np.array([61])})
    return changes


def test_damaged_weights_are_refused() -> None:
    made = random_tree(np.random.default_rng(5), labels=40, width=60)
    good = made.to_arrays()
    again = LinearTree.from_arrays(good, 40, 60)
    again.check()
    assert again.path(7) == made.path(7)
    for change in damaged_weights(made):
        with pytest.raises(ValueError, match=r"weights do not belong|is an array of|does not fit"):
            LinearTree.from_arrays({**good, **change}, 40, 60).check()
    with pytest.raises(ValueError, match="does not fit"):
        LinearTree.from_arrays(good, 41, 60)


def test_path_and_contributions() -> None:
    """The contributions and the bias of each decision add up to its score."""
    rng = np.random.default_rng(6)
    made = random_tree(rng, labels=40, width=60)
    vectors = random_documents(rng, 2, 60)
    ids, scores = made.search(vectors, "squared_hinge", 6, 40)
    features, values = vectors.indices[: vectors.indptr[1]], vectors.data[: vectors.indptr[1]]
    for label, score in zip(ids[0].tolist(), scores[0].tolist(), strict=True):
        steps = made.path(label)
        sums = [made.contributions(step, features, values).sum() + made.bias(step) for step in steps]
        assert chance(np.array(sums), "squared_hinge").sum() == pytest.approx(score, rel=1e-4, abs=1e-4)
        assert made.child_ids[made.child_starts[steps[-1].node] + steps[-1].child] == label


def test_exhaustive() -> None:
    """With a beam over all nodes every label gets the sum of its path's log-probabilities."""
    rng = np.random.default_rng(7)
    made = random_tree(rng, labels=40, width=60)
    vectors = random_documents(rng, 50, 60)  # more than FEW_DOCUMENTS
    ids, scores = made.search(vectors, "logistic", 6, 40)
    dense = vectors.toarray()
    for row in (0, 17, 49):
        assert sorted(ids[row].tolist()) == list(range(40))
        for label, score in zip(ids[row].tolist(), scores[row].tolist(), strict=True):
            total = 0.0
            for step in made.path(label):
                weights, biases = dense_weights(made, step.node)
                total += chance(dense[row] @ weights + biases, "logistic")[step.child]
            assert score == pytest.approx(total, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("share", [0.5, 0.03, 1e-9])
def test_a_pruned_tree_has_the_largest_weights_only(share: float) -> None:
    made = random_tree(np.random.default_rng(5), labels=30, width=50)
    smallest = np.sort(np.abs(made.weights.weights))[-max(1, round(share * len(made.weights.weights)))]
    small = made.pruned(share)
    small.check()
    assert len(small.weights.features) == len(small.weights.entries) - 1 <= len(small.weights.weights)
    for node in range(len(made.weights.node_rows) - 1):
        weights, biases = dense_weights(made, node)
        expected = np.where(np.abs(weights) >= smallest, weights, 0), biases
        for found, wanted in zip(dense_weights(small, node), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
