"""Every neural method on a device that is not the CPU; there is no GPU here, so one is pretended in two ways.

`pretend_device` trains, evaluates and predicts with the whole method; FakeTensorMode checks each network's forward pass
and loss for CUDA itself, without computing. Neither shows how a real GPU rounds, or how fast it is.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import QUICK, give_encoder, small_corpus
from warm_processes import ForkServer

from xmtc.errors import ConfigError
from xmtc.models.registry import CATALOGUE, load, make, model_class

CHILDREN = Path(__file__).parent / "children"
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
    "bow_cnn, softmax of the largest": ("bow_cnn", {"loss": "softmax", "pooling": "max", "normalise": True}),
    "mlc2seq, clusters": ("mlc2seq", {"adaptive_above": 2}),
    "mlc2seq, tables on the CPU": ("mlc2seq", {"training.offload_tables": True}),
    "sgm, clusters": ("sgm", {"adaptive_above": 2}),
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


# In processes of their own: torch must know the device before it computes the first gradients.
@pytest.mark.parametrize("form", FORMS)
def test_trained_and_used_on_another_device(
    form: str, settings: dict[str, Any], tmp_path: Path, fork_server: Callable[..., ForkServer]
) -> None:
    # With tables in the CPU's memory, rows go from one to the other.
    strict = "" if settings["training"].get("offload_tables") else "strict"
    arguments = (FORMS[form][0], json.dumps(settings), strict, tmp_path / "model")
    run = fork_server("numba", "lightning.fabric").run(CHILDREN / "on_pretend_device.py", *arguments)
    assert run.returncode == 0, run.stderr[-3000:]
    answer = json.loads(run.stdout)
    np.testing.assert_allclose(answer["loaded"], answer["trained"], atol=1e-5)
    # What was trained there is loaded here, where attentionxml predicts with int8.
    here = load(tmp_path / "model").predict(small_corpus(60), k=3)
    np.testing.assert_allclose(here.scores, answer["trained"], atol=0.02)


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


def test_the_pretended_device_refuses_what_a_gpu_would(fork_server: Callable[..., ForkServer]) -> None:
    run = fork_server("numba", "lightning.fabric").run(CHILDREN / "pretend_device_refuses.py")
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout == ""


@pytest.mark.parametrize("name", ["dismec", "knn"])
def test_a_method_without_a_network_takes_no_other_device(name: str) -> None:
    model = make(name).fit(small_corpus(30))
    assert model.to("cpu") is model.to("auto") is model
    with pytest.raises(ConfigError, match=f"this {name} model computes on a CPU"):
        model.to("cuda")
