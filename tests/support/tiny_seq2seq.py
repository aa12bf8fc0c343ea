"""Small encoder-decoders with weights of all sizes, and documents for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import nn

from xmtc.models.seq2seq.learner import Ranker, Seq2SeqLearner
from xmtc.models.seq2seq.model import Mlc2Seq, Seq2Seq, Sgm, Su4Mlc
from xmtc.models.seq2seq.network import Seq2SeqNetwork
from xmtc.models.seq2seq.sequences import Vocabulary, label_sequences
from xmtc.nn.datasets import Documents
from xmtc.nn.layers import seeded
from xmtc.text.token_store import TokenStore

METHODS: list[type[Seq2Seq]] = [Mlc2Seq, Sgm, Su4Mlc]
LABELS = 5


def network(method: type[Seq2Seq], **changes: Any) -> Seq2SeqNetwork:
    """Of five labels and nine words."""
    model = method(**{"hidden": 3, "label_dimensions": 4, "dropout": 0.0, "words": {"dropout": 0.0}} | changes)
    with seeded(0):
        made = Seq2SeqNetwork(torch.randn(9, 5), LABELS, model.config, model.design)
        for name, weight in made.named_parameters():
            if weight.requires_grad and "words" not in name:
                nn.init.normal_(weight, std=0.5)  # zeros would hide a vector in the wrong place
    return made


def learner(method: type[Seq2Seq], **changes: Any) -> Seq2SeqLearner:
    """With twelve documents, one without words, one without labels, one with all."""
    rng = np.random.default_rng(0)
    tokens = TokenStore.of([rng.integers(1, 9, rng.integers(0, 7)).astype(np.int32) for _ in range(12)])
    targets = csr_array((rng.random((12, LABELS)) < 0.4).astype(np.float32))
    targets = csr_array(np.vstack([np.zeros((1, LABELS)), np.ones((1, LABELS)), targets.toarray()[2:]]))
    documents, vocabulary = Documents(tokens, targets), Vocabulary(np.arange(LABELS))
    sequences = label_sequences(targets, vocabulary, np.arange(LABELS), None, "")
    return Seq2SeqLearner(network(method, **changes), documents, sequences, documents, Ranker(vocabulary.labels, 3, 5))
