"""Rank-AE's network and loss: each term by itself, candidates, and that the latents cannot collapse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from split_batches import assert_same_in_threads
from torch import Tensor
from torch.nn import functional

from xmtc.corpus.corpus import label_matrix, take_rows
from xmtc.models.rank_ae import network as autoencoder
from xmtc.models.rank_ae.dual_attention import Bags
from xmtc.models.rank_ae.loss import ranking_loss
from xmtc.models.rank_ae.model import RankAeConfig
from xmtc.models.rank_ae.network import AutoEncoder, AutoEncoderLearner, best_labels, standardised
from xmtc.nn.batching import Entries
from xmtc.nn.datasets import Examples
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.layers import seeded
from xmtc.nn.parallel import Cores, Worker

PLAIN: dict[str, Any] = {
    **{"latent": 3, "hidden": 6, "ratio": 2, "x_loss": "ranking", "normalise": False, "balance": 0.5, "x_decode": 0.0},
    **{"standardise": False, "denoise": 0.0, "feature_noise": 0.0, "dropout": 0.0},
}
DOCUMENTS = np.arange(4)
RIGHT = torch.tensor([[1.0, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
PLACES = RIGHT.nonzero()[:, 0], RIGHT.nonzero()[:, 1]


def learner(sparse: bool = False, **changes: Any) -> AutoEncoderLearner:
    features = csr_array(np.array([[1, 2, 0], [0, 3, 0], [0, 0, 0], [1, 1, 1]], np.float32))
    targets = label_matrix([0, 2, 1, 0, 1, 2, 3, 4], np.array([0, 2, 3, 3, 8]), 5)
    torch.manual_seed(1)
    config, table = RankAeConfig(**{**PLAIN, **changes}), torch.randn(3, 4)
    with seeded(0):
        network = AutoEncoder(table, 5, config, sparse)
    rows = Examples(features, targets)
    return AutoEncoderLearner(network, rows, rows, config)


def loss_of(made: AutoEncoderLearner, documents: NDArray[np.int64] = DOCUMENTS, seed: int = 0) -> Tensor:
    batch = made.batch(documents, np.random.default_rng(seed))
    return made.loss(batch, Worker(len(documents), DropoutRng(seed)))


def parts(made: AutoEncoderLearner) -> tuple[Tensor, Tensor]:
    """F(x) and E(y), the latter from the dense label matrix."""
    network = made.network
    points = network.place(Bags.of(made.train.features))
    return points, network.encoded(torch.relu(RIGHT @ network.encoder.weight + network.encoder_bias))


@pytest.mark.parametrize(("activation", "function"), [("relu", torch.relu), ("tanh", torch.tanh)])
def test_encoder_and_decoder_are_two_layers_with_an_activation_between(
    activation: str, function: Callable[[Tensor], Tensor]
) -> None:
    network = learner(activation=activation).network
    codes = network.encoded(function(RIGHT @ network.encoder.weight + network.encoder_bias))
    relevant = label_matrix([0, 2, 1, 0, 1, 2, 3, 4], np.array([0, 2, 3, 3, 8]), 5)
    torch.testing.assert_close(network.encode(Entries.of(relevant)), codes)
    scores = function(network.decoder(codes)) @ network.scores.weight.T + network.biases.weight[:, 0]
    torch.testing.assert_close(network.decode(codes), scores)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("output", ["raw", "sigmoid"])
def test_the_loss_is_the_sum_of_its_terms(output: str, normalise: bool) -> None:
    made = learner(output=output, normalise=normalise, x_decode=0.25)
    points, codes = parts(made)
    expected = functional.mse_loss(points, codes)
    for weight, latent in ((0.5, codes), (0.25, points)):
        scores = made.network.decode(latent)
        shown = scores.sigmoid() if output == "sigmoid" else scores
        expected = expected + weight * ranking_loss(shown, *PLACES, 1.0, normalise).mean()
    torch.testing.assert_close(loss_of(made), expected)


@pytest.mark.parametrize("normalise", [False, True])
def test_cross_entropy_instead_of_ranking(normalise: bool) -> None:
    """Documents without labels, or with all of them, have none of it, as with the ranking loss."""
    made = learner(loss="bce", x_loss="bce", x_decode=0.25, normalise=normalise)
    points, codes = parts(made)
    expected = functional.mse_loss(points, codes)
    for weight, latent in ((0.5, codes), (0.25, points)):
        scores = made.network.decode(latent)[:2]
        total = functional.binary_cross_entropy_with_logits(scores, RIGHT[:2], reduction="sum")
        expected = expected + weight * total / (RIGHT.sum() if normalise else len(DOCUMENTS))
    torch.testing.assert_close(loss_of(made), expected)


def test_each_path_has_its_own_loss() -> None:
    losses = {
        loss_of(made).item()
        for made in (learner(loss=a, x_loss=b, x_decode=1.0) for a in ("ranking", "bce") for b in ("ranking", "bce"))
    }
    assert len(losses) == 4


def test_standardised_codes() -> None:
    made = learner(standardise=True)
    points, codes = parts(made)
    codes = standardised(codes, codes)
    torch.testing.assert_close(codes.mean(0), torch.zeros(3))
    scores = made.network.decode(codes)
    expected = functional.mse_loss(points, codes) + 0.5 * ranking_loss(scores, *PLACES, 1.0).mean()
    torch.testing.assert_close(loss_of(made), expected)


def test_standardised_codes_cannot_collapse() -> None:
    """Making E's points smaller lowers the loss between the latents, unless they are standardised."""

    def distance(shrunk: float, standardise: bool) -> float:
        made = learner(standardise=standardise, balance=1e-9)
        with torch.no_grad():
            for layer in (made.network.encoded, made.network.to_latent):
                layer.weight.mul_(shrunk)
                layer.bias.mul_(shrunk)
        return loss_of(made).item()

    assert distance(0.1, standardise=False) < 0.02 * distance(1.0, standardise=False)
    assert distance(0.1, standardise=True) > 0.5


def test_one_document_is_a_batch() -> None:
    made = learner(standardise=True)
    loss = loss_of(made, np.array([0]))
    gradients = torch.autograd.grad(loss, list(made.network.parameters()))
    assert all(torch.isfinite(gradient.to_dense()).all() for gradient in gradients)


@pytest.mark.parametrize(
    ("changes", "same"), [({}, True), ({"denoise": 0.5}, False), ({"dropout": 0.5}, False)], ids=str
)
def test_chance_has_a_part_only_where_it_is_asked_for(changes: dict[str, Any], same: bool) -> None:
    made = learner(**changes)
    losses = {loss_of(made, seed=seed).item() for seed in range(5)}
    assert (len(losses) == 1) is same


#: Everything that is left to chance.
NOISY: dict[str, Any] = {"standardise": True, "denoise": 0.3, "feature_noise": 0.2, "dropout": 0.3, "x_decode": 2.0}


def many(sparse: bool = False, **changes: Any) -> AutoEncoderLearner:
    """A learner with more documents, one without labels; unless candidates are scored, another has all of them."""
    rng = np.random.default_rng(0)
    features = csr_array((rng.random((13, 9)) * (rng.random((13, 9)) < 0.5)).astype(np.float32))
    relevant = rng.random((13, 40)) < 0.1
    relevant[4] = False
    relevant[7] |= not sparse
    config, rows = (
        RankAeConfig(**{**PLAIN, **NOISY, **changes}),
        Examples(features, csr_array(relevant.astype(np.float32))),
    )
    with seeded(0):
        network = AutoEncoder(torch.randn(9, 4), 40, config, sparse)
    return AutoEncoderLearner(network, rows, rows, config)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"normalise": True},
        {"loss": "bce", "x_loss": "bce"},
        {"loss": "bce", "x_loss": "bce", "normalise": True},
        {"output": "sigmoid", "standardise": False},
        {"feature_dropout": 0.4, "attention": False},
        {"sparse": True, "negative_samples": 5, "normalise": True},
        {"sparse": True, "negative_samples": 5, "loss": "bce", "x_loss": "bce"},
    ],
    ids=str,
)
def test_loss_and_gradients_do_not_depend_on_how_a_batch_is_split(changes: dict[str, Any]) -> None:
    made, documents = many(**changes), np.random.default_rng(1).permutation(13)
    candidates = made.batch(documents, np.random.default_rng(0)).candidates
    assert candidates is None or len(candidates) < 40
    assert_same_in_threads(made, documents)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["ranking", "bce"])
def test_all_is_computed_where_the_network_is(loss: str, sparse: bool) -> None:
    """The meta device computes shapes; it refuses tensors of the CPU, and gives nothing back."""
    made = many(sparse, loss=loss, x_loss=loss, normalise=True, negative_samples=5)
    batch, meta = made.batch(np.arange(13), np.random.default_rng(0)), torch.device("meta")
    made.network.to(meta)
    made.loss(batch.to(meta), Worker(13, DropoutRng(0))).backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None for weight in made.network.parameters())


def test_denoising_hides_labels_from_the_encoder_only() -> None:
    made = learner(denoise=0.999999)  # all are hidden
    points = made.network.place(Bags.of(made.train.features))
    codes = made.network.encoded(torch.relu(made.network.encoder_bias)).expand(4, -1)
    expected = ranking_loss(made.network.decode(codes), *PLACES, 1.0).mean()
    torch.testing.assert_close(loss_of(made), functional.mse_loss(points, codes) + 0.5 * expected)


def test_candidates_that_are_all_labels_give_the_same_loss_and_gradients() -> None:
    dense, sparse = learner(), learner(sparse=True, negative_samples=200)
    chosen, columns = sparse.candidates(sparse.train.targets, np.random.default_rng(0))
    assert chosen is not None
    assert chosen.tolist() == [0, 1, 2, 3, 4]
    assert columns.tolist() == sparse.train.targets.indices.tolist()
    losses = [loss_of(each) for each in (dense, sparse)]
    torch.testing.assert_close(*losses)
    both = [
        torch.autograd.grad(loss, list(each.network.parameters()))
        for loss, each in zip(losses, (dense, sparse), strict=True)
    ]
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(*(gradient.to_dense() for gradient in (one, other)))


def test_candidates_hold_the_right_labels_of_the_batch() -> None:
    made = learner(sparse=True, negative_samples=1)
    relevant = take_rows(made.train.targets, np.array([0, 1]))
    for seed in range(9):
        chosen, columns = made.candidates(relevant, np.random.default_rng(seed))
        assert chosen is not None
        assert 3 <= len(chosen) <= 4
        assert chosen[columns].tolist() == [0, 2, 1]


def test_best_labels_a_few_documents_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = learner()
    expected = best_labels(made.network, made.train.features, 3, Cores(None, 1))
    monkeypatch.setattr(autoencoder, "MAX_SCORES", 5)
    found = best_labels(made.network, made.train.features, 3, Cores(None, 1))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
    assert (np.diff(found[1]) <= 0).all()


def test_scores_begin_with_how_frequent_labels_are() -> None:
    made = learner()
    with torch.no_grad():
        made.network.scores.weight.zero_()
    shares = np.array([0.1, 0.2, 0.5, 0.9, 0.01])
    made.network.init_output_bias(shares)
    scores = made.network(Bags.of(made.train.features))
    np.testing.assert_allclose(scores.sigmoid().detach().numpy(), np.tile(shares, (4, 1)), rtol=1e-5)


def test_validation_ndcg_is_none_without_labels() -> None:
    made = learner()
    assert 0 <= (made.validation_ndcg(Cores(None, 1)) or -1) <= 1
    made.valid_targets = label_matrix([], np.zeros(5, np.int64), 5)
    assert made.validation_ndcg(Cores(None, 1)) is None
