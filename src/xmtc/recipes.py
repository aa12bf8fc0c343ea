"""Settings from the command line and from recipes: YAML files with a model, its settings and, for sweeps, a grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple


class Recipe(NamedTuple):
    """A model, its hyper-parameters, and for each swept one (`group.key`) the values that it takes in turn."""

    model: str | None
    values: dict[str, Any]
    grid: dict[str, list[Any]]

    def points(self) -> list[dict[str, Any]]:
        """Every combination of the grid's values; one empty one if there is no grid.

        >>> Recipe("knn", {}, {"power": [1, 2], "neighbours": [50]}).points()
        [{'power': 1, 'neighbours': 50}, {'power': 2, 'neighbours': 50}]
        """
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


def put(hyper_parameters: dict[str, Any], pair: str) -> None:
    """Put `key=value` or `group.key=value` into the hyper-parameters; the value is read as YAML.

    >>> found = {}
    >>> put(found, "neighbours=30")
    >>> put(found, "tfidf.ngrams=[1, 2]")
    >>> found
    {'neighbours': 30, 'tfidf': {'ngrams': [1, 2]}}
    """
    import yaml

    from xmtc.errors import ConfigError

    path, equals, value = pair.partition("=")
    if not equals or not path.strip().split(".")[-1]:
        raise ConfigError(f"--set {pair}: key=value was expected")
    try:
        put_value(hyper_parameters, path.strip(), yaml.safe_load(value))
    except ConfigError as error:
        raise ConfigError(f"--set {pair}: {error}") from error
    except yaml.YAMLError as error:
        problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else error
        raise ConfigError(f"--set {pair}: the value is not YAML: {problem}") from error


def put_value(hyper_parameters: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at `key` or `group.key`."""
    from xmtc.errors import ConfigError

    *groups, key = path.split(".")
    for group in groups:
        hyper_parameters = hyper_parameters.setdefault(group, {})
        if not isinstance(hyper_parameters, dict):
            raise ConfigError(f"{group} is a value, not a group of settings")
    hyper_parameters[key] = value


def read_recipe(path: str) -> tuple[str | None, dict[str, Any]]:
    """(model, hyper-parameters) of a recipe file for one model."""
    from xmtc.errors import BadInput

    recipe = read_sweep(path)
    if recipe.grid:
        raise BadInput(path, None, "this recipe has a grid, of which each point is a model", "xmtc compare takes it")
    return recipe.model, recipe.values


def read_sweep(path: str) -> Recipe:
    """A recipe file, which may have a grid."""
    import yaml

    from xmtc.errors import BadInput

    try:
        content = yaml.safe_load(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise BadInput(path, None, "no such recipe") from None
    except OSError as error:
        raise BadInput(path, None, f"cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise BadInput(path, line, f"not YAML: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(path, None, f"not YAML: {error}") from error
    values = (content.get("set") or {}) if isinstance(content, dict) else None
    if not isinstance(values, dict) or not set(content) <= {"model", "set", "grid"}:
        raise BadInput(
            path,
            None,
            "a recipe has `model: NAME`, `set:` with hyper-parameters, for a sweep `grid:`, and nothing else",
        )
    grid = content.get("grid") or {}
    if not isinstance(grid, dict):
        raise BadInput(path, None, "`grid:` has a list of values for each swept hyper-parameter")
    swept = dict(_swept(grid))
    for key, choices in swept.items():
        if not isinstance(choices, list) or not choices:
            raise BadInput(path, None, f"`grid:` has no list of values for {key}", f"write {key}: [1, 2]")
    return Recipe(content.get("model"), values, swept)


def _swept(grid: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The lists of a grid, groups as `group.key`."""
    for key, value in grid.items():
        if isinstance(value, dict):
            yield from _swept(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
