"""Tensors that claim to be on a GPU and have no contents: torch checks devices and shapes, and computes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from xmtc.nn.batching import Batch

aten = torch.ops.aten
KERNELS = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]


def _shapes_of_gru_cell(inputs: Tensor, hidden: Tensor, state: Tensor, *biases: Tensor) -> tuple[Tensor, Tensor]:
    """Torch knows those of an LSTM's step alone."""
    return torch.empty_like(state), inputs.new_empty(len(inputs), 5 * state.shape[1])


KERNELS.impl("_thnn_fused_gru_cell", _shapes_of_gru_cell, "Meta")  # type: ignore[no-untyped-call]


@contextmanager
def fake_cuda() -> Iterator[None]:
    """Within the block, `device="cuda"` gives such tensors, also on a torch that was built for CPUs."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), _Indexing():
        yield


def on_cuda(value: Any) -> Any:
    """A tensor, or all tensors of a batch."""
    return value._changed(on_cuda, on_cuda) if isinstance(value, Batch) else torch.empty_like(value, device="cuda")


class _Indexing(TorchFunctionMode):
    """A few methods of tensors ask for CUDA itself before they ask the mode; here is what they stand for."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in INSTEAD:
            return INSTEAD[function](args[0])
        if function is Tensor.__getitem__:
            return _item(*args)
        if function is Tensor.__setitem__:
            view, places = _view(*args[:2])
            value = args[2] if isinstance(args[2], Tensor) else torch.full((), args[2], dtype=view.dtype, device="cuda")
            return aten.index_put_(view, places, value) if places else aten.copy_(view, value)
        return function(*args, **(kwargs or {}))


INSTEAD: dict[Any, Any] = {
    Tensor.contiguous: aten.clone,
    Tensor.__invert__: aten.bitwise_not,
    Tensor.float: lambda tensor: aten._to_copy(tensor, dtype=torch.float32),
    Tensor.long: lambda tensor: aten._to_copy(tensor, dtype=torch.int64),
    Tensor.bool: lambda tensor: aten._to_copy(tensor, dtype=torch.bool),
}


def _item(tensor: Tensor, index: Any) -> Tensor:
    view, places = _view(tensor, index)
    found: Tensor = aten.index(view, places) if places else view
    return found


def _view(tensor: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None]]:
    """What is left after slices, numbers and new axes, and the tensors that index it."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(item is Ellipsis for item in items):
        at = next(place for place, item in enumerate(items) if item is Ellipsis)
        used = sum(item is not None for item in items) - 1
        items[at : at + 1] = [slice(None)] * (tensor.dim() - used)
    places: list[Tensor | None] = []
    axis = 0
    for item in items:
        if isinstance(item, int) and not isinstance(item, bool):
            tensor = aten.select(tensor, axis, item)
            continue
        if item is None:
            tensor = tensor.unsqueeze(axis)
        elif isinstance(item, slice):
            tensor = aten.slice(tensor, axis, item.start, item.stop, item.step or 1)
        else:
            places += [None] * (axis - len(places)) + [item]
            axis += item.dim() - 1 if item.dtype == torch.bool else 0
        axis += 1
    return tensor, places
