"""Networks to the arrays of a model folder and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from xmtc.nn.layers import as_tensor
from xmtc.storage import FolderReader, FolderWriter

Arrays = Mapping[str, NDArray[Any]]
Network = TypeVar("Network", bound=nn.Module)


def weights_of(network: nn.Module) -> dict[str, NDArray[Any]]:
    """All weights by name, for storage.

    >>> sorted(weights_of(nn.Linear(2, 3)))
    ['bias', 'weight']
    """
    return {name: weight.detach().cpu().numpy() for name, weight in network.state_dict().items()}


def write_network(folder: FolderWriter, name: str, network: nn.Module) -> None:
    """Write all weights as NAME.safetensors; tables and matrices may be rounded, biases and the like are not."""
    arrays = weights_of(network)
    folder.arrays(name, arrays, [key for key, array in arrays.items() if array.ndim > 1])


def load_weights(network: nn.Module, arrays: Arrays) -> None:
    """The inverse of `weights_of`; the arrays are used in place. ValueError if they do not fit."""
    tensors = {name: as_tensor(array) for name, array in arrays.items()}
    for name, expected in network.state_dict().items():
        if name in tensors and tensors[name].dtype != expected.dtype:  # it would fail in the middle of a prediction
            raise ValueError(f"the numbers of {name} are of the type {tensors[name].dtype}")
    try:
        network.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        raise ValueError(str(error).splitlines()[-1].strip()) from error


def word_table_shape(arrays: Arrays, words: int) -> tuple[int, int]:
    """The shape of a network's table of word vectors; ValueError if it is not for this many words."""
    shape = arrays["words.words.weight"].shape
    if len(shape) != 2 or shape[0] != words:
        raise ValueError(f"a table of the shape {shape} for {words} words")
    return shape[0], shape[1]


def read_network(folder: FolderReader, name: str, make: Callable[[Arrays], Network]) -> Network:
    """The network whose weights are in NAME.safetensors; BadModelFolder if they do not fit or are no finite numbers.

    `make` gets the arrays for their sizes; what it makes takes no memory, its weights being replaced.
    """
    with folder.building(name):
        arrays = folder.arrays(name)
        try:
            with torch.device("meta"):
                network = make(arrays)
        except RuntimeError as error:  # sizes beyond all bounds in the settings
            raise ValueError(str(error).splitlines()[0]) from error
        load_weights(network, arrays)

    def check() -> None:
        with folder.building(name):
            if not all(np.isfinite(array).all() for array in arrays.values()):
                raise ValueError("it has numbers that are not finite")

    folder.check(f"{name}.safetensors", check)
    return network
