"""`xmtc models`: the methods, or the hyper-parameters of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xmtc.cli.completion import model_names

if TYPE_CHECKING:
    from pydantic import BaseModel


def models(
    name: Annotated[
        str | None, typer.Argument(help="Show the hyper-parameters of this method.", autocompletion=model_names)
    ] = None,
) -> None:
    """List the methods and what they can do, or the hyper-parameters of one.

    Example: `xmtc models knn`
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from xmtc.models.registry import CATALOGUE, model_class

    if name is not None:
        table = Table("hyper-parameter", "default", "may be", box=None, title=f"{name}: --set key=value")
        for row in settings(model_class(name)().config):
            table.add_row(*map(escape, row))
    else:
        name_column = Column("model", no_wrap=True)
        table = Table(name_column, "what it does", "input", "scores", "explains", "learns further", "GPU", box=None)
        for known in CATALOGUE:
            can = model_class(known).capabilities
            inputs = " or ".join(sorted(can.input, reverse=True))
            flags = ("yes" if flag else "no" for flag in (can.explain, can.partial_fit, can.gpu))
            needs = escape(f" (needs xmtc[{can.extra}])") if can.extra else ""
            table.add_row(known, can.summary + needs, inputs, can.score.value, *flags)
    Console().print(table)


def settings(config: BaseModel, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """(key, default as --set takes it, what it may be) of each hyper-parameter, groups as `group.key`."""
    import yaml
    from pydantic import BaseModel

    schema = type(config).model_json_schema()["properties"]
    for key in type(config).model_fields:
        value = getattr(config, key)
        if isinstance(value, BaseModel):
            yield from settings(value, f"{prefix}{key}.")
        else:
            shown = yaml.safe_dump(list(value) if isinstance(value, tuple) else value, default_flow_style=True)
            yield f"{prefix}{key}", shown.partition("\n")[0], kind(schema[key])


def kind(facts: dict[str, Any]) -> str:
    """What a value may be, in words, from its JSON schema.

    >>> kind({"type": "integer", "exclusiveMinimum": 0}), kind({"enum": ["a", "b"], "type": "string"})
    ('whole number, above 0', '`a` or `b`')
    >>> kind({"anyOf": [{"type": "integer"}, {"type": "null"}]})
    'whole number, or `null`'
    >>> kind({"type": "array", "items": {"type": "integer"}})
    'a list, each a whole number'
    """
    if "anyOf" in facts:
        return ", or ".join(map(kind, facts["anyOf"]))
    if "enum" in facts:
        return " or ".join(f"`{value}`" for value in facts["enum"])
    if facts.get("type") == "array" and "prefixItems" in facts:
        kinds = list(dict.fromkeys(map(kind, facts["prefixItems"])))
        return f"a list of {len(facts['prefixItems'])}, each a {' or '.join(kinds)}"
    if facts.get("type") == "array" and "items" in facts:
        return f"a list, each a {kind(facts['items'])}"
    names = {"integer": "whole number", "number": "number", "boolean": "`true` or `false`", "null": "`null`"}
    limits = {"exclusiveMinimum": "above", "minimum": "at least", "exclusiveMaximum": "below", "maximum": "at most"}
    words = [names.get(facts.get("type", ""), facts.get("type", "anything"))]
    words += [f"{limit} {facts[key]:g}" for key, limit in limits.items() if key in facts]
    return ", ".join(words)
