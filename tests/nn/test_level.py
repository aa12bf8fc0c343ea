"""One level of a label tree: candidates, loss and search, each against sets or exhaustive scoring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from split_batches import assert_same_in_threads
from torch.nn.functional import logsigmoid

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import Csr, LabelSet
from xmtc.evaluation.ranking import RankingMetrics
from xmtc.labelspace.tree import LabelTree
from xmtc.models.attentionxml.model import AttentionXmlConfig
from xmtc.models.attentionxml.network import AttentionXmlNetwork
from xmtc.nn import level as levels
from xmtc.nn.batching import Ints, padded
from xmtc.nn.datasets import Documents
from xmtc.nn.layers import seeded
from xmtc.nn.level import Beam, LevelLearner, children_scores, expand_beam
from xmtc.nn.parallel import Cores, Worker
from xmtc.predictions import Predictions
from xmtc.text.embedding_table import WordSettings
from xmtc.text.token_store import TokenStore

#: Four nodes under the root, ten labels under them; one node has a single label, one has none.
TREE = LabelTree.of([[[2, 0, 3, 1]], [[4, 1, 9], [0], [], [3, 8, 2, 7, 5, 6]]])
HERE = Cores(None, 1)  # all work in this thread


def labels_of(rows: Iterable[Iterable[int]], labels: int) -> Csr:
    sets = [sorted(row) for row in rows]
    ends = np.cumsum([0, *map(len, sets)])
    return label_matrix([label for row in sets for label in row], ends, labels)


def beam_of(rows: Sequence[Sequence[int]]) -> Beam:
    """A beam as wide as the longest row, -1 behind the others; scores fall from left to right."""
    nodes = np.full((len(rows), max(map(len, rows))), -1, np.int32)
    for at, row in enumerate(rows):
        nodes[at, : len(row)] = row
    return Beam(nodes, np.where(nodes >= 0, -np.arange(nodes.shape[1]) / 8, -np.inf).astype(np.float32))


def some_documents(count: int, seed: int = 0) -> Documents:
    """Of different lengths, with none to three labels each."""
    rng = np.random.default_rng(seed)
    tokens = TokenStore.of([rng.integers(1, 20, rng.integers(1, 9)).tolist() for _ in range(count)])
    return Documents(tokens, labels_of([rng.choice(10, rng.integers(0, 4), False) for _ in range(count)], 10))


def some_network(labels: int, seed: int = 1, dropout: float = 0.0) -> AttentionXmlNetwork:
    table = torch.from_numpy(np.random.default_rng(seed).normal(size=(20, 4)).astype(np.float32))
    config = AttentionXmlConfig(hidden=3, layers=(5,), dropout=dropout, words=WordSettings(dropout=dropout))
    with seeded(seed):
        network = AttentionXmlNetwork(table, labels, config)
    with torch.no_grad():
        network.head.output.weight.mul_(5)  # scores that are far apart
    return network


def exhaustive(network: AttentionXmlNetwork, tokens: TokenStore, first: bool) -> NDArray[np.float32]:
    """Log-probabilities of all nodes of a level, (documents, nodes), one document after the other."""
    asked = None if first else torch.arange(network.head.rows.num_embeddings)[None]
    with torch.inference_mode():
        parts = [logsigmoid(network(*padded(tokens, np.array([at])), asked)) for at in range(len(tokens))]
    found: NDArray[np.float32] = torch.cat(parts).numpy()
    return found


@dataclass
class TwoLevels:
    """A network for each level of TREE and some documents."""

    upper: AttentionXmlNetwork
    lower: AttentionXmlNetwork
    documents: Documents

    def search(self, beam: int, k: int) -> tuple[Beam, Beam]:
        tokens = self.documents.tokens
        above = expand_beam(self.upper, TREE.levels[0], tokens, Beam.at_root(len(tokens)), beam, HERE)
        return above, expand_beam(self.lower, TREE.levels[1], tokens, above, k, HERE)

    def learner(self, beam: int = 3, valid: Documents | None = None) -> LevelLearner:
        nodes, _ = self.search(beam, 1)
        valid = self.documents if valid is None else valid
        return LevelLearner(self.lower, TREE.levels[1], self.documents, nodes, valid, nodes)


@pytest.fixture
def two_levels() -> TwoLevels:
    return TwoLevels(some_network(4), some_network(10, seed=2), some_documents(150))


NODES = st.lists(st.integers(0, 11), unique=True, max_size=8)


@given(st.lists(st.tuples(NODES, NODES), min_size=1, max_size=4), st.integers(1, 8))
def test_right_nodes_come_first_into_the_beam(rows: list[tuple[list[int], list[int]]], width: int) -> None:
    beam = beam_of([found for found, _ in rows])
    result = beam.with_positives(labels_of([relevant for _, relevant in rows], 12), width).nodes
    assert result.shape == (len(rows), width)
    for (found, relevant), row in zip(rows, result.tolist(), strict=True):
        real = [node for node in row if node >= 0]
        assert row == real + [-1] * (width - len(real)), "-1 before a node"
        assert len(set(real)) == len(real) == min(width, len({*found, *relevant}))
        if len(relevant) <= width:
            assert set(real[: len(relevant)]) == set(relevant)
            others = [node for node in found if node not in relevant]
            assert real[len(relevant) :] == others[: width - len(relevant)], "the others, best first"
        else:
            found_ones = [node for node in found if node in relevant]
            assert set(real) <= set(relevant)
            assert real[: len(found_ones)] == found_ones[:width]


@st.composite
def followed(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """For each document the nodes that are followed and its labels, and some documents in any order."""
    count = draw(st.integers(1, 5))
    nodes = st.lists(st.integers(0, 3), unique=True, min_size=1, max_size=4)
    rows = [draw(nodes) for _ in range(count)]
    labels = [draw(st.lists(st.integers(0, 9), unique=True, max_size=4)) for _ in range(count)]
    return rows, labels, draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=6))


@given(followed(), st.integers(0, 9))
def test_candidates(drawn: tuple[list[list[int]], list[list[int]], list[int]], seed: int) -> None:
    nodes, labels, chosen = drawn
    train = Documents(TokenStore.of([[1]] * len(nodes)), labels_of(labels, 10))
    learner = LevelLearner(some_network(10), TREE.levels[1], train, beam_of(nodes), train, beam_of(nodes))
    found, relevant = learner.candidates(np.array(chosen), np.random.default_rng(seed))
    assert found.shape == relevant.shape == (len(chosen), 6 * max(map(len, nodes)))
    assert relevant.dtype == np.float32
    for row, answers, document in zip(found.tolist(), relevant.tolist(), chosen, strict=True):
        children = [child for node in nodes[document] for child in TREE.children(1, node).tolist()]
        assert row[: len(children)] == children
        assert set(row) <= set(range(10))
        assert answers == [float(label in labels[document]) for label in row]


def test_what_fills_up_candidates_is_random(two_levels: TwoLevels) -> None:
    train = Documents(TokenStore.of([[1]] * 50), labels_of([[]] * 50, 10))
    learner = LevelLearner(two_levels.lower, TREE.levels[1], train, beam_of([[1]] * 50), train, beam_of([[1]]))
    found, _ = learner.candidates(np.arange(50), np.random.default_rng(0))
    assert (found[:, 0] == 0).all()
    assert set(found[:, 1:].ravel().tolist()) == set(range(10))


@pytest.mark.parametrize("first", [True, False])
def test_scores_of_children_are_those_of_scoring_everything(two_levels: TwoLevels, first: bool) -> None:
    network, level = (two_levels.upper, TREE.levels[0]) if first else (two_levels.lower, TREE.levels[1])
    tokens, documents = two_levels.documents.tokens, np.array([7, 3, 11])
    rows, nodes = (np.arange(3), np.zeros(3, np.int64)) if first else (np.array([0, 0, 0, 2]), np.array([3, 2, 0, 1]))
    found = children_scores(network, level, tokens, documents, rows, nodes, quantized=False)
    everything = exhaustive(network, tokens, first)
    children = [level.indices[level.indptr[node] : level.indptr[node + 1]] for node in nodes]
    expected = [everything[documents[row], child] for row, each in zip(rows, children, strict=True) for child in each]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_documents_and_nodes_without_children() -> None:
    network, tokens = some_network(10), TokenStore.of([[1, 2], [3]])
    nothing = np.zeros(0, np.int64)
    for rows, nodes in [(nothing, nothing), (np.array([0]), np.array([2]))]:
        assert children_scores(network, TREE.levels[1], tokens, np.arange(2), rows, nodes, quantized=False).size == 0
    beam = expand_beam(network, TREE.levels[1], tokens, beam_of([[2], [1]]), 2, HERE)
    assert beam.nodes.tolist() == [[-1, -1], [0, -1]]


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_still_give_an_order(two_levels: TwoLevels, poison: float) -> None:
    with torch.no_grad():
        two_levels.lower.head.output.bias.fill_(poison)
    _, found = two_levels.search(beam=4, k=10)
    assert (np.sort(found.nodes) == np.arange(10)).all()
    assert np.isfinite(found.scores).all()


@pytest.mark.parametrize("most_scores", [4_000_000, 11, 1])
def test_a_wide_beam_finds_what_scoring_everything_finds(
    two_levels: TwoLevels, monkeypatch: pytest.MonkeyPatch, most_scores: int
) -> None:
    monkeypatch.setattr(levels, "MAX_SCORES", most_scores)
    tokens = two_levels.documents.tokens
    above, found = two_levels.search(beam=4, k=10)
    upper, lower = exhaustive(two_levels.upper, tokens, True), exhaustive(two_levels.lower, tokens, False)
    parent = {child: node for node in range(4) for child in TREE.children(1, node).tolist()}
    chained = lower + upper[:, [parent[label] for label in range(10)]]
    assert (np.sort(above.nodes) == np.arange(4)).all()
    assert (np.sort(found.nodes) == np.arange(10)).all()
    np.testing.assert_allclose(found.scores, np.take_along_axis(chained, found.nodes, 1), rtol=1e-4, atol=1e-5)
    assert (np.diff(found.scores) <= 0).all()


def test_a_chained_score_is_never_above_the_parents(two_levels: TwoLevels) -> None:
    above, found = two_levels.search(beam=2, k=4)
    for row in range(len(found.nodes)):
        parents = dict(zip(above.nodes[row].tolist(), above.scores[row].tolist(), strict=True))
        for label, score in zip(found.nodes[row].tolist(), found.scores[row].tolist(), strict=True):
            if label >= 0:
                above_it = next(node for node in parents if label in TREE.children(1, node))
                assert score <= parents[above_it] <= 0
    assert (found.nodes >= 0).any()
    assert (found.nodes == -1).any()


def test_several_cores_find_the_same(two_levels: TwoLevels) -> None:
    from xmtc.nn.parallel import torch_threads

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        tokens, above = two_levels.documents.tokens, two_levels.search(3, 1)[0]
        with torch_threads() as cores:
            assert cores.count == 2
            found = expand_beam(two_levels.lower, TREE.levels[1], tokens, above, 4, cores)
    finally:
        torch.set_num_threads(threads)
    expected = two_levels.search(3, 4)[1]
    assert np.array_equal(found.nodes, expected.nodes)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def binary_cross_entropy(logits: NDArray[Any], relevant: NDArray[Any]) -> float:
    probabilities = 1 / (1 + np.exp(-logits.astype(np.float64)))
    return float(-np.mean(relevant * np.log(probabilities) + (1 - relevant) * np.log(1 - probabilities)))


def loss_of(learner: LevelLearner, documents: Ints, seed: int) -> float:
    """Without dropout; the seed is for candidates."""
    return learner.loss(learner.batch(documents, np.random.default_rng(seed)), Worker(len(documents))).item()


def test_loss_of_the_first_level_is_over_all_nodes() -> None:
    train = some_documents(20)
    learner = LevelLearner(
        some_network(10),
        LabelTree.of([[list(range(10))]]).levels[0],
        train,
        Beam.at_root(20),
        train,
        Beam.at_root(20),
    )
    documents = np.array([4, 9, 0])
    with torch.no_grad():
        logits = learner.network(*padded(train.tokens, documents)).numpy()
    expected = binary_cross_entropy(logits, train.targets.toarray()[documents])
    assert loss_of(learner, documents, 0) == pytest.approx(expected, rel=1e-5)
    assert learner.share_of_positives() == pytest.approx(train.targets.toarray().mean())


def test_loss_further_down_is_over_candidates(two_levels: TwoLevels) -> None:
    learner, documents = two_levels.learner(), np.array([4, 9, 0])
    chosen, relevant = learner.candidates(documents, np.random.default_rng(5))
    with torch.no_grad():
        ids, lengths = padded(two_levels.documents.tokens, documents)
        logits = learner.network(ids, lengths, torch.from_numpy(chosen)).numpy()
    assert loss_of(learner, documents, 5) == pytest.approx(binary_cross_entropy(logits, relevant), rel=1e-5)
    assert loss_of(learner, documents, 6) != loss_of(learner, documents, 5)


@pytest.mark.parametrize("first", [True, False])
def test_the_loss_does_not_depend_on_threads(first: bool) -> None:
    documents = some_documents(20)
    flat = LabelTree.of([[list(range(10))]]).levels[0]
    beam = Beam.at_root(20) if first else beam_of([[0, 3]] * 20)
    network = some_network(10, dropout=0.3)
    learner = LevelLearner(network, flat if first else TREE.levels[1], documents, beam, documents, beam)
    assert_same_in_threads(learner, [4, 9, 0, 11, 17, 3, 2])


def test_share_of_positives_further_down_is_that_of_candidates(two_levels: TwoLevels) -> None:
    learner = two_levels.learner()
    everyone: Ints = np.arange(150)
    shares = [learner.candidates(everyone, np.random.default_rng(seed))[1].mean() for seed in range(20)]
    assert learner.share_of_positives() == pytest.approx(np.mean(shares), abs=0.01)
    assert 0.05 < learner.share_of_positives() < 0.5


@given(st.integers(0, 100), st.integers(1, 12))
@settings(max_examples=15)
def test_quality_is_ndcg_the_documents_that_have_labels(seed: int, count: int) -> None:
    setup = TwoLevels(some_network(4, seed), some_network(10, seed + 1), some_documents(count, seed))
    learner, targets = setup.learner(), setup.documents.targets
    labelled = int((np.diff(targets.indptr) > 0).sum())
    found = expand_beam(setup.lower, TREE.levels[1], setup.documents.tokens, learner.valid_beam, 5, HERE)
    names = LabelSet.of(f"label {at}" for at in range(10))
    truth = Corpus(targets, names, texts=Corpus.of(["text"] * count).texts)
    valid = RankingMetrics.of(Predictions(found.nodes, found.scores, names), truth)
    validation_ndcg = learner.validation_ndcg(HERE)
    if not labelled:
        assert validation_ndcg is None
    else:
        # The metric counts a document without labels as 0; there it says nothing about the weights.
        assert validation_ndcg == pytest.approx(valid.metrics([5])["nDCG@5"] * count / labelled)


def test_without_labels_there_is_no_quality(two_levels: TwoLevels) -> None:
    bare = Documents(TokenStore.of([[1], [2]]), labels_of([[], []], 10))
    nobody = Documents(TokenStore.of([]), labels_of([], 10))
    assert two_levels.learner(valid=bare).validation_ndcg(HERE) is None
    assert two_levels.learner(valid=nobody).validation_ndcg(HERE) is None


@pytest.mark.parametrize("first", [True, False])
def test_documents_without_labels_are_learned_from_too(two_levels: TwoLevels, first: bool) -> None:
    bare = Documents(TokenStore.of([[1], [2, 3]]), labels_of([[], []], 10))
    level = LabelTree.of([[list(range(10))]]).levels[0] if first else TREE.levels[1]
    beam = Beam.at_root(2) if first else beam_of([[0], [3]])
    learner = LevelLearner(two_levels.lower, level, bare, beam, bare, beam)
    low = loss_of(learner, np.arange(2), 0)
    two_levels.lower.init_output_bias(1e-4)
    assert 0 < loss_of(learner, np.arange(2), 0) < low
    assert learner.share_of_positives() == 0
