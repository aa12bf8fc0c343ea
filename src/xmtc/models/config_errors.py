"""One sentence about settings that are refused: an unknown name, one that an older version had, or a wrong value."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

#: Old path -> new path; one that holds for a single method begins with its name and a colon.
RENAMED = {
    "attentionxml: candidates": "beam_width",
    "attentionxml: match": "logsumexp_score",
    "beam": "beam_width",
    "rank_ae: candidates": "negative_samples",
    "training.accumulate": "training.gradient_accumulation",
    "training.average_from": "training.swa_start_epoch",
    "training.batch": "training.batch_size",
    "training.clip_norm": "training.max_grad_norm",
    "training.decay": "training.lr_decay",
    "training.processes": "training.devices",
    "training.decays": "training.max_lr_decays",
    "training.warm_up": "training.warmup_ratio",
    "attentionxml: shortcut": "word_skip",
    "attentionxml: words.warm_up": "pretraining_epochs",
}


def describe(name: str, config: type[BaseModel], settings: Mapping[str, Any], error: ValidationError) -> str:
    """What is wrong with the settings of a method: unknown names first, then values."""
    wrong = [(_path(each["loc"], settings), each) for each in error.errors()]
    unknown = [path for path, each in wrong if each["type"] == "extra_forbidden"]
    for path in unknown:
        if now := RENAMED.get(f"{name}: {path}") or RENAMED.get(path):
            return f"{name}: {path} is called {now} now"
    for path in unknown:
        if known := _beside(config, path):
            close = difflib.get_close_matches(path, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(sorted(known))}"
            return f"{name} has no hyper-parameter {path!r}; {hint}"
    # A list is too short for pydantic also if what was wrong in it is left out.
    wrong = [pair for pair in wrong if not _seems_too_short(pair[1])] or wrong
    # A setting that may be a number or a list has an error for each; the one of the right type says more.
    path, first = next((pair for pair in wrong if not pair[1]["type"].endswith(("_type", "_parsing"))), wrong[0])
    message = first["msg"].removeprefix("Value error, ")
    # Without a path it is about several settings, and names them.
    return f"{name}: {path}={first['input']!r}: {message}" if path else f"{name}: {message}"


def _seems_too_short(error: ErrorDetails) -> bool:
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def _beside(config: type[BaseModel], path: str) -> list[str]:
    """The settings of the group that a setting was looked for in, by their paths; none where there is no group."""
    *groups, _ = path.split(".")
    for group in groups:
        found: Any = config.model_fields[group].annotation if group in config.model_fields else None
        if not isinstance(found, type) or not issubclass(found, BaseModel):
            return []
        config = found
    return [".".join([*groups, field]) for field in config.model_fields]


def _path(steps: Sequence[int | str], settings: Any) -> str:
    """The path of a setting as a user writes it; pydantic's also names the types that it tried.

    >>> _path(("training", "epochs", "tuple[int, ...]", 1), {"training": {"epochs": [3, 0]}})
    'training.epochs.1'
    """
    path = []
    for step in steps:
        if isinstance(settings, Mapping) or isinstance(step, int):
            path.append(str(step))
            settings = settings.get(step) if isinstance(settings, Mapping) else None
    return ".".join(path)
