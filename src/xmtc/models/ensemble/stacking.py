"""Stacking: how the lists of several models become one, with a probability for each label.

Every label that some member lists for a document has three features per member: the log-odds of its calibrated score
(by an isotonic curve, so that scores of any scale can be compared), the logarithm of its rank in the list, and whether
the member does not list it. A logistic regression over these features and the logarithm of the label's training count
has separate weights for head, middle and tail labels, and for those without a training document, regularised towards
common ones: members differ in how much they are worth for frequent and for rare labels, and that a classifier does not
list a label means nothing if it was never shown one.

Everything is learned on validation documents, of which 500 are enough for at most some hundred weights. Which members
to keep is decided by nDCG@5 on documents that the weights were not learned on (cross-fitting), and a blend is taken
only if a paired test prefers it to its best member (see `xmtc.models.ensemble.holdout`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from xmtc.corpus.labels import Csr
from xmtc.labelspace.frequency_bands import frequency_bands
from xmtc.models.calibration import Calibration, Floats, Isotonic, Platt, log_odds
from xmtc.models.ensemble.holdout import FEWEST, Estimate, Holdout
from xmtc.predictions import Predictions, ScoreKind

#: Weights are learned on the first labels of each list: lower ones are never among the best of all.
LEARNED_FROM = 20
FOLDS = 3
#: A member must add this much nDCG@5, or it is not worth its time and memory.
WORTH = 0.0005
K = 5
UNSEEN = 3  # band of the labels that no training document has, after head, middle and tail
BAND_NAMES = ("head", "middle", "tail", "unseen")
BANDS = len(BAND_NAMES)
OLD_BANDS = 3  # those of models that were made before there was one for unseen labels
#: L2 penalty of the common weights, and of a band's difference from them (features are standardised).
L2, BAND_L2 = 1.0, 10.0
MEMBER_FEATURES = 3  # log-odds, rank, missing
UNLISTED = -6.9  # log-odds of a label that a member does not list, where nothing was learned: one in a thousand

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """The labels that members list for documents, one row each: document, label, and each member's score and rank.

    A score is NaN and a rank -1 where a member does not list the label. Rows rise by document, then by label.

    >>> from xmtc.corpus.labels import LabelSet
    >>> labels = LabelSet.of(["a", "b"])
    >>> one = Predictions(np.array([[1, 0]], np.int32), np.array([[0.9, 0.4]], np.float32), labels)
    >>> two = Predictions(np.array([[1, -1]], np.int32), np.array([[7.0, 0.0]], np.float32), labels)
    >>> table = Table.of([one, two])
    >>> table.label.tolist(), table.rank.tolist()
    ([0, 1], [[1, -1], [0, 0]])
    """

    documents: int
    document: Ints
    label: Ints
    score: NDArray[np.float32]  # (rows, members)
    rank: NDArray[np.int32]  # (rows, members), from 0

    @classmethod
    def of(cls, lists: Sequence[Predictions], first: int | None = None) -> Table:
        """All labels that are among the `first` of some list; scores and ranks also from further down."""
        width, documents = len(lists[0].labels), len(lists[0])
        keys = [np.arange(documents)[:, None] * width + part.ids for part in lists]
        listed = [part.ids >= 0 for part in lists]
        found = np.unique(np.concatenate([key[:, :first][at[:, :first]] for key, at in zip(keys, listed, strict=True)]))
        score = np.full((len(found), len(lists)), np.nan, np.float32)
        rank = np.full((len(found), len(lists)), -1, np.int32)
        for member, (part, key, at) in enumerate(zip(lists, keys, listed, strict=True)):
            row = np.searchsorted(found, key[at])
            known = row < len(found)
            known[known] = found[row[known]] == key[at][known]
            score[row[known], member] = part.scores[at][known]
            rank[row[known], member] = np.nonzero(at)[1][known]
        return cls(documents, found // width, found % width, score, rank)

    def __len__(self) -> int:
        return len(self.document)

    def rows(self, wanted: NDArray[np.bool_]) -> Table:
        """Some rows; documents keep their numbers."""
        return Table(self.documents, self.document[wanted], self.label[wanted], self.score[wanted], self.rank[wanted])

    def members(self, wanted: Sequence[int]) -> Table:
        """Some members; labels that only others list are left out."""
        some = replace(self, score=self.score[:, wanted], rank=self.rank[:, wanted])
        return some.rows(some.rank.max(axis=1) >= 0)

    def top(self, scores: NDArray[np.floating[Any]], k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """(ids, scores) of the k best labels of each document, ties to the lower label; -1 where there are fewer."""
        order = np.lexsort((self.label, -scores, self.document))
        starts = np.searchsorted(self.document, np.arange(self.documents))
        rank = np.arange(len(self)) - starts[self.document[order]]
        order, rank = order[rank < k], rank[rank < k]
        ids = np.full((self.documents, k), -1, np.int32)
        top = np.zeros((self.documents, k), np.float32)
        ids[self.document[order], rank] = self.label[order]
        top[self.document[order], rank] = scores[order]
        return ids, top


def is_relevant(table: Table, targets: Csr) -> NDArray[np.bool_]:
    """Whether each row's label is among the labels of its document, by the documents' label matrix."""
    relevant: NDArray[np.bool_] = targets[table.document, table.label] > 0
    return relevant


def ndcg(table: Table, scores: NDArray[np.floating[Any]], targets: Csr) -> Floats:
    """nDCG@5 of each document, if labels are ordered by these scores; labels that no member knows count too."""
    from xmtc.kernels.ranking_metrics import ndcg_of_lists

    return ndcg_of_lists(table.top(scores, K)[0], targets)


@dataclass(frozen=True, eq=False)
class Stack:
    """What is learned: a calibration curve for each member, and weights for each band of labels.

    `weights` are those of the members' features, one member after the other, of the label's frequency, and an offset.
    `as_it_is`: a single member whose order of labels stays; only its scores become probabilities.
    """

    curves: tuple[Calibration, ...]
    weights: Floats  # (bands, features + 2)
    band: NDArray[np.int8]  # of each label
    frequency: NDArray[np.float32]  # of each label: log(1 + training documents)
    as_it_is: bool = False

    @classmethod
    def single(cls, curve: Calibration, counts: NDArray[np.int64]) -> Stack:
        """One member, as it is."""
        weights = np.tile([1.0, 0.0, UNLISTED, 0.0, 0.0], (BANDS, 1))
        return cls((curve,), weights, *_of_labels(counts), as_it_is=True)

    @classmethod
    def equal(cls, kinds: Sequence[ScoreKind], counts: NDArray[np.int64]) -> Stack:
        """Every member has the same weight: for too few documents to learn from."""
        curves = [Platt(1.0, 0.0, of_probabilities=kind is not ScoreKind.RANKING) for kind in kinds]
        each = np.array([*([1.0, 0.0, UNLISTED] * len(kinds)), 0.0, 0.0]) / len(kinds)
        return cls(tuple(curves), np.tile(each, (BANDS, 1)), *_of_labels(counts))

    @classmethod
    def fit(cls, table: Table, relevant: NDArray[np.bool_], counts: NDArray[np.int64]) -> Stack:
        """Isotonic curves, and the weights of a regularised logistic regression."""
        listed = table.rank >= 0
        curves = tuple(_curve(table.score[at, member], relevant[at]) for member, at in enumerate(listed.T))
        band, frequency = _of_labels(counts)
        features = _features(table, curves, frequency)
        mean, std = features.mean(axis=0), features.std(axis=0)
        std[std == 0] = 1
        features = np.column_stack([(features - mean) / std, np.ones(len(features))])
        groups = [(features[band[table.label] == at], relevant[band[table.label] == at]) for at in range(BANDS)]
        learned = _logistic(groups)
        weights = learned[:, :-1] / std
        return cls(curves, np.column_stack([weights, learned[:, -1] - weights @ mean]), band, frequency)

    def with_counts(self, counts: NDArray[np.int64]) -> Stack:
        """The same weights for members that have learned from more documents since: labels may change their band."""
        band, frequency = _of_labels(counts)
        return replace(self, band=band, frequency=frequency)

    def log_odds(self, table: Table) -> Floats:
        """The log-odds that each row's label is relevant."""
        features = _features(table, self.curves, self.frequency)
        weights = self.weights[self.band[table.label]]
        log_odds: Floats = np.einsum("rf,rf->r", features, weights[:, :-1]) + weights[:, -1]
        return log_odds

    def probabilities(self, table: Table) -> NDArray[np.float32]:
        """The probability that each row's label is relevant."""
        probabilities: NDArray[np.float32] = expit(self.log_odds(table)).astype(np.float32)
        return probabilities

    def shares(self, table: Table) -> Floats:
        """What each member adds to a row's log-odds, compared with not listing the label: (rows, members)."""
        shape = (len(table), len(self.curves), MEMBER_FEATURES)
        features = _features(table, self.curves, self.frequency)[:, :-1].reshape(shape)
        weights = self.weights[self.band[table.label], :-2].reshape(shape)
        each: Floats = (features * weights).sum(axis=2) - weights[:, :, -1]
        return each

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The stack as arrays, for storage."""
        curves = {f"curve{at}.{key}": a for at, curve in enumerate(self.curves) for key, a in curve.to_arrays().items()}
        flag = np.array([self.as_it_is], np.uint8)
        return {**curves, "weights": self.weights, "band": self.band, "frequency": self.frequency, "as_it_is": flag}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], members: int, labels: int) -> Stack:
        """The inverse of `to_arrays`; KeyError or ValueError if they do not fit the members and labels."""
        curves = []
        for at in range(members):
            prefix = f"curve{at}."
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            curves.append(Calibration.from_arrays(own))
        weights, band, frequency = arrays["weights"], arrays["band"], arrays["frequency"]
        bands = OLD_BANDS if len(weights) == OLD_BANDS else BANDS
        for array, kind, shape in (
            (weights, np.float64, (bands, MEMBER_FEATURES * members + 2)),
            (band, np.int8, (labels,)),
            (frequency, np.float32, (labels,)),
        ):
            if array.dtype != kind or array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"an array of {array.dtype} {array.shape}, not finite numbers of {kind} {shape}")
        if band.min(initial=0) < 0 or band.max(initial=0) >= bands:
            raise ValueError(f"bands of labels go from 0 to {bands - 1}")
        flag = arrays["as_it_is"]
        if flag.shape != (1,) or flag[0] not in (0, 1) or (flag[0] and members != 1):
            raise ValueError("only one member can answer as it is")
        return cls(tuple(curves), weights, band, frequency, bool(flag[0]))


@dataclass(frozen=True, eq=False)
class Choice:
    """Which members to keep, how to blend them, and nDCG@5 on validation documents, in 0..1.

    `quality` is that of the choice, by cross-fitting if it is a blend, and `by_kind` that of each kind of documents;
    `alone` is that of each member. `found` and `found_alone` are the shares of the documents' labels among the first
    five, for each of BAND_NAMES (NaN where the documents have none). `pool` are the members whose blend is best,
    whether the test prefers it to the best member or not yet: with one more it may.
    """

    kept: tuple[int, ...]
    stack: Stack
    quality: Estimate
    by_kind: Mapping[str, Estimate]
    alone: tuple[float, ...]
    pool: tuple[int, ...]
    found: Floats
    found_alone: tuple[Floats, ...]

    @property
    def ndcg(self) -> float:
        """The expected nDCG@5."""
        return self.quality.mean


def choose(
    lists: Sequence[Predictions],
    holdout: Holdout,
    counts: NDArray[np.int64],
    allowed: Callable[[Sequence[int]], bool] = lambda _: True,
) -> Choice | None:
    """The best blend of members for validation documents; None if there are too few of them.

    `lists` are each member's predictions for these documents, whose labels have the members' ids; `counts` are the
    labels' training documents. The blend of all members drops every member that it can do without, and goes on dropping
    the one that it misses least until it is `allowed`, as each member alone has to be. It is chosen only if a paired
    test prefers it to the best member, on documents that its weights were not learned on.
    """
    targets = holdout.corpus.targets
    if np.count_nonzero(np.diff(targets.indptr)) < FEWEST:
        return None
    table = Table.of(lists, LEARNED_FROM)
    if not is_relevant(table, targets).any():
        return None
    singles = [table.members([at]) for at in range(len(lists))]
    each = [ndcg(one, one.score[:, 0], targets) for one in singles]
    alone = tuple(float(values.mean()) for values in each)
    best = int(np.argmax(alone))
    kept = list(range(len(lists)))
    scores = _cross_fitted(table, targets, counts)
    blended = ndcg(table, scores, targets)
    highest = float(blended.mean())
    for member in np.argsort(alone, kind="stable").tolist():
        others = [at for at in kept if at != member]
        if not others:
            break
        fewer = table.members(others)
        without = ndcg(fewer, _cross_fitted(fewer, targets, counts), targets)
        if without.mean() > highest - WORTH:
            kept, blended, highest = others, without, max(highest, float(without.mean()))
    while not allowed(kept):
        smaller = [[at for at in kept if at != member] for member in kept]
        parts = [table.members(others) for others in smaller]
        each_smaller = [ndcg(part, _cross_fitted(part, targets, counts), targets) for part in parts]
        blended, kept = max(zip(each_smaller, smaller, strict=True), key=lambda pair: float(pair[0].mean()))
    pool = tuple(sorted({*kept, best}))
    part, band = table.members(kept), _of_labels(counts)[0]
    found_alone = tuple(found_by_band(one, one.score[:, 0], targets, band) for one in singles)
    stack = Stack.fit(part, is_relevant(part, targets), counts)
    in_hindsight = float(ndcg(part, stack.probabilities(part), targets).mean())
    if in_hindsight > alone[best] and holdout.prefers(blended - each[best]):
        found = found_by_band(part, _cross_fitted(part, targets, counts), targets, band)
        quality, by_kind = holdout.mean(blended), holdout.means(blended)
        return Choice(tuple(kept), stack, quality, by_kind, alone, pool, found, found_alone)
    curve = _curve(singles[best].score[:, 0], is_relevant(singles[best], targets))
    single = Stack.single(curve, counts)
    quality, by_kind = holdout.mean(each[best]), holdout.means(each[best])
    return Choice((best,), single, quality, by_kind, alone, pool, found_alone[best], found_alone)


def found_by_band(table: Table, scores: NDArray[np.floating[Any]], targets: Csr, band: NDArray[np.int8]) -> Floats:
    """The share of the documents' labels of each band that are among the first five; NaN where there are none."""
    ids = table.top(scores, K)[0]
    documents, places = np.nonzero(ids >= 0)
    labels = ids[documents, places]
    right = labels[targets[documents, labels] > 0] if len(labels) else labels
    hits = np.bincount(band[right], minlength=BANDS)
    known = targets.indices[targets.indices < len(band)]
    there = np.bincount(band[known], minlength=BANDS)
    shares: Floats = np.divide(hits, there, out=np.full(BANDS, np.nan), where=there > 0)
    return shares


def _cross_fitted(table: Table, targets: Csr, counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """A score of each row by weights learned on other documents; neighbours in the file stay together."""
    relevant = is_relevant(table, targets)
    fold = table.document * FOLDS // table.documents
    scores = np.zeros(len(table), np.float32)
    for at in range(FOLDS):
        here = fold == at
        if relevant[~here].any() and here.any():
            scores[here] = Stack.fit(table.rows(~here), relevant[~here], counts).probabilities(table.rows(here))
    return scores


def _curve(scores: NDArray[np.float32], relevant: NDArray[np.bool_]) -> Calibration:
    """Calibration of a member's scores; a constant if it lists nothing here."""
    return Isotonic.fit_curve(scores, relevant) if len(scores) else Platt(0.0, UNLISTED, of_probabilities=False)


def _of_labels(counts: NDArray[np.int64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    band = np.where(counts > 0, frequency_bands(counts).of_label, np.int8(UNSEEN))
    return band, np.log1p(counts).astype(np.float32)


def _features(table: Table, curves: Sequence[Calibration], frequency: NDArray[np.float32]) -> Floats:
    """(rows, members x 3 + 1): log-odds, rank and missing for each member, and the label's frequency."""
    features = np.zeros((len(table), MEMBER_FEATURES * len(curves) + 1))
    for member, curve in enumerate(curves):
        listed = table.rank[:, member] >= 0
        odds, rank, missing = range(MEMBER_FEATURES * member, MEMBER_FEATURES * (member + 1))
        features[listed, odds] = log_odds(curve.probabilities(table.score[listed, member].astype(np.float64)))
        features[listed, rank] = -np.log1p(table.rank[listed, member])
        features[:, missing] = ~listed
    features[:, -1] = frequency[table.label]
    return features


def _logistic(groups: Sequence[tuple[Floats, NDArray[np.bool_]]]) -> Floats:
    """(groups, features): weights of a logistic regression with an L2 penalty.

    A group's weights are the common ones plus its own, which have a higher penalty; the common weight of the last
    feature, all ones, has none.
    """
    size, total = groups[0][0].shape[1], sum(len(relevant) for _, relevant in groups)
    penalty = np.full((len(groups) + 1, size), BAND_L2)
    penalty[0] = L2
    penalty[0, -1] = 0

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(penalty.shape)
        value, gradient = 0.5 * float(np.sum(penalty * weights**2)), penalty * weights
        for at, (features, relevant) in enumerate(groups, start=1):
            z = features @ (weights[0] + weights[at])
            value -= float(np.sum(log_expit(np.where(relevant, z, -z))))
            change = features.T @ (expit(z) - relevant)
            gradient[0] += change
            gradient[at] += change
        return value / total, gradient.ravel() / total

    def hessian(flat: Floats) -> Floats:
        weights = flat.reshape(penalty.shape)
        whole = np.zeros((*penalty.shape, *penalty.shape))
        for at, (features, _) in enumerate(groups, start=1):
            probability = expit(features @ (weights[0] + weights[at]))
            square = features.T @ (features * (probability * (1 - probability))[:, None])
            for row in (0, at):
                for column in (0, at):
                    whole[row, :, column] += square
        return (whole.reshape(penalty.size, penalty.size) + np.diag(penalty.ravel())) / total

    found = minimize(loss, np.zeros(penalty.size), jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-6})
    weights = found.x.reshape(penalty.shape)
    learned: Floats = weights[0] + weights[1:]
    return learned
