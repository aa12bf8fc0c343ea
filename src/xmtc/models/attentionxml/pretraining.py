"""Word vectors that know the labels before a network reads them: pretrained with a bag of words, in seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import take_rows
from xmtc.corpus.sparse import make_csr
from xmtc.nn.batching import Batch, Entries, Ints
from xmtc.nn.datasets import Documents
from xmtc.nn.devices import device_of
from xmtc.nn.layers import init_output_bias, seeded
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Cores, Worker
from xmtc.nn.settings import TrainingSettings
from xmtc.nn.trainer import train as train_network
from xmtc.text.token_store import TokenStore

BATCH, LEARNING_RATE, DROPOUT = 64, 0.01, 0.4
SHORTEST = 1e-3


class WordBag(nn.Module):
    """Scores of labels from the weighted sum of a document's word vectors."""

    def __init__(self, table: NDArray[np.float32], labels: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag.from_pretrained(torch.tensor(table), freeze=False, mode="sum", sparse=True)
        self.output = nn.Linear(table.shape[1], labels)
        nn.init.zeros_(self.output.weight)

    def forward(self, words: Entries) -> Tensor:
        """(documents, labels); of documents each as if its words' weights had length 1."""
        squares = words.values.new_zeros(words.count).index_add_(0, words.rows, words.values.square())
        summed = self.words(words.columns, words.starts, words.values)
        scores: Tensor = self.output(summed / squares.sqrt().clamp(min=SHORTEST)[:, None])
        return scores


@dataclass(frozen=True)
class BagBatch(Batch):
    """Documents as weighted words, and the labels that they have."""

    words: Entries
    relevant: Entries


class WordBagLearner(Learner[WordBag]):
    """The bag with its training and validation documents; words have weights by how rare they are."""

    def __init__(self, network: WordBag, train: Documents, valid: Documents, rarity: NDArray[np.float32]) -> None:
        self.network, self.train, self.valid, self.rarity = network, train, valid, rarity
        self.lengths, self.document_weights = np.ones(len(train.tokens), np.int64), train.weights
        self.valid_targets = valid.targets

    def words(self, tokens: TokenStore) -> Entries:
        """Documents as weighted words."""
        shape = (len(tokens), len(self.rarity))
        return Entries.of(make_csr(self.rarity[tokens.ids], tokens.ids, tokens.offsets, shape))

    def batch(self, documents: Ints, rng: np.random.Generator) -> BagBatch:
        """Words, some of which are dropped, and labels."""
        words = self.words(self.train.tokens.take(documents))
        words.values.mul_(torch.from_numpy(rng.random(len(words.values)) >= DROPOUT))
        return BagBatch(words, Entries.of(take_rows(self.train.targets, documents)))

    def loss(self, batch: BagBatch, worker: Worker) -> Tensor:
        """Binary cross-entropy, summed over labels, the mean over documents."""
        scores = self.network(batch.words)
        wanted = torch.zeros_like(scores)
        wanted[batch.relevant.rows, batch.relevant.columns] = 1
        return functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum") / worker.documents

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        with torch.inference_mode():
            scores = self.network(self.words(self.valid.tokens).to(device_of(self.network)))
            found: NDArray[np.int32] = scores.topk(min(k, scores.shape[1])).indices.int().cpu().numpy()
        return found


def pretrain_words(
    table: NDArray[np.float32],
    train: Documents,
    valid: Documents,
    epochs: int,
    seed: int,
    checkpoints: Checkpoints | None = None,
    name: str = "words",
    device: str = "cpu",
) -> NDArray[np.float32]:
    """The word vectors after `epochs` with a bag of words; of the best epoch, if there are documents to check.

    Vectors of rare words become longer, as the bag weighs them; on the whole they stay as long as they were.

    >>> words = TokenStore.of([[1, 2], [1, 3]] * 4)
    >>> targets = make_csr(np.ones(8, np.float32), np.array([0, 1] * 4), np.arange(9), (8, 2))
    >>> documents = Documents(words, targets)
    >>> table = np.ones((4, 3), np.float32)
    >>> _, _, left, right = pretrain_words(table, documents, documents, epochs=20, seed=0)
    >>> bool(left @ right < table[2] @ table[3])
    True
    """
    counts = np.bincount(train.tokens.ids, minlength=len(table))
    rarity = np.log1p(len(train.tokens) / np.maximum(counts, 1)).astype(np.float32)
    with seeded(seed):
        bag = WordBag(table, train.targets.shape[1])
    init_output_bias(bag.output, train.targets.nnz / max(1, train.targets.shape[0] * train.targets.shape[1]))
    settings = TrainingSettings(
        epochs=epochs,
        batch_size=BATCH,
        learning_rate=LEARNING_RATE,
        clip=None,
        swa_start_epoch=None,
        evaluate_every=-(-len(train.tokens) // BATCH),
        device=device,
    )
    learner = WordBagLearner(bag, train, valid, rarity)
    train_network(learner, settings, seed, checkpoints or Checkpoints(None, {}), name)
    best = bag.words.weight.detach().cpu().numpy() * rarity[:, None]
    return np.asarray(best * np.sqrt(np.square(table).sum() / max(np.square(best).sum(), 1e-30)), np.float32)
