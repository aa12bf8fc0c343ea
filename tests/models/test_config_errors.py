"""A setting with the name that it had in an older version: the error says the new one, wherever the setting stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from xmtc.errors import ConfigError
from xmtc.models.config_errors import RENAMED
from xmtc.models.registry import CATALOGUE, make, model_class


def nested(path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


def has_setting(config: type[BaseModel], path: str) -> bool:
    first, _, rest = path.partition(".")
    if first not in config.model_fields:
        return False
    inner = config.model_fields[first].annotation
    return not rest or (isinstance(inner, type) and issubclass(inner, BaseModel) and has_setting(inner, rest))


def cases() -> Iterator[tuple[str, str, str]]:
    """Model, old path and new path, for every model that has a renamed setting."""
    for old, new in RENAMED.items():
        *only, path = old.split(": ")
        for name in only or CATALOGUE:
            if has_setting(model_class(name).Config, new):
                yield name, path, new


CASES = list(cases())


def test_every_new_name_is_a_setting_of_some_model() -> None:
    assert {new for _, _, new in CASES} == set(RENAMED.values())


@pytest.mark.parametrize(("name", "old", "new"), CASES)
def test_the_new_name_is_said(name: str, old: str, new: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: {old} is called {new} now$"):
        make(name, **nested(old, 3))


def test_also_beside_other_mistakes_and_within_a_blend() -> None:
    with pytest.raises(ConfigError, match=r"^attentionxml: training\.batch is called training\.batch_size now$"):
        make("attentionxml", sed=3, trees="many", training={"epochs": 0, "batch": 8})
    with pytest.raises(ConfigError, match="parabel: beam is called beam_width now"):
        make("blend", members=["knn", {"model": "parabel", "set": {"beam": 5}}])


def test_a_name_that_another_method_still_has_is_not_taken_for_an_old_one() -> None:
    model_class("treaderxml")(candidates="both")
    with pytest.raises(ConfigError, match="knn has no hyper-parameter 'candidates'"):
        make("knn", candidates=3)


def test_a_group_of_which_some_settings_are_given_keeps_the_defaults_of_the_method() -> None:
    """`--set tfidf.min_df=2` changes that setting and no other."""
    for name in CATALOGUE:
        config = model_class(name).Config
        default = config()
        for group, field in config.model_fields.items():
            settings = getattr(default, group)
            if not isinstance(settings, BaseModel):
                continue
            for key in type(settings).model_fields:
                given = {group: {key: getattr(settings, key)}}
                assert make(name, **given).config == default, (name, given, field)
