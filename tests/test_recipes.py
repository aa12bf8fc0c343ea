"""Every shipped recipe fits the code: its model exists and takes its hyper-parameters."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from xmtc.models.registry import CATALOGUE, make
from xmtc.recipes import put_value, read_sweep

FOLDER = Path(__file__).parent.parent / "recipes"
RECIPES = sorted(FOLDER.rglob("*.yaml"))


def test_there_are_recipes() -> None:
    assert RECIPES
    assert sorted(path for path in FOLDER.rglob("*") if path.is_file()) == RECIPES, "other files would not be tested"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_recipe_fits_the_code(path: Path) -> None:
    recipe = read_sweep(str(path))
    assert recipe.model in CATALOGUE
    assert recipe.model == path.parent.name, "a recipe lies in the folder of its model"
    for point in recipe.points():
        hyper_parameters = deepcopy(recipe.values)
        for key, value in point.items():
            put_value(hyper_parameters, key, value)
        config = make(recipe.model, **hyper_parameters).config.model_dump(mode="json")
        assert_taken(hyper_parameters, config)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_recipe_says_where_it_comes_from(path: Path) -> None:
    assert path.read_text("utf-8").startswith("# ")


def assert_taken(values: dict[str, object], config: dict[str, object]) -> None:
    """Each value of the recipe is what the model has, neither converted nor dropped."""
    for key, value in values.items():
        if isinstance(value, dict):
            inner = config[key]
            assert isinstance(inner, dict)
            assert_taken(value, inner)
        else:
            assert config[key] == value
            assert type(config[key]) is type(value)
