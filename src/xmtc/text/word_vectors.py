"""Word vectors from files: GloVe and fastText text, word2vec binary, NumPy arrays with a word list."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.sources import BadLine, Source, decode
from xmtc.corpus.strings import Strings, StringsBuilder
from xmtc.errors import BadInput
from xmtc.progress import track

Entry = tuple[str, NDArray[np.float32]]


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors, (words, dimensions).

    >>> vectors = WordVectors(Strings.of(["cat"]), np.ones((1, 2), np.float32))
    >>> vectors.table(["<pad>", "cat", "dog"], np.random.default_rng(0), scale=0).tolist()
    [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    """

    words: Strings
    matrix: NDArray[np.float32]

    def table(self, words: list[str], rng: np.random.Generator, scale: float = 1.0) -> NDArray[np.float32]:
        """An embedding table for a vocabulary: row 0 (padding) is zero, words without a vector ~ U(-scale, scale)."""
        table = rng.uniform(-scale, scale, (len(words), self.matrix.shape[1])).astype(np.float32)
        wanted = {word: row for row, word in enumerate(words)}
        for at, word in enumerate(self.words):
            if word in wanted:
                table[wanted[word]] = self.matrix[at]
        table[0] = 0
        return table


def read_vectors(path: str | Path, only: Container[str] | None = None) -> WordVectors:
    """Read word vectors; `only` keeps just these words, so that a small vocabulary needs little memory.

    `.txt`, `.vec` (also .gz): text, a word and its numbers a line, with or without a header "words dimensions".
    `.bin`: word2vec binary. `.npy`: an array, with its words, one a line, in a `.txt` or `.words` file beside it.
    """
    source = Source(path)
    if source.suffix == ".npy":
        return _read_npy(Path(path), only)
    entries = _binary_entries(source) if source.suffix == ".bin" else _text_entries(source, only)
    words, rows = StringsBuilder(), []
    for word, row in track(entries, f"reading {Path(path).name}"):
        if only is None or word in only:
            words.append(word)
            rows.append(row)
    if not rows:
        raise BadInput(path, None, "none of the wanted words has a vector in it" if only else "no vector in it")
    return WordVectors(words.build(), np.stack(rows))


def _text_entries(source: Source, only: Container[str] | None) -> Iterator[Entry]:
    dimensions = 0
    for number, line in source.lines():
        parts = line.rstrip().split(b" ")
        if number == 1 and len(parts) == 2 and parts[0].isdigit() and parts[1].isdigit():
            dimensions = int(parts[1])
            continue
        dimensions = dimensions or len(parts) - 1
        # Some GloVe "words" hold spaces, so the numbers are taken from the right.
        word = b" ".join(parts[:-dimensions])
        if only is not None and word and word.decode("utf-8", "replace") not in only:
            continue  # turning text into numbers takes most of the time
        try:
            row = np.array(parts[-dimensions:], np.bytes_).astype(np.float32)
        except ValueError as error:
            problem = f"not a word and {dimensions} numbers"
            raise BadInput(source.path, number, problem, "is this a file of word vectors?") from error
        if not word or len(row) != dimensions or not np.isfinite(row).all():
            problem = f"not a word and {dimensions} finite numbers"
            raise BadInput(source.path, number, problem, "is this a file of word vectors?")
        yield _word(word, source, number), row


def _binary_entries(source: Source) -> Iterator[Entry]:
    with gzip.open(source.path) if source.path.endswith(".gz") else open(source.path, "rb") as stream:
        header = stream.readline(100).split()
        if len(header) != 2 or not all(part.isdigit() for part in header):
            raise BadInput(source.path, 1, 'word2vec binary begins with "words dimensions"', "is this such a file?")
        count, dimensions = map(int, header)
        for at in range(count):
            word = _until_space(stream.read)
            raw = stream.read(4 * dimensions)
            if len(raw) < 4 * dimensions:
                raise BadInput(source.path, None, f"truncated: {at:,} of {count:,} vectors", "fetch it again")
            yield word.decode("utf-8", "replace"), np.frombuffer(raw, "<f4")


def _until_space(read: Callable[[int], bytes]) -> bytes:
    letters = bytearray()
    while (letter := read(1)) not in (b" ", b""):
        letters += letter
    return bytes(letters).lstrip(b"\n")


def _read_npy(path: Path, only: Container[str] | None) -> WordVectors:
    try:
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BadInput(path, None, f"not a NumPy array: {error}") from error
    beside = [path.with_suffix(suffix) for suffix in (".txt", ".words")]
    found = next((file for file in beside if file.exists()), None)
    if found is None:
        raise BadInput(path, None, "no word list beside it", f"put the words, one a line, into {beside[0].name}")
    source = Source(found)
    words = [_word(line, source, number) for number, line in source.lines()]
    if matrix.ndim != 2 or len(words) != len(matrix):
        raise BadInput(path, None, f"an array of shape {matrix.shape} for {len(words):,} words in {found.name}")
    rows = [at for at, word in enumerate(words) if only is None or word in only]
    return WordVectors(Strings.of(words[at] for at in rows), np.asarray(matrix[rows], np.float32))


def _word(line: bytes, source: Source, number: int) -> str:
    try:
        return decode(line)
    except BadLine as error:
        raise BadInput(source.path, number, error.problem, error.remedy) from error
