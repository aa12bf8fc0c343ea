"""A pair of scipy sparse matrices, documents x features and documents x labels: `X.npz` with `Y.npz`.

The X may stand anywhere in the name between dots, hyphens and underscores: `X.trn.npz`, `train_X.npz`. Label i is the
i-th of `labels.tsv` in the same folder if that has as many labels as Y has columns, else its key is "i". Any entry of Y
that is not zero is a label. Nothing is unpickled.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import cast

import numpy as np
from scipy import sparse
from scipy.sparse import csr_array

from xmtc.corpus.builder import ReadOptions
from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.label_file import numbered_labels, write_beside
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import Source, replacing
from xmtc.corpus.sparse import Csr
from xmtc.errors import BadInput, XmtcError

SUFFIXES = (".npz",)
HOLDS = ("features",)
LETTER = re.compile(r"(?<![^._-])[XY](?=[._-])")


def sniff(head: bytes) -> bool:
    """Whether the file begins as zip files do, which .npz files are."""
    return head.startswith(b"PK\x03\x04")


def read(source: Source, options: ReadOptions, labels: LabelSet | None = None) -> Corpus:
    """Read a pair, given the path of either file."""
    if source.is_stdin:
        raise BadInput("-", None, "a pair of files cannot be read from standard input", "name the X file")
    x_path, y_path = _pair(Path(source.path))
    features = _matrix(x_path)
    if y_path.exists() or not options.unlabelled:
        targets = _matrix(y_path)
    else:
        targets = label_matrix([], np.zeros(features.shape[0] + 1, np.int64), len(labels) if labels is not None else 0)
    if features.shape[0] != targets.shape[0]:
        problem = f"{features.shape[0]} rows of features, but {targets.shape[0]} rows of labels in {y_path}"
        raise BadInput(x_path, None, problem, "give the two matrices of the same documents")
    if targets.nnz and targets.data.min() < 0:
        raise BadInput(y_path, None, "an entry is negative", "labels are marked by 1")
    targets.eliminate_zeros()
    if not targets.nnz and not options.unlabelled:
        raise BadInput(y_path, None, "no document has a label", "give a matrix with a 1 for each label of a document")
    label_set = numbered_labels(str(x_path), targets.shape[1], labels, exact=True)
    targets = label_matrix(targets.indices, targets.indptr, len(label_set))
    return Corpus(targets, label_set, features=features, name=str(x_path))


def _pair(path: Path) -> tuple[Path, Path]:
    if not LETTER.search(path.name):
        problem = "the name of a file of features has an X in it, that of labels a Y"
        raise BadInput(path, None, problem, "name them like X.npz and Y.npz, or train_X.npz and train_Y.npz")
    return path.with_name(LETTER.sub("X", path.name)), path.with_name(LETTER.sub("Y", path.name))


def pair_of(path: Path) -> list[Path]:
    """Both files of the pair that a path belongs to, nothing if its name is not that of a pair."""
    return list(_pair(path)) if LETTER.search(path.name) else []


def _matrix(path: Path) -> Csr:
    if not path.exists():
        raise BadInput(path, None, "the other file of the pair is missing", "X.npz and Y.npz belong together")
    try:
        with open(path, "rb") as stream:
            matrix = cast(Csr, csr_array(cast(Csr, sparse.load_npz(stream)))).astype(np.float32)
        matrix.check_format(full_check=True)
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        remedy = "write it with scipy.sparse.save_npz"
        raise BadInput(path, None, f"not a scipy sparse matrix: {error}", remedy) from error
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        row = int(np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data))[0], side="right"))
        raise BadInput(path, row, "a weight of this row is not a finite number", "replace NaN and infinity")
    return matrix


def write(corpus: Corpus, path: str) -> None:
    """Write X and Y, and `labels.tsv` beside them unless the labels are just numbers."""
    assert corpus.features is not None
    if path == "-":
        raise XmtcError("a pair of files cannot be written to standard output; name the X file")
    x_path, y_path = _pair(Path(path))
    write_beside(corpus.labels, path)
    for target, matrix in ((x_path, corpus.features), (y_path, corpus.targets)):
        with replacing(target) as out:
            sparse.save_npz(out, matrix)
