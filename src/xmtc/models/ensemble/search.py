"""The search of `auto`: what is tried in which order, what is kept, and how the time is spent.

1. Whatever takes at most a hundredth of the budget, the cheapest first: soon there is a model.
2. The others, the cheapest first if there is time for all of them. If not, learning curves on a sample decide (see
   `xmtc.models.ensemble.learning_curves`): what promises most comes first, networks next, and what is far behind last.
   A corpus that is too small for a sample has the cheapest first, then the networks.
3. Time that is left goes to the members that another seed makes anew, the best first, as long as that helps.
4. The members of the blend are trained again on all documents, for which time was set aside.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from xmtc.budget import Alarm, alarm, epochs_as_found, noting_epochs, seconds_in, time_limit
from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.errors import MissingExtra, XmtcError
from xmtc.memory import available_memory
from xmtc.models.base import Model
from xmtc.models.calibration import LIST_LENGTH
from xmtc.models.ensemble import search_space
from xmtc.models.ensemble.holdout import Holdout, split_holdout
from xmtc.models.ensemble.learning_curves import Curve, sample_for
from xmtc.models.ensemble.search_space import Candidate, Facts
from xmtc.models.ensemble.stacking import Choice, K, Table, choose, ndcg
from xmtc.models.neighbour_vectors import encoder_vectors
from xmtc.models.registry import load, make, model_class
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.predictions import Predictions
from xmtc.progress import clock

if TYPE_CHECKING:
    from xmtc.models.ensemble.auto import Auto

WARM_UP = 60  # documents on which a method is trained first, so that its time does not include compilation
FINISHING = 0.04  # share of the budget for what comes after the last training, such as saving
CHEAP = 0.01  # share of the budget that a method may take without a look at what it promises
PROBING = 0.05  # share of the budget for learning curves
HOPEFUL = 0.8  # what promises less than this share of the best promise comes last
NETWORK_SPARE = 1.5  # times its foreseen time that a network may take, if there is so much
NETWORK_SHARE = (
    0.85  # of the time that is left, for its training: the rest is for evaluation and the held-out documents
)
COPIES = 3  # further seeds of a method, at most
WITHOUT_HOLDOUT = ("knn", "dismec")  # what is blended if there are too few documents to hold any out
WORTH_KEEPING = 1.0  # seconds of training; a model that took less is not kept for a resumed run
EPOCHS = "epochs.json"


@dataclass
class Trial:
    """A method that was tried or not, and the outcome."""

    method: str
    foreseen: float  # seconds
    took: float = 0.0
    quality: float | None = None  # nDCG@5 on the held-out documents, in percent
    blend: float | None = None  # the same of the best blend so far
    found: list[float | None] = field(default_factory=list)  # percent of the labels of each band among its first five
    blend_found: list[float | None] = field(default_factory=list)  # the same of the best blend so far
    predict_ms: float | None = None  # for a held-out document, without what an encoder takes to read it
    model_mb: float | None = None  # measured if there is a limit
    note: str = ""
    kept: bool = False


@dataclass(eq=False)
class Trained:
    """A method that was trained, with its predictions for the held-out documents.

    `again` are the seconds that training it on all documents will take, `reserved` whether they are set aside; `epochs`
    are those that were best, of a network.
    """

    candidate: Candidate
    model: Model
    lists: Predictions
    trial: Trial
    again: float = 0.0
    reserved: bool = False
    epochs: dict[str, float] = field(default_factory=dict)


class Search:
    """One run of `auto`: what was tried, what is kept, and how much time is left."""

    def __init__(self, auto: Auto, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        self.auto, self.corpus, self.checkpoints = auto, corpus, checkpoints
        self.seed = auto.config.seed
        self.train, self.holdout = (
            (corpus, Holdout.given(valid)) if valid is not None else split_holdout(corpus, self.seed)
        )
        self.refits = len(self.train) < len(corpus)  # whether methods are trained again on all documents
        self.growth = len(corpus) / len(self.train)
        self.budget = seconds_in(auto.config.budget)
        self.end = time.monotonic() + self.budget * (1 - FINISHING)
        self.facts = Facts.of(self.train, self.seed)
        self.trials: list[Trial] = []
        self.pool: list[Trained] = []  # what the next method is blended with
        self.members: list[Trained] = []  # those of the pool that answer
        self.choice: Choice | None = None
        self.foreseen = self.took = 2.0  # seconds of training; so the first ones change `cost` only a little
        self.curves: dict[str, Curve] = {}
        self.measured: dict[str, float] = {}  # seconds of a method that differs by its seed only
        self.refitted: list[str] = []
        self.read: dict[str, float] = {}  # encoders that have read all documents, and how long it took
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
        """Seconds that a method will take: as measured with another seed or on a sample, else by its formula."""
        if candidate.name in self.measured:
            return self.measured[candidate.name]
        if candidate.name in self.curves:
            return self.curves[candidate.name].seconds_for(candidate, self.facts)
        return candidate.seconds(self.facts) * self.speed

    def _reading(self, candidate: Candidate) -> float:
        """Seconds until the encoder of a method has read the documents; 0 if it has done so for another one."""
        if candidate.encoder is None or candidate.encoder in self.read:
            return 0.0
        return search_space.reading(self.facts) * self.growth

    def _read(self, candidate: Candidate, documents: Corpus) -> None:
        """Let the encoder of a method read documents; it remembers their vectors for all methods."""
        if candidate.encoder is not None:
            start = time.monotonic()
            encoder_vectors(EncoderSettings(name=candidate.encoder), "auto").transform(documents)
            if documents is self.corpus and candidate.encoder not in self.read:
                self.read[candidate.encoder] = round(time.monotonic() - start, 1)
                self.say(f"the encoder {candidate.encoder} read all documents in {clock(self.read[candidate.encoder])}")

    @property
    def speed(self) -> float:
        """Seconds for each second of the formulas, as far as methods were trained."""
        return self.took / self.foreseen

    def run(self) -> None:
        """Try the methods."""
        self.say(str(self.facts))
        held_out = f"{len(self.holdout):,} held out" if self.holdout is not None else "too few to hold any out"
        self.say(f"{clock(self.budget)} to spend; {len(self.train):,} documents to learn from, {held_out}")
        able = self._weighing()
        names = self.auto.config.methods or [candidate.name for candidate in able]
        if self.holdout is None:
            names = [name for name in names if name in WITHOUT_HOLDOUT] or list(names)[:1]
        wanted = self._installed([candidate for candidate in able if candidate.name in names])
        by_cost = sorted(wanted, key=lambda each: each.seconds(self.facts) + self._reading(each))
        cheap = [each for each in by_cost if self.cost(each) + self._reading(each) <= CHEAP * self.budget] or by_cost[
            :1
        ]
        for candidate in cheap:
            self._consider(candidate)
        for candidate in self._in_order(by_cost[len(cheap) :]):
            self._consider(candidate)
        self._try_other_seeds()

    def _weighing(self) -> list[Candidate]:
        """The methods that can be trained with the weights that the corpus has; which ones are left out is said."""
        kinds, known = self.corpus.weight_kinds, search_space.CANDIDATES
        able = [each for each in known if model_class(each.model).capabilities.weights.issuperset(kinds)]
        left_out = [each.name for each in known if each not in able]
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
            worth = f", which {search_space.WORTH[extra]}" if extra in search_space.WORTH else ""
            self.say(f"left out: {', '.join(names)}; to have them: pip install 'xmtc[{extra}]'{worth}")
        return there

    def _in_order(self, costly: list[Candidate]) -> list[Candidate]:
        """The costly methods, by what they promise if there is not time for all of them."""
        able = [each for each in costly if not each.refusal(self.facts)]
        twice = 1 + self.growth if self.refits else 1.0
        if self.holdout is None or sum(twice * self.cost(each) + self._reading(each) for each in able) <= self._spare():
            return costly
        self._draw_curves([each for each in able if not each.network], self.holdout)
        promises = {name: curve.promise(len(self.train)) for name, curve in self.curves.items()}
        best = max(promises.values(), default=0.0)

        def place(candidate: Candidate) -> tuple[int, float, float]:
            promise = promises.get(candidate.name, 0.0)
            hopeless = candidate.name in promises and promise < HOPEFUL * best
            return 1 if candidate.network else 2 if hopeless else 0, -promise, self.cost(candidate)

        return sorted(costly, key=place)

    def _draw_curves(self, candidates: list[Candidate], holdout: Holdout) -> None:
        """Train methods on a sample and on half of it."""
        seconds = PROBING * self.budget
        found = sample_for(self.train, candidates, seconds, self.speed, self.seed) if candidates else None
        if found is None:
            return
        sample, half, facts = found
        self.say(f"there is not time for all: {len(sample):,} documents show which methods promise most")
        end = time.monotonic() + 2 * seconds
        for candidate in candidates:
            bell = Alarm()
            try:
                if self._new(candidate).memory_needed(sample) > available_memory():
                    continue
                with alarm(end - time.monotonic()) as bell:
                    lower, _ = self._reached(candidate, half, holdout)
                    higher, took = self._reached(candidate, sample, holdout)
            except KeyboardInterrupt:
                if not bell.rang:
                    raise
                break
            except Exception:  # what is wrong is told when it is tried
                continue
            self.curves[candidate.name] = curve = Curve(facts, took, lower, higher)
            promise = 100 * curve.promise(len(self.train))
            self.say(f"{candidate.name}: nDCG@5 {100 * lower:.1f}, then {100 * higher:.1f}; promises {promise:.1f}")

    def _reached(self, candidate: Candidate, documents: Corpus, holdout: Holdout) -> tuple[float, float]:
        """(nDCG@5 on the held-out documents, seconds of training) with some documents."""
        self._read(candidate, documents)
        start = time.monotonic()
        model = self._new(candidate).fit(documents)
        took = time.monotonic() - start
        table = Table.of([model.predict(holdout.corpus, K)])
        targets = holdout.with_labels(model._fitted()).corpus.targets
        return float(ndcg(table, table.score[:, 0], targets).mean()), took

    def _consider(self, candidate: Candidate) -> Trained | None:
        """Try a method unless something speaks against it; what came of it, if it was trained."""
        foreseen = self.cost(candidate) + self._reading(candidate)
        trial = Trial(candidate.name, round(foreseen, 1), note=self._refusal(candidate))
        self.trials.append(trial)
        trained = self._try(candidate, trial) if not trial.note else None
        if trained is None:
            self.say(f"{candidate.name}: {trial.note}")
        return trained

    def _refusal(self, candidate: Candidate) -> str:
        """Why a method is not tried; "" if it is."""
        if why := candidate.refusal(self.facts):
            return f"not tried: {why}"
        if not self.members:
            return ""  # so that there is a model, however little time
        try:
            needed = self._new(candidate).memory_needed(self.train)
        except XmtcError as error:  # such as an encoder that is not installed
            return f"not tried: {error}"
        if needed > available_memory():
            return f"not tried: it needs about {needed / 2**30:.1f} GiB of memory, more than there is"
        if (cost := self._whole_cost(candidate)) > (spare := self._spare()):
            return f"not tried: it would take {clock(cost)}, {clock(max(0, spare))} are left"
        return ""

    def _whole_cost(self, candidate: Candidate) -> float:
        """Seconds that a method needs at least, with those for training it again on all documents."""
        cost = self.cost(candidate) * candidate.least
        if self.refits and (not candidate.network or candidate.name in self.measured):
            cost *= 1 + self.growth
        return cost + self._reading(candidate)

    def _spare(self) -> float:
        """Seconds that are left after training the chosen methods again on all documents."""
        return self.left - sum(each.again for each in self.pool if each.reserved)

    def _try(self, candidate: Candidate, trial: Trial) -> Trained | None:
        """Train a method, and see whether it helps; None if it could not be trained."""
        start = time.monotonic()
        bell = Alarm()
        try:
            with alarm(self.left) if self.members else nullcontext(bell) as bell:
                model, epochs = self._fitted(candidate, trial)
            known = self.holdout.corpus if self.holdout is not None else self.train[:1]
            asked = time.monotonic()
            lists = model.predict(known, LIST_LENGTH)
            trial.predict_ms = round(1000 * (time.monotonic() - asked) / len(known), 3)
            if self.auto.config.model_mb is not None:
                trial.model_mb = round(_folder_mb(model) * self.growth, 2)
        except KeyboardInterrupt:
            trial.took = round(time.monotonic() - start, 1)
            if not bell.rang:
                trial.note = "stopped"
                raise
            trial.note = "not finished when the time was up"
            return None
        except Exception as error:  # one method must not take the others down
            trial.note = _why(error)
            return None
        new = Trained(candidate, model, lists, trial, self.growth * trial.took, epochs=epochs)
        # A network that took all the time is better than one that sees all documents and is not finished.
        new.reserved = self.refits and (not candidate.network or (bool(epochs) and new.again <= self._spare()))
        if not self._within_limits([new]):
            ms, mb = self._costs([new])
            size = "" if trial.model_mb is None else f" and {mb:.1f} MB"
            trial.note = f"left out: it takes {ms:.2f} ms for a document{size}, more than it may"
            return None
        self._weigh(new)
        return new

    def _costs(self, members: Sequence[Trained]) -> tuple[float, float]:
        """(milliseconds for a document, megabytes) of some methods together; an encoder reads a document once."""
        encoders = {each.candidate.encoder for each in members}
        reading = sum(1000 * took / len(self.corpus) for name, took in self.read.items() if name in encoders)
        ms = reading + sum(each.trial.predict_ms or 0.0 for each in members)
        return ms, sum(each.trial.model_mb or 0.0 for each in members)

    def _within_limits(self, members: Sequence[Trained]) -> bool:
        config, (ms, mb) = self.auto.config, self._costs(members)
        return ms <= (config.predict_ms or math.inf) and mb <= (config.model_mb or math.inf)

    def _fitted(self, candidate: Candidate, trial: Trial) -> tuple[Model, dict[str, float]]:
        """(a trained model, or the one that an earlier run left; the epochs that were best for its networks)."""
        folder = self._folder(candidate)
        if folder is not None and (folder / "model").exists():
            model = load(folder / "model")
            trial.took, trial.note = float(model.training_["seconds"]), "found as an earlier run left it"
            file = folder / EPOCHS
            return model, orjson.loads(file.read_bytes()) if file.exists() else {}
        self._read(candidate, self.corpus)
        if not candidate.network and candidate.seconds(self.facts):
            labelled = np.flatnonzero(np.diff(self.train.targets.indptr))
            self._new(candidate).fit(self.train[labelled[:WARM_UP]]).predict(self.train[:WARM_UP], LIST_LENGTH)
        start = time.monotonic()
        with time_limit(self._limit(candidate), candidate.trainings(self.facts)), noting_epochs() as epochs:
            model = self._fit(self._new(candidate), candidate, self.train, "pieces")
        trial.took = round(time.monotonic() - start, 1)
        if not candidate.network and candidate.name not in self.measured:
            self.foreseen += candidate.seconds(self.facts)
            self.took += trial.took
        if folder is not None and trial.took >= WORTH_KEEPING:
            if epochs:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / EPOCHS).write_bytes(orjson.dumps(epochs))
            model.save(folder / "model")
        return model, epochs

    def _limit(self, candidate: Candidate) -> float:
        """Seconds that a method may take; a network that can be finished leaves time to be trained again."""
        cost, spare = self.cost(candidate), NETWORK_SHARE * self._spare()
        if candidate.network and self.refits and spare / (1 + self.growth) >= cost:
            spare /= 1 + self.growth
        return max(1.0, min(spare, NETWORK_SPARE * cost))

    def _new(self, candidate: Candidate, **changed: Any) -> Model:
        return make(candidate.model, **{"seed": self.seed, **candidate.settings, **changed})

    def _fit(self, model: Model, candidate: Candidate, documents: Corpus, pieces: str) -> Model:
        folder = self._folder(candidate)
        checkpoints = folder / pieces if folder is not None else None
        return model.fit(documents, None, checkpoints, self.checkpoints.log_folder)

    def _folder(self, candidate: Candidate) -> Path | None:
        name = candidate.name.replace(", ", "-").replace(" ", "-")
        return self.checkpoints.folder / name if self.checkpoints.folder is not None else None

    def _weigh(self, new: Trained) -> None:
        """Keep a method if the blend with it is better."""
        every, trial, choice = [*self.pool, new], new.trial, None
        if self.holdout is not None:
            labels = new.lists.labels
            assert labels.counts is not None

            def allowed(some: Sequence[int]) -> bool:
                return self._within_limits([every[at] for at in some])

            holdout = self.holdout.with_labels(labels)
            choice = choose([each.lists for each in every], holdout, labels.counts, allowed)
        if choice is None:
            self.pool = self.members = every
        else:
            # A new best method is what a blend has to be compared with, even if the blend so far is above it.
            if self.choice is None or choice.ndcg >= self.choice.ndcg or choice.alone[-1] >= max(choice.alone):
                self.pool, self.members = [every[at] for at in choice.pool], [every[at] for at in choice.kept]
                self.choice = choice
            trial.found, trial.blend_found = _in_percent(choice.found_alone[-1]), _in_percent(self.choice.found)
            trial.quality, trial.blend = round(100 * choice.alone[-1], 2), round(100 * self.choice.ndcg, 2)
        alone = f"nDCG@5 {trial.quality:.2f}" if trial.quality is not None else "trained"
        blended = f", together {trial.blend:.2f} ({self.names})" if len(self.members) > 1 and trial.blend else ""
        note = f" ({trial.note})" if trial.note else ""
        self.say(f"{trial.method}: {clock(trial.took)}, {alone}{blended}{note}")
        if new in self.members:
            self._adopt()
            if self.auto.on_better is not None:
                self.auto.on_better()

    def _try_other_seeds(self) -> None:
        """Spend what is left on the members that depend on their seed, the best first, as long as it helps."""
        copies: dict[str, int] = {}
        while self.choice is not None:
            seeded = [each for each in self.members if each.candidate.seeded]
            able = [each for each in seeded if copies.get(each.candidate.name, 0) < COPIES]
            if not able:
                return
            best = max(able, key=lambda each: each.trial.quality or 0.0)
            name, number = best.candidate.name, copies.get(best.candidate.name, 0) + 1
            settings = {**best.candidate.settings, "seed": self.seed + number}
            another = replace(
                best.candidate, name=f"{name}, seed {settings['seed']}", settings=settings, least=1.0, seeded=False
            )
            self.measured[another.name] = best.trial.took
            new = self._consider(another)
            copies[name] = number if new in self.members else COPIES

    @property
    def names(self) -> str:
        """The members of the best blend."""
        return " + ".join(each.candidate.name for each in self.members)

    def _adopt(self) -> None:
        """Let `auto` be the best blend so far."""
        auto, corpus, stack = self.auto, self.corpus, self.choice.stack if self.choice is not None else None
        auto.adopt([each.candidate.name for each in self.members], [each.model for each in self.members], stack)
        auto.labels_ = corpus.labels.with_counts(corpus.label_counts)
        auto.training_ = {"corpus": corpus.name, "documents": len(corpus)}
        auto.report_ = self.report()

    def finish(self) -> None:
        """Adopt the best blend for good, and say what it is."""
        if not self.members:
            reasons = "; ".join(f"{trial.method}: {trial.note}" for trial in self.trials)
            raise XmtcError(f"{self.corpus.name}: no method could be trained ({reasons})")
        self._adopt()
        if self.choice is not None:
            best = max(self.trials, key=lambda trial: -1.0 if trial.quality is None else trial.quality)
            kinds = ", ".join(f"{kind} {each}" for kind, each in self.choice.by_kind.items())
            self.say(
                f"{self.names}: nDCG@5 {self.choice.quality} expected for texts like the held-out ones"
                f"{f' ({kinds})' if kinds else ''}; the best alone is {best.method} with {best.quality:.2f}"
            )
        if self.refitted:
            self.say(f"trained again on all documents: {', '.join(self.refitted)}")

    def refit(self) -> None:
        """Train the chosen methods on all documents, the quickest first, as long as there is time."""
        if not self.refits:
            return
        for each in sorted(self.members, key=lambda each: (not each.reserved, each.again)):
            if each.again > self.left or (each.candidate.network and not each.epochs):
                continue
            with alarm(self.left) as bell:
                try:
                    each.model = self._fitted_again(each)
                except KeyboardInterrupt:
                    if not bell.rang:
                        raise
                    return
                except Exception as error:  # then the model that was trained without the held-out documents stays
                    self.say(f"{each.candidate.name} on all documents: {_why(error)}")
                    continue
            self.refitted.append(each.candidate.name)
        if self.choice is not None and len(self.refitted) == len(self.members):  # the held-out documents' labels, too
            self.choice = replace(self.choice, stack=self.choice.stack.with_counts(self.corpus.label_counts))

    def _fitted_again(self, each: Trained) -> Model:
        """The same method, trained on all documents; a network for as many epochs as were best."""
        if not each.candidate.network:
            return self._fit(self._new(each.candidate), each.candidate, self.corpus, "all-pieces")
        training = {**each.candidate.settings.get("training", {}), "valid_documents": 0}
        with epochs_as_found(each.epochs):
            return self._fit(self._new(each.candidate, training=training), each.candidate, self.corpus, "all-pieces")

    def report(self) -> dict[str, Any]:
        """What was done and why, for the model's folder."""
        for trial in self.trials:
            trial.kept = any(each.trial is trial for each in self.members)
        choice = self.choice
        expected = {} if choice is None else {"all": choice.quality, **choice.by_kind}
        return {
            "corpus": asdict(self.facts),
            "held-out documents": len(self.holdout) if self.holdout is not None else 0,
            "nDCG@5": round(100 * choice.ndcg, 2) if choice is not None else None,
            "expected": {kind: each.in_percent() for kind, each in expected.items()},
            "milliseconds for a document": round(self._costs(self.members)[0], 3),
            "trained on all documents": self.refitted,
            "seconds of encoders": self.read,
            "methods": [asdict(trial) for trial in self.trials],
        }


def _in_percent(shares: NDArray[np.float64]) -> list[float | None]:
    """None where there is no number."""
    return [None if math.isnan(share) else round(100 * share, 2) for share in shares.tolist()]


def _folder_mb(model: Model) -> float:
    """The size of a model's folder."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6


def _why(error: Exception) -> str:
    return f"failed: {str(error) or type(error).__name__}"
