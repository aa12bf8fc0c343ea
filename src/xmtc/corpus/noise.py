"""Label noise: corpora with missing or added labels, for robustness studies."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.errors import XmtcError

Noise = Literal["missing", "swapped", "flipped"]


def with_noise(corpus: Corpus, rate: float, kind: Noise = "missing", seed: int = 0) -> Corpus:
    """The corpus with labels changed at random; the same for the same seed.

    "missing": each relevant label is dropped with probability `rate`. "swapped": an irrelevant label replaces each
    dropped one, so documents keep their number of labels (a document that has nearly all labels keeps fewer).
    "flipped": every entry of the documents x labels matrix is flipped with probability `rate`; with many labels nearly
    all labels of a document are then irrelevant.

    >>> corpus = Corpus.of(["a"] * 100, [["x", "y"]] * 100)
    >>> with_noise(corpus, 0.4).targets.nnz, with_noise(corpus, 0.0).targets.nnz
    (130, 200)
    """
    if not 0 <= rate <= 1:
        raise XmtcError(f"a rate of noise is between 0 and 1, not {rate}")
    rng = np.random.default_rng(seed)
    old, labels = corpus.targets, len(corpus.labels)
    rows = np.repeat(np.arange(len(corpus)), np.diff(old.indptr))
    stays = rng.random(len(rows)) >= rate
    positions = rows * labels + old.indices.astype(np.int64)  # ascending positions in the flattened matrix
    added = np.zeros(0, np.int64)
    if kind == "swapped":
        added = _unused_positions(rows[~stays], positions, labels, rng)
    elif kind == "flipped":
        irrelevant = len(corpus) * labels - len(positions)
        count = rng.binomial(irrelevant, rate)
        # Irrelevant labels are sampled by their rank among irrelevant ones; the search turns ranks into positions.
        ranks = np.sort(rng.choice(irrelevant, count, replace=False, shuffle=False))
        added = ranks + np.searchsorted(positions - np.arange(len(positions)), ranks, "right")
    noisy = np.sort(np.concatenate([positions[stays], added]))
    indptr = np.searchsorted(noisy, np.arange(len(corpus) + 1) * labels)
    return replace(corpus, targets=label_matrix(noisy % labels, indptr, labels))


def _unused_positions(rows: np.ndarray, positions: np.ndarray, labels: int, rng: np.random.Generator) -> np.ndarray:
    """A distinct position in each of these rows that is none of `positions`; none for a row that has no more."""
    taken = positions
    for _ in range(100):  # resample positions that are taken
        drawn = rows * labels + rng.integers(0, labels, len(rows))
        fresh = np.zeros(len(rows), bool)
        fresh[np.unique(drawn, return_index=True)[1]] = True
        fresh &= ~np.isin(drawn, taken)
        taken, rows = np.concatenate([taken, drawn[fresh]]), rows[~fresh]
        if not len(rows):
            break
    return taken[len(positions) :]
