"""`compare`: train several models on the same documents, in this process, and evaluate them side by side."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.frames import Table, described, whole_number
from xmtc.corpus.inputs import labelled
from xmtc.errors import XmtcError
from xmtc.evaluation.comparison import LIST_LENGTH, Run, trained_on_test
from xmtc.evaluation.leaderboard import Leaderboard
from xmtc.labelspace.propensity import Propensity, propensity_of
from xmtc.models.base import Model
from xmtc.models.card import changed_settings
from xmtc.models.registry import make
from xmtc.predictions import Predictions
from xmtc.progress import progress

WARM_UP = 16  # documents tagged before the clock starts: compiling is not tagging
LONGEST_NAME = 60  # characters of the settings in the name of a row

#: A method by name, a name with settings, or a model: fitted, or to be fitted.
Entry = str | Model | tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Contender:
    """A row of the table before it is run."""

    system: str
    model: Model

    @property
    def fitted(self) -> bool:
        """Whether it is compared as it is."""
        return self.model.labels_ is not None

    def seeds(self, number: int) -> range:
        """The seeds that it is run with: one if it is fitted, or if its seed was set."""
        return range(1 if self.fitted or "seed" in self.model.config.model_fields_set else number)

    def copy(self, seed: int) -> Model:
        """An unfitted model with its settings; a seed that was set stays."""
        settings = self.model.config.model_dump(mode="json", exclude_unset=True)
        return type(self.model)(**{"seed": seed, **settings})


def compare(
    train: Corpus | Table,
    test: Corpus | Table,
    models: Sequence[Entry] | Mapping[str, Entry],
    *,
    seeds: int = 1,
    propensity: Propensity | str | tuple[float, float] = "default",
) -> Leaderboard:
    """Train models on the same documents and evaluate them on others: quality, significance, time.

    An entry of `models` is the name of a method, such as "knn", a pair of a name and settings, or a model: a fitted one
    is evaluated as it is, of an unfitted one a copy is trained. Give a dictionary to name the rows yourself. With
    `seeds=3` each is trained with the seeds 0, 1 and 2, unless its seed was set. One that fails is shown with its
    reason, and the others go on. `propensity` are the constants of PSP, as `evaluate` takes them.

    `xmtc compare` does the same on the command line, with a process for each run: it measures memory, keeps the trained
    models, and goes on where it was stopped.

    >>> train = Corpus.of(["red apple", "blue sky", "red rose"] * 5, [["red"], ["blue"], ["red"]] * 5)
    >>> board = compare(train, Corpus.of(["a blue bird", "red"], [["blue"], ["red"]]), ["prior", ("knn", {"power": 3})])
    >>> [(row.system, row.values["P@1"]) for row in board.rows]
    [('knn power=3.0', 100.0), ('prior', 50.0)]
    """
    train, test = labelled(train, "compare"), labelled(test, "compare")
    seeds, constants = whole_number(seeds, "seeds"), propensity_of(propensity)
    contenders = list(_contenders(models))
    if not contenders:
        raise XmtcError('nothing to compare; name some models, such as models=["knn", "parabel"]')
    # Of every model the first seed, then of every model the second, as on the command line.
    todo = [(one, seed) for seed in range(seeds) for one in contenders if seed in one.seeds(seeds)]
    runs = []
    with progress("comparing", len(todo)) as bar:
        for one, seed in todo:
            bar.what = f"comparing, {one.system}"
            runs.append(_run(one, seed, train, test))
            bar.advance()
    return Leaderboard.of(runs, test.with_labels(train.labels.with_counts(train.label_counts)), constants)


def timed_predictions(model: Model, test: Corpus) -> tuple[Predictions, float]:
    """The lists that are compared, and how many documents were tagged per second."""
    model.predict(test[:WARM_UP], LIST_LENGTH)
    start = time.perf_counter()
    top = model.predict(test, LIST_LENGTH)
    return top, len(test) / max(time.perf_counter() - start, 1e-9)


def _contenders(models: Any) -> Iterator[Contender]:
    """The rows; an error for an unknown model or a wrong setting, before anything is trained."""
    if isinstance(models, (str, Model)) or not isinstance(models, (Mapping, Sequence)):
        raise XmtcError(f"models= takes a list, such as ['knn', 'parabel'], not {described(models)}")
    entries = models.items() if isinstance(models, Mapping) else [(None, entry) for entry in models]
    taken: set[str] = set()
    for name, entry in entries:
        model = _model(entry)
        system = _system(model) if name is None else str(name)
        if system in taken:
            raise XmtcError(f"{system} would be in the table twice; name the rows: models={{'one': ..., 'other': ...}}")
        taken.add(system)
        yield Contender(system, model)


def _model(entry: Any) -> Model:
    if isinstance(entry, Model):
        entry.check_installed()
        return entry
    if isinstance(entry, str):
        return make(entry)
    if isinstance(entry, Sequence) and len(entry) == 2 and isinstance(entry[1], Mapping):
        return make(entry[0], **entry[1])
    raise XmtcError(f"models= has {described(entry)}; give a name, a pair (name, settings) or a model")


def _system(model: Model) -> str:
    """What a row is called: as the model calls itself, with the settings that are not the usual ones."""
    words = ", ".join(f"{key}={value}" for key, value in changed_settings(model.config).items() if key != "seed")
    words = words if len(words) <= LONGEST_NAME else f"{words[:LONGEST_NAME]}…"
    return " ".join(filter(None, (model.title, words, "" if model.labels_ is None else "(fitted)")))


def _run(one: Contender, seed: int, train: Corpus, test: Corpus) -> Run:
    model = one.model if one.fitted else one.copy(seed)
    run = Run(
        one.system,
        model.name,
        model.config.model_dump(mode="json"),
        seed,
        train_documents=len(train),
        origin="folder" if one.fitted else "trained",
    )
    try:
        if not one.fitted:
            model.fit(train)
        top, per_second = timed_predictions(model, test)
    except (XmtcError, MemoryError) as error:
        return replace(run, status="failed", reason=str(error) or "out of memory")
    costs = {"training": model.training_["seconds"]} if "seconds" in model.training_ else {}
    remark = trained_on_test(model.training_.get("sketch"), test) if one.fitted else ""
    if remark:
        warnings.warn(f"{one.system}: {remark}", stacklevel=3)
    return replace(run, costs={**costs, "documents/s": per_second}, top=top, remark=remark)
