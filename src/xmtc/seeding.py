"""One seed for everything that is random: each part of a run derives its own from it."""

from __future__ import annotations

import numpy as np


def derived_seed(*parts: int) -> int:
    """A seed for each piece of work, so that the result does not depend on which thread does what.

    >>> derived_seed(0, 1) == derived_seed(0, 1) != derived_seed(1, 0)
    True
    """
    return int(np.random.SeedSequence(parts).generate_state(1)[0])
