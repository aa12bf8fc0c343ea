"""fastText lines: `__label__baking __label__bread How long must the dough rest?`

In a file without labels, as for prediction, every line is a document, also a blank one. Among lines with labels, blank
ones are no documents; their number is said on standard error.

As in fastText, every word that begins with `__label__` is a label, wherever it is in the line; the rest is the text.
Writing refuses what the format cannot hold: labels with white space in them, texts in which a word begins with
`__label__`, and documents with neither labels nor text. Line ends inside a text become spaces, and white space around
a text is dropped.
"""

from __future__ import annotations

import re

from xmtc.corpus.builder import CorpusBuilder, ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode, write_lines
from xmtc.errors import XmtcError

SUFFIXES = (".fasttext", ".ft", ".txt")
HOLDS = ("texts",)
PREFIX = "__label__"
# On bytes, \s is ASCII white space: a no-break space is part of a label. A lookbehind checks that the prefix begins a
# word, so that the search can skip from prefix to prefix, which is five times as fast.
LABEL = re.compile(rb"__label__(?<!\S__label__)(\S*)\s*")


def sniff(head: bytes) -> bool:
    """Whether the first line has a word that begins with `__label__`."""
    return LABEL.search(head.lstrip().partition(b"\n")[0]) is not None


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read fastText lines, or plain texts; for blank lines see above."""
    builder = CorpusBuilder(source.path, options, labels)
    plain = options.unlabelled and not sniff(source.head())
    blank = 0
    for number, line in source.all_lines():
        if not plain and (not line or line.isspace()):
            blank += 1
        else:
            add_line(builder, number, line)
    if blank and len(builder):
        builder.say(f"blank lines left out: {blank:,}")
    return builder.build()


def add_line(builder: CorpusBuilder, number: int, line: bytes) -> None:
    """Add the document of a line."""
    try:
        tags: list[str] = []
        if PREFIX.encode() in line:
            tags = [decode(tag) for tag in LABEL.findall(line)]
            line = LABEL.sub(b"", line)
        builder.add(tags, text=decode(line.strip()))
    except BadLine as error:
        builder.bad(number, error)


def one_line(text: str) -> str:
    """The text with its line ends (and NUL characters, which mark a binary file) turned into spaces."""
    return text.replace("\n", " ").replace("\r", " ").replace("\0", " ")


def words(labels: LabelSet) -> list[str]:
    """The keys of all labels, for a format that separates labels by white space; an error if one has a space."""
    keys = list(labels.keys)
    for key in keys:
        if len(key.encode().split()) != 1 or key != key.strip(" \t\n\r\v\f") or "\0" in key:
            raise XmtcError(
                f"the label {key!r} has white space in it, which separates labels in this format; "
                "write .jsonl, .csv or .parquet, which hold any label"
            )
    return keys


def write(corpus: Corpus, path: str) -> None:
    """Write fastText lines; what they cannot hold is an error, see above."""
    assert corpus.texts is not None
    keys = words(corpus.labels)

    def line(row: int, text: str) -> str:
        flat = one_line(text).strip(" \t\v\f")
        if LABEL.search(flat.encode()):
            raise XmtcError(
                f"the text of document {corpus.id(row)!r} has a word that begins with {PREFIX}; write .jsonl"
            )
        whole = " ".join([*(PREFIX + keys[label] for label in corpus.labels_of(row)), flat])
        if not whole:
            raise XmtcError(f"document {corpus.id(row)!r} has neither text nor labels: no fastText line; write .jsonl")
        return whole

    write_lines(path, (line(row, text) for row, text in enumerate(corpus.texts)))
