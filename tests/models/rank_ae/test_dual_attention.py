"""Bags of features and the dual attention, against a loop over documents and words."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import unit_rows
from xmtc.models.rank_ae import dual_attention
from xmtc.models.rank_ae.dual_attention import Bags, DualAttention, Noise


def matrix(documents: int, seed: int = 0, density: float = 0.4) -> Csr:
    rng = np.random.default_rng(seed)
    made: Csr = csr_array(random_array((documents, 6), density=density, rng=rng, dtype=np.float32))
    return made


def network(ratio: int | None = 2) -> DualAttention:
    torch.manual_seed(0)
    return DualAttention(torch.randn(6, 4), ratio)


@given(st.integers(1, 5), st.integers(0, 20), st.sampled_from([0.0, 0.3, 1.0]))
def test_equals_a_loop_over_words(documents: int, seed: int, density: float) -> None:
    features, layer = matrix(documents, seed, density), network()
    assert layer.excitation is not None
    found = layer(Bags.of(features, slice(None)))
    for row in range(documents):
        values = torch.from_numpy(features[[row]].data)
        words = [layer.features.weight[at] for at in features[[row]].indices]
        expected = torch.zeros(4)
        for value, word in zip(values, words, strict=True):
            weighed = word * value / values.square().mean().sqrt()
            expected += weighed * layer.excitation(weighed) / len(words) ** 0.5
        torch.testing.assert_close(found[row], expected)


@given(st.integers(1, 5), st.integers(0, 20), st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from(["mean", "sum"]))
def test_the_paper_adds_up_or_averages_words_with_their_values_as_they_are(
    documents: int, seed: int, density: float, pooling: Literal["mean", "sum"]
) -> None:
    torch.manual_seed(0)
    features, layer = matrix(documents, seed, density), DualAttention(torch.randn(6, 4), 2, pooling)
    assert layer.excitation is not None
    found = layer(Bags.of(features, slice(None), scaled=False))
    for row in range(documents):
        words = [
            (float(value), layer.features.weight[at]) for at, value in enumerate(features[[row]].toarray()[0]) if value
        ]
        expected = torch.zeros(4)
        for value, word in words:
            expected += value * word * layer.excitation(value * word) / (len(words) if pooling == "mean" else 1)
        torch.testing.assert_close(found[row], expected)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=9))
def test_a_document_does_not_depend_on_its_batch(rows: list[int]) -> None:
    features, layer = matrix(7, seed=3), network()
    whole = layer(Bags.of(features, slice(None)))
    torch.testing.assert_close(layer(Bags.of(features, np.array(rows))), whole[rows])


def test_no_padding() -> None:
    bags = Bags.of(matrix(50), slice(None))
    assert len(bags.columns) == len(bags.values) == len(bags.rows) == matrix(50).nnz == int(bags.lengths.sum())


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_the_scale_of_a_document_does_not_matter(scale: float) -> None:
    torch.testing.assert_close(
        network()(Bags.of(matrix(5) * scale, slice(None))), network()(Bags.of(matrix(5), slice(None)))
    )


def test_without_channel_attention_it_is_the_product_of_vectors_of_length_1() -> None:
    bags, layer = Bags.of(matrix(5), slice(None)), network(ratio=None)
    assert [name for name, _ in layer.named_parameters()] == ["features.weight"]
    rows = torch.from_numpy(unit_rows(matrix(5)).toarray())
    torch.testing.assert_close(layer(bags), rows @ layer.features.weight)
    assert (layer.channels(bags) == 1).all()


def test_channels_are_the_attention_that_is_used() -> None:
    bags, layer = Bags.of(matrix(1, density=0.2), slice(None)), network()
    weighed = layer.features(bags.columns) * bags.values[:, None]
    expected = (weighed * layer.channels(bags)).sum(0) / len(weighed) ** 0.5
    torch.testing.assert_close(layer(bags)[0], expected)


def test_gradients_have_rows_for_words_that_occur_only() -> None:
    features, layer = matrix(2, density=0.2), network()
    layer(Bags.of(features, slice(None))).sum().backward()
    assert layer.features.weight.grad is not None
    assert set(layer.features.weight.grad.coalesce().indices()[0].tolist()) == set(features.indices.tolist())


def test_values_of_zero_and_documents_without_features() -> None:
    """A stored zero is a feature like any other, unless there is nothing else."""
    features = csr_array((np.zeros(2, np.float32), np.array([1, 2]), np.array([0, 2, 2])), shape=(2, 6))
    assert not network()(Bags.of(features, slice(None))).any()


def test_a_part_of_the_documents_has_its_features_and_its_noise() -> None:
    features, layer = matrix(7, seed=3), network()
    bags, noise = Bags.of(features), Noise.sampled(7, 6, 0.5, np.random.default_rng(0))
    some = slice(2, 5)
    torch.testing.assert_close(layer(bags.part(some)), layer(bags)[some])
    torch.testing.assert_close(layer.noise(noise.part(some)), layer.noise(noise)[some])


def test_some_features_are_left_out() -> None:
    bags = Bags.of(csr_array(np.ones((50, 40), np.float32)), slice(None))
    some = bags.some(0.25, np.random.default_rng(0)).values
    assert {round(value, 4) for value in some.tolist()} == {0.0, 1.3333}
    assert (some == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert torch.equal(bags.some(0.0, np.random.default_rng(0)).values, bags.values)


@pytest.mark.parametrize("noisy", [6, 3])
def test_noise_is_that_of_noisy_features(noisy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its covariance is that of independent noise on each feature, also where only some features are drawn."""
    monkeypatch.setattr(dual_attention, "NOISY_FEATURES", noisy)
    layer, rng = network(), np.random.default_rng(0)
    sampled = [Noise.sampled(50, 6, 0.5, rng) for _ in range(400)]
    drawn = torch.cat([layer.noise(each) for each in sampled]).detach()
    table = layer.attended(layer.features.weight).detach()
    expected = 0.25 * table.T @ table
    assert torch.allclose(drawn.T @ drawn / len(drawn), expected, atol=0.08 * expected.abs().max().item())
    layer.noise(sampled[0]).sum().backward()  # type: ignore[no-untyped-call]
    assert layer.features.weight.grad is not None
    assert len(layer.features.weight.grad.coalesce().indices()[0]) == noisy
