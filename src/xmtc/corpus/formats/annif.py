"""Annif's short texts: lines `text<tab><URI> <URI> ...` without a header.

A label's key is its URI without the angle brackets. A file is detected by them; with the format given, any words after
the tab are labels, with or without brackets. A line without a tab is an error, but in documents to be tagged it is a
text. Writing refuses labels with white space or angle brackets in them; line ends and tabs in a text become spaces.
"""

from __future__ import annotations

import re

from xmtc.corpus.builder import CorpusBuilder, ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats.fasttext import one_line, words
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode, write_lines
from xmtc.errors import XmtcError

SUFFIXES = (".annif.tsv",)
HOLDS = ("texts",)
URI = r"<[^\s<>:]+:[^\s<>]*>"
BRACKETED = re.compile(r"\s*<[^\s<>]+>(?:\s+<[^\s<>]+>)*\s*")
URIS = re.compile(rf"\s*{URI}(?:\s+{URI})*\s*")
LOOKED_AT = 50  # lines, to detect the format


def sniff(head: bytes) -> bool:
    """Whether most of the first lines are texts with words in angle brackets, or with nothing, after a tab.

    Not all of them, so that a bad line is an error with its number, and not a table without a header.
    """
    lines = head.decode("utf-8", "replace").split("\n")
    if len(lines) > 1:
        lines.pop()  # which may be cut off
    seen = list(filter(str.strip, lines[:LOOKED_AT]))
    labels = [line.partition("\t")[2].strip() for line in seen if "\t" in line]
    with_labels = sum(BRACKETED.fullmatch(each) is not None for each in labels)
    return with_labels > 0 and 2 * (with_labels + labels.count("")) > len(seen)


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read short texts; blank lines are left out, and counted."""
    builder = CorpusBuilder(source.path, options, labels)
    blank = 0
    for number, line in source.all_lines():
        if not line.strip():
            blank += 1
            continue
        try:
            text, tab, uris = decode(line).partition("\t")
            if not tab and not options.unlabelled:
                raise BadLine("no tab between the text and its labels")
            builder.add([key_of(word) for word in uris.split()], text=text)
        except BadLine as error:
            builder.bad(number, error)
    if blank and len(builder):
        builder.say(f"blank lines left out: {blank:,}")
    return builder.build()


def key_of(word: str) -> str:
    """A label's key: the URI without its angle brackets; BadLine if there is only one of them, or nothing in them.

    >>> key_of("<http://example.org/p1>"), key_of("p1")
    ('http://example.org/p1', 'p1')
    """
    if word.startswith("<") != word.endswith(">"):
        raise BadLine(f"{word!r} has but one of two angle brackets")
    key = word[1:-1].strip() if word.startswith("<") else word
    if not key:
        raise BadLine("one of the labels is empty")
    return key


def write(corpus: Corpus, path: str) -> None:
    """Write short texts; what they cannot hold is an error, see above."""
    assert corpus.texts is not None
    keys = words(corpus.labels)
    if wrong := next((key for key in keys if "<" in key or ">" in key), None):
        raise XmtcError(f"the label {wrong!r} has angle brackets in it, which enclose labels in this format")

    def line(row: int, text: str) -> str:
        return f"{one_line(text).replace(chr(9), ' ')}\t" + " ".join(f"<{keys[at]}>" for at in corpus.labels_of(row))

    write_lines(path, (line(row, text) for row, text in enumerate(corpus.texts)))
