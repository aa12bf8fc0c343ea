"""Reading and writing corpora: detects the format and calls its module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from xmtc.corpus import folder, label_file
from xmtc.corpus.builder import ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats import FORMATS, by_suffix, format_module, holding
from xmtc.corpus.frames import described
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.overwriting import becomes_folder
from xmtc.corpus.sources import Source, check_path
from xmtc.errors import BadInput, ConfigError, XmtcError

BINARY = ("parquet", "excel", "npz")  # known by their first bytes, whatever the name says
NUMBERED = ("npz", "xmc")  # know labels only by number, and look for labels.tsv themselves


def read(
    path: str | Path | Source,
    *,
    part: str = "train",
    format: str | None = None,
    label_set: LabelSet | str | Path | None = None,
    text: str | Sequence[str] = "text",
    labels: str = "labels",
    id: str = "id",
    keep: Sequence[str] = (),
    label_separator: str | None = None,
    index_base: Literal[0, 1] = 0,
    unlabelled: bool = False,
    skip_bad: bool = False,
) -> Corpus:
    """Read a corpus from a file, from `-` (standard input), or from a folder with `train.*` and `test.*`.

    Args:
        part: which file of a folder: "train" or "test".
        format: one of FORMATS; by default detected from name and content.
        label_set: the labels, their names and parents: a LabelSet, or the path of a `labels.tsv`, a SKOS vocabulary or
            one of Annif's. If not given, a file `labels.tsv` in the folder of the corpus file is used. Its labels come
            first, in its order; labels that only the documents have are appended.
        text, labels, id: names of the fields or columns; several text fields are joined by a blank line.
        keep: further fields to keep in `Corpus.fields`.
        label_separator: the separator of labels that are given as one string.
        index_base: whether labels and features of the xmc format are numbered from 0 or 1.
        unlabelled: accept documents without labels, as for prediction; a plain text is then one document per line.
        skip_bad: skip bad lines, and report their number on standard error, instead of raising BadInput for the first.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "docs.csv")
    >>> _ = file.write_text("text,labels\\nred fruit,apple|food\\nblue sky,weather\\n")
    >>> corpus = read(file)
    >>> len(corpus), list(corpus.labels.keys)
    (2, ['apple', 'food', 'weather'])
    """
    if not isinstance(path, Source):
        check_path(path, "read", "the name of a file or folder (for a table there is Corpus.of)")
    if index_base not in (0, 1):
        raise ConfigError(f"index_base is {index_base}; it must be 0 or 1")
    options = ReadOptions(
        text=(text,) if isinstance(text, str) else tuple(text),
        labels=labels,
        id=id,
        keep=tuple(keep),
        label_separator=label_separator,
        index_base=index_base,
        unlabelled=unlabelled,
        skip_bad=skip_bad,
    )
    source, name = locate(path, part, format, unlabelled=unlabelled)
    module = format_module(name)
    if options.keep and "fields" not in module.HOLDS:
        raise ConfigError(f"{source.path}: {name} files have no fields to keep; {holding('fields')} have")
    if isinstance(label_set, (str, Path)):
        label_set = read_label_set(label_set)
    elif label_set is None and name not in NUMBERED and (beside := label_file.beside(source.path)):
        label_set = read_label_set(beside)
    return module.read(source, options, label_set)


def locate(
    path: str | Path | Source, part: str = "train", format: str | None = None, *, unlabelled: bool = False
) -> tuple[Source, str]:
    """The file to read (of a folder: that of the part) and its format; arguments as those of `read`."""
    if isinstance(path, Source):
        source = path
    elif str(path) not in ("", "-") and Path(path).is_dir():
        if texts := folder.part_of_texts(path, part, unlabelled=unlabelled, format=format):
            return Source(texts, folder=True), "fulltext"
        source = Source(folder.part_file(path, part))
    else:
        source = Source(path)
    return source, format or detect(source, unlabelled=unlabelled)


def detect(source: Source, *, unlabelled: bool = False, head: bytes | None = None) -> str:
    """The format of a file by its name and its first bytes, or by those given; BadInput if neither tells.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "docs.txt")
    >>> _ = file.write_text("__label__weather blue sky\\n")
    >>> detect(Source(file))
    'fasttext'
    """
    head = source.head() if head is None else head
    named = by_suffix(source.path)
    for name in BINARY:
        if format_module(name).sniff(head):
            # A workbook and a pair of matrices are zip files both: the name tells which one is damaged.
            return "excel" if name == "npz" and named == ["excel"] else name
    source.refuse_binary(head)
    for name in [*named, *FORMATS]:
        if format_module(name).sniff(head):
            return name
    if len(named) == 1:
        return named[0]  # its reader will say what is wrong, and on which line
    if not head.strip():
        raise BadInput(source.path, None, "the file is empty", "give a file with one document a line")
    if unlabelled:
        return "fasttext"  # whose lines without labels are just texts
    raise BadInput(source.path, 1, "unknown format", f"say which it is with --format: {', '.join(FORMATS)}")


def read_label_set(path: str | Path, language: str = "en") -> LabelSet:
    """Read `labels.tsv`, a SKOS vocabulary or one of Annif's, with names in this language.

    Of several languages (`de,en`) the first gives the names, the others further synonyms.
    """
    from xmtc.corpus import annif_vocabulary, skos

    languages = [each.strip().lower() for each in language.split(",") if each.strip()]
    if not languages:
        raise ConfigError("no language is named; say one such as en, or several: de,en")
    source = Source(path)
    if source.suffix in skos.SYNTAX:
        return skos.read_labels(path, languages)
    if source.suffix == ".csv":
        return annif_vocabulary.read_csv(source, languages)
    if source.suffix == ".tsv":
        return annif_vocabulary.read_tsv(source) if annif_vocabulary.looks_like_tsv(source) else label_file.read(path)
    known = ", ".join((".tsv", ".csv", *skos.SYNTAX))
    raise BadInput(path, None, "this suffix is not that of a label set", f"known suffixes: {known}")


def write(corpus: Corpus, path: str | Path, format: str | None = None) -> None:
    """Write a corpus in the given format, else in that of the suffix; JSON lines to `-`.

    A path that is a folder, or has no suffix, becomes a folder: see `folder.write`. With the suffix `.txt`, texts are
    written as fastText lines and features in the xmc format. Texts or features that a format cannot hold are an error;
    ids and kept fields are dropped where a format has no columns for them.

    A file that is there is replaced, by renaming the complete new one into its place: also the one that the corpus was
    read from, which is in memory by then, although fields that were not read are lost. `xmtc convert` refuses both.
    """
    if not isinstance(corpus, Corpus):
        raise XmtcError(f"write takes a corpus and then a path, not {described(corpus)}; make one with Corpus.of")
    check_path(path, "write", "the name of a file or folder")
    if becomes_folder(path, format):
        folder.write({"train": corpus}, path)
        return
    holds = [what for what in ("texts", "features") if getattr(corpus, what) is not None]
    if not holds:
        raise XmtcError(f"{corpus.name} has neither texts nor features to write")
    name = format or _format_for(holds[0], str(path))
    module = format_module(name)
    for what in holds:
        if what not in module.HOLDS:
            raise XmtcError(f"{path}: {name} files cannot hold {what}; {holding(what)} files can: choose one of these")
    module.write(corpus, str(path))


def _format_for(content: str, path: str) -> str:
    """The format that the path's suffix names; where two do, the one that holds "texts" or "features"."""
    if path == "-":
        return "jsonl"
    named = by_suffix(path)
    if not named:
        known = dict.fromkeys(suffix for name in FORMATS for suffix in format_module(name).SUFFIXES)
        raise XmtcError(f"{path}: the suffix says no format; known suffixes: {', '.join(known)}")
    return next((name for name in named if content in format_module(name).HOLDS), named[0])
