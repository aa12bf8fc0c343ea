"""What XML-CNN and BoW-CNN share: a network over the words of a text that scores all labels at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.labelspace.tree import LabelTree
from xmtc.models.base import Model
from xmtc.predictions import Predictions
from xmtc.storage import FolderWriter
from xmtc.text.word_tokenizer import WordTokenizer

if TYPE_CHECKING:
    from torch import nn

    from xmtc.models.xml_cnn.bilstm import BiLstmNetwork
    from xmtc.models.xml_cnn.bow_cnn import BowCnnConfig
    from xmtc.models.xml_cnn.model import XmlCnnConfig
    from xmtc.models.xml_cnn.network import ConvolutionNetwork
    from xmtc.models.xml_cnn.regions import BowCnnNetwork
    from xmtc.nn.datasets import Documents
    from xmtc.nn.level import LevelLearner

WEIGHTS = "network"


class FlatTextModel(Model):
    """Subclasses make the network, in `_fit` and `_load`."""

    config: XmlCnnConfig | BowCnnConfig
    tokenizer_: WordTokenizer
    network_: ConvolutionNetwork | BiLstmNetwork | BowCnnNetwork

    def _train(
        self,
        learner_of: type[LevelLearner],
        train_set: Documents,
        valid_set: Documents,
        checkpoints: Checkpoints,
        seed: int,
    ) -> None:
        from xmtc.nn.level import Beam
        from xmtc.nn.trainer import train

        level = _flat(train_set.targets.shape[1])
        beams = [Beam.at_root(len(part.tokens)) for part in (train_set, valid_set)]
        learner = learner_of(self.network_, level, train_set, beams[0], valid_set, beams[1])
        self.network_.init_output_bias(learner.share_of_positives())
        train(learner, self.config.training.at(0), seed, checkpoints, WEIGHTS)

    def _networks(self) -> list[nn.Module]:
        return [self.network_]

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.nn.level import PREDICT_BATCH, Beam, expand_beam
        from xmtc.nn.parallel import torch_threads

        assert corpus.texts is not None
        labels = self._fitted()
        tokens = self.tokenizer_.encode(corpus.texts, self.config.words.max_tokens)
        with torch_threads(-(-len(tokens) // PREDICT_BATCH)) as cores:
            best = expand_beam(self.network_, _flat(len(labels)), tokens, Beam.at_root(len(tokens)), k, cores)
        return Predictions.sorted(best.nodes, np.exp(best.scores), labels, self.score_kind)

    def _save(self, folder: FolderWriter) -> None:
        from xmtc.nn.serialization import write_network

        folder.text("tokenizer.json", self.tokenizer_.to_json())
        write_network(folder, WEIGHTS, self.network_)


def _flat(labels: int) -> Any:
    """All labels as children of one root: a tree's only level."""
    return LabelTree.of([[range(labels)]]).levels[0]
