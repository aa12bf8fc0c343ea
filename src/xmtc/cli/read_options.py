"""The options that say how to read a corpus, the same for every command that reads one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from xmtc.cli.output import share_or_number

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus


def _option(name: str, help: str, min: int | None = None, max: int | None = None) -> Any:
    return typer.Option(name, help=help, min=min, max=max, rich_help_panel="Reading")


@dataclass(frozen=True)
class Reading:
    """How to read, as the user said; each field is an option of the command line."""

    format: Annotated[str | None, _option("--format", "Format, if not as detected.")] = None
    text_field: Annotated[str, _option("--text-field", "Field of the text; several, joined: title,body")] = "text"
    labels_field: Annotated[str, _option("--labels-field", "Field of the labels.")] = "labels"
    id_field: Annotated[str, _option("--id-field", "Field of the id.")] = "id"
    label_separator: Annotated[str | None, _option("--label-separator", "What separates labels in one string.")] = None
    label_set: Annotated[str | None, _option("--label-set", "Names and hierarchy: a labels.tsv or a SKOS file.")] = None
    language: Annotated[str, _option("--language", "Language of names in SKOS.")] = "en"
    index_base: Annotated[int, _option("--index-base", "First number in XMC files.", min=0, max=1)] = 0
    skip_bad: Annotated[bool, _option("--skip-bad", "Skip bad lines and count them.")] = False

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

    def hold_out(self, documents: Corpus, size_or_file: str, option: str, seed: int) -> tuple[Corpus, Corpus]:
        """(rest, held-out part): a share or number of the documents is split off, or a file is read."""
        try:
            float(size_or_file)
        except ValueError:
            return documents, self.read(size_or_file, "test")
        return documents.split(share_or_number(size_or_file, option), seed=seed)


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the reading options; it takes them together as the parameter `reading`."""
    signature = inspect.signature(command, eval_str=True)
    options = inspect.signature(Reading, eval_str=True).parameters
    own = [parameter for name, parameter in signature.parameters.items() if name != "reading"]
    every = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *options.values())]

    @wraps(command)
    def wrapped(**values: Any) -> None:
        reading = Reading(**{name: values.pop(name) for name in options})
        command(**values, reading=reading)

    wrapped.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return wrapped
