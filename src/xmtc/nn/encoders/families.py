"""How encoders of several families are taken apart: embeddings, then layer after layer.

Calling the layers one by one is what lets the lower ones be frozen, their output be kept, and any of them be computed a
second time in the backward pass. `family_of` gives None for encoders that it cannot take apart.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

LIKE_BERT = ("bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert")
XLNET = "xlnet"
TEXT, CLS, PADDING = 0, 2, 4  # XLNet's segments


class Family(Protocol):
    """One way to be an encoder; hidden states are (documents, tokens, width) for all of them."""

    left: bool  # padding comes before the text

    def layers(self, model: Any) -> nn.ModuleList:
        """The layers, lowest first."""
        ...

    def embed(self, model: Any, ids: Tensor) -> Tensor:
        """What goes into the lowest layer, from ids (documents, tokens)."""
        ...

    def layer_inputs(self, model: Any, inside: Tensor, has_padding: bool) -> Any:
        """What every layer is told beside hidden states: masks, positions; `inside` (documents, tokens): no padding."""
        ...

    def run(self, layer: nn.Module, hidden: Tensor, layer_inputs: Any) -> Tensor:
        """One layer."""
        ...

    def finish(self, model: Any, hidden: Tensor) -> Tensor:
        """What comes after the highest layer."""
        ...

    def document_axis(self, values: Tensor) -> int:
        """Along which axis documents lie in a tensor that dropout is applied to."""
        ...


class LikeBert:
    """Positions are in the embeddings; layers see hidden states and which tokens are padding."""

    left = False

    def layers(self, model: Any) -> nn.ModuleList:
        """The layers, lowest first."""
        inner = model.transformer if hasattr(model, "transformer") else model.encoder
        layers: nn.ModuleList = inner.layer
        return layers

    def embed(self, model: Any, ids: Tensor) -> Tensor:
        """Words, positions and segments; ELECTRA's are made wider."""
        hidden: Tensor = model.embeddings(input_ids=ids)
        project = getattr(model, "embeddings_project", None)
        if project is not None:
            wide: Tensor = project(hidden)
            return wide
        return hidden

    def layer_inputs(self, model: Any, inside: Tensor, has_padding: bool) -> Tensor | None:
        """What to add to attention's scores, (documents, 1, 1, tokens); None if there is no padding."""
        if not has_padding:
            return None
        lowest = torch.finfo(torch.float32).min
        return torch.zeros(inside.shape, device=inside.device).masked_fill_(~inside, lowest)[:, None, None]

    def run(self, layer: nn.Module, hidden: Tensor, layer_inputs: Tensor | None) -> Tensor:
        """One layer."""
        if not layer.training and hasattr(layer, "intermediate"):
            return _read(layer, hidden, layer_inputs)
        found = layer(hidden, layer_inputs)
        states: Tensor = found[0] if isinstance(found, tuple) else found
        return states

    def finish(self, model: Any, hidden: Tensor) -> Tensor:
        """Nothing."""
        return hidden

    def document_axis(self, values: Tensor) -> int:
        """Always the first."""
        return 0


class XlNet:
    """Layers see relative positions and whether tokens are of the same segment; the padding is on the left."""

    left = True

    def layers(self, model: Any) -> nn.ModuleList:
        """The layers, lowest first."""
        layers: nn.ModuleList = model.layer
        return layers

    def embed(self, model: Any, ids: Tensor) -> Tensor:
        """Words alone."""
        hidden: Tensor = model.dropout(model.word_embedding(ids.T))
        return hidden.transpose(0, 1)

    def layer_inputs(self, model: Any, inside: Tensor, has_padding: bool) -> tuple[Tensor, Tensor, Tensor]:
        """(mask (tokens, tokens, documents, 1), segments (tokens, tokens, documents, 2), positions)."""
        documents, tokens = inside.shape
        # A token never sees padding, but padding sees itself, lest its softmax be over nothing.
        itself = torch.eye(tokens, dtype=torch.bool, device=inside.device)[:, :, None]
        mask = (~inside.T[None] & ~itself).float()[..., None]
        segment = torch.full((tokens, documents), TEXT, device=inside.device).masked_fill_(~inside.T, PADDING)
        segment[-1] = CLS
        differ = segment[:, None] != segment[None]
        segments = torch.stack([~differ, differ], -1).float()
        # As `relative_positional_encoding` of the model, which would begin in the CPU's memory.
        steps = torch.arange(tokens, -tokens, -1.0, device=inside.device)
        steps = steps.clamp(-model.clamp_len, model.clamp_len) if model.clamp_len > 0 else steps
        rates = 10_000 ** (torch.arange(0, model.d_model, 2.0, device=inside.device) / -model.d_model)
        return mask, segments, model.dropout(model.positional_embedding(steps, rates, documents))

    def run(self, layer: nn.Module, hidden: Tensor, layer_inputs: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """One layer, which has the tokens first."""
        mask, segments, positions = layer_inputs
        found: Tensor = layer(hidden.transpose(0, 1), None, mask, None, positions, segments)[0]
        return found.transpose(0, 1)

    def finish(self, model: Any, hidden: Tensor) -> Tensor:
        """Dropout."""
        finished: Tensor = model.dropout(hidden.transpose(0, 1))
        return finished.transpose(0, 1)

    def document_axis(self, values: Tensor) -> int:
        """The second of states and positions (tokens, documents, width), the first of attention weights."""
        return 1 if values.dim() == 3 else 0


def _read(layer: Any, hidden: Tensor, mask: Tensor | None) -> Tensor:
    """What a layer of BERT's, RoBERTa's or ELECTRA's gives without dropout.

    The layer itself does the same, but for a single short text takes a quarter longer: it has much to ask its modules.
    """
    attention, after, between, last = layer.attention.self, layer.attention.output, layer.intermediate, layer.output
    heads = (*hidden.shape[:2], attention.num_attention_heads, -1)
    inputs = (_linear(part, hidden) for part in (attention.query, attention.key, attention.value))
    queries, keys, values = (each.view(heads).transpose(1, 2) for each in inputs)
    seen = functional.scaled_dot_product_attention(queries, keys, values, mask).transpose(1, 2).flatten(2)
    hidden = _normal(after.LayerNorm, _linear(after.dense, seen) + hidden)
    inner = between.intermediate_act_fn(_linear(between.dense, hidden))
    return _normal(last.LayerNorm, _linear(last.dense, inner) + hidden)


def _linear(layer: nn.Linear, values: Tensor) -> Tensor:
    return functional.linear(values, layer.weight, layer.bias)


def _normal(layer: nn.LayerNorm, values: Tensor) -> Tensor:
    return functional.layer_norm(values, layer.normalized_shape, layer.weight, layer.bias, layer.eps)


def family_of(config: Any) -> Family | None:
    """How to take apart an encoder with this configuration.

    >>> from types import SimpleNamespace
    >>> family_of(SimpleNamespace(model_type="bert")).left, family_of(SimpleNamespace(model_type="albert"))
    (False, None)
    """
    if config.model_type in LIKE_BERT:
        return LikeBert()
    return XlNet() if config.model_type == XLNET else None
