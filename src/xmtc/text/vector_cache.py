"""Vectors of texts that were read before: an encoder is slow, and several methods ask for the same documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.strings import Strings, digests

Floats = NDArray[np.float32]
SAVED_EVERY = 20_000  # texts, after which what was computed is written


class VectorCache:
    """The vectors of texts by the texts' digests, for each encoder; kept with the checkpoints if there are any."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._known: dict[str, tuple[NDArray[np.uint64], Floats]] = {}

    def vectors(self, encoder: str, texts: Strings, compute: Callable[[Strings], Floats]) -> Floats:
        """The vector of each text; only texts that this encoder has not read before are computed."""
        wanted = digests(texts)
        keys, vectors = self._of(encoder)
        distinct, first = np.unique(wanted, return_index=True)
        fresh = np.sort(first[~np.isin(distinct, keys)])
        for start in range(0, len(fresh), SAVED_EVERY):
            rows = fresh[start : start + SAVED_EVERY]
            computed = compute(texts[rows])
            keys = np.concatenate([keys, wanted[rows]])
            vectors = np.concatenate([vectors, computed]) if len(vectors) else computed
            self._known[encoder] = keys, vectors
            self._checkpoints.put(_file(encoder), {"digests": keys, "vectors": vectors})
        order = np.argsort(keys)
        return vectors[order[np.searchsorted(keys, wanted, sorter=order)]]

    def _of(self, encoder: str) -> tuple[NDArray[np.uint64], Floats]:
        if encoder not in self._known:
            kept = self._checkpoints.get(_file(encoder))
            empty = np.zeros(0, np.uint64), np.zeros((0, 0), np.float32)
            self._known[encoder] = empty if kept is None else (kept["digests"], kept["vectors"])
        return self._known[encoder]


_cache: ContextVar[VectorCache | None] = ContextVar("cache", default=None)


@contextmanager
def sharing_vectors(checkpoints: Checkpoints) -> Iterator[None]:
    """Let all methods in the block share what encoders make of texts."""
    token = _cache.set(VectorCache(checkpoints))
    try:
        yield
    finally:
        _cache.reset(token)


def cached_vectors(encoder: str | None, texts: Strings, compute: Callable[[Strings], Floats]) -> Floats:
    """The vectors of texts, from the cache if there is one; `encoder` tells encoders apart, None is not kept.

    >>> def length(texts):
    ...     print("reading", *texts)
    ...     return np.array([[len(text)] for text in texts], np.float32)
    >>> with sharing_vectors(Checkpoints(None, {})):
    ...     one = cached_vectors("length", Strings.of(["apple", "sky"]), length)
    ...     two = cached_vectors("length", Strings.of(["sky", "sea", "sky"]), length)
    reading apple sky
    reading sea
    >>> two.ravel().tolist()
    [3.0, 3.0, 3.0]
    """
    cache = _cache.get()
    return compute(texts) if cache is None or encoder is None else cache.vectors(encoder, texts, compute)


def _file(encoder: str) -> str:
    return "vectors-" + re.sub(r"\W+", "-", encoder).strip("-")
