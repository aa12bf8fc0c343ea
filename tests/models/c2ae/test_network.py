"""C2AE's losses against loops, and its network."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from split_batches import assert_same_in_threads
from torch import Tensor

from xmtc.corpus.sparse import make_csr
from xmtc.models.c2ae.network import Bag, CoupledAutoencoder, CoupledLearner, link_loss, pair_loss
from xmtc.nn.batching import Entries
from xmtc.nn.datasets import Examples
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.layers import seeded
from xmtc.nn.parallel import Cores, Worker


def pairs_in_loops(scores: list[list[float]], relevant: list[list[bool]]) -> list[float]:
    found = []
    for row, is_hit in zip(scores, relevant, strict=True):
        ours = [score for score, yes in zip(row, is_hit, strict=True) if yes]
        others = [score for score, yes in zip(row, is_hit, strict=True) if not yes]
        losses = [math.exp(-(p - n)) for p in ours for n in others]
        found.append(sum(losses) / len(losses) if losses else 0.0)
    return found


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 7))
def test_pair_loss_is_that_of_all_pairs(seed: int, documents: int, labels: int) -> None:
    rng = np.random.default_rng(seed)
    scores, relevant = rng.normal(0, 2, (documents, labels)), rng.random((documents, labels)) < 0.4
    found = pair_loss(torch.from_numpy(scores), torch.from_numpy(relevant)).tolist()
    assert found == pytest.approx(pairs_in_loops(scores.tolist(), relevant.tolist()), rel=1e-6, abs=1e-9)


def test_gradient_of_the_pair_loss() -> None:
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(rng.normal(size=(4, 6))).requires_grad_()
    relevant = torch.from_numpy(rng.random((4, 6)) < 0.4)
    relevant[0], relevant[1] = False, True  # documents without right, and without wrong labels
    assert torch.autograd.gradcheck(lambda values: pair_loss(values, relevant), scores)
    (gradient,) = torch.autograd.grad(pair_loss(scores, relevant).sum(), scores)
    assert not gradient[:2].any()
    assert gradient[2:].any(dim=1).all()


def test_documents_without_pairs_are_not_in_the_way_whatever_their_scores() -> None:
    scores = torch.tensor([[1e3, -1e3, 5e2], [-1e3, 1e3, 2e3], [0.5, 0.0, 1.0]], requires_grad=True)
    relevant = torch.tensor([[False, False, False], [True, True, True], [True, False, False]])
    losses = pair_loss(scores, relevant)
    (gradient,) = torch.autograd.grad(losses.sum(), scores)
    assert losses[:2].tolist() == [0.0, 0.0]
    assert not gradient[:2].any()
    assert losses[2].item() == pytest.approx((math.exp(-0.5) + math.exp(0.5)) / 2, rel=1e-6)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (1, 4), (4, 4)])
@pytest.mark.parametrize("lagrange", [0.0, 0.5])
def test_link_loss_is_that_of_the_paper(shape: tuple[int, int], lagrange: float) -> None:
    rng = np.random.default_rng(1)
    documents, latent = shape
    x, e = rng.normal(size=shape), rng.normal(size=shape)
    expected = sum((x[i, j] - e[i, j]) ** 2 for i in range(documents) for j in range(latent)) / (documents * latent)
    for each in (x, e):
        for a in range(latent):
            for b in range(latent):
                covariance = sum(each[i, a] * each[i, b] for i in range(documents)) / documents
                expected += lagrange * (covariance - (a == b)) ** 2 / latent
    assert link_loss(torch.from_numpy(x), torch.from_numpy(e), lagrange).item() == pytest.approx(expected)


def test_a_bag_is_a_linear_layer() -> None:
    rows = csr_array(np.array([[0, 2, 0], [1, 0, -1], [0, 0, 0]], np.float32))
    bag = Bag(3, 4)
    with torch.no_grad():
        bag.bias.fill_(0.5)
        expected = torch.from_numpy(rows.toarray()) @ bag.weights.weight + 0.5
        torch.testing.assert_close(bag(Entries.of(rows)), expected)


def examples(documents: int = 12, features: int = 7, labels: int = 5) -> Examples:
    rng = np.random.default_rng(2)
    targets = csr_array((rng.random((documents, labels)) < 0.4).astype(np.float32))
    return Examples(csr_array((rng.random((documents, features)) < 0.5).astype(np.float32)), targets)


def network(dropout: float = 0.0) -> CoupledAutoencoder:
    with seeded(0):
        return CoupledAutoencoder(7, 5, latent=3, hidden=6, dropout=dropout)


def test_best_is_the_decoder_of_the_features() -> None:
    made, documents = network(), examples()
    with torch.no_grad():
        made.output.bias.copy_(torch.arange(5) / 7)
        every = made.output(made.decoded(made.of_features(Entries.of(documents.features)))).numpy()
    ids, scores = made.best(documents.features, 3)
    np.testing.assert_array_equal(ids, np.argsort(-every, axis=1, kind="stable")[:, :3])
    np.testing.assert_allclose(scores, np.take_along_axis(every, ids.astype(np.int64), 1), rtol=1e-5, atol=1e-6)
    assert made.best(documents.features[:0], 3)[0].shape == (0, 3)


def loss_of(learner: CoupledLearner, seed: int = 0) -> Tensor:
    batch = learner.batch(np.arange(12), np.random.default_rng(seed))
    return learner.loss(batch, Worker(12, DropoutRng(seed)))


def test_the_loss_is_made_of_its_parts() -> None:
    made, documents = network(), examples()
    losses = [loss_of(CoupledLearner(made, documents, documents, alpha, 0.5)).item() for alpha in (0.0, 1.0, 3.0)]
    assert losses[2] - losses[0] == pytest.approx(3 * (losses[1] - losses[0]), rel=1e-3)
    rows = np.repeat(np.arange(12), np.diff(documents.targets.indptr))
    relevant = torch.from_numpy(documents.targets.toarray() > 0)
    bags = documents.targets.copy()
    bags.data = (1 / np.sqrt(np.bincount(rows, minlength=12)[rows])).astype(np.float32)
    pairs = pair_loss(made.output(made.decoded(made.of_labels(Entries.of(bags)))), relevant).mean().item()
    assert losses[1] - losses[0] == pytest.approx(pairs / 3, rel=1e-3), "alpha is meant beside a sum over 3 dimensions"
    without = loss_of(CoupledLearner(made, documents, documents, 1.0, 0.0)).item()
    assert without < losses[1]


def test_dropout_is_drawn_for_the_features() -> None:
    learner = CoupledLearner(network(0.5), examples(), examples(), 1.0, 0.5)
    losses = [loss_of(learner, seed).item() for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize("latent", [3, 20], ids=["few dimensions", "few documents"])
def test_loss_and_gradients_do_not_depend_on_how_a_batch_is_split(latent: int) -> None:
    targets = examples().targets.toarray()
    targets[0], targets[5] = 0, 1
    documents = Examples(examples().features, csr_array(targets))
    with seeded(0):
        made = CoupledAutoencoder(7, 5, latent, hidden=6, dropout=0.5)
    assert_same_in_threads(
        CoupledLearner(made, documents, documents, 2.0, 0.5), np.random.default_rng(1).permutation(12)
    )


def test_all_is_computed_where_the_network_is() -> None:
    """The meta device computes shapes; it refuses tensors of the CPU, and gives nothing back."""
    learner = CoupledLearner(network(0.5), examples(), examples(), 1.0, 0.5)
    batch, meta = learner.batch(np.arange(12), np.random.default_rng(0)), torch.device("meta")
    learner.network.to(meta)
    learner.loss(batch.to(meta), Worker(12, DropoutRng(0))).backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None for weight in learner.network.parameters())


def test_all_weights_learn() -> None:
    learner = CoupledLearner(network(), examples(), examples(), 1.0, 0.5)
    loss_of(learner).backward()  # type: ignore[no-untyped-call]
    for name, weight in learner.network.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.to_dense().any(), name


def test_quality_needs_labels() -> None:
    documents = examples()
    nothing = make_csr(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(13, np.int32), (12, 5))
    without = Examples(documents.features, nothing)
    assert CoupledLearner(network(), documents, without, 1.0, 0.5).validation_ndcg(Cores(None, 1)) is None
    found = CoupledLearner(network(), documents, documents, 1.0, 0.5).validation_ndcg(Cores(None, 1))
    assert found is not None
    assert 0 < found < 1
