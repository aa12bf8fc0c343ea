"""How likely it is that a label that applies was in fact given: the propensity model of Jain et al. (KDD 2016).

Rare labels are missed by annotators more often than frequent ones. Dividing by the propensity makes up for that, so
that a method cannot shine by the head labels alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.errors import ConfigError


@dataclass(frozen=True)
class Propensity:
    """The two constants of the propensity model.

    The inverse propensity of a label with N_l out of N training documents is

        1 / p_l = 1 + C (N_l + B)^-A    with    C = (ln N - 1) (B + 1)^A

    A label never seen in training has N_l = 0 and so the largest weight.

    >>> Propensity().inverse(np.array([0, 10, 1000]), documents=10_000).round(2)
    array([11.87,  4.55,  1.3 ])
    """

    a: float = 0.55
    b: float = 1.5

    def __post_init__(self) -> None:
        # B = 0 would divide by zero for a label never seen; A below 0 would give frequent labels the larger weights.
        if not (0 <= self.a < math.inf and 0 < self.b < math.inf):
            raise ConfigError(
                f"propensity A = {self.a:g}, B = {self.b:g}: A must be 0 or more and B above 0, both finite"
            )

    def inverse(self, counts: NDArray[np.integer[Any]], documents: int) -> NDArray[np.float64]:
        """1 / p_l for labels with these training counts, out of this many training documents."""
        if documents < 1:
            raise ValueError(f"{documents} training documents: propensities need at least one")
        # Below three documents ln N - 1 is negative and so would be some weights: then all labels weigh the same.
        c = max(math.log(documents) - 1, 0.0) * (self.b + 1) ** self.a
        inverse: NDArray[np.float64] = 1 + c * (np.asarray(counts, np.float64) + self.b) ** -self.a
        return inverse


#: The constants in use, by family of data sets. "amazon": product-to-product sets (Amazon-670K, Amazon-3M, LF-Amazon*);
#: "wikipedia": Wiki-500K, WikiLSHTC-325K, LF-Wikipedia*; "default": all else, AmazonCat-13K and Wiki10-31K included.
PROPENSITIES: dict[str, Propensity] = {
    "default": Propensity(0.55, 1.5),
    "amazon": Propensity(0.6, 2.6),
    "wikipedia": Propensity(0.5, 0.4),
}


def propensity_of(given: Propensity | str | tuple[float, float]) -> Propensity:
    """The constants that a name of PROPENSITIES stands for, or those of a text "A,B" or a pair (A, B).

    >>> propensity_of("amazon"), propensity_of("0.5,0.4") == PROPENSITIES["wikipedia"]
    (Propensity(a=0.6, b=2.6), True)
    """
    if isinstance(given, Propensity):
        return given
    if isinstance(given, str) and (known := PROPENSITIES.get(given.strip().lower())):
        return known
    try:
        a, b = map(float, given.split(",") if isinstance(given, str) else given)
    except (TypeError, ValueError) as error:
        names = ", ".join(PROPENSITIES)
        raise ConfigError(f"propensity {given!r:.60}: give {names}, or A and B such as 0.55,1.5") from error
    return Propensity(a, b)
