"""Beam search against all sequences there are."""

from __future__ import annotations

from itertools import permutations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_seq2seq import LABELS, METHODS, network
from torch import nn

from xmtc.models.seq2seq import beam
from xmtc.models.seq2seq.beam import beam_steps, emission_probabilities
from xmtc.models.seq2seq.model import Mlc2Seq, Seq2Seq, Sgm
from xmtc.models.seq2seq.network import Seq2SeqNetwork
from xmtc.models.seq2seq.output import Targets

IDS, LENGTHS = torch.tensor([[3, 1, 4], [5, 8, 0]]), torch.tensor([3, 2])
MOST = 3


def log_probability(made: Seq2SeqNetwork, document: int, labels: tuple[int, ...], ended: bool = True) -> float:
    """Of a whole sequence, or of one that begins so."""
    symbols = torch.tensor([[*labels, LABELS]])
    targets = Targets.of(symbols if ended else symbols[:, :-1], made.output.ends)
    if targets.symbols.shape[1] == 0:
        return 0.0
    length = int(LENGTHS[document])
    with torch.no_grad():
        return -made.losses(IDS[document, None, :length], LENGTHS[document, None], targets).item()


def prefixes(made: Seq2SeqNetwork, length: int) -> list[tuple[int, ...]]:
    """All sequences of so many labels."""
    return [*(permutations(range(LABELS), length) if made.masked else product(range(LABELS), repeat=length))]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("adaptive_above", [10, 2], ids=["one softmax", "clusters"])
def test_a_wide_beam_finds_what_all_sequences_say(method: type[Seq2Seq], adaptive_above: int) -> None:
    made = network(method, adaptive_above=adaptive_above)
    found = emission_probabilities(made, IDS, LENGTHS, LABELS**MOST, MOST)
    for document in range(2):
        expected = [0.0] * LABELS
        for length in range(1, MOST + 1):
            for labels in prefixes(made, length):
                probability = torch.tensor(log_probability(made, document, labels, ended=False)).exp().item()
                if labels[-1] not in labels[:-1]:
                    expected[labels[-1]] += probability
        assert found[document].tolist() == pytest.approx(expected, abs=2e-4)
        assert 0 < max(expected) <= 1


@pytest.mark.parametrize("method", METHODS)
def test_the_best_sequence_of_a_wide_beam_is_the_best_of_all(method: type[Seq2Seq]) -> None:
    made = network(method)
    for document in range(2):
        every = [labels for length in range(1, MOST + 1) for labels in prefixes(made, length)]
        best = max(every, key=lambda labels: log_probability(made, document, labels, ended=False) / len(labels))
        length = int(LENGTHS[document])
        steps = list(beam_steps(made, IDS[document, None, :length], LENGTHS[document, None], LABELS**MOST, MOST + 1))
        followed = {
            tuple(prefix.tolist()): score.item()
            for step in steps
            for prefix, score in zip(step.prefixes[0], step.scores[0], strict=True)
        }
        assert max((each for each in followed if each), key=lambda each: followed[each] / len(each)) == best
        assert followed[best] == pytest.approx(log_probability(made, document, best, ended=False), abs=1e-4)


def test_a_narrow_beam_follows_the_best_prefixes() -> None:
    made = network(Mlc2Seq)
    narrow, wide = (list(beam_steps(made, IDS[:1], LENGTHS[:1], width, 2)) for width in (2, LABELS))
    assert [step.prefixes.shape[1] for step in narrow] == [1, 2]
    torch.testing.assert_close(narrow[1].scores, wide[1].scores[:, :2])
    few = emission_probabilities(made, IDS, LENGTHS, 1, MOST)
    many = emission_probabilities(made, IDS, LENGTHS, 4, MOST)
    assert bool((few <= many + 1e-6).all())


@given(st.integers(0, 2**32), st.sampled_from([10, 2]), st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_a_masked_softmax_never_repeats(seed: int, adaptive_above: int, width: int) -> None:
    made = network(Sgm, adaptive_above=adaptive_above)
    torch.manual_seed(seed)
    for weight in made.parameters():
        nn.init.normal_(weight, std=2.0)
    with torch.no_grad():
        made.output.head.bias[made.output.ends[0]] = -50.0  # else most sequences end at once
    for step in beam_steps(made, IDS, LENGTHS, width, LABELS + 2):
        alive = step.prefixes[step.scores > -torch.inf].tolist()
        assert all(len(set(labels)) == len(labels) <= LABELS for labels in alive)


def test_without_a_mask_a_label_counts_once() -> None:
    made = network(Mlc2Seq)
    with torch.no_grad():
        made.output.head.bias.copy_(torch.tensor([9.0, 0, 0, 0, 0, -9]))  # the first label, again and again
    found = emission_probabilities(made, IDS, LENGTHS, 5, MOST)
    assert bool((found <= 1).all())
    assert found[:, 0].min().item() > 0.9


@pytest.mark.parametrize("method", METHODS)
def test_finished_documents_leave_the_batch(method: type[Seq2Seq], monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(method)
    whole = list(beam_steps(made, IDS, LENGTHS, 4, MOST))
    unfinished = whole[1].scores.logsumexp(1).exp()
    assert unfinished[0] != unfinished[1]
    longer = int(unfinished.argmax())
    monkeypatch.setattr(beam, "NEGLIGIBLE", unfinished.mean().item())
    _, second = list(beam_steps(made, IDS, LENGTHS, 4, 2))
    assert second.documents.tolist() == [longer]
    torch.testing.assert_close(second.emissions[0], whole[1].emissions[longer])
    torch.testing.assert_close(second.attention[0], whole[1].attention[longer])
    monkeypatch.setattr(beam, "NEGLIGIBLE", 2.0)
    assert len(list(beam_steps(made, IDS, LENGTHS, 4, MOST))) == 1
