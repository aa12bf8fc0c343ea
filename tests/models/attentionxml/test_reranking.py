"""A network over short lists: what it is asked, how it begins, and the order that comes out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from xmtc.corpus.sparse import make_csr
from xmtc.models.attentionxml.network import AttentionXmlNetwork
from xmtc.models.attentionxml.reranking import CorrectionLearner, corrected
from xmtc.nn.datasets import Documents
from xmtc.nn.dropout import dropout_rng
from xmtc.nn.parallel import torch_threads
from xmtc.search.listed import Listed
from xmtc.text.token_store import TokenStore

LABELS = 7
TOKENS = TokenStore.of([[3, 4, 5], [2], [6, 6, 2, 3]])
TARGETS = make_csr(np.ones(5, np.float32), np.array([0, 4, 4, 2, 6]), np.array([0, 2, 3, 5]), (3, LABELS))
LISTS = Listed(
    np.array([[4, 1, 3], [5, -1, -1], [6, 2, 0]], np.int32),
    np.array([[1.0, 0.5, -2.0], [0.3, 0.0, 0.0], [0.2, 0.2, -1.0]], np.float32),
)


def made(seed: int = 1, logsumexp_score: bool = False) -> AttentionXmlNetwork:
    table = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    return AttentionXmlNetwork.made(
        table, LABELS, hidden=3, layers=(4,), word_dropout=0.0, dropout=0.0, frozen=False, own_outputs=True,
        bottleneck=None, seed=seed, logsumexp_score=logsumexp_score, corrective=True,
    )  # fmt: skip


def learner(network: AttentionXmlNetwork) -> CorrectionLearner:
    documents = Documents(TOKENS, TARGETS)
    return CorrectionLearner(network, documents, LISTS, documents, LISTS, batch=2)


def lists_of(network: AttentionXmlNetwork) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    with torch_threads() as cores:
        return corrected(network, TOKENS, LISTS, cores)


@pytest.mark.parametrize("logsumexp_score", [False, True])
def test_it_begins_with_the_lists_as_they_are(logsumexp_score: bool) -> None:
    network = made(logsumexp_score=logsumexp_score)
    network.expect_unlisted(0.1)
    ids, probabilities = lists_of(network)
    assert ids.tolist() == [[4, 1, 3], [5, -1, -1], [2, 6, 0]], "ties go to the lower label"
    expected = [[1.0, 0.5, -2.0], [0.3], [0.2, 0.2, -1.0]]
    for row, odds in enumerate(expected):
        np.testing.assert_allclose(probabilities[row, : len(odds)], 1 / (1 + np.exp(-np.array(odds))), rtol=1e-5)
    assert probabilities[1, 1:].tolist() == [0, 0]


def test_scores_are_added_to_trusted_log_odds() -> None:
    network = made()
    with torch.no_grad():
        assert network.trust is not None and network.gain is not None
        network.trust.fill_(0.7)
        network.gain.fill_(0.6)
    ids, probabilities = lists_of(network)
    for row in range(3):
        with torch.inference_mode():
            everything = torch.arange(network.head.rows.num_embeddings)[None]  # type: ignore[union-attr, arg-type]
            words, length = torch.tensor([TOKENS[row].tolist()]), torch.tensor([len(TOKENS[row])])
            scores = 0.6 * network(words, length, everything)[0].numpy()
        odds = dict(zip(LISTS.labels[row].tolist(), LISTS.odds[row].tolist(), strict=True))
        found = {
            label: sure
            for label, sure in zip(ids[row].tolist(), probabilities[row].tolist(), strict=True)
            if label >= 0
        }
        expected = {label: 1 / (1 + np.exp(-(scores[label] + 0.7 * odd))) for label, odd in odds.items() if label >= 0}
        assert found == pytest.approx(expected, rel=1e-5)
        assert list(found.values()) == sorted(found.values(), reverse=True)


def test_what_it_is_asked() -> None:
    """The list of each document, and what other documents of the batch have and its list lacks."""
    rows = np.array([0, 1])
    labels, odds, relevant, asked = learner(made()).questions(rows)
    for row in rows:
        listed = {int(label): float(odd) for label, odd in zip(LISTS.labels[row], LISTS.odds[row], strict=True)}
        listed.pop(-1, None)
        wanted = {*listed, 0, 4}  # also all labels of the batch
        expected = {label: (listed.get(label), float(TARGETS[[row]].toarray()[0, label])) for label in wanted}
        found = {}
        for label, odd, is_hit, is_asked in zip(labels[row], odds[row], relevant[row], asked[row], strict=True):
            if is_asked:
                assert int(label) not in found, "asked twice"
                found[int(label)] = (None if np.isnan(odd) else float(odd), float(is_hit))
        assert found == expected


def test_loss_is_the_mean_over_what_is_asked() -> None:
    network = made()
    assert network.gain is not None
    torch.nn.init.constant_(network.gain, 0.6)
    one, rows = learner(network), np.array([0, 2])
    labels, odds, relevant, asked = one.questions(rows)
    losses = []
    for row, document in enumerate(rows):
        ids, lengths = torch.tensor([TOKENS[document].tolist()]), torch.tensor([len(TOKENS[document])])
        scores = network(ids, lengths)[0].detach().numpy()
        assert network.unlisted is not None
        for label, odd, is_hit, is_asked in zip(labels[row], odds[row], relevant[row], asked[row], strict=True):
            if is_asked:
                z = 0.6 * scores[label] + (float(network.unlisted.detach()) if np.isnan(odd) else float(odd))
                losses.append(np.log1p(np.exp(-z)) if is_hit else np.log1p(np.exp(z)))
    loss = one.loss(rows, dropout_rng(0))
    assert float(loss.detach()) == pytest.approx(np.mean(losses), rel=1e-5)
    loss.backward()  # type: ignore[no-untyped-call]
    for name, weight in network.named_parameters():
        if name in ("trust", "gain", "unlisted"):
            assert weight.grad is not None and bool(weight.grad.isfinite()) and float(weight.grad) != 0


def test_share_of_unlisted_labels() -> None:
    """Those that are missed, of all that a batch asks about."""
    found = learner(made()).share_of_unlisted()
    missed = 5 - 3  # document 0 lacks label 0, document 1 label 4
    assert found == pytest.approx((missed / 3) / (2 * 5 / 3))


def test_it_learns_to_correct() -> None:
    network = made()
    one = learner(network)
    network.expect_unlisted(one.share_of_unlisted())
    before = float(one.loss(np.arange(3), dropout_rng(0)).detach())
    tables = ("rows", "own", "words")  # their gradients are sparse, which this optimiser does not take
    dense = [weight for name, weight in network.named_parameters() if not any(part in name for part in tables)]
    optimiser = torch.optim.Adam(dense, 0.05)
    for step in range(40):
        optimiser.zero_grad()
        one.loss(np.arange(3), dropout_rng(step)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert float(one.loss(np.arange(3), dropout_rng(0)).detach()) < 0.7 * before
