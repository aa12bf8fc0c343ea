"""`Predictions`: the top-k labels of each document and their scores; never a dense documents x labels matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.frames import described, whole_number
from xmtc.corpus.labels import Csr, LabelSet
from xmtc.corpus.sparse import make_csr
from xmtc.corpus.strings import Rows, Strings, chosen_rows
from xmtc.display import escaped, further, html_box, html_table, shortened
from xmtc.errors import XmtcError
from xmtc.extras import require

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


SHOWN_ROWS, SHOWN_LABELS = 10, 10  # documents, and labels of each, that a prompt and a notebook show


class ScoreKind(StrEnum):
    """What a score means."""

    PROBABILITY = "probability"  #: in 0..1 by construction, not checked against data
    CALIBRATED = "calibrated"  #: in 0..1 and fitted on validation documents: 0.8 is right 8 times in 10
    RANKING = "ranking"  #: only the order means something


def check_threshold(at: float, kind: ScoreKind) -> None:
    """XmtcError for a threshold that drops or keeps every label, whatever its score.

    >>> check_threshold(30, ScoreKind.RANKING)
    >>> check_threshold(30, ScoreKind.CALIBRATED)
    Traceback (most recent call last):
    xmtc.errors.XmtcError: a threshold of 30 drops every label: these scores are probabilities, from 0 to 1
    """
    if at != at or abs(at) == float("inf"):
        raise XmtcError(f"a threshold of {at:g} is no finite number, so it would drop or keep every label")
    if kind is not ScoreKind.RANKING and not 0 <= at <= 1:
        what = "drops" if at > 1 else "keeps"
        raise XmtcError(f"a threshold of {at:g} {what} every label: these scores are probabilities, from 0 to 1")


@dataclass(frozen=True, eq=False)
class Predictions:
    """`ids[n, k]` and `scores[n, k]`, sorted by falling score, ties to the lower id; id -1 means "no more".

    `documents` are the identifiers of the documents, if they have some.

    >>> labels = LabelSet.of(["a", "b", "c"], names=["Apple", "Berry", "Cherry"])
    >>> top = Predictions.sorted(np.array([[0, 1, 2]]), np.array([[0.2, 0.9, 0.2]]), labels, k=2)
    >>> top.names()
    [[('Berry', 0.9), ('Apple', 0.2)]]
    >>> top.threshold(0.5).names()
    [[('Berry', 0.9)]]
    >>> top
    Predictions(1 documents, up to 2 labels each, scores: ranking)
      0  Berry 0.900, Apple 0.200
    """

    ids: NDArray[np.int32]
    scores: NDArray[np.float32]
    labels: LabelSet
    kind: ScoreKind = ScoreKind.RANKING
    documents: Strings | None = None

    def __post_init__(self) -> None:
        if self.ids.shape != self.scores.shape or self.ids.ndim != 2:
            raise ValueError(f"ids {self.ids.shape} and scores {self.scores.shape} must be equal in shape, (n, k)")

    @classmethod
    def sorted(
        cls,
        ids: NDArray[np.integer[Any]],
        scores: NDArray[np.floating[Any]],
        labels: LabelSet,
        kind: ScoreKind = ScoreKind.RANKING,
        k: int | None = None,
    ) -> Predictions:
        """Sort candidates by score and keep the k best; entries with id -1 go last."""
        scores32 = np.where(ids < 0, -np.inf, scores).astype(np.float32)
        if np.isnan(scores32).any():
            raise ValueError("a score is not a number")
        order = np.lexsort((np.where(ids < 0, np.iinfo(np.int64).max, ids), -scores32), axis=-1)[:, :k]
        top_ids = np.take_along_axis(ids, order, 1).astype(np.int32)
        top_scores = np.take_along_axis(scores32, order, 1)
        return cls(top_ids, np.where(top_ids < 0, 0, top_scores), labels, kind)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        rows = list(self._first_rows())
        width = max((len(document) for document, *_ in rows), default=0)
        lines = [f"Predictions({self._size()})"]
        for document, names, left_out in rows:
            listed = [*(f"{name} {score:.3f}" for name, score in names), *left_out]
            lines.append(f"  {document:<{width}}  {', '.join(listed) or 'no label'}")
        return "\n".join(lines + [f"  {line}" for line in further(SHOWN_ROWS, len(self), "document")])

    def _repr_html_(self) -> str:
        rows = []
        for document, names, left_out in self._first_rows():
            tags = [f'<span class="tag">{escaped(name)} <small>{score:.3f}</small></span>' for name, score in names]
            soft = [f'<span class="soft">{line}</span>' for line in (left_out if names else ["no label"])]
            rows.append([escaped(document), "".join(tags + soft)])
        table = html_table(["document", "labels"], rows) if rows else ""
        return html_box("Predictions", self._size(), table, notes=further(SHOWN_ROWS, len(self), "document"))

    def _size(self) -> str:
        return f"{len(self):,} documents, up to {self.k:,} labels each, scores: {self.kind.value}"

    def _first_rows(self) -> Iterator[tuple[str, list[tuple[str, float]], list[str]]]:
        """Of the first documents: identifier, names and scores, and a line about further labels."""
        for at, names in enumerate(self[:SHOWN_ROWS].names()):
            some = [(shortened(name), score) for name, score in names[:SHOWN_LABELS]]
            yield shortened(self.document(at)), some, further(SHOWN_LABELS, len(names), "label")

    def __getitem__(self, rows: Rows) -> Predictions:
        at = chosen_rows(rows, len(self), "predictions", "predictions.names()[{}]")
        documents = self.documents[at] if self.documents is not None else None
        return Predictions(self.ids[at], self.scores[at], self.labels, self.kind, documents)

    @property
    def k(self) -> int:
        """Length of the lists."""
        return int(self.ids.shape[1])

    def top(self, k: int) -> Predictions:
        """The first k of each list."""
        k = whole_number(k, "k")
        return replace(self, ids=self.ids[:, :k], scores=self.scores[:, :k])

    def names(self) -> list[list[tuple[str, float]]]:
        """For each document its (label name, score) pairs, best first."""
        return [
            [(self.labels.name(i), round(float(s), 4)) for i, s in zip(ids, scores, strict=True) if i >= 0]
            for ids, scores in zip(self.ids.tolist(), self.scores.tolist(), strict=True)
        ]

    def threshold(self, at: float | NDArray[np.floating[Any]]) -> Predictions:
        """Keep only labels that score at least `at`: one number, or one for each label id."""
        try:
            minimum: NDArray[np.float32] | None = np.asarray(at, np.float32)
        except (TypeError, ValueError):
            minimum = None
        if at is None or minimum is None:
            raise XmtcError(f"a threshold is a number, or one for each label, not {described(at)}")
        if minimum.shape not in ((), (len(self.labels),)):
            raise XmtcError(f"{minimum.size:,} thresholds for {len(self.labels):,} labels; give one, or one for each")
        if np.isnan(minimum).any():
            raise XmtcError("a threshold that is not a number (NaN) would drop every label")
        if not minimum.ndim:
            check_threshold(float(minimum), self.kind)
        return self.keep(self.scores >= (minimum[np.maximum(self.ids, 0)] if minimum.ndim else minimum))

    def keep(self, which: NDArray[np.bool_]) -> Predictions:
        """Keep only these entries, an array like `ids`; the lists stay in their order."""
        keep = (self.ids >= 0) & which
        # Kept entries move to the front: a stable sort on "dropped" leaves their order as it is.
        order = np.argsort(~keep, axis=1, kind="stable")
        ids = np.take_along_axis(np.where(keep, self.ids, -1), order, 1)
        scores = np.take_along_axis(np.where(keep, self.scores, np.float32(0)), order, 1)
        return replace(self, ids=ids, scores=scores)

    def unit_scores(self) -> Predictions:
        """Scores between 0 and 1: probabilities as they are; those that only order labels by a curve that keeps order.

        The curve, (1 + s / (1 + |s|)) / 2, has 0.5 at 0 and, unlike a sigmoid, does not end up at 1 for large scores.

        >>> scores = np.array([[1, 0]], np.float32)
        >>> Predictions(np.array([[1, 0]], np.int32), scores, LabelSet.of(["a", "b"])).unit_scores()
        Predictions(1 documents, up to 2 labels each, scores: ranking)
          0  b 0.750, a 0.500
        """
        if self.kind is not ScoreKind.RANKING:
            return replace(self, scores=np.clip(self.scores, 0, 1))
        scores = self.scores.astype(np.float64)
        return replace(self, scores=((1 + scores / (1 + np.abs(scores))) / 2).astype(np.float32))

    def document(self, at: int) -> str:
        """The identifier of document `at`, or its position where documents have none."""
        return self.documents[at] if self.documents is not None else str(at)

    def to_frame(self, wide: bool = False) -> pd.DataFrame:
        """A pandas DataFrame with a row for each label of a document: document, rank, label, name, score.

        `wide` has a row for each document instead, with lists of labels, names and scores. `document` is its
        identifier, which for documents of a DataFrame is the index, or its position.
        """
        require("Predictions.to_frame", "pandas")
        import pandas as pd

        documents = list(self.documents) if self.documents is not None else list(range(len(self)))
        present = self.ids >= 0
        keys, names = (
            {at: call(at) for at in np.unique(self.ids[present]).tolist()}
            for call in (self.labels.key, self.labels.name)
        )
        if wide:
            lists = [row[: np.count_nonzero(here)].tolist() for row, here in zip(self.ids, present, strict=True)]
            scores = [row[: len(ids)].tolist() for row, ids in zip(self.scores, lists, strict=True)]
            labels, named = ([[called[at] for at in ids] for ids in lists] for called in (keys, names))
            return pd.DataFrame({"document": documents, "labels": labels, "names": named, "scores": scores})
        row, rank = np.nonzero(present)
        ids = self.ids[present].tolist()
        return pd.DataFrame(
            {
                "document": [documents[at] for at in row.tolist()],
                "rank": rank + 1,
                "label": [keys[at] for at in ids],
                "name": [names[at] for at in ids],
                "score": self.scores[present],
            }
        )

    def to_csr(self) -> Csr:
        """Documents x labels, holding the scores of the listed labels (also those that are zero)."""
        present = self.ids >= 0
        indptr = np.concatenate([[0], np.cumsum(present.sum(1))])
        matrix = make_csr(self.scores[present], self.ids[present], indptr, (len(self), len(self.labels)))
        matrix.sort_indices()
        return matrix

    @staticmethod
    def blend(parts: Sequence[Predictions], k: int | None = None) -> Predictions:
        """The mean of several lists over the same documents and labels; an absent label counts as 0.

        >>> labels = LabelSet.of(["a", "b"])
        >>> one = Predictions(np.array([[0]], np.int32), np.array([[0.8]], np.float32), labels)
        >>> two = Predictions(np.array([[1]], np.int32), np.array([[1.0]], np.float32), labels)
        >>> Predictions.blend([one, two], k=2).names()
        [[('b', 0.5), ('a', 0.4)]]
        """
        if not parts or len({(len(part), len(part.labels)) for part in parts}) != 1:
            raise ValueError("only predictions for the same documents and labels can be blended")
        ids = np.concatenate([part.ids for part in parts], axis=1)
        scores = np.concatenate([part.scores for part in parts], axis=1) * np.float32(1 / len(parts))
        # Sort each row by label, then add up runs of the same label; each row begins a new run.
        row_starts = np.arange(len(ids))[:, None] * ids.shape[1]
        order = ids.argsort(axis=1, kind="stable") + row_starts
        ids, scores = ids.take(order), scores.take(order)
        first = np.ones(ids.shape, bool)
        np.not_equal(ids[:, 1:], ids[:, :-1], out=first[:, 1:])
        run = first.cumsum()
        merged = np.bincount(run, scores.ravel()).astype(np.float32).take(run).reshape(ids.shape)
        listed = first & (ids >= 0)
        if np.isnan(merged[listed]).any():
            raise ValueError("a score is not a number")
        # Labels rise within a row, so a stable sort leaves ties to the lower id; NaN sorts behind every number.
        falling = np.where(listed, -merged, np.float32(np.nan))
        order = falling.argsort(axis=1, kind="stable")[:, : k or max(part.k for part in parts)] + row_starts
        top_ids, top_scores = ids.take(order).astype(np.int32), merged.take(order)
        empty = ~listed.take(order)
        top_ids[empty], top_scores[empty] = -1, 0
        kinds = {part.kind for part in parts}
        kind = kinds.pop() if len(kinds) == 1 else ScoreKind.RANKING
        return Predictions(top_ids, top_scores, parts[0].labels, kind, parts[0].documents)
