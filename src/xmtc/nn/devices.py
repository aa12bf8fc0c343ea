"""Where networks compute: the CPU, a GPU, or whatever else torch knows."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from xmtc.errors import ConfigError
from xmtc.nn.optim import is_table
from xmtc.nn.settings import TrainingSettings

KNOWN = "auto, cpu, cuda, cuda:1 (the second GPU) or mps"


def device_called(name: str) -> torch.device:
    """The device of this name, which must be there; "auto" is a GPU if there is one.

    >>> device_called("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        module = torch.get_device_module(device)
    except RuntimeError as error:
        raise ConfigError(f"there is no device {name!r}; write {KNOWN}") from error
    if not module.is_available():
        reason = (
            "this torch was built for CPUs" if device.type == "cuda" and torch.version.cuda is None else "none found"
        )
        raise ConfigError(f"device {name}: not on this machine ({reason}); write auto or cpu, or install torch for it")
    if device.index is not None and device.index >= module.device_count():
        raise ConfigError(f"device {name}: this machine has {module.device_count()}, counted from 0")
    return device


def check_devices(settings: TrainingSettings, documents: int) -> torch.device:
    """The device of a training; ConfigError if it, its precision or so many of it cannot be had."""
    device, precision, count = device_called(settings.device), settings.precision, settings.devices
    if precision == "16-mixed" and device.type == "cpu":
        raise ConfigError("training.precision=16-mixed: a CPU does not compute with it; take 32 or bf16-mixed")
    if precision == "bf16-mixed" and not has_bfloat16(device):
        raise ConfigError(
            f"training.precision=bf16-mixed: this {device.type} has no instructions for bfloat16, which would be many "
            "times slower; take 32"
        )
    if count > documents:
        raise ConfigError(f"training.devices={count}: more processes than the {documents} documents; take fewer")
    if count > 1 and device.type != "cpu":
        there = torch.get_device_module(device).device_count()
        if count > there or ":" in settings.device:
            raise ConfigError(f"training.devices={count} of {settings.device}: there are {there}; name no single one")
    return device


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device has instructions for bfloat16.

    >>> has_bfloat16(torch.device("cpu")) in (True, False)
    True
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if device.type == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False


def device_of(network: nn.Module) -> torch.device:
    """Where a network computes; its tables may be elsewhere.

    >>> device_of(nn.Linear(2, 3))
    device(type='cpu')
    """
    for part in network.modules():
        if not is_table(part):
            for weight in part.parameters(recurse=False):
                return weight.device
    return torch.device("cpu")


def place(network: nn.Module, device: torch.device, offload_tables: bool = False) -> None:
    """Move a network to a device; tables of which a batch needs few rows can stay in the CPU's memory."""
    for part in network.modules():
        target = torch.device("cpu") if offload_tables and is_table(part) else device
        part._apply(partial(Tensor.to, device=target), recurse=False)  # type: ignore[no-untyped-call]
