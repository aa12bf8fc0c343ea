"""The options that say how a corpus is to be read, the same for every command that reads one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus

PANEL = "Reading"

FORMAT = Annotated[str | None, typer.Option("--format", help="Format, if not as detected.", rich_help_panel=PANEL)]
TEXT_FIELD = Annotated[
    str, typer.Option("--text-field", help="Field of the text; several, joined: title,body", rich_help_panel=PANEL)
]
LABELS_FIELD = Annotated[str, typer.Option("--labels-field", help="Field of the labels.", rich_help_panel=PANEL)]
ID_FIELD = Annotated[str, typer.Option("--id-field", help="Field of the id.", rich_help_panel=PANEL)]
LABEL_SEPARATOR = Annotated[
    str | None, typer.Option("--label-separator", help="What separates labels in one string.", rich_help_panel=PANEL)
]
LABEL_SET = Annotated[
    str | None,
    typer.Option("--label-set", help="Names and hierarchy: a labels.tsv or a SKOS file.", rich_help_panel=PANEL),
]
LANGUAGE = Annotated[str, typer.Option("--language", help="Language of names in SKOS.", rich_help_panel=PANEL)]
INDEX_BASE = Annotated[
    int, typer.Option("--index-base", min=0, max=1, help="First number in XMC files.", rich_help_panel=PANEL)
]
SKIP_BAD = Annotated[bool, typer.Option("--skip-bad", help="Skip bad lines and count them.", rich_help_panel=PANEL)]


@dataclass(frozen=True)
class Reading:
    """What the user said about how to read."""

    format: str | None = None
    text_field: str = "text"
    labels_field: str = "labels"
    id_field: str = "id"
    label_separator: str | None = None
    label_set: str | None = None
    language: str = "en"
    index_base: int = 0
    skip_bad: bool = False

    def read(
        self,
        path: str,
        part: Literal["train", "test"] = "train",
        *,
        unlabelled: bool = False,
        keep: tuple[str, ...] = (),
    ) -> Corpus:
        """Read a corpus as the user said."""
        from xmtc.corpus.io import read, read_label_set

        return read(
            path,
            part=part,
            format=self.format,
            label_set=read_label_set(self.label_set, self.language) if self.label_set else None,
            text=tuple(self.text_field.split(",")),
            labels=self.labels_field,
            id=self.id_field,
            keep=keep,
            label_separator=self.label_separator,
            index_base=1 if self.index_base else 0,
            unlabelled=unlabelled,
            skip_bad=self.skip_bad,
        )


OPTIONS: dict[str, tuple[Any, Any]] = {
    "format": (FORMAT, None),
    "text_field": (TEXT_FIELD, "text"),
    "labels_field": (LABELS_FIELD, "labels"),
    "id_field": (ID_FIELD, "id"),
    "label_separator": (LABEL_SEPARATOR, None),
    "label_set": (LABEL_SET, None),
    "language": (LANGUAGE, "en"),
    "index_base": (INDEX_BASE, 0),
    "skip_bad": (SKIP_BAD, False),
}


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the reading options; it takes them together as the parameter `reading`."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "reading"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in OPTIONS.items()
    ]

    @wraps(command)
    def wrapped(**values: Any) -> None:
        reading = Reading(**{name: values.pop(name) for name in OPTIONS})
        command(**values, reading=reading)

    every = [*(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own), *added]
    wrapped.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return wrapped
