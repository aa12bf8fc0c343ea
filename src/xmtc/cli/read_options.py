"""The options that say how to read a corpus, the same for every command that reads one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from xmtc.cli.output import printable, share_or_number

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.corpus.sources import Source
    from xmtc.models.base import Model

#: the options that a model remembers, and what they are if neither the user nor the model says
REMEMBERED: dict[str, Any] = {
    "text_field": "text",
    "labels_field": "labels",
    "id_field": "id",
    "label_separator": None,
    "index_base": 0,
}


Part = Literal["train", "dev", "test"]


def _option(name: str, help: str, min: int | None = None, max: int | None = None) -> Any:
    return typer.Option(name, help=help, min=min, max=max, rich_help_panel="Reading")


@dataclass(frozen=True)
class Reading:
    """How to read, as the user said (None: not said); each field is an option of the command line.

    >>> reading = Reading(text_field="title, body")
    >>> reading.remembered()
    {'text_field': 'title, body'}
    """

    notice = ""  # what was taken from a model, said when a file with fields is read

    format: Annotated[str | None, _option("--format", "Format, if not as detected.")] = None
    text_field: Annotated[
        str | None, _option("--text-field", "Field of the text, if not text; several, joined: title,body")
    ] = None
    labels_field: Annotated[str | None, _option("--labels-field", "Field of the labels, if not labels.")] = None
    id_field: Annotated[str | None, _option("--id-field", "Field of the id, if not id.")] = None
    label_separator: Annotated[str | None, _option("--label-separator", "What separates labels in one string.")] = None
    label_set: Annotated[str | None, _option("--label-set", "Names and hierarchy: labels.tsv, SKOS or Annif.")] = None
    language: Annotated[str, _option("--language", "Language of names in a vocabulary: de, or de,en.")] = "en"
    index_base: Annotated[int | None, _option("--index-base", "First number in XMC files, if not 0.", min=0, max=1)] = (
        None
    )
    skip_bad: Annotated[bool, _option("--skip-bad", "Skip bad lines and count them.")] = False

    def read(
        self,
        path: str | Source,
        part: Part = "train",
        *,
        unlabelled: bool = False,
        keep: tuple[str, ...] = (),
    ) -> Corpus:
        """Read a corpus as the user said."""
        from xmtc.corpus.io import locate, read, read_label_set

        source, format = locate(path, part, self.format, unlabelled=unlabelled)
        self._say_notice(source, format)
        return read(
            source,
            format=format,
            label_set=read_label_set(self.label_set, self.language) if self.label_set else None,
            keep=keep,
            unlabelled=unlabelled,
            **self._options(),
        )

    def read_to_tag(self, path: str) -> Iterator[Corpus]:
        """The documents to be tagged: of standard input as they come in, if each line is one; else all at once."""
        from xmtc.corpus.builder import ReadOptions
        from xmtc.corpus.sources import Source
        from xmtc.corpus.stream import stream, streamed_format

        if path != "-" or self.label_set is not None:
            yield self.read(path, "test", unlabelled=True)
            return
        source = Source(path)
        format = streamed_format(source, self.format)
        if format is None:
            yield self.read(source, "test", unlabelled=True)
            return
        self._say_notice(source, format)
        yield from stream(source, format, ReadOptions(unlabelled=True, **self._options()))

    def _say_notice(self, source: Source, format: str) -> None:
        from xmtc.corpus.formats import format_module

        if self.notice and ("fields" in format_module(format).HOLDS or format == "xmc"):
            print(printable(f"{source.path}: {self.notice}"), file=sys.stderr)

    def _options(self) -> dict[str, Any]:
        """What the user, the model or nobody said, as readers take it."""
        said = {**REMEMBERED, **self.remembered()}
        return {
            "text": tuple(said["text_field"].split(",")),
            "labels": said["labels_field"],
            "id": said["id_field"],
            "label_separator": said["label_separator"],
            "index_base": said["index_base"],
            "skip_bad": self.skip_bad,
        }

    def read_weighted(self, path: str, weight_field: str | None, label_weights: str | None = None) -> Corpus:
        """Read training documents, with each one's weight from a field and weights of labels from a file."""
        from xmtc.corpus.weights import read_label_weights
        from xmtc.errors import BadInput

        if weight_field is None:
            documents, weights = self.read(path), None
        else:
            try:
                documents = self.read(path, keep=(weight_field,))
            except BadInput as error:
                if f" {weight_field!r}" not in error.problem:
                    raise
                remedy = "name the field of the weights with --weight-field"
                raise BadInput(error.path, error.line, error.problem, remedy) from error
            weights = documents.fields[weight_field]
        names = (f"{path}: --weight-field {weight_field}", f"--label-weights {label_weights}")
        of_labels = read_label_weights(label_weights) if label_weights is not None else None
        return documents.with_weights(weights, of_labels, names)

    def read_labelled(
        self, path: str, part: Part = "train", *, unlabelled: bool = False, keep: tuple[str, ...] = ()
    ) -> Corpus:
        """As `read`; without labels, the error names `--unlabelled`, an option of the commands that call this."""
        from xmtc.errors import BadInput

        try:
            return self.read(path, part, unlabelled=unlabelled, keep=keep)
        except BadInput as error:
            if unlabelled or not ("label" in error.remedy + error.problem or error.problem == "unknown format"):
                raise
            remedy = "name the labels with --labels-field" if "--labels-field" in error.remedy else error.remedy
            remedy += ", or give --unlabelled if the documents have none"
            raise BadInput(error.path, error.line, error.problem, remedy) from error

    def remembered(self) -> dict[str, Any]:
        """What a model keeps of this in its manifest, for `for_model`: the options that the user gave."""
        return {name: value for name in REMEMBERED if (value := getattr(self, name)) is not None}

    def for_model(self, model: Model | str | Path) -> Reading:
        """The same, with what the user did not say taken from the model: as its training documents were read.

        Reading a file with fields then says on standard error what was taken, unless it is what would be read anyway.
        """
        kept = _kept_by(model)
        taken = {name: value for name, value in kept.items() if getattr(self, name) is None}
        reading = replace(self, **taken)
        if other := {name: value for name, value in taken.items() if value != REMEMBERED[name]}:
            options = " ".join(f"--{name.replace('_', '-')} {_quoted(value)}" for name, value in other.items())
            object.__setattr__(reading, "notice", f"read as the model's training documents were: {options}")
        return reading

    def hold_out(self, documents: Corpus, size_or_file: str, option: str, seed: int) -> tuple[Corpus, Corpus]:
        """(rest, held-out part): a share or number of the documents is split off, or a file is read."""
        try:
            float(size_or_file)
        except ValueError:
            return documents, self.read(size_or_file, "test")
        return documents.split(share_or_number(size_or_file, option), seed=seed)


def _kept_by(model: Model | str | Path) -> Mapping[str, Any]:
    """What a model, or the manifest in a folder, remembers of how its training documents were read."""
    from xmtc.errors import BadModelFolder
    from xmtc.storage import opening

    kept = opening(model).manifest.get("reading", {}) if isinstance(model, (str, Path)) else model.reading_
    for name, value in kept.items():
        right = value in (0, 1) if name == "index_base" else isinstance(value, str)
        if name not in REMEMBERED or not right:
            raise BadModelFolder(f"its manifest says that documents are read with {name} {value!r}; train it again")
    return kept


def _quoted(value: object) -> str:
    """The value of an option as a shell takes it."""
    import shlex

    return shlex.quote(str(value))


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
