"""The network as a whole: a seed makes it, a level hands it on, arrays store it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from xmtc.models.attentionxml.model import AttentionXmlConfig
from xmtc.models.attentionxml.network import AttentionXmlNetwork
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.layers import seeded
from xmtc.nn.serialization import load_weights, weights_of

IDS, LENGTHS = torch.tensor([[3, 4, 5], [2, 0, 0]]), torch.tensor([3, 1])


def made(labels: int = 6, seed: int = 1, **options: Any) -> AttentionXmlNetwork:
    table = torch.from_numpy(np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32))
    config = AttentionXmlConfig(**{"hidden": 3, "layers": [5], "words": {"dropout": 0.5}, "dropout": 0.5, **options})
    with seeded(seed):
        return AttentionXmlNetwork(table, labels, config)


def same(one: AttentionXmlNetwork, other: AttentionXmlNetwork) -> list[str]:
    others = other.state_dict()
    return [
        name
        for name, weight in one.state_dict().items()
        if weight.shape == others[name].shape and torch.equal(weight, others[name])
    ]


def test_the_seed_makes_the_weights_and_leaves_torch_alone() -> None:
    torch.manual_seed(5)
    one = made()
    drawn = torch.rand(1)
    assert len(same(one, made())) == len(one.state_dict())
    assert len(same(one, made(seed=2))) < len(one.state_dict())
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))


def test_chance_comes_from_draws_alone() -> None:
    network = made()
    assert torch.equal(network(IDS, LENGTHS), network(IDS, LENGTHS))
    assert torch.equal(network(IDS, LENGTHS, None, DropoutRng(0)), network(IDS, LENGTHS, None, DropoutRng(0)))
    assert not torch.equal(network(IDS, LENGTHS, None, DropoutRng(0)), network(IDS, LENGTHS))


def test_a_level_begins_with_all_but_the_labels_of_the_one_above() -> None:
    above, below = made(), made(labels=11, seed=2)
    of_labels = {"head.rows.weight"}
    before = {name: below.state_dict()[name].clone() for name in of_labels}
    below.init_from_parent(above)
    assert set(same(above, below)) == set(above.state_dict()) - of_labels
    assert all(torch.equal(below.state_dict()[name], weight) for name, weight in before.items())
    with torch.no_grad():
        below.state_dict()["encoder.left.weight_ih_l0"].zero_()
    assert above.state_dict()["encoder.left.weight_ih_l0"].any(), "the level above was changed"


def test_a_label_may_begin_with_the_weights_of_its_parent() -> None:
    above, below = made(logsumexp_score=True), made(labels=8, seed=2, logsumexp_score=True)
    parents = np.array([5, 0, 1, 4, 0, 3, 2, 5])
    below.init_from_parent(above, parents)
    torch.testing.assert_close(below(IDS, LENGTHS), above(IDS, LENGTHS)[:, parents])


def test_a_word_skip_is_half_of_a_words_state() -> None:
    network = made()
    assert network.word_skip is not None
    vectors = network.words.words.weight[IDS]
    alone = torch.tanh(vectors @ network.word_skip.weight.T + network.word_skip.bias)
    torch.testing.assert_close(network.hidden(IDS, LENGTHS), (network.encoder(vectors, LENGTHS) + alone) / 2)
    with torch.inference_mode():
        read, inside = network.hidden(IDS, LENGTHS, quantized=True), torch.arange(IDS.shape[1]) < LENGTHS[:, None]
        torch.testing.assert_close(read[inside], network.hidden(IDS, LENGTHS)[inside], atol=0.02, rtol=0)
        assert read.abs().max() <= 1


@pytest.mark.parametrize("word_skip", [True, False])
def test_prediction_multiplies_bytes_with_nearly_the_same_result(word_skip: bool) -> None:
    network, ids = made(word_skip=word_skip), torch.randint(1, 9, (20, 6))
    lengths = torch.arange(20) % 6 + 1
    for candidates in (None, torch.randint(0, 5, (20, 3))):
        with torch.inference_mode():
            found = network(ids, lengths, candidates, quantized=True)
            plain = network(ids, lengths, candidates)
        expected = network(ids, lengths, candidates).detach()
        torch.testing.assert_close(plain, expected)  # int8 comes from the argument alone
        torch.testing.assert_close(found, expected, atol=0.02, rtol=0)
        assert not torch.equal(found, expected)


def test_arrays_hold_everything() -> None:
    network, other = made(), made(seed=2)
    load_weights(other, {name: array.copy() for name, array in weights_of(network).items()})
    for candidates in (None, torch.tensor([[3, 5], [0, 3]])):
        assert torch.equal(other(IDS, LENGTHS, candidates), network(IDS, LENGTHS, candidates))


@pytest.mark.parametrize("other", [{"labels": 5}, {"labels": 7}, {"hidden": 2}], ids=str)
def test_rows_of_other_labels_or_another_width_do_not_fit(other: dict[str, int]) -> None:
    rows = {"head.rows.weight": weights_of(made(**other))["head.rows.weight"]}
    with pytest.raises(ValueError, match="rows"):
        load_weights(made(), weights_of(made()) | rows)


@pytest.mark.parametrize("harm", ["missing", "unknown", "shape", "type"])
def test_arrays_that_do_not_fit(harm: str) -> None:
    arrays = weights_of(made())
    if harm == "missing":
        del arrays["encoder.initial"]
    elif harm == "unknown":
        arrays["more"] = np.zeros(1, np.float32)
    elif harm == "shape":
        arrays["encoder.initial"] = arrays["encoder.initial"][:1]
    else:
        arrays["encoder.initial"] = arrays["encoder.initial"].astype(np.float64)
    with pytest.raises(ValueError, match=r"more" if harm == "unknown" else r"encoder\.initial"):
        load_weights(made(), arrays)


def test_a_label_looks_at_words_not_at_padding() -> None:
    network = made()
    attention_weights = network.attention_weights(IDS[1:], LENGTHS[1:], 4)
    assert attention_weights.tolist() == [1.0]
    assert network.attention_weights(IDS[:1], LENGTHS[:1], 4).sum().item() == pytest.approx(1)
