"""The rows of `xmtc compare`: methods to train, recipes, model folders and files of predictions."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmtc.cli.output import printable
from xmtc.recipes import SUFFIX, flattened, put, put_value, read_sweep, read_table, recipe_file, recipe_folder

if TYPE_CHECKING:
    from xmtc.corpus.labels import LabelSet
    from xmtc.evaluation.comparison import Origin
    from xmtc.storage import FolderReader


@dataclass(frozen=True)
class Plan:
    """A row of the table: a model with settings, from which recipe, and where in its grid.

    `path` is that of the recipe; or of a model folder or a file of predictions, as `origin` says, and then `name` is
    how the user called it.
    """

    model: str
    settings: dict[str, Any]
    recipe: str = ""
    point: tuple[tuple[str, Any], ...] = ()
    name: str = ""
    origin: Origin = "trained"
    path: str = ""

    @property
    def system(self) -> str:
        """What the row is called: as the model calls itself with these settings, and where they are from."""
        if self.name:
            return self.name
        from xmtc.models.registry import make

        words = ", ".join(f"{key}={value}" for key, value in self.point)
        title = make(self.model, **self.settings).title
        return " ".join(part for part in (title, f"({self.recipe})" if self.recipe else "", words) if part)

    @property
    def sweep(self) -> str:
        """The sweep that it belongs to, "" if to none."""
        return f"{self.model} ({self.recipe})" if self.point else ""

    def seeds(self, number: int) -> range:
        """The seeds that it is run with: one if there is nothing to train, or if its seed is set."""
        return range(number if self.origin == "trained" and "seed" not in self.settings else 1)

    @cached_property
    def folder(self) -> FolderReader:
        """The model folder."""
        from xmtc.storage import opening

        return opening(self.path)

    @cached_property
    def labels(self) -> LabelSet:
        """The labels of the model folder."""
        return self.folder.labels()


def planned(models: str, recipes: Sequence[str], pairs: Sequence[str]) -> list[Plan]:
    """The rows of the table; an error if a setting is impossible, before anything is trained."""
    from xmtc.errors import ConfigError

    plans = [entry(name) for name in (part.strip() for part in models.split(",")) if name]
    for path in recipes:
        plans += from_recipe(path)
    if not plans:
        raise ConfigError("nothing to compare; say --models knn,parabel or give a --recipe")
    for pair in pairs:
        model, _, rest = pair.partition(".")
        chosen = [plan for plan in plans if plan.model == model and plan.origin == "trained"]
        if not chosen or not rest:
            known = ", ".join(dict.fromkeys(plan.model for plan in plans if plan.origin == "trained"))
            raise ConfigError(f"--set {pair}: MODEL.key=value was expected, with one of the models {known or '(none)'}")
        for plan in chosen:
            put(plan.settings, rest)
    twice = _repeated(plans)
    # Recipes with the same file name are told apart by their paths as given.
    plans = [
        replace(plan, recipe=plan.path.removesuffix(SUFFIX)) if plan.recipe and plan.system in twice else plan
        for plan in plans
    ]
    for name in _repeated(plans):
        raise ConfigError(f"{name} would be in the table twice; a recipe with another file name can be told apart")
    return plans


def _repeated(plans: Sequence[Plan]) -> list[str]:
    return [name for name, times in Counter(plan.system for plan in plans).items() if times > 1]


def entry(name: str) -> Plan:
    """What an entry of --models is taken for: the name of a method, else by its look a file or a folder; it is said."""
    from xmtc.atomic_folder import MANIFEST
    from xmtc.errors import BadInput
    from xmtc.hub import is_address
    from xmtc.models.registry import CATALOGUE
    from xmtc.prediction_files.writing import SUFFIXES

    # A shell expands the home folder only at the beginning of the list.
    path = str(Path(name).expanduser()) if name.startswith("~/") else name
    here = Path(path)
    if name in CATALOGUE:
        if (here / MANIFEST).exists():
            _say(f"{name}: taken for the method; for the model folder of this name write ./{name}")
        return Plan(name, {})
    if Path(here.name.lower().removesuffix(".gz")).suffix in SUFFIXES and not here.is_dir():
        if not here.exists():
            raise BadInput(name, None, "no such file of predictions", "`xmtc predict --out FILE` writes one")
        _say(f"{name}: taken for a file of predictions, of which the quality is compared")
        return Plan("", {}, name=name, origin="predictions", path=path)
    if is_address(name) or re.search(r"[/\\]", name) or here.is_dir():
        plan = Plan("", {}, name=name, origin="folder", path=path)
        manifest = plan.folder.manifest
        documents = manifest.get("training", {}).get("documents", 0)
        _say(f"{name}: taken for a model folder, {plan.folder.kind} trained on {documents:,} documents")
        return replace(plan, model=plan.folder.kind, settings=dict(manifest["config"]))
    if here.exists():
        known = ", ".join(SUFFIXES)
        raise BadInput(name, None, "a file, but its suffix is not that of predictions", f"known suffixes: {known}")
    return Plan(name, {})  # no method either: making it says which name is near


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr)


def recipe_name(file: Path) -> str:
    """What a recipe is called in a row: its path below `recipes/`, without the model's folder; else its file's name.

    >>> recipe_name(Path("recipes/attentionxml/paper/eurlex.yaml")), recipe_name(Path("my/sweep.yaml"))
    ('paper/eurlex', 'sweep')
    """
    if file.is_relative_to(recipe_folder()):
        parts = file.relative_to(recipe_folder()).parts
    else:
        parts = file.parts[file.parts.index("recipes") + 1 :] if "recipes" in file.parts else file.parts[-1:]
    return "/".join(parts[1:] or parts).removesuffix(SUFFIX)


def from_recipe(path: str) -> Iterator[Plan]:
    """The rows of a recipe: one, one for each point of its grid, or those of a whole table."""
    import copy

    from xmtc.errors import BadInput

    table = read_table(path)
    if table is not None:
        for row in table:
            if row.model is not None:
                yield Plan(row.model, row.values)
            for plan in from_recipe(row.recipe) if row.recipe is not None else ():
                for key, value in flattened(row.values):
                    put_value(plan.settings, key, value)
                yield plan
        return
    recipe = read_sweep(path)
    if recipe.model is None:
        raise BadInput(path, None, "a recipe for a comparison needs `model: NAME`")
    name = recipe_name(recipe_file(path))
    for point in recipe.points():
        settings = copy.deepcopy(recipe.values)
        for key, value in point.items():
            put_value(settings, key, value)
        yield Plan(recipe.model, settings, name, tuple(point.items()), path=path)
