"""What scikit-learn's users call X and y, as a corpus: texts or features, and labels in three forms."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from xmtc.corpus import inputs
from xmtc.corpus.corpus import label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sparse import Csr, make_csr
from xmtc.corpus.strings import Strings
from xmtc.errors import XmtcError

#: What y was: a label a document, lists of labels, or a 0/1 matrix
TargetForm = Literal["single", "lists", "indicator"]


class BadEstimatorInput(XmtcError, ValueError):
    """Data or settings that the estimator cannot use; a ValueError, as scikit-learn expects."""


@dataclass(frozen=True)
class Target:
    """y: a documents x classes 0/1 matrix, and what its columns are called."""

    form: TargetForm
    matrix: Csr
    classes: NDArray[Any]

    def labels(self) -> LabelSet:
        """The classes as labels, in the order of the columns."""
        keys = list(map(str, self.classes.tolist()))
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise BadEstimatorInput(f"two classes of y are written {twice!r}; give labels of one type")
        return LabelSet.of(keys)


def texts_of(X: Any) -> Strings | None:
    """The texts of X, or None if it has features: numbers, dense or sparse.

    >>> list(texts_of(["red apple", "blue sky"])), texts_of([[0.0, 1.0]])
    (['red apple', 'blue sky'], None)
    """
    if isinstance(X, (str, bytes)):
        raise BadEstimatorInput("X is one text; put it into a list: [text]")
    if X is None or issparse(X) or not isinstance(X, Iterable):
        return None
    if not hasattr(X, "__len__"):
        raise BadEstimatorInput("X is an iterator, which can be read only once; give a list")
    if isinstance(X, Set):
        raise BadEstimatorInput("X is a set, which has no order; give a list")
    cells: Any = X
    if len(getattr(cells, "columns", ())) == 1 and not _numeric(cells.iloc[:, 0]):
        cells = cells.iloc[:, 0]
    if _is_series(cells):
        cells = cells.to_numpy(dtype=object, na_value=None)
    if isinstance(cells, np.ndarray) and cells.ndim == 2 and cells.shape[1] == 1:
        cells = cells[:, 0] if cells.dtype.kind in "OUT" else cells
    if getattr(cells, "ndim", 1) != 1 or not any(isinstance(cell, (str, bytes)) for cell in cells):
        return None
    return inputs.texts_of(cells)


def features_of(checked: Any) -> Csr:
    """Numbers that scikit-learn has checked, as float32 CSR."""
    matrix = csr_array(checked)
    if matrix.nnz and np.abs(matrix.data).max() > np.finfo(np.float32).max:
        raise BadEstimatorInput("X has a value that is infinite or too large for float32")
    matrix.sum_duplicates()
    return make_csr(matrix.data.astype(np.float32), matrix.indices, matrix.indptr, matrix.shape)


def target_of(y: Any) -> Target:
    """y in any of its forms: a label a document, lists of labels, or a 0/1 matrix (sparse, dense, DataFrame).

    >>> target_of([["b", "a"], []]).matrix.toarray().tolist(), target_of(["b", "a"]).classes.tolist()
    ([[1.0, 1.0], [0.0, 0.0]], ['a', 'b'])
    """
    if y is None:
        raise BadEstimatorInput("XmtcClassifier requires y to be passed, but the target y is None")
    if isinstance(y, (str, bytes)):
        raise BadEstimatorInput("y is one string; give the labels of each document: [['sport'], ['news', 'local']]")
    if isinstance(y, Set) or (isinstance(y, Iterable) and not hasattr(y, "__len__") and not issparse(y)):
        raise BadEstimatorInput("y must have an order and a length; give a list")
    if not isinstance(y, Iterable) and hasattr(y, "__array__"):
        y = np.asarray(y)
    if issparse(y) or (getattr(y, "ndim", 1) == 2 and y.shape[1] != 1):
        return _indicator(y)
    if getattr(y, "ndim", 1) == 1:
        values = list(y.to_numpy(dtype=object)) if _is_series(y) else list(y)
        if any(isinstance(value, (list, tuple, Set, np.ndarray)) for value in values):
            if _rectangular_numbers(values):
                return _indicator(np.asarray(values))
            return _lists(values)
        if any(value is None or value != value for value in values):
            raise BadEstimatorInput(
                "Input y contains NaN or None: every document needs a label; lists may be empty: []"
            )
        if len({isinstance(value, str) for value in values}) > 1:
            raise BadEstimatorInput("some labels of y are strings and some are not; give all of them as strings")
    column = column_or_1d(y, warn=True)
    check_classification_targets(column)
    classes, ids = np.unique(column, return_inverse=True)
    return Target("single", label_matrix(ids, np.arange(len(ids) + 1), len(classes)), classes)


def _lists(values: list[Any]) -> Target:
    for at, tags in enumerate(values):
        if not isinstance(tags, (list, tuple, Set, np.ndarray)):
            raise BadEstimatorInput(f"document {at} of y has {tags!r}, where others have a list of labels")
        for tag in tags:
            if not isinstance(tag, (str, int, np.integer)) or isinstance(tag, bool):
                raise BadEstimatorInput(
                    f"document {at} of y has the label {tag!r}: labels are strings or whole numbers"
                )
    found = {tag for tags in values for tag in tags}
    if len({isinstance(tag, str) for tag in found}) > 1:
        raise BadEstimatorInput("some labels of y are strings and some are numbers; give all of them as strings")
    classes = np.array(sorted(found), object if any(isinstance(tag, str) for tag in found) else None)
    place = {label: at for at, label in enumerate(classes.tolist())}
    ids = [place[tag] for tags in values for tag in tags]
    return Target("lists", label_matrix(ids, np.cumsum([0, *map(len, values)]), len(classes)), classes)


def _indicator(y: Any) -> Target:
    columns = getattr(y, "columns", None)
    values = y.to_numpy() if columns is not None else y
    matrix = csr_array(values) if values.ndim == 2 and values.dtype.kind in "biuf" else None
    if matrix is None or not np.isin(matrix.data, (0, 1)).all():
        raise BadEstimatorInput(
            "y is a matrix with other values than 0 and 1. Unknown label type: for several labels a document give "
            "lists, or a matrix with a column for each label"
        )
    matrix.eliminate_zeros()
    matrix.sum_duplicates()
    classes = np.arange(matrix.shape[1]) if columns is None else np.asarray(columns)
    return Target("indicator", label_matrix(matrix.indices, matrix.indptr, matrix.shape[1]), classes)


def _rectangular_numbers(values: list[Any]) -> bool:
    """Whether these are the rows of a 0/1 matrix rather than lists of labels.

    >>> [_rectangular_numbers(rows) for rows in ([[0, 1], [1, 0]], [[3, 17], [4, 5]], [[1], [0]])]
    [True, False, False]
    """
    lengths = {len(value) if hasattr(value, "__len__") else -1 for value in values}
    if len(lengths) != 1 or min(lengths) < 2:
        return False
    return all(isinstance(cell, (int, float, np.number, np.bool_)) and cell in (0, 1) for row in values for cell in row)


def _is_series(values: Any) -> bool:
    return hasattr(values, "to_numpy") and getattr(values, "ndim", 0) == 1


def _numeric(column: Any) -> bool:
    kind: str = getattr(column.dtype, "kind", "O")
    return kind in "biufc"
