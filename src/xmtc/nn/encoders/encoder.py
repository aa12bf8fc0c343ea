"""A pretrained transformer that makes a vector of each document: whole, or with its lower layers frozen.

The frozen part runs once, without dropout; what it finds is kept (`HiddenStateCache`) and read in every epoch. That is
what makes training affordable on a CPU. Threads may call an encoder at the same time: on a CPU, dropout uses their own
`rng`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xmtc.errors import ConfigError
from xmtc.nn.batching import Batch, Ints, by_tokens, padded
from xmtc.nn.devices import device_of, has_bfloat16
from xmtc.nn.dropout import DropoutRng, RngDropoutMode
from xmtc.nn.encoders.families import XLNET, Family, family_of
from xmtc.nn.encoders.hidden_state_cache import HiddenStateCache
from xmtc.nn.encoders.pretrained import Pretrained, empty_encoder
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.nn.parallel import Cores
from xmtc.progress import progress
from xmtc.text.token_store import TokenStore

MAX_BATCH_TOKENS = 2048  # with padding, in prediction
_switching = threading.Lock()  # of encoders between training and evaluation


@dataclass(frozen=True)
class EncoderTexts:
    """Documents as an encoder reads them: token ids and, if it has a frozen part, what that found for them."""

    tokens: TokenStore
    states: HiddenStateCache | None = None

    @property
    def lengths(self) -> Ints:
        """How much there is to compute for each document."""
        return self.tokens.lengths if self.states is None else self.states.lengths


@dataclass(frozen=True)
class EncoderBatch(Batch):
    """Some documents, padded to the longest of them; see `Encoder.batch`."""

    given: Tensor  #: token ids (documents, tokens), or what the frozen layers found (documents, tokens, width)
    inside: Tensor  #: (documents, tokens), false where there is padding
    has_padding: bool


def batches_of(texts: EncoderTexts) -> list[Ints]:
    """All documents in batches that are computed together in prediction: of similar length, the longest first."""
    return by_tokens(texts.lengths, MAX_BATCH_TOKENS)


class Encoder(nn.Module):
    """Documents to vectors (documents, width); the vectors of the `last_layers` highest layers one after the other.

    An encoder that was saved is made again with `from_facts` of what `facts` gave, and weights of the same names.
    """

    def __init__(self, model: nn.Module, pooling: str, settings: EncoderSettings, last_layers: int = 1) -> None:
        super().__init__()
        self.model = model
        self.pooling, self.last_layers = pooling, last_layers
        self.checkpointing, self.precision = settings.checkpointing, settings.precision
        config: Any = model.config
        self.family: Family | None = family_of(config)
        self.depth = int(config.num_hidden_layers)
        self.width = int(config.hidden_size) * last_layers
        self.frozen = settings.frozen_layers
        self._check(settings, config)
        if self.frozen:
            assert self.family is not None
            learned = self.layers[self.frozen :]
            self.model.requires_grad_(False)
            learned.requires_grad_(True)
        self.eval()

    def _check(self, settings: EncoderSettings, config: Any) -> None:
        most = getattr(config, "max_position_embeddings", -1)
        if config.model_type in ("roberta", "xlm-roberta", "camembert"):
            most -= config.pad_token_id + 1  # their positions begin after that of padding
        if 0 < most < settings.max_tokens:
            raise ConfigError(f"encoder.max_tokens={settings.max_tokens}: this encoder reads at most {most:,} tokens")
        if self.family is None and (self.frozen or self.checkpointing):
            raise ConfigError(
                f"the layers of {config.model_type} cannot be called one by one, so encoder.frozen_layers and "
                "encoder.checkpointing do not go with it; leave them out, or take BERT, RoBERTa, ELECTRA, DistilBERT, "
                "MiniLM or XLNet"
            )
        if not 1 <= self.last_layers <= self.depth:
            raise ConfigError(
                f"layers={self.last_layers}: this encoder has {self.depth} layers, not {self.last_layers}; take fewer"
            )
        if self.frozen > self.depth:
            raise ConfigError(f"encoder.frozen_layers={self.frozen}: this encoder has {self.depth} layers")
        if self.depth - self.last_layers + 1 < self.frozen < self.depth:
            raise ConfigError(
                f"encoder.frozen_layers={self.frozen}: the vectors of the {self.last_layers} highest of {self.depth} "
                f"layers are needed; freeze {self.depth - self.last_layers + 1} at most, or all {self.depth}"
            )

    @classmethod
    def of(cls, pretrained: Pretrained, settings: EncoderSettings, last_layers: int = 1) -> Self:
        """What was loaded, with these settings."""
        pooling: str = settings.pooling
        if pooling == "auto":
            xlnet = pretrained.model.config.model_type == XLNET  # type: ignore[union-attr]
            pooling = "last" if xlnet else "mean" if pretrained.mean else "first"
        return cls(pretrained.model, pooling, settings, last_layers)

    def facts(self) -> dict[str, Any]:
        """What makes this encoder again, but for its weights; for JSON."""
        config: Any = self.model.config
        # All of it: another version may have other defaults. But not where it once was.
        settings = {**json.loads(config.to_json_string(use_diff=False)), "_name_or_path": ""}
        return {"pooling": self.pooling, "last_layers": self.last_layers, "config": settings}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any], settings: EncoderSettings, tokens: int) -> Self:
        """An encoder for prediction, without weights; ValueError for facts that make none for this many token ids."""
        try:
            if facts["pooling"] not in ("first", "last", "mean"):
                raise ValueError(f"pooling {facts['pooling']!r}")
            plain = settings.model_copy(update={"frozen_layers": 0, "checkpointing": False})
            encoder = cls(empty_encoder(facts["config"]), facts["pooling"], plain, int(facts["last_layers"]))
        except (KeyError, TypeError, AttributeError, ConfigError) as error:
            raise ValueError(f"no encoder can be made of these facts: {error}") from error
        if encoder.vocabulary < tokens:
            raise ValueError(f"an encoder of {encoder.vocabulary} tokens for {tokens}")
        return encoder

    @property
    def architecture(self) -> str:
        """Such as "bert" or "xlnet"."""
        config: Any = self.model.config
        return str(config.model_type)

    @property
    def vocabulary(self) -> int:
        """How many ids it knows; a tokenizer must not have more."""
        config: Any = self.model.config
        return int(config.vocab_size)

    @property
    def layers(self) -> nn.ModuleList:
        """The layers, lowest first, of an encoder that can be taken apart."""
        assert self.family is not None
        return self.family.layers(self.model)

    def train(self, mode: bool = True) -> Self:
        """As every module; the frozen part has no dropout."""
        super().train(mode)
        if mode and self.frozen:
            learned = self.layers[self.frozen :]
            self.model.eval()
            learned.train()
        return self

    def texts(
        self, tokens: TokenStore, cores: Cores, what: str = "computing the frozen layers", in_file: bool = False
    ) -> EncoderTexts:
        """Documents made ready for `forward`: the frozen part, if there is one, is computed for all of them.

        If all layers are frozen, a document's vector is all that is kept. `in_file` is for several processes.
        """
        if not self.frozen:
            return EncoderTexts(tokens)
        whole, device = self.frozen == self.depth, device_of(self)
        plain = EncoderTexts(tokens)
        width = self.width if whole else self.width // self.last_layers
        store = HiddenStateCache(np.ones(len(tokens), np.int64) if whole else tokens.lengths, width, in_file)

        def work(documents: Ints) -> Tensor:
            batch = self.batch(plain, documents).to(device)
            with torch.inference_mode():
                if whole:
                    return self.forward(batch)[:, None].cpu()
                return self._states(batch, slice(0, self.frozen), None)[-1].cpu()

        for documents, states in self._work(work, plain, cores, what):
            store.put(documents, states, self._left and not whole)
        return EncoderTexts(tokens, store)

    def vectors(self, texts: EncoderTexts, cores: Cores, what: str = "encoding") -> NDArray[np.float32]:
        """The vectors of all documents, (documents, width), without dropout."""
        result = np.empty((len(texts.tokens), self.width), np.float32)
        device = device_of(self)

        def work(documents: Ints) -> Tensor:
            with torch.inference_mode():
                return self.forward(self.batch(texts, documents).to(device)).cpu()

        for documents, found in self._work(work, texts, cores, what):
            result[documents] = found.numpy()
        return result

    @staticmethod
    def _work(
        work: Callable[[Ints], Tensor], texts: EncoderTexts, cores: Cores, what: str
    ) -> Iterator[tuple[Ints, Tensor]]:
        batches = batches_of(texts)
        with progress(what, len(batches)) as bar:
            for documents, found in zip(batches, cores.map(work, batches), strict=True):
                yield documents, found
                bar.advance()

    def batch(self, texts: EncoderTexts, documents: Ints) -> EncoderBatch:
        """Some documents as `forward` takes them, in the CPU's memory."""
        config: Any = self.model.config
        if texts.states is not None:
            given = texts.states.padded(documents, self._left)
        else:
            given, _ = padded(texts.tokens, documents, config.pad_token_id or 0, self._left)
        lengths = texts.lengths[documents]
        longest = given.shape[1]
        steps = np.arange(longest)
        inside = steps >= longest - lengths[:, None] if self._left else steps < lengths[:, None]
        return EncoderBatch(given, torch.from_numpy(inside), bool(lengths.min(initial=longest) < longest))

    def forward(self, batch: EncoderBatch, rng: DropoutRng | None = None) -> Tensor:
        """(documents, width); with dropout if there is an `rng`."""
        with _switching:  # a thread that finds it in training may count on all of its parts being so
            if self.training != (rng is not None):
                self.train(rng is not None)
        kept = batch.given.is_floating_point()
        if kept and self.frozen == self.depth:
            return batch.given[:, 0].float()
        with self._autocast(batch.given.device), self._dropout(batch.given.device, rng):
            found = self._states(batch, slice(self.frozen if kept else 0, self.depth), rng)[-self.last_layers :]
            return torch.cat([self._pooled(each, batch.inside) for each in found], 1).float()

    def mixed(self, device: torch.device) -> bool:
        """Whether its own settings make it compute with bfloat16 there; on a GPU "auto" leaves it to the training's."""
        if self.precision == "auto":
            return device.type == "cpu" and has_bfloat16(device)
        return self.precision == "bfloat16"

    def _autocast(self, device: torch.device) -> AbstractContextManager[Any]:
        return torch.autocast(device.type, torch.bfloat16) if self.mixed(device) else nullcontext()

    def _dropout(self, device: torch.device, rng: DropoutRng | None) -> AbstractContextManager[Any]:
        """Elsewhere than on a CPU dropout is torch's own."""
        if rng is None or device.type != "cpu":
            return nullcontext()
        return RngDropoutMode(rng, self.family.document_axis) if self.family is not None else RngDropoutMode(rng)

    @property
    def _left(self) -> bool:
        return self.family is not None and self.family.left

    def _states(self, batch: EncoderBatch, part: slice, rng: DropoutRng | None) -> list[Tensor]:
        """Hidden states (documents, tokens, width), those that were given first and then those of each layer."""
        family, model = self.family, self.model
        if family is None:
            mask = batch.inside.long()
            # Nothing says whether an encoder of an unknown family gives its states without being asked.
            return list(model(input_ids=batch.given, attention_mask=mask, output_hidden_states=True).hidden_states)
        hidden = family.embed(model, batch.given) if part.start == 0 else batch.given.float()
        layer_inputs = family.layer_inputs(model, batch.inside, batch.has_padding)
        states = [hidden]
        for layer in self.layers[part]:
            if self.checkpointing and rng is not None:
                hidden = self._checkpointed(family, layer, hidden, layer_inputs, rng)
            else:
                hidden = family.run(layer, hidden, layer_inputs)
            states.append(hidden)
        if part.stop == self.depth:
            states[-1] = family.finish(model, states[-1])
        return states

    def _checkpointed(
        self, family: Family, layer: nn.Module, hidden: Tensor, layer_inputs: Any, rng: DropoutRng
    ) -> Tensor:
        """One layer, which is computed a second time in the backward pass and then must drop the same values."""
        options: dict[str, Any] = {}
        if hidden.device.type == "cpu":  # elsewhere torch restores the state of the device's generator
            again = self._dropout(hidden.device, rng.copy())
            options = {"preserve_rng_state": False, "context_fn": lambda: (nullcontext(), again)}
        found: Tensor = checkpoint(family.run, layer, hidden, layer_inputs, use_reentrant=False, **options)
        return found

    def _pooled(self, hidden: Tensor, inside: Tensor) -> Tensor:
        """(documents, width) of (documents, tokens, width)."""
        if self.pooling == "mean":
            weights = inside.to(hidden.dtype)[:, :, None]
            return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
        lengths = inside.sum(1)
        first = hidden.shape[1] - lengths if self._left else torch.zeros_like(lengths)
        place = first if self.pooling == "first" else first + lengths - 1
        return hidden[torch.arange(len(hidden), device=hidden.device), place]
