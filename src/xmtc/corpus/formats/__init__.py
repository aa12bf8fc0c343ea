"""The formats by name, suffix and ability; their modules are imported on demand."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from xmtc.corpus.builder import ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import Source
from xmtc.errors import ConfigError

# Order matters for detection by content: the strictest first.
FORMATS = ("parquet", "excel", "npz", "json", "jsonl", "xmc", "fasttext", "annif", "table", "textpair", "fulltext")
READ_ONLY = ("fulltext",)


class Format(Protocol):
    """What a format's module offers."""

    SUFFIXES: tuple[str, ...]
    HOLDS: tuple[str, ...]  # of "texts", "features" and "fields"

    def sniff(self, head: bytes) -> bool:
        """Whether the file's first bytes look like this format."""

    def read(self, source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
        """Read the whole file."""

    def write(self, corpus: Corpus, path: str) -> None:
        """Write the corpus."""


def format_module(name: str) -> Format:
    """The module of a format by name."""
    if name not in FORMATS:
        raise ConfigError(f"unknown format {name!r}; known formats: {', '.join(FORMATS)}")
    return cast(Format, importlib.import_module(f"xmtc.corpus.formats.{name}"))


def by_suffix(path: str | Path) -> list[str]:
    """The formats that the name of a file allows: those with the longest suffix that fits.

    >>> by_suffix("docs.csv.gz"), by_suffix("train_texts.txt"), by_suffix("docs.docx")
    (['table'], ['textpair'], [])
    """
    file = Path(path).name.lower().removesuffix(".gz")
    suffixes = {name: [s for s in format_module(name).SUFFIXES if file.endswith(s)] for name in FORMATS}
    longest = max((len(suffix) for fitting in suffixes.values() for suffix in fitting), default=0)
    return [name for name, fitting in suffixes.items() if any(len(suffix) == longest for suffix in fitting)]


def holding(what: str) -> str:
    """The names of the formats to write that hold "texts", "features" or "fields", for a message."""
    return ", ".join(name for name in FORMATS if what in format_module(name).HOLDS and name not in READ_ONLY)
