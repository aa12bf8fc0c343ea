"""X-Transformer's matcher on a tiny encoder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from meta_device import assert_stays_on_the_device
from scipy.sparse import csr_array
from split_batches import assert_same_in_threads

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.strings import Strings
from xmtc.labelspace.tree import LabelTree
from xmtc.models.x_transformer.matcher import Matcher, MatcherLearner, squared_hinge, tuned
from xmtc.nn.datasets import LabelledTexts
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.encoders.encoder import Encoder, EncoderTexts
from xmtc.nn.encoders.pretrained import Pretrained, load_pretrained
from xmtc.nn.encoders.settings import EncoderSettings, TransformerTraining
from xmtc.nn.parallel import Worker, torch_threads

Maker = Callable[[str], Path]
WORDS = ["ship", "bread", "cloud", "storm", "butter", "captain"]
TEXTS = [f"{one} {two}" for one in WORDS for two in WORDS]
TREE = LabelTree.of([[[1, 0, 2]], [[0, 1], [2, 3], [4, 5]]])
QUICK = TransformerTraining(epochs=12, batch_size=6, learning_rate=0.02, encoder_learning_rate=0.003, evaluate_every=30)


@pytest.fixture(scope="module")
def loaded(tiny_encoder: Maker) -> Pretrained:
    return load_pretrained(str(tiny_encoder("bert")))


def corpus() -> Corpus:
    tags = [sorted(set(text.split())) for text in TEXTS]
    return Corpus.of(TEXTS * 4, tags * 4, label_set=Corpus.of([""], [WORDS]).labels)


def matcher(loaded: Pretrained, clusters: int = 3, frozen: int = 0) -> Matcher:
    config: Any = loaded.model.config
    fresh = load_pretrained(config._name_or_path)
    settings = EncoderSettings(max_tokens=32, pooling="mean", frozen_layers=frozen, precision="single")
    return Matcher(Encoder.of(fresh, settings), clusters, dropout=0.2, seed=5)


def test_scores_are_those_of_a_linear_layer(loaded: Pretrained) -> None:
    network = matcher(loaded)
    texts = EncoderTexts(loaded.tokenizer.encode(Strings.of(TEXTS), 32))
    batch = network.encoder.batch(texts, np.arange(9))
    assert network.output is not None
    with torch.no_grad():
        vectors = network.encoder(batch)
        expected = vectors @ network.output.weight.T + network.output.bias
        torch.testing.assert_close(network(batch), expected)
        torch.testing.assert_close(torch.from_numpy(network.scores(vectors.numpy())), expected)
        rng = DropoutRng(4)  # the encoder's masks come first, then the layer's
        expected = network.output(dropout(network.encoder(batch, rng), 0.2, rng))
        torch.testing.assert_close(network(batch, DropoutRng(4)), expected)


def test_scores_are_finite_whatever_the_weights(loaded: Pretrained) -> None:
    network = matcher(loaded)
    wild = np.array([[np.nan] * 16, [np.inf] * 16, [3e38] * 16], np.float32)
    assert np.isfinite(network.scores(wild)).all()


def test_a_new_matcher_says_no_and_an_only_cluster_is_right(loaded: Pretrained) -> None:
    vectors = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32)
    np.testing.assert_allclose(matcher(loaded).scores(vectors), -1, atol=0.5)
    np.testing.assert_array_equal(matcher(loaded, clusters=1).scores(vectors), 1)
    one, two = (matcher(loaded).output for _ in range(2))
    assert one is not None
    assert two is not None
    assert torch.equal(one.weight, two.weight)
    assert matcher(loaded, clusters=0).output is None


def test_squared_hinge_against_a_loop() -> None:
    rng = np.random.default_rng(3)
    scores, relevant = rng.normal(scale=2, size=(5, 7)), rng.random((5, 7)) < 0.3
    found = squared_hinge(torch.from_numpy(scores), torch.from_numpy(relevant.astype(float)))
    for row in range(5):
        expected = 0.0
        for at in range(7):
            side = 1 if relevant[row, at] else -1
            expected += max(0.0, 1 - side * scores[row, at]) ** 2 / 7
        assert float(found[row]) == pytest.approx(expected)


def test_loss_and_quality(loaded: Pretrained) -> None:
    network = matcher(loaded)
    texts = EncoderTexts(loaded.tokenizer.encode(Strings.of(TEXTS), 32))
    targets = np.array([[word in text.split() for word in WORDS[:3]] for text in TEXTS], np.float32)
    documents = LabelledTexts(texts, csr_array(targets))
    learner = MatcherLearner(network, documents, documents)
    some = np.array([3, 8])
    batch = learner.batch(some, np.random.default_rng(0))
    expected = squared_hinge(network(batch.texts, DropoutRng(1)), torch.from_numpy(targets[some])).mean()
    torch.testing.assert_close(learner.loss(batch, Worker(2, DropoutRng(1))), expected)
    nothing = LabelledTexts(texts, csr_array(np.zeros_like(targets)))
    with torch_threads() as cores:
        validation_ndcg = learner.validation_ndcg(cores)
        assert MatcherLearner(network, documents, nothing).validation_ndcg(cores) is None
        vectors = network.encoder.vectors(texts, cores)
    ranks = np.argsort(np.argsort(-network.scores(vectors), axis=1), axis=1)
    gains = 1 / np.log2(np.arange(3) + 2)
    each = [
        sum(gains[ranks[row, at]] for at in np.flatnonzero(relevant)) / gains[: int(relevant.sum())].sum()
        for row, relevant in enumerate(targets)
        if relevant.any()
    ]
    assert validation_ndcg == pytest.approx(np.mean(each))


@pytest.mark.parametrize("frozen", [0, 1, 3])
def test_threads_and_devices(loaded: Pretrained, frozen: int) -> None:
    """Loss and gradients are the same in any number of threads, and nothing leaves the device."""
    network = matcher(loaded, frozen=frozen)
    with torch_threads() as cores:
        texts = network.encoder.texts(loaded.tokenizer.encode(Strings.of(TEXTS), 32), cores)
    targets = np.array([[word in text.split() for word in WORDS[:3]] for text in TEXTS], np.float32)
    documents = LabelledTexts(texts, csr_array(targets))
    learner = MatcherLearner(network, documents, documents)
    assert_same_in_threads(learner, [3, 8, 20, 35, 1, 7])
    assert_stays_on_the_device(learner, [3, 8, 20])


@pytest.mark.parametrize("frozen", [0, 1])
def test_tuning_finds_the_clusters(loaded: Pretrained, frozen: int, tmp_path: Path, monkeypatch: Any) -> None:
    """With whatever frozen layers; the vectors are those of the tuned encoder, and a second run does nothing twice."""

    def encode(texts: Strings) -> Any:
        return loaded.tokenizer.encode(texts, 32)

    def run(network: Matcher, valid: Corpus | None = None) -> Any:
        kept = Checkpoints(tmp_path / "pieces", {}) if valid is None else Checkpoints(None, {})
        return tuned(network, TREE, documents, valid, encode, QUICK, 0, kept, "matcher0")

    documents, network = corpus(), matcher(loaded, frozen=frozen)
    vectors = run(network)
    assert documents.texts is not None
    plain = EncoderTexts(encode(documents.texts))
    with torch_threads() as cores:
        # The frozen part is kept with two bytes a number.
        np.testing.assert_allclose(vectors, network.encoder.vectors(plain, cores), atol=0.02 if frozen else 1e-5)
    targets = TREE.targets(documents.targets)[0].toarray()
    best = network.scores(vectors).argmax(1)
    assert targets[np.arange(len(best)), best].mean() > 0.95

    again = matcher(loaded, frozen=frozen)
    monkeypatch.setattr(Encoder, "_work", None)  # whatever would be computed would fail
    np.testing.assert_array_equal(run(again), vectors)
    np.testing.assert_array_equal(again.scores(vectors), network.scores(vectors))


def test_validation_documents_of_their_own(loaded: Pretrained) -> None:
    documents, network = corpus(), matcher(loaded)
    valid = documents[:40].with_labels(documents.labels.extend(["new"]))
    vectors = tuned(
        network,
        TREE,
        documents,
        valid,
        lambda texts: loaded.tokenizer.encode(texts, 32),
        QUICK.model_copy(update={"epochs": 1}),
        0,
        Checkpoints(None, {}),
        "matcher0",
    )
    assert np.isfinite(vectors).all()
    assert vectors.shape == (len(documents), 16)
