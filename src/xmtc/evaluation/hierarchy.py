"""Hierarchical precision, recall and F1: a near miss in the tree of labels costs less than a far one."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, eye_array

from xmtc.corpus.labels import Csr
from xmtc.evaluation.ranking import RankingMetrics


def ancestor_closure(parents: Csr) -> Csr:
    """Labels x labels, 1 where the column is the row itself or one of its ancestors.

    >>> parents = csr_array(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32))
    >>> ancestor_closure(parents).toarray().astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    closure: Csr = csr_array(eye_array(parents.shape[0], dtype=np.float32, format="csr"))
    while True:
        # One more level each time; a LabelSet has no cycles, so this ends after as many rounds as the tree is deep.
        wider = _binary(closure + closure @ parents)
        if wider.nnz == closure.nnz:
            return closure
        closure = wider


def hierarchical_metrics(ranking: RankingMetrics, closure: Csr, k: int) -> dict[str, float]:
    """hP, hR and hF1 of the first k labels, in 0..1 (Kiritchenko et al. 2006).

    With T_i the true labels of document i and all their ancestors, and G_i the listed labels and all their ancestors,

        hP = sum_i |T_i & G_i| / sum_i |G_i|    hR = sum_i |T_i & G_i| / sum_i |T_i|    hF1 = 2 hP hR / (hP + hR)
    """
    predicted, true = _binary(ranking.listed(k) @ closure), _binary(ranking.truth @ closure)
    shared = float(predicted.multiply(true).count_nonzero())
    return {
        "hP": shared / max(predicted.nnz, 1),
        "hR": shared / max(true.nnz, 1),
        "hF1": 2 * shared / max(predicted.nnz + true.nnz, 1),
    }


def _binary(matrix: Csr) -> Csr:
    matrix.data[:] = 1
    return matrix
