"""Two files with a line for each document: `train_texts.txt` and, labels separated by white space, `train_labels.txt`.

Any prefix will do, `_raw_texts.txt` goes with `_labels.txt` too, and either file may be gzipped. An empty line of
labels is a document without labels. Labels with white space in them cannot be written; line ends in a text become
spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from xmtc.corpus.builder import CorpusBuilder, ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats.fasttext import one_line, words
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode, write_lines
from xmtc.errors import BadInput, XmtcError

SUFFIXES = ("_texts.txt", "_labels.txt")
HOLDS = ("texts",)
NAME = re.compile(r"(?P<prefix>.*?)(?P<raw>_raw)?_(?P<kind>texts|labels)\.txt(?P<gz>\.gz)?")


def sniff(head: bytes) -> bool:  # noqa: ARG001 - any text could be one of a pair
    """Never: only the name tells."""
    return False


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read a pair, given the path of either file."""
    if source.is_stdin:
        raise BadInput("-", None, "a pair of files cannot be read from standard input", "name the _texts.txt file")
    texts_path, labels_path = _pair(Path(source.path))
    if texts_path is None:
        raise BadInput(source.path, None, "the _texts.txt file that belongs to it is missing", "put it beside")
    if labels_path is None and not options.unlabelled:
        raise BadInput(texts_path, None, "the _labels.txt file that belongs to it is missing", "put it beside")
    builder = CorpusBuilder(str(texts_path), options, labels)
    for number, text, tags in _documents(texts_path, labels_path):
        try:
            builder.add([decode(tag) for tag in tags.split()], text=decode(text))
        except BadLine as error:
            builder.bad(number, error)
    return builder.build()


def _documents(texts_path: Path, labels_path: Path | None) -> Iterator[tuple[int, bytes, bytes]]:
    """(line number, text, labels) of each document."""
    texts = Source(texts_path).all_lines()
    if labels_path is None:
        for number, text in texts:
            yield number, text, b""
        return
    for text_line, labels_line in zip_longest(texts, Source(labels_path).all_lines()):
        if text_line is None or labels_line is None:
            counts = [sum(1 for _ in Source(path).raw_lines()) for path in (texts_path, labels_path)]
            problem = f"{counts[0]} lines of texts, but {counts[1]} lines of labels in {labels_path}"
            raise BadInput(texts_path, min(counts) + 1, problem, "give both files a line for each document")
        yield *text_line, labels_line[1]


def _pair(path: Path) -> tuple[Path | None, Path | None]:
    """The files of texts and of labels that belong together, None where there is none."""
    name = NAME.fullmatch(path.name)
    if name is None:
        raise BadInput(path, None, "not a pair's name", "name the files like train_texts.txt and train_labels.txt")

    def partner(kinds: tuple[str, ...]) -> Path | None:
        names = [f"{name['prefix']}{kind}.txt{gz}" for kind in kinds for gz in ("", ".gz")]
        return next((path.with_name(n) for n in names if path.with_name(n).exists()), None)

    if name["kind"] == "texts":
        return path, partner(("_raw_labels", "_labels") if name["raw"] else ("_labels",))
    return partner(("_raw_texts",) if name["raw"] else ("_texts", "_raw_texts")), path


def pair_of(path: Path) -> list[Path]:
    """The files that reading or writing this path touches, nothing if its name is not that of a pair."""
    name = NAME.fullmatch(path.name)
    if name is None:
        return []
    return [file for file in (*_pair(path), _labels_path(path, name)) if file is not None]


def _labels_path(path: Path, name: re.Match[str]) -> Path:
    """Where the labels are written that belong to a file of texts."""
    return path.with_name(f"{name['prefix']}_labels.txt{name['gz'] or ''}")


def write(corpus: Corpus, path: str) -> None:
    """Write a pair, given the path of the file of texts; gzipped if that ends in .gz."""
    assert corpus.texts is not None
    name = NAME.fullmatch(Path(path).name)
    if name is None or name["kind"] != "texts":
        raise XmtcError(f"{path}: the name of a pair's first file must end in _texts.txt or _texts.txt.gz")
    keys = words(corpus.labels)
    rows = range(len(corpus))
    write_lines(path, map(one_line, corpus.texts))
    write_lines(
        _labels_path(Path(path), name), (" ".join(keys[label] for label in corpus.labels_of(row)) for row in rows)
    )
