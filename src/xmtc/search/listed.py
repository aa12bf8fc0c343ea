"""Short lists of labels with their log-odds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Listed:
    """The labels of documents' lists and their log-odds, (documents, length); -1 where there are fewer labels."""

    labels: NDArray[np.int32]
    odds: NDArray[np.float32]
