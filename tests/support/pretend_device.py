"""A device that this machine does not have: its tensors compute on the CPU but refuse to meet the CPU's own.

`on_pretend_device` is a context in which torch has a device called "pretend". Its tensors are wrappers: an operation
with a tensor of the CPU (but for a single number, as on a GPU) is an error, and so is making an array of one without
`.cpu()`. In `strictly`, which a test puts around a loss, no tensor may be made on the CPU or brought there, and no
number may be read: on a GPU each of these would wait for all that is under way.

It is torch's backend for devices that are written in Python (PrivateUse1), so autograd, optimisers and
`device="pretend"` work as they do for a GPU. What it cannot show: how fast a GPU is, and errors of its own kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

aten = torch.ops.aten
NAME = "pretend"
CPU = torch.device("cpu")
COPIES = (aten._to_copy.default, aten.copy_.default)
READS = (aten._local_scalar_dense.default, aten.is_nonzero.default)


class WrongDevice(AssertionError):
    """Something that a GPU would refuse, or wait for."""


class _Module:
    """What torch asks a device about itself."""

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def manual_seed_all(self, seed: int) -> None:
        """Its numbers come from the CPU's generator."""


_setup_privateuseone_for_python_backend(NAME, _Module())
DEVICE = torch.device(NAME, 0)


class PretendTensor(Tensor):
    """A tensor of the device: the shape outside, the numbers inside."""

    contents: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> PretendTensor:
        options: dict[str, Any] = {"dtype": inner.dtype, "device": DEVICE, "requires_grad": False}
        if inner.layout == torch.strided:
            options |= {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
        else:
            options["layout"] = inner.layout
        outside: PretendTensor = Tensor._make_wrapper_subclass(cls, inner.size(), **options)
        outside.contents = inner
        return outside

    def __repr__(self) -> str:  # type: ignore[override]
        return f"PretendTensor({self.contents})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _computed(function, args, kwargs or {})


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees what has no tensor of the device among its arguments, too."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(function, args, kwargs or {})


_strict = False


@contextmanager
def strictly() -> Iterator[None]:
    """Nothing may leave the device, or be made elsewhere."""
    global _strict
    _strict = True
    try:
        yield
    finally:
        _strict = False


@contextmanager
def on_pretend_device() -> Iterator[None]:
    """Torch has the device within the block."""
    with _Mode():  # type: ignore[no-untyped-call]
        yield


def _computed(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    ours = [each for each in tensors if isinstance(each, PretendTensor)]
    others = [each for each in tensors if not isinstance(each, PretendTensor)]
    device = kwargs.get("device")
    target = torch.device(device) if device is not None else DEVICE if ours else CPU
    if ours and function not in COPIES and any(each.dim() for each in others):
        raise WrongDevice(f"{function}: tensors of two devices")
    if ours and function in READS and _strict:
        raise WrongDevice(f"{function}: a number is read from the device")
    if _strict and target == CPU and not all(each.dim() == 0 for each in others):
        raise WrongDevice(f"{function}: computed on the CPU")
    if _strict and function is aten._to_copy.default and (target == CPU) == bool(ours):
        raise WrongDevice(f"{function}: copied from one device to another")
    inside, options = tree_map(_inner, args), tree_map(_inner, kwargs)
    if device is not None:
        options["device"] = CPU
    result = WRITTEN_HERE.get(function, function)(*inside, **options)
    if _strict and not tensors and target == CPU and isinstance(result, Tensor) and result.dim():
        raise WrongDevice(f"{function}: made on the CPU")  # but a single number goes with any device
    if function._schema.is_mutable:
        return _written_arguments(function, args, kwargs)
    if target.type != NAME:
        return result
    # A wrapper cannot be what torch calls an inference tensor: views of weights are none either.
    with torch.inference_mode(False):
        return tree_map(lambda each: PretendTensor(each) if isinstance(each, Tensor) else each, result)


def _inner(value: Any) -> Any:
    return value.contents if isinstance(value, PretendTensor) else value


def _written_arguments(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What an operation that writes into its arguments gives back: these arguments, no new tensors, or nothing."""
    given = {argument.name: value for argument, value in zip(function._schema.arguments, args, strict=False)} | kwargs
    written = [
        given[argument.name]
        for argument in function._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    count = len(function._schema.returns)
    return None if count == 0 else written[0] if count == 1 else tuple(written[:count])


def _lstm_cell(
    inputs: Tensor, hidden: Tensor, cell: Tensor, input_bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """A step of an LSTM, which on a device is one operation; the gates are kept for the way back."""
    gates = inputs + hidden + (0 if input_bias is None or hidden_bias is None else input_bias + hidden_bias)
    taken, kept, new, shown = gates.chunk(4, 1)
    taken, kept, new, shown = taken.sigmoid(), kept.sigmoid(), new.tanh(), shown.sigmoid()
    after = kept * cell + taken * new
    return shown * after.tanh(), after, torch.cat([taken, kept, new, shown], 1)


def _lstm_cell_backward(
    of_state: Tensor | None, of_cell: Tensor | None, before: Tensor, after: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    taken, kept, new, shown = gates.chunk(4, 1)
    of_state = torch.zeros_like(after) if of_state is None else of_state
    of_after = of_state * shown * (1 - after.tanh().square()) + (0 if of_cell is None else of_cell)
    of_gates = torch.cat(
        [
            of_after * new * taken * (1 - taken),
            of_after * before * kept * (1 - kept),
            of_after * taken * (1 - new.square()),
            of_state * after.tanh() * shown * (1 - shown),
        ],
        1,
    )
    return of_gates, of_after * kept, of_gates.sum(0) if has_bias else None


def _gru_cell(
    inputs: Tensor, hidden: Tensor, state: Tensor, input_bias: Tensor | None = None, hidden_bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same for a GRU."""
    inputs = inputs if input_bias is None else inputs + input_bias
    hidden = hidden if hidden_bias is None else hidden + hidden_bias
    (reset, kept, new), (of_reset, of_kept, seen) = inputs.chunk(3, 1), hidden.chunk(3, 1)
    reset, kept = (reset + of_reset).sigmoid(), (kept + of_kept).sigmoid()
    new = (new + reset * seen).tanh()
    return new + kept * (state - new), torch.cat([reset, kept, new, state, seen], 1)


def _gru_cell_backward(
    of_state: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    reset, kept, new, before, seen = gates.chunk(5, 1)
    of_new = of_state * (1 - kept) * (1 - new.square())
    of_reset = of_new * seen * reset * (1 - reset)
    of_kept = of_state * (before - new) * kept * (1 - kept)
    of_inputs = torch.cat([of_reset, of_kept, of_new], 1)
    of_hidden = torch.cat([of_reset, of_kept, of_new * reset], 1)
    biases = (of_inputs.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_inputs, of_hidden, of_state * kept, *biases


WRITTEN_HERE: dict[Any, Callable[..., Any]] = {
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: _gru_cell,
    aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
}
