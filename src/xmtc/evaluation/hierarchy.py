"""Hierarchical precision, recall and F1: a near miss in the tree of labels costs less than a far one."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, eye_array

from xmtc.corpus.labels import Csr
from xmtc.evaluation.ranking import Judged


def ancestor_closure(parents: Csr) -> Csr:
    """Labels x labels, 1 where the column is the row itself or above it.

    >>> parents = csr_array(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32))
    >>> ancestor_closure(parents).toarray().astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    closure: Csr = csr_array(eye_array(parents.shape[0], dtype=np.float32, format="csr"))
    while True:
        # One more level each time; LabelSet has no cycles, so it ends after as many rounds as the tree is deep.
        wider = _binary(closure + closure @ parents)
        if wider.nnz == closure.nnz:
            return closure
        closure = wider


def hierarchical_metrics(judged: Judged, closure: Csr, k: int) -> dict[str, float]:
    """hP, hR and hF1 of the first k labels, in 0..1 (Kiritchenko et al. 2006).

    With T_i the true labels of document i and all labels above them, and G_i the listed labels and all above them,

        hP = sum_i |T_i & G_i| / sum_i |G_i|    hR = sum_i |T_i & G_i| / sum_i |T_i|    hF1 = 2 hP hR / (hP + hR)
    """
    ids = judged.ids[:, :k]
    indptr = np.concatenate([[0], np.cumsum((ids >= 0).sum(axis=1))])
    flat = ids[ids >= 0]
    listed: Csr = csr_array((np.ones(len(flat), np.float32), flat, indptr), shape=judged.truth.shape)
    given, true = _binary(listed @ closure), _binary(judged.truth @ closure)
    shared = float(given.multiply(true).count_nonzero())
    return {
        "hP": shared / max(given.nnz, 1),
        "hR": shared / max(true.nnz, 1),
        "hF1": 2 * shared / max(given.nnz + true.nnz, 1),
    }


def _binary(matrix: Csr) -> Csr:
    matrix.data[:] = 1
    return matrix
