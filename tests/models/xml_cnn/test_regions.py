"""Regions as sets of words: as one-hot windows times a matrix have it, whatever the padding and the threads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from contract_corpus import small_corpus
from hypothesis import given
from hypothesis import strategies as st
from split_batches import assert_same_in_threads

from xmtc.labelspace.tree import LabelTree
from xmtc.models.xml_cnn.bow_cnn import BowCnnConfig
from xmtc.models.xml_cnn.regions import BowCnnNetwork, RegionEmbedding, SoftmaxLearner, log_odds
from xmtc.nn.datasets import Documents
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.layers import seeded
from xmtc.nn.level import Beam, LevelLearner
from xmtc.nn.parallel import Worker
from xmtc.text.word_tokenizer import WordTokenizer

WORDS, UNITS = 6, 4  # few words, so that they come back within a region
documents = st.lists(st.lists(st.integers(1, WORDS - 1), min_size=1, max_size=15), min_size=1, max_size=4)
shapes = st.tuples(
    documents,
    st.lists(st.integers(1, 6), min_size=1, max_size=2),  # sizes
    st.integers(1, 5),  # chunks
    st.sampled_from(["average", "max"]),
    st.integers(0, 4),  # padding after the longest document
)


def made(sizes: list[int], chunks: int, pooling: str) -> RegionEmbedding:
    with seeded(1):
        layer = RegionEmbedding(WORDS, sizes, UNITS, chunks, pooling).double()
        for weight in layer.parameters():
            torch.nn.init.normal_(weight)
        return layer


def tensors(texts: list[list[int]], padding: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = [len(text) for text in texts]
    ids = torch.zeros(len(texts), max(lengths) + padding, dtype=torch.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
    return ids, torch.tensor(lengths)


def by_hand(layer: RegionEmbedding, text: list[int]) -> torch.Tensor:
    """One document: a row of zeros and ones for each window, times the matrix."""
    parts = []
    for table, size, bias in zip(layer.tables, layer.sizes, layer.bias, strict=True):
        windows = [text[max(0, end - size) : end] for end in range(1, len(text) + size)]
        windows += [[]] * (layer.chunks - len(windows))
        one_hot = torch.tensor([[word in window and word > 1 for word in range(WORDS)] for window in windows]).double()
        values = torch.relu(one_hot @ table.weight + bias)  # type: ignore[operator]
        bounds = [chunk * len(values) // layer.chunks for chunk in range(layer.chunks + 1)]
        chunks = [values[a:b] for a, b in pairwise(bounds)]
        parts.append(torch.stack([part.mean(0) if layer.pooling == "average" else part.amax(0) for part in chunks]))
    return torch.stack(parts)


@given(shapes)
def test_as_one_hot_windows_times_the_matrix(shape: tuple[list[list[int]], list[int], int, str, int]) -> None:
    texts, sizes, chunks, pooling, padding = shape
    layer = made(sizes, chunks, pooling)
    found = layer(*tensors(texts, padding))
    expected = torch.stack([by_hand(layer, text) for text in texts])
    assert found.shape == (len(texts), len(sizes), chunks, UNITS)
    assert found[0].numel() == layer.size
    torch.testing.assert_close(found, expected)
    weighted = torch.linspace(-1, 1, found.numel(), dtype=torch.float64).view_as(found)
    leaves = list(layer.parameters())
    ours = torch.autograd.grad((found * weighted).sum(), leaves)
    theirs = torch.autograd.grad((expected * weighted).sum(), leaves)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.to_dense() if one.is_sparse else one, other)


def test_gradients_have_rows_for_the_words_alone() -> None:
    layer = made([3], 2, "average")
    (gradient,) = torch.autograd.grad(layer(*tensors([[2, 4, 2], [4]])).sum(), [*layer.tables.parameters()])
    assert gradient.is_sparse
    assert {*gradient.coalesce().indices()[0].tolist()} <= {0, 2, 4}


def network(**changes: object) -> BowCnnNetwork:
    config = BowCnnConfig(**{"regions": (2, 3), "units": UNITS, "chunks": 2, "dropout": 0.0} | changes)
    with seeded(4):
        made = BowCnnNetwork(9, 7, config)
        for weight in made.parameters():
            torch.nn.init.normal_(weight)
        return made


@pytest.mark.parametrize("pooling", ["average", "max"])
def test_a_document_alone_and_beside_longer_ones(pooling: str) -> None:
    ids = torch.tensor([[2, 3, 4, 5, 6, 7, 8], [5, 6, 0, 0, 0, 0, 0]])
    both = network(pooling=pooling)(ids, torch.tensor([7, 2]))
    torch.testing.assert_close(both[1:], network(pooling=pooling)(ids[1:, :2], torch.tensor([2])))


def test_normalised_chunks_are_shorter_than_one() -> None:
    ids, lengths = torch.tensor([[2, 3, 4]]), torch.tensor([3])
    plain, normalised = network(), network(normalise=True)
    pooled = plain.regions(ids, lengths)
    scaled = pooled / torch.sqrt(1 + pooled.square().sum(-1, keepdim=True))
    assert (scaled.norm(dim=-1) < 1).all()
    torch.testing.assert_close(normalised(ids, lengths), plain.output(scaled.flatten(1)))
    torch.testing.assert_close(plain(ids, lengths), plain.output(pooled.flatten(1)))


def test_a_softmax_over_all_labels() -> None:
    ids, lengths = torch.tensor([[2, 3, 4], [5, 2, 0]]), torch.tensor([3, 2])
    probabilities = network(loss="softmax")(ids, lengths).sigmoid()
    torch.testing.assert_close(probabilities, network()(ids, lengths).softmax(1))


def test_log_odds_are_finite_for_certain_events() -> None:
    logs = torch.tensor([0.0, -1e-9, -1e3], requires_grad=True)
    odds = log_odds(logs)
    assert torch.isfinite(odds).all()
    assert torch.isfinite(torch.autograd.grad(odds.sum(), logs)[0]).all()


@pytest.mark.parametrize("loss", ["sigmoid", "softmax"])
@pytest.mark.parametrize("pooling", ["average", "max"])
def test_the_same_loss_however_a_batch_is_split(loss: str, pooling: str) -> None:
    found = learner(loss, dropout=0.5, pooling=pooling)
    assert_same_in_threads(found, [4, 9, 0, 11, 17, 3, 2])


def learner(loss: str, **changes: object) -> LevelLearner:
    corpus = small_corpus(30)
    assert corpus.texts is not None
    tokenizer, labels = WordTokenizer.train(corpus.texts), len(corpus.labels)
    config = BowCnnConfig(**{"regions": (2, 3), "units": UNITS, "chunks": 2, "loss": loss} | changes)
    with seeded(1):
        made = BowCnnNetwork(len(tokenizer), labels, config)
        for weight in made.parameters():
            torch.nn.init.normal_(weight, std=0.3)
    data = Documents(tokenizer.encode(corpus.texts), corpus.targets)
    beam = Beam.at_root(len(corpus))
    kind = SoftmaxLearner if loss == "softmax" else LevelLearner
    return kind(made, LabelTree.of([[range(labels)]]).levels[0], data, beam, data, beam)


def test_the_loss_of_the_softmax() -> None:
    made = learner("softmax", dropout=0.0)
    rows = np.arange(12)  # document 0 and 10 have no labels
    batch = made.batch(rows, np.random.default_rng(0))
    logs = made.network(batch.ids, batch.lengths).sigmoid().log()
    targets = torch.from_numpy(made.train.targets[rows].toarray())
    expected = -(logs * targets).sum(1) / targets.sum(1).clamp(min=1)
    torch.testing.assert_close(made.loss(batch, Worker(12)), expected.mean())


@pytest.mark.parametrize("pooling", ["average", "max"])
@pytest.mark.parametrize("normalise", [True, False])
def test_the_parts_of_the_words_add_up_with_the_biases(pooling: str, normalise: bool) -> None:
    made = network(pooling=pooling, normalise=normalise)
    ids, lengths = torch.tensor([[2, 3, 1, 2, 6]]), torch.tensor([5])
    with torch.no_grad():
        made.regions.bias.zero_()
    parts, score = made.word_parts(ids, lengths, 3)
    torch.testing.assert_close(score, made(ids, lengths)[0, 3])
    torch.testing.assert_close(parts.sum(), score - made.output.bias[3])
    assert parts.shape == (5,)
    assert parts[2] == 0, "an unknown word"
    assert not parts.requires_grad


def test_dropout_comes_from_the_generator() -> None:
    ids, lengths = torch.tensor([[2, 3, 4]]), torch.tensor([3])
    made = network(dropout=0.5)
    one, same, other = (made(ids, lengths, None, DropoutRng(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_all_labels_or_none() -> None:
    with pytest.raises(ValueError, match="scores all labels"):
        network()(torch.tensor([[2]]), torch.tensor([1]), torch.tensor([[0]]))


def test_begins_with_the_share_that_is_expected_or_with_equal_ones() -> None:
    beginning, equal = network(), network(loss="softmax")
    beginning.init_output_bias(0.1)
    equal.init_output_bias(0.1)
    torch.testing.assert_close(beginning.output.bias.sigmoid(), torch.full((7,), 0.1))
    assert not equal.output.bias.any()
