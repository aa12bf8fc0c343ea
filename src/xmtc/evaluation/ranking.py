"""The ranking metrics: P@k, R@k, RP@k, F1@k, nDCG@k, PSP@k and PSnDCG@k.

For one document let y be its set of true labels and r_1, r_2, ... its list, best first; [r in y] is 1 if r is true.

    P@k    = 1/k sum_{l<=k} [r_l in y]                       also where the document has fewer than k labels
    R@k    = 1/|y| sum_{l<=k} [r_l in y]
    RP@k   = 1/min(k,|y|) sum_{l<=k} [r_l in y]              R-precision at k (Chalkidis et al. 2019): 1 can be reached
    F1@k   = 2 sum_{l<=k} [r_l in y] / (k + |y|)             the harmonic mean of the document's P@k and R@k
    nDCG@k = sum_{l<=k} [r_l in y] / log2(l+1)  divided by  sum_{l<=min(k,|y|)} 1 / log2(l+1)

averaged over documents; one without true labels counts as 0. With 1/p_l the inverse propensity of a label (see
`xmtc.labelspace.propensity`), the propensity-scored metrics are ratios of sums over all documents i:

    PSP@k    = sum_i sum_{l<=k} [r_l in y] / p_{r_l}  divided by  sum_i (the k largest 1/p among y)
    PSnDCG@k = sum_i D_i / Z_i  divided by  sum_i D*_i / Z_i

where D_i = sum_{l<=k} [r_l in y] / (p_{r_l} log2(l+1)), D*_i is the same for the ideal list (true labels by falling
1/p) and Z_i = sum_{l<=min(k,|y|)} 1 / log2(l+1), as in the XMC repository's pyxclib; with Z_i = 1 (`normalise=False`)
it is what AttentionXML's code computes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.sparse import Csr, make_csr
from xmtc.errors import XmtcError
from xmtc.labelspace.frequency_bands import Groups
from xmtc.predictions import Predictions

#: Numerator and denominator of a metric in `kernels.ranking_metrics.COLUMNS`; None: the number of documents.
METRICS: dict[str, tuple[int, int | None]] = {
    "P": (0, None),
    "R": (1, None),
    "RP": (2, None),
    "F1": (3, None),
    "nDCG": (4, None),
    "PSP": (5, 6),
    "PSnDCG": (7, 8),
}
PROPENSITY_SCORED = ("PSP", "PSnDCG")

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RankingMetrics:
    """Predictions and the truth, in the same label ids: which listed labels are true, and the metrics that follow.

    `weights` are the inverse propensities of all labels; without them there is no PSP and no PSnDCG.

    >>> truth = Corpus.of(["...", "..."], [["a", "b"], ["c"]])
    >>> top = Predictions(np.array([[1, 2], [0, -1]], np.int32), np.zeros((2, 2), np.float32), truth.labels)
    >>> ranking = RankingMetrics.of(top, truth)
    >>> ranking.hits.tolist()
    [[True, False], [False, False]]
    >>> ranking.metrics([1, 2])["P@1"], ranking.metrics([1, 2])["P@2"]
    (0.5, 0.25)
    """

    ids: NDArray[np.int32]
    hits: NDArray[np.bool_]
    truth: Csr
    weights: Floats | None = None
    normalise: bool = True

    @classmethod
    def of(
        cls, predictions: Predictions, truth: Corpus, weights: Floats | None = None, normalise: bool = True
    ) -> RankingMetrics:
        """Find the hits; `truth` must come from `align`, `normalise=False` gives AttentionXML's PSnDCG."""
        from xmtc.kernels.ranking_metrics import csr_rows, find_hits

        ids = np.ascontiguousarray(predictions.ids, np.int32)
        targets = truth.targets
        if not targets.has_sorted_indices:
            targets = targets.sorted_indices()
        return cls(ids, find_hits(ids, *csr_rows(targets)), targets, weights, normalise)

    def __len__(self) -> int:
        return len(self.ids)

    def metrics(self, ks: Sequence[int]) -> dict[str, float]:
        """All metrics at each k, in 0..1, as {"P@1": ..., ...}."""
        everything = Groups(("all",), np.zeros(self.truth.shape[1], np.int8))
        rising = sorted(set(ks))
        sums = self._sums(rising, everything)[0][0]
        return {
            f"{name}@{k}": float(sums[row, above] / (sums[row, below] if below is not None else len(self)))
            for name, (above, below) in self._defined().items()
            for row, k in enumerate(rising)
        }

    def metrics_by_group(self, ks: Sequence[int], groups: Groups) -> dict[str, dict[str, float]]:
        """For each group of labels the metrics when only its labels count as true; the lists stay as they are.

        P@k is the group's part of the overall P@k: over all documents, so that the groups add up to it. The others say
        how well the group's labels are found: R@k, RP@k and nDCG@k are means over the documents that have such a label,
        PSP and PSnDCG are ratios of sums. A group that does not occur in the truth has P@k alone. There is no F1@k:
        labels of other groups in the list would count as wrong.
        """
        rising = sorted(set(ks))
        sums, carriers = self._sums(rising, groups)
        result: dict[str, dict[str, float]] = {name: {} for name in groups.names}
        for at, group in enumerate(groups.names):
            for name, (above, below) in self._defined().items():
                for row, k in enumerate(rising):
                    if name == "P":
                        divisor = float(len(self))
                    else:
                        divisor = float(sums[at, row, below] if below is not None else carriers[at])
                    if name != "F1" and divisor:
                        result[group][f"{name}@{k}"] = float(sums[at, row, above] / divisor)
        return result

    def per_document(self, metric: str) -> tuple[Floats, Floats]:
        """(numerator, denominator) of each document; the metric is the ratio of their sums.

        >>> truth = Corpus.of(["...", "..."], [["a", "b"], ["c"]])
        >>> top = Predictions(np.array([[1, 2], [0, -1]], np.int32), np.zeros((2, 2), np.float32), truth.labels)
        >>> RankingMetrics.of(top, truth).per_document("R@2")
        (array([0.5, 0. ]), array([1., 1.]))
        """
        from xmtc.kernels.ranking_metrics import csr_rows, measure_documents

        name, k = parse_metric(metric)
        if name not in self._defined():
            raise XmtcError(f"{metric} needs training counts and the number of training documents (train_documents=)")
        above, below = METRICS[name]
        values = measure_documents(
            self.ids, self.hits, *csr_rows(self.truth), self._weights(), np.array([k], np.int64), self.normalise
        )[:, 0]
        return values[:, above].copy(), values[:, below].copy() if below is not None else np.ones(len(self))

    def label_counts(self, k: int | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """For each label: documents that have it, that list it among the first k, and that do both."""
        labels = self.truth.shape[1]
        ids, hits = self.ids[:, :k], self.hits[:, :k]
        true = np.bincount(self.truth.indices, minlength=labels)
        # Ids are shifted by one so that "no more" (-1) is counted in a place of its own and dropped.
        predicted = np.bincount(ids.ravel() + 1, minlength=labels + 1)[1:]
        return true, predicted, np.bincount(ids[hits], minlength=labels)

    def listed(self, k: int, relevant: bool | None = None) -> Csr:
        """Documents x labels, 1 for the first k labels of each list, or only for those that are relevant or are not."""
        ids = self.ids[:, :k]
        chosen = ids >= 0
        if relevant is not None:
            chosen &= self.hits[:, :k] == relevant
        indptr = np.append(0, np.cumsum(chosen.sum(axis=1)))
        listed = make_csr(np.ones(indptr[-1], np.float32), ids[chosen], indptr, self.truth.shape)
        listed.sort_indices()
        return listed

    def _defined(self) -> dict[str, tuple[int, int | None]]:
        return {name: at for name, at in METRICS.items() if self.weights is not None or name not in PROPENSITY_SCORED}

    def _weights(self) -> Floats:
        return self.weights if self.weights is not None else np.ones(self.truth.shape[1])

    def _sums(self, rising: Sequence[int], groups: Groups) -> tuple[Floats, NDArray[np.integer[Any]]]:
        from xmtc.kernels.ranking_metrics import csr_rows, sum_by_group

        if not rising or rising[0] < 1:
            raise XmtcError(f"k = {list(rising)}: give at least one k, each 1 or more")
        truth, ks = (*csr_rows(self.truth), self._weights()), np.array(rising, np.int64)
        groups_of_labels = (groups.of_label, len(groups.names))
        found: tuple[Floats, NDArray[np.integer[Any]]] = sum_by_group(
            self.ids, self.hits, *truth, *groups_of_labels, ks, self.normalise
        )
        return found


def align(predictions: Predictions, corpus: Corpus) -> Corpus:
    """The corpus with the label ids of the predictions; labels that these do not know get higher ids.

    So a true label that the model can never predict still costs recall and PSP, as in the papers.
    """
    if len(predictions) != len(corpus):
        raise XmtcError(f"{len(predictions):,} predictions for {len(corpus):,} documents; both must be the same texts")
    if not corpus.targets.nnz:
        raise XmtcError(f"{corpus.name}: no document has labels, so there is nothing to evaluate against")
    return corpus.with_labels(predictions.labels)


def parse_metric(metric: str) -> tuple[str, int]:
    """A metric's name and k.

    >>> parse_metric("nDCG@5")
    ('nDCG', 5)
    """
    match = re.fullmatch(r"(\w+)@([1-9]\d*)", metric)
    if not match or match[1] not in METRICS:
        raise XmtcError(f"unknown metric {metric!r}; known are {', '.join(f'{name}@k' for name in METRICS)}")
    return match[1], int(match[2])
