"""Adaptive clusters against the specification, document by document and label by label."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from xmtc.corpus.sparse import Csr
from xmtc.errors import ConfigError
from xmtc.models.aplc_xlnet import adaptive_clusters as module
from xmtc.models.aplc_xlnet.adaptive_clusters import AdaptiveClusters, ClusterTargets, Tail, binary_loss, product_logit
from xmtc.models.aplc_xlnet.costs import approximate_parameter_count, parameter_count, tail_widths
from xmtc.models.aplc_xlnet.label_clusters import FrequencyClusters
from xmtc.models.aplc_xlnet.network import loss_divisor
from xmtc.nn.serialization import load_weights, weights_of

LABELS, WIDTH = 12, 8
COUNTS = np.array([3, 50, 1, 7, 7, 90, 2, 2, 30, 1, 0, 5])
CUT_OFFS = [3, 7]  # head 5, 1, 8; first tail 3, 4, 11, 0; second tail 6, 7, 2, 9, 10
DOCUMENTS = [[5, 1, 4, 0, 6], [], [8], [7, 10], [3, 9, 2], list(range(LABELS))]


def some_layer(cut_offs: list[int] = CUT_OFFS, seed: int = 0, **options: bool) -> AdaptiveClusters:
    torch.manual_seed(seed)
    layer = AdaptiveClusters(FrequencyClusters.by_cut_offs(COUNTS, cut_offs), WIDTH, **options).double()
    for weight in layer.parameters():
        nn.init.normal_(weight)
    return layer


def some_hidden(documents: int = len(DOCUMENTS)) -> Tensor:
    return torch.randn(documents, WIDTH, dtype=torch.float64, requires_grad=True)


def targets(documents: list[list[int]], labels: int = LABELS) -> Csr:
    indptr = np.cumsum([0, *map(len, documents)])
    return csr_array(
        (np.ones(indptr[-1], np.float32), np.concatenate([*documents, []]).astype(int), indptr),
        shape=(len(documents), labels),
    )


def losses(layer: AdaptiveClusters, hidden: Tensor, documents: list[list[int]]) -> Tensor:
    found: Tensor = layer(hidden, ClusterTargets.of(targets(documents), layer.clusters))
    return found


def naive_own(layer: AdaptiveClusters, state: Tensor, label: int) -> Tensor:
    """A label's own logit: in a tail by projection, layer normalisation and ReLU."""
    cluster, place = layer.clusters.cluster_of[label], layer.clusters.place_of[label]
    if cluster == 0:
        return layer.head.weight[place] @ state
    tail = layer.tails[cluster - 1]
    assert isinstance(tail, Tail)
    value = tail.projection.weight @ state
    if tail.norm is None:
        return tail.labels.weight[place] @ value
    normed = (value - value.mean()) / (value.var(unbiased=False) + tail.norm.eps).sqrt()
    return tail.labels.weight[place] @ (normed * tail.norm.weight + tail.norm.bias).clamp(min=0)


def naive_probability(layer: AdaptiveClusters, state: Tensor, label: int) -> Tensor:
    cluster, own = layer.clusters.cluster_of[label], naive_own(layer, state, label).sigmoid()
    return own if cluster == 0 else own * (layer.root.weight[cluster - 1] @ state).sigmoid()


def naive_loss(layer: AdaptiveClusters, hidden: Tensor, documents: list[list[int]]) -> Tensor:
    means = []
    for state, relevant in zip(hidden, documents, strict=True):
        terms = []
        needed = {0, *layer.clusters.cluster_of[np.array(relevant, int)].tolist()}
        for label in range(layer.clusters.labels):
            if layer.clusters.cluster_of[label] in needed:
                p = naive_probability(layer, state, label)
                terms.append(-(p if label in relevant else 1 - p).log())
        others = set(range(1 + layer.clusters.tails)) - needed
        terms += [-(1 - (layer.root.weight[tail - 1] @ state).sigmoid()).log() for tail in others]
        means.append(torch.stack(terms).mean())
    return torch.stack(means).mean()


def gradients(loss: Tensor, layer: AdaptiveClusters, hidden: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [hidden, *layer.parameters()], allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize("cut_offs", [CUT_OFFS, [1], [2, 5, 11]], ids=str)
@pytest.mark.parametrize(
    "documents",
    [DOCUMENTS, [[], []], [[5, 1], [8], []], [[10], [7, 9]], [[0], [0, 3], [11]]],
    ids=["all kinds", "no labels", "only the head", "only the last tail", "only the first tail"],
)
def test_loss_and_gradients_are_those_of_the_specification(cut_offs: list[int], documents: list[list[int]]) -> None:
    layer, hidden = some_layer(cut_offs), some_hidden(len(documents))
    found, expected = losses(layer, hidden, documents).mean(), naive_loss(layer, hidden, documents)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found, layer, hidden), gradients(expected, layer, hidden))


def naive_equation_5(layer: AdaptiveClusters, hidden: Tensor, documents: list[list[int]]) -> Tensor:
    """The paper's objective: every comparison of every document counts the same; roots have no losses of their own."""
    terms = []
    for state, relevant in zip(hidden, documents, strict=True):
        needed = {0, *layer.clusters.cluster_of[np.array(relevant, int)].tolist()}
        for label in range(layer.clusters.labels):
            if layer.clusters.cluster_of[label] in needed:
                p = naive_probability(layer, state, label)
                terms.append(-(p if label in relevant else 1 - p).log())
    return torch.stack(terms).mean()


@pytest.mark.parametrize("cut_offs", [CUT_OFFS, [1], [2, 5, 11]], ids=str)
@pytest.mark.parametrize("documents", [DOCUMENTS, [[], []], [[5, 1], [8], []], [[10], [7, 9]]], ids=str)
def test_equation_5_of_the_paper_with_plain_tails(cut_offs: list[int], documents: list[list[int]]) -> None:
    layer = some_layer(cut_offs, plain_tails=True, root_negatives=False, sums=True)
    hidden = some_hidden(len(documents))
    divisor = loss_divisor(layer, targets(documents))
    found, expected = losses(layer, hidden, documents).mean() / divisor, naive_equation_5(layer, hidden, documents)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found, layer, hidden), gradients(expected, layer, hidden))


def test_without_sums_or_root_negatives_a_document_has_the_mean_over_its_labels() -> None:
    hidden, layer = some_hidden(1), some_layer(root_negatives=False)
    torch.testing.assert_close(losses(layer, hidden, [[5]])[0], naive_equation_5(layer, hidden, [[5]]))


@pytest.mark.parametrize("cut_offs", [CUT_OFFS, [1], [2, 5, 11]], ids=str)
def test_targets_can_be_cut_anywhere(cut_offs: list[int]) -> None:
    clusters = FrequencyClusters.by_cut_offs(COUNTS, cut_offs)
    whole = ClusterTargets.of(targets(DOCUMENTS), clusters)
    for start in range(len(DOCUMENTS)):
        for end in range(start + 1, len(DOCUMENTS) + 1):
            found, expected = whole.part(slice(start, end)), ClusterTargets.of(targets(DOCUMENTS[start:end]), clusters)
            for field in fields(ClusterTargets):
                one, other = getattr(found, field.name), getattr(expected, field.name)
                assert torch.equal(one, other) if isinstance(one, Tensor) else one == other, field.name


def test_without_tails_it_is_a_flat_layer() -> None:
    layer = AdaptiveClusters(FrequencyClusters.head_only(COUNTS), WIDTH).double()
    hidden = some_hidden()
    torch.testing.assert_close(losses(layer, hidden, DOCUMENTS).mean(), naive_loss(layer, hidden, DOCUMENTS))


def test_only_tails_with_a_right_label_are_touched() -> None:
    layer = some_layer()
    losses(layer, some_hidden(3), [[5], [], [3, 8]]).sum().backward()  # type: ignore[no-untyped-call]
    touched = {name for name, weight in layer.named_parameters() if weight.grad is not None}
    assert all(("tails.1" in name) != (name in touched) for name, _ in layer.named_parameters())


def test_a_tail_sees_only_the_documents_that_need_it() -> None:
    seen: list[tuple[int, ...]] = []
    layer = some_layer()
    for tail in layer.tails:
        tail.register_forward_hook(lambda _tail, _given, logits: seen.append(tuple(logits.shape)))
    losses(layer, some_hidden(), DOCUMENTS)
    assert seen == [(3, 4), (4, 5)]


def test_probabilities_of_chosen_labels() -> None:
    layer, hidden = some_layer(), some_hidden(3)
    labels = np.array([7, 5, 0, 7, 11])
    found = layer.probabilities(hidden, labels)
    expected = [[naive_probability(layer, state, label) for label in labels.tolist()] for state in hidden]
    torch.testing.assert_close(found, torch.stack([torch.stack(row) for row in expected]))
    assert torch.autograd.grad(found.sum(), hidden)[0].any(dim=1).all()
    assert layer.probabilities(hidden, labels[:0]).shape == (3, 0)


def full_ranking(layer: AdaptiveClusters, hidden: Tensor, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Of all labels, where nothing is left out; their probabilities are compared with those of torch on the way."""
    labels = np.arange(layer.clusters.labels)
    with torch.inference_mode():
        every = layer.probabilities(hidden, labels).numpy()
    found, scores = layer.top_k(hidden, len(labels))
    np.testing.assert_array_equal(np.sort(found, 1), np.broadcast_to(labels, found.shape))
    np.testing.assert_allclose(scores, np.take_along_axis(every, found.astype(np.int64), 1), rtol=1e-5)
    own = np.empty_like(scores)
    np.put_along_axis(own, found.astype(np.int64), scores, 1)
    ids = np.argsort(-own, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(own, ids, 1)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 12), st.integers(0, 5), st.integers(1, 3))
def test_pruned_top_k_is_the_full_ranking_also_with_ties(
    seed: int, labels: int, k: int, documents: int, tails: int
) -> None:
    rng = np.random.default_rng(seed)
    tails = min(tails, labels - 1)
    cut_offs = np.sort(rng.choice(np.arange(1, labels), tails, replace=False)).tolist()
    layer = AdaptiveClusters(FrequencyClusters.by_cut_offs(rng.integers(0, 9, labels), cut_offs), WIDTH)
    for weight in layer.parameters():  # small whole numbers: sums are exact in any order, and many are the same
        weight.data = torch.from_numpy(rng.integers(-1, 2, weight.shape)).float()
    for tail in layer.tails:
        assert isinstance(tail, Tail)
        tail.norm = nn.Identity()  # type: ignore[assignment]
    hidden = torch.from_numpy(rng.integers(-2, 3, (documents, WIDTH))).float()
    ids, scores = layer.top_k(hidden, k)
    expected_ids, expected_scores = full_ranking(layer, hidden, k)
    there = min(k, labels)
    np.testing.assert_array_equal(ids[:, :there], expected_ids)
    np.testing.assert_array_equal(scores[:, :there], expected_scores)
    assert ids.shape == scores.shape == (documents, k)
    assert (ids[:, there:] == -1).all()
    assert not scores[:, there:].any()


@pytest.mark.parametrize("at_once", [10**6, 7, 1])
def test_top_k_in_chunks(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(module, "MAX_SCORES", at_once)
    layer, hidden = some_layer().float(), some_hidden(5).float()
    ids, scores = layer.top_k(hidden, 4)
    expected_ids, expected_scores = full_ranking(layer, hidden, 4)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)
    assert ids.dtype == np.int32
    assert scores.dtype == np.float32


def test_top_k_leaves_out_tails_that_cannot_win(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, hidden = some_layer().float(), torch.eye(2, WIDTH)
    with torch.no_grad():
        layer.head.weight[:, :2] = 1.0
        layer.root.weight[:, :2] = torch.tensor([[0.9, 3.0], [-5.0, -5.0]])  # only the second document needs tail 1
    seen: list[int] = []
    whole = Tail.projected

    def spy(self: Tail, hidden: Tensor) -> Tensor:
        seen.append(len(hidden))
        return whole(self, hidden)

    monkeypatch.setattr(Tail, "projected", spy)
    layer.top_k(hidden, 3)
    assert seen == [1]


def test_a_tail_as_likely_as_the_worst_so_far_may_have_a_lower_id() -> None:
    layer = some_layer().float()
    for weight in layer.parameters():
        nn.init.constant_(weight, 100.0)  # all probabilities are 1 in single precision
    ids, scores = layer.top_k(torch.ones(1, WIDTH), 4)
    assert (ids.tolist(), scores.tolist()) == ([[0, 1, 2, 3]], [[1.0, 1.0, 1.0, 1.0]])


def test_no_list_without_places() -> None:
    with pytest.raises(ValueError, match="k is 0"):
        some_layer().top_k(some_hidden(), 0)


NO_LABELS = torch.zeros(2, 0).long()
extreme = st.sampled_from([-1e4, -300.0, -88.0, -40.0, -5.0, 0.0, 5.0, 40.0, 88.0, 300.0, 1e4])


@given(extreme, extreme)
def test_the_product_is_safe_at_extreme_logits(root: float, own: float) -> None:
    """Against log p = log sigmoid r + log sigmoid b, and log(1 - p) by a sum that cannot cancel out."""
    logits = torch.tensor([root, own], requires_grad=True)
    found = product_logit(logits[0], logits[1])
    yes, no = binary_loss(found.view(1, 1), *torch.zeros(2, 1).long()), binary_loss(found.view(1, 1), *NO_LABELS)
    r, b = torch.tensor([root, own], dtype=torch.float64)
    softplus = nn.functional.softplus
    # 1 - p = sigmoid(-r) + sigmoid(r) sigmoid(-b); where p is tiny this is 1, and -log(1 - p) is p.
    log_p = -(softplus(-r) + softplus(-b))
    log_not = torch.log1p(-log_p.exp()) if log_p < -1 else torch.logaddexp(-softplus(r), -softplus(-r) - softplus(b))
    assert yes.item() == pytest.approx(-log_p.item(), rel=1e-5, abs=1e-12)
    assert no.item() == pytest.approx(-log_not.item(), rel=1e-4, abs=1e-12)
    for loss in (yes, no):
        (gradient,) = torch.autograd.grad(loss.sum(), logits, retain_graph=True)
        assert gradient.isfinite().all()
        assert gradient.abs().max() <= 1 + 1e-6


def test_a_layer_with_huge_weights_has_a_finite_loss() -> None:
    layer = some_layer().float()
    for weight in layer.parameters():
        weight.data *= 1e4
    hidden = some_hidden()
    loss = losses(layer, hidden.float(), DOCUMENTS).mean()
    assert math.isfinite(loss.item())
    assert all(gradient.isfinite().all() for gradient in gradients(loss, layer, hidden))


def test_gradient_of_the_binary_loss() -> None:
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    rows, places = torch.tensor([0, 2, 2]), torch.tensor([3, 0, 1])
    assert torch.autograd.gradcheck(lambda values: binary_loss(values, rows, places), logits)
    relevant = torch.zeros(3, 4, dtype=torch.float64).index_put((rows, places), torch.ones(3, dtype=torch.float64))
    expected = nn.functional.binary_cross_entropy_with_logits(logits, relevant, reduction="none").sum(1)
    torch.testing.assert_close(binary_loss(logits, rows, places), expected)


@pytest.mark.parametrize(("width", "sizes"), [(768, [20, 20]), (96, [300, 300, 310]), (512, [50, 60, 70, 80])])
def test_parameters_are_as_many_as_the_paper_says(width: int, sizes: list[int]) -> None:
    clusters = FrequencyClusters.by_cut_offs(np.zeros(sum(sizes), int), np.cumsum(sizes)[:-1].tolist())
    layer = AdaptiveClusters(clusters, width, decay=2)
    norms = 2 * sum(tail_widths(width, len(sizes) - 1, 2))  # which the paper does not have
    assert sum(weight.numel() for weight in layer.parameters()) == parameter_count(sizes, width, 2) + norms
    labels = [layer.head.weight, *(tail.labels.weight for tail in layer.tails if isinstance(tail, Tail))]
    assert sum(weight.numel() for weight in labels) == approximate_parameter_count(sizes, width, 2)


def test_it_learns() -> None:
    torch.manual_seed(0)
    layer, hidden = AdaptiveClusters(some_layer().clusters, width=32), torch.randn(len(DOCUMENTS), 32)
    optimiser = torch.optim.Adam(layer.parameters(), 0.05)
    for _ in range(60):
        optimiser.zero_grad()
        losses(layer, hidden, DOCUMENTS).mean().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    ids, scores = layer.top_k(hidden, LABELS)
    for relevant, found, probabilities in zip(DOCUMENTS, ids, scores, strict=True):
        assert set(found[: len(relevant)].tolist()) == set(relevant)
        assert (probabilities[: len(relevant)] > 0.5).all()
        assert (probabilities[len(relevant) :] < 0.5).all()


def test_weights_and_clusters_make_the_layer_again() -> None:
    layer, hidden = some_layer(), some_hidden()
    clusters = FrequencyClusters.from_arrays(layer.clusters.to_arrays())
    with torch.device("meta"):
        again = AdaptiveClusters(clusters, WIDTH).double()
    load_weights(again, weights_of(layer))
    for one, other in zip(layer.top_k(hidden, 5), again.top_k(hidden, 5), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="targets of 2 documents for 3"):
        losses(some_layer(), some_hidden(3), [[1], [2]])
    with pytest.raises(ValueError, match=r"targets of \(2, 13\) for 12 labels"):
        ClusterTargets.of(targets([[1], [2]], labels=13), some_layer().clusters)
    with pytest.raises(ConfigError, match="leaves none for tail 2"):
        AdaptiveClusters(some_layer().clusters, width=3)
