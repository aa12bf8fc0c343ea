"""The labels that training documents have: a network learns only these, and knows each by its place among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr


@dataclass(frozen=True, eq=False)
class SeenLabels:
    """Label ids in rising order.

    >>> seen = SeenLabels.of(np.array([3, 0, 1]))
    >>> seen.ids.tolist(), seen.place(2), seen.place(1)
    ([0, 2], 1, None)
    >>> seen.labels(np.array([[1, -1]])).tolist()
    [[2, -1]]
    """

    ids: NDArray[np.int64]

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> SeenLabels:
        """From the number of training documents of each label."""
        return cls(np.flatnonzero(counts))

    @classmethod
    def from_array(cls, ids: NDArray[np.int64], total: int) -> SeenLabels:
        """As saved with a model that has `total` labels; ValueError if they cannot be that."""
        ids = ids.astype(np.int64, casting="safe")
        if not len(ids) or not (np.diff(ids, prepend=-1, append=total) > 0).all():
            raise ValueError("the labels of the network are not those of the model")
        return cls(ids)

    def __len__(self) -> int:
        return len(self.ids)

    def columns(self, targets: Csr) -> Csr:
        """The columns of these labels."""
        seen: Csr = targets[:, self.ids]
        return seen

    def labels(self, places: NDArray[np.integer]) -> NDArray[np.int32]:
        """Places among the seen labels to label ids; -1 stays."""
        return np.where(places < 0, -1, self.ids[places]).astype(np.int32)

    def place(self, label: int) -> int | None:
        """Where a label is among them; None if no training document had it."""
        at = int(np.searchsorted(self.ids, label))
        return at if at < len(self.ids) and self.ids[at] == label else None
