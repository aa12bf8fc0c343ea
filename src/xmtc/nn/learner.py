"""`Learner`: what a method brings to `xmtc.nn.trainer.train`; free of Lightning, which prediction does without."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from xmtc.corpus.labels import Csr
from xmtc.nn.batching import Batch, Ints
from xmtc.nn.metrics import EVAL_K, ndcg
from xmtc.nn.parallel import Cores, Worker

Network = TypeVar("Network", bound=nn.Module)


class Learner(ABC, Generic[Network]):
    """A network, the documents it is trained on, its loss, and the documents it is validated on."""

    network: Network
    lengths: Ints  #: tokens of each training document
    valid_targets: Csr  #: the labels of the validation documents
    document_weights: NDArray[np.float32] | None = (
        None  #: how often each training document is drawn, relative to the others
    )

    @abstractmethod
    def batch(self, documents: Ints, rng: np.random.Generator) -> Batch:
        """Training documents as tensors in the CPU's memory, with all that is sampled; another thread calls it."""

    @abstractmethod
    def loss(self, batch: Any, worker: Worker) -> Tensor:
        """A worker's share of the loss, from its part of a batch: the shares of all workers add up to the batch's loss.

        What compares documents with each other takes them all, by `worker.gather`.
        """

    @abstractmethod
    def predict_valid(self, k: int, cores: Cores) -> NDArray[np.int32]:
        """The k best labels of each validation document."""

    def validation_ndcg(self, cores: Cores) -> float | None:
        """nDCG@5 on the validation documents that have labels, as a fraction; None without such."""
        return ndcg(self.predict_valid(EVAL_K, cores), self.valid_targets) if self.valid_targets.nnz else None
