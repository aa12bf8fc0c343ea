"""Every shipped recipe fits the code: its model exists and takes its hyper-parameters."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from xmtc.errors import BadInput
from xmtc.models.registry import CATALOGUE, model_class
from xmtc.recipes import put_value, read_recipe, read_sweep, read_table, recipe_file, recipe_names

FOLDER = Path(__file__).parent.parent / "recipes"
RECIPES = sorted(FOLDER.glob("*/**/*.yaml"))
TABLES = sorted(FOLDER.glob("*.yaml"))  # of whole comparisons


def test_there_are_recipes() -> None:
    assert RECIPES
    files = sorted(path for path in FOLDER.rglob("*") if path.is_file())
    assert files == sorted(RECIPES + TABLES), "other files would not be tested"


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_rows_of_a_comparison_are_methods_or_recipes(path: Path) -> None:
    rows = read_table(str(path))
    assert rows
    for row in rows:
        if row.recipe is not None:
            assert row.recipe in recipe_names()
        else:
            assert row.model in CATALOGUE
            config = model_class(row.model)(**row.values).config.model_dump(mode="json")
            assert_taken(row.values, config)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_recipe_fits_the_code(path: Path) -> None:
    recipe = read_sweep(str(path))
    assert recipe.model in CATALOGUE
    assert recipe.model == path.relative_to(FOLDER).parts[0], "a recipe lies in the folder of its model"
    for point in recipe.points():
        hyper_parameters = deepcopy(recipe.values)
        for key, value in point.items():
            put_value(hyper_parameters, key, value)
        config = model_class(recipe.model)(**hyper_parameters).config.model_dump(mode="json")
        assert_taken(hyper_parameters, config)


@pytest.mark.parametrize("path", RECIPES + TABLES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_recipe_says_where_it_comes_from(path: Path) -> None:
    assert path.read_text("utf-8").startswith("# ")


@pytest.mark.parametrize("path", RECIPES + TABLES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_recipe_is_found_by_name(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = path.relative_to(FOLDER).with_suffix("").as_posix()
    assert name in recipe_names()
    for said in (name, f"{name}.yaml", f"recipes/{name}.yaml"):
        assert recipe_file(said).read_bytes() == path.read_bytes()


def test_a_file_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "knn").mkdir()
    assert recipe_file("knn/default") != Path("knn/default")
    (tmp_path / "knn" / "default").write_text("model: prior\n")
    assert read_recipe("knn/default") == ("prior", {})


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("dismec/paper", "did you mean dismec/paper/default?"),
        ("attentionxml/paper/eurlx", "did you mean attentionxml/paper/eurlex, "),
        ("debtags", "did you mean aplc_xlnet/debtags, aplc_xlnet/paper/debtags, attentionxml/debtags?"),
        ("dismec", "did you mean dismec/paper/default?"),
        ("zzz.yaml", "give a file or a name such as "),
    ],
)
def test_a_name_that_does_not_exist_is_answered_with_near_ones(wrong: str, hint: str) -> None:
    with pytest.raises(BadInput) as error:
        read_sweep(wrong)
    assert str(error.value).startswith(f"{wrong}: no such recipe; {hint}")


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
