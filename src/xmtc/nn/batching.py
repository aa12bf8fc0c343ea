"""Batches: which documents they have, of about the same length, and these as tensors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xmtc.corpus.labels import Csr
from xmtc.seeding import derived_seed
from xmtc.text.token_store import TokenStore

Ints = NDArray[np.int64]
T = TypeVar("T")
AHEAD = 2  # batches
SORTED_TOGETHER = 50  # batches


@dataclass(frozen=True)
class Batch:
    """Documents as tensors, each with a row for each document but for those that are `shared`; a field may be a batch.

    >>> @dataclass(frozen=True)
    ... class Words(Batch):
    ...     ids: Tensor
    >>> Words(torch.tensor([[1], [2], [3]])).part(slice(1, 3)).ids.tolist()
    [[2], [3]]
    """

    shared: ClassVar[frozenset[str]] = frozenset()

    def part(self, documents: slice) -> Self:
        """Some of the documents, one after the other."""
        return self._changed(lambda rows: rows[documents], lambda batch: batch.part(documents), self.shared)

    def to(self, device: torch.device) -> Self:
        """The same on a device."""
        return self._changed(lambda each: each.to(device, non_blocking=True), lambda batch: batch.to(device))

    def pinned(self) -> Self:
        """The same in memory that a GPU reads while the CPU goes on."""
        return self._changed(Tensor.pin_memory, lambda batch: batch.pinned())

    def _changed(
        self,
        tensor: Callable[[Tensor], Tensor],
        batch: Callable[[Batch], Batch],
        but: frozenset[str] = frozenset(),
    ) -> Self:
        each = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in but}
        tensors: dict[str, Any] = {name: tensor(value) for name, value in each.items() if isinstance(value, Tensor)}
        batches = {name: batch(value) for name, value in each.items() if isinstance(value, Batch)}
        return replace(self, **tensors, **batches)


@dataclass(frozen=True)
class Entries(Batch):
    """Sparse rows, entry after entry, no padding: features or labels of documents."""

    rows: Tensor  #: (entries,), rising
    columns: Tensor  #: (entries,)
    values: Tensor  #: (entries,)
    lengths: Tensor  #: (rows,): entries of each

    @classmethod
    def of(cls, matrix: Csr) -> Self:
        """All entries of a matrix.

        >>> from scipy.sparse import csr_array
        >>> entries = Entries.of(csr_array(np.array([[0, 2.0], [0, 0], [3, 4]], np.float32)))
        >>> entries.rows.tolist(), entries.columns.tolist(), entries.part(slice(1, 3)).rows.tolist()
        ([0, 2, 2], [1, 0, 1], [1, 1])
        """
        lengths = np.diff(matrix.indptr).astype(np.int64)
        columns, values = matrix.indices.astype(np.int64), matrix.data.astype(np.float32)
        return cls(*map(torch.from_numpy, (np.repeat(np.arange(len(lengths)), lengths), columns, values, lengths)))

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.lengths)

    @property
    def starts(self) -> Tensor:
        """Where each row begins."""
        return self.lengths.cumsum(0) - self.lengths

    def part(self, documents: slice) -> Self:
        """Some of the rows, one after the other."""
        start, end, _ = documents.indices(self.count)
        first, last = torch.searchsorted(self.rows, torch.tensor([start, end])).tolist()
        rows, columns, values = (each[first:last] for each in (self.rows, self.columns, self.values))
        return replace(self, rows=rows - start, columns=columns, values=values, lengths=self.lengths[start:end])


def bucketed(lengths: Ints, batch: int, rng: np.random.Generator, together: int = SORTED_TOGETHER) -> list[Ints]:
    """All documents in random batches, each of documents of similar length: padding is what a processor hates most.

    Documents are shuffled, then sorted by length within `together` batches; 1 leaves them as they come.

    >>> [part.tolist() for part in bucketed(np.array([3, 9, 1, 8]), 2, np.random.default_rng(0))]
    [[3, 1], [2, 0]]
    """
    order = rng.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), batch * together):
        chunk = order[start : start + batch * together]
        chunk = chunk[np.argsort(lengths[chunk], kind="stable")]
        batches += [chunk[at : at + batch] for at in range(0, len(chunk), batch)]
    return [batches[at] for at in rng.permutation(len(batches))]


def epoch_batches(lengths: Ints, batch_size: int, seed: int, epoch: int, random: bool = False) -> list[Ints]:
    """The batches of an epoch of training, the same for the same seed; `random`, of documents of any length.

    >>> [part.tolist() for part in epoch_batches(np.array([3, 9, 1, 8]), 2, seed=0, epoch=1)]
    [[3, 1], [2, 0]]
    """
    rng = np.random.default_rng(derived_seed(seed, epoch))
    return bucketed(lengths, batch_size, rng, 1 if random else SORTED_TOGETHER)


def prefetched(plan: Sequence[Ints], make: Callable[[int, Ints], T]) -> Iterator[tuple[Ints, T]]:
    """(documents, what `make` makes of their number and of them), which another thread makes ahead of time.

    >>> list(prefetched(["a", "b"], lambda number, name: f"{name}{number}"))
    [('a', 'a0'), ('b', 'b1')]
    """
    waiting: deque[tuple[Ints, Future[T]]] = deque()
    pool = ThreadPoolExecutor(1)
    try:
        for index, documents in enumerate(plan):
            waiting.append((documents, pool.submit(make, index, documents)))
            if len(waiting) > AHEAD:
                ready, batch = waiting.popleft()
                yield ready, batch.result()
        for ready, batch in waiting:
            yield ready, batch.result()
    finally:
        pool.shutdown(cancel_futures=True)


def by_length(lengths: Ints, batch: int) -> list[Ints]:
    """All documents in batches of similar length, the longest first: for prediction, where order does not matter.

    >>> [part.tolist() for part in by_length(np.array([3, 9, 1, 8]), 2)]
    [[1, 3], [0, 2]]
    """
    order = np.argsort(-lengths, kind="stable")
    return [order[at : at + batch] for at in range(0, len(order), batch)]


def by_tokens(lengths: Ints, most: int, documents: int | None = None) -> list[Ints]:
    """All documents in batches of similar length and at most `most` tokens with padding, the longest first.

    With `documents`, a batch has at most that many of them.

    >>> [part.tolist() for part in by_tokens(np.array([3, 9, 1, 8, 2]), 9)]
    [[1], [3], [0, 4, 2]]
    """
    order = np.argsort(-lengths, kind="stable")
    batches, at = [], 0
    while at < len(order):
        size = max(1, min(most // max(1, int(lengths[order[at]])), documents or len(order)))
        batches.append(order[at : at + size])
        at += size
    return batches


def padded(tokens: TokenStore, documents: Ints, padding: int = 0, left: bool = False) -> tuple[Tensor, Tensor]:
    """(ids, lengths) of some documents: ids are (documents, longest), `padding` after the end or, `left`, before it.

    >>> ids, lengths = padded(TokenStore.of([[5, 6], [7]]), np.array([1, 0]))
    >>> ids.tolist(), lengths.tolist()
    ([[7, 0], [5, 6]], [1, 2])
    >>> padded(TokenStore.of([[5, 6], [7]]), np.array([1, 0]), padding=3, left=True)[0].tolist()
    [[3, 7], [5, 6]]
    """
    starts, lengths = tokens.offsets[documents][:, None], tokens.lengths[documents]
    longest = lengths.max(initial=1)
    steps = np.arange(longest) - (longest - lengths[:, None] if left else 0)
    inside = (steps >= 0) & (steps < lengths[:, None])
    ids = np.where(inside, tokens.ids[np.where(inside, starts + steps, 0)], padding)
    return torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(lengths)
