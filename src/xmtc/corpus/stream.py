"""Documents to be tagged that come in on standard input, one a line: read as they come, however many there will be."""

from __future__ import annotations

from collections.abc import Iterator

from xmtc.corpus.builder import CorpusBuilder, ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats import fasttext, jsonl
from xmtc.corpus.io import detect
from xmtc.corpus.sources import GZIP_MAGIC, Source

DOCUMENTS, BYTES = 4096, 8 << 20  # a corpus is handed out when it has as many
FORMATS = ("jsonl", "fasttext")


def streamed_format(source: Source, format: str | None = None) -> str | None:
    """The format of standard input if each of its lines is a document; None if it must be read as a whole.

    The first line tells, so that its answer need not wait for the second. Two do not: one with a tab may be a text, or
    one of Annif's short texts, which are known by several lines; a lone bracket begins a list in JSON.
    """
    if not source.is_stdin:
        return None
    if format is None:
        first = source.first_line()
        if not first or first.startswith(GZIP_MAGIC) or b"\t" in first or first.strip() == b"[":
            return None
        format = detect(source, unlabelled=True, head=first)
    return format if format in FORMATS else None


def stream(source: Source, format: str, options: ReadOptions) -> Iterator[Corpus]:
    """The documents of standard input without labels, as corpora of those that are there at a time.

    Documents without an id have their number in the stream.
    """
    builder = CorpusBuilder(source.path, options)
    texts_only = format == "fasttext" and not fasttext.sniff(source.first_line())
    first, size = 1, 0
    for lines in source.batches():
        if format == "jsonl":
            jsonl.add_lines(builder, first, lines)
        else:
            for number, line in enumerate(lines, first):
                line = line.removesuffix(b"\r")
                if texts_only or line.strip():
                    fasttext.add_line(builder, number, line)
        first, size = first + len(lines), size + sum(map(len, lines))
        if len(builder) and (len(builder) >= DOCUMENTS or size >= BYTES or not source.waiting()):
            yield builder.take()
            size = 0
    if len(builder):
        yield builder.take()
    builder.finish()
