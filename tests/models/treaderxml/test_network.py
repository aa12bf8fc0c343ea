"""TReaderXML's layers against plain loops, one document at a time and without padding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from xmtc.models.treaderxml.network import (
    ENCODED_LENGTH,
    LabelRows,
    Reading,
    SelfAttention,
    TeacherBatch,
    TReaderNetwork,
    behind,
)
from xmtc.models.treaderxml.settings import TReaderXmlConfig
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.layers import seeded

WORDS, DIMENSIONS, LABELS = 30, 6, 5
LENGTHS = torch.tensor([4, 1, 7])
SETTINGS: dict[str, Any] = {"heads": 2, "bottleneck": 8, "dropout": 0.0, "words": {"dropout": 0.0}}


def some_vectors(padding: float = 0.0, seed: int = 0) -> Tensor:
    vectors = torch.from_numpy(np.random.default_rng(seed).normal(size=(3, 7, DIMENSIONS)).astype(np.float32))
    for row, length in enumerate(LENGTHS.tolist()):
        vectors[row, length:] = padding
    return vectors


def attention(layer: SelfAttention, vectors: Tensor) -> Tensor:
    """Of one text, (n, d): every head and every place by itself."""
    width = layer.output.in_features // layer.heads
    queries, keys, values = (vectors.detach() @ part.detach().T for part in layer.inputs.weight.chunk(3))
    rows = []
    for place in range(len(vectors)):
        seen = range(place if layer.hides == "earlier" else 0, place + 1 if layer.hides == "later" else len(vectors))
        heads = []
        for head in range(layer.heads):
            part = slice(head * width, (head + 1) * width)
            scores = [float(queries[place, part] @ keys[other, part]) / math.sqrt(width) for other in seen]
            weights = [math.exp(score - max(scores)) for score in scores]
            shares = [weight / sum(weights) for weight in weights]
            heads.append(sum(share * values[other, part] for other, share in zip(seen, shares, strict=True)))
        rows.append(torch.tanh(torch.cat(heads) @ layer.output.weight.T))  # type: ignore[arg-type]
    return torch.stack(rows)


@pytest.mark.parametrize("hides", ["later", "earlier", None])
@pytest.mark.parametrize("heads", [1, 2, 4])  # 6 numbers for 4 heads: one each, and two are not split
def test_attention(hides: Any, heads: int) -> None:
    layer = SelfAttention(DIMENSIONS, heads, hides)
    for padding in (0.0, 9.0):
        vectors = some_vectors(padding)
        found = layer(vectors, LENGTHS)
        assert found.isfinite().all(), "nor is padding without a place that it sees"
        for row, length in enumerate(LENGTHS.tolist()):
            torch.testing.assert_close(found[row, :length], attention(layer, vectors[row, :length]))


def test_a_place_does_not_see_what_comes_later() -> None:
    layer, vectors = SelfAttention(DIMENSIONS, 2, hides="later"), some_vectors()
    changed = vectors.clone()
    changed[:, 3:] += 1
    lengths = torch.tensor([7, 7, 7])
    before, after = layer(vectors, lengths), layer(changed, lengths)
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert (before[:, 3:] != after[:, 3:]).any(2).all()


def test_weights_give_what_the_fused_attention_gives() -> None:
    for hides in ("later", "earlier", None):
        layer, vectors = SelfAttention(DIMENSIONS, 2, hides), some_vectors()[2:]
        weights = layer.weights(vectors)
        torch.testing.assert_close(weights.sum(3), torch.ones(1, 2, 7))
        torch.testing.assert_close(layer.with_weights(vectors, weights), layer(vectors, LENGTHS[2:]))


@pytest.mark.parametrize("steps", ["none", "mmhsa+r", "mhsa+r", "mhsa+r+mmhsa", "mmhsa+mhsa", "mmhsa+r+mhsa"])
def test_reading(steps: str) -> None:
    reading = Reading(steps, DIMENSIONS, heads=2)
    kinds = [layer.hides for layer in reading.layers if isinstance(layer, SelfAttention)]
    assert kinds == ["later" if step == "mmhsa" else None for step in steps.split("+") if step not in ("r", "none")]
    vectors = some_vectors()
    found = reading(vectors, LENGTHS)
    first, second = [*reading.layers, None, None][:2]
    for row, length in enumerate(LENGTHS.tolist()):
        text = vectors[row, :length]
        expected = text
        if isinstance(first, SelfAttention):
            expected = attention(first, text)
            if "+r" in steps:
                expected = expected + text
        if isinstance(second, SelfAttention):
            expected = attention(second, expected)
        torch.testing.assert_close(found[row, :length], expected)


def test_behind() -> None:
    first, second = some_vectors(padding=9.0), some_vectors(padding=9.0, seed=1)
    lengths = torch.tensor([2, 1, 5])
    both, ends = behind(first, lengths, second, LENGTHS)
    assert ends.tolist() == [6, 2, 12]
    assert both.shape[1] == 14, "as wide as both: how long the longest is need not be known"
    for row in range(3):
        expected = torch.cat([first[row, : lengths[row]], second[row, : LENGTHS[row]]])
        torch.testing.assert_close(both[row, : ends[row]], expected)


def some_network(sizes: dict[str, Any] | None = None, **changes: Any) -> TReaderNetwork:
    table = torch.from_numpy(np.random.default_rng(2).normal(size=(WORDS, DIMENSIONS)).astype(np.float32))
    with seeded(1):
        network = TReaderNetwork(table, TReaderXmlConfig(**{**SETTINGS, **changes}), LABELS, **(sizes or {}))
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if name in ("nothing", "output.rows.weight", "output.bias.weight"):
                weight.copy_(torch.from_numpy(np.random.default_rng(3).normal(size=weight.shape).astype(np.float32)))
    return network


#: Four labels, one without words; the last document knows nothing, the second a label without words only.
LESSON = TeacherBatch(
    torch.tensor([[3, 4, 5], [6, 7, 0], [8, 0, 0], [0, 0, 0]]),
    torch.tensor([[1.0, 0.5, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]]),
)
IDS = torch.tensor([[2, 3, 4, 5, 0, 0, 0], [9, 0, 0, 0, 0, 0, 0], [2, 2, 7, 8, 9, 10, 11]])


def taught(network: TReaderNetwork, row: int) -> Tensor:
    """The teacher knowledge of one document, (places, d)."""
    assert network.nothing is not None
    table, places = network.words.words.weight, []
    for place in range(LESSON.words.shape[1]):
        total, weights, everyone = torch.zeros(DIMENSIONS), 0.0, 0.0
        for label, weight in enumerate(LESSON.weights[row].tolist()):
            word = int(LESSON.words[label, place])
            everyone += weight
            if word:
                total, weights = total + weight * table[word], weights + weight
        if weights:
            places.append(total / (everyone if network.divide_by_labels else weights))
    return torch.stack(places) if places else network.nothing[None]


@pytest.mark.parametrize("over", ["words", "labels"])
def test_knowledge_is_a_mean_place_by_place(over: str) -> None:
    network = some_network(knowledge_mean=over)
    vectors, lengths = network.embedded(LESSON)
    assert lengths.tolist() == [3, 1, 1]
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(vectors[row, :length], taught(network, row))
    nobody = TeacherBatch(torch.zeros(0, 1, dtype=torch.long), torch.zeros(3, 0))
    vectors, lengths = network.embedded(nobody)
    assert lengths.tolist() == [1, 1, 1]
    torch.testing.assert_close(vectors, network.nothing.expand(3, 1, -1))  # type: ignore[union-attr]


def test_the_division_by_k() -> None:
    """Algorithm 1, line 8, with numbers: three labels of two, one and no words; the paper's K is three."""
    words, weights = torch.tensor([[3, 4], [6, 0], [0, 0]]), torch.ones(1, 3)
    network = some_network(knowledge_mean="labels")
    table = network.words.words.weight
    found, lengths = network.embedded(TeacherBatch(words, weights))
    assert lengths.tolist() == [2]
    torch.testing.assert_close(found[0], torch.stack([(table[3] + table[6]) / 3, table[4] / 3]))
    found, _ = some_network().embedded(TeacherBatch(words, weights))
    torch.testing.assert_close(found[0], torch.stack([(table[3] + table[6]) / 2, table[4]]))


def reading(layers: Reading, vectors: Tensor) -> Tensor:
    """The full reading of one text."""
    first, second = layers.layers
    assert isinstance(first, SelfAttention)
    assert isinstance(second, SelfAttention)
    return attention(second, vectors + attention(first, vectors))


def scores_of(network: TReaderNetwork, row: int, encoded: Tensor | None = None) -> Tensor:
    """What a network says of one document, step by step (and the pooling that is ours)."""
    parts = []
    if network.teacher is not None:
        known = taught(network, row)
        parts.append(reading(network.teacher, known))
    if network.text is not None:
        words = network.words.words.weight[IDS[row, : LENGTHS[row]]]
        parts.append(reading(network.text, words))
    mixed = attention(network.interaction, torch.cat(parts))
    pooled = torch.cat([mixed.mean(0), mixed.amax(0)])
    if encoded is not None:
        pooled = torch.cat([pooled, ENCODED_LENGTH * encoded])
    hidden = torch.relu(pooled @ network.bottleneck.weight.T + network.bottleneck.bias)
    assert network.output.bias is not None
    return hidden @ network.output.rows.weight.T + network.output.bias.weight[:, 0]


#: What eqs. 17 and 18 and Algorithm 1 have in the place of ours.
PRINTED: dict[str, Any] = {
    "knowledge_mean": "labels",
    "pooling": "mean",
    "linear_bottleneck": True,
    "output_bias": False,
}


@pytest.mark.parametrize("hides", ["later", "earlier"])
@pytest.mark.parametrize("branches", ["both", "text", "teacher"])
def test_the_formulas_as_printed(branches: str, hides: str) -> None:
    """Eqs. 3 to 18: W^HB and W^Output are plain matrices, used place by place; the scores are the mean over places."""
    network = some_network(branches=branches, hides=hides, **PRINTED)
    assert network.output.bias is None
    found = network(IDS, LENGTHS, LESSON if branches != "text" else None)
    for row in range(3):
        parts = []  # O_y' and O_x
        if network.teacher is not None:
            parts.append(reading(network.teacher, taught(network, row)))
        if network.text is not None:
            parts.append(reading(network.text, network.words.words.weight[IDS[row, : LENGTHS[row]]]))
        mixed = attention(network.interaction, torch.cat(parts))
        squeezed = mixed @ network.bottleneck.weight.T  # (places, bottleneck)
        scores = squeezed @ network.output.rows.weight.T  # (places, labels)
        torch.testing.assert_close(found[row], scores.mean(0), rtol=1e-4, atol=1e-5)
    some = torch.tensor([4, 0])
    torch.testing.assert_close(network(IDS, LENGTHS, LESSON, labels=some), found[:, some])
    before = [weight.clone() for weight in network.parameters()]
    network.init_output_bias(np.full(LABELS, 0.3))
    for old, new in zip(before, network.parameters(), strict=True):
        assert torch.equal(old, new), "nothing starts from the labels' frequencies"


@pytest.mark.parametrize("changes", [{"pooling": "mean"}, {"linear_bottleneck": True}, {"output_bias": False}], ids=str)
def test_each_printed_part_by_itself(changes: dict[str, Any]) -> None:
    network = some_network(**changes)
    found = network(IDS, LENGTHS, LESSON)
    assert network.teacher is not None
    assert network.text is not None
    for row in range(3):
        words = network.words.words.weight[IDS[row, : LENGTHS[row]]]
        parts = [reading(network.teacher, taught(network, row)), reading(network.text, words)]
        mixed = attention(network.interaction, torch.cat(parts))
        pooled = mixed.mean(0) if "pooling" in changes else torch.cat([mixed.mean(0), mixed.amax(0)])
        hidden = pooled @ network.bottleneck.weight.T
        if "linear_bottleneck" not in changes:
            hidden = torch.relu(hidden + network.bottleneck.bias)
        expected = hidden @ network.output.rows.weight.T
        if network.output.bias is not None:
            expected = expected + network.output.bias.weight[:, 0]
        torch.testing.assert_close(found[row], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("branches", ["both", "text", "teacher"])
def test_network(branches: str) -> None:
    network = some_network(branches=branches)
    found = network(IDS, LENGTHS, LESSON if branches != "text" else None)
    assert found.shape == (3, LABELS)
    for row in range(3):
        torch.testing.assert_close(found[row], scores_of(network, row), rtol=1e-4, atol=1e-5)
    some = torch.tensor([4, 0])
    torch.testing.assert_close(network(IDS, LENGTHS, LESSON, labels=some), found[:, some])


def test_an_encoder_says_what_it_made_of_the_text() -> None:
    network, vectors = some_network({"encoded": 4}), torch.randn(3, 4)
    found = network(IDS, LENGTHS, LESSON, encoded=vectors)
    for row in range(3):
        torch.testing.assert_close(found[row], scores_of(network, row, vectors[row]), rtol=1e-4, atol=1e-5)


def test_the_text_sees_the_teacher_and_not_the_other_way_round() -> None:
    network = some_network()

    def mixed(ids: Tensor, teacher_batch: TeacherBatch) -> Tensor:
        joined, ends, _ = network._read(ids, LENGTHS, teacher_batch, None)
        found: Tensor = network.interaction(joined, ends)
        return found

    before = mixed(IDS, LESSON)
    other_text = mixed(IDS.masked_fill(IDS == 2, 12), LESSON)
    torch.testing.assert_close(before[0, :3], other_text[0, :3])
    assert (before[0, 3:7] != other_text[0, 3:7]).any(1).all()
    other_teacher = mixed(IDS, TeacherBatch(LESSON.words.masked_fill(LESSON.words == 3, 13), LESSON.weights))
    assert (before[0, :7] != other_teacher[0, :7]).any(1).all()


@pytest.mark.parametrize("printed", [False, True])
def test_every_weight_learns_and_words_of_both_branches_do(printed: bool) -> None:
    network = some_network({"clusters": 4}, **(PRINTED if printed else {"votes": True, "voters": 3}))
    votes = torch.rand(3, LABELS)
    hidden = network.hidden(IDS, LENGTHS, LESSON)
    assert network.clusters is not None
    (network.scores(hidden, votes).square().sum() + network.clusters(hidden).sum()).backward()
    for name, weight in network.named_parameters():
        assert weight.grad is not None, name
        values = weight.grad.coalesce().values() if weight.grad.is_sparse else weight.grad
        assert values.any(), name
    table = network.words.words.weight.grad
    assert table is not None
    rows = set(table.coalesce().indices()[0].tolist())
    assert {*range(3, 12)} - {0} <= rows, "words of texts and of descriptions"


def test_a_network_with_voters_begins_as_a_vote() -> None:
    network = TReaderNetwork(
        torch.randn(WORDS, DIMENSIONS), TReaderXmlConfig(**SETTINGS, votes=True, voters=10), LABELS
    )
    network.init_output_bias(np.full(LABELS, 0.3), unvoted=0.001)
    votes = torch.tensor([[0.0, 0.2, 1.0, 0.6, 0.1]]).expand(3, -1)
    found = network(IDS, LENGTHS, LESSON, votes)
    expected = torch.log((votes + 0.001) / (1 - votes + 0.05))
    torch.testing.assert_close(found, expected)
    assert abs(found[0, 0].sigmoid().item() - 0.001) < 1e-4, "without a vote a label is as likely as was said"
    some = torch.tensor([2, 0])
    torch.testing.assert_close(network(IDS, LENGTHS, LESSON, votes[:, some], some), expected[:, some])


def test_names_like_the_text_raise_scores() -> None:
    network, hidden = (
        some_network(names=True, votes=True, search={"vectors": "tfidf"}),
        torch.randn(3, SETTINGS["bottleneck"]),
    )
    alike = torch.tensor([[0.0, 0.5, 1.0, 0.0, 0.1]]).expand(3, -1)
    plain = network.scores(hidden, None)
    torch.testing.assert_close(network.scores(hidden, None, names=alike), plain + 10 * alike)
    torch.testing.assert_close(some_network().scores(hidden, None, names=alike), some_network().scores(hidden, None))


def test_without_voters_it_begins_with_the_shares_of_labels() -> None:
    network = some_network()
    network.init_output_bias(np.array([0.5, 0.1, 0.01, 0.9, 0.2]))
    assert network.output.bias is not None
    np.testing.assert_allclose(
        network.output.bias.weight.sigmoid().detach()[:, 0], [0.5, 0.1, 0.01, 0.9, 0.2], rtol=1e-5
    )


def test_rows_of_some_labels_have_sparse_gradients() -> None:
    layer = LabelRows(9, 3, sparse=True)
    layer(torch.ones(2, 3), torch.tensor([7, 2])).sum().backward()
    for part in (layer.rows, layer.bias):
        assert part is not None
        assert part.weight.grad is not None
        assert part.weight.grad.coalesce().indices()[0].tolist() == [2, 7]


def test_dropout_comes_from_the_draws() -> None:
    network = some_network(words={"dropout": 0.3}, dropout=0.5)
    one, same, other = (network(IDS, LENGTHS, LESSON, rng=DropoutRng(seed)) for seed in (1, 1, 2))
    torch.testing.assert_close(one, same)
    assert not torch.allclose(one, other)


@pytest.mark.parametrize("branches", ["both", "text", "teacher"])
def test_looks_are_the_attention_that_raises_a_label(branches: str) -> None:
    network = some_network(branches=branches)
    teacher_batch = TeacherBatch(LESSON.words, LESSON.weights[:1]) if branches != "text" else None
    for label in range(LABELS):
        teacher, text = network.attention_weights(IDS[:1, :4], LENGTHS[:1], teacher_batch, label)
        assert len(teacher) == (3 if branches != "text" else 0)
        assert len(text) == (4 if branches != "teacher" else 0)
        assert teacher.sum() + text.sum() == pytest.approx(1, abs=1e-5)
        assert min(*teacher, *text) >= 0
    if branches != "teacher":
        each = [network.attention_weights(IDS[:1, :4], LENGTHS[:1], teacher_batch, label)[1] for label in range(LABELS)]
        assert not np.allclose(each[0], each[1]), "labels look in different ways"
