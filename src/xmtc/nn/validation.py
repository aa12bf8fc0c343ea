"""Which documents a network is checked with while it is trained."""

from __future__ import annotations

import numpy as np

from xmtc.corpus.corpus import Corpus
from xmtc.labelspace.tree import derived_seed
from xmtc.nn.batches import Ints

FEWEST = 10  # with fewer documents a choice would be chance


def validation_rows(documents: int, valid: Corpus | None, most: int, seed: int) -> tuple[Ints, Ints]:
    """(rows to learn from, rows to check with), the latter of `valid` if it is given, else held out of the documents.

    Checking many documents every few steps would take longer than learning, so at most `most` are drawn, and never
    more than a tenth of what is learned from; a corpus with fewer than a hundred documents is learned whole.

    >>> train, check = validation_rows(1000, None, most=50, seed=0)
    >>> len(train), len(check), len(validation_rows(60, None, most=50, seed=0)[1])
    (950, 50, 0)
    """
    rng = np.random.default_rng(derived_seed(seed, 23))
    if valid is not None:
        return np.arange(documents), np.sort(rng.permutation(len(valid))[:most])
    count = min(most, documents // 10)
    if count < FEWEST:
        return np.arange(documents), np.zeros(0, np.int64)
    order = rng.permutation(documents)
    return np.sort(order[count:]), np.sort(order[:count])
