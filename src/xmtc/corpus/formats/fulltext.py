"""Annif's full texts: a folder with a `.txt` file for each document, and beside it its labels in `.tsv` or `.key`.

Each line of these is a label: `<URI>`, `<URI><tab>name`, or a name alone. A URI in angle brackets is the label's key; a
name is looked up in the label set, and is itself the key if there is none. Where both files exist, `.tsv` is read, as
Annif does. Without a label set, names beside URIs become the labels' names. A document's id is the name of its file
without the suffix. Documents to be tagged need no labels; the folder must then hold nothing but `.txt` files. It is a
format to read only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from xmtc.corpus.builder import CorpusBuilder, ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats.annif import key_of
from xmtc.corpus.label_file import NAME as LABEL_FILE
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode
from xmtc.corpus.strings import Strings
from xmtc.errors import BadInput, XmtcError
from xmtc.progress import track

SUFFIXES: tuple[str, ...] = ()  # it is a folder
HOLDS = ("texts",)
LABEL_SUFFIXES = (".tsv", ".key")


def sniff(head: bytes) -> bool:  # noqa: ARG001 - it is no file
    """Never: see `is_folder_of_texts`."""
    return False


def is_folder_of_texts(folder: Path, *, unlabelled: bool) -> bool:
    """Whether there are `.txt` files in the folder, one of them at least with its labels, or nothing else in it."""
    texts = _texts(folder)
    if any(_labels_file(text) is not None for text in texts):
        return True
    visible = sum(not file.name.startswith(".") and file.name != LABEL_FILE for file in folder.iterdir())
    return unlabelled and 0 < len(texts) == visible


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read all texts of a folder, sorted by name."""
    folder = Path(source.path)
    if not folder.is_dir():
        raise BadInput(folder, None, "a folder of .txt files was expected, this is a file", "name the folder")
    builder = CorpusBuilder(source.path, options, labels)
    names: dict[str, str] = {}
    unknown: dict[str, None] = {}
    both = 0
    for file in track(_texts(folder), f"reading {folder}"):
        try:
            label_file = _labels_file(file)
            if label_file is None and not options.unlabelled:
                raise BadLine(f"neither {file.stem}.tsv nor {file.stem}.key with its labels is beside it")
            found = [(_known(key, name, labels, unknown), name) for key, name in _labels(label_file)]
            builder.add([key for key, _ in found], text=_whole(file), id=file.stem)
        except _BadLineAt as error:
            builder.bad(error.line, error, path=error.path)
        except BadLine as error:
            builder.bad(None, error, path=file)
        else:
            for key, name in found:
                names.setdefault(key, name)
            both += all(file.with_suffix(suffix).exists() for suffix in LABEL_SUFFIXES)
    if both:
        builder.say(f"documents with .tsv and .key, of which .tsv is read: {both:,}")
    if unknown:
        builder.say(f"names that no label of the label set has: {len(unknown):,}, such as {next(iter(unknown))!r}")
    corpus = builder.build()
    if not corpus.targets.nnz:
        builder.say(f".txt files without labels, each of them a document: {len(corpus):,}")
    if labels is None and any(names.values()):
        named = Strings.of(names[key] if names[key] != key else "" for key in corpus.labels.keys)
        return replace(corpus, labels=replace(corpus.labels, names=named))
    return corpus


class _BadLineAt(BadLine):
    """A bad line of one of the files."""

    def __init__(self, path: Path, line: int, error: BadLine) -> None:
        super().__init__(error.problem, error.remedy)
        self.path, self.line = path, line


def _texts(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*.txt") if file.is_file() and not file.name.startswith("."))


def _labels_file(text: Path) -> Path | None:
    found = (text.with_suffix(suffix) for suffix in LABEL_SUFFIXES)
    return next((file for file in found if file.is_file()), None)


def _labels(file: Path | None) -> Iterator[tuple[str, str]]:
    """(key, name) of each label in a file; one of them may be empty."""
    for number, raw in Source(file).lines() if file is not None else ():
        try:
            first, _, rest = decode(raw).strip().partition("\t")
            if first.startswith("<"):
                yield key_of(first.strip()), rest.partition("\t")[0].strip()
            else:
                yield "", first.strip()
        except BadLine as error:
            raise _BadLineAt(file or Path(), number, error) from error


def _known(key: str, name: str, labels: LabelSet | None, unknown: dict[str, None]) -> str:
    """The key of a label that is given by key or by name; a name that the label set does not have is noted."""
    if key or labels is None:
        return key or name
    at = labels.lookup(name)
    if at < 0:
        unknown[name] = None
    return labels.key(at) if at >= 0 else name


def _whole(file: Path) -> str:
    """The content of a text file."""
    pieces = []
    for number, raw in Source(file).all_lines():
        try:
            pieces.append(decode(raw))
        except BadLine as error:
            raise _BadLineAt(file, number, error) from error
    return "\n".join(pieces)


def write(corpus: Corpus, path: str) -> None:
    """Refuse: the ids of documents need not be names of files."""
    raise XmtcError(f"{path}: folders of texts are only read ({corpus.name}); write a file, such as docs.annif.tsv")
