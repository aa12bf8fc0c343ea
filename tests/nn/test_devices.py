"""Devices that are there or not, what they compute with, and where a network's parts are placed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from toy_learner import ToyLearner, ToyNetwork, short

import xmtc
from xmtc.checkpoints import Checkpoints
from xmtc.errors import ConfigError
from xmtc.nn import devices
from xmtc.nn.devices import check_devices, device_called, device_of, has_bfloat16, place
from xmtc.nn.trainer import train

NOWHERE = Checkpoints(None, {})
CPU, META = torch.device("cpu"), torch.device("meta")


@pytest.mark.parametrize("name", ["gpu", "meta", "quantum", "cuda:x", "vulkan"])
def test_a_device_that_nobody_knows(name: str) -> None:
    with pytest.raises(ConfigError, match=f"there is no device '{name}'; write auto, cpu, cuda, .* or mps$"):
        device_called(name)


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch has CUDA")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_without_a_torch_for_it(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"device {name}: not on this machine \(this torch was built for CPUs\)"):
        device_called(name)
    with pytest.raises(ConfigError, match="this torch was built for CPUs"):
        train(ToyLearner(), short(device=name), 0, NOWHERE, "toy")


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"device cuda: not on this machine \(none found\)"):
        device_called("cuda")


def test_the_number_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    two = SimpleNamespace(is_available=lambda: True, device_count=lambda: 2)
    monkeypatch.setattr(torch, "get_device_module", lambda device: two)
    assert [device_called(name) for name in ("cuda", "cuda:1")] == [torch.device("cuda"), torch.device("cuda", 1)]
    with pytest.raises(ConfigError, match="device cuda:2: this machine has 2, counted from 0"):
        device_called("cuda:2")


@pytest.mark.parametrize(("devices", "device"), [(3, "cuda"), (2, "cuda:1")])
def test_several_processes_have_a_gpu_each(devices: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    two = SimpleNamespace(is_available=lambda: True, device_count=lambda: 2)
    monkeypatch.setattr(torch, "get_device_module", lambda device: two)
    with pytest.raises(ConfigError, match=f"training.devices={devices} of {device}: there are 2; name no single one"):
        check_devices(short(devices=devices, device=device), 24)
    assert check_devices(short(devices=2, device="cuda"), 24) == torch.device("cuda")


@pytest.mark.parametrize("there", ["cuda", "mps", "cpu"])
def test_auto_is_a_gpu_if_there_is_one(there: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there == "cuda")
    monkeypatch.setattr(torch.mps, "is_available", lambda: there == "mps")
    assert device_called("auto") == torch.device(there)


@pytest.mark.parametrize("name", ["GPU", "cuda:", "cuda:one", "", "cuda 1"])
def test_a_name_that_no_device_can_have_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        xmtc.make("attentionxml", training={"device": name})
    assert str(refused.value).startswith(f"attentionxml: training.device={name!r}: ")
    assert "\n" not in str(refused.value)
    assert "pydantic" not in str(refused.value)


def test_a_cpu_does_not_compute_with_float16() -> None:
    with pytest.raises(ConfigError, match=r"training\.precision=16-mixed: .* take 32 or bf16-mixed"):
        train(ToyLearner(), short(precision="16-mixed"), 0, NOWHERE, "toy")


def test_bfloat16_needs_instructions_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_bfloat16", lambda device: False)
    with pytest.raises(ConfigError, match=r"training\.precision=bf16-mixed: this cpu has no instructions .* take 32"):
        train(ToyLearner(), short(precision="bf16-mixed"), 0, NOWHERE, "toy")
    assert check_devices(short(), 24) == CPU


def test_which_devices_have_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert has_bfloat16(torch.device("cuda"))
    assert not has_bfloat16(torch.device("mps"))
    for avx512, amx, expected in ((False, False, False), (True, False, True), (False, True, True)):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda found=avx512: found)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda found=amx: found)
        assert has_bfloat16(CPU) == expected


@pytest.mark.skipif(not has_bfloat16(CPU), reason="this CPU has no instructions for bfloat16")
@pytest.mark.parametrize("threads", [1, 2])
def test_training_in_bfloat16_learns_about_the_same(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmtc.nn.trainer.SMALLEST_PART", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        whole, short_of_bits = ToyLearner(valid=False), ToyLearner(valid=False)
        start = whole.weights()
        for learner, precision in ((whole, "32"), (short_of_bits, "bf16-mixed")):
            train(learner, short(precision=precision), 0, NOWHERE, "toy")
    finally:
        torch.set_num_threads(before)
    for name, weight in short_of_bits.weights().items():
        expected = whole.weights()[name]
        assert weight.dtype == torch.float32
        assert not torch.equal(weight, expected), "was it computed in bfloat16?"
        assert (weight - expected).norm() < 0.2 * (expected - start[name]).norm(), name


def test_more_processes_than_documents() -> None:
    with pytest.raises(ConfigError, match=r"training\.devices=4: more processes than the 3 documents"):
        train(ToyLearner(3), short(devices=4), 0, NOWHERE, "toy")


class Parts(nn.Module):
    """Tables first, then what computes."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.labels = nn.Embedding(3, 2, sparse=True), nn.EmbeddingBag(3, 2, sparse=True)
        self.positions, self.output, self.lstm = nn.Embedding(3, 2), nn.Linear(2, 2), nn.LSTM(2, 2)
        self.alone = nn.Parameter(torch.ones(2))
        self.register_buffer("table", torch.ones(2))


@pytest.mark.parametrize("offload_tables", [False, True])
def test_tables_can_stay_in_the_memory_of_the_cpu(offload_tables: bool) -> None:
    network = Parts()
    place(network, META, offload_tables)
    stayed = {name for name, each in network.state_dict(keep_vars=True).items() if each.device == CPU}
    assert stayed == ({"words.weight", "labels.weight"} if offload_tables else set())
    assert device_of(network) == META
    assert all(weight.device == META for weight in network.lstm._flat_weights if weight is not None)
    assert all(weight.requires_grad for weight in network.parameters())


def test_placing_a_network_where_it_is_changes_nothing() -> None:
    network = Parts()
    before = dict(network.named_parameters())
    place(network, CPU, offload_tables=True)
    assert all(weight is before[name] for name, weight in network.named_parameters())


def test_a_network_of_tables_alone_is_on_the_cpu() -> None:
    assert device_of(nn.Embedding(2, 1, sparse=True)) == device_of(nn.ReLU()) == CPU
    assert device_of(ToyNetwork()) == CPU
