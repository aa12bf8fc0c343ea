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
