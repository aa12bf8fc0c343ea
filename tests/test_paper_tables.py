"""The recipes in paper/ have every value of the papers' tables, and nothing in them is ours.

`FORMS` says, for every setting of a method, what its paper has; a new option therefore fails here until somebody has
said what it is in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from paper_forms import ANY, FORMS, OURS
from paper_tables import DOCUMENTS, NONE, TABLES, Table

from xmtc.models.registry import model_class
from xmtc.recipes import read_recipe, recipe_names

PAPER = "/paper/"
PAPER_RECIPES = [name for name in recipe_names() if PAPER in name]


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings as (group.key, value)."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def written(name: str) -> dict[str, Any]:
    """What a recipe sets."""
    return dict(flat(read_recipe(name)[1]))


def resolved(name: str) -> dict[str, Any]:
    """Every setting of the model that a recipe makes, defaults included."""
    method, values = read_recipe(name)
    assert method is not None
    return dict(flat(model_class(method)(**values).config.model_dump(mode="json")))


CELLS = [
    pytest.param(table, data_set, keys, value, id=f"{table.method}-{data_set}-{keys[0]}")
    for table in TABLES
    for data_set, row in table.rows.items()
    for keys, value in zip(table.columns, row, strict=True)
]


@pytest.mark.parametrize(("table", "data_set", "keys", "value"), CELLS)
def test_a_value_of_a_table_is_in_the_recipe(table: Table, data_set: str, keys: tuple[str, ...], value: object) -> None:
    recipe = written(f"{table.method}{PAPER}{data_set}")
    for key in keys:
        if value is NONE:
            assert key not in recipe, f"{table.where}: a dash"
        else:
            assert key in recipe, f"{table.where}: the recipe does not say {key}"
            assert recipe[key] == value, table.where


def test_a_dash_in_attentionxmls_table_is_a_network_without_a_tree() -> None:
    table = TABLES[0]
    for data_set, row in table.rows.items():
        assert written(f"attentionxml/paper/{data_set}")["tree"] == ("flat" if row[4] is NONE else "tree")


@pytest.mark.parametrize("method", sorted({table.method for table in TABLES}))
def test_each_recipe_has_a_row_in_each_table_or_says_whose_values_it_has(method: str) -> None:
    of_paper = {name for name in PAPER_RECIPES if name.startswith(method + PAPER) and name not in OURS}
    for table in (each for each in TABLES if each.method == method):
        assert {f"{method}{PAPER}{data_set}" for data_set in table.rows} == of_paper


@pytest.mark.parametrize("name", PAPER_RECIPES)
def test_a_recipe_is_the_papers_form_in_every_setting(name: str) -> None:
    method = name.partition("/")[0]
    form, config = FORMS[method], resolved(name)
    unknown = sorted(config.keys() - form.keys())
    assert not unknown, f"say in FORMS what the paper has, and set it in recipes/{method}/paper: {unknown}"
    assert not form.keys() - config.keys(), "settings that are gone"
    assert {key: config[key] for key, value in form.items() if value is not ANY} == {
        key: value for key, value in form.items() if value is not ANY
    }


@pytest.mark.parametrize("name", OURS)
def test_a_papers_form_for_our_corpus_has_the_values_of_one_of_its_own(name: str) -> None:
    data_set, other = OURS[name]
    assert resolved(name) == resolved(f"{name.partition(PAPER)[0]}{PAPER}{data_set}") | other


@pytest.mark.parametrize("name", [name for name in PAPER_RECIPES if name.startswith("rank_ae")])
def test_rank_ae_holds_out_a_fifth(name: str) -> None:
    documents = DOCUMENTS[name.rpartition("/")[2]]
    assert resolved(name)["training.valid_documents"] == pytest.approx(0.2 * documents, abs=1)


def test_a_new_option_fails_until_its_value_in_the_paper_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    form = {key: value for key, value in FORMS["attentionxml"].items() if key != "word_skip"}
    monkeypatch.setitem(FORMS, "attentionxml", form)
    with pytest.raises(AssertionError, match="word_skip"):
        test_a_recipe_is_the_papers_form_in_every_setting("attentionxml/paper/eurlex")
