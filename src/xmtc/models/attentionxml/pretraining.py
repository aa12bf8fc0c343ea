"""Word vectors that know the labels before a network reads them: pretrained with a bag of words, in seconds."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from xmtc.corpus.corpus import take_rows
from xmtc.nn.batching import Ints
from xmtc.nn.datasets import Documents
from xmtc.nn.dropout import dropout, dropout_rng
from xmtc.nn.layers import init_output_bias, seeded
from xmtc.nn.metrics import EVAL_K, ndcg
from xmtc.nn.optim import RowAdam
from xmtc.nn.parallel import torch_threads
from xmtc.progress import progress
from xmtc.seeding import derived_seed
from xmtc.text.token_store import TokenStore

BATCH, LEARNING_RATE, DROPOUT = 64, 0.01, 0.4


class WordBag(nn.Module):
    """Scores of labels from the sum of a document's word vectors, rare words counting more."""

    rarity: Tensor

    def __init__(self, table: NDArray[np.float32], rarity: NDArray[np.float32], labels: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag.from_pretrained(torch.tensor(table), freeze=False, mode="sum", sparse=True)
        self.output = nn.Linear(table.shape[1], labels)
        nn.init.zeros_(self.output.weight)
        self.register_buffer("rarity", torch.from_numpy(rarity))

    def forward(self, tokens: TokenStore, rng: np.random.Generator | None = None) -> Tensor:
        """(documents, labels); of documents each as if its words' weights had length 1."""
        ids, lengths = torch.from_numpy(tokens.ids.astype(np.int64)), torch.from_numpy(tokens.lengths)
        weights = dropout(self.rarity[ids], DROPOUT, rng)
        documents = torch.repeat_interleave(torch.arange(len(tokens)), lengths)
        squares = torch.zeros(len(tokens)).index_add_(0, documents, weights.square())
        summed = self.words(ids, torch.from_numpy(tokens.offsets[:-1]), weights)
        scores: Tensor = self.output(summed / squares.sqrt().clamp(min=1e-3)[:, None])
        return scores


def pretrain_words(
    table: NDArray[np.float32], train: Documents, valid: Documents, epochs: int, seed: int
) -> NDArray[np.float32]:
    """The word vectors after `epochs` with a bag of words; of the best epoch, if there are documents to check.

    Vectors of rare words become longer, as the bag weighs them; on the whole they stay as long as they were.

    >>> words = TokenStore.of([[1, 2], [1, 3]] * 4)
    >>> from xmtc.corpus.sparse import make_csr
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
        bag = WordBag(table, rarity, train.targets.shape[1])
    init_output_bias(bag.output, train.targets.nnz / max(1, train.targets.shape[0] * train.targets.shape[1]))
    optimiser = RowAdam(bag.parameters(), LEARNING_RATE)
    rng, order = dropout_rng(derived_seed(seed, 1)), np.random.default_rng(derived_seed(seed, 2))
    best, best_ndcg = bag.words.weight.detach().numpy().copy(), -1.0
    batches = max(1, len(train.tokens) // BATCH)
    # One thread: sums over threads would come out differently each time.
    with torch_threads(1), progress("pretraining word vectors", epochs * batches) as bar:
        for _ in range(epochs):
            for documents in np.array_split(order.permutation(len(train.tokens)), batches):
                loss = _loss(bag, train, documents, rng)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                bar.advance()
            found = _validation_ndcg(bag, valid)
            if found is None or found > best_ndcg:
                best, best_ndcg = bag.words.weight.detach().numpy().copy(), found or 0.0
    best *= rarity[:, None]
    return best * np.float32(np.sqrt(np.square(table).sum() / max(np.square(best).sum(), 1e-30)))


def _loss(bag: WordBag, train: Documents, documents: Ints, rng: np.random.Generator) -> Tensor:
    rows = take_rows(train.targets, documents)
    wanted = torch.from_numpy(rows.toarray())
    scores = bag(train.tokens.take(documents), rng)
    return functional.binary_cross_entropy_with_logits(scores, wanted, reduction="sum") / len(documents)


def _validation_ndcg(bag: WordBag, valid: Documents) -> float | None:
    if not valid.targets.nnz:
        return None
    with torch.inference_mode():
        found = bag(valid.tokens).topk(min(EVAL_K, valid.targets.shape[1])).indices
    return ndcg(found.numpy().astype(np.int32), valid.targets)
