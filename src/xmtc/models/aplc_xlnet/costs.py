"""Size and cost of adaptive probabilistic label clusters: the formulas of Ye et al., APLC-XLNet (ICML 2020), section 3.

A head of l_0 labels is scored from the whole hidden state of d numbers; tail i of l_i labels from d / q^i numbers (q is
the `decay`), and only with probability p_i. `sizes` are l_0 to l_K throughout, `access` are p_1 to p_K.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.errors import ConfigError

CERTAIN = 1 - 1e-12  # the largest frequency; ln(1 - 1) would be infinite


def check_decay(decay: float) -> None:
    """An error unless tails get narrower, or stay as wide as the head.

    >>> check_decay(0.5)
    Traceback (most recent call last):
    xmtc.errors.ConfigError: decay is 0.5; it must be 1 or more: no tail is wider than the head
    """
    if not decay >= 1:
        raise ConfigError(f"decay is {decay}; it must be 1 or more: no tail is wider than the head")


def tail_widths(width: int, tails: int, decay: float) -> list[int]:
    """d / q^i for each tail, rounded down; an error if one has nothing left.

    >>> tail_widths(512, 3, decay=2)
    [256, 128, 64]
    """
    check_decay(decay)
    widths = [int(width / decay**tail) for tail in range(1, tails + 1)]
    if min(widths, default=1) < 1:
        raise ConfigError(
            f"a hidden state of {width} numbers leaves none for tail {widths.index(0) + 1} with decay {decay}; "
            "take fewer clusters or a smaller decay"
        )
    return widths


def parameter_count(sizes: Sequence[int], width: int, decay: float) -> int:
    """Equation 6, d (l_0 + K) + the sum of d_i (d + l_i): all weights but those of the layer normalisation.

    >>> parameter_count([1978, 1978], width=768, decay=2)
    2574336
    """
    head, *tails = sizes
    widths = tail_widths(width, len(tails), decay)
    return width * (head + len(tails)) + sum(own * (width + size) for own, size in zip(widths, tails, strict=True))


def approximate_parameter_count(sizes: Sequence[int], width: int, decay: float) -> float:
    """Equation 7, d times the sum of l_i / q^i: what is left where labels are many; a flat layer has d times all.

    >>> approximate_parameter_count([1978, 1978], width=768, decay=2)
    2278656.0
    """
    return sum(width * size / decay**cluster for cluster, size in enumerate(sizes))


def batch_cost(sizes: Sequence[int], access: Sequence[float], width: int, decay: float, batch: int) -> float:
    """Equation 11, N d (l_0 + K + the sum of p_i (l_i + d) / q^i): multiplications to score a batch of N documents.

    >>> batch_cost([10, 20, 40], [0.5, 0.25], width=8, decay=2, batch=1)
    176.0
    """
    head, *tails = sizes
    terms = zip(access, tails, range(1, len(sizes)), strict=True)
    return (
        batch * width * (head + len(tails) + sum(share * (size + width) / decay**tail for share, size, tail in terms))
    )


def approximate_batch_cost(
    sizes: Sequence[int], access: Sequence[float], width: int, decay: float, batch: int
) -> float:
    """Equation 12, N d (l_0 + the sum of p_i l_i / q^i); for a flat layer it is N d times all labels.

    >>> approximate_batch_cost([10, 20, 40], [0.5, 0.25], width=8, decay=2, batch=1)
    140.0
    """
    head, *tails = sizes
    terms = zip(access, tails, range(1, len(sizes)), strict=True)
    return batch * width * (head + sum(share * size / decay**tail for share, size, tail in terms))


def access_reach(frequencies: NDArray[np.floating[Any]], batch: int = 1) -> NDArray[np.float64]:
    """R, one longer than the labels, with which 1 - exp(R[a] - R[b]) is the probability that labels a to b are needed.

    That is that one of them at least is right for one of `batch` documents, if labels come independently of each other;
    `frequencies` are shares of documents.

    >>> reach = access_reach(np.array([0.5, 0.5, 0.1]))
    >>> (1 - np.exp(reach[0] - reach[[1, 2, 3]])).round(3).tolist()
    [0.5, 0.75, 0.775]
    """
    never = np.log1p(-np.minimum(frequencies, CERTAIN))
    return np.concatenate([[0.0], np.cumsum(-batch * never)])


def access_probabilities(
    sizes: Sequence[int], frequencies: NDArray[np.floating[Any]], batch: int = 1
) -> NDArray[np.float64]:
    """p_1 to p_K for labels of these falling frequencies; see `access_reach`.

    >>> access_probabilities([1, 2], np.array([0.5, 0.5, 0.1])).round(2).tolist()
    [0.55]
    """
    reach = access_reach(frequencies, batch)[np.cumsum(sizes)]
    shares: NDArray[np.float64] = -np.expm1(reach[:-1] - reach[1:])
    return shares
