"""What a tensor of the pretended device refuses to do; prints what it let pass."""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import torch
from pretend_device import WrongDevice, on_pretend_device, strictly

with on_pretend_device():
    there = torch.arange(3.0, device="pretend")
    assert (there + 1).cpu().tolist() == [1, 2, 3]
    always: dict[str, Callable[[], object]] = {
        "two devices": lambda: there + torch.arange(3.0),
        "an array": lambda: there.numpy(),
    }
    in_a_loss: dict[str, Callable[[], object]] = {
        "a number": lambda: there.sum().item(),
        "a copy": lambda: there.cpu(),
        "a choice": lambda: bool(there.any()),
        "zeros": lambda: torch.zeros(3),
        "a range": lambda: torch.arange(3),
        "a list": lambda: torch.tensor([1, 2]).to("pretend"),
    }
    for name, leave in always.items():
        try:
            leave()
        except (WrongDevice, TypeError, RuntimeError):
            continue
        print(name)
    with strictly():
        assert (there + 1).device.type == "pretend"
        for name, leave in in_a_loss.items():
            try:
                leave()
            except WrongDevice:
                continue
            print(name)
