"""Short lists of labels that a linear model finds, with log-odds: what a network then has only to correct.

A model knows the documents that it was trained on far too well. So the lists of training documents come from models of
the other documents (cross-fitting), like the lists of any text to come.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.models.base import Model
from xmtc.models.calibration import MIN_PROBABILITY, Platt
from xmtc.models.registry import make, model_class
from xmtc.predictions import ScoreKind
from xmtc.search.listed import Listed
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter

Lister = Literal["parabel", "bonsai", "dismec", "knn"]
FOLDS = 3
LISTED = 100  # labels of a list


@dataclass(frozen=True)
class Shortlister:
    """A model and what its scores mean: the curve that makes chances of them.

    >>> corpus = Corpus.of(["red apple", "blue sky"] * 30, [["fruit"], ["weather"]] * 30)
    >>> lister, fair = Shortlister.fit("knn", corpus, 0, Checkpoints(None, {}))
    >>> lister.lists(Corpus.of(["an apple"])).labels[0, 0] == fair.labels[0, 0]
    np.True_
    """

    model: Model
    curve: Platt

    @classmethod
    def fit(cls, name: Lister, corpus: Corpus, seed: int, checkpoints: Checkpoints) -> tuple[Shortlister, Listed]:
        """(the lister of these documents, fair lists of themselves)."""
        from xmtc.kernels.ranking_metrics import find_hits

        checkpoints.put("shortlist", {"folds": np.array([FOLDS])})  # says whose pieces those of the folds are
        length = min(LISTED, len(corpus.labels))
        ids = np.full((len(corpus), length), -1, np.int32)
        scores = np.zeros((len(corpus), length), np.float32)
        fold = np.random.default_rng(derived_seed(seed, 29)).permutation(len(corpus)) % FOLDS
        for at in range(FOLDS):
            others, own = corpus[np.flatnonzero(fold != at)], np.flatnonzero(fold == at)
            if others.targets.nnz and len(own):
                pieces = _inside(checkpoints, f"fold{at}")
                found = make(name, seed=seed).fit(others, None, pieces).predict(corpus[own], length)
                ids[own], scores[own] = found.ids, found.scores
        indptr, indices = corpus.targets.indptr.astype(np.int64), corpus.targets.indices.astype(np.int32)
        listed, relevant = ids >= 0, find_hits(ids, indptr, indices)
        of_chances = model_class(name).capabilities.score is not ScoreKind.RANKING
        curve = Platt(1.0, 0.0, of_chances)
        if listed.any():
            curve = Platt.fit_sigmoid(scores[listed], relevant[listed], of_probabilities=of_chances)
        model = make(name, seed=seed).fit(corpus, None, _inside(checkpoints, "lister"))
        return cls(model, curve), Listed(ids, _odds(curve, scores))

    def lists(self, corpus: Corpus) -> Listed:
        """Of documents that it was not trained on."""
        found = self.model.predict(corpus, LISTED)
        return Listed(found.ids, _odds(self.curve, found.scores))

    def save(self, folder: FolderWriter) -> None:
        """Write the model as a part of the folder, and the curve."""
        part, counts = folder.part("lister"), self.model._fitted().counts
        assert counts is not None
        facts = {"training": {**self.model.training_, "documents": self.model.train_documents_}}
        folder.json("lister", {"config": self.model.config.model_dump(mode="json"), **facts})
        folder.arrays("lister_curve", {**self.curve.to_arrays(), "counts": counts})
        self.model.write(part)

    @classmethod
    def load(cls, folder: FolderReader, name: Lister, outer: Model) -> Shortlister:
        """The inverse of `save`, for a model that knows the same labels."""
        labels, facts = outer._fitted(), folder.json("lister")
        with folder.building("lister_curve"):
            arrays = folder.arrays("lister_curve")
            curve, counts = Platt.from_arrays(arrays), arrays["counts"]
            if counts.dtype != np.int64 or counts.shape != (len(labels),) or np.any(counts < 0):
                raise ValueError(f"there are {counts.shape} training counts for {len(labels)} labels")
            if not isinstance(facts, dict) or not all(
                isinstance(facts.get(key), dict) for key in ("config", "training")
            ):
                raise ValueError("lister.json does not say which model finds the labels")
        model = model_class(name).load(folder.part("lister", facts), labels.with_counts(counts))
        return cls(model, curve)


def _odds(curve: Platt, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    probabilities = np.clip(curve.probabilities(scores.astype(np.float64)), MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    odds: NDArray[np.float32] = np.log(probabilities / (1 - probabilities)).astype(np.float32)
    return odds


def _inside(checkpoints: Checkpoints, name: str) -> Path | None:
    return checkpoints.folder / name if checkpoints.folder is not None else None
