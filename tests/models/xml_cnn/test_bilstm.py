"""The BiLSTM in place of convolutions, against the same steps for one document at a time; saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contract_corpus import small_corpus

from xmtc.models.registry import load
from xmtc.models.xml_cnn.bilstm import BiLstmNetwork
from xmtc.models.xml_cnn.model import XmlCnn, XmlCnnConfig
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.layers import seeded
from xmtc.text.embedding_table import WordSettings

IDS, LENGTHS = torch.tensor([[3, 4, 5, 8], [2, 6, 0, 0]]), torch.tensor([4, 2])


def network(dropout: float = 0.0) -> BiLstmNetwork:
    words = WordSettings(dropout=dropout)
    with seeded(4):
        config = XmlCnnConfig(network="bilstm", hidden=3, bottleneck=6, dropout=dropout, words=words)
        return BiLstmNetwork(torch.randn(9, 4), 7, config)


def test_the_maximum_over_the_words_of_each_document() -> None:
    made = network()
    found = made(IDS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        states = made.encoder(made.words(IDS[row : row + 1, :length]), torch.tensor([length]))[0]
        hidden = torch.relu(states.amax(0) @ made.bottleneck.weight.T + made.bottleneck.bias)
        expected = hidden @ made.output.weight.T + made.output.bias
        torch.testing.assert_close(found[row], expected)


def test_dropout_comes_from_the_generator() -> None:
    made = network(dropout=0.5)
    one, same, other = (made(IDS, LENGTHS, None, DropoutRng(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_all_labels_or_none_and_the_bias_to_begin_with() -> None:
    made = network()
    with pytest.raises(ValueError, match="scores all labels"):
        made(IDS, LENGTHS, torch.tensor([[0], [1]]))
    made.init_output_bias(0.1)
    torch.testing.assert_close(made.output.bias.sigmoid(), torch.full((7,), 0.1))


def test_it_learns_and_is_saved(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "network": "bilstm",
        "hidden": 16,
        "bottleneck": 16,
        "dropout": 0.0,
        "words": {"vectors": "random", "dimensions": 16},
        "training": {"epochs": 12, "batch_size": 10, "learning_rate": 0.02},
    }
    corpus = small_corpus()
    model = XmlCnn(**settings).fit(corpus)
    top = model.predict(corpus, k=1)
    labelled = np.flatnonzero(np.diff(corpus.targets.indptr)).tolist()
    assert np.mean([top.ids[row, 0] in corpus.labels_of(row) for row in labelled]) > 0.8
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(corpus, k=1).scores, top.scores)
