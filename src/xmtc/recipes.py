"""Settings from the command line and from recipes: YAML files with a model, its settings and, for sweeps, a grid.

The recipe of a whole comparison has rows instead, each a model with settings or another recipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

SUFFIX = ".yaml"
NEAREST = 3  # names that are offered for one that does not exist


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


class TableRow(NamedTuple):
    """A row of a comparison's recipe: a method, or another recipe, and settings in place of the recipe's."""

    model: str | None
    recipe: str | None
    values: dict[str, Any]


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


def recipe_folder() -> Path:
    """The folder of the recipes that come with the package: MODEL/NAME.yaml, the papers' own MODEL/paper/NAME.yaml.

    >>> (recipe_folder() / "attentionxml" / "paper" / "eurlex.yaml").is_file()
    True
    """
    here = Path(__file__).parent
    packed = here / "recipe_files"  # in the wheel; a repository has them beside `src`
    return packed if packed.is_dir() else here.parent.parent / "recipes"


def recipe_names() -> list[str]:
    """What `--recipe` takes beside paths.

    >>> "attentionxml/debtags" in recipe_names()
    True
    """
    folder = recipe_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob(f"*{SUFFIX}"))


def recipe_file(name: str) -> Path:
    """The file of a recipe: a path as it is, else a shipped recipe of this name; BadInput with near names if neither.

    >>> recipe_file("knn/default").name
    'default.yaml'
    >>> recipe_file("dismec/paper")
    Traceback (most recent call last):
    xmtc.errors.BadInput: dismec/paper: no such recipe; did you mean dismec/paper/default?
    """
    import difflib

    from xmtc.errors import BadInput

    path = Path(name)
    if name and path.exists():
        return path
    known, wanted = recipe_names(), name.removesuffix(SUFFIX).removeprefix("recipes/")
    if wanted in known:
        return recipe_folder() / f"{wanted}{SUFFIX}"
    close = difflib.get_close_matches(wanted, known, n=NEAREST)
    # A part of a name, such as the model's or the corpus's, is more telling than letters that happen to be alike.
    close = [each for each in known if wanted and f"/{wanted}/" in f"/{each}/"][:NEAREST] or close
    hint = (
        f"did you mean {', '.join(close)}?" if close else f"give a file or a name such as {', '.join(known[:NEAREST])}"
    )
    raise BadInput(name or "''", None, "no such recipe", hint)


def read_recipe(path: str) -> tuple[str | None, dict[str, Any]]:
    """(model, hyper-parameters) of a recipe for one model, given as a file or by name."""
    from xmtc.errors import BadInput

    recipe = read_sweep(path)
    if recipe.grid:
        raise BadInput(path, None, "this recipe has a grid, of which each point is a model", "xmtc compare takes it")
    return recipe.model, recipe.values


def read_table(path: str) -> list[TableRow] | None:
    """The rows of a comparison's recipe, given as a file or by name; None if it is a recipe for one method."""
    from xmtc.errors import BadInput

    content = _content(path)
    if not isinstance(content, dict) or "rows" not in content:
        return None
    rows = content["rows"]
    if set(content) != {"rows"} or not isinstance(rows, list) or not rows:
        raise BadInput(path, None, "the recipe of a comparison has `rows:`, a list, and nothing else")
    return [_table_row(path, at, row) for at, row in enumerate(rows, 1)]


def _table_row(path: str, at: int, row: Any) -> TableRow:
    from xmtc.errors import BadInput

    values = (row.get("set") or {}) if isinstance(row, dict) else None
    if not isinstance(values, dict) or set(row) - {"set"} not in ({"model"}, {"recipe"}):
        raise BadInput(path, None, f"row {at} is no row", "write `model: NAME` or `recipe: NAME`, and `set:` if wanted")
    return TableRow(row.get("model"), row.get("recipe"), values)


def read_sweep(path: str) -> Recipe:
    """A recipe, given as a file or by name, which may have a grid."""
    from xmtc.errors import BadInput

    content = _content(path)
    if isinstance(content, dict) and "rows" in content:
        raise BadInput(path, None, "this recipe has rows, each a model of its own", "xmtc compare takes it")
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
    swept = dict(flattened(grid))
    for key, choices in swept.items():
        if not isinstance(choices, list) or not choices:
            raise BadInput(path, None, f"`grid:` has no list of values for {key}", f"write {key}: [1, 2]")
    return Recipe(content.get("model"), values, swept)


def _content(path: str) -> Any:
    """What a recipe's file holds."""
    import yaml

    from xmtc.errors import BadInput

    try:
        return yaml.safe_load(recipe_file(path).read_text("utf-8"))
    except OSError as error:
        raise BadInput(path, None, f"cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise BadInput(path, line, f"not YAML: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(path, None, f"not YAML: {error}") from error


def flattened(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of settings, those of groups as `group.key`.

    >>> dict(flattened({"power": 2, "tfidf": {"min_df": 3}}))
    {'power': 2, 'tfidf.min_df': 3}
    """
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
