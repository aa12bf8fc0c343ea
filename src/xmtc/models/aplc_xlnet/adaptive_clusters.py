"""Adaptive probabilistic label clusters: an output layer that spends little on labels that are rarely right.

Ye et al., "Pretrained generalized autoregressive model with adaptive probabilistic label clusters for extreme
multi-label text classification" (ICML 2020), section 3.3. Frequent labels, the head, are scored for every document from
its whole hidden state. Rare ones are in tails; a tail has one logit in the root, and its labels are scored from fewer
numbers, in training only for documents that have one of them.

As in the authors' code and not in the paper: a tail's projection has layer normalisation and ReLU (else `plain_tails`);
the root's logit of a tail that a document does not need is trained towards "no" (`root_negatives`; nothing else would
ever lower it); the loss is the mean over documents of each one's mean over the labels and logits that it was compared
with. Equation 5 of the paper instead divides the sum of all losses by the number of all comparisons: then a document's
loss is its sum here (`sums`), and whoever knows all documents divides. The head's labels and the root's logits are one
matrix there and two here, which changes nothing but spares copies.

Cost: `xmtc.models.aplc_xlnet.costs`. All labels of a tail are compared with a document that needs it, so its gradient
has no empty rows to leave out; but a tail that no document of a batch needs has no gradient at all.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.corpus.sparse import Csr
from xmtc.models.aplc_xlnet.costs import tail_widths
from xmtc.models.aplc_xlnet.label_clusters import FrequencyClusters
from xmtc.nn.batching import Batch

START_DEVIATION = 0.02  # of new weights, as in the authors' code
MAX_SCORES = 1_000_000  # documents x labels at once in prediction; more would not stay in the processor's cache
NO_LABEL = np.iinfo(np.int32).max


@dataclass(frozen=True)
class ClusterTargets(Batch):
    """The labels that documents have, cluster after cluster, and which documents need which tail.

    How many there are of each is known on the CPU: a device need not be asked.

    >>> from scipy.sparse import csr_array
    >>> clusters = FrequencyClusters.by_cut_offs(np.array([9, 8, 3, 2]), [2])
    >>> targets = ClusterTargets.of(csr_array([[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]), clusters)
    >>> targets.rows.tolist(), targets.places.tolist(), targets.counts, targets.needing.tolist()
    ([0, 0, 2], [1, 1, 0], (1, 2), [0, 2])
    >>> targets.part(slice(1, 3)).needing.tolist()
    [1]
    """

    rows: Tensor  #: (labels,) whose label it is; the head's labels, then those of each tail, rising in a cluster
    places: Tensor  #: (labels,) where a label is in its cluster
    counts: tuple[int, ...]  #: labels of each cluster
    needed: Tensor  #: (documents, tails), whether a document has a label of a tail
    needing: Tensor  #: the documents that need the first tail, then those that need the second, and so on
    needing_counts: tuple[int, ...]  #: how many these are
    compared: Tensor  #: (documents,) with how many labels and logits a document is compared

    @classmethod
    def of(cls, targets: Csr, clusters: FrequencyClusters) -> Self:
        """From a matrix (documents, labels) of 0 and 1."""
        documents, labels = targets.shape
        if labels != clusters.labels:
            raise ValueError(f"targets of {targets.shape} for {clusters.labels} labels")
        rows = np.repeat(np.arange(documents), np.diff(targets.indptr))
        cluster, place = clusters.cluster_of[targets.indices], clusters.place_of[targets.indices]
        needed = np.zeros((documents, 1 + clusters.tails), bool)
        needed[rows, cluster] = True
        needed[:, 0] = True  # the head always is
        compared = np.where(needed, clusters.sizes, 1).sum(1)
        order, counts = np.argsort(cluster, kind="stable"), np.bincount(cluster, minlength=1 + clusters.tails)
        return cls._of(counts.tolist(), *map(torch.from_numpy, (rows[order], place[order], needed[:, 1:], compared)))

    @classmethod
    def _of(cls, counts: list[int], rows: Tensor, places: Tensor, needed: Tensor, compared: Tensor) -> Self:
        needing, needing_counts = needed.T.nonzero()[:, 1], tuple(needed.sum(0).tolist())
        return cls(rows, places, tuple(counts), needed, needing, needing_counts, compared)

    def part(self, documents: slice) -> Self:
        """Some of the documents, one after the other."""
        start, end, _ = documents.indices(len(self.compared))
        inside = (self.rows >= start) & (self.rows < end)
        counts = [int(each.sum()) for each in inside.split_with_sizes(self.counts)]
        rows, places = self.rows[inside] - start, self.places[inside]
        return self._of(counts, rows, places, self.needed[documents], self.compared[documents])


class AdaptiveClusters(nn.Module):
    """Labels' probabilities from a hidden state (documents, width) that any encoder has made; the call is the loss.

    >>> from scipy.sparse import csr_array
    >>> clusters = FrequencyClusters.by_proportions(np.array([9, 8, 3, 2, 1, 1]), [0.5, 0.5])
    >>> layer = AdaptiveClusters(clusters, width=4)
    >>> hidden = torch.randn(2, 4)
    >>> layer(hidden, ClusterTargets.of(csr_array(np.eye(2, 6)), clusters)).shape
    torch.Size([2])
    >>> ids, scores = layer.top_k(hidden, k=3)
    >>> bool(np.allclose(layer.probabilities(hidden[:1], ids[0]).tolist(), scores[:1]))
    True
    """

    def __init__(
        self,
        clusters: FrequencyClusters,
        width: int,
        decay: float = 2,
        plain_tails: bool = False,
        root_negatives: bool = True,
        sums: bool = False,
    ) -> None:
        super().__init__()
        self.clusters, self.root_negatives, self.sums = clusters, root_negatives, sums
        head, *tails = clusters.sizes
        self.head = nn.Linear(width, head, bias=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # says that without tails there is nothing to draw
            self.root = nn.Linear(width, len(tails), bias=False)
        widths = tail_widths(width, len(tails), decay)
        self.tails = nn.ModuleList(Tail(width, own, size, plain_tails) for own, size in zip(widths, tails, strict=True))
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=START_DEVIATION)

    def forward(self, hidden: Tensor, targets: ClusterTargets) -> Tensor:
        """The loss of each document, (documents,): the mean (or sum) over labels and logits it is compared with."""
        if len(targets.compared) != len(hidden):
            raise ValueError(f"targets of {len(targets.compared)} documents for {len(hidden)}")
        roots = single(self.root(hidden))  # (documents, tails)
        loss = (functional.softplus(roots) * (~targets.needed & self.root_negatives)).sum(1)  # (documents,)
        rows, places = (each.split_with_sizes(targets.counts) for each in (targets.rows, targets.places))
        loss = loss + binary_loss(label_logits(hidden, self.head.weight), rows[0], places[0])
        for at, needing in enumerate(targets.needing.split_with_sizes(targets.needing_counts), 1):
            if len(needing):
                logits = product_logit(roots[needing, at - 1, None], self._tail(at)(hidden[needing]))
                relevant = torch.searchsorted(needing, rows[at]), places[at]
                loss = loss.index_add(0, needing, binary_loss(logits, *relevant))
        return loss if self.sums else loss / self.comparisons(targets)

    def comparisons(self, targets: ClusterTargets) -> Tensor:
        """(documents,) with how many labels, and logits of tails that it does not need, a document is compared."""
        return targets.compared if self.root_negatives else targets.compared - (~targets.needed).sum(1)

    @torch.inference_mode()
    def top_k(self, hidden: Tensor, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(ids, probabilities) of the k most likely labels, best first, ties to the lower id; -1 and 0 for "no more".

        A tail is left out for a document if its root's probability, which none of its labels can exceed, is below the
        k-th best so far: the result is that of scoring every label.
        """
        from xmtc.kernels.dense_topk import offer_labels

        if k < 1:
            raise ValueError(f"k is {k}; it must be 1 or more")
        scores = np.full((len(hidden), k), -np.inf, np.float32)  # of each document a heap, its worst first
        ids = np.full((len(hidden), k), NO_LABEL, np.int32)
        roots = self.root(hidden).sigmoid().float()
        for cluster in range(len(self.clusters.sizes)):
            rows = np.arange(len(hidden))
            if cluster:
                rows = np.flatnonzero(roots[:, cluster - 1].cpu().numpy() >= scores[:, 0])
            if not len(rows):
                continue
            members = self.clusters.members(cluster)
            chosen = torch.from_numpy(rows).to(hidden.device)
            states, weight, above = self._parts(cluster, hidden[chosen], roots[chosen])
            probabilities = above.expand(len(rows), 1)[:, 0].cpu().numpy()
            size = max(1, MAX_SCORES // len(rows))
            for start in range(0, len(members), size):
                logits = (weight[start : start + size] @ states.T).float().cpu().numpy()  # (labels, documents)
                offer_labels(logits, members[start : start + size], rows, probabilities, scores, ids)
        order = np.lexsort((ids, -scores))
        ids, scores = np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1)
        return np.where(ids == NO_LABEL, -1, ids), np.where(ids == NO_LABEL, 0, scores)

    def probabilities(self, hidden: Tensor, labels: NDArray[np.integer[Any]]) -> Tensor:
        """The probabilities of some labels, the same for all documents, (documents, labels)."""
        found = hidden.new_empty(len(hidden), len(labels))
        cluster, place = self.clusters.cluster_of[labels], self.clusters.place_of[labels]
        roots = self.root(hidden).sigmoid()
        for at in np.unique(cluster).tolist():
            here = np.flatnonzero(cluster == at)
            states, weight, above = self._parts(at, hidden, roots)
            found[:, here] = above * label_logits(states, weight[place[here]]).sigmoid()
        return found

    def _parts(self, cluster: int, hidden: Tensor, roots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(states, labels' weights, probability above): a label's is above * sigmoid(states @ its weights)."""
        if cluster == 0:
            return hidden, self.head.weight, roots.new_ones(())
        tail = self._tail(cluster)
        return tail.projected(hidden), tail.labels.weight, roots[:, cluster - 1, None]

    def _tail(self, cluster: int) -> Tail:
        tail = self.tails[cluster - 1]
        assert isinstance(tail, Tail)
        return tail


class Tail(nn.Module):
    """Logits of a tail's labels, given that one of them is right.

    >>> Tail(width=4, own=2, labels=7)(torch.zeros(3, 4)).shape
    torch.Size([3, 7])
    """

    def __init__(self, width: int, own: int, labels: int, plain: bool = False) -> None:
        super().__init__()
        self.projection = nn.Linear(width, own, bias=False)
        self.norm = None if plain else nn.LayerNorm(own)
        self.labels = nn.Linear(own, labels, bias=False)

    def projected(self, hidden: Tensor) -> Tensor:
        """(documents, width) -> (documents, own width)."""
        projected: Tensor = self.projection(hidden)
        return projected if self.norm is None else torch.relu(self.norm(projected))

    def forward(self, hidden: Tensor) -> Tensor:
        """(documents, width) -> (documents, labels)."""
        return label_logits(self.projected(hidden), self.labels.weight)


def label_logits(states: Tensor, weight: Tensor) -> Tensor:
    """(documents, width) and labels' weights (labels, width) -> (documents, labels).

    Multiplied the other way round and turned: alone, with few documents and many labels, a CPU is faster at it.

    >>> label_logits(torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).tolist()
    [[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]
    """
    return single((weight @ states.T).T.contiguous())


def single(values: Tensor) -> Tensor:
    """In single precision at least: losses are not computed with numbers of two bytes.

    >>> single(torch.ones(1, dtype=torch.bfloat16)).dtype, single(torch.ones(1, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return values.to(torch.promote_types(values.dtype, torch.float32))


def product_logit(root: Tensor, own: Tensor) -> Tensor:
    """The logit of the product of two probabilities that are given as logits, safe for all sizes of these.

    With p = 1 / ((1 + exp(-r)) (1 + exp(-b))) it is log p - log(1 - p) = r + b - log(1 + exp(r) + exp(b)).

    >>> product_logit(torch.tensor(0.0), torch.tensor(0.0)).sigmoid().item()
    0.25
    >>> product_logit(torch.tensor(1000.0), torch.tensor(-500.0)).item()
    -500.0
    """
    return root - functional.softplus(functional.softplus(root) - own)


def binary_loss(logits: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    """The binary cross-entropy of logits (documents, labels), added up for each document.

    The labels that are right stand at (rows, places); their matrix is never made.

    >>> binary_loss(torch.zeros(1, 2), torch.tensor([0]), torch.tensor([1])).tolist()
    [1.3862943649291992]
    """
    loss: Tensor = _BinaryLoss.apply(logits, rows, places)  # type: ignore[no-untyped-call]
    return loss


class _BinaryLoss(torch.autograd.Function):
    """Autograd would keep or make four matrices of the size of the logits, where one is enough."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(logits, rows, places)
        return functional.softplus(logits).sum(1).index_add_(0, rows, logits[rows, places], alpha=-1)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None, None]:
        logits, rows, places = ctx.saved_tensors
        gradient = logits.sigmoid().mul_(above[:, None])
        gradient.index_put_((rows, places), -above[rows], accumulate=True)
        return gradient, None, None
