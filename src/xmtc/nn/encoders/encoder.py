"""A pretrained transformer that makes a vector of each document: whole, or with its lower layers frozen.

The frozen part runs once, without dropout; what it finds is kept (`HiddenStateCache`) and read in every epoch. That is
what makes training affordable on a CPU. Threads may call an encoder at the same time: dropout uses their own `rng`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xmtc.errors import ConfigError
from xmtc.nn.batching import Ints, by_tokens, padded
from xmtc.nn.dropout import RngDropoutMode
from xmtc.nn.encoders.families import XLNET, Family, family_of
from xmtc.nn.encoders.hidden_state_cache import HiddenStateCache
from xmtc.nn.encoders.pretrained import Pretrained, empty_encoder
from xmtc.nn.parallel import Cores
from xmtc.nn.settings import EncoderSettings
from xmtc.progress import progress
from xmtc.text.token_store import TokenStore

MAX_BATCH_TOKENS = 2048  # with padding, in prediction


@dataclass(frozen=True)
class EncoderTexts:
    """Documents as an encoder reads them: token ids and, if it has a frozen part, what that found for them."""

    tokens: TokenStore
    states: HiddenStateCache | None = None

    @property
    def lengths(self) -> Ints:
        """How much there is to compute for each document."""
        return self.tokens.lengths if self.states is None else self.states.lengths


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
        self.checkpointing = settings.checkpointing
        self.mixed = settings.precision == "bfloat16" or (settings.precision == "auto" and computes_bfloat16())
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
        whole = self.frozen == self.depth
        plain = EncoderTexts(tokens)
        width = self.width if whole else self.width // self.last_layers
        store = HiddenStateCache(np.ones(len(tokens), np.int64) if whole else tokens.lengths, width, in_file)

        def work(documents: Ints) -> Tensor:
            with torch.inference_mode():
                if whole:
                    return self.forward(plain, documents)[:, None]
                return self._run(*self._begin(plain, documents), slice(0, self.frozen), None)[-1]

        for documents, states in self._work(work, plain, cores, what):
            store.put(documents, states, self._left and not whole)
        return EncoderTexts(tokens, store)

    def vectors(self, texts: EncoderTexts, cores: Cores, what: str = "encoding") -> NDArray[np.float32]:
        """The vectors of all documents, (documents, width), without dropout."""
        result = np.empty((len(texts.tokens), self.width), np.float32)

        def work(documents: Ints) -> Tensor:
            with torch.inference_mode():
                return self.forward(texts, documents)

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

    def forward(self, texts: EncoderTexts, documents: Ints, rng: np.random.Generator | None = None) -> Tensor:
        """(documents, width); with dropout if there is an `rng`."""
        if self.training != (rng is not None):
            self.train(rng is not None)
        dropout_rng: AbstractContextManager[Any] = RngDropoutMode(rng) if rng is not None else nullcontext()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.mixed), dropout_rng:
            if texts.states is not None and self.frozen == self.depth:
                return texts.states.padded(documents)[:, 0]
            hidden, inside = self._begin(texts, documents)
            layers = slice(0 if texts.states is None else self.frozen, self.depth)
            found = self._run(hidden, inside, layers, rng)[-self.last_layers :]
            return torch.cat([self._pooled(each, inside) for each in found], 1).float()

    @property
    def _left(self) -> bool:
        return self.family is not None and self.family.left

    def _begin(self, texts: EncoderTexts, documents: Ints) -> tuple[Tensor, Tensor]:
        """(ids or kept states, where there is no padding (documents, tokens)) of some documents."""
        config: Any = self.model.config
        ids, lengths = padded(texts.tokens, documents, config.pad_token_id or 0, self._left)
        steps = torch.arange(ids.shape[1])
        inside = steps >= ids.shape[1] - lengths[:, None] if self._left else steps < lengths[:, None]
        return ids if texts.states is None else texts.states.padded(documents, self._left), inside

    def _run(self, given: Tensor, inside: Tensor, part: slice, rng: np.random.Generator | None) -> list[Tensor]:
        """Hidden states (documents, tokens, width), those that were given first and then those of each layer."""
        family, model = self.family, self.model
        if family is None:
            # Nothing says whether an encoder of an unknown family gives its states without being asked.
            states = model(input_ids=given, attention_mask=inside.long(), output_hidden_states=True).hidden_states
            return list(states)
        hidden = family.embed(model, given) if part.start == 0 else given
        layer_inputs = family.layer_inputs(model, inside)
        states = [hidden]
        for layer in self.layers[part]:
            if self.checkpointing and rng is not None:
                # The second time must drop the same values.
                contexts = partial(_two_contexts, copy.deepcopy(rng))
                hidden = checkpoint(
                    family.run,
                    layer,
                    hidden,
                    layer_inputs,
                    use_reentrant=False,
                    preserve_rng_state=False,
                    context_fn=contexts,
                )
            else:
                hidden = family.run(layer, hidden, layer_inputs)
            states.append(hidden)
        if part.stop == self.depth:
            states[-1] = family.finish(model, states[-1])
        return states

    def _pooled(self, hidden: Tensor, inside: Tensor) -> Tensor:
        """(documents, width) of (documents, tokens, width)."""
        if self.pooling == "mean":
            weights = inside.to(hidden.dtype)[:, :, None]
            return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)
        lengths = inside.sum(1)
        first = hidden.shape[1] - lengths if self._left else torch.zeros_like(lengths)
        place = first if self.pooling == "first" else first + lengths - 1
        return hidden[torch.arange(len(hidden)), place]


def _two_contexts(rng: np.random.Generator) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """For a layer that is computed twice: the first time there is a generator already."""
    return nullcontext(), RngDropoutMode(rng)


def computes_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16; elsewhere it is a hundred times slower than single.

    >>> computes_bfloat16() in (True, False)
    True
    """
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
