"""`xmtc models`: the methods, or the hyper-parameters of one."""

from __future__ import annotations

from typing import Annotated

import typer


def models(
    name: Annotated[str | None, typer.Argument(help="Show the hyper-parameters of this method.")] = None,
) -> None:
    """List the methods and what they can do, or the hyper-parameters of one.

    Example: `xmtc models knn`
    """
    from rich.console import Console

    from xmtc.models.catalogue import CATALOGUE, model_class

    console = Console()
    if name is not None:
        console.print(hyper_parameter_table(name))
        return
    from rich.table import Table

    table = Table("model", "what it does", "input", "scores", "explains", "learns further", box=None)
    for known in CATALOGUE:
        can = model_class(known).capabilities
        table.add_row(
            known, can.summary, " or ".join(sorted(can.input, reverse=True)), can.score.value,
            "yes" if can.explain else "no", "yes" if can.partial_fit else "no",
        )  # fmt: skip
    console.print(table)


def hyper_parameter_table(name: str):  # type: ignore[no-untyped-def]  # rich is imported on demand
    """Key, type and default of each hyper-parameter of a method, groups as `group.key`."""
    from pydantic import BaseModel
    from rich.table import Table

    from xmtc.models.catalogue import model_class

    table = Table("hyper-parameter", "default", "type", box=None, title=f"{name}: --set key=value")

    def add(settings: BaseModel, prefix: str) -> None:
        for key, field in type(settings).model_fields.items():
            value = getattr(settings, key)
            if isinstance(value, BaseModel):
                add(value, f"{prefix}{key}.")
            else:
                kind = getattr(field.annotation, "__name__", None) or str(field.annotation)
                table.add_row(f"{prefix}{key}", str(value), str(field.annotation) if kind == "Literal" else kind)

    add(model_class(name)().config, "")
    return table
