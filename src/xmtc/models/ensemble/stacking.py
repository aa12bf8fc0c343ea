"""How the lists of several models become one: which labels, in which order, with which chance of being right.

For every label that some member lists for a document there are three numbers a member: the log-odds of its score's
chance of being right (by an isotonic curve, so that scores of any scale can be compared), the logarithm of its place in
the list, and whether it is missing there. A logistic regression over these, and over the logarithm of the label's
training count, has weights of its own for head, middle and tail labels, pulled towards common ones: what a member is
worth is different for frequent and for rare labels, and a single model's scores mostly favour one of them.

Everything is learned on validation documents, of which 500 are enough: there are some hundred weights at the most. What
to keep is decided by lists for documents that the weights were not learned on (cross-fitting), by nDCG@5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from xmtc.corpus.corpus import Corpus
from xmtc.labelspace.frequency_bands import frequency_bands
from xmtc.models.calibration import MIN_PROBABILITY, Calibration, Floats, Isotonic, Platt
from xmtc.predictions import Predictions, ScoreKind

#: Weights are learned on the first labels of each list: what stands lower is never among the best of all.
LEARNED_FROM = 20
FOLDS = 3
#: A member must add this much nDCG@5, or it is not worth its time and memory.
WORTH = 0.0005
#: With fewer validation documents that have labels, nothing can be learned.
FEWEST = 10
K = 5
BANDS = 3
#: How strongly common weights are pulled to 0, and those of a band to the common ones (features are standardised).
PULL, BAND_PULL = 1.0, 10.0
A_MEMBER = 3  # features of a member: log-odds, place, missing
UNKNOWN = -6.9  # log-odds of a label that a member does not list, where nothing was learned: one in a thousand

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """The labels that members list for documents, one row each: document, label, and each member's score and place.

    A score is NaN and a place -1 where a member does not list the label. Rows rise by document, then by label.

    >>> labels = Corpus.of([""], [["a", "b"]]).labels
    >>> one = Predictions(np.array([[1, 0]], np.int32), np.array([[0.9, 0.4]], np.float32), labels)
    >>> two = Predictions(np.array([[1, -1]], np.int32), np.array([[7.0, 0.0]], np.float32), labels)
    >>> table = Table.of([one, two])
    >>> table.label.tolist(), table.place.tolist()
    ([0, 1], [[1, -1], [0, 0]])
    """

    documents: int
    document: Ints
    label: Ints
    score: NDArray[np.float32]  # (rows, members)
    place: NDArray[np.int32]  # (rows, members)

    @classmethod
    def of(cls, lists: Sequence[Predictions], first: int | None = None) -> Table:
        """All labels that are among the `first` of some list; scores and places also from further down."""
        width, documents = len(lists[0].labels), len(lists[0])
        keys = [np.arange(documents)[:, None] * width + part.ids for part in lists]
        listed = [part.ids >= 0 for part in lists]
        found = np.unique(np.concatenate([key[:, :first][at[:, :first]] for key, at in zip(keys, listed, strict=True)]))
        score = np.full((len(found), len(lists)), np.nan, np.float32)
        place = np.full((len(found), len(lists)), -1, np.int32)
        for member, (part, key, at) in enumerate(zip(lists, keys, listed, strict=True)):
            row = np.searchsorted(found, key[at])
            there = row < len(found)
            there[there] = found[row[there]] == key[at][there]
            score[row[there], member] = part.scores[at][there]
            places = np.broadcast_to(np.arange(part.k, dtype=np.int32), part.ids.shape)
            place[row[there], member] = places[at][there]
        return cls(documents, found // width, found % width, score, place)

    def __len__(self) -> int:
        return len(self.document)

    def rows(self, wanted: NDArray[np.bool_]) -> Table:
        """Some rows; documents keep their numbers."""
        return Table(self.documents, self.document[wanted], self.label[wanted], self.score[wanted], self.place[wanted])

    def members(self, wanted: Sequence[int]) -> Table:
        """Some members; labels that only others list are left out."""
        kept = (self.place[:, wanted] >= 0).any(axis=1)
        return Table(
            self.documents, self.document[kept], self.label[kept],
            self.score[kept][:, wanted], self.place[kept][:, wanted],
        )  # fmt: skip

    def order(self, scores: NDArray[np.floating[Any]]) -> tuple[Ints, Ints]:
        """(rows by document and falling score, ties to the lower label; the place of each in its document's list)."""
        order = np.lexsort((self.label, -scores, self.document))
        starts = np.searchsorted(self.document, np.arange(self.documents))
        return order, np.arange(len(self)) - starts[self.document[order]]

    def top(self, scores: NDArray[np.float32], k: int, like: Predictions, kind: ScoreKind) -> Predictions:
        """The k best labels of each document."""
        order, place = self.order(scores)
        order, place = order[place < k], place[place < k]
        ids = np.full((self.documents, k), -1, np.int32)
        top = np.zeros((self.documents, k), np.float32)
        ids[self.document[order], place] = self.label[order]
        top[self.document[order], place] = scores[order]
        return Predictions(ids, top, like.labels, kind)


@dataclass(frozen=True, eq=False)
class Truth:
    """The labels of validation documents, held against a table."""

    keys: Ints
    counts: Ints  # labels of each document
    width: int

    @classmethod
    def of(cls, valid: Corpus, labels: int) -> Truth:
        """Of documents whose labels are numbered as the members' are; those that no member knows count too."""
        counts = np.diff(valid.targets.indptr).astype(np.int64)
        known = valid.targets.indices < labels
        documents = np.repeat(np.arange(len(valid)), counts)[known]
        return cls(documents * labels + valid.targets.indices[known], counts, labels)

    def relevant(self, table: Table) -> NDArray[np.bool_]:
        """Which rows of a table are right."""
        return np.isin(table.document * self.width + table.label, self.keys)

    def quality(self, table: Table, relevant: NDArray[np.bool_], scores: NDArray[np.floating[Any]]) -> Floats:
        """nDCG@5 of each document, if labels are ordered by these scores."""
        order, place = table.order(scores)
        best = (place < K) & relevant[order]
        gains = np.bincount(table.document[order][best], 1 / np.log2(place[best] + 2.0), table.documents)
        ideal = np.append(0, np.cumsum(1 / np.log2(np.arange(K) + 2.0)))[np.minimum(self.counts, K)]
        quality: Floats = np.divide(gains, ideal, out=np.zeros(table.documents), where=ideal > 0)
        return quality


@dataclass(frozen=True, eq=False)
class Stack:
    """The learned part: a curve for each member, and weights for each band of labels.

    `weights` are those of the members' features, one member after the other, of the label's frequency, and an offset.
    `as_it_is`: one member whose order of labels is to stay, only its scores become chances.
    """

    curves: tuple[Calibration, ...]
    weights: Floats  # (bands, features + 2)
    band: NDArray[np.int8]  # of each label
    frequency: NDArray[np.float32]  # of each label: log(1 + training documents)
    as_it_is: bool = False

    @classmethod
    def single(cls, curve: Calibration, counts: NDArray[np.int64]) -> Stack:
        """One member, as it is."""
        weights = np.tile([1.0, 0.0, UNKNOWN, 0.0, 0.0], (BANDS, 1))
        return cls((curve,), weights, *_of_labels(counts), as_it_is=True)

    @classmethod
    def equal(cls, kinds: Sequence[ScoreKind], counts: NDArray[np.int64]) -> Stack:
        """Where nothing can be learned: every member has the same say."""
        curves = [Platt(1.0, 0.0, of_probabilities=kind is not ScoreKind.RANKING) for kind in kinds]
        each = np.array([*([1.0, 0.0, UNKNOWN] * len(kinds)), 0.0, 0.0]) / len(kinds)
        return cls(tuple(curves), np.tile(each, (BANDS, 1)), *_of_labels(counts))

    @classmethod
    def fit(cls, table: Table, relevant: NDArray[np.bool_], counts: NDArray[np.int64]) -> Stack:
        """Curves and weights of the greatest likelihood, within what the pull allows."""
        listed = table.place >= 0
        curves = tuple(_curve(table.score[at, member], relevant[at]) for member, at in enumerate(listed.T))
        band, frequency = _of_labels(counts)
        features = _features(table, curves, frequency)
        middle, width = features.mean(axis=0), features.std(axis=0)
        width[width == 0] = 1
        features = np.column_stack([(features - middle) / width, np.ones(len(features))])
        groups = [(features[band[table.label] == at], relevant[band[table.label] == at]) for at in range(BANDS)]
        learned = _logistic(groups)
        weights = learned[:, :-1] / width
        return cls(curves, np.column_stack([weights, learned[:, -1] - weights @ middle]), band, frequency)

    def log_odds(self, table: Table) -> Floats:
        """Of each row's label being right."""
        features = _features(table, self.curves, self.frequency)
        weights = self.weights[self.band[table.label]]
        log_odds: Floats = np.einsum("rf,rf->r", features, weights[:, :-1]) + weights[:, -1]
        return log_odds

    def probabilities(self, table: Table) -> NDArray[np.float32]:
        """The same as probabilities."""
        probabilities: NDArray[np.float32] = expit(self.log_odds(table)).astype(np.float32)
        return probabilities

    def shares(self, table: Table) -> Floats:
        """What each member adds to a row's log-odds by listing the label, beside not listing it: (rows, members)."""
        members = len(self.curves)
        features = _features(table, self.curves, self.frequency)[:, :-1].reshape(len(table), members, A_MEMBER)
        weights = self.weights[self.band[table.label], : members * A_MEMBER].reshape(len(table), members, A_MEMBER)
        each: Floats = (features * weights).sum(axis=2) - weights[:, :, A_MEMBER - 1]
        return each

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of which `from_arrays` makes it again."""
        curves = {f"curve{at}.{key}": a for at, curve in enumerate(self.curves) for key, a in curve.to_arrays().items()}
        flag = np.array([self.as_it_is], np.uint8)
        return {**curves, "weights": self.weights, "band": self.band, "frequency": self.frequency, "as_it_is": flag}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], members: int, labels: int) -> Stack:
        """The inverse of `to_arrays`; KeyError or ValueError if they are not for so many members and labels."""
        curves = []
        for at in range(members):
            prefix = f"curve{at}."
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            curves.append(Calibration.from_arrays(own))
        weights, band, frequency = arrays["weights"], arrays["band"], arrays["frequency"]
        for array, kind, shape in (
            (weights, np.float64, (BANDS, A_MEMBER * members + 2)),
            (band, np.int8, (labels,)),
            (frequency, np.float32, (labels,)),
        ):
            if array.dtype != kind or array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"an array of {array.dtype} {array.shape}, not finite numbers of {kind} {shape}")
        if band.min(initial=0) < 0 or band.max(initial=0) >= BANDS:
            raise ValueError(f"bands of labels go from 0 to {BANDS - 1}")
        flag = arrays["as_it_is"]
        if flag.shape != (1,) or flag[0] not in (0, 1) or (flag[0] and members != 1):
            raise ValueError("only one member can answer as it is")
        return cls(tuple(curves), weights, band, frequency, bool(flag[0]))


@dataclass(frozen=True, eq=False)
class Choice:
    """Which members to keep, how to blend them, and how good that is: nDCG@5 on validation documents, in 0..1.

    `quality` is that of the choice, by cross-fitting if it is a blend; `alone` is that of each member.
    """

    kept: tuple[int, ...]
    stack: Stack
    quality: float
    alone: tuple[float, ...]


def choose(lists: Sequence[Predictions], valid: Corpus, counts: NDArray[np.int64]) -> Choice | None:
    """The blend of members that validation documents ask for; None if there are too few of them.

    `lists` are what each member answers for `valid`; `counts` are the labels' training documents. The blend of all is
    reduced by every member that it can do without. It is taken only if its lists are better than the best member's on
    documents that it was not learned on.
    """
    truth = Truth.of(valid, len(lists[0].labels))
    if np.count_nonzero(truth.counts) < FEWEST:
        return None
    table = Table.of(lists, LEARNED_FROM)
    relevant = truth.relevant(table)
    if not relevant.any():
        return None
    singles = [table.members([at]) for at in range(len(lists))]
    alone = tuple(float(truth.quality(one, truth.relevant(one), one.score[:, 0]).mean()) for one in singles)
    best = int(np.argmax(alone))
    kept = list(range(len(lists)))
    blended = highest = _cross_fitted(table, truth, counts)
    for member in np.argsort(alone, kind="stable").tolist():
        others = [at for at in kept if at != member]
        if others and (without := _cross_fitted(table.members(others), truth, counts)) > highest - WORTH:
            kept, blended, highest = others, without, max(highest, without)
    part = table.members(kept)
    relevant = truth.relevant(part)
    stack = Stack.fit(part, relevant, counts)
    in_hindsight = float(truth.quality(part, relevant, stack.probabilities(part)).mean())
    if min(blended, in_hindsight) > alone[best]:
        return Choice(tuple(kept), stack, blended, alone)
    only = singles[best]
    curve = _curve(only.score[:, 0], truth.relevant(only))
    return Choice((best,), Stack.single(curve, counts), alone[best], alone)


def _cross_fitted(table: Table, truth: Truth, counts: NDArray[np.int64]) -> float:
    """nDCG@5 of documents with weights that were learned on others; neighbours in the file stay together."""
    relevant = truth.relevant(table)
    fold = table.document * FOLDS // table.documents
    scores = np.zeros(len(table), np.float32)
    for at in range(FOLDS):
        here = fold == at
        if relevant[~here].any() and here.any():
            scores[here] = Stack.fit(table.rows(~here), relevant[~here], counts).probabilities(table.rows(here))
    return float(truth.quality(table, relevant, scores).mean())


def _curve(scores: NDArray[np.float32], relevant: NDArray[np.bool_]) -> Calibration:
    """A member's scores as chances; one that lists nothing here knows nothing."""
    return Isotonic.fit_curve(scores, relevant) if len(scores) else Platt(0.0, UNKNOWN, of_probabilities=False)


def _of_labels(counts: NDArray[np.int64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    return frequency_bands(counts).of_label, np.log1p(counts).astype(np.float32)


def _features(table: Table, curves: Sequence[Calibration], frequency: NDArray[np.float32]) -> Floats:
    """(rows, members x 3 + 1): log-odds, place and missing for each member, and the label's frequency."""
    features = np.zeros((len(table), A_MEMBER * len(curves) + 1))
    for member, curve in enumerate(curves):
        listed = table.place[:, member] >= 0
        probability = np.clip(
            curve.probabilities(table.score[listed, member].astype(np.float64)), MIN_PROBABILITY, 1 - MIN_PROBABILITY
        )
        odds, place, missing = range(A_MEMBER * member, A_MEMBER * (member + 1))
        features[listed, odds] = np.log(probability) - np.log1p(-probability)
        features[listed, place] = -np.log1p(table.place[listed, member])
        features[:, missing] = ~listed
    features[:, -1] = frequency[table.label]
    return features


def _logistic(groups: Sequence[tuple[Floats, NDArray[np.bool_]]]) -> Floats:
    """(groups, features): weights that make what is right likely; the last feature, all ones, is not pulled in common.

    A group's weights are the common ones plus its own, which are pulled to 0 harder.
    """
    size, total = groups[0][0].shape[1], sum(len(relevant) for _, relevant in groups)
    pull = np.full((len(groups) + 1, size), BAND_PULL)
    pull[0] = PULL
    pull[0, -1] = 0

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(pull.shape)
        value, slope = 0.5 * float(np.sum(pull * weights**2)), pull * weights
        for at, (features, relevant) in enumerate(groups, start=1):
            z = features @ (weights[0] + weights[at])
            value -= float(np.sum(log_expit(np.where(relevant, z, -z))))
            down = features.T @ (expit(z) - relevant)
            slope[0] += down
            slope[at] += down
        return value / total, slope.ravel() / total

    def curvature(flat: Floats) -> Floats:
        weights = flat.reshape(pull.shape)
        whole = np.zeros((*pull.shape, *pull.shape))
        for at, (features, _) in enumerate(groups, start=1):
            probability = expit(features @ (weights[0] + weights[at]))
            square = features.T @ (features * (probability * (1 - probability))[:, None])
            for row in (0, at):
                for column in (0, at):
                    whole[row, :, column] += square
        return (whole.reshape(pull.size, pull.size) + np.diag(pull.ravel())) / total

    found = minimize(loss, np.zeros(pull.size), jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-6})
    weights = found.x.reshape(pull.shape)
    learned: Floats = weights[0] + weights[1:]
    return learned
