"""The softmax with clusters against one computed label by label."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from xmtc.models.seq2seq.output import ClusteredSoftmax, Targets, cluster_ends
from xmtc.nn.layers import seeded

ENDS = [(7,), (3, 7), (2, 4, 7)]


def layer(ends: tuple[int, ...], seed: int = 0) -> ClusteredSoftmax:
    with seeded(seed):
        made = ClusteredSoftmax(6, ends).double()
        for weight in made.parameters():
            torch.nn.init.normal_(weight)
    return made


def in_loops(made: ClusteredSoftmax, vector: Tensor, emitted: set[int]) -> list[float]:
    """Probabilities of the seven labels and the end, one after the other."""
    ends, logits = made.ends, made.head(vector).tolist()
    tails = [tail(vector).tolist() for tail in made.tails]
    ranges = [range(first, last) for first, last in pairwise(ends)]
    weights = {symbol: math.exp(logits[symbol]) for symbol in range(ends[0]) if symbol not in emitted}
    weights["end"] = math.exp(logits[ends[0]])  # type: ignore[index]
    for at, symbols in enumerate(ranges):
        if not set(symbols) <= emitted:
            weights[f"tail {at}"] = math.exp(logits[ends[0] + 1 + at])  # type: ignore[index]
    total = sum(weights.values())
    found = [weights.get(symbol, 0) / total for symbol in range(ends[0])]
    for at, symbols in enumerate(ranges):
        own = [math.exp(tails[at][symbol - symbols[0]]) * (symbol not in emitted) for symbol in symbols]
        above = weights.get(f"tail {at}", 0) / total  # type: ignore[call-overload]
        found += [above * each / sum(own) if above else 0.0 for each in own]
    return [*found, weights["end"] / total]  # type: ignore[index]


@pytest.mark.parametrize("ends", ENDS, ids=str)
@given(seed=st.integers(0, 2**32), emitted=st.sets(st.integers(0, 6)))
@settings(max_examples=30)
def test_probabilities_are_those_computed_label_by_label(ends: tuple[int, ...], seed: int, emitted: set[int]) -> None:
    made = layer(ends, seed % 100)
    vector = torch.from_numpy(np.random.default_rng(seed).normal(size=6))
    with torch.no_grad():
        found = made(vector, torch.tensor([*emitted, -1])).exp()
    assert found.sum().item() == pytest.approx(1)
    assert found.tolist() == pytest.approx(in_loops(made, vector, emitted))
    assert all(found[symbol] == 0 for symbol in emitted)


@pytest.mark.parametrize("ends", ENDS, ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_losses_are_log_probabilities_of_the_sequences(ends: tuple[int, ...], masked: bool) -> None:
    made = layer(ends)
    sequences = [[0, 5, 2, 7], [7], [6, 3, 7], [4, 6, 5, 7]]
    symbols = torch.tensor([row + [-1] * (4 - len(row)) for row in sequences])
    targets = Targets.of(symbols, ends)
    vectors = torch.randn(4, 4, 6, dtype=torch.float64)
    found = made.losses(vectors, targets, targets.emitted if masked else None)
    for row, sequence in enumerate(sequences):
        each = [
            in_loops(made, vectors[row, step], set(sequence[:step]) if masked else set())[symbol]
            for step, symbol in enumerate(sequence)
        ]
        assert found[row].item() == pytest.approx(-sum(map(math.log, each)))


@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_the_expected_embedding_takes_each_tail_as_one_vector(ends: tuple[int, ...]) -> None:
    made, vectors = layer(ends), torch.randn(2, 1, 6, dtype=torch.float64)
    table, of_tails = torch.randn(8, 3).double(), torch.randn(len(ends) - 1, 3).double()
    emitted = torch.tensor([[[0, 6]], [[-1, -1]]])
    probabilities = made(vectors, emitted).exp()
    rows = [
        *table[: ends[0]],
        *(of_tails[at].expand(last - first, 3) for at, (first, last) in enumerate(pairwise(ends))),
    ]
    whole = torch.cat([each.view(-1, 3) for each in rows] + [table[7:]])
    torch.testing.assert_close(made.expected(vectors, emitted, table, of_tails), probabilities @ whole)


def test_inputs_and_what_was_emitted() -> None:
    targets = Targets.of(torch.tensor([[2, 0, 5], [5, -1, -1]]), (5,))
    assert targets.inputs.tolist() == [[5, 2, 0], [5, 5, 5]]
    assert targets.emitted.tolist()[0] == [[-1, -1, -1], [2, -1, -1], [2, 0, -1]]


def test_the_bias_begins_with_frequencies() -> None:
    made = layer((2, 4, 7))
    counts = np.array([50, 20, 10, 8, 3, 2, 1, 94])
    made.init_bias(counts)
    for weight in (made.head.weight, *(part.get_parameter("1.weight") for part in made.tails)):
        torch.nn.init.zeros_(weight)
    found = made(torch.zeros(6).double()).exp()
    assert found.tolist() == pytest.approx(((counts + 0.5) / (counts + 0.5).sum()).tolist(), rel=1e-5)


def test_clusters_begin_above_a_number_of_labels() -> None:
    assert cluster_ends(10, 10) == (10,)
    assert cluster_ends(11, 10) == (2, 10, 11)
    assert cluster_ends(3, 1) == (1, 3)
