"""X-Transformer's matcher: a pretrained encoder that finds the label clusters of documents; and its training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.strings import Strings
from xmtc.labelspace.tree import LabelTree
from xmtc.nn.batching import Batch, Entries, Ints
from xmtc.nn.datasets import Documents, LabelledTexts, train_valid_split, validation_rows
from xmtc.nn.devices import device_of
from xmtc.nn.dropout import DropoutRng, dropout
from xmtc.nn.encoders.encoder import Encoder, EncoderBatch, EncoderTexts
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Cores, Worker, torch_threads
from xmtc.nn.settings import TrainingSettings
from xmtc.text.token_store import TokenStore

START_DEVIATION = 0.02
NO, YES = -1.0, 1.0  # the scores that squared hinge asks for, and the answer to begin with
LARGEST = 1e9


class Matcher(nn.Module):
    """Scores of clusters: at least 1 for those of a document, at most -1 for the others.

    An only cluster is every document's. Without clusters this is an encoder, whose vectors a linear matcher has.
    """

    output: nn.Linear | None

    def __init__(self, encoder: Encoder, clusters: int, dropout: float, seed: int | None = None) -> None:
        super().__init__()
        self.encoder, self.clusters, self.dropout = encoder, clusters, dropout
        self.output = nn.Linear(encoder.width, clusters) if clusters else None
        if self.output is not None and seed is not None:  # else its weights come from a file
            deviation = START_DEVIATION if clusters > 1 else 0.0
            nn.init.normal_(self.output.weight, std=deviation, generator=torch.Generator().manual_seed(seed))
            nn.init.constant_(self.output.bias, NO if clusters > 1 else YES)

    def forward(self, batch: EncoderBatch, rng: DropoutRng | None = None) -> Tensor:
        """Scores (documents, clusters)."""
        return self._scored(dropout(self.encoder(batch, rng), self.dropout, rng))

    def scores(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """The same from the encoder's vectors, without dropout; always finite, whatever a model file holds."""
        with torch.inference_mode():
            found = self._scored(torch.from_numpy(vectors).to(device_of(self)))
            finite: NDArray[np.float32] = found.nan_to_num_(nan=-LARGEST).clamp_(-LARGEST, LARGEST).cpu().numpy()
        return finite

    def _scored(self, vectors: Tensor) -> Tensor:
        assert self.output is not None
        scores: Tensor = self.output(vectors)
        return scores.float()


def squared_hinge(scores: Tensor, relevant: Tensor) -> Tensor:
    """Of each document the mean of max(0, 1 - y score)^2, y being 1 where `relevant` is 1 and -1 where it is 0.

    >>> squared_hinge(torch.tensor([[2.0, 0.0, -3.0]]), torch.tensor([[1.0, 1.0, 0.0]])).tolist()
    [0.3333333432674408]
    """
    return torch.relu(1 - (2 * relevant - 1) * scores).square().mean(1)


@dataclass(frozen=True)
class MatcherBatch(Batch):
    """Documents as the encoder reads them, and their clusters."""

    texts: EncoderBatch
    clusters: Entries


class MatcherLearner(Learner[Matcher]):
    """The matcher with its training and validation documents; see `xmtc.nn.learner.Learner`.

    The documents' targets are clusters.
    """

    def __init__(self, network: Matcher, train: LabelledTexts, valid: LabelledTexts) -> None:
        self.network, self.train, self.valid = network, train, valid
        self.lengths, self.valid_targets, self.document_weights = train.texts.lengths, valid.targets, train.weights

    def batch(self, documents: Ints, rng: np.random.Generator) -> MatcherBatch:
        """Texts and clusters."""
        clusters = Entries.of(take_rows(self.train.targets, documents))
        return MatcherBatch(self.network.encoder.batch(self.train.texts, documents), clusters)

    def loss(self, batch: MatcherBatch, worker: Worker) -> Tensor:
        """Squared hinge, the mean over documents and clusters."""
        scores = self.network(batch.texts, worker.rng)
        relevant = torch.zeros_like(scores)
        relevant[batch.clusters.rows, batch.clusters.columns] = 1
        return worker.mean(squared_hinge(scores, relevant))

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        vectors = self.network.encoder.vectors(self.valid.texts, cores, "evaluating")
        return np.argsort(-self.network.scores(vectors), axis=1, kind="stable")[:, :k].astype(np.int32)


def tuned(
    network: Matcher,
    tree: LabelTree,
    corpus: Corpus,
    valid: Corpus | None,
    encode: Callable[[Strings], TokenStore],
    settings: TrainingSettings,
    seed: int,
    checkpoints: Checkpoints,
    name: str,
) -> NDArray[np.float32]:
    """Train a matcher for the clusters of a tree; gives its vectors of all the corpus's documents, (documents, width).

    What the frozen layers of the encoder found is used once more for these.
    """
    from xmtc.nn.trainer import train

    assert corpus.texts is not None
    tokens = encode(corpus.texts)
    rows, held_out = validation_rows(len(corpus), valid, settings.valid_documents, seed)
    done = checkpoints.get(name) is not None  # then nothing is learned, and frozen layers need not be computed
    with torch_threads() as cores:

        def read(part: Documents) -> LabelledTexts:
            in_file = settings.devices > 1
            texts = EncoderTexts(part.tokens) if done else network.encoder.texts(part.tokens, cores, in_file=in_file)
            return LabelledTexts(texts, tree.targets(part.targets)[0], part.weights)

        most = settings.valid_documents
        train_set, valid_set = map(read, train_valid_split(corpus, valid, tokens, encode, most, seed))
    train(MatcherLearner(network, train_set, valid_set), settings, seed, checkpoints, name)
    network.eval()
    kept = checkpoints.get(f"{name}-vectors")
    if kept is not None:
        return kept["vectors"]
    vectors = np.empty((len(corpus), network.encoder.width), np.float32)
    with torch_threads() as cores:
        vectors[rows] = network.encoder.vectors(train_set.texts, cores)
        if valid is None:
            vectors[held_out] = network.encoder.vectors(valid_set.texts, cores)
    checkpoints.put(f"{name}-vectors", {"vectors": vectors})
    return vectors
