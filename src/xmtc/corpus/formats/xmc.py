"""The XMC repository's sparse text: a line `label,label feature:value feature:value ...` for each document.

An optional header line holds the numbers of documents, features and labels (three whole numbers and nothing else).
A line without labels begins with a space; an empty line is no document. Labels and features are numbered from 0, or
from 1 with index base 1; inside, both count from 0: label i is the i-th of `labels.tsv` in the same folder if that fits
the file, else its key is "i". Files are written with a header, from 0.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from xmtc.corpus.builder import CorpusBuilder, ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.label_file import numbered_labels, write_beside
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, replacing
from xmtc.errors import BadInput
from xmtc.progress import track

SUFFIXES = (".xmc", ".svm", ".libsvm", ".txt")
HOLDS = ("features",)
HEADER = re.compile(rb"\s*(\d+)\s+(\d+)\s+(\d+)\s*")
DOCUMENT = re.compile(rb"(?:\d+(?:,\d+)*)?(?:\s+\d+:\S+)+\s*")
DIGITS = b"0123456789.eE+-"


class Sizes(NamedTuple):
    """The header of a file."""

    documents: int
    features: int
    labels: int


def sniff(head: bytes) -> bool:
    """Whether the first line is a header or a document."""
    first, newline, _ = head.partition(b"\n")
    if not newline and len(first) > 10_000:
        first = first.rpartition(b" ")[0]  # a long line, of which the last feature may be cut off
    return HEADER.fullmatch(first) is not None or DOCUMENT.fullmatch(first) is not None


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read sparse text with or without a header."""
    builder = CorpusBuilder(source.path, options)
    sizes = None
    for number, line in source.all_lines():
        if number == 1 and (header := HEADER.fullmatch(line)):
            sizes = Sizes(*map(int, header.groups()))
        elif line:
            try:
                tags, features = _parse(line, options.index_base)
                if sizes is not None:
                    _check_sizes(sizes, tags, features[0], options.index_base)
                builder.add_numbered(tags, features)
            except BadLine as error:
                builder.bad(number, error)
    if sizes is None:
        return builder.build(numbered_labels(source.path, builder.numbered_label_count, labels, exact=False))
    found = len(builder) + builder.skipped
    if sizes.documents != found:
        problem = f"the header says {sizes.documents} documents, but {found} follow"
        raise BadInput(source.path, 1, problem, "the file may be cut off; fetch it again, or correct the header")
    return builder.build(numbered_labels(source.path, sizes.labels, labels, exact=True), sizes.features)


def _parse(line: bytes, base: int) -> tuple[list[int], tuple[list[int], list[float]]]:
    """The labels, and the features, of a line.

    Without its digits a good line is `,,, : : :`, which is quick to check; other lines go to `_parse_carefully`.
    """
    separators = line.translate(None, DIGITS)
    colons = separators.count(b":")
    head, _, tail = line.partition(b" ")
    tokens = tail.replace(b":", b" ").split()
    if len(tokens) != 2 * colons or separators != b"," * separators.count(b",") + b" :" * colons:
        return _parse_carefully(line, base)
    try:
        tags = list(map(int, head.split(b","))) if head else []
        indices = list(map(int, tokens[::2]))
        values = list(map(float, tokens[1::2]))
    except ValueError:
        return _parse_carefully(line, base)
    if base:
        tags, indices = [tag - base for tag in tags], [index - base for index in indices]
    if min(tags, default=0) < 0 or min(indices, default=0) < 0:
        return _parse_carefully(line, base)
    return tags, (indices, values)


def _parse_carefully(line: bytes, base: int) -> tuple[list[int], tuple[list[int], list[float]]]:
    """As `_parse`, for lines with unusual white space or with an error, which it names."""
    words = line.decode("utf-8", "replace").split()
    has_labels = bool(words) and not line[:1].isspace() and ":" not in words[0]
    tags = [_number(tag, "label", base) for tag in words[0].split(",")] if has_labels else []
    indices, values = [], []
    for word in words[has_labels:]:
        index, colon, value = word.partition(":")
        if not colon:
            raise BadLine(f"{_short(word)} where feature:value was expected")
        indices.append(_number(index, "feature", base))
        try:
            values.append(float(value))
        except ValueError:
            raise BadLine(f"feature {_short(index)} has the value {_short(value)}, a number was expected") from None
    return tags, (indices, values)


def _number(word: str, what: str, base: int) -> int:
    if not word.removeprefix("-").isdecimal():
        raise BadLine(f"the {what} {_short(word)} is not a whole number")
    if int(word) < 0:
        raise BadLine(f"the {what} {word} is negative")
    if int(word) < base:
        raise BadLine(f"the {what} {word}, but numbering begins at {base}", "read it with --index-base 0")
    return int(word) - base


def _short(word: str) -> str:
    return repr(word if len(word) <= 40 else word[:37] + "...")


def _check_sizes(sizes: Sizes, tags: list[int], indices: list[int], base: int) -> None:
    for what, ids, size in (("label", tags, sizes.labels), ("feature", indices, sizes.features)):
        if ids and max(ids) >= size:
            problem = f"{what} {max(ids) + base} is beyond the {size} {what}s that the header says"
            raise BadLine(problem, "correct the header, or see --index-base if numbering begins at 1")


def write(corpus: Corpus, path: str) -> None:
    """Write sparse text with a header, and `labels.tsv` beside it unless the labels are just numbers."""
    features = corpus.features
    assert features is not None
    if path != "-":
        write_beside(corpus.labels, path)
    with replacing(path) as out:
        out.write(f"{len(corpus)} {features.shape[1]} {len(corpus.labels)}\n".encode())
        for row in track(range(len(corpus)), f"writing {path}"):
            a, b = features.indptr[row], features.indptr[row + 1]
            pairs = zip(features.indices[a:b].tolist(), features.data[a:b].tolist(), strict=True)
            # Nine digits represent every float32 exactly.
            weights = " ".join(f"{index}:{value:.9g}" for index, value in pairs)
            out.write(f"{','.join(map(str, corpus.labels_of(row)))} {weights}\n".encode())
