"""Label trees: training against plain numpy, best-first search against the product down every path."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.kernels import fasttext as training
from xmtc.kernels import label_trees as kernel
from xmtc.labelspace.tree import LabelTree, tree_of_paths
from xmtc.models.fasttext.label_trees import flat_trees, nodes_of
from xmtc.search.beam import beam_search

SIZE = 4


def random_tree(rng: np.random.Generator, labels: int, depth: int) -> LabelTree:
    """Any number of children each, single ones too; all labels at one depth."""
    return tree_of_paths([tuple(rng.integers(0, 3, depth).tolist()) for _ in range(labels)])


def random_trees(seed: int, labels: int, trees: int, infinite: bool = True) -> tuple[list[LabelTree], Any, Any]:
    """(trees, their flat form with random first scores, weights)."""
    rng = np.random.default_rng(seed)
    made = [random_tree(rng, labels, int(rng.integers(0, 4))) for _ in range(trees)]
    count = sum(map(nodes_of, made))
    base = rng.normal(0, 1, count).astype(np.float32)
    if infinite:
        base[rng.random(count) < 0.1] = -np.inf
        base[rng.random(count) < 0.1] = np.inf
    return made, flat_trees(made, base), rng.normal(0, 1, (count, SIZE)).astype(np.float32)


def conditional(trees: kernel.LabelTrees, weights: Any, vector: Any) -> Any:
    """The probability of each node, given its parent."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-(weights.astype(float) @ vector + trees.base)))


def exhaustive(trees: kernel.LabelTrees, weights: Any, vector: Any) -> Any:
    """(trees, labels): the product down each path, written out."""
    own = conditional(trees, weights, vector)
    found = np.empty(trees.leaves.shape)
    for (tree, label), leaf in np.ndenumerate(trees.leaves):
        product, node = 1.0, int(leaf)
        while node >= 0:
            product *= own[node]
            node = int(trees.parents[node])
        found[tree, label] = product
    return found


def vectors_of(seed: int, count: int = 3) -> Any:
    return np.random.default_rng([seed, 1]).normal(0, 1, (count, SIZE)).astype(np.float32)


cases = st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 3)


@given(*cases)
def test_the_flat_form_is_the_same_trees(seed: int, labels: int, trees: int) -> None:
    made, flat, _ = random_trees(seed, labels, trees)
    for at, tree in enumerate(made):
        for label in range(labels):
            path, node = list[int](), int(flat.leaves[at, label])
            assert flat.labels[node] == label
            assert flat.levels[node] == tree.depth
            while node >= 0:
                path.insert(0, node)
                node = int(flat.parents[node])
            assert path[0] == flat.roots[at]
            for above, below in pairwise(path):
                assert flat.first_child[above] <= below < flat.first_child[above] + flat.children[above]
            wanted, under = label, label
            for depth in range(tree.depth - 1, 0, -1):
                wanted = int(tree.parents(depth)[wanted])
                under = path[depth]
                siblings = {int(tree.parents(depth)[each]) for each in tree.children(depth, wanted)}
                assert siblings == {wanted}
                assert flat.children[under] == len(tree.children(depth, wanted))


@given(*cases, st.integers(1, 12))
def test_best_first_is_exhaustive_scoring(seed: int, labels: int, trees: int, k: int) -> None:
    _, flat, weights = random_trees(seed, labels, trees)
    k = min(k, labels)
    vectors = vectors_of(seed)
    ids, probabilities = kernel.best_in_trees(flat, vectors, weights, 0, k if trees == 1 else labels)
    for text, vector in enumerate(vectors):
        right = exhaustive(flat, weights, vector).mean(axis=0)
        found = ids[text][:k]
        assert len(set(found.tolist())) == k
        np.testing.assert_allclose(probabilities[text][:k], np.sort(right)[::-1][:k], rtol=1e-4, atol=1e-12)
        np.testing.assert_allclose(probabilities[text][:k], right[found], rtol=1e-4, atol=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 4), st.integers(1, 5))
def test_a_beam_follows_the_best_nodes_of_each_level(seed: int, labels: int, beam: int, k: int) -> None:
    """The search of `xmtc.search.beam`, which goes level by level, lists the same labels."""
    made, flat, weights = random_trees(seed, labels, 1, infinite=False)
    tree, vectors = made[0], vectors_of(seed)
    starts = np.cumsum([1, *(level.shape[1] for level in tree.levels)])

    def score(depth: int, documents: Any, nodes: Any) -> Any:
        level = tree.levels[depth]
        place = [np.arange(*level.indptr[node : node + 2]) + starts[depth] for node in nodes]
        each = [np.log(conditional(flat, weights, vectors[document])) for document in documents]
        return np.concatenate([own[at] for own, at in zip(each, place, strict=True)]).astype(np.float32)

    expected, logs = beam_search(tree, score, len(vectors), beam, min(k, labels))
    ids, probabilities = kernel.best_in_trees(flat, vectors, weights, beam, min(k, labels))
    np.testing.assert_array_equal(ids, expected)
    roots = [conditional(flat, weights, vector)[0] for vector in vectors]
    np.testing.assert_allclose(probabilities, np.exp(logs.astype(float)) * np.array(roots)[:, None], rtol=1e-4)


@given(*cases)
def test_no_label_is_more_probable_than_a_node_above_it(seed: int, labels: int, trees: int) -> None:
    _, flat, weights = random_trees(seed, labels, trees)
    for vector in vectors_of(seed):
        right = exhaustive(flat, weights, vector)
        own = conditional(flat, weights, vector)
        for label in range(labels):
            found = kernel.path_probabilities(flat, vector, weights, label)
            np.testing.assert_allclose(found, right[:, label], rtol=1e-4, atol=1e-12)
            for tree, probability in enumerate(found):
                path, above = list[int](), int(flat.leaves[tree, label])
                while above >= 0:
                    path.insert(0, above)
                    above = int(flat.parents[above])
                assert np.all(np.cumprod(own[path]) >= probability * (1 - 1e-4))


@given(st.integers(0, 2**32), st.integers(1, 10))
def test_probabilities_of_all_sets_of_labels_add_up_to_1(seed: int, labels: int) -> None:
    """Each node decides on its own once its parent is relevant: that is a distribution over sets of leaves.

    The probability that exactly a set of nodes is positive, summed over all sets that are closed upwards, is 1; and the
    sum over those with a label is the label's probability.
    """
    _, flat, weights = random_trees(seed, min(labels, 5), 1)
    own = conditional(flat, weights, vectors_of(seed, 1)[0])

    def outcomes(node: int) -> dict[frozenset[int], float]:
        """Sets of labels below a node -> their probability, given its parent."""
        below: dict[frozenset[int], float] = {frozenset(): 1.0}
        if flat.labels[node] >= 0:
            below = {frozenset([int(flat.labels[node])]): 1.0}
        for child in range(flat.first_child[node], flat.first_child[node] + flat.children[node]):
            joined: dict[frozenset[int], float] = {}
            for one, p in below.items():
                for other, q in outcomes(child).items():
                    joined[one | other] = joined.get(one | other, 0.0) + p * q
            below = joined
        found = {each: own[node] * p for each, p in below.items()}
        found[frozenset()] = found.get(frozenset(), 0.0) + 1 - own[node]
        return found

    every = outcomes(0)
    assert sum(every.values()) == pytest.approx(1)
    ids, probabilities = kernel.best_in_trees(flat, vectors_of(seed, 1), weights, 0, min(labels, 5))
    for label, probability in zip(ids[0].tolist(), probabilities[0].tolist(), strict=True):
        assert sum(p for each, p in every.items() if label in each) == pytest.approx(probability, rel=1e-4, abs=1e-12)


def problem(seed: int, texts: int, labels: int) -> dict[str, Any]:
    """Texts with shares, some without labels, some with a label twice below one node."""
    rng = np.random.default_rng([seed, 2])
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 5, texts))])
    chosen = [rng.choice(labels, min(labels, int(rng.integers(0, 4))), replace=False) for _ in range(texts)]
    return {
        "rows": rng.integers(0, 9, offsets[-1]).astype(np.int32),
        "offsets": offsets,
        "shares": rng.random(offsets[-1]).astype(np.float32),
        "indices": np.concatenate([np.zeros(0, int), *chosen]).astype(np.int32),
        "indptr": np.concatenate([[0], np.cumsum([len(each) for each in chosen])]),
        "order": rng.permutation(texts),
        "table": rng.normal(0, 1, (9, SIZE)).astype(np.float32),
    }


def naive(given: dict[str, Any], trees: kernel.LabelTrees, start: Any, rate: float, decay: float, l2: float) -> Any:
    """One text after the other, all nodes of a text looked at."""
    table, weights = given["table"].astype(float), start.astype(float)
    for at, text in enumerate(given["order"]):
        places = range(given["offsets"][text], given["offsets"][text + 1])
        mean = sum((table[given["rows"][p]] * given["shares"][p] for p in places), np.zeros(SIZE))
        step = rate - decay * at
        positive = set()
        for label in given["indices"][given["indptr"][text] : given["indptr"][text + 1]]:
            for leaf in trees.leaves[:, label].tolist():
                node = leaf
                while node >= 0:
                    positive.add(node)
                    node = int(trees.parents[node])
        change = np.zeros(SIZE)
        for node in range(len(weights)):
            parent = int(trees.parents[node])
            if (parent >= 0 and parent not in positive) or not np.isfinite(trees.base[node]):
                continue
            slope = (node in positive) - 1 / (1 + np.exp(-(weights[node] @ mean + trees.base[node])))
            change += slope * weights[node]
            weights[node] = (1 - step * l2) * weights[node] + step / (1 + step * (mean @ mean) / 4) * slope * mean
        for p in places:
            table[given["rows"][p]] *= 1 - step * l2
        for p in places:
            table[given["rows"][p]] += step * given["shares"][p] * change
    return table, weights


@given(*cases, st.integers(1, 8), st.sampled_from([0.0, 0.05]))
def test_training_is_plain_gradient_descent(seed: int, labels: int, trees: int, texts: int, l2: float) -> None:
    _, flat, start = random_trees(seed, labels, trees)
    given = problem(seed, texts, labels)
    expected = naive(given, flat, start, 0.3, 0.01, l2)
    table, weights = given["table"].copy(), start.copy()
    names = ("rows", "offsets", "shares", "indices", "indptr")
    documents = training.Documents(*(given[name] for name in names))
    training.train_label_trees(documents, given["order"], flat, 0.3, 0.01, l2, table, weights)
    np.testing.assert_allclose(table, expected[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(weights, expected[1], rtol=1e-3, atol=1e-4)
