"""APLC-XLNet's network on tiny encoders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from meta_device import assert_stays_on_the_device
from scipy.sparse import csr_array
from split_batches import assert_same_in_threads

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.strings import Strings
from xmtc.models.aplc_xlnet.adaptive_clusters import ClusterTargets
from xmtc.models.aplc_xlnet.label_clusters import FrequencyClusters
from xmtc.models.aplc_xlnet.model import AplcConfig
from xmtc.models.aplc_xlnet.network import AplcLearner, AplcNetwork, HeadLearner, LabelledVectors, best_labels
from xmtc.nn.datasets import LabelledTexts
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.encoders.encoder import Encoder, EncoderTexts
from xmtc.nn.encoders.pretrained import load_pretrained
from xmtc.nn.encoders.settings import EncoderSettings, TransformerTraining
from xmtc.nn.layers import seeded
from xmtc.nn.parallel import Worker, torch_threads
from xmtc.nn.trainer import train

Maker = Callable[[str], Path]
WORDS = ["ship", "bread", "cloud", "storm", "butter", "captain"]
TEXTS = [f"{one} {two}" for one in WORDS for two in WORDS]
LABELS = np.array([[word in text.split() for word in WORDS] for text in TEXTS], np.float32)
CLUSTERS = FrequencyClusters.by_cut_offs(np.array([9, 9, 5, 5, 1, 1]), [2, 4])


@pytest.fixture(params=["bert", "xlnet"])
def learner(request: pytest.FixtureRequest, tiny_encoder: Maker) -> AplcLearner:
    loaded = load_pretrained(str(tiny_encoder(request.param)))
    encoder = Encoder.of(loaded, EncoderSettings(max_tokens=32, pooling="mean", precision="single"))
    with seeded(3):
        network = AplcNetwork(encoder, CLUSTERS, AplcConfig(hidden=24, decay=2, dropout=0.1))
    tokens = loaded.tokenizer.encode(Strings.of(TEXTS), 32)
    documents = LabelledTexts(EncoderTexts(tokens), csr_array(LABELS))
    return AplcLearner(network, documents, documents)


def test_hidden_layer(learner: AplcLearner) -> None:
    network = learner.network
    batch = network.encoder.batch(learner.train.texts, np.arange(5))
    with torch.no_grad():
        vectors = network.encoder(batch)
        expected = torch.tanh(vectors @ network.hidden.weight.T + network.hidden.bias)
        torch.testing.assert_close(network(batch), expected)
        # The encoder's masks come first, the hidden layer goes on with the same generator.
        rng = DropoutRng(4)
        vectors = network.encoder(batch, rng)
        expected = dropout(torch.tanh(network.hidden(vectors)), 0.1, rng)
        torch.testing.assert_close(network(batch, DropoutRng(4)), expected)


def test_new_weights_depend_on_the_seed_alone(tiny_encoder: Maker) -> None:
    encoder = Encoder.of(load_pretrained(str(tiny_encoder("bert"))), EncoderSettings())
    networks = []
    for seed in (1, 1, 2):
        with seeded(seed):
            networks.append(AplcNetwork(encoder, CLUSTERS, AplcConfig()))
    one, two, other = networks
    assert one.hidden.out_features == encoder.width
    assert torch.equal(one.hidden.weight, two.hidden.weight)
    assert torch.equal(one.output.head.weight, two.output.head.weight)
    assert not torch.equal(one.hidden.weight, other.hidden.weight)
    assert float(one.hidden.weight.detach().std()) == pytest.approx(0.02, rel=0.2)
    assert not one.hidden.bias.any()


def test_loss_is_that_of_the_clusters_and_idle_tails_have_no_gradient(learner: AplcLearner) -> None:
    documents = np.array([0, 1])  # ship ship, ship bread: labels of the head
    batch = learner.batch(documents, np.random.default_rng(0))
    loss = learner.loss(batch, Worker(2, DropoutRng(0)))
    hidden = learner.network(learner.network.encoder.batch(learner.train.texts, documents), DropoutRng(0))
    expected = learner.network.output(hidden, ClusterTargets.of(csr_array(LABELS[:2]), CLUSTERS))
    assert loss.item() == pytest.approx(expected.mean().item())
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is None for weight in learner.network.output.tails.parameters())
    assert learner.network.output.root.weight.grad is not None
    assert learner.network.hidden.weight.grad is not None


def head_of(learner: AplcLearner) -> HeadLearner:
    with torch_threads() as cores:
        vectors = torch.from_numpy(learner.network.encoder.vectors(learner.train.texts, cores))
    known = LabelledVectors(vectors, learner.train.targets)
    return HeadLearner(learner.network, known, known)


def test_threads_change_neither_loss_nor_gradients(learner: AplcLearner) -> None:
    assert_same_in_threads(learner, [0, 28, 35, 3, 14, 22, 1])  # labels of the head, of both tails, and of all
    assert_same_in_threads(head_of(learner), [0, 28, 35, 3, 14, 22, 1])


def test_nothing_leaves_the_device_in_training(learner: AplcLearner) -> None:
    head = head_of(learner)
    assert_stays_on_the_device(learner, [0, 28, 35, 3])
    assert_stays_on_the_device(head, [0, 28, 35, 3])


@pytest.mark.parametrize("learner", ["bert"], indirect=True)
def test_a_training_with_two_bytes_a_number_is_near(learner: AplcLearner) -> None:
    batch = learner.batch(np.array([0, 28, 35, 3]), np.random.default_rng(0))
    expected = learner.loss(batch, Worker(4, DropoutRng(0)))
    with torch.autocast("cpu", torch.bfloat16):
        found = learner.loss(batch, Worker(4, DropoutRng(0)))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.01, atol=0)
    found.backward()  # type: ignore[no-untyped-call]
    gradients = [weight.grad for weight in learner.network.parameters() if weight.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_best_labels_in_batches_are_those_of_single_documents(
    learner: AplcLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmtc.nn.encoders.encoder.MAX_BATCH_TOKENS", 30)
    monkeypatch.setattr("xmtc.models.aplc_xlnet.network.READ_BATCH", 11)
    monkeypatch.setattr("xmtc.models.aplc_xlnet.network.SCORE_BATCH", 4)
    with torch_threads() as cores:
        ids, scores = best_labels(learner.network, learner.train.texts, 4, cores)
    for document in (0, 7, 35):
        with torch.inference_mode():
            batch = learner.network.encoder.batch(learner.train.texts, np.array([document]))
            alone = learner.network.output.top_k(learner.network(batch), 4)
        assert ids[document].tolist() == alone[0][0].tolist()
        np.testing.assert_allclose(scores[document], alone[1][0], rtol=1e-5)


def test_it_learns_words_of_head_and_tails(learner: AplcLearner) -> None:
    settings = TransformerTraining(
        epochs=120, batch_size=6, learning_rate=0.02, encoder_learning_rate=0.003, evaluate_every=30, patience=30
    )
    with torch_threads() as cores:
        before = learner.validation_ndcg(cores)
    train(learner, settings, 2, Checkpoints(None, {}), "toy")
    with torch_threads() as cores:
        after = learner.validation_ndcg(cores)
        ids, _ = best_labels(learner.network, learner.train.texts, 2, cores)
    assert before is not None
    assert after is not None
    assert before < 0.8 < 0.93 < after
    for label in range(6):  # labels of the head and of both tails are found where they are right
        assert (ids[LABELS[:, label] > 0] == label).any(1).mean() > 0.5


def test_without_validation_documents_there_is_no_ndcg(learner: AplcLearner) -> None:
    learner.valid_targets = csr_array(np.zeros_like(LABELS))
    with torch_threads() as cores:
        assert learner.validation_ndcg(cores) is None


def test_head_learns_alone(learner: AplcLearner) -> None:
    network = learner.network
    with torch_threads() as cores:
        vectors = torch.from_numpy(network.encoder.vectors(learner.train.texts, cores))
        known = LabelledVectors(vectors, learner.train.targets)
        network.scale_hidden(vectors)
        assert network.hidden(vectors).square().mean().item() == pytest.approx(1)
        head = HeadLearner(network, known, known)
        hidden = network(network.encoder.batch(learner.train.texts, np.arange(9)))
        torch.testing.assert_close(network.states(vectors[:9]), hidden)
        encoder = {name: weight.clone() for name, weight in network.encoder.state_dict().items()}
        before = head.validation_ndcg(cores)
        settings = TransformerTraining(epochs=15, batch_size=6, learning_rate=0.02, evaluate_every=6)
        train(head, settings, 0, Checkpoints(None, {}), "head")
        assert before is not None
        assert (head.validation_ndcg(cores) or 0) > before + 0.1
        assert head.validation_ndcg(cores) == pytest.approx(learner.validation_ndcg(cores))
    for name, weight in network.encoder.state_dict().items():
        assert torch.equal(weight, encoder[name]), name
    nobody = LabelledVectors(vectors[:0], csr_array(np.zeros((0, 6), np.float32)))
    with torch_threads() as cores:
        assert HeadLearner(network, known, nobody).validation_ndcg(cores) is None
