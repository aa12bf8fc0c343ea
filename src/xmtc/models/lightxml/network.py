"""LightXML's network: label clusters found by one layer, their labels scored by another; and what it learns from."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.corpus.corpus import take_rows
from xmtc.corpus.labels import Csr
from xmtc.labelspace.tree import LabelTree
from xmtc.nn.batching import Ints
from xmtc.nn.datasets import LabelledTexts
from xmtc.nn.dropout import dropout
from xmtc.nn.encoders.encoder import Encoder, EncoderTexts, batches_of
from xmtc.nn.layers import finite, init_output_bias
from xmtc.nn.learner import Learner
from xmtc.nn.metrics import is_relevant
from xmtc.nn.parallel import Cores
from xmtc.progress import progress
from xmtc.search.beam import beam_search, children_of

MOST_NUMBERS = 4_000_000  # of the candidates' vectors, at a time in prediction


class LightNetwork(nn.Module):
    """A generator scores clusters, a discriminator the labels of some; or, flat, the generator scores all labels.

    The tree has one level (flat) or two. A label's vector and the document's bottleneck make its score.
    """

    def __init__(self, encoder: Encoder, tree: LabelTree, bottleneck: int, dropout: float) -> None:
        super().__init__()
        self.encoder, self.tree, self.dropout = encoder, tree, dropout
        self.generator = nn.Linear(encoder.width, tree.levels[0].shape[1])
        if tree.depth == 2:
            self.bottleneck = nn.Linear(encoder.width, bottleneck)
            self.labels = nn.Embedding(tree.labels, bottleneck, sparse=True)
            nn.init.xavier_uniform_(self.labels.weight)

    def init_output_bias(self, share: float) -> None:
        """Start with scores of clusters (flat: of labels) that fit if this share of them is relevant."""
        init_output_bias(self.generator, share)

    def forward(self, texts: EncoderTexts, documents: Ints, rng: np.random.Generator | None = None) -> Tensor:
        """The documents' vectors (documents, width), of which everything is made."""
        return dropout(self.encoder(texts, documents, rng), self.dropout, rng)

    def discriminated(self, vectors: Tensor, candidates: Tensor) -> Tensor:
        """Scores (documents, candidates) of labels."""
        points = self.bottleneck(vectors)  # (documents, bottleneck)
        return torch.bmm(self.labels(candidates), points[:, :, None])[:, :, 0]

    def beam_scores(self, vectors: Tensor, depth: int, rows: Ints, nodes: Ints) -> NDArray[np.float32]:
        """Log-probabilities of the children of nodes[i] for the document rows[i], as `beam_search` asks for them."""
        level = self.tree.levels[depth]
        if depth == 0:
            logits = self.generator(vectors)[:, torch.from_numpy(level.indices.astype(np.int64))].flatten()
        else:
            sizes, children = children_of(level, nodes)
            points = self.bottleneck(vectors)[torch.from_numpy(np.repeat(rows, sizes))]
            logits = (self.labels(torch.from_numpy(children.astype(np.int64))) * points).sum(1)
        sound = finite(logits)
        return functional.logsigmoid(sound).numpy()


def candidates_of(
    tree: LabelTree, logits: Tensor, targets: Csr, cluster_targets: Csr, beam_width: int
) -> tuple[Ints, NDArray[np.bool_], NDArray[np.bool_]]:
    """(labels, whether they are right, whether they are any), each (documents, candidates).

    The labels of the `beam_width` best clusters by probability, that of relevant ones being raised by 1. Right labels
    of clusters that have no room take the places of irrelevant ones, from the worst cluster on.
    """
    documents, beam_width = len(logits), min(beam_width, logits.shape[1])
    raised = torch.sigmoid(logits.detach()) + torch.from_numpy(cluster_targets.toarray())
    nodes = raised.topk(beam_width, dim=1).indices.numpy()  # (documents, beam)
    sizes, children = children_of(tree.levels[1], nodes.ravel())
    each = sizes.reshape(documents, beam_width).sum(1)
    present = np.arange(each.max(initial=1)) < each[:, None]
    chosen = np.zeros(present.shape, np.int64)
    chosen[present] = children
    relevant = is_relevant(targets, chosen) & present
    counts = np.diff(targets.indptr)
    for row in np.flatnonzero(relevant.sum(1) < counts).tolist():
        own = targets.indices[targets.indptr[row] : targets.indptr[row + 1]]
        missed = np.setdiff1d(own, chosen[row, relevant[row]], assume_unique=True)
        places = np.flatnonzero(present[row] & ~relevant[row])[::-1][: len(missed)]
        chosen[row, places] = missed[: len(places)]
        relevant[row, places] = True
    return chosen, relevant, present


class LightLearner(Learner[LightNetwork]):
    """The network with its training and validation documents; see `xmtc.nn.learner.Learner`."""

    def __init__(self, network: LightNetwork, train: LabelledTexts, valid: LabelledTexts, beam_width: int) -> None:
        self.network, self.train, self.valid, self.beam_width = network, train, valid, beam_width
        self.lengths, self.valid_targets = train.texts.lengths, valid.targets
        self.top_targets = network.tree.targets(train.targets)[0]

    def loss(self, documents: Ints, rng: np.random.Generator) -> Tensor:
        """Binary cross-entropy of the clusters plus that of the candidates, each the mean over all of them."""
        network, above = self.network, take_rows(self.top_targets, documents)
        vectors = network(self.train.texts, documents, rng)
        logits = network.generator(vectors)
        entropy = functional.binary_cross_entropy_with_logits
        loss = entropy(logits, torch.from_numpy(above.toarray()))
        if network.tree.depth == 1:
            return loss
        targets = take_rows(self.train.targets, documents)
        chosen, relevant, present = candidates_of(network.tree, logits, targets, above, self.beam_width)
        scores = network.discriminated(vectors, torch.from_numpy(chosen))
        inside = torch.from_numpy(present)
        return loss + entropy(scores[inside], torch.from_numpy(relevant.astype(np.float32))[inside])

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
    batches = batches_of(texts)

    def work(some: Ints) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        with torch.inference_mode():
            vectors = network(texts, some)
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
