"""`auto`: the best blend within a time budget: it tries methods, the cheapest first, and blends those that help.

What it does: holds out some documents and trains methods on the rest, one after the other (see
`xmtc.models.ensemble.search_space`), as long as the next one's estimated time is left; after each one the held-out
documents decide which methods to blend, and how (`xmtc.models.ensemble.stacking`). In the end the chosen methods are
trained again on all documents, for which time is reserved. A network gets the time that is left and ends with its best
weights so far. `report_` says what was done and why. Ctrl-C and the end of the time keep the best so far; at least one
method is trained, however short the time.

Where it differs from a paper: there is none. The choice depends on time, so that two runs can end with different
members; with the same members the same seed gives the same model.

Cost: `budget`, almost all of which it uses if the corpus is large.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from xmtc.budget import Alarm, alarm, seconds_in, time_limit
from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, WeightKind
from xmtc.errors import ConfigError, MissingExtra, XmtcError
from xmtc.memory import available_memory
from xmtc.models.base import Model
from xmtc.models.calibration import LIST_LENGTH
from xmtc.models.config import PRUNE, Capabilities, ModelConfig
from xmtc.models.ensemble.blend import Ensemble, split_holdout
from xmtc.models.ensemble.search_space import CANDIDATES, Candidate, Facts
from xmtc.models.ensemble.stacking import Choice, choose
from xmtc.models.registry import load, make, model_class
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import clock
from xmtc.storage import FolderReader, FolderWriter

WARM_UP = 60  # documents on which a method is trained first, so that its time does not include compilation
FINISHING = 0.04  # share of the budget for what comes after the last training, such as saving
WITHOUT_HOLDOUT = ("knn", "dismec")  # what is blended if there are too few documents to hold any out
REPORT = "report"
WORTH_KEEPING = 1.0  # seconds of training; a model that took less is not kept for a resumed run


class AutoConfig(ModelConfig):
    """The time that training may take, and the methods to choose from."""

    budget: str = "10m"
    """How long training may take, such as 90s, 30m or 1h30m."""
    methods: tuple[str, ...] | None = Field(None, min_length=1)
    """The methods to choose from; null: all of them."""

    @field_validator("budget")
    @classmethod
    def _a_duration(cls, budget: str) -> str:
        seconds_in(budget)
        return budget

    @field_validator("methods")
    @classmethod
    def _known(cls, methods: tuple[str, ...] | None) -> tuple[str, ...] | None:
        known = [candidate.name for candidate in CANDIDATES]
        for name in methods or ():
            if name not in known:
                raise ValueError(f"there is no method {name!r} to choose; there are: {'; '.join(known)}")
        return methods


@dataclass
class Trial:
    """A method that was tried or not, and the outcome."""

    method: str
    foreseen: float  # seconds
    took: float = 0.0
    quality: float | None = None  # nDCG@5 on the held-out documents, in percent
    blend: float | None = None  # the same of the best blend so far
    note: str = ""
    kept: bool = False


@dataclass(eq=False)
class Trained:
    """A method that was trained, with its predictions for the held-out documents."""

    candidate: Candidate
    model: Model
    lists: Predictions
    trial: Trial


class Auto(Ensemble):
    """The best blend of methods that can be trained in a given time.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 30, tags * 30)
    >>> auto = Auto(budget="1m", methods=["knn", "rocchio"]).fit(corpus)
    >>> auto.predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "auto"
    capabilities = Capabilities(
        summary="tries methods within a time budget, cheapest first, and blends those that help",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        weights=frozenset({"documents", "labels"}),
        shrink=PRUNE,
    )
    Config = AutoConfig
    config: AutoConfig

    report_: dict[str, Any]

    def check_installed(self) -> None:
        """A MissingExtra if every method to choose from needs one; else those that do are left out, which is said."""
        refused = []
        for candidate in CANDIDATES:
            if candidate.name in (self.config.methods or ()):
                try:
                    candidate.check_installed()
                    return
                except MissingExtra as error:
                    refused.append(error)
        if refused:
            first = refused[0]
            raise MissingExtra(f"auto: {first.what}", first.extra, first.library)

    def check_weights(self, kinds: Collection[WeightKind]) -> None:
        """A ConfigError if a method that is named cannot; without names, those that can are tried."""
        for candidate in CANDIDATES:
            if candidate.name in (self.config.methods or ()):
                try:
                    model_class(candidate.model)(**candidate.settings).check_weights(kinds)
                except ConfigError as error:
                    raise ConfigError(f"auto: {error}") from error

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        search = Search(self, corpus, valid, checkpoints)
        try:
            search.run()
            search.refit()
        except KeyboardInterrupt:
            if not search.trained:
                raise
            search.say("stopped; the best so far is kept")
        search.finish()

    def _save(self, folder: FolderWriter) -> None:
        super()._save(folder)
        folder.json(REPORT, self.report_)

    def _load(self, folder: FolderReader) -> None:
        super()._load(folder)
        self.report_ = folder.json(REPORT)


class Search:
    """One run of `auto`: what was tried, what is kept, and how much time is left."""

    def __init__(self, auto: Auto, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        self.auto, self.corpus, self.checkpoints = auto, corpus, checkpoints
        self.seed = auto.config.seed
        self.train, self.holdout = (corpus, valid) if valid is not None else split_holdout(corpus, self.seed)
        self.refits = len(self.train) < len(corpus)  # whether methods are trained again on all documents
        self.budget = seconds_in(auto.config.budget)
        self.end = time.monotonic() + self.budget * (1 - FINISHING)
        self.facts = Facts.of(self.train, self.seed)
        self.trials: list[Trial] = []
        self.trained: list[Trained] = []  # the members of the best blend
        self.choice: Choice | None = None
        self.foreseen = self.took = 2.0  # seconds of training; so the first ones change `cost` only a little
        self.refitted: list[str] = []
        checkpoints.put("auto", {"seed": np.array([self.seed])})  # says whose pieces are in the folder

    @staticmethod
    def say(what: str) -> None:
        """Print a line of progress."""
        print(f"auto: {what}", file=sys.stderr, flush=True)

    @property
    def left(self) -> float:
        """Seconds that are left of the budget."""
        return self.end - time.monotonic()

    def cost(self, candidate: Candidate) -> float:
        """Seconds that a method will take, as foreseen and corrected by how long the ones before took."""
        return candidate.seconds(self.facts) * self.took / self.foreseen

    def run(self) -> None:
        """Try the methods, cheapest first."""
        self.say(str(self.facts))
        held_out = f"{len(self.holdout):,} held out" if self.holdout is not None else "too few to hold any out"
        self.say(f"{clock(self.budget)} to spend; {len(self.train):,} documents to learn from, {held_out}")
        able = self._weighing()
        names = self.auto.config.methods or [candidate.name for candidate in able]
        if self.holdout is None:
            names = [name for name in names if name in WITHOUT_HOLDOUT] or list(names)[:1]
        wanted = self._installed([candidate for candidate in able if candidate.name in names])
        for candidate in sorted(wanted, key=lambda each: each.seconds(self.facts)):
            trial = Trial(candidate.name, round(self.cost(candidate), 1), note=self._refusal(candidate))
            self.trials.append(trial)
            if not trial.note:
                self._try(candidate, trial)
            if not any(each.trial is trial for each in self.trained) and trial.quality is None:
                self.say(f"{candidate.name}: {trial.note}")

    def _weighing(self) -> list[Candidate]:
        """The methods that can be trained with the weights that the corpus has; which ones are left out is said."""
        kinds = self.corpus.weight_kinds
        able = [each for each in CANDIDATES if model_class(each.model).capabilities.weights.issuperset(kinds)]
        left_out = [each.name for each in CANDIDATES if each not in able]
        if left_out and self.auto.config.methods is None:
            self.say(f"left out: {', '.join(left_out)}; they cannot take weights of {' and '.join(kinds)}")
        return able

    def _installed(self, wanted: list[Candidate]) -> list[Candidate]:
        """The methods whose extra is there; which ones are left out is said, and how to have them."""
        there = []
        left_out: dict[str, list[str]] = {}
        for candidate in wanted:
            try:
                candidate.check_installed()
                there.append(candidate)
            except MissingExtra as error:
                self.trials.append(Trial(candidate.name, 0.0, note=f"not tried: {error}"))
                left_out.setdefault(error.extra, []).append(candidate.name)
        for extra, names in left_out.items():
            self.say(f"left out: {', '.join(names)}; to have them: pip install 'xmtc[{extra}]'")
        return there

    def _refusal(self, candidate: Candidate) -> str:
        """Why a method is not tried; "" if it is."""
        if why := candidate.refusal(self.facts):
            return f"not tried: {why}"
        if not self.trained:
            return ""  # so that there is a model, however little time
        try:
            needed = make(candidate.model, **candidate.settings).memory_needed(self.train)
        except XmtcError as error:  # such as an encoder that is not installed
            return f"not tried: {error}"
        if needed > available_memory():
            return f"not tried: it needs about {needed / 2**30:.1f} GiB of memory, more than there is"
        cost = self.cost(candidate) * candidate.least
        if not candidate.network and self.refits:
            cost *= 2
        if cost > (spare := self._spare()):
            return f"not tried: it would take {clock(cost)}, {clock(max(0, spare))} are left"
        return ""

    def _spare(self) -> float:
        """Seconds that are left after training the chosen methods again on all documents."""
        return self.left - sum(each.trial.took for each in self.trained if self.refits and not each.candidate.network)

    def _try(self, candidate: Candidate, trial: Trial) -> None:
        """Train a method, and see whether it helps."""
        start = time.monotonic()
        bell = Alarm()
        try:
            with alarm(self.left) if self.trained else nullcontext(bell) as bell:
                model = self._fitted(candidate, trial)
            lists = model.predict(self.holdout if self.holdout is not None else self.train[:1], LIST_LENGTH)
        except KeyboardInterrupt:
            trial.took = round(time.monotonic() - start, 1)
            if not bell.rang:
                trial.note = "stopped"
                raise
            trial.note = "not finished when the time was up"
            return
        except Exception as error:  # one method must not take the others down
            trial.note = _why(error)
            return
        self._weigh(Trained(candidate, model, lists, trial))

    def _fitted(self, candidate: Candidate, trial: Trial) -> Model:
        """A trained model, or the one that an earlier run left."""
        folder = self._folder(candidate)
        if folder is not None and (folder / "model").exists():
            model = load(folder / "model")
            trial.took, trial.note = float(model.training_["seconds"]), "found as an earlier run left it"
            return model
        if not candidate.network and candidate.seconds(self.facts):
            labelled = np.flatnonzero(np.diff(self.train.targets.indptr))
            self._new(candidate).fit(self.train[labelled[:WARM_UP]]).predict(self.train[:WARM_UP], LIST_LENGTH)
        start = time.monotonic()
        with time_limit(max(1.0, min(self._spare(), 1.5 * self.cost(candidate))), candidate.trainings(self.facts)):
            model = self._fit(candidate, self.train, "pieces")
        trial.took = round(time.monotonic() - start, 1)
        if not candidate.network:
            self.foreseen += candidate.seconds(self.facts)
            self.took += trial.took
        if folder is not None and trial.took >= WORTH_KEEPING:
            model.save(folder / "model")
        return model

    def _new(self, candidate: Candidate) -> Model:
        return make(candidate.model, **{"seed": self.seed, **candidate.settings})

    def _fit(self, candidate: Candidate, documents: Corpus, pieces: str) -> Model:
        folder = self._folder(candidate)
        checkpoints = folder / pieces if folder is not None else None
        return self._new(candidate).fit(documents, None, checkpoints, self.checkpoints.log_folder)

    def _folder(self, candidate: Candidate) -> Path | None:
        name = candidate.name.replace(", ", "-").replace(" ", "-")
        return self.checkpoints.folder / name if self.checkpoints.folder is not None else None

    def _weigh(self, new: Trained) -> None:
        """Keep a method if the blend with it is better."""
        every, trial, choice = [*self.trained, new], new.trial, None
        if self.holdout is not None:
            labels = new.lists.labels
            assert labels.counts is not None
            choice = choose([each.lists for each in every], self.holdout.with_labels(labels), labels.counts)
        if choice is None:
            self.trained = every
        else:
            if self.choice is None or choice.ndcg > self.choice.ndcg:
                self.trained, self.choice = [every[at] for at in choice.kept], choice
            trial.quality, trial.blend = round(100 * choice.alone[-1], 2), round(100 * self.choice.ndcg, 2)
        alone = f"nDCG@5 {trial.quality:.2f}" if trial.quality is not None else "trained"
        blended = f", together {trial.blend:.2f} ({self.names})" if len(self.trained) > 1 and trial.blend else ""
        note = f" ({trial.note})" if trial.note else ""
        self.say(f"{trial.method}: {clock(trial.took)}, {alone}{blended}{note}")
        if new in self.trained:
            self._adopt()
            if self.auto.on_better is not None:
                self.auto.on_better()

    @property
    def names(self) -> str:
        """The members of the best blend."""
        return ", ".join(each.candidate.name for each in self.trained)

    def _adopt(self) -> None:
        """Let `auto` be the best blend so far."""
        auto, corpus, stack = self.auto, self.corpus, self.choice.stack if self.choice is not None else None
        auto.adopt([each.candidate.name for each in self.trained], [each.model for each in self.trained], stack)
        auto.labels_ = corpus.labels.with_counts(corpus.label_counts)
        auto.training_ = {"corpus": corpus.name, "documents": len(corpus)}
        auto.report_ = self.report()

    def finish(self) -> None:
        """Adopt the best blend for good, and say what it is."""
        if not self.trained:
            reasons = "; ".join(f"{trial.method}: {trial.note}" for trial in self.trials)
            raise XmtcError(f"{self.corpus.name}: no method could be trained ({reasons})")
        self._adopt()
        if self.choice is not None:
            best = max(self.trials, key=lambda trial: -1.0 if trial.quality is None else trial.quality)
            self.say(
                f"{self.names}: nDCG@5 {100 * self.choice.ndcg:.2f} on held-out documents; "
                f"the best alone is {best.method} with {best.quality:.2f}"
            )
        if self.refitted:
            self.say(f"trained again on all documents: {', '.join(self.refitted)}")

    def refit(self) -> None:
        """Train the chosen methods on all documents, the quickest first, as long as there is time."""
        if not self.refits:
            return
        for each in sorted(self.trained, key=lambda each: each.trial.took):
            candidate = each.candidate
            if candidate.network or each.trial.took * len(self.corpus) / len(self.train) > self.left:
                continue
            with alarm(self.left) as bell:
                try:
                    each.model = self._fit(candidate, self.corpus, "all-pieces")
                except KeyboardInterrupt:
                    if not bell.rang:
                        raise
                    return
                except Exception as error:  # then the model that was trained without the held-out documents stays
                    self.say(f"{candidate.name} on all documents: {_why(error)}")
                    continue
            self.refitted.append(candidate.name)

    def report(self) -> dict[str, Any]:
        """What was done and why, for the model's folder."""
        for trial in self.trials:
            trial.kept = any(each.trial is trial for each in self.trained)
        return {
            "corpus": asdict(self.facts),
            "held-out documents": len(self.holdout) if self.holdout is not None else 0,
            "nDCG@5": round(100 * self.choice.ndcg, 2) if self.choice is not None else None,
            "trained on all documents": self.refitted,
            "methods": [asdict(trial) for trial in self.trials],
        }


def _why(error: Exception) -> str:
    return f"failed: {str(error) or type(error).__name__}"
