"""Documents as the vectors of a pretrained transformer that is used as it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError
from xmtc.nn.devices import device_called, place
from xmtc.nn.encoders.encoder import Encoder, EncoderTexts, batches_of
from xmtc.nn.encoders.pretrained import load_pretrained
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.nn.parallel import torch_threads
from xmtc.nn.serialization import read_network, write_network
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.mean_embeddings import unit
from xmtc.text.subword_tokenizer import SubwordTokenizer
from xmtc.text.vector_cache import cached_vectors

WEIGHTS = "search_encoder"


class EncoderVectors:
    """Texts to unit vectors by an encoder; see `xmtc.search.neighbours.TextVectors`."""

    def __init__(self, tokenizer: SubwordTokenizer, encoder: Encoder, max_tokens: int, name: str | None = None) -> None:
        self.tokenizer, self.encoder, self.max_tokens = tokenizer, encoder, max_tokens
        self.name = name  # under which several methods share its vectors; None: they do not

    @classmethod
    def pretrained(cls, settings: EncoderSettings, device: str = "cpu") -> EncoderVectors:
        """From a folder, the hub, or "minilm"; it computes on a device, such as "auto"."""
        found = load_pretrained(settings.name)
        encoder = Encoder.of(found, _plain(settings))
        place(encoder, device_called(device))
        return cls(found.tokenizer, encoder, settings.max_tokens, f"{settings.name}-{settings.pooling}")

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return self.encoder.width

    def transform(self, corpus: Corpus) -> NDArray[np.float32]:
        """The documents' vectors, (documents, width)."""
        if corpus.texts is None:
            raise XmtcError(f"this model was trained on texts, which {corpus.name} does not have")
        return cached_vectors(self.name and f"{self.name}-{self.max_tokens}", corpus.texts, self._computed)

    def _computed(self, documents: Strings) -> NDArray[np.float32]:
        texts = EncoderTexts(self.tokenizer.encode(documents, self.max_tokens))
        with torch_threads(len(batches_of(texts))) as cores:  # a single text is read by all cores together
            return unit(self.encoder.vectors(texts, cores, "vectors of documents"))

    def save(self, folder: FolderWriter) -> None:
        """Write the encoder: neither its own folder nor the hub is needed any more."""
        folder.text("subwords.json", self.tokenizer.to_json())
        folder.json(WEIGHTS, self.encoder.facts())
        write_network(folder, WEIGHTS, self.encoder)

    @classmethod
    def load(cls, folder: FolderReader, settings: EncoderSettings) -> EncoderVectors:
        """The inverse of `save`; BadModelFolder if the parts do not fit."""
        tokenizer = SubwordTokenizer.from_json(folder.text("subwords.json"))
        facts = folder.json(WEIGHTS)
        encoder = read_network(folder, WEIGHTS, lambda _: Encoder.from_facts(facts, _plain(settings), len(tokenizer)))
        return cls(tokenizer, encoder, settings.max_tokens)


def _plain(settings: EncoderSettings) -> EncoderSettings:
    """Nothing is trained, so nothing need be frozen or computed twice."""
    return settings.model_copy(update={"frozen_layers": 0, "checkpointing": False})
