"""What a method declares: its hyper-parameters and what it can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from xmtc.corpus.corpus import WeightKind
from xmtc.predictions import ScoreKind

Shrinking = Literal["prune", "round"]
ROUND: frozenset[Shrinking] = frozenset({"round"})
PRUNE: frozenset[Shrinking] = frozenset({"prune", "round"})  # a model that stores the weights that are left


class ModelConfig(BaseModel):
    """Hyper-parameters of a method: typed, frozen, an unknown key is an error. Every method has a seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _keep_defaults_of_groups(cls, given: Any) -> Any:
        """A group of which some settings are given keeps the method's own defaults for the others."""
        if not isinstance(given, Mapping):
            return given
        groups = {
            key: cls.model_fields[key].get_default(call_default_factory=True) for key in given.keys() & cls.model_fields
        }
        kept = {
            key: {name: getattr(default, name) for name in default.model_fields_set}
            for key, default in groups.items()
            if isinstance(default, BaseModel) and isinstance(given[key], Mapping)
        }
        return {**given, **{key: {**own, **given[key]} for key, own in kept.items()}}

    seed: int = Field(0, ge=0, lt=2**63)
    """Start of everything random: the same seed, settings and documents give the same model on one machine."""


@dataclass(frozen=True)
class Capabilities:
    """What a method can do; the command line and the tables of the docs read it from here."""

    summary: str
    input: frozenset[Literal["text", "features"]]
    score: ScoreKind
    explain: bool = False
    partial_fit: bool = False
    gpu: bool = False  # trains and predicts on GPUs too
    weights: frozenset[WeightKind] = frozenset()  # whose weights count in training
    shrink: frozenset[Shrinking] = frozenset()  # what makes its folder smaller, see `xmtc.evaluation.shrinking`
    extra: str | None = None  # what must be installed beside the core: `pip install 'xmtc[EXTRA]'`
