"""Splitting a corpus in two or into folds: at random, stratified, by a key or in blocks that stay together."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.frames import is_number
from xmtc.corpus.stratification import stratify
from xmtc.errors import XmtcError

SplitMethod = Literal["random", "stratified", "key", "blocks"]
RowNumbers = NDArray[np.int64]

# Groups for the last documents of a test part, up to this number, are found by exact search, the others at random.
EXACT_SEARCH = 10_000
# Consecutive documents that a split in blocks keeps together.
BLOCK = 50


def split_rows(
    corpus: Corpus, test: float | int, *, seed: int = 0, method: SplitMethod = "random", key: str | None = None
) -> tuple[RowNumbers, RowNumbers]:
    """Row numbers (rest, test part), both ascending; `test` is a fraction (0.1) or a number of documents (500).

    * `random`: any documents.
    * `stratified`: each label has its share in both parts (see `xmtc.corpus.stratification`), and every label
      keeps at least one document in the rest, so that it can be learned.
    * `key`: documents with the same value of the field `key` stay together; the size comes as near as groups allow.
    * `blocks`: runs of 50 documents stay together. Neighbours in a file are often alike (one author, one day), and a
      random split then overestimates the quality on new documents.

    >>> corpus = Corpus.of(["a", "b", "c", "d"], [["x"], ["x"], ["y"], ["y"]])
    >>> rest, test = split_rows(corpus, 0.5, method="stratified")
    >>> corpus[test].label_counts.tolist()
    [1, 1]
    """
    _check(corpus, seed, method, key)
    size = _test_size(test, len(corpus))
    rng = np.random.default_rng(seed)
    held_out = np.zeros(len(corpus), bool)
    if method == "random":
        held_out[rng.permutation(len(corpus))[:size]] = True
    elif method == "stratified":
        held_out = stratify(corpus.targets, [size, len(corpus) - size], rng, cover=1) == 0
        if (got := int(held_out.sum())) < size:
            raise XmtcError(
                f"only {got:,} of the {size:,} documents requested can be set aside, because each label must keep a "
                f"document in the rest; ask for at most {got:,}, or take method='random'"
            )
    else:
        groups = _groups(corpus, key)
        held_out = np.isin(groups, _choose(np.bincount(groups), size, rng))
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def fold_rows(
    corpus: Corpus, k: int, *, seed: int = 0, method: SplitMethod = "random", key: str | None = None
) -> Iterator[tuple[RowNumbers, RowNumbers]]:
    """k pairs of row numbers (train, test), both ascending; each document is in exactly one test part.

    >>> corpus = Corpus.of(["a", "b", "c", "d"])
    >>> sorted(row for _, test in fold_rows(corpus, 2, seed=7) for row in test.tolist())
    [0, 1, 2, 3]
    """
    _check(corpus, seed, method, key)
    if not is_number(k) or not 2 <= k <= len(corpus):
        raise XmtcError(f"{len(corpus):,} documents cannot make {k!r} folds; take 2 to {len(corpus):,}")
    rng = np.random.default_rng(seed)
    sizes = [len(range(fold, len(corpus), k)) for fold in range(k)]
    if method == "random":
        folds = rng.permutation(np.repeat(np.arange(k), sizes))
    elif method == "stratified":
        folds = stratify(corpus.targets, sizes, rng)
    else:
        groups = _groups(corpus, key)
        folds = _balanced(np.bincount(groups), k, rng)[groups]
    # Not a generator function: the checks above must run when it is called, not at the first fold.
    return ((np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(k))


def _check(corpus: Corpus, seed: int, method: SplitMethod, key: str | None) -> None:
    if method not in get_args(SplitMethod):
        raise XmtcError(f"unknown split method {method!r}; known methods: {', '.join(get_args(SplitMethod))}")
    if (method == "key") != (key is not None):
        raise XmtcError("a split by key needs both: method='key' and key=, the name of a field")
    if not is_number(seed) or seed < 0:
        raise XmtcError(f"seed={seed!r}: a seed is a whole number, 0 or more")
    if len(corpus) < 2:
        raise XmtcError(f"{corpus.name}: {len(corpus)} documents cannot be split; give at least 2")


def _test_size(test: float | int, documents: int) -> int:
    if isinstance(test, (int, np.integer)) and not isinstance(test, bool):
        if not 0 < test < documents:
            raise XmtcError(
                f"test={test} documents cannot be taken from {documents:,}; give a number from 1 to {documents - 1:,}, "
                "or a fraction such as 0.1"
            )
        return int(test)
    if not isinstance(test, (float, np.floating)) or not 0 < test < 1:
        raise XmtcError(f"test={test!r} is no fraction between 0 and 1; for a number of documents give a whole number")
    size = round(test * documents)
    if not 0 < size < documents:
        raise XmtcError(f"test={test} of {documents:,} documents leaves one side empty; give a number of documents")
    return size


def _groups(corpus: Corpus, key: str | None) -> NDArray[np.int64]:
    """The number of each document's group: its value of the key, counted in order of appearance, or its block."""
    if key is None:
        size = min(BLOCK, max(1, len(corpus) // (2 * BLOCK)))  # shorter blocks in a small corpus
        return np.arange(len(corpus)) // size
    columns = dict(corpus.fields)
    if corpus.ids is not None:
        columns.setdefault("id", corpus.ids)
    if key not in columns:
        known = ", ".join(map(repr, columns)) or "none"
        raise XmtcError(
            f"{corpus.name} has no field {key!r} to split by (fields there are: {known}); "
            f"keep it when reading: read(..., keep=[{key!r}])"
        )
    numbers: dict[str, int] = {}
    groups = np.array([numbers.setdefault(value, len(numbers)) for value in columns[key]], np.int64)
    if len(numbers) < 2:
        raise XmtcError(f"every document has the same {key!r}, so a split by it is impossible; take another key")
    return groups


def _choose(sizes: NDArray[np.int64], target: int, rng: np.random.Generator) -> list[int]:
    """Random groups whose sizes add up to `target` or as near to it as possible, with some groups left.

    Taking groups in random order alone would miss the target by up to a group; so the last documents come from an exact
    subset-sum search through the remaining groups, again in random order.
    """
    chosen: list[int] = []
    left: list[int] = []
    for group in rng.permutation(len(sizes)).tolist():
        fits = target - int(sizes[group]) >= EXACT_SEARCH
        (chosen if fits else left).append(group)
        target -= int(sizes[group]) if fits else 0
    # A sum above twice the target is farther from it than 0, but at least the smallest group must fit.
    limit = max(2 * target, int(sizes[left].min()))
    limit = min(limit, int(sizes[left].sum()) - 1)
    unreached = -1
    added_by = np.full(limit + 1, unreached)  # sum -> the group whose addition first reached it
    added_by[0] = len(sizes)
    for group in left:
        size = int(sizes[group])
        if size <= limit:
            sums = added_by[size:]
            sums[(sums == unreached) & (added_by[:-size] != unreached)] = group
        if added_by[target] != unreached:
            break
    reached = np.flatnonzero(added_by != unreached)
    if not chosen:
        reached = reached[1:]
    total = int(reached[np.argmin(np.abs(reached - target))])
    while total:
        chosen.append(int(added_by[total]))
        total -= int(sizes[chosen[-1]])
    return chosen


def _balanced(sizes: NDArray[np.int64], k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The fold of each group: from the largest group down, each to the fold with the fewest documents."""
    if len(sizes) < k:
        raise XmtcError(f"{len(sizes)} different keys cannot make {k} folds; take at most {len(sizes)}")
    folds = np.zeros(len(sizes), np.int64)
    filled = [(0, fold) for fold in range(k)]
    shuffled = rng.permutation(len(sizes))
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")].tolist():
        documents, fold = filled[0]
        folds[group] = fold
        heapq.heapreplace(filled, (documents + int(sizes[group]), fold))
    return folds
