"""What a reader learns from: lessons, candidates, loss and best labels, each against sets or plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array
from split_batches import assert_same_in_threads
from torch import Tensor
from torch.nn import functional

from xmtc.corpus.corpus import label_matrix
from xmtc.corpus.labels import Csr
from xmtc.labelspace.tree import LabelTree
from xmtc.models.treaderxml.knowledge import TReaderInputs
from xmtc.models.treaderxml.network import TReaderNetwork
from xmtc.models.treaderxml.scoring import Candidates, TReaderLearner, TReaderScorer, dense_part
from xmtc.models.treaderxml.settings import TReaderXmlConfig
from xmtc.nn.batching import Entries, Ints, padded
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.layers import seeded
from xmtc.nn.parallel import Cores, Worker
from xmtc.text.embedding_table import WordSettings
from xmtc.text.token_store import TokenStore

HERE = Cores(None, 1)
DOCUMENTS, LABELS, WORDS = 6, 7, 20
CLUSTERS = LabelTree.of([[[0, 1, 2]], [[0, 3], [1, 2, 6], [4, 5]]]).levels[-1]
USUAL = np.array([0, 6])
SETS = [{1, 2}, {0}, set(), {6, 3}, {4}, {0, 5}]
#: Labels of neighbours; the third document has none.
VOTED = [{1, 3}, {0, 1}, set(), {3}, {2}, {5}]


def matrix(rows: list[set[int]], width: int, values: float = 1.0) -> Csr:
    flat = [sorted(row) for row in rows]
    made = label_matrix([at for row in flat for at in row], np.cumsum([0, *map(len, flat)]), width)
    made.data[:] = np.arange(1, made.nnz + 1) / made.nnz * values
    return made


def some_scorer(candidates: Candidates | None = None, voters: int = 0) -> TReaderScorer:
    rng = np.random.default_rng(0)
    config = TReaderXmlConfig(
        heads=2,
        bottleneck=8,
        dropout=0.0,
        votes=voters > 0,
        voters=max(voters, 1),
        words=WordSettings(dropout=0.0),
    )
    table = torch.from_numpy(rng.normal(size=(WORDS, 6)).astype(np.float32))
    clusters = 3 if candidates is not None and candidates.clusters is not None else 0
    with seeded(0):
        network = TReaderNetwork(table, config, LABELS, clusters, sparse=candidates is not None)
    with torch.no_grad():
        network.output.rows.weight.copy_(torch.from_numpy(rng.normal(size=(LABELS, 8)).astype(np.float32)))
    words = np.array([[2, 3, 0], [4, 0, 0], [5, 6, 7], [8, 0, 0], [0, 0, 0], [9, 2, 0], [3, 0, 0], [4, 5, 0]], np.int32)
    return TReaderScorer(network, words, candidates)


def some_inputs() -> TReaderInputs:
    rng = np.random.default_rng(1)
    tokens = TokenStore.of([rng.integers(1, WORDS, rng.integers(1, 6)).tolist() for _ in range(DOCUMENTS)])
    return TReaderInputs(tokens, matrix([{0, 7}, {1}, set(), {2, 5}, {4}, {3}], 8), matrix(VOTED, LABELS, 0.5))


def loss_of(learner: TReaderLearner, documents: Ints) -> Tensor:
    batch = learner.batch(documents, np.random.default_rng(0))
    return learner.loss(batch, Worker(len(documents), DropoutRng(0)))


def options(kind: str, beam_width: int = 1) -> Candidates:
    return Candidates(kind in ("neighbours", "both"), CLUSTERS if kind in ("tree", "both") else None, beam_width, USUAL)


def test_labels_that_nobody_voted_for() -> None:
    inputs, relevant = some_inputs(), matrix(SETS, LABELS)
    unvoted = [label in SETS[row] for row in range(DOCUMENTS) for label in {*range(LABELS)} - VOTED[row]]
    assert inputs.right_without_votes(relevant) == (sum(unvoted) + 1) / (len(unvoted) + 2)
    assert TReaderInputs(inputs.tokens).right_without_votes(relevant) == 0


def test_a_lesson_has_the_labels_of_the_batch_only() -> None:
    scorer, inputs = some_scorer(), some_inputs()
    teacher_batch = scorer.teacher_batch(inputs, np.array([3, 1, 2]))
    assert teacher_batch is not None
    assert teacher_batch.words.tolist() == [[4, 0, 0], [5, 6, 7], [9, 2, 0]]  # of the labels 1, 2 and 5
    assert inputs.knowledge is not None
    np.testing.assert_allclose(teacher_batch.weights, inputs.knowledge.toarray()[[3, 1, 2]][:, [1, 2, 5]])
    alone = scorer.teacher_batch(inputs, np.array([2]))
    assert alone is not None
    assert alone.words.shape == (0, 1)
    assert scorer.teacher_batch(TReaderInputs(inputs.tokens), np.array([2])) is None


def test_some_knowledge_is_forgotten_in_training_only() -> None:
    scorer = some_scorer()
    inputs = TReaderInputs(TokenStore.of([[2]] * 200), matrix([set(range(8))] * 200, 8))
    everyone = np.arange(200)
    whole = scorer.teacher_batch(inputs, everyone, None, 0.5)
    some = scorer.teacher_batch(inputs, everyone, np.random.default_rng(1), 0.25)
    assert whole is not None
    assert some is not None
    assert (whole.weights > 0).all()
    assert float((some.weights > 0).float().mean()) == pytest.approx(0.75, abs=0.05)
    torch.testing.assert_close(some.weights[some.weights > 0], whole.weights[some.weights > 0])


def candidates_of(kind: str, documents: Ints, of_clusters: Tensor | None, training: bool) -> list[set[int]]:
    """The candidates of each document, with a beam of one cluster."""
    best = None if of_clusters is None else of_clusters.argmax(1).tolist()
    members = [set(CLUSTERS.indices[slice(*CLUSTERS.indptr[at : at + 2])].tolist()) for at in range(3)]
    found = []
    for row, document in enumerate(documents.tolist()):
        expected: set[int] = set()
        if kind != "tree":
            expected |= VOTED[document]
        if best is not None:
            expected |= members[best[row]]
        if training:
            expected |= SETS[document]
            if kind != "neighbours":
                expected |= {at for each in members if each & SETS[document] for at in each}
        found.append(expected or set(USUAL.tolist()))
    return found


@pytest.mark.parametrize("kind", ["neighbours", "tree", "both"])
def test_candidates(kind: str) -> None:
    scorer, inputs = some_scorer(options(kind)), some_inputs()
    documents = np.array([3, 2, 0, 4])
    hidden = scorer.hidden(scorer.batch(inputs, documents))
    labels, own = scorer.chosen(inputs, documents, hidden)
    of_clusters = None if scorer.network.clusters is None else scorer.network.clusters(hidden)
    expected = candidates_of(kind, documents, of_clusters, training=False)
    assert [set(labels[row].tolist()) for row in own] == expected
    assert labels.tolist() == sorted(set().union(*expected))


@pytest.mark.parametrize("kind", ["neighbours", "tree", "both"])
def test_candidates_in_training_are_those_of_any_document_of_the_batch(kind: str) -> None:
    scorer, inputs, targets = some_scorer(options(kind)), some_inputs(), matrix(SETS, LABELS)
    learner = TReaderLearner(scorer, inputs, targets, inputs, targets)
    for documents in (np.array([3, 2, 0, 4]), np.array([2]), np.array([1, 2])):
        batch = learner.batch(documents, np.random.default_rng(0))
        labels, of_clusters = batch.labels, None
        if scorer.network.clusters is not None:
            of_clusters = scorer.network.clusters(scorer.hidden(batch.texts))
            labels = learner.candidates(batch, of_clusters, Worker(len(documents)))
        expected = candidates_of(kind, documents, of_clusters, training=True)
        assert labels is not None
        assert labels.tolist() == sorted(set().union(*expected))


@pytest.mark.parametrize("voters", [0, 4])
def test_loss_over_all_labels(voters: int) -> None:
    scorer, inputs = some_scorer(voters=voters), some_inputs()
    learner = TReaderLearner(scorer, inputs, matrix(SETS, LABELS) > 0, inputs, matrix(SETS, LABELS))
    documents = np.array([4, 0, 2])
    losses = []
    for document in documents.tolist():
        ids, lengths = padded(inputs.tokens, np.array([document]))
        assert inputs.votes is not None
        votes = torch.from_numpy(inputs.votes.toarray()[[document]]) if voters else None
        scores = scorer.network(ids, lengths, scorer.teacher_batch(inputs, np.array([document])), votes)[0]
        wanted = torch.tensor([float(label in SETS[document]) for label in range(LABELS)])
        losses += [-(w * p.log() + (1 - w) * (1 - p).log()) for w, p in zip(wanted, scores.sigmoid(), strict=True)]
    torch.testing.assert_close(loss_of(learner, documents), torch.stack(losses).mean(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("softmax", [False, True])
def test_loss_as_printed(softmax: bool) -> None:
    """Eq. 19, the sum over labels; with eq. 18 before it, a softmax."""
    scorer, inputs = some_scorer(), some_inputs()
    scorer.softmax = softmax
    targets = matrix(SETS, LABELS) > 0
    learner = TReaderLearner(scorer, inputs, targets, inputs, targets, sum_over_labels=True)
    documents, losses = np.array([4, 0, 2]), []
    for document in documents.tolist():
        ids, lengths = padded(inputs.tokens, np.array([document]))
        logits = scorer.network(ids, lengths, scorer.teacher_batch(inputs, np.array([document])))[0].tolist()
        shares = [math.exp(each) / sum(map(math.exp, logits)) for each in logits]
        terms = []
        for label, score in enumerate(shares if softmax else logits):
            right = float(label in SETS[document])
            sure = 1 / (1 + math.exp(-score))
            terms.append(right * math.log(sure) + (1 - right) * math.log(math.exp(-score) / (1 + math.exp(-score))))
        losses.append(-sum(terms))
    assert loss_of(learner, documents).item() == pytest.approx(sum(losses) / 3, rel=1e-4)


def test_softmaxed_scores_are_shares_of_all_labels() -> None:
    scorer, inputs = some_scorer(voters=4), some_inputs()
    ranked, _ = scorer.best(inputs, LABELS, HERE)
    scorer.softmax = True
    ids, probabilities = scorer.best(inputs, LABELS, HERE)
    np.testing.assert_array_equal(ids, ranked)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert (np.diff(probabilities) <= 0).all()
    np.testing.assert_allclose(scorer.best(inputs, 2, HERE)[1], probabilities[:, :2], rtol=1e-5)


@pytest.mark.parametrize("kind", ["neighbours", "both"])
def test_loss_over_candidates(kind: str) -> None:
    scorer, inputs, targets = some_scorer(options(kind), voters=4), some_inputs(), matrix(SETS, LABELS)
    targets.data[:] = 1
    learner = TReaderLearner(scorer, inputs, targets, inputs, targets)
    documents = np.array([4, 0, 2])
    hidden = scorer.hidden(scorer.batch(inputs, documents))
    relevant = targets[documents]
    of_clusters = None if scorer.network.clusters is None else scorer.network.clusters(hidden)
    labels = torch.tensor(sorted(set().union(*candidates_of(kind, documents, of_clusters, training=True))))
    votes = torch.from_numpy(inputs.votes.toarray()[documents])  # type: ignore[union-attr]
    scores = scorer.network.scores(hidden, votes)[:, labels]
    wanted = torch.from_numpy(relevant.toarray()[:, labels])
    expected = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum")
    if of_clusters is not None:
        above = torch.from_numpy(((relevant @ CLUSTERS.T).toarray() > 0).astype(np.float32))
        expected = expected + functional.binary_cross_entropy_with_logits(of_clusters, above, reduction="sum")
    torch.testing.assert_close(loss_of(learner, documents), expected / scores.numel())
    loss_of(learner, documents).backward()  # type: ignore[no-untyped-call]
    gradient = scorer.network.output.rows.weight.grad
    assert gradient is not None
    assert gradient.coalesce().indices()[0].tolist() == labels.tolist(), "other labels are not touched"


@pytest.mark.parametrize("kind", ["all", "neighbours", "tree", "both"])
def test_best_labels(kind: str) -> None:
    scorer, inputs = some_scorer(options(kind) if kind != "all" else None, voters=4), some_inputs()
    ids, probabilities = scorer.best(inputs, 4, HERE)
    assert ids.shape == probabilities.shape == (DOCUMENTS, 4)
    for document in range(DOCUMENTS):
        row = np.array([document])
        with torch.no_grad():
            hidden = scorer.hidden(scorer.batch(inputs, row))
            votes = torch.from_numpy(inputs.votes.toarray()[row])  # type: ignore[union-attr]
            scores = scorer.network.scores(hidden, votes)[0].sigmoid().numpy()
            allowed = range(LABELS) if kind == "all" else scorer.chosen(inputs, row, hidden)[0].tolist()
        ranked = sorted(allowed, key=lambda label: -scores[label])[:4]
        assert ids[document].tolist() == ranked + [-1] * (4 - len(ranked))
        np.testing.assert_allclose(probabilities[document, : len(ranked)], scores[ranked], rtol=1e-4)
    assert scorer.best(inputs, 100, HERE)[0].shape[1] == LABELS


def test_quality() -> None:
    scorer, inputs, targets = some_scorer(), some_inputs(), matrix(SETS, LABELS)
    found = TReaderLearner(scorer, inputs, targets, inputs, targets).validation_ndcg(HERE)
    assert found is not None
    assert 0 < found < 1
    nobody = matrix([set()] * DOCUMENTS, LABELS)
    assert TReaderLearner(scorer, inputs, targets, inputs, nobody).validation_ndcg(HERE) is None


@given(hnp.arrays(np.float32, (3, 6), elements=st.integers(0, 2).map(np.float32)), st.sets(st.integers(0, 5)))
def test_dense_part(values: np.ndarray[Any, Any], columns: set[int]) -> None:
    chosen, entries = np.array(sorted(columns), np.int64), Entries.of(csr_array(values))
    np.testing.assert_array_equal(dense_part(entries, 6, torch.from_numpy(chosen)), values[:, chosen])
    np.testing.assert_array_equal(dense_part(entries, 6), values)


MANY = 60
THREES = LabelTree.of([[[*range(20)]], [[at, at + 20, at + 40] for at in range(20)]]).levels[-1]


def noisy_learner(kind: str, **changes: Any) -> TReaderLearner:
    """With everything that there is: dropout of all kinds, a teacher, votes, names, an encoder's vectors, clusters."""
    rng, documents = np.random.default_rng(3), 11

    def sparse(width: int, share: float) -> Csr:
        return csr_array((rng.random((documents, width)) * (rng.random((documents, width)) < share)).astype(np.float32))

    tokens = TokenStore.of([rng.integers(1, WORDS, rng.integers(1, 9)).tolist() for _ in range(documents)])
    encoded = rng.normal(size=(documents, 5)).astype(np.float32)
    inputs = TReaderInputs(tokens, sparse(8, 0.3), sparse(MANY, 0.02), encoded, sparse(MANY, 0.02))
    targets = csr_array(np.sign(sparse(MANY, 0.02).toarray()))
    plain = {"heads": 2, "bottleneck": 8, "dropout": 0.4, "votes": True, "names": True, "search": {"vectors": "tfidf"}}
    config = TReaderXmlConfig(**{**plain, **changes})
    clusters = THREES if kind in ("tree", "both") else None
    candidates = None if kind == "all" else Candidates(kind in ("neighbours", "both"), clusters, 2, USUAL)
    with seeded(0):
        table = torch.randn(WORDS, 6)
        rows = 0 if clusters is None else 20
        network = TReaderNetwork(table, config, MANY, rows, encoded=5, sparse=candidates is not None)
        torch.nn.init.normal_(network.output.rows.weight)
    scorer = TReaderScorer(network, some_scorer().words, candidates, config.softmax)
    whole = config.loss_over_labels == "sum"
    return TReaderLearner(scorer, inputs, targets, inputs, targets, knowledge_dropout=0.3, sum_over_labels=whole)


@pytest.mark.parametrize("kind", ["all", "neighbours", "tree", "both"])
@pytest.mark.parametrize("branches", ["both", "text", "teacher"])
def test_loss_and_gradients_do_not_depend_on_how_a_batch_is_split(kind: str, branches: str) -> None:
    learner, documents = noisy_learner(kind, branches=branches), np.random.default_rng(0).permutation(11)
    assert_same_in_threads(learner, documents)
    if kind != "all":
        loss_of(learner, documents).backward()  # type: ignore[no-untyped-call]
        gradient = learner.network.output.rows.weight.grad
        assert gradient is not None
        assert 10 < len(gradient.coalesce().indices()[0]) < MANY, "candidates are some of the labels"


@pytest.mark.parametrize("kind", ["all", "both"])
@pytest.mark.parametrize("hides", ["later", "earlier"])
@pytest.mark.parametrize("softmax", [False, True])
def test_nor_do_they_as_printed(kind: str, hides: str, softmax: bool) -> None:
    printed: dict[str, Any] = {
        "votes": False,
        "names": False,
        "knowledge_mean": "labels",
        "pooling": "mean",
        "linear_bottleneck": True,
        "output_bias": False,
        "loss_over_labels": "sum",
    }
    learner = noisy_learner(kind, hides=hides, softmax=softmax, **printed)
    # A sum over labels is so many times as large as a mean.
    assert_same_in_threads(learner, np.random.default_rng(0).permutation(11), tolerance=MANY * 1e-6)


def test_rows_of_the_tables_that_learn_do_not_depend_on_how_a_batch_is_split() -> None:
    """Adam moves rows with a gradient of 0 too: a batch in parts has gradients of the same rows."""
    learner = noisy_learner("all")
    batch = learner.batch(np.arange(11), np.random.default_rng(0))
    rows = []
    for parts in ([slice(0, 11)], [slice(0, 3), slice(3, 11)]):
        learner.network.zero_grad()
        for part in parts:
            learner.loss(batch.part(part), Worker(11, DropoutRng(0, part.start))).backward()  # type: ignore[no-untyped-call]
        gradient = learner.network.words.words.weight.grad
        assert gradient is not None
        rows.append(gradient.coalesce().indices()[0].tolist())
    assert rows[0] == rows[1]


@pytest.mark.parametrize("kind", ["all", "neighbours", "both"])
def test_all_is_computed_where_the_network_is(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The meta device computes shapes; it refuses tensors of the CPU, and gives nothing back."""
    learner, meta = noisy_learner(kind), torch.device("meta")
    # Of clusters it would have to say how many labels they have.
    monkeypatch.setattr(Tensor, "nonzero", lambda values: torch.zeros(5, 1, dtype=torch.int64, device=values.device))
    batch = learner.batch(np.arange(11), np.random.default_rng(0))
    learner.network.to(meta)
    learner.loss(batch.to(meta), Worker(11, DropoutRng(0))).backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None for weight in learner.network.parameters())
