"""Top-k answers against naive implementations with dictionaries and lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from xmtc.corpus.labels import LabelSet
from xmtc.predictions import Predictions, ScoreKind

LABELS = LabelSet.of([f"l{i}" for i in range(8)])

Row = list[tuple[int, float]]
Naive = list[Row]  # for each document its (label id, score) pairs


@st.composite
def candidates(draw: st.DrawFn, documents: int | None = None) -> Naive:
    """Rows of equal length with different labels, some places empty; scores are eighths, so sums are exact."""
    rows = documents if documents is not None else draw(st.integers(0, 4))
    k = draw(st.integers(1, 6))
    scores = st.integers(-8, 8).map(lambda eighths: eighths / 8)
    answer = []
    for _ in range(rows):
        ids = draw(st.lists(st.integers(0, 7), unique=True, max_size=k))
        ids = draw(st.permutations(ids + [-1] * (k - len(ids))))
        answer.append([(label, draw(scores)) for label in ids])
    return answer


def arrays(rows: Naive) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    k = len(rows[0]) if rows else 1
    pairs = np.array(rows, float).reshape(len(rows), k, 2)
    return pairs[:, :, 0].astype(np.int64), pairs[:, :, 1]


def sorted_of(rows: Naive, k: int | None = None) -> Predictions:
    return Predictions.sorted(*arrays(rows), LABELS, k=k)


def naively_sorted(row: Row) -> Row:
    return sorted(((label, score) for label, score in row if label >= 0), key=lambda pair: (-pair[1], pair[0]))


def pairs_of(predictions: Predictions) -> Naive:
    """What is listed, after checking that nothing stands behind the first empty place."""
    answer = []
    for ids, scores in zip(predictions.ids.tolist(), predictions.scores.tolist(), strict=True):
        listed = [(label, score) for label, score in zip(ids, scores, strict=True) if label >= 0]
        assert ids == [label for label, _ in listed] + [-1] * (len(ids) - len(listed))
        assert all(score == 0 for score in scores[len(listed) :])
        answer.append(listed)
    return answer


@given(candidates(), st.none() | st.integers(1, 9))
def test_sorted_order(rows: Naive, k: int | None) -> None:
    top = sorted_of(rows, k)
    assert pairs_of(top) == [naively_sorted(row)[:k] for row in rows]
    assert top.ids.dtype == np.int32
    assert top.scores.dtype == np.float32


@given(candidates(), st.integers(-8, 8).map(lambda eighths: eighths / 8))
def test_threshold_for_all(rows: Naive, at: float) -> None:
    expected = [[pair for pair in naively_sorted(row) if pair[1] >= at] for row in rows]
    assert pairs_of(sorted_of(rows).threshold(at)) == expected


@given(candidates(), st.lists(st.integers(-8, 8).map(lambda eighths: eighths / 8), min_size=8, max_size=8))
def test_threshold_for_each_label(rows: Naive, at: list[float]) -> None:
    expected = [[(label, score) for label, score in naively_sorted(row) if score >= at[label]] for row in rows]
    assert pairs_of(sorted_of(rows).threshold(np.array(at))) == expected


@given(candidates())
def test_to_csr_holds_every_listed_label(rows: Naive) -> None:
    matrix = sorted_of(rows).to_csr()
    assert matrix.shape == (len(rows), 8)
    assert matrix.has_sorted_indices
    for at, row in enumerate(rows):
        a, b = matrix.indptr[at], matrix.indptr[at + 1]
        stored = dict(zip(matrix.indices[a:b].tolist(), matrix.data[a:b].tolist(), strict=True))
        assert stored == {label: score for label, score in row if label >= 0}


@given(st.data(), st.none() | st.integers(1, 15))
def test_blend(data: st.DataObject, k: int | None) -> None:
    documents = data.draw(st.integers(1, 3))
    parts = [data.draw(candidates(documents)) for _ in range(2)]
    expected = []
    for rows in zip(*parts, strict=True):
        sums: dict[int, float] = {}
        for label, score in (pair for row in rows for pair in row):
            sums[label] = sums.get(label, 0.0) + score / 2
        expected.append(naively_sorted([*sums.items()])[: k or max(len(part[0]) for part in parts)])
    assert pairs_of(Predictions.blend([sorted_of(part) for part in parts], k)) == expected


def test_blend_of_one_is_itself() -> None:
    top = sorted_of([[(3, 0.5), (1, 0.75), (-1, 0.0)]])
    assert pairs_of(Predictions.blend([top])) == pairs_of(top)


def test_blend_keeps_the_kind_only_if_all_agree() -> None:
    ids, scores = np.array([[0]], np.int32), np.array([[0.5]], np.float32)
    probability = Predictions(ids, scores, LABELS, ScoreKind.PROBABILITY)
    assert Predictions.blend([probability, probability]).kind == ScoreKind.PROBABILITY
    assert Predictions.blend([probability, Predictions(ids, scores, LABELS)]).kind == ScoreKind.RANKING


def test_blend_refuses_what_does_not_fit() -> None:
    one, two = sorted_of([[(0, 1.0)]]), sorted_of([[(0, 1.0)], [(1, 1.0)]])
    other_labels = Predictions(one.ids, one.scores, LabelSet.of(["x"]))
    for parts in ([], [one, two], [one, other_labels]):
        with pytest.raises(ValueError, match="same documents and labels"):
            Predictions.blend(parts)


def test_blend_refuses_a_score_that_is_no_number_unless_its_place_is_empty() -> None:
    def listed(*scores: float) -> Predictions:
        return Predictions(np.array([[2, 0, -1]], np.int32), np.array([scores], np.float32), LABELS)

    with pytest.raises(ValueError, match="not a number"):
        Predictions.blend([listed(1.0, 0.5, 0.0), listed(1.0, float("nan"), 0.0)], k=1)
    assert pairs_of(Predictions.blend([listed(1.0, 0.5, float("nan"))])) == [[(2, 1.0), (0, 0.5)]]
    # The worst score there is still stands before an empty place.
    assert pairs_of(Predictions.blend([listed(1.0, -np.inf, 0.0)])) == [[(2, 1.0), (0, -np.inf)]]


def test_blend_of_no_documents() -> None:
    assert Predictions.blend([sorted_of([])] * 2, k=3).ids.shape == (0, 2)


@pytest.mark.parametrize(("ids", "scores"), [([[1, 2]], [[0.5]]), ([1], [0.5])])
def test_shapes_must_agree(ids: Any, scores: Any) -> None:
    with pytest.raises(ValueError, match="must be equal in shape"):
        Predictions(np.array(ids, np.int32), np.array(scores, np.float32), LABELS)


def test_a_score_that_is_no_number_is_refused_unless_its_place_is_empty() -> None:
    with pytest.raises(ValueError, match="not a number"):
        sorted_of([[(1, float("nan"))]])
    assert pairs_of(sorted_of([[(-1, float("nan")), (2, 0.5)]])) == [[(2, 0.5)]]


def test_rows_names_and_top() -> None:
    top = sorted_of([[(0, 0.5), (1, 0.25)], [(2, 0.5), (-1, 0.0)], [(3, 0.123456), (4, 1.0)]])
    assert top.names() == [[("l0", 0.5), ("l1", 0.25)], [("l2", 0.5)], [("l4", 1.0), ("l3", 0.1235)]]
    assert (len(top), top.k, top.top(1).k, top.top(9).k) == (3, 2, 1, 2)
    assert top[1:].names() == top.names()[1:]
    assert top[np.array([2, 0])].names() == [top.names()[2], top.names()[0]]
    assert top[np.array([True, False, False])].names() == top.names()[:1]
    assert len(top[[]]) == 0


def test_scores_that_only_order_labels_keep_their_order() -> None:
    scores = np.array([[50.0, 20.0, 19.9, 0.0, -3.0, -40.0]], np.float32)
    top = Predictions(np.arange(6, dtype=np.int32)[None], scores, LabelSet.of([*"abcdef"]), ScoreKind.RANKING)
    mapped = top.unit_scores().scores[0]
    assert (np.diff(mapped) < 0).all()
    assert mapped[3] == 0.5
    assert 0 < mapped.min() <= mapped.max() < 1
