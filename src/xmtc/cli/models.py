"""`xmtc models`: the methods, or the hyper-parameters of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from xmtc.cli.completion import model_names
from xmtc.cli.output import reading_console

if TYPE_CHECKING:
    from pydantic import BaseModel

    from xmtc.models.config import Capabilities

LARGEST = 2**53  # limits beyond are those of the machine, not of the setting


def models(
    name: Annotated[
        str | None, typer.Argument(help="Show the hyper-parameters of this method.", autocompletion=model_names)
    ] = None,
) -> None:
    """List the methods, or the settings of one of them.

    Example: xmtc models knn
    """
    from rich.padding import Padding
    from rich.table import Column, Table
    from rich.text import Text

    from xmtc.models.registry import CATALOGUE, model_class

    console = reading_console()
    if name is not None:
        method = model_class(name)
        console.print(Text.assemble((name, "bold"), f": {method.capabilities.summary}"))
        console.print(Text(f"{able(method.capabilities)}\n\nsettings, for --set key=value:\n", "dim"))
        for setting in settings(method().config):
            first = Text.assemble((f"{setting.key}={setting.default}", "bold"), ("  " + setting.kind, "dim"))
            console.print(first)
            console.print(Padding(Text(setting.meaning), (0, 0, 0, 4), expand=False))
        return
    table = Table(Column(no_wrap=True, style="bold"), Column(), box=None, show_header=False, padding=(0, 2, 0, 0))
    for known in CATALOGUE:
        can = model_class(known).capabilities
        table.add_row(known, Text.assemble(can.summary, ("\n" + able(can), "dim")))
    console.print(table)
    console.print(Text("\nxmtc models NAME shows the settings of a method.", "dim"))


def able(can: Capabilities) -> str:
    """What a method can do, on one line.

    >>> from xmtc.models.registry import model_class
    >>> able(model_class("knn").capabilities)
    'from text or features, scores: probability; explains, learns further, weights: documents'
    """
    inputs = " or ".join(sorted(can.input, reverse=True))
    flags = {"explains": can.explain, "learns further": can.partial_fit, "trains on a GPU": can.gpu}
    flags[f"weights: {', '.join(sorted(can.weights))}"] = bool(can.weights)
    if can.extra:
        flags[f"needs xmtc[{can.extra}]"] = True
    return "; ".join(
        filter(None, [f"from {inputs}, scores: {can.score.value}", ", ".join(k for k in flags if flags[k])])
    )


class Setting(NamedTuple):
    """A hyper-parameter: its name as `--set` takes it, so its default, what it may be, and what it means."""

    key: str
    default: str
    kind: str
    meaning: str


def settings(config: BaseModel, prefix: str = "") -> Iterator[Setting]:
    """The hyper-parameters of a method, groups as `group.key`."""
    import yaml
    from pydantic import BaseModel

    from xmtc.models.setting_docs import meanings

    schema, meant = type(config).model_json_schema()["properties"], meanings(type(config))
    for key in type(config).model_fields:
        value = getattr(config, key)
        if isinstance(value, BaseModel):
            yield from settings(value, f"{prefix}{key}.")
        else:
            shown = yaml.safe_dump(list(value) if isinstance(value, tuple) else value, default_flow_style=True)
            yield Setting(f"{prefix}{key}", shown.partition("\n")[0], kind(schema[key]), meant.get(key, ""))


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
    words += [f"{limit} {facts[key]:g}" for key, limit in limits.items() if abs(facts.get(key, LARGEST)) < LARGEST]
    return ", ".join(words)
