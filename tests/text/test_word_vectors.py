"""Word vectors from each kind of file, and bad files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from xmtc.corpus.strings import Strings
from xmtc.errors import BadInput
from xmtc.text.word_vectors import WordVectors, read_vectors

WORDS = ["sea", "Öl", ". . ."]
MATRIX = np.array([[1, 2.5, -3], [0, 0.25, 1e-3], [7, 8, 9]], np.float32)
TEXT = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, MATRIX.tolist(), strict=True))


def check(vectors: WordVectors, rows: list[int] | None = None) -> None:
    rows = rows if rows is not None else [0, 1, 2]
    assert list(vectors.words) == [WORDS[row] for row in rows]
    np.testing.assert_allclose(vectors.matrix, MATRIX[rows])
    assert vectors.matrix.dtype == np.float32


@pytest.mark.parametrize("header", ["", "3 3\n"])
@pytest.mark.parametrize("zipped", [False, True])
def test_text(tmp_path: Path, header: str, zipped: bool) -> None:
    content = (header + TEXT).encode()
    path = tmp_path / ("v.txt.gz" if zipped else "v.vec")
    path.write_bytes(gzip.compress(content) if zipped else content)
    check(read_vectors(path))
    check(read_vectors(path, only={"Öl", "unknown"}), [1])


@pytest.mark.parametrize("newline", [b"", b"\n"])
@pytest.mark.parametrize("zipped", [False, True])
def test_word2vec_binary(tmp_path: Path, newline: bytes, zipped: bool) -> None:
    words = [word.replace(" ", "_") for word in WORDS]
    rows = b"".join(w.encode() + b" " + row.tobytes() + newline for w, row in zip(words, MATRIX, strict=True))
    content = b"3 3\n" + rows
    path = tmp_path / ("v.bin.gz" if zipped else "v.bin")
    path.write_bytes(gzip.compress(content) if zipped else content)
    vectors = read_vectors(path)
    assert list(vectors.words) == words
    np.testing.assert_array_equal(vectors.matrix, MATRIX)
    path.write_bytes(gzip.compress(content[:-4]) if zipped else content[:-4])
    with pytest.raises(BadInput, match="truncated: 2 of 3"):
        read_vectors(path)


def test_numpy(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", MATRIX)
    with pytest.raises(BadInput, match="no word list beside it"):
        read_vectors(tmp_path / "v.npy")
    (tmp_path / "v.txt").write_text("\n".join(WORDS), "utf-8")
    check(read_vectors(tmp_path / "v.npy"))
    check(read_vectors(tmp_path / "v.npy", only={"sea"}), [0])
    (tmp_path / "v.txt").write_text("just one\n")
    with pytest.raises(BadInput, match=r"shape \(3, 3\) for 1 words"):
        read_vectors(tmp_path / "v.npy")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("v.txt", b"sea 1 2 3\nship 1 2\n", r"v\.txt:2: not a word and 3 numbers"),
        ("v.txt", b"sea 1 2 3\nship 1 x 3\n", r"v\.txt:2: not a word and 3 numbers"),
        ("v.txt", b"sea 1 nan 3\n", r"v\.txt:1: not a word and 3 finite"),
        ("v.txt", b"", "no vector in it"),
        ("v.bin", b"not a header\n", r"v\.bin:1: word2vec binary begins"),
        ("v.npy", b"not an array", "not a NumPy array"),
        ("v.txt", b"\xff\xfe 1 2\n", r"v\.txt:1: "),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=problem):
        read_vectors(tmp_path / name)
    with pytest.raises(BadInput, match="no such file"):
        read_vectors(tmp_path / "missing.txt")


def test_embedding_table() -> None:
    vectors = WordVectors(Strings.of(WORDS), MATRIX)
    table = vectors.table(["<pad>", "<unk>", "Öl", "new"], np.random.default_rng(0), scale=0.5)
    assert table.shape == (4, 3)
    assert table[0].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(table[2], MATRIX[1])
    assert 0 < np.abs(table[[1, 3]]).max() <= 0.5
