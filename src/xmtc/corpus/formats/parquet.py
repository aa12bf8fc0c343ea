"""Parquet: a column of texts (or of features) and one of labels; column names are options.

Labels are a list of strings, or a string that is split at the label separator if one is given, else a single label.
Features are a list of (index, value) structs. In errors, the number after the file's name is the row, from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xmtc.corpus.builder import PARAGRAPH, CorpusBuilder, ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, replacing
from xmtc.errors import BadInput

SUFFIXES = (".parquet", ".pq")
HOLDS = ("texts", "features", "fields")
ROWS = 4096  # documents in memory at a time
WIDTH = b"xmtc.feature_count"  # metadata key of the number of feature columns


def sniff(head: bytes) -> bool:
    """Whether the file begins as Parquet files do."""
    return head.startswith(b"PAR1")


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read a Parquet file, some thousand rows at a time."""
    import pyarrow
    from pyarrow import parquet

    if source.is_stdin:
        raise BadInput("-", None, "Parquet cannot be read from standard input", "save it to a file first")
    try:
        file = parquet.ParquetFile(source.path)
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput(source.path, None, f"not a Parquet file: {error}", "make or fetch it again") from error
    with file:
        schema = file.schema_arrow
        options = options.among(schema.names)
        builder = CorpusBuilder(source.path, options, labels)
        wanted = _wanted(source.path, schema.names, options)
        width = (schema.metadata or {}).get(WIDTH)
        try:
            for batch in file.iter_batches(ROWS, columns=wanted):
                _add_batch(builder, {name: batch.column(name).to_pylist() for name in wanted}, batch.num_rows)
        except (pyarrow.ArrowException, OSError) as error:
            raise BadInput(source.path, None, f"the file is damaged: {error}", "make or fetch it again") from error
    return builder.build(feature_count=int(width) if width is not None else None)


def _wanted(path: str, names: Sequence[str], options: ReadOptions) -> list[str]:
    def need(name: str, option: str) -> str:
        if name not in names:
            there = ", ".join(map(repr, names))
            raise BadInput(path, None, f"no column {name!r} (columns found: {there})", f"name the column with {option}")
        if names.count(name) > 1:
            problem = f"{names.count(name)} columns are called {name!r}"
            raise BadInput(path, None, problem, f"rename one of them, or name another with {option}")
        return name

    wanted = [need(name, "--keep") for name in options.keep]
    if "features" in names:
        wanted += ["features", *(need(name, "--text-field") for name in options.text if name in names)]
    else:
        wanted += [need(name, "--text-field") for name in options.text]
    if options.labels in names or not options.unlabelled:
        wanted.append(need(options.labels, "--labels-field"))
    if options.id in names:
        wanted.append(need(options.id, "--id-field"))
    return list(dict.fromkeys(wanted))


def _add_batch(builder: CorpusBuilder, columns: dict[str, list[Any]], size: int) -> None:
    options = builder.options
    first = len(builder) + builder.skipped
    texts = [columns[name] for name in options.text if name in columns]
    none: list[Any] = [None] * size
    tags, ids, features = (columns.get(name, none) for name in (options.labels, options.id, "features"))
    for row in range(size):
        try:
            builder.label_strings += isinstance(tags[row], str)
            builder.add(
                _labels(tags[row], options),
                text=_text([column[row] for column in texts]) if texts else None,
                id=_id(ids[row], len(builder)) if options.id in columns else None,
                fields=[_string(columns[name][row], name) for name in options.keep],
                features=_features(features[row]) if "features" in columns else None,
            )
        except BadLine as error:
            builder.bad(first + row + 1, error)


def _text(parts: Sequence[Any]) -> str:
    """The text fields, joined; of several, one that is null counts as empty."""
    if all(part is None for part in parts):
        raise BadLine("this row has no text")
    return PARAGRAPH.join("" if part is None else str(part) for part in parts)


def _id(value: Any, position: int) -> str:
    return str(value) if value is not None else str(position)


def _string(value: Any, what: str) -> str:
    if value is None:
        raise BadLine(f"this row has no {what}")
    return value if isinstance(value, str) else str(value)


def _labels(value: Any, options: ReadOptions) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return options.split(value)
    if not isinstance(value, list) or None in value:
        raise BadLine(f"column {options.labels!r} must hold strings or lists of strings")
    return [str(label) for label in value]


def _features(value: Any) -> tuple[list[int], list[float]]:
    try:
        return [int(pair["index"]) for pair in value or ()], [float(pair["value"]) for pair in value or ()]
    except (TypeError, KeyError, ValueError) as error:
        raise BadLine("column 'features' must hold lists of structs with an index and a value") from error


def write(corpus: Corpus, path: str) -> None:
    """Write the columns id, text and/or features, labels, and those that were kept."""
    import pyarrow as pa
    from pyarrow import parquet

    keys = list(corpus.labels.keys)
    types = {"id": pa.string()}
    if corpus.texts is not None:
        types["text"] = pa.string()
    if corpus.features is not None:
        types["features"] = pa.list_(pa.struct([("index", pa.int32()), ("value", pa.float32())]))
    types |= {"labels": pa.list_(pa.string())} | {name: pa.string() for name in corpus.fields}
    metadata = {WIDTH: str(corpus.features.shape[1])} if corpus.features is not None else {}
    schema = pa.schema(list(types.items()), metadata=metadata)
    with replacing(path) as out, parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for start in range(0, len(corpus), ROWS):
            part = corpus[start : start + ROWS]
            columns: dict[str, Any] = {
                "id": [corpus.id(row) for row in range(start, start + len(part))],
                "labels": [[keys[label] for label in part.labels_of(row)] for row in range(len(part))],
            }
            if part.texts is not None:
                columns["text"] = list(part.texts)
            if part.features is not None:
                pairs = pa.StructArray.from_arrays([part.features.indices, part.features.data], ["index", "value"])
                columns["features"] = pa.ListArray.from_arrays(part.features.indptr.astype(np.int32), pairs)
            columns |= {name: list(column) for name, column in part.fields.items()}
            writer.write_batch(pa.record_batch(columns, schema=schema))
