"""LightXML's network on a tiny encoder, and its choice of candidates against a slow one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from meta_device import assert_stays_on_the_device
from numpy.typing import NDArray
from scipy.sparse import csr_array
from split_batches import assert_same_in_threads
from torch.nn import functional

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.labels import Csr
from xmtc.corpus.strings import Strings
from xmtc.labelspace.tree import LabelTree
from xmtc.models.lightxml import network as light_network
from xmtc.models.lightxml.network import LightLearner, LightNetwork, best_labels, candidates_of
from xmtc.nn.datasets import LabelledTexts
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.encoders.encoder import Encoder, EncoderTexts
from xmtc.nn.encoders.pretrained import load_pretrained
from xmtc.nn.encoders.settings import EncoderSettings, TransformerTraining
from xmtc.nn.layers import seeded
from xmtc.nn.metrics import is_relevant
from xmtc.nn.parallel import Worker, torch_threads
from xmtc.nn.trainer import train
from xmtc.search.beam import children_of
from xmtc.text.token_store import TokenStore

Maker = Callable[[str], Path]
WORDS = ["ship", "bread", "cloud", "storm", "butter", "captain", "soup"]
TEXTS = [f"{one} {two}" for one in WORDS for two in WORDS]
LABELS = np.array([[word in text.split() for word in WORDS] for text in TEXTS], np.float32)
FLAT = LabelTree.of([[list(range(7))]])
CLUSTERS = LabelTree.of([[[1, 0, 2]], [[5, 0], [3, 1, 6], [2, 4]]])


def learner(folder: Path, tree: LabelTree, beam_width: int = 2, layers: int = 2) -> LightLearner:
    loaded = load_pretrained(str(folder))
    encoder = Encoder.of(loaded, EncoderSettings(max_tokens=32, pooling="first", precision="single"), layers)
    with seeded(3):
        network = LightNetwork(encoder, tree, bottleneck=5, dropout=0.3)
    texts = EncoderTexts(loaded.tokenizer.encode(Strings.of(TEXTS), 32))
    documents = LabelledTexts(texts, csr_array(LABELS))
    return LightLearner(network, documents, documents, beam_width)


def slow_candidates(
    tree: LabelTree, logits: torch.Tensor, targets: Csr, beam_width: int
) -> list[tuple[list[int], list[bool]]]:
    """Of each document (labels, whether they are right), as it was done before there were GPUs."""
    documents, beam_width = len(logits), min(beam_width, logits.shape[1])
    raised = torch.sigmoid(logits) + torch.from_numpy(tree.targets(targets)[0].toarray())
    nodes = raised.topk(beam_width, dim=1).indices.numpy()
    sizes, children = children_of(tree.levels[1], nodes.ravel())
    each = sizes.reshape(documents, beam_width).sum(1)
    present = np.arange(each.max(initial=1)) < each[:, None]
    chosen = np.zeros(present.shape, np.int64)
    chosen[present] = children
    relevant = is_relevant(targets, chosen) & present
    counts = np.diff(targets.indptr)
    for row in np.flatnonzero(relevant.sum(1) < counts).tolist():
        own = targets.indices[targets.indptr[row] : targets.indptr[row + 1]]
        missed = np.setdiff1d(own, chosen[row, relevant[row]], assume_unique=True)
        places = np.flatnonzero(present[row] & ~relevant[row])[::-1][: len(missed)]
        chosen[row, places] = missed[: len(places)]
        relevant[row, places] = True
    return [(chosen[row][inside].tolist(), relevant[row][inside].tolist()) for row, inside in enumerate(present)]


def fast_candidates(
    made: LightLearner, logits: torch.Tensor, documents: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Labels, whether they are right, whether they are any; each (documents, candidates)."""
    batch, clusters = made.batch(documents, np.random.default_rng(0)), made.network.tree.levels[0].shape[1]
    assert batch.slots is not None
    above = torch.zeros(len(documents), clusters)
    above[batch.above.rows, batch.above.columns] = 1
    labels, sizes = made.network.cluster_labels, made.network.cluster_sizes
    found = candidates_of(labels, sizes, logits, above, batch.slots, made.beam_width)
    return found[0].numpy(), found[1].numpy(), found[2].numpy()


@pytest.fixture(scope="module")
def small_encoder(tiny_encoder: Maker) -> Encoder:
    return learner(tiny_encoder("bert"), FLAT).network.encoder


@pytest.fixture
def folder(tiny_encoder: Maker) -> Path:
    return tiny_encoder("bert")


@some.composite
def cases(draw: some.DrawFn) -> tuple[LabelTree, torch.Tensor, Csr, int]:
    """A tree, scores of its clusters, which labels documents have, and how many clusters are looked into."""
    rng = np.random.default_rng(draw(some.integers(0, 2**32)))
    clusters = draw(some.integers(1, 5))
    labels = clusters + draw(some.integers(0, 9))
    ends = np.sort(rng.choice(np.arange(1, labels), clusters - 1, replace=False))
    parts = [part.tolist() for part in np.split(rng.permutation(labels), ends)]
    tree = LabelTree.of([[rng.permutation(clusters).tolist()], parts])
    documents = draw(some.integers(1, 4))
    relevant = rng.random((documents, labels)) < draw(some.sampled_from([0.0, 0.2, 0.7]))
    logits = torch.from_numpy(rng.normal(size=(documents, clusters)).astype(np.float32))
    return tree, logits, csr_array(relevant.astype(np.float32)), draw(some.integers(1, 6))


@given(case=cases())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_candidates(small_encoder: Encoder, case: tuple[LabelTree, torch.Tensor, Csr, int]) -> None:
    tree, logits, targets, beam_width = case
    above, documents = tree.targets(targets)[0], np.arange(len(logits))
    texts = EncoderTexts(TokenStore.of([[1]] * len(logits)))
    known = LabelledTexts(texts, targets)
    made = LightLearner(LightNetwork(small_encoder, tree, 3, 0.0), known, known, beam_width)
    chosen, relevant, present = fast_candidates(made, logits, documents)
    found_before = slow_candidates(tree, logits, targets, beam_width)
    inside = zip(chosen, relevant, present, strict=True)
    assert [(labels[here].tolist(), right[here].tolist()) for labels, right, here in inside] == found_before
    for row in range(len(logits)):
        own = set(targets.indices[targets.indptr[row] : targets.indptr[row + 1]].tolist())
        chance_of = torch.sigmoid(logits[row]).numpy() + above.toarray()[row]
        best = np.argsort(-chance_of, kind="stable")[:beam_width]
        labels = [label for cluster in best for label in tree.children(1, int(cluster)).tolist()]
        found = chosen[row][present[row]].tolist()
        assert len(found) == len(labels) == len(set(found))
        assert {label for label, is_hit in zip(chosen[row], relevant[row], strict=True) if is_hit} == own & set(found)
        missed = own - set(labels)
        irrelevant = [label for label in labels if label not in own]
        assert len(own & set(found)) == min(len(own), len(labels))
        # The best clusters' wrong labels stay; the last ones gave way.
        kept = irrelevant[: max(0, len(irrelevant) - len(missed))]
        assert [label for label in found if label not in own] == kept
        assert not relevant[row][~present[row]].any()


def test_scores_against_a_loop(folder: Path) -> None:
    network = learner(folder, CLUSTERS).network
    vectors = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 32)).astype(np.float32))
    candidates = torch.tensor([[6, 0, 3], [1, 1, 2]])
    with torch.no_grad():
        found = network.discriminated(vectors, candidates)
        for row in range(2):
            point = network.bottleneck.weight @ vectors[row] + network.bottleneck.bias
            for place, label in enumerate(candidates[row].tolist()):
                assert float(found[row, place]) == pytest.approx(float(network.labels.weight[label] @ point), rel=1e-5)


def test_vectors_are_of_the_highest_layers(folder: Path) -> None:
    made = learner(folder, FLAT, layers=2)
    model = made.network.encoder.model
    ids = torch.tensor([made.train.texts.tokens[3].tolist()])
    with torch.no_grad():
        states = model(input_ids=ids, output_hidden_states=True).hidden_states
        expected = torch.cat([states[-2][0, 0], states[-1][0, 0]])
        found = made.network(made.network.encoder.batch(made.train.texts, np.array([3])))[0]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tree", [FLAT, CLUSTERS], ids=["flat", "clusters"])
def test_loss(folder: Path, tree: LabelTree) -> None:
    made, documents = learner(folder, tree), np.array([5, 9, 44])
    network, entropy = made.network, functional.binary_cross_entropy_with_logits
    batch = made.batch(documents, np.random.default_rng(0))
    vectors = network(batch.texts, DropoutRng(2))
    logits = network.generator(vectors)
    above = torch.from_numpy(tree.targets(csr_array(LABELS[documents]))[0].toarray())
    expected = entropy(logits, above)
    if tree.depth == 2:
        chosen, relevant, present = fast_candidates(made, logits, documents)
        terms = [
            entropy(
                network.labels.weight[chosen[row, at]] @ network.bottleneck(vectors[row]),
                torch.tensor(float(relevant[row, at])),
            )
            for row in range(3)
            for at in np.flatnonzero(present[row])
        ]
        expected = expected + torch.stack(terms).mean()
    loss = made.loss(batch, Worker(3, DropoutRng(2)))
    torch.testing.assert_close(loss, expected)
    loss.backward()  # type: ignore[no-untyped-call]
    if tree.depth == 2:
        assert network.labels.weight.grad is not None
        assert network.labels.weight.grad.is_sparse
        assert network.bottleneck.weight.grad is not None
    assert network.generator.weight.grad is not None


@pytest.mark.parametrize("tree", [FLAT, CLUSTERS], ids=["flat", "clusters"])
def test_threads_change_neither_loss_nor_gradients(folder: Path, tree: LabelTree) -> None:
    for beam_width in (1, 2):  # with one, right labels have no room
        assert_same_in_threads(learner(folder, tree, beam_width), [5, 9, 44, 8, 17, 30, 1])


@pytest.mark.parametrize("tree", [FLAT, CLUSTERS], ids=["flat", "clusters"])
def test_nothing_leaves_the_device_in_training(folder: Path, tree: LabelTree) -> None:
    assert_stays_on_the_device(learner(folder, tree), [5, 9, 44])


@pytest.mark.parametrize("tree", [FLAT, CLUSTERS], ids=["flat", "clusters"])
def test_a_training_with_two_bytes_a_number_is_near(folder: Path, tree: LabelTree) -> None:
    made = learner(folder, tree)
    batch = made.batch(np.array([5, 9, 44]), np.random.default_rng(0))
    expected = made.loss(batch, Worker(3, DropoutRng(2)))
    with torch.autocast("cpu", torch.bfloat16):
        found = made.loss(batch, Worker(3, DropoutRng(2)))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0)


@pytest.mark.parametrize("together", [1, 10**9])
@pytest.mark.parametrize("tree", [FLAT, CLUSTERS], ids=["flat", "clusters"])
def test_best_labels_are_those_of_scoring_all(
    folder: Path, tree: LabelTree, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(light_network, "MOST_NUMBERS", together)
    made = learner(folder, tree)
    with torch.no_grad():
        if tree.depth == 2:
            made.network.labels.weight *= 20  # lest all labels look alike
        vectors = made.network(made.network.encoder.batch(made.train.texts, np.arange(len(TEXTS))))
        probabilities = torch.sigmoid(made.network.generator(vectors)).numpy()  # (documents, clusters or labels)
        if tree.depth == 2:
            cluster_of = tree.levels[1].toarray().argmax(0)
            every = torch.arange(7).expand(len(TEXTS), 7)
            own = torch.sigmoid(made.network.discriminated(vectors, every)).numpy()
            probabilities = probabilities[:, cluster_of] * own
    with torch_threads() as cores:
        ids, scores = best_labels(made.network, made.train.texts, 3, 7, cores)
    np.testing.assert_array_equal(np.sort(ids, axis=1), np.tile(np.arange(7), (len(TEXTS), 1)))
    np.testing.assert_allclose(np.exp(scores), np.take_along_axis(probabilities, ids, 1), rtol=1e-4)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_a_narrow_beam_looks_into_the_best_clusters_alone(folder: Path) -> None:
    made = learner(folder, CLUSTERS)
    with torch_threads() as cores:
        ids, _ = best_labels(made.network, made.train.texts, 1, 7, cores)
    with torch.no_grad():
        batch = made.network.encoder.batch(made.train.texts, np.arange(len(TEXTS)))
        best = made.network.generator(made.network(batch)).argmax(1).tolist()
    for row, cluster in enumerate(best):
        assert {label for label in ids[row].tolist() if label >= 0} == set(CLUSTERS.children(1, cluster).tolist())


@pytest.mark.parametrize("tree", [FLAT, CLUSTERS], ids=["flat", "clusters"])
def test_it_learns(folder: Path, tree: LabelTree) -> None:
    made = learner(folder, tree)
    made.network.dropout = 0.0
    made.network.init_output_bias(0.3)
    settings = TransformerTraining(
        epochs=40, batch_size=7, learning_rate=0.03, encoder_learning_rate=0.003, evaluate_every=40, swa_start_epoch=30
    )
    train(made, settings, 0, Checkpoints(None, {}), "toy")
    with torch_threads() as cores:
        validation_ndcg = made.validation_ndcg(cores)
    assert validation_ndcg is not None
    assert validation_ndcg > 0.95


def test_new_networks(folder: Path) -> None:
    one, two = (learner(folder, CLUSTERS).network for _ in range(2))
    assert torch.equal(one.labels.weight, two.labels.weight)
    assert torch.equal(one.generator.weight, two.generator.weight)
    assert float(one.labels.weight.detach().abs().max()) <= np.sqrt(6 / (7 + 5))
    one.init_output_bias(0.1)
    torch.testing.assert_close(torch.sigmoid(one.generator.bias.detach()), torch.full((3,), 0.1))
    made = learner(folder, CLUSTERS)
    made.valid_targets = csr_array(np.zeros_like(LABELS))
    with torch_threads() as cores:
        assert made.validation_ndcg(cores) is None
