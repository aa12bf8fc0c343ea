"""What methods that fine-tune a pretrained encoder share: reading texts, training, the model folder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.strings import Strings
from xmtc.labelspace.seen_labels import SeenLabels
from xmtc.models.base import Model
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.subword_tokenizer import SubwordTokenizer
from xmtc.text.token_store import TokenStore

if TYPE_CHECKING:
    from torch import nn

    from xmtc.nn.datasets import Documents, LabelledTexts
    from xmtc.nn.encoders.encoder import Encoder
    from xmtc.nn.learner import Learner
    from xmtc.nn.serialization import Arrays

WEIGHTS = "network"


class FineTunedModel(Model):
    """An encoder with a method's own output layers.

    A method says how the labels are organised (its label structure: clusters, a tree), which network is put on the
    encoder, and what that network learns from.
    """

    structure_file: ClassVar[str]  # the arrays of the label structure in the model folder
    last_layers: int = 1  # of the encoder, whose vectors are put behind each other

    config: Any
    tokenizer_: SubwordTokenizer
    seen_: SeenLabels
    network_: Any

    @abstractmethod
    def _label_structure(self, corpus: Corpus) -> Any:
        """How the seen labels of a corpus are organised."""

    @abstractmethod
    def _structure_of(self, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """The label structure from its arrays; ValueError if they do not make one for the seen labels."""

    @abstractmethod
    def _structure_arrays(self) -> dict[str, NDArray[Any]]:
        """The inverse of `_structure_of`."""

    @abstractmethod
    def _network(self, encoder: Encoder, structure: Any) -> Any:
        """A new network."""

    @abstractmethod
    def _learner(self, train: LabelledTexts, valid: LabelledTexts) -> Learner[Any]:
        """What the network is trained with."""

    def _before_training(self, learner: Any, checkpoints: Checkpoints) -> None:
        """What is done with the new network before its training."""

    def _networks(self) -> list[nn.Module]:
        return [self.network_]

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        from xmtc.nn.datasets import LabelledTexts, train_valid_split
        from xmtc.nn.devices import device_called, place
        from xmtc.nn.encoders.encoder import Encoder
        from xmtc.nn.encoders.pretrained import load_pretrained
        from xmtc.nn.layers import seeded
        from xmtc.nn.parallel import torch_threads
        from xmtc.nn.trainer import train

        assert corpus.texts is not None
        config, seed = self.config, derived_seed(self.config.seed, 0)
        training = config.training.at(0)
        self.seen_ = SeenLabels.of(corpus.label_counts)
        structure = self._label_structure(corpus)
        pretrained = load_pretrained(config.encoder.name)
        encoder = Encoder.of(pretrained, config.encoder, self.last_layers)
        self.tokenizer_ = pretrained.tokenizer
        with seeded(seed):
            self.network_ = self._network(encoder, structure)
        place(self.network_, device_called(training.device), training.offload_tables)
        tokens, most = self._tokens(corpus.texts), training.valid_documents
        with torch_threads() as cores:

            def read(part: Documents) -> LabelledTexts:
                texts = encoder.texts(part.tokens, cores, in_file=training.devices > 1)
                return LabelledTexts(texts, self.seen_.columns(part.targets), part.weights)

            parts = train_valid_split(corpus, valid, tokens, self._tokens, most, config.seed)
            learner = self._learner(*map(read, parts))
        self._before_training(learner, checkpoints)
        train(learner, training, seed, checkpoints, WEIGHTS)
        self.network_.eval()

    def _tokens(self, texts: Strings) -> TokenStore:
        return self.tokenizer_.encode(texts, self.config.encoder.max_tokens)

    def _save(self, folder: FolderWriter) -> None:
        from xmtc.nn.serialization import write_network

        folder.text("tokenizer.json", self.tokenizer_.to_json())
        folder.json("encoder", self.network_.encoder.facts())
        folder.arrays(self.structure_file, {"seen": self.seen_.ids, **self._structure_arrays()})
        write_network(folder, WEIGHTS, self.network_)

    def _load(self, folder: FolderReader) -> None:
        from xmtc.nn.encoders.encoder import Encoder
        from xmtc.nn.serialization import read_network

        self.tokenizer_ = SubwordTokenizer.from_json(folder.text("tokenizer.json"))
        with folder.building(self.structure_file):
            arrays = folder.arrays(self.structure_file)
            self.seen_ = SeenLabels.from_array(arrays["seen"], len(self._fitted()))
            structure = self._structure_of(arrays)
        facts = folder.json("encoder")

        def empty(_: Arrays) -> Any:
            return self._network(Encoder.from_facts(facts, self.config.encoder, len(self.tokenizer_)), structure)

        self.network_ = read_network(folder, WEIGHTS, empty).eval()
