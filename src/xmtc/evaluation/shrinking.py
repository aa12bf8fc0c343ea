"""`shrink`: a smaller folder for a model, with what that costs measured on documents that it has not seen.

Weights are rounded (float16, then int8), and of a model that can be pruned only the largest are kept, fewer and fewer.
Each trial is written, loaded and evaluated as users will load it, so sizes and qualities are those of folders.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xmtc.atomic_folder import MANIFEST, check_target
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.frames import Table
from xmtc.corpus.inputs import labelled
from xmtc.display import html_box, html_table
from xmtc.errors import BadModelFolder, ConfigError, XmtcError
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.base import Model
from xmtc.models.calibration import fitted_on
from xmtc.models.registry import CATALOGUE, load, model_class
from xmtc.packing import WEIGHT_TYPES, WeightType

if TYPE_CHECKING:
    from rich.table import Table as RichTable

MAIN = "nDCG@5"  # what a loss is a loss of, in points
SHOWN = ("P@1", MAIN, "PSP@5")
LOSS = 0.1  # points that may be lost, if nothing is said
SHARES = (0.7, 0.5, 0.35, 0.25, 0.18, 0.13, 0.09, 0.065, 0.045, 0.03, 0.02, 0.01)
FIGURES = 5000  # bytes, at most, that the manifest and the card of the chosen folder say beyond a trial's
REFINED = 3  # further shares, between the last that is within the limit and the first that is not
HEADER = ("weights", "kept", "MB", *SHOWN, "loss")


def in_mb(size: int) -> str:
    """Bytes as megabytes with three digits or more.

    >>> in_mb(47_561_000), in_mb(940_000)
    ('47.6', '0.940')
    """
    mb = size / 1e6
    return f"{mb:,.{1 if mb >= 10 else 2 if mb >= 1 else 3}f}"


@dataclass(frozen=True)
class Trial:
    """A folder with weights of one type, of which a share is kept; `values` are empty if nothing was measured."""

    weights: WeightType
    share: float
    bytes: int
    values: Mapping[str, float] = field(default_factory=dict, repr=False)

    @property
    def mb(self) -> float:
        """The size of the whole folder."""
        return self.bytes / 1e6

    def __str__(self) -> str:
        quality = f", {MAIN} {self.values[MAIN]:.2f}" if self.values else ""
        return f"{self.weights}, {self.share:.1%} of the weights: {in_mb(self.bytes)} MB{quality}"


@dataclass(frozen=True, eq=False)
class Shrunk:
    """What `shrink` tried, the unchanged model first, and the trial that was written."""

    trials: tuple[Trial, ...]
    chosen: Trial
    path: Path
    documents: int  # that quality was measured on

    @cached_property
    def model(self) -> Model:
        """The smaller model, loaded."""
        return load(self.path)

    def loss(self, trial: Trial) -> float | None:
        """Points of nDCG@5 that a trial loses; None if it was not measured."""
        if not trial.values:
            return None
        return self.trials[0].values[MAIN] - trial.values[MAIN]

    def rows(self) -> list[tuple[str, ...]]:
        """A row of text for each trial, largest first."""
        return [
            (
                trial.weights,
                f"{trial.share:.1%}",
                in_mb(trial.bytes),
                *(f"{trial.values[name]:.2f}" if name in trial.values else "–" for name in SHOWN),
                "–" if (loss := self.loss(trial)) is None else f"{loss:+.2f}",
            )
            for trial in self.sorted_trials
        ]

    @property
    def sorted_trials(self) -> list[Trial]:
        """The trials by falling size."""
        return sorted(self.trials, key=lambda trial: -trial.bytes)

    def note(self) -> str:
        """What was measured, in a sentence."""
        if not self.documents:
            return "quality was not measured: no documents were given"
        return f"quality on {self.documents:,} documents, in percent; the loss is of {MAIN}, in points"

    def to_json(self) -> dict[str, Any]:
        """Everything for programs."""
        trials = [
            {"weights": trial.weights, "share": trial.share, "bytes": trial.bytes, "loss": self.loss(trial)}
            | {name: trial.values[name] for name in SHOWN if name in trial.values}
            for trial in self.sorted_trials
        ]
        return {
            "documents": self.documents,
            "chosen": self.sorted_trials.index(self.chosen),
            "trials": trials,
        }

    def __str__(self) -> str:
        table = [("", *HEADER), *((mark, *row) for mark, row in zip(self._marks(), self.rows(), strict=True))]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join([*lines, self.note()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_box("Smaller model", "", html_table(HEADER, self.rows(), numbers=True), notes=[self.note()])

    def _marks(self) -> list[str]:
        return ["→" if trial is self.chosen else "" for trial in self.sorted_trials]

    def rich_table(self) -> RichTable:
        """The table for a rich console, the chosen trial bold."""
        from rich import box
        from rich.table import Table as RichTable

        table = RichTable(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, caption=self.note(), caption_justify="left"
        )
        for title in ("", *HEADER):
            table.add_column(title, justify="right", no_wrap=True)
        for mark, row in zip(self._marks(), self.rows(), strict=True):
            table.add_row(mark, *row, style="bold" if mark else None)
        return table


def shrink(
    model: Model,
    out: str | Path,
    valid: Corpus | Table | None = None,
    *,
    mb: float | None = None,
    loss: float | None = None,
    on_trial: Callable[[Trial], None] | None = None,
) -> Shrunk:
    """Write a smaller folder of a model to `out`, a new folder, which `xmtc.load` opens like any other.

    With `mb` the best model of at most so many megabytes (millions of bytes), with `loss` the smallest that loses at
    most so many points of nDCG@5 on the documents `valid`, with both the best that is within both. With neither a loss
    of 0.1 is allowed. `valid` are documents that the model was not trained on; without them only `mb` can be given, and
    nothing is measured.

    `on_trial` is called with each size that was tried.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 3, tags * 3)
    >>> from xmtc.models.registry import make
    >>> folder = tempfile.TemporaryDirectory()
    >>> small = shrink(make("dismec").fit(corpus), folder.name + "/small", mb=1)
    >>> small.model.predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """
    check_limits(mb, loss, measured=valid is not None)
    check_shrinks(model)
    target = check_new(out)
    corpus = None if valid is None else _checked(model, labelled(valid, "shrink"))
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".trial", dir=target.parent) as scratch:
        search = _Search(model, corpus, Path(scratch) / "model", on_trial or (lambda _: None))
        allowed = LOSS if loss is None and mb is None else loss
        chosen = search.smallest(allowed) if mb is None and allowed is not None else search.within(mb, loss)
    made = model.shrunk(chosen.weights, chosen.share)
    if corpus is not None:
        shrunk = {**made.training_["shrunk"], "loss": round(search.loss(chosen), 3), **fitted_on(corpus)}
        made.training_ = {**made.training_, "shrunk": shrunk}
    made.save(target, {"metrics": {"validation": dict(chosen.values)}} if corpus is not None else None)
    return Shrunk(tuple(search.trials), chosen, target, 0 if corpus is None else len(corpus))


def check_shrinks(model: Model) -> None:
    """A ConfigError that names the methods which can, if this fitted model has no weights to prune or to round."""
    model._fitted()
    if not model.shrinking:
        can = ", ".join(name for name in CATALOGUE if model_class(name).capabilities.shrink)
        raise ConfigError(f"{model.title} has no weights that could be pruned or rounded; these methods have: {can}")


def check_new(out: str | Path) -> Path:
    """The place for the smaller model; BadModelFolder if it cannot be written or a model is there already."""
    target = check_target(out)
    if (target / MANIFEST).exists():
        raise BadModelFolder(
            f"{out}: there is a model already, which is not replaced by a smaller one; name a new folder"
        )
    return target


def check_limits(mb: float | None, loss: float | None, measured: bool) -> None:
    """A ConfigError for limits that are no such numbers, or that need documents to measure on where there are none."""
    for limit, name, expected in ((mb, "mb", "megabytes, above 0"), (loss, "loss", f"points of {MAIN}, 0 or more")):
        if limit is None:
            continue
        number = isinstance(limit, (int, float, np.number)) and not isinstance(limit, bool)
        if not number or not 0 <= limit < math.inf or (not limit and name == "mb"):
            raise ConfigError(f"{name} = {limit!r:.60}: expected a number of {expected}")
    if not measured and (mb is None or loss is not None):
        raise ConfigError(
            "a loss can only be measured on documents that the model was not trained on: give them with valid "
            "(--valid FILE), or give only a size with mb (--mb 50)"
        )


def _checked(model: Model, valid: Corpus) -> Corpus:
    """The documents, if they can say how good a model is: they have labels that it knows."""
    labels = model._fitted()
    if not valid.targets.nnz:
        raise XmtcError(f"{valid.name}: no document has a label, so nothing can be measured on it")
    known = valid.with_labels(labels).label_counts[: len(labels)]
    if not known.any():
        raise XmtcError(f"{valid.name}: the model knows none of its labels, so nothing can be measured on it")
    return valid


class _Search:
    """Trials of one model; the first is the model as it is."""

    def __init__(self, model: Model, valid: Corpus | None, scratch: Path, on_trial: Callable[[Trial], None]) -> None:
        self.model, self.valid, self.scratch, self.on_trial = model, valid, scratch, on_trial
        self.trials: list[Trial] = []
        kinds = WEIGHT_TYPES[WEIGHT_TYPES.index(model.weight_type) :]
        for kind in kinds:
            self.tried(kind, 1.0)  # type: ignore[arg-type]

    def tried(self, weights: WeightType, share: float) -> Trial:
        """Write such a folder, measure it, and remove it."""
        self.model.shrunk(weights, share).save(self.scratch)
        size = sum(file.stat().st_size for file in self.scratch.iterdir())
        values: Mapping[str, float] = {}
        if self.valid is not None:
            # The first is evaluated as it was given: nothing of it was changed.
            values = evaluate(load(self.scratch) if self.trials else self.model, self.valid).values
        trial = Trial(weights, share, size, values)
        self.trials.append(trial)
        self.on_trial(trial)
        return trial

    def loss(self, trial: Trial) -> float:
        """Points that a trial loses, 0 if nothing is measured."""
        return self.trials[0].values[MAIN] - trial.values[MAIN] if trial.values else 0.0

    def smallest(self, loss: float) -> Trial:
        """The smallest folder that loses at most so much."""

        def good(trial: Trial) -> bool:
            return self.loss(trial) <= loss

        best = min(filter(good, self.trials), key=lambda trial: trial.bytes)
        if "prune" in self.model.shrinking and best is self.trials[-1]:
            last, first = self._bracket(best, lambda trial: not good(trial))
            for _ in range(REFINED if first is not None else 0):
                assert first is not None
                between = self.tried(last.weights, math.sqrt(last.share * first.share))
                last, first = (between, first) if good(between) else (last, between)
        return min(filter(good, self.trials), key=lambda trial: trial.bytes)

    def within(self, mb: float | None, loss: float | None) -> Trial:
        """The best folder of at most so many megabytes, that loses at most so much."""
        assert mb is not None

        def fits(trial: Trial) -> bool:
            return trial.bytes + (FIGURES if trial.values else 0) <= mb * 1e6

        if not any(map(fits, self.trials)) and "prune" in self.model.shrinking:
            last, first = self._bracket(self.trials[-1], fits)
            for _ in range(REFINED if first is not None else 0):
                assert first is not None
                # Size grows with the weights that are kept: aim right below the limit.
                room = (0.995 * mb - first.mb) / max(last.mb - first.mb, 1e-9)
                share = first.share + min(max(room, 0.0), 1.0) * (last.share - first.share)
                if not first.share < share < last.share or share < 1.01 * first.share:
                    break
                between = self.tried(last.weights, share)
                last, first = (last, between) if fits(between) else (between, first)
        small = [trial for trial in self.trials if fits(trial)]
        if not small:
            end = min(self.trials, key=lambda trial: trial.bytes)
            cost = f", with a loss of {self.loss(end):.2f} {MAIN}" if end.values else ""
            raise ConfigError(f"{mb:g} MB cannot be reached: the smallest folder has {in_mb(end.bytes)} MB{cost}")
        best = max(small, key=_quality)
        if loss is not None and self.loss(best) > loss:
            good = min((trial for trial in self.trials if self.loss(trial) <= loss), key=lambda trial: trial.bytes)
            raise ConfigError(
                f"{mb:g} MB and a loss of {loss:g} cannot both be reached: with {in_mb(best.bytes)} MB the model loses "
                f"{self.loss(best):.2f} {MAIN}; tried within that loss were {in_mb(good.bytes)} MB"
            )
        return best

    def _bracket(self, start: Trial, ends: Callable[[Trial], bool]) -> tuple[Trial, Trial | None]:
        """(last trial before, first trial) where something ends as fewer weights are kept; None if nothing does."""
        last = start
        for share in SHARES:
            trial = self.tried(start.weights, share)
            if ends(trial):
                return last, trial
            last = trial
        return last, None


def _quality(trial: Trial) -> tuple[float, float, int]:
    """What a trial is better by; what is equal, or was not measured, is the better the less was changed."""
    return trial.values.get(MAIN, 0.0), trial.share, -WEIGHT_TYPES.index(trial.weights)
