"""LightXML's network: label clusters found by one layer, their labels scored by another; and what it learns from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.corpus.corpus import take_rows
from xmtc.labelspace.tree import LabelTree
from xmtc.nn.batching import Batch, Entries, Ints
from xmtc.nn.datasets import LabelledTexts
from xmtc.nn.devices import device_of
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.encoders.encoder import Encoder, EncoderBatch, EncoderTexts, batches_of
from xmtc.nn.layers import finite, init_output_bias, lookup
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Cores, Worker
from xmtc.progress import progress
from xmtc.search.beam import beam_search, children_of

MOST_NUMBERS = 4_000_000  # of the candidates' vectors, at a time in prediction


class LightNetwork(nn.Module):
    """A generator scores clusters, a discriminator the labels of some; or, flat, the generator scores all labels.

    The tree has one level (flat) or two. A label's vector and the document's bottleneck make its score.
    """

    cluster_labels: Tensor  #: (clusters, largest cluster) their labels; the last one again where there are fewer
    cluster_sizes: Tensor  #: (clusters,) how many labels they have

    def __init__(self, encoder: Encoder, tree: LabelTree, bottleneck: int, dropout: float) -> None:
        super().__init__()
        self.encoder, self.tree, self.dropout = encoder, tree, dropout
        self.generator = nn.Linear(encoder.width, tree.levels[0].shape[1])
        if tree.depth == 2:
            self.bottleneck = nn.Linear(encoder.width, bottleneck)
            self.labels = nn.Embedding(tree.labels, bottleneck, sparse=True)
            nn.init.xavier_uniform_(self.labels.weight)
            below = tree.levels[1]
            sizes = np.diff(below.indptr).astype(np.int64)
            places = np.minimum(np.arange(sizes.max(initial=1)), sizes[:, None] - 1)
            labels = below.indices[below.indptr[:-1, None] + places].astype(np.int64)
            self.register_buffer("cluster_labels", torch.from_numpy(labels), persistent=False)
            self.register_buffer("cluster_sizes", torch.from_numpy(sizes), persistent=False)

    def init_output_bias(self, share: float) -> None:
        """Start with scores of clusters (flat: of labels) that fit if this share of them is relevant."""
        init_output_bias(self.generator, share)

    def forward(self, batch: EncoderBatch, rng: DropoutRng | None = None) -> Tensor:
        """The documents' vectors (documents, width), of which everything is made."""
        return dropout(self.encoder(batch, rng), self.dropout, rng)

    def discriminated(self, vectors: Tensor, candidates: Tensor) -> Tensor:
        """Scores (documents, candidates) of labels."""
        points = self.bottleneck(vectors)  # (documents, bottleneck)
        return torch.bmm(lookup(self.labels, candidates), points[:, :, None])[:, :, 0]

    def beam_scores(self, vectors: Tensor, depth: int, rows: Ints, nodes: Ints) -> NDArray[np.float32]:
        """Log-probabilities of the children of nodes[i] for the document rows[i], as `beam_search` asks for them."""
        level, device = self.tree.levels[depth], vectors.device
        if depth == 0:
            logits = self.generator(vectors)[:, torch.from_numpy(level.indices.astype(np.int64)).to(device)].flatten()
        else:
            sizes, children = children_of(level, nodes)
            points = self.bottleneck(vectors)[torch.from_numpy(np.repeat(rows, sizes)).to(device)]
            logits = (lookup(self.labels, torch.from_numpy(children.astype(np.int64)).to(device)) * points).sum(1)
        scores: NDArray[np.float32] = functional.logsigmoid(finite(logits)).cpu().numpy()
        return scores


def candidates_of(
    labels: Tensor, sizes: Tensor, logits: Tensor, above: Tensor, slots: Tensor, beam_width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(labels, whether they are right, whether they are any), each (documents, candidates).

    The labels of the `beam_width` best clusters by probability, that of relevant ones being raised by 1. Right labels
    of clusters that have no room take the places of irrelevant ones, from the worst cluster on.

    `labels` and `sizes` are those of the clusters, see `LightNetwork`; `logits` (documents, clusters) scores them,
    `above` (documents, clusters) is 1 where they are relevant, and `slots` says which labels are, see `LightBatch`.

    >>> labels, sizes = torch.tensor([[5, 6], [7, 8]]), torch.tensor([2, 2])
    >>> logits, above, slots = torch.tensor([[3.0, 2.0]]), torch.tensor([[1.0, 1.0]]), torch.tensor([[0, 3]])
    >>> chosen, relevant, _ = candidates_of(labels, sizes, logits, above, slots, beam_width=1)
    >>> chosen.tolist(), relevant.tolist()
    ([[5, 8]], [[True, True]])
    """
    (documents, most), leaf = slots.shape, labels.shape[1]
    nodes = (torch.sigmoid(logits.detach()) + above).topk(min(beam_width, logits.shape[1]), dim=1).indices
    chosen = labels[nodes].flatten(1)
    places = torch.arange(chosen.shape[1], device=chosen.device)
    present = (places[:leaf] < sizes[nodes][:, :, None]).flatten(1)
    # Where the labels of each cluster begin, behind all candidates if it has no room; so right labels find themselves.
    end = len(places)
    starts = torch.full_like(logits, end, dtype=torch.int64).scatter_(1, nodes, places[::leaf].expand_as(nodes))
    there, known = slots >= 0, slots.clamp(min=0)
    own = starts.gather(1, known // leaf) + known % leaf
    found = there & (own < end)
    relevant = torch.zeros(documents, end + 1, dtype=torch.bool, device=chosen.device)
    relevant = relevant.scatter_(1, own.where(found, end), True)[:, :end]
    # The n-th right label that was missed takes the n-th place from behind that has a wrong one.
    missed, free = there & ~found, present & ~relevant
    missing = chosen.new_zeros(documents, most + 1)
    missing = missing.scatter_(1, (missed.cumsum(1) - 1).where(missed, most), labels.flatten()[known])
    turn = free.flip(1).cumsum(1).flip(1) - 1
    taken = free & (turn < missed.sum(1, keepdim=True))
    chosen = missing.gather(1, turn.clamp(0, most)).where(taken, chosen)
    return chosen, relevant | taken, present


@dataclass(frozen=True)
class LightBatch(Batch):
    """Documents as the encoder reads them, their clusters (flat: labels), and where in these their labels are."""

    texts: EncoderBatch
    above: Entries
    slots: Tensor | None  #: (documents, most labels) cluster x largest cluster + place, or -1; None if flat


class LightLearner(Learner[LightNetwork]):
    """The network with its training and validation documents; see `xmtc.nn.learner.Learner`."""

    def __init__(self, network: LightNetwork, train: LabelledTexts, valid: LabelledTexts, beam_width: int) -> None:
        self.network, self.train, self.valid, self.beam_width = network, train, valid, beam_width
        self.lengths, self.valid_targets, self.document_weights = train.texts.lengths, valid.targets, train.weights
        self.top_targets = network.tree.targets(train.targets)[0]
        if network.tree.depth == 2:
            below, leaf = network.tree.levels[1], network.cluster_labels.shape[1]
            cluster = np.repeat(np.arange(below.shape[0]), np.diff(below.indptr))
            self.slot_of = np.empty(network.tree.labels, np.int64)
            self.slot_of[below.indices] = cluster * leaf + np.arange(below.nnz) - below.indptr[cluster]

    def batch(self, documents: Ints, rng: np.random.Generator) -> LightBatch:
        """Texts and labels."""
        slots = None
        if self.network.tree.depth == 2:
            own = take_rows(self.train.targets, documents)
            counts = np.diff(own.indptr)[:, None]
            slots = torch.full((len(documents), counts.max(initial=1)), -1)
            slots[torch.from_numpy(np.arange(slots.shape[1]) < counts)] = torch.from_numpy(self.slot_of[own.indices])
        texts = self.network.encoder.batch(self.train.texts, documents)
        return LightBatch(texts, Entries.of(take_rows(self.top_targets, documents)), slots)

    def loss(self, batch: LightBatch, worker: Worker) -> Tensor:
        """Binary cross-entropy of the clusters plus that of the candidates, each the mean over all of them."""
        network, entropy = self.network, functional.binary_cross_entropy_with_logits
        vectors = network(batch.texts, worker.rng)
        logits = network.generator(vectors).float()
        above = torch.zeros_like(logits)
        above[batch.above.rows, batch.above.columns] = 1
        loss: Tensor = entropy(logits, above, reduction="sum") / (worker.documents * logits.shape[1])
        if batch.slots is None:
            return loss
        clusters = network.cluster_labels, network.cluster_sizes
        chosen, relevant, present = candidates_of(*clusters, logits, above, batch.slots, self.beam_width)
        scores = network.discriminated(vectors, chosen).float()
        count = worker.gather(present.sum()[None]).sum()
        return loss + entropy(scores, relevant.float(), present.float(), reduction="sum") / count

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        return best_labels(self.network, self.valid.texts, self.beam_width, k, cores, "evaluating")[0]


def best_labels(
    network: LightNetwork, texts: EncoderTexts, beam_width: int, k: int, cores: Cores, what: str = "tagging"
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """(labels, log-probabilities) of the k best labels in the `beam_width` best clusters of each document."""
    documents, tree = len(texts.tokens), network.tree
    ids = np.full((documents, k), -1, np.int32)
    scores = np.full((documents, k), -np.inf, np.float32)
    largest = int(np.diff(tree.levels[-1].indptr).max(initial=1))
    numbers = tree.labels if tree.depth == 1 else beam_width * largest * network.bottleneck.out_features
    together = max(1, MOST_NUMBERS // numbers)
    batches, device = batches_of(texts), device_of(network)

    def work(some: Ints) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        with torch.inference_mode():
            vectors = network(network.encoder.batch(texts, some).to(device))
            parts = [vectors[start : start + together] for start in range(0, len(some), together)]

            def search(part: Tensor) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
                def score(depth: int, rows: Ints, nodes: Ints) -> NDArray[np.float32]:
                    return network.beam_scores(part, depth, rows, nodes)

                return beam_search(tree, score, len(part), beam_width, k)

            found = [search(part) for part in parts]
        return np.concatenate([labels for labels, _ in found]), np.concatenate([values for _, values in found])

    with progress(what, len(batches)) as bar:
        for some, found in zip(batches, cores.map(work, batches), strict=True):
            ids[some], scores[some] = found
            bar.advance()
    return ids, scores
