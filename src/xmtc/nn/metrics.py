"""nDCG while a network is trained, and which of some labels are relevant."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr
from xmtc.nn.batching import Ints

EVAL_K = 5


def ndcg(found: NDArray[np.int32], targets: Csr) -> float:
    """nDCG of lists of labels, the mean over the documents that have labels, as a fraction.

    >>> from xmtc.corpus.sparse import make_csr
    >>> relevant = make_csr(np.ones(1, np.float32), np.array([7]), np.array([0, 1, 1]), (2, 9))
    >>> ndcg(np.array([[7, 3], [4, 5]], np.int32), relevant)
    1.0
    """
    from xmtc.kernels.ranking_metrics import ndcg_of_lists

    return float(ndcg_of_lists(found, targets)[np.diff(targets.indptr) > 0].mean())


def is_relevant(targets: Csr, chosen: Ints) -> NDArray[np.bool_]:
    """Whether each of the labels `chosen` for documents, (documents, any number), is one of the document's own.

    >>> from xmtc.corpus.sparse import make_csr
    >>> relevant = make_csr(np.ones(1, np.float32), np.array([7]), np.array([0, 1, 1]), (2, 9))
    >>> is_relevant(relevant, np.array([[3, 7], [7, 7]])).tolist()
    [[False, True], [False, False]]
    """
    documents, total = targets.shape
    codes = np.repeat(np.arange(documents), np.diff(targets.indptr)) * total + targets.indices
    wanted = np.arange(documents)[:, None] * total + chosen
    if not len(codes):
        return np.zeros(wanted.shape, np.bool_)
    found: NDArray[np.bool_] = codes[np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)] == wanted
    return found
