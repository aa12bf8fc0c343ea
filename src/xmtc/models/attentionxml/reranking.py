"""A network that corrects short lists of labels: what it learns from, and the lists that come out."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from xmtc.corpus.corpus import take_rows
from xmtc.models.attentionxml.network import AttentionXmlNetwork
from xmtc.nn.batching import Ints, by_length, padded
from xmtc.nn.datasets import Documents
from xmtc.nn.layers import finite
from xmtc.nn.learner import Learner
from xmtc.nn.level import PREDICT_BATCH
from xmtc.nn.metrics import is_relevant
from xmtc.nn.parallel import Cores
from xmtc.progress import progress
from xmtc.search.listed import Listed
from xmtc.text.token_store import TokenStore

LEAST_SHARE = 1e-4


def corrected(
    network: AttentionXmlNetwork, tokens: TokenStore, listed: Listed, cores: Cores, what: str = "tagging"
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """(labels, chances) of each document's list, put in order; -1 where there are fewer."""
    ids, probabilities = np.empty_like(listed.labels), np.empty_like(listed.odds)

    def work(documents: Ints) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        labels, odds = listed.labels[documents], listed.odds[documents]
        with torch.inference_mode():
            places = torch.from_numpy(np.maximum(labels, 0).astype(np.int64))
            scores = network.corrected(*padded(tokens, documents), places, torch.from_numpy(odds))
            sound = finite(scores).sigmoid().numpy()
        sound[labels < 0] = -1
        # Best first, ties to the lower label.
        order = np.lexsort((labels, -sound), axis=-1)
        best, sure = np.take_along_axis(labels, order, 1), np.take_along_axis(sound, order, 1)
        return best, np.where(best < 0, np.float32(0), sure)

    batches = by_length(tokens.lengths, PREDICT_BATCH)
    with progress(what, len(batches)) as bar:
        for documents, found in zip(batches, cores.map(work, batches), strict=True):
            ids[documents], probabilities[documents] = found
            bar.advance()
    return ids, probabilities


class CorrectionLearner(Learner[AttentionXmlNetwork]):
    """A network, the documents and lists it learns from and those it is judged by; see `xmtc.nn.learner.Learner`.

    It is asked about the labels of each document's list, and about all labels that documents of the batch have: those
    that the document's own list lacks are known to be without log-odds.
    """

    def __init__(
        self,
        network: AttentionXmlNetwork,
        train: Documents,
        listed: Listed,
        valid: Documents,
        valid_listed: Listed,
        batch: int,
    ) -> None:
        self.network, self.train, self.listed = network, train, listed
        self.valid, self.valid_listed = valid, valid_listed
        self.lengths, self.valid_targets = train.tokens.lengths, valid.targets
        self._batch = batch

    def share_of_unlisted(self) -> float:
        """Which share of the labels that are asked about without log-odds is right."""
        documents, targets = len(self.train.tokens), self.train.targets
        found = is_relevant(targets, np.maximum(self.listed.labels, 0)) & (self.listed.labels >= 0)
        missed = (targets.nnz - np.count_nonzero(found)) / max(1, documents)
        asked = max(1.0, self._batch * targets.nnz / max(1, documents))
        return float(np.clip(missed / asked, LEAST_SHARE, 0.5))

    def questions(self, documents: Ints) -> tuple[Ints, NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
        """(labels, their log-odds or NaN, whether they are right, whether they are asked), each (documents, labels)."""
        relevant = take_rows(self.train.targets, documents)
        listed, odds = self.listed.labels[documents], self.listed.odds[documents]
        further = np.broadcast_to(np.unique(relevant.indices), (len(documents), len(np.unique(relevant.indices))))
        new = ~(listed[:, :, None] == further[:, None]).any(1)
        labels = np.concatenate([np.maximum(listed, 0), further], 1).astype(np.int64)
        given = np.concatenate([odds, np.full(further.shape, np.nan, np.float32)], 1)
        return labels, given, is_relevant(relevant, labels).astype(np.float32), np.concatenate([listed >= 0, new], 1)

    def loss(self, documents: Ints, rng: np.random.Generator) -> Tensor:
        """Binary cross-entropy, the mean over all that is asked."""
        labels, odds, relevant, asked = map(torch.from_numpy, self.questions(documents))
        scores = self.network.corrected(*padded(self.train.tokens, documents), labels, odds, rng)
        each = functional.binary_cross_entropy_with_logits(scores, relevant, reduction="none")
        return (each * asked).sum() / asked.sum().clamp(min=1)

    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""
        return corrected(self.network, self.valid.tokens, self.valid_listed, cores, "evaluating")[0][:, :k]
