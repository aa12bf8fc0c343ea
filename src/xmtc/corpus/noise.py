"""Wrong labels on purpose: training documents whose labels were partly forgotten or mixed up, for studies of noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.errors import XmtcError

Noise = Literal["missing", "swapped", "flipped"]


def with_noise(corpus: Corpus, rate: float, kind: Noise = "missing", seed: int = 0) -> Corpus:
    """The corpus with labels changed at random; the same for the same seed.

    "missing": each relevant label is dropped with the chance `rate`. "swapped": and for each one that is dropped a
    wrong label is put in, so that documents keep their number of labels (a document that has nearly all labels keeps
    fewer). "flipped": every entry of the documents x labels matrix, right or wrong, is turned round with the chance
    `rate`; with many labels nearly all labels of a document are wrong then.

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
    codes = rows * labels + old.indices.astype(np.int64)  # of places in the matrix, rising
    wrong = np.zeros(0, np.int64)
    if kind == "swapped":
        wrong = _others(rows[~stays], codes, labels, rng)
    elif kind == "flipped":
        count = rng.binomial(len(corpus) * labels - len(codes), rate)
        # Places of irrelevant labels are counted without those of relevant ones; `shift` puts these back.
        places = np.sort(rng.choice(len(corpus) * labels - len(codes), count, replace=False, shuffle=False))
        shift = np.searchsorted(codes - np.arange(len(codes)), places, "right")
        wrong = places + shift
    places = np.sort(np.concatenate([codes[stays], wrong]))
    ends = np.searchsorted(places, np.arange(len(corpus) + 1) * labels)
    return replace(corpus, targets=label_matrix(places % labels, ends, labels))


def _others(rows: np.ndarray, codes: np.ndarray, labels: int, rng: np.random.Generator) -> np.ndarray:
    """A place in each of these rows that is none of `codes`, none twice; none for a row where there are no more."""
    found = np.zeros(0, np.int64)
    for _ in range(100):  # draw again what was taken already
        drawn = rows * labels + rng.integers(0, labels, len(rows))
        _, first = np.unique(drawn, return_index=True)
        fresh = np.zeros(len(rows), bool)
        fresh[first] = True
        fresh &= ~np.isin(drawn, codes) & ~np.isin(drawn, found)
        found, rows = np.concatenate([found, drawn[fresh]]), rows[~fresh]
        if not len(rows):
            break
    return found
