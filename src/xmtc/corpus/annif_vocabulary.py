"""Annif's vocabularies as label sets: TSV lines `<URI><tab>label[<tab>notation]`, or CSV with a header.

A label's key is its URI without angle brackets. The CSV has the columns `uri` and `label_en`, `label_fi` and so on for
each language; the name is the label in the chosen language, the labels in further languages that are asked for
(`en,fi`) are alternatives. A notation (the number of a class) is an alternative too. A concept without a label is
called by its URI.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xmtc.corpus.formats.annif import key_of
from xmtc.corpus.label_file import unique_index
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode
from xmtc.errors import BadInput

URI, NOTATION, LABEL = "uri", "notation", "label_"


def looks_like_tsv(source: Source) -> bool:
    """Whether the file begins with a URI in angle brackets, and not with the header of a `labels.tsv`."""
    return source.head(4096).lstrip().startswith(b"<")


def read_tsv(source: Source) -> LabelSet:
    """Read `<URI><tab>label[<tab>notation]` lines."""
    rows = []
    for number, line in _lines(source):
        if line.strip():
            uri, label, notation = (*line.split("\t"), "", "")[:3]
            rows.append((number, uri, label, [notation]))
    return _label_set(source.path, rows)


def read_csv(source: Source, languages: Sequence[str]) -> LabelSet:
    """Read a CSV with the columns `uri`, `label_LANGUAGE` and `notation`."""
    reader = csv.reader((line for _, line in _lines(source, keep_ends=True)), strict=True)
    table = _table(source.path, reader)
    number, header = next(table, (1, []))
    known = {name.removeprefix(LABEL): at for at, name in enumerate(header) if name.startswith(LABEL)}
    if URI not in header or not known:
        found = ", ".join(map(repr, header)) or "none"
        problem = f"no columns {URI!r} and {LABEL + languages[0]!r} (columns found: {found})"
        raise BadInput(source.path, number, problem, "give a labels.tsv, a SKOS file or a vocabulary of Annif")
    if languages[0] not in known:
        problem = f"no labels in the language {languages[0]!r} (languages found: {', '.join(known)})"
        raise BadInput(source.path, number, problem, "name one with --language")
    others = [known[language] for language in languages[1:] if language in known]
    others += [header.index(NOTATION)] if NOTATION in header else []
    uri_at, name_at = header.index(URI), known[languages[0]]
    rows = []
    for number, row in table:
        if len(row) != len(header):
            problem = f"{len(row)} cells, but the header has {len(header)} columns"
            raise BadInput(source.path, number, problem, "quote cells that hold a comma")
        rows.append((number, row[uri_at], row[name_at], [row[at] for at in others]))
    return _label_set(source.path, rows)


def _label_set(path: str, rows: Sequence[tuple[int, str, str, list[str]]]) -> LabelSet:
    if not rows:
        raise BadInput(path, None, "there is no label in it", "give a line for each label")
    keys = []
    for number, uri, _, _ in rows:
        try:
            keys.append(key_of(uri.strip()))
        except BadLine as error:
            raise BadInput(path, number, error.problem, "write <URI>, a tab and the label") from error
    index = unique_index(path, keys, [number for number, *_ in rows])
    alternatives = [[cell.strip() for cell in others if cell.strip()] for *_, others in rows]
    names = [name.strip() for _, _, name, _ in rows]
    return LabelSet.of(index, names, alternatives=alternatives if any(alternatives) else None)


def _lines(source: Source, *, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(source.raw_lines(), 1):
        try:
            line = decode(raw)
        except BadLine as error:
            raise BadInput(source.path, number, error.problem, error.remedy) from error
        yield number, line + "\n" if keep_ends else line.removesuffix("\r")


def _table(path: str | Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """(line on which it begins, cells) of every row that is not blank."""
    while True:
        begin = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise BadInput(path, begin, f"not CSV: {error}", "mend the line") from error
        if any(map(str.strip, row)):
            yield begin, row
