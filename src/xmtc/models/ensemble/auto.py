"""`auto`: the best that can be had in a given time: methods are tried, the cheapest first, and those that help blended.

What it does: looks at the corpus; holds out some documents; trains methods on the rest, one after the other (see
`xmtc.models.ensemble.search_space`), as long as the time that the next will take, foreseen from what the ones before
took, is left; after each one asks the held-out documents which methods, blended how, are best
(`xmtc.models.ensemble.stacking`). In the end the chosen ones are trained again on all documents, for which time is set
aside. A network gets the time that is left, and ends with the best weights that it has by then. `report_` says what was
done and why. Ctrl-C and the end of the time keep the best so far; at least one method is trained, however short the
time.

Where it differs from a paper: there is none. The choice depends on time, so that two runs can end with different
members; with the same members the same seed gives the same model.

Cost: `budget`, almost all of which it uses if the corpus is large.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from xmtc.budget import Alarm, alarm, seconds_in, time_limit
from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.errors import MissingExtra, XmtcError
from xmtc.memory import available_memory
from xmtc.models.base import Capabilities, Model, ModelConfig
from xmtc.models.calibration import LIST_LENGTH
from xmtc.models.ensemble.blend import Ensemble, held_out
from xmtc.models.ensemble.search_space import CANDIDATES, Candidate, Facts
from xmtc.models.ensemble.stacking import Choice, choose
from xmtc.models.registry import load, make
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import clock
from xmtc.storage import FolderReader, FolderWriter

WARM_UP = 60  # documents on which a method is trained first, so that compiling it is not taken for slowness
FINISHING = 0.04  # share of the budget for what comes after the last training, such as saving
WITHOUT_JUDGES = ("knn", "dismec")  # what is blended if there are too few documents to judge by
REPORT = "report"
WORTH_KEEPING = 1.0  # seconds of training; what took less is not kept for a run that goes on


class AutoConfig(ModelConfig):
    """The time that training may take (such as 90s, 30m, 1h30m), and the methods to choose from (all if null)."""

    budget: str = "10m"
    methods: tuple[str, ...] | None = Field(None, min_length=1)

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
    """A method that was tried or not, and what came of it."""

    method: str
    foreseen: float  # seconds
    took: float = 0.0
    quality: float | None = None  # nDCG@5 on the held-out documents, in percent
    blend: float | None = None  # of the best blend from then on
    note: str = ""
    kept: bool = False


@dataclass(eq=False)
class Trained:
    """A method that was trained, with its answers for the held-out documents."""

    candidate: Candidate
    model: Model
    lists: Predictions
    tried: Trial


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
        summary="tries methods as long as its budget lasts, cheapest first, and blends those that help",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
    )
    Config = AutoConfig
    config: AutoConfig

    report_: dict[str, Any]
    #: Called whenever there is a better model than before; `xmtc train` saves it.
    on_better: Callable[[], None] | None = None

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

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        search = Search(self, corpus, valid, checkpoints)
        try:
            search.run()
            search.train_again()
        except KeyboardInterrupt:
            if not search.trained:
                raise
            search.say("stopped; the best so far is kept")
        search.finish()

    def answer_with(self, corpus: Corpus, trained: list[Trained], choice: Choice | None) -> None:
        """Be what was chosen, until something better is."""
        self.adopt([each.candidate.name for each in trained], [each.model for each in trained], choice)
        self.labels_ = corpus.labels.with_counts(corpus.label_counts)
        self.train_documents_ = len(corpus)
        self.training_ = {"corpus": corpus.name, "documents": len(corpus)}

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
        self.rest, self.judges = (corpus, valid) if valid is not None else held_out(corpus, self.seed)
        self.budget = seconds_in(auto.config.budget)
        self.end = time.monotonic() + self.budget * (1 - FINISHING)
        self.facts = Facts.of(self.rest, self.seed)
        self.tried: list[Trial] = []
        self.trained: list[Trained] = []  # those that the best blend is made of
        self.choice: Choice | None = None
        self.foreseen = self.took = 2.0  # seconds of what was trained; the first ones hardly say how fast a machine is
        self.again: list[str] = []
        checkpoints.put("auto", {"seed": np.array([self.seed])})  # says whose pieces are in the folder

    @staticmethod
    def say(what: str) -> None:
        """A line of the report, as it comes."""
        print(f"auto: {what}", file=sys.stderr, flush=True)

    @property
    def left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()

    @property
    def pace(self) -> float:
        """How many times longer than foreseen trainings take here."""
        return self.took / self.foreseen

    def cost(self, candidate: Candidate) -> float:
        """Seconds that a method will take."""
        return candidate.seconds(self.facts) * self.pace

    def run(self) -> None:
        """Try the methods, cheapest first."""
        self.say(str(self.facts))
        valid = f"{len(self.judges):,} documents judge" if self.judges is not None else "too few documents to judge by"
        self.say(f"{clock(self.budget)} to spend; {len(self.rest):,} documents to learn from, {valid}")
        names = self.auto.config.methods or [candidate.name for candidate in CANDIDATES]
        if self.judges is None:
            names = [name for name in names if name in WITHOUT_JUDGES] or list(names)[:1]
        wanted = self._installed([candidate for candidate in CANDIDATES if candidate.name in names])
        for candidate in sorted(wanted, key=lambda each: each.seconds(self.facts)):
            tried = Trial(candidate.name, round(self.cost(candidate), 1))
            self.tried.append(tried)
            tried.note = self._refusal(candidate)
            if not tried.note:
                self._try(candidate, tried)
            if tried.quality is None:
                self.say(f"{candidate.name}: {tried.note}")

    def _installed(self, wanted: list[Candidate]) -> list[Candidate]:
        """The methods whose extra is there; which ones are left out is said, and how to have them."""
        there = []
        left_out: dict[str, list[str]] = {}
        for candidate in wanted:
            try:
                candidate.check_installed()
                there.append(candidate)
            except MissingExtra as error:
                self.tried.append(Trial(candidate.name, 0.0, note=f"not tried: {error}"))
                left_out.setdefault(error.extra, []).append(candidate.name)
        for extra, names in left_out.items():
            self.say(f"left out: {', '.join(names)}; to have them: pip install 'xmtc[{extra}]'")
        return there

    def _refusal(self, candidate: Candidate) -> str:
        """Why a method is not to be tried; "" if it is."""
        if why := candidate.refusal(self.facts):
            return f"not tried: {why}"
        if not self.trained:
            return ""  # so that there is a model, however little time
        try:
            needed = make(candidate.model, **candidate.settings).memory_needed(self.rest)
        except XmtcError as error:  # such as an encoder that is not installed
            return f"not tried: {error}"
        if needed > available_memory():
            return f"not tried: it needs about {needed / 2**30:.1f} GiB of memory, more than there is"
        cost = self.cost(candidate) * candidate.least
        if not candidate.network and len(self.rest) < len(self.corpus):
            cost *= 2  # once more with all documents
        if cost > (spare := self._spare()):
            return f"not tried: it would take {clock(cost)}, {clock(max(0, spare))} are left"
        return ""

    def _spare(self) -> float:
        """Seconds that are left if what was chosen is trained again on all documents."""
        again = len(self.rest) < len(self.corpus)
        return self.left - sum(each.tried.took for each in self.trained if again and not each.candidate.network)

    def _try(self, candidate: Candidate, tried: Trial) -> None:
        """Train a method, and see whether it helps."""
        start = time.monotonic()
        bell = Alarm()
        try:
            with alarm(self.left) if self.trained else nullcontext(bell) as bell:
                model = self._fitted(candidate, tried)
            lists = model.predict(self.judges if self.judges is not None else self.rest[:1], LIST_LENGTH)
        except KeyboardInterrupt:
            tried.took = round(time.monotonic() - start, 1)
            if not bell.rang:
                tried.note = "stopped"
                raise
            tried.note = "not finished when the time was up"
            return
        except Exception as error:  # one method must not take the others down
            tried.note = _why(error)
            return
        self._weigh(Trained(candidate, model, lists, tried))

    def _fitted(self, candidate: Candidate, tried: Trial) -> Model:
        """A trained model, or the one that an earlier run left."""
        settings = {"seed": self.seed, **candidate.settings}
        folder = self._folder(candidate)
        if folder is not None and (folder / "model").exists():
            model = load(folder / "model")
            tried.took, tried.note = float(model.training_["seconds"]), "found as an earlier run left it"
            return model
        if not candidate.network and candidate.seconds(self.facts):
            make(candidate.model, **settings).fit(_sample(self.rest)).predict(self.rest[:WARM_UP], LIST_LENGTH)
        start = time.monotonic()
        model = make(candidate.model, **settings)
        with time_limit(max(1.0, min(self._spare(), 1.5 * self.cost(candidate))), candidate.trainings(self.facts)):
            model.fit(self.rest, None, None if folder is None else folder / "pieces", self.checkpoints.log_folder)
        tried.took = round(time.monotonic() - start, 1)
        if not candidate.network:
            self.foreseen += candidate.seconds(self.facts)
            self.took += tried.took
        if folder is not None and tried.took >= WORTH_KEEPING:
            model.save(folder / "model")
        return model

    def _folder(self, candidate: Candidate) -> Path | None:
        name = candidate.name.replace(", ", "-").replace(" ", "-")
        return self.checkpoints.folder / name if self.checkpoints.folder is not None else None

    def _weigh(self, new: Trained) -> None:
        """Keep a method if the blend with it is better."""
        every = [*self.trained, new]
        choice = None
        if self.judges is not None:
            labels = new.lists.labels
            assert labels.counts is not None
            lists = [each.lists for each in every]
            choice = choose(lists, self.judges.with_labels(labels), labels.counts)
        tried = new.tried
        if choice is not None:
            tried.quality = round(100 * choice.alone[-1], 2)
            tried.blend = round(100 * max(choice.quality, self.choice.quality if self.choice else 0.0), 2)
        if choice is None:
            self.trained = every
        elif self.choice is None or choice.quality > self.choice.quality:
            self.trained, self.choice = [every[at] for at in choice.kept], _renumbered(choice)
        names = ", ".join(each.candidate.name for each in self.trained)
        alone = f"nDCG@5 {tried.quality:.2f}" if tried.quality is not None else "trained"
        blended = f", together {tried.blend:.2f} ({names})" if len(self.trained) > 1 and tried.blend else ""
        note = f" ({tried.note})" if tried.note else ""
        self.say(f"{tried.method}: {clock(tried.took)}, {alone}{blended}{note}")
        if new in self.trained:
            self._adopt()
            if self.auto.on_better is not None:
                self.auto.on_better()

    def _adopt(self) -> None:
        self.auto.answer_with(self.corpus, self.trained, self.choice)
        self.auto.report_ = self.report()

    def finish(self) -> None:
        """Say what came out."""
        if not self.trained:
            reasons = "; ".join(f"{tried.method}: {tried.note}" for tried in self.tried)
            raise XmtcError(f"{self.corpus.name}: no method could be trained ({reasons})")
        self._adopt()
        names = ", ".join(each.candidate.name for each in self.trained)
        if self.choice is not None:
            best = max((tried for tried in self.tried if tried.quality is not None), key=lambda each: each.quality or 0)
            self.say(
                f"{names}: nDCG@5 {100 * self.choice.quality:.2f} on held-out documents; "
                f"the best alone is {best.method} with {best.quality:.2f}"
            )
        if self.again:
            self.say(f"trained again on all documents: {', '.join(self.again)}")

    def train_again(self) -> None:
        """Train what was chosen on all documents, the quickest first, as far as the time goes."""
        if len(self.rest) == len(self.corpus):
            return
        for each in sorted(self.trained, key=lambda each: each.tried.took):
            candidate = each.candidate
            if candidate.network or each.tried.took * len(self.corpus) / len(self.rest) > self.left:
                continue
            folder = self._folder(candidate)
            pieces = folder / "all-pieces" if folder is not None else None
            with alarm(self.left) as bell:
                try:
                    each.model = make(candidate.model, **{"seed": self.seed, **candidate.settings}).fit(
                        self.corpus, None, pieces, self.checkpoints.log_folder
                    )
                except KeyboardInterrupt:
                    if not bell.rang:
                        raise
                    return
                except Exception as error:  # then the one that has not seen the judges' documents stays
                    self.say(f"{candidate.name} on all documents: {_why(error)}")
                    continue
            self.again.append(candidate.name)

    def report(self) -> dict[str, Any]:
        """What was done and why, for the model's folder."""
        for tried in self.tried:
            tried.kept = any(each.tried is tried for each in self.trained)
        return {
            "corpus": asdict(self.facts),
            "judged by": len(self.judges) if self.judges is not None else 0,
            "nDCG@5": round(100 * self.choice.quality, 2) if self.choice is not None else None,
            "trained on all documents": self.again,
            "methods": [asdict(tried) for tried in self.tried],
        }


def _sample(corpus: Corpus) -> Corpus:
    """A few documents with labels."""
    labelled = np.flatnonzero(np.diff(corpus.targets.indptr))
    return corpus[labelled[:WARM_UP]]


def _why(error: Exception) -> str:
    return f"failed: {str(error) or type(error).__name__}"


def _renumbered(choice: Choice) -> Choice:
    """The same choice for the list of the members that it keeps."""
    alone = tuple(choice.alone[at] for at in choice.kept)
    return Choice(tuple(range(len(choice.kept))), choice.stack, choice.quality, alone)
