"""JSON files that are one value: a list of documents, or an object of columns; also objects that span several lines.

A document is what JSON lines hold on a line. `{"text": [...], "labels": [...]}` has a list a column, or, as pandas
writes it, an object a column (`{"text": {"0": ..., "1": ...}, ...}`). An object with a single field that is a list of
documents is taken for that list, which is said on standard error. The file is read at once; JSON lines need far less
memory. Errors name the document by its position, from 1, or the line where the file is no JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from xmtc.corpus.builder import CorpusBuilder, ReadOptions, named
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.formats import jsonl
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode, replacing
from xmtc.errors import BadInput
from xmtc.memory import available_memory

SUFFIXES = (".json",)
HOLDS = ("texts", "features", "fields")
LIST = re.compile(rb"\s*\[\s*[{\]]")
BEYOND_SPACE = re.compile(r"\S")
PARSED = 6  # bytes of memory for each byte of a file, about
TO_LINES = "turn it into lines: jq -c '.[]' IN > OUT"


def sniff(head: bytes) -> bool:
    """Whether this is a list of objects, an object of columns, or an object whose first line does not end it."""
    if LIST.match(head):
        return True
    first, newline, _ = head.lstrip().partition(b"\n")
    if not first.startswith(b"{"):
        return False
    try:
        value = orjson.loads(first)
    except orjson.JSONDecodeError:
        return bool(newline)  # else a long line, of which only the beginning is known
    return "features" not in value and bool(value) and _columns(value) is not None


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read all documents of a file at once."""
    builder = CorpusBuilder(source.path, options, labels)
    for number, document in enumerate(_documents(_values(source), builder), 1):
        try:
            jsonl.add_document(builder, document)
        except BadLine as error:
            builder.bad(None, BadLine(f"document {number}: {error.problem}", error.remedy))
    return builder.build()


def _values(source: Source) -> list[Any]:
    """The JSON values in a file: one, or several objects one after the other."""
    content = b"".join(source.blocks())
    if not content.strip():
        return []
    needed, free = PARSED * len(content), available_memory()
    if needed > free:
        problem = f"to read it at once takes about {needed / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free"
        raise BadInput(source.path, None, problem, TO_LINES)
    try:
        return [orjson.loads(content)]
    except orjson.JSONDecodeError as error:
        _check_utf8(source.path, content)
        broken = _broken(source.path, error)
    text = content.decode()
    if not text.lstrip().startswith("{"):
        raise broken
    return _objects(source.path, text, broken)


def _broken(path: str, error: json.JSONDecodeError) -> BadInput:
    return BadInput(path, error.lineno, f"not JSON: {error.msg} at column {error.colno}", "mend the file")


def _check_utf8(path: str, content: bytes) -> None:
    """BadInput with the line of the first byte that is not UTF-8."""
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            decode(line)
        except BadLine as error:
            raise BadInput(path, number, error.problem, error.remedy) from error


def _objects(path: str, text: str, broken: BadInput) -> list[Any]:
    """Several objects, each on any number of lines; `broken` is what is wrong if not even the first is one."""
    decoder, at = json.JSONDecoder(), _start(text, 0)
    values: list[Any] = []
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise (_broken(path, error) if values else broken) from error
        except RecursionError as error:
            raise broken from error
        values.append(value)
        at = _start(text, end)
    return values


def _start(text: str, at: int) -> int:
    """The position of the next character that is not white space."""
    found = BEYOND_SPACE.search(text, at)
    return found.start() if found else len(text)


def _documents(values: list[Any], builder: CorpusBuilder) -> Iterable[Any]:
    if len(values) != 1:
        return values
    [value] = values
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        problem = f"a list of documents was expected, not {type(value).__name__}"
        raise BadInput(builder.path, None, problem, 'such as [{"text": "...", "labels": ["..."]}]')
    if any(isinstance(value.get(named(name, value) or ""), str) for name in builder.options.text):
        return [value]
    name, only = next(iter(value.items()), ("", None))
    if len(value) == 1 and isinstance(only, list) and only and all(isinstance(each, dict) for each in only):
        builder.say(f"the documents are those in its field {name!r}")
        return only
    if columns := _columns(value):
        return _from_columns(columns, builder.path)
    found = ", ".join(map(repr, value)) or "none"
    problem = f"neither a list of documents nor an object of columns (fields found: {found})"
    raise BadInput(builder.path, None, problem, 'write [{"text": "...", "labels": ["..."]}], or JSON lines')


def _columns(value: Any) -> dict[str, list[Any] | dict[str, Any]] | None:
    """The value if it is an object whose fields are all lists or all objects."""
    if not isinstance(value, dict) or not value:
        return None
    kinds = {type(column) for column in value.values()}
    return value if kinds in ({list}, {dict}) else None


def _from_columns(columns: dict[str, list[Any] | dict[str, Any]], path: str) -> Iterator[dict[str, Any]]:
    """The documents of columns, which must be of one length."""
    first, *others = columns
    for name in others:
        if len(columns[name]) != len(columns[first]):
            problem = f"{len(columns[first])} entries in the column {first!r}, but {len(columns[name])} in {name!r}"
            raise BadInput(path, None, problem, "give each column an entry for each document")
        here, there = columns[first], columns[name]
        if isinstance(here, dict) and isinstance(there, dict) and here.keys() != there.keys():
            raise BadInput(path, None, f"the columns {first!r} and {name!r} have other rows", "give both the same rows")
    return _rows(columns)


def _rows(columns: dict[str, list[Any] | dict[str, Any]]) -> Iterator[dict[str, Any]]:
    whole = next(iter(columns.values()))
    for row in whole if isinstance(whole, dict) else range(len(whole)):
        yield {name: column[row] for name, column in columns.items()}  # type: ignore[index]


def write(corpus: Corpus, path: str) -> None:
    """Write a list, one document a line; gzipped if the name ends in .gz."""
    with replacing(path) as out:
        for number, document in enumerate(jsonl.documents(corpus, path)):
            out.write((b",\n" if number else b"[\n") + orjson.dumps(document))
        out.write(b"\n]\n" if len(corpus) else b"[]\n")
