"""Every neural method on a device that is not the CPU; there is no GPU here, so one is pretended in two ways.

`pretend_device` trains, evaluates and predicts with the whole method; FakeTensorMode checks each network's forward pass
and loss for CUDA itself, without computing. Neither shows how a real GPU rounds, or how fast it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import QUICK, give_encoder, small_corpus

from xmtc.errors import ConfigError
from xmtc.models.registry import CATALOGUE, load, make, model_class

pytestmark = pytest.mark.needs("torch", "lightning", "transformers")
NEURAL = [name for name in sorted(CATALOGUE) if model_class(name).capabilities.gpu]
TREE = {"tree": "tree", "levels": 1, "arity": 2, "max_leaf": 2, "beam_width": 2}
#: Forms of a method whose networks compute something else; each is added to the quick settings.
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in NEURAL},
    "attentionxml, tree": ("attentionxml", TREE),
    "attentionxml, tables on the CPU": ("attentionxml", {**TREE, "training.offload_tables": True}),
    "attentionxml, pretraining": ("attentionxml", {"pretraining_epochs": 1}),
    "xml_cnn, BiLSTM": ("xml_cnn", {"network": "bilstm"}),
    "rank_ae, paper": ("rank_ae", {"output": "sigmoid", "x_decode": 0.0, "feature_noise": 0.0, "loss": "bce"}),
    "rank_ae, noise": ("rank_ae", {"feature_dropout": 0.2, "x_loss": "ranking", "dropout": 0.2}),
    "treaderxml, votes": ("treaderxml", {"votes": True, "names": True, "search": {"vectors": "tfidf"}}),
    "treaderxml, candidates": ("treaderxml", {"votes": True, "candidates": "both", "cluster_size": 2, "beam_width": 1}),
    "treaderxml, text alone": ("treaderxml", {"branches": "text"}),
    "aplc_xlnet, head first": ("aplc_xlnet", {"clusters": 3, "training.head_epochs": 1, "encoder.frozen_layers": 1}),
    "lightxml, flat": ("lightxml", {"tree": "flat"}),
    "x_transformer, linear": ("x_transformer", {"matcher": "linear"}),
}
#: Forms whose losses cannot be computed without contents.
WITHOUT_SHAPES = {
    "treaderxml, candidates": "how many labels are scored depends on contents",
    "x_transformer, linear": "trains no network",
}


@pytest.fixture
def settings(form: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The quick settings of a method, one epoch, on the pretended device."""
    name, changes = FORMS[form]
    give_encoder(QUICK[name], tmp_path_factory.mktemp)
    found: dict[str, Any] = {
        key: dict(value) if isinstance(value, dict) else value for key, value in QUICK[name].items()
    }
    found["training"] |= {"epochs": 1, "evaluate_every": 2}
    for path, value in changes.items():
        group, _, key = path.rpartition(".")
        (found[group] if group else found)[key] = value
    return found


def strict_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing leave the device while a loss is computed."""
    from pretend_device import strictly

    from xmtc.nn.trainer import Trainer

    backward = Trainer.backward

    def watched(self: Trainer, *batch: Any) -> Any:
        loss = type(self.learner).loss

        def strict(*part: Any) -> Any:
            with strictly():
                return loss(self.learner, *part)

        monkeypatch.setattr(self.learner, "loss", strict)
        return backward(self, *batch)

    monkeypatch.setattr(Trainer, "backward", watched)


@pytest.mark.parametrize("form", FORMS)
def test_trained_and_used_on_another_device(
    form: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pretend_device import DEVICE, on_pretend_device

    from xmtc.nn.devices import device_of

    corpus = small_corpus(60)
    settings["training"]["device"] = "pretend"
    with on_pretend_device():
        with monkeypatch.context() as patch:
            if not settings["training"].get("offload_tables"):  # rows come from the CPU's memory then
                strict_losses(patch)
            model = make(FORMS[form][0], **settings).fit(corpus)
        assert {device_of(network) for network in model._networks()} == {DEVICE}
        found = model.predict(corpus, k=3)
        if model.capabilities.explain:
            model.explain("ship sail wave", "sea")
        model.save(tmp_path / "model")
    # What was trained there is loaded here, and the other way round.
    here = load(tmp_path / "model")
    np.testing.assert_allclose(here.predict(corpus, k=3).scores, found.scores, atol=0.02)
    with on_pretend_device():
        there = load(tmp_path / "model", device="pretend")
        assert {device_of(network) for network in there._networks()} == {DEVICE}
        np.testing.assert_allclose(there.predict(corpus, k=3).scores, found.scores, atol=1e-5)


@pytest.mark.filterwarnings("ignore:PyTorch was compiled without cuDNN")
@pytest.mark.parametrize("form", FORMS)
def test_losses_are_computed_where_cuda_tensors_are(
    form: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fake_cuda import fake_cuda, on_cuda

    from xmtc.nn.learner import Learner
    from xmtc.nn.parallel import Worker
    from xmtc.nn.trainer import Trainer

    if form in WITHOUT_SHAPES:
        pytest.skip(WITHOUT_SHAPES[form])
    learners: list[Learner[Any]] = []
    fit: Callable[[Trainer], None] = Trainer.fit

    def remembered(self: Trainer) -> None:
        learners.append(self.learner)
        fit(self)

    monkeypatch.setattr(Trainer, "fit", remembered)
    make(FORMS[form][0], **settings).fit(small_corpus(60))
    assert learners
    for learner in map(copy.deepcopy, learners):  # some share a part of their networks
        batch = learner.batch(np.arange(7), np.random.default_rng(0))
        with fake_cuda():
            learner.network._apply(on_cuda)
            loss = learner.loss(on_cuda(batch), Worker(7))
        assert loss.device.type == "cuda"
        assert loss.shape == ()


def test_the_pretended_device_refuses_what_a_gpu_would() -> None:
    import torch
    from pretend_device import WrongDevice, on_pretend_device, strictly

    with on_pretend_device():
        there = torch.arange(3.0, device="pretend")
        with pytest.raises(WrongDevice, match="two devices"):
            there + torch.arange(3.0)
        with pytest.raises((TypeError, RuntimeError), match="numpy"):
            there.numpy()
        assert (there + 1).cpu().tolist() == [1, 2, 3]
        with strictly():
            assert (there + 1).device.type == "pretend"
            for leaving in (
                lambda: there.sum().item(),
                lambda: there.cpu(),
                lambda: bool(there.any()),
                lambda: torch.zeros(3),
                lambda: torch.arange(3),
                lambda: torch.tensor([1, 2]).to("pretend"),
            ):
                with pytest.raises(WrongDevice):
                    leaving()


@pytest.mark.parametrize("name", ["dismec", "knn"])
def test_a_method_without_a_network_takes_no_other_device(name: str) -> None:
    model = make(name).fit(small_corpus(30))
    assert model.to("cpu") is model.to("auto") is model
    with pytest.raises(ConfigError, match=f"this {name} model computes on a CPU"):
        model.to("cuda")
