"""What the frozen part of an encoder found for the tokens of all documents, computed once and read in every epoch."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xmtc.errors import XmtcError
from xmtc.memory import available_memory
from xmtc.nn.batching import Ints
from xmtc.text.token_store import offsets_of

SHARE_OF_MEMORY = 0.5  # of what is free; more goes into a file


class HiddenStateCache:
    """Vectors of the tokens of documents of any lengths, two bytes a number, in memory or in a temporary file.

    >>> store = HiddenStateCache(np.array([2, 1]), width=3)
    >>> store.put(np.array([1, 0]), torch.ones(2, 2, 3))
    >>> store.padded(np.array([1, 0]))[:, :, 0].tolist(), store.padded(np.array([1, 0]), left=True)[:, :, 0].tolist()
    ([[1.0, 0.0], [1.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]])
    """

    def __init__(self, lengths: Ints, width: int, in_file: bool = False) -> None:
        self.lengths = lengths  #: vectors of each document
        self.offsets = offsets_of(lengths)
        self.width = width
        rows = int(self.offsets[-1])
        size = 2 * rows * width
        self.file: Path | None = None
        if in_file or size > SHARE_OF_MEMORY * available_memory():
            folder = tempfile.gettempdir()
            if size > shutil.disk_usage(folder).free:
                raise XmtcError(
                    f"what the frozen layers find takes {size / 2**30:.1f} GiB, which neither memory nor {folder} has; "
                    "freeze all layers or none, take fewer tokens, or set TMPDIR to a folder with more room"
                )
            with tempfile.NamedTemporaryFile(prefix="xmtc-", suffix=".states", delete=False) as file:
                file.truncate(max(1, size))
            self.file = Path(file.name)
            weakref.finalize(self, self.file.unlink, missing_ok=True)
            self.values = self._mapped()
        else:
            self.values = torch.empty(rows, width, dtype=torch.float16)

    def _mapped(self) -> Tensor:
        rows = int(self.offsets[-1])
        flat = torch.from_file(str(self.file), shared=True, size=rows * self.width, dtype=torch.float16)
        return flat.view(rows, self.width)

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the file itself; pickling would copy it.
        return {key: value for key, value in self.__dict__.items() if key != "values" or self.file is None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.file is not None:
            self.values = self._mapped()

    def put(self, documents: Ints, states: Tensor, left: bool = False) -> None:
        """Keep the vectors (documents, longest, width) of some documents; `left`: the padding comes before them."""
        rows, inside = self._places(documents, states.shape[1], left)
        self.values[rows[inside]] = states[inside].to(torch.float16)

    def padded(self, documents: Ints, left: bool = False) -> Tensor:
        """(documents, longest, width) in two bytes a number, zero where a document has no more."""
        rows, inside = self._places(documents, int(self.lengths[documents].max(initial=1)), left)
        states = torch.zeros(*rows.shape, self.width, dtype=torch.float16)
        states[inside] = self.values[rows[inside]]
        return states

    def _places(self, documents: Ints, longest: int, left: bool) -> tuple[Tensor, Tensor]:
        """(row of each place, whether there is one), both (documents, longest)."""
        lengths = self.lengths[documents][:, None]
        steps = np.arange(longest) - (longest - lengths if left else 0)
        inside = (steps >= 0) & (steps < lengths)
        return torch.from_numpy(self.offsets[documents][:, None] + steps), torch.from_numpy(inside)
