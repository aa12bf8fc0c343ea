"""The settings of an Annif project (`projects.cfg`, `projects.toml`, `-b xmtc.KEY=VALUE`) as a method's settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from xmtc.errors import ConfigError
from xmtc.models.base import Model
from xmtc.models.registry import make
from xmtc.predictions import ScoreKind
from xmtc.recipes import put_value

PREFIX = "xmtc."
#: What Annif itself reads of a project's settings.
ANNIF_SETTINGS = frozenset(
    {"access", "allow_learn", "analyzer", "backend", "language", "limit", "name", "transform", "vocab"}
)
OWN_SETTINGS = frozenset({"method", "calibrate"})
DEFAULTS = {"method": "dismec"}


class Settings(NamedTuple):
    """A method, its hyper-parameters, and whether its scores are calibrated (None: if they are no probabilities)."""

    method: str
    values: dict[str, Any]
    calibrate: bool | None

    def make(self) -> Model:
        """A new model with these settings; a ConfigError names the one that is wrong."""
        return make(self.method, **self.values)

    def calibrates(self, model: Model) -> bool:
        """Whether the scores of a model are to be calibrated."""
        return model.score_kind is ScoreKind.RANKING if self.calibrate is None else self.calibrate


def settings_of(params: Mapping[str, Any]) -> Settings:
    """Read what Annif hands over; all that is not Annif's own is a setting of the method.

    >>> settings_of({"backend": "xmtc", "limit": 100, "method": "knn", "neighbours": "30", "tfidf.min_df": "2"})
    Settings(method='knn', values={'neighbours': 30, 'tfidf': {'min_df': 2}}, calibrate=None)
    """
    method, calibrate = DEFAULTS["method"], None
    values: dict[str, Any] = {}
    for name, given in _flat(params):
        if name in ANNIF_SETTINGS:
            continue
        value = _parsed(name, given)
        if name == "method":
            method = str(value)
        elif name == "calibrate":
            if not isinstance(value, bool):
                raise ConfigError(f"calibrate={given}: yes or no was expected")
            calibrate = value
        else:
            put_value(values, name, value)
    return Settings(method, values, calibrate)


def limit_of(params: Mapping[str, Any]) -> int:
    """How many subjects a document gets at most.

    >>> limit_of({"limit": "20"})
    20
    """
    try:
        limit = int(params["limit"])
    except (TypeError, ValueError):
        limit = 0
    if limit < 1:
        raise ConfigError(f"limit={params['limit']}: a whole number from 1 was expected")
    return limit


def _flat(params: Mapping[str, Any], group: str = "") -> Iterator[tuple[str, Any]]:
    """(key or group.key, value) of all settings; TOML has groups as tables."""
    for key, value in params.items():
        path = f"{group}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}.")
        else:
            yield path.removeprefix(PREFIX), value


def _parsed(name: str, value: Any) -> Any:
    """A value; strings are read as YAML, as `xmtc train --set` does."""
    if not isinstance(value, str):
        return value
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError as error:
        problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else error
        raise ConfigError(f"{name}={value}: the value is not YAML: {problem}") from error
