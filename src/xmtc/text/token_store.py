"""The ragged token store: the token ids of all documents in one flat array with offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def offsets_of(sizes: Iterable[int] | NDArray[Any]) -> NDArray[np.int64]:
    """0, and where each of consecutive parts of these sizes ends.

    >>> offsets_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    each = sizes if isinstance(sizes, np.ndarray) else np.fromiter(sizes, np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(each, dtype=np.int64)])


class TokenStore:
    """Token ids of documents of any lengths; 4 bytes a token, sliceable by document.

    >>> store = TokenStore.of([[5, 6, 7], [], [8]])
    >>> len(store), store[0].tolist(), store.lengths.tolist()
    (3, [5, 6, 7], [3, 0, 1])
    """

    def __init__(self, ids: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        self.ids = ids
        self.offsets = offsets

    @classmethod
    def of(cls, documents: Sequence[Sequence[int] | NDArray[np.int32]]) -> TokenStore:
        """A store from the token ids of each document."""
        parts = [np.asarray(document, np.int32) for document in documents]
        return cls(np.concatenate([np.zeros(0, np.int32), *parts]), offsets_of(map(len, parts)))

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
        offsets = offsets_of(lengths)
        # Position i of the new flat array belongs to a document that starts at offsets[...] there and here elsewhere.
        source = np.repeat(self.offsets[:-1][documents] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return TokenStore(self.ids[source], offsets)
