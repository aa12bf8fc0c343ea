"""JSON lines: one document a line, `{"id": ..., "text": ..., "labels": [...]}`; field names are options.

Documents with numbers instead of a text have `"features": {"column": value, ...}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import orjson

from xmtc.corpus.builder import PARAGRAPH, CorpusBuilder, ReadOptions, named
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode, replacing
from xmtc.errors import BadInput
from xmtc.progress import track

KEPT = "keep= or the key of a split names it"
SUFFIXES = (".jsonl", ".ndjson")
HOLDS = ("texts", "features", "fields")


def sniff(head: bytes) -> bool:
    """Whether the file's first bytes look like JSON lines."""
    return head.lstrip().startswith(b"{")


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read JSON lines; blank lines are ignored, anything else that is not a document is an error with its line."""
    builder = CorpusBuilder(source.path, options, labels)
    first = 1
    for lines in source.batches():
        add_lines(builder, first, lines)
        first += len(lines)
    return builder.build()


def add_lines(builder: CorpusBuilder, first: int, lines: list[bytes]) -> None:
    """Add the documents of some lines, the first of which has this number."""
    if not _add_plain(builder, lines):
        for number, line in enumerate(lines, first):
            _add_line(builder, number, line)


def _add_plain(builder: CorpusBuilder, lines: list[bytes]) -> bool:
    """Add the documents of all these lines if they have the common shape: one text, string labels, a string id.

    Most files have no others, and this takes half the time of going line by line. Returns whether it did.
    """
    options = builder.options
    if len(options.text) > 1 or options.keep:
        return False
    try:
        documents = list(map(orjson.loads, lines))
        texts, tags, ids = (
            list(map(itemgetter(field), documents)) for field in (options.text[0], options.labels, options.id)
        )
        types = {*map(type, texts), *map(type, ids), *map(type, chain.from_iterable(tags))}
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
        return False
    if types != {str} or {*map(type, tags)} != {list} or "" in chain.from_iterable(tags):
        return False
    if any("features" in document for document in documents):
        return False
    try:
        builder.add_texts(tags, texts, ids)
    except BadLine:
        return False
    return True


def _add_line(builder: CorpusBuilder, number: int, line: bytes) -> None:
    """Add the document of a line of any shape, or complain."""
    if not line or line.isspace():
        return
    try:
        add_document(builder, orjson.loads(line))
    except orjson.JSONDecodeError as error:
        if line.startswith(b"["):
            remedy = "for a list of documents say --format json"
            raise BadInput(builder.path, number, "a JSON list, not one JSON object a line", remedy) from error
        builder.bad(number, _problem(line, error))
    except BadLine as error:
        builder.bad(number, error)


def _problem(line: bytes, error: orjson.JSONDecodeError) -> BadLine:
    try:
        decode(line)
    except BadLine as encoding:
        return encoding
    return BadLine(f"not JSON: {error.msg} at column {error.colno}")


def add_document(builder: CorpusBuilder, document: Any) -> None:
    """Add a parsed JSON document of any shape; BadLine if it is none."""
    options = builder.options
    if not isinstance(document, dict):
        raise BadLine(f"a JSON object was expected, not {type(document).__name__}")
    features = document.get("features")
    text = None
    if features is None or all(named(name, document) for name in options.text):
        text = _text(document, options)
    key = document.get(named(options.id, document) or options.id)
    builder.add(
        _tags(document, builder),
        text=text,
        id=str(key) if key is not None else builder.next_id,
        fields=[_scalar(_field(document, name, KEPT)) for name in options.keep],
        features=_features(features) if features is not None else None,
    )


def _field(document: dict[str, Any], name: str, remedy: str) -> Any:
    found = named(name, document)
    if found is None:
        raise BadLine(f"no field {name!r} (fields found: {', '.join(map(repr, document)) or 'none'})", remedy)
    return document[found]


def _text(document: dict[str, Any], options: ReadOptions) -> str:
    """The text fields, joined; of several, one that is null counts as empty."""
    parts = [_field(document, name, "name the text with --text-field") for name in options.text]
    for name, part in zip(options.text, parts, strict=True):
        if not isinstance(part, str) and (part is not None or len(parts) == 1):
            raise BadLine(f"field {name!r} must be a string, not {type(part).__name__}")
    if not any(isinstance(part, str) for part in parts):
        raise BadLine(f"the fields {', '.join(options.text)} are all null, so there is no text")
    return PARAGRAPH.join(part or "" for part in parts)


def _tags(document: dict[str, Any], builder: CorpusBuilder) -> Sequence[str]:
    options = builder.options
    if options.unlabelled and document.get(named(options.labels, document) or "") is None:
        return ()
    tags = _field(document, options.labels, "name the labels with --labels-field")
    if isinstance(tags, str):
        builder.label_strings += 1
        return options.split(tags)
    if not isinstance(tags, list) or not all(isinstance(t, (str, int)) and not isinstance(t, bool) for t in tags):
        raise BadLine(f"field {options.labels!r} must be a list of strings or whole numbers")
    return [str(tag) for tag in tags]


def _scalar(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _features(features: Any) -> tuple[list[int], list[float]]:
    if not isinstance(features, dict):
        raise BadLine("field 'features' must be an object {\"column\": value, ...}")
    for index, value in features.items():
        if not index.removeprefix("-").isdecimal():
            raise BadLine(f"field 'features' has the column {index!r}, a whole number was expected")
        if type(value) not in (int, float):
            raise BadLine(f"feature {index} is {value!r}, a number was expected")
    return list(map(int, features)), list(map(float, features.values()))


def documents(corpus: Corpus, path: str) -> Iterator[dict[str, Any]]:
    """The documents as JSON data, with progress of writing to this path."""
    keys = list(corpus.labels.keys)
    for row in track(range(len(corpus)), f"writing {path}"):
        document: dict[str, Any] = {"id": corpus.id(row)}
        if corpus.texts is not None:
            document["text"] = corpus.texts[row]
        if corpus.features is not None:
            a, b = corpus.features.indptr[row], corpus.features.indptr[row + 1]
            columns, values = corpus.features.indices[a:b].tolist(), corpus.features.data[a:b].tolist()
            document["features"] = {str(c): v for c, v in zip(columns, values, strict=True)}
        document["labels"] = [keys[label] for label in corpus.labels_of(row)]
        yield document | {name: column[row] for name, column in corpus.fields.items()}


def write(corpus: Corpus, path: str) -> None:
    """Write JSON lines, gzipped if the name ends in .gz."""
    with replacing(path) as out:
        for document in documents(corpus, path):
            out.write(orjson.dumps(document) + b"\n")
