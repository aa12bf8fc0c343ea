"""The ragged token store: the token ids of all documents in one flat array with offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.errors import BadInput


class TokenStore:
    """Token ids of documents of any lengths; 4 bytes a token, sliceable by document, memory-mappable.

    >>> store = TokenStore.of([[5, 6, 7], [], [8]])
    >>> len(store), store[0].tolist(), store.lengths.tolist(), store.truncated(2)[0].tolist()
    (3, [5, 6, 7], [3, 0, 1], [5, 6])
    """

    def __init__(self, ids: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        self.ids = ids
        self.offsets = offsets

    @classmethod
    def of(cls, documents: list[list[int]]) -> TokenStore:
        """A store from plain lists."""
        offsets = np.zeros(len(documents) + 1, np.int64)
        np.cumsum([len(document) for document in documents], out=offsets[1:])
        return cls(np.fromiter((token for document in documents for token in document), np.int32), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, document: int) -> NDArray[np.int32]:
        if not -len(self) <= document < len(self):
            raise IndexError(f"document {document} of {len(self)}")
        document %= len(self)
        return self.ids[self.offsets[document] : self.offsets[document + 1]]

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self[document] for document in range(len(self)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each document."""
        return np.diff(self.offsets)

    def take(self, documents: NDArray[Any]) -> TokenStore:
        """The store of some documents, in the given order."""
        lengths = self.lengths[documents]
        offsets = np.zeros(len(documents) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # Position i of the new flat array belongs to a document that starts at offsets[...] there and here elsewhere.
        source = np.repeat(self.offsets[:-1][documents] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return TokenStore(self.ids[source], offsets)

    def truncated(self, most: int) -> TokenStore:
        """The store with at most the first `most` tokens of each document."""
        lengths = np.minimum(self.lengths, most)
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        source = np.repeat(self.offsets[:-1] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return TokenStore(self.ids[source], offsets)

    def save(self, path: str | Path) -> None:
        """Write as PATH.ids.npy and PATH.offsets.npy."""
        np.save(f"{path}.ids.npy", self.ids, allow_pickle=False)
        np.save(f"{path}.offsets.npy", self.offsets, allow_pickle=False)

    @classmethod
    def load(cls, path: str | Path) -> TokenStore:
        """Memory-map what `save` wrote."""
        parts = []
        for name in (f"{path}.ids.npy", f"{path}.offsets.npy"):
            try:
                parts.append(np.load(name, mmap_mode="r", allow_pickle=False))
            except (OSError, ValueError) as error:
                raise BadInput(name, None, f"no token store: {error}", "make it again from the texts") from error
        ids, offsets = parts
        if ids.dtype != np.int32 or not len(offsets) or offsets[0] != 0 or offsets[-1] != len(ids):
            raise BadInput(path, None, "the ids and offsets of this token store do not fit", "make it again")
        return cls(ids, offsets)
