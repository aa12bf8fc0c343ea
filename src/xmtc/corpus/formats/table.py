"""CSV and TSV with a header line; texts may hold quoted newlines.

The delimiter is that of the suffix (`.csv` comma, `.tsv` tab) unless the header shows that it is another of tab, comma,
semicolon and `|`. The labels of a document stand in one cell: a JSON list of strings, URIs in angle
brackets, as in Annif's CSV (whose column `subject_uris` holds them), or labels between separators.
The separator is the given one; by default `|` if a label cell near the beginning of the file has one, else `;`
likewise, else `|`. A comma is never guessed, since names like "Austen, Jane" have one.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from xmtc.corpus.builder import PARAGRAPH, CorpusBuilder, ReadOptions, named
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats.annif import URIS, key_of
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode, replacing
from xmtc.errors import BadInput
from xmtc.progress import track

SUFFIXES = (".csv", ".tsv")
HOLDS = ("texts", "fields")
DELIMITERS = ("\t", ",", ";", "|")
OWN_DELIMITER = {".csv": ",", ".tsv": "\t"}
SEPARATORS = ("|", ";")
ANNIF_LABELS = "subject_uris"


def sniff(head: bytes) -> bool:
    """Whether the first line is a header with a column `text` or `labels`."""
    return any({"text", "labels"} & set(_header(head, delimiter)) for delimiter in DELIMITERS)


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read a table; the number in an error is the line of the file on which the bad row begins."""
    csv.field_size_limit(sys.maxsize)  # the default refuses documents above 128 kB
    builder = CorpusBuilder(source.path, options, labels)
    head = source.head()
    source.refuse_binary(head)
    delimiter = _delimiter(head, options, OWN_DELIMITER.get(source.suffix))
    rows = _rows(source, builder, delimiter)
    line, header = next(rows, (1, []))
    if not header:
        return builder.build()  # which says that there is no document
    columns = Columns.of(source.path, line, header, options)
    separator = _separator(head, delimiter, columns.labels)
    for line, row in rows:
        try:
            if len(row) != len(header):
                problem = f"{len(row)} cells, but the header has {len(header)} columns split at {delimiter!r}"
                raise BadLine(problem, "quote cells that hold the delimiter, or skip bad lines with --skip-bad")
            columns.add(builder, row, separator)
        except BadLine as error:
            builder.bad(line, error)
    return builder.build()


@dataclass(frozen=True)
class Columns:
    """Where in a row the cells stand that make a document."""

    text: list[int]
    keep: list[int]
    id: int | None
    labels: int | None

    @classmethod
    def of(cls, path: str, line: int, header: Sequence[str], options: ReadOptions) -> Columns:
        """The columns that the options name; BadInput if one is missing or there twice."""

        def at(name: str, option: str) -> int:
            return _column(path, line, header, name, option)

        # Annif's CSV calls it otherwise, which is taken for the labels where nothing else was said.
        tags = ANNIF_LABELS if options.labels == "labels" not in header and ANNIF_LABELS in header else options.labels
        labelled = not options.unlabelled or named(tags, header)
        return cls(
            [at(name, "--text-field") for name in options.text],
            [at(name, "--keep") for name in options.keep],
            at(options.id, "--id-field") if named(options.id, header) else None,
            at(tags, "--labels-field") if labelled else None,
        )

    def add(self, builder: CorpusBuilder, row: Sequence[str], separator: str) -> None:
        """Add the document of a row."""
        labels: Sequence[str] = ()
        if self.labels is not None:
            builder.label_strings += not row[self.labels].startswith("[")
            labels = labels_in_cell(row[self.labels], builder.options, separator)
        builder.add(
            labels,
            text=PARAGRAPH.join([row[position] for position in self.text]),
            id=row[self.id] if self.id is not None else None,
            fields=[row[position] for position in self.keep],
        )


def _rows(source: Source, builder: CorpusBuilder, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(line on which it begins, cells) of every row that is not blank."""

    def text(line: bytes) -> str:
        return decode(line) + "\n"

    # `map`, unlike a generator, goes on after an exception, and so reading goes on after a bad line.
    reader = csv.reader(map(text, source.raw_lines()), delimiter=delimiter, strict=True)
    undecodable = 0  # lines that the reader has not counted
    while True:
        begin = reader.line_num + undecodable + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            at_end = "unexpected end" in str(error)
            builder.bad(begin, BadLine("a quote that opens here is never closed" if at_end else f"not CSV: {error}"))
        except BadLine as error:
            undecodable += 1
            builder.bad(reader.line_num + undecodable, error)
        else:
            if len(row) > 1 or any(map(str.strip, row)):
                yield begin, row


def _header(head: bytes, delimiter: str) -> list[str]:
    first = head.decode("utf-8", "replace").lstrip("\r\n").splitlines(keepends=True)[:1]
    return next(csv.reader(first, delimiter=delimiter), [])


def _delimiter(head: bytes, options: ReadOptions, own: str | None) -> str:
    """The delimiter whose header has the text columns; in doubt the suffix's own, then the one with most columns."""

    def merit(delimiter: str) -> tuple[bool, bool, int]:
        header = _header(head, delimiter)
        return all(named(name, header) for name in options.text), delimiter == own and len(header) > 1, len(header)

    return max(DELIMITERS, key=merit)


def _separator(head: bytes, delimiter: str, labels_at: int | None) -> str:
    """The label separator by the rule in the module's docstring, from the cells in the file's first bytes."""
    if labels_at is None:
        return SEPARATORS[0]
    begin = io.StringIO(head.decode("utf-8", "replace"), newline="")
    rows = list(csv.reader(begin, delimiter=delimiter))[1:]
    return likely_separator([row[labels_at] for row in rows if len(row) > labels_at])


def likely_separator(cells: Sequence[str]) -> str:
    """The label separator by the rule in the module's docstring.

    >>> likely_separator(["apple", "apple;food"]), likely_separator(["Austen, Jane"])
    (';', '|')
    """
    # A JSON list delimits its own labels, so a separator inside it means nothing.
    plain = [cell for cell in cells if not cell.startswith("[")]
    return next((s for s in SEPARATORS if any(s in cell for cell in plain)), SEPARATORS[0])


def _column(path: str, line: int, header: Sequence[str], name: str, option: str) -> int:
    """The position of a column that is needed; an error if there is none, or two."""
    if found := named(name, header):
        if header.count(found) > 1:
            problem = f"{header.count(found)} columns are called {found!r}"
            raise BadInput(path, line, problem, f"rename one of them, or name another with {option}")
        return header.index(found)
    if len(header) == 1:
        problem = f"a wrong delimiter? The header is a single column {header[0]!r}, and {name!r} is missing"
        raise BadInput(path, line, problem, "separate the columns by tab, comma, semicolon or |")
    there = ", ".join(map(repr, header))
    raise BadInput(path, line, f"no column {name!r} (columns found: {there})", f"name the column with {option}")


def labels_in_cell(cell: str, options: ReadOptions, separator: str) -> list[str]:
    """The labels of a cell: a JSON list of strings, URIs in angle brackets, or labels between separators.

    >>> labels_in_cell("<http://example.org/p1> <http://example.org/p2>", ReadOptions(), ";")
    ['http://example.org/p1', 'http://example.org/p2']
    """
    if cell.startswith("<") and URIS.fullmatch(cell):
        return [key_of(word) for word in cell.split()]
    if cell.startswith("[") and cell.endswith("]"):
        try:
            listed = orjson.loads(cell)
        except orjson.JSONDecodeError:
            pass  # a label in brackets, not a JSON list
        else:
            if all(isinstance(label, str) for label in listed):
                return list(listed)
    return options.split(cell, separator)


def labels_as_cell(labels: Sequence[str]) -> str:
    """Labels as one cell: with `|` between them, or as a JSON list where that would be ambiguous."""
    joined = SEPARATORS[0].join(labels)
    plain = ";" not in joined and labels_in_cell(joined, ReadOptions(), SEPARATORS[0]) == labels
    return joined if plain else orjson.dumps(labels).decode()


def as_rows(corpus: Corpus, path: str) -> Iterator[list[str]]:
    """The header (id, text, labels, and the columns that were kept) and a row for each document."""
    assert corpus.texts is not None
    keys = list(corpus.labels.keys)
    yield ["id", "text", "labels", *corpus.fields]
    for row in track(range(len(corpus)), f"writing {path}"):
        labels = labels_as_cell([keys[label] for label in corpus.labels_of(row)])
        yield [corpus.id(row), corpus.texts[row], labels, *(column[row] for column in corpus.fields.values())]


def write(corpus: Corpus, path: str) -> None:
    """Write a table with the columns id, text, labels and those that were kept; NUL characters become spaces."""
    delimiter = "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","
    with replacing(path) as out:
        stream = io.TextIOWrapper(out, "utf-8", newline="")
        # The line end of RFC 4180; with a plain newline, the csv module would not quote carriage returns in a text.
        writer = csv.writer(stream, delimiter=delimiter, lineterminator="\r\n")
        for row in as_rows(corpus, path):
            writer.writerow([cell.replace("\0", " ") for cell in row])
        stream.detach()  # flushes, and leaves the file to `replacing`
