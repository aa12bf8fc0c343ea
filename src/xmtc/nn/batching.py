"""Batches of documents of about the same length, padded."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xmtc.text.token_store import TokenStore

Ints = NDArray[np.int64]
SORTED_TOGETHER = 50  # batches; documents are shuffled, then sorted by length within this many batches


def bucketed(lengths: Ints, batch: int, rng: np.random.Generator) -> list[Ints]:
    """All documents in random batches, each of documents of similar length: padding is what a processor hates most.

    >>> [part.tolist() for part in bucketed(np.array([3, 9, 1, 8]), 2, np.random.default_rng(0))]
    [[3, 1], [2, 0]]
    """
    order = rng.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), batch * SORTED_TOGETHER):
        together = order[start : start + batch * SORTED_TOGETHER]
        together = together[np.argsort(lengths[together], kind="stable")]
        batches += [together[at : at + batch] for at in range(0, len(together), batch)]
    return [batches[at] for at in rng.permutation(len(batches))]


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
