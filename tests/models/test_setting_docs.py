"""Every setting of every method says in one line what it means, and the command line shows it."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from xmtc.cli import main
from xmtc.cli.models import settings
from xmtc.models.registry import CATALOGUE, model_class
from xmtc.models.setting_docs import meanings


@pytest.mark.parametrize("name", CATALOGUE)
def test_no_setting_lacks_its_meaning(name: str) -> None:
    for setting in settings(model_class(name)().config):
        assert setting.meaning.endswith("."), f"{name}: {setting.key} does not say what it means"
        assert "\n" not in setting.meaning, f"{name}: {setting.key} takes more than one line"
        assert setting.kind, f"{name}: {setting.key}"


def test_a_setting_with_another_default_keeps_its_meaning() -> None:
    class Parent(BaseModel):
        one: int = 1
        """The first."""
        two: int = 2

    class Child(Parent):
        one: int = 3
        two: int = 4
        """The second."""

    assert meanings(Parent) == {"one": "The first."}
    assert meanings(Child) == {"one": "The first.", "two": "The second."}


def test_a_class_without_source_has_no_meanings() -> None:
    found: dict[str, type[BaseModel]] = {}
    exec("from pydantic import BaseModel\nclass Typed(BaseModel):\n    one: int = 1\n", found)
    assert meanings(found["Typed"]) == {}


@pytest.mark.parametrize("words", [["models"], ["models", "treaderxml"], ["models", "x_transformer"]])
def test_the_listing_fits_a_terminal_of_80_columns(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(words) == 0
    out, _ = capsys.readouterr()
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    if words == ["models"]:
        assert [line.split()[0] for line in out.splitlines() if line[:1].isalpha()][: len(CATALOGUE)] == [*CATALOGUE]


def test_a_pipe_gets_whole_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["models", "parabel"]) == 0
    out, _ = capsys.readouterr()
    shown = [line.strip() for line in out.splitlines()]
    for setting in settings(model_class("parabel")().config):
        assert f"{setting.key}={setting.default}  {setting.kind}" in shown
        assert setting.meaning in shown
