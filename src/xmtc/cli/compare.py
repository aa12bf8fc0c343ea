"""`xmtc compare`: several models on the same documents, as a table, JSON and one page."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xmtc.cli.compare_worker import RESULT, SPEC, TOP, parts
from xmtc.cli.output import write_json
from xmtc.cli.read_options import Reading, with_reading
from xmtc.recipes import put, put_value, read_sweep

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.corpus.labels import LabelSet
    from xmtc.evaluation.comparison import Leaderboard, Run
    from xmtc.evaluation.reports.plots import Plot

RESULTS, PAGE = "results.json", "comparison.html"
WIDE = 160  # characters of the table where nobody looks at a terminal
PATIENCE = 15  # seconds that a stopped run has to end by itself


@dataclass(frozen=True)
class Plan:
    """A row of the table: a model with settings, from which recipe, and where in its grid."""

    model: str
    settings: dict[str, Any]
    recipe: str = ""
    point: tuple[tuple[str, Any], ...] = ()

    @property
    def system(self) -> str:
        """What the row is called: as the model calls itself with these settings, and where they are from."""
        from xmtc.models.registry import make

        words = ", ".join(f"{key}={value}" for key, value in self.point)
        title = make(self.model, **self.settings).title
        return " ".join(part for part in (title, f"({self.recipe})" if self.recipe else "", words) if part)

    @property
    def sweep(self) -> str:
        """The sweep that it belongs to, "" if to none."""
        return f"{self.model} ({self.recipe})" if self.point else ""


@with_reading
def compare(
    corpus: Annotated[str, typer.Argument(help="Folder with train.* and test.*, or a file that is split.")],
    out: Annotated[str, typer.Option("--out", help="Folder for runs, results.json and the page.")],
    models: Annotated[str, typer.Option("--models", help="Methods, such as knn,parabel,bonsai.")] = "",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each, with seeds 0, 1, ...")] = 1,
    budget: Annotated[str | None, typer.Option("--budget", help="Time for all runs, such as 30m.")] = None,
    recipe: Annotated[list[str] | None, typer.Option(help="YAML recipe or sweep, or a name; may be repeated.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="MODEL.key=value; may be repeated.")] = None,
    test: Annotated[str, typer.Option("--test", help="If the corpus has no test part: a share, or a file.")] = "0.1",
    plot: Annotated[bool, typer.Option("--plot", help="Draw each sweep: metrics against the swept setting.")] = False,
    reading: Reading = Reading(),
) -> None:
    """Train models on the same documents and compare them: quality, significance, time, memory.

    Started again with the same --out, it does only what is missing.

    Example: `xmtc compare corpus --models knn,parabel,bonsai --seeds 3 --out results`
    """
    from xmtc.budget import seconds_in
    from xmtc.corpus.sources import check_output
    from xmtc.evaluation.comparison import Leaderboard

    plans = planned(models, recipe or [], set_ or [])
    end = time.monotonic() + seconds_in(budget) if budget is not None else None
    folder = Path(out)
    train, held_out = parts(corpus, test, reading)
    folder.mkdir(parents=True, exist_ok=True)
    check_output(str(folder / RESULTS))
    print(f"{corpus}: {len(train):,} documents to train on, {len(held_out):,} to test on", file=sys.stderr)
    work = Work(folder, train, held_out, {"corpus": corpus, "test": test, "reading": asdict(reading)}, end)
    runs: list[Run] = []
    stopped = False
    # Of every model the first seed, then of every model the second: early results are of all models.
    todo = [(plan, seed) for seed in range(seeds) for plan in plans]
    for at, (plan, seed) in enumerate(todo):
        try:
            runs.append(work.done(plan, seed, f"[{at + 1}/{len(todo)}]", stopped))
        except KeyboardInterrupt:
            stopped = True
            runs.append(work.found(plan, seed, "stopped", "Ctrl-C"))
    board = Leaderboard.of(runs, held_out.with_labels(work.labels))
    report(board, runs, plans, folder, corpus, plot)
    if stopped:
        raise KeyboardInterrupt


def planned(models: str, recipes: Sequence[str], pairs: Sequence[str]) -> list[Plan]:
    """The rows of the table; an error if a setting is impossible, before anything is trained."""
    from xmtc.errors import ConfigError

    plans = [Plan(name, {}) for name in (part.strip() for part in models.split(",")) if name]
    for path in recipes:
        plans += from_recipe(path)
    if not plans:
        raise ConfigError("nothing to compare; say --models knn,parabel or give a --recipe")
    for pair in pairs:
        model, _, rest = pair.partition(".")
        chosen = [plan for plan in plans if plan.model == model]
        if not chosen or not rest:
            known = ", ".join(dict.fromkeys(plan.model for plan in plans))
            raise ConfigError(f"--set {pair}: MODEL.key=value was expected, with one of the models {known}")
        for plan in chosen:
            put(plan.settings, rest)
    names = [plan.system for plan in plans]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{name} would be in the table twice; a recipe with another file name can be told apart")
    return plans


def from_recipe(path: str) -> Iterator[Plan]:
    """The rows of a recipe: one, or one for each point of its grid."""
    import copy

    from xmtc.errors import BadInput

    recipe = read_sweep(path)
    if recipe.model is None:
        raise BadInput(path, None, "a recipe for a comparison needs `model: NAME`")
    for point in recipe.points():
        settings = copy.deepcopy(recipe.values)
        for key, value in point.items():
            put_value(settings, key, value)
        yield Plan(recipe.model, settings, Path(path).stem, tuple(point.items()))


class Work:
    """The runs of a comparison: each in a folder of its own that is named for what it is."""

    def __init__(self, folder: Path, train: Corpus, test: Corpus, source: dict[str, Any], end: float | None) -> None:
        self.folder, self.source, self.end = folder, source, end
        self.labels: LabelSet = train.labels.with_counts(train.label_counts)
        self.train_documents = len(train)
        self.test_documents = len(test)
        self.prints = {"train": train.fingerprint(), "test": test.fingerprint()}

    def done(self, plan: Plan, seed: int, place: str, stopped: bool = False) -> Run:
        """The run as an earlier comparison left it, or done now."""
        from xmtc.evaluation.comparison import shown_cost

        name = plan.system if "seed" in plan.settings else f"{plan.system}, seed {seed}"
        run = self.found(plan, seed)
        if run.status == "finished":
            print(f"{place} {name}: done before", file=sys.stderr)
            return run
        if stopped or (self.end is not None and time.monotonic() > self.end):
            return self.found(plan, seed, "waiting", "stopped before its turn" if stopped else "the budget was spent")
        print(f"{place} {name} ...", file=sys.stderr, flush=True)
        reason = self.start(plan, seed)
        run = self.found(plan, seed, "stopped" if reason == "the budget was spent" else "failed", reason)
        took = shown_cost("training", run.costs["training"]) if run.costs else run.reason
        print(f"{place} {name}: {run.status}, {took}", file=sys.stderr, flush=True)
        return run

    def start(self, plan: Plan, seed: int) -> str:
        """Do a run in a process of its own; returns why it left no result, or ""."""
        import subprocess

        folder = self.place(plan, seed)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RESULT).unlink(missing_ok=True)
        spec = {**self.source, "model": plan.model, "settings": self.settings(plan, seed), "fingerprints": self.prints}
        write_json(str(folder / SPEC), spec)
        # The pipe closes when this process ends, and then the run ends too.
        command = [sys.executable, "-m", "xmtc.cli.compare_worker", str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            try:
                process.wait(None if self.end is None else max(0.0, self.end - time.monotonic()))
            except subprocess.TimeoutExpired:
                _stop(process)
                return "the budget was spent"
            except KeyboardInterrupt:
                _stop(process)
                raise
        if process.returncode < 0:
            hint = "; was the memory full?" if process.returncode == -9 else ""
            return f"ended by signal {-process.returncode}{hint}"
        return "" if (folder / RESULT).exists() else f"ended with code {process.returncode} and left no result"

    def found(self, plan: Plan, seed: int, status: Any = "waiting", reason: str = "") -> Run:
        """The run as its folder has it; with this status and reason if the folder has no result."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        from xmtc.evaluation.comparison import Run
        from xmtc.predictions import Predictions, ScoreKind

        folder, settings = self.place(plan, seed), self.settings(plan, seed)
        try:
            result = json.loads((folder / RESULT).read_text("utf-8"))
            if result["status"] != "finished":
                return Run(plan.system, plan.model, settings, seed, "failed", result["reason"])
            arrays = load((folder / f"{TOP}.safetensors").read_bytes())
            top = Predictions(arrays["ids"], arrays["scores"], self.labels, ScoreKind(result["kind"]))
            if len(top) != self.test_documents:
                raise ValueError("predictions for other documents")
        except (OSError, ValueError, KeyError, TypeError, SafetensorError):  # no result yet, or a truncated one
            return Run(plan.system, plan.model, settings, seed, status, reason)
        costs, documents = result["costs"], self.train_documents
        return Run(plan.system, plan.model, settings, seed, costs=costs, top=top, train_documents=documents)

    def settings(self, plan: Plan, seed: int) -> dict[str, Any]:
        """The settings of a run; a seed that is set stays."""
        return {"seed": seed, **plan.settings}

    def place(self, plan: Plan, seed: int) -> Path:
        """The folder of a run: named for its model, settings and documents, so that the same run is found again."""
        import hashlib
        import re

        from xmtc.models.registry import make

        config = make(plan.model, **self.settings(plan, seed)).config.model_dump(mode="json")
        identity = json.dumps({"model": plan.model, "config": config, **self.prints}, sort_keys=True)
        slug = re.sub(r"[^a-z0-9]+", "-", plan.system.lower()).strip("-")[:40]
        return self.folder / "runs" / f"{slug}-{seed}-{hashlib.sha256(identity.encode()).hexdigest()[:10]}"


def _stop(process: Any) -> None:
    """End a run, gently at first: what it has finished is kept."""
    import subprocess

    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def report(
    board: Leaderboard, runs: Sequence[Run], plans: Sequence[Plan], folder: Path, corpus: str, plot: bool
) -> None:
    """Print the table, write JSON and page."""
    import platform
    from importlib import metadata

    from rich.console import Console

    from xmtc import __version__
    from xmtc.evaluation.reports.comparison_page import write_comparison_page
    from xmtc.extras import missing

    versions = {name: metadata.version(name) for name in ("numpy", "torch") if not missing(name)}
    machine = {"processor": platform.machine(), "system": platform.system(), "python": platform.python_version()}
    facts = {"corpus": corpus, "xmtc": __version__, "date": time.strftime("%Y-%m-%d"), **machine, **versions}
    write_json(
        str(folder / RESULTS),
        {"about": facts, "rows": [row.to_json() for row in board.rows], "runs": [run.to_json() for run in runs]},
    )
    sweeps = sweep_plots(board, plans) if plot else {}
    for name, drawing in sweeps.items():
        (folder / f"{name}.svg").write_text(drawing.file, "utf-8")
    about = ", ".join(
        f"{key} {value}" if key in versions or key == "xmtc" else str(value) for key, value in facts.items()
    )
    write_comparison_page(
        board, folder / PAGE, title=f"Comparison on {Path(corpus).name}", about=about, sweeps=list(sweeps.values())
    )
    Console(width=None if sys.stdout.isatty() else WIDE).print(board.rich_table())
    written = [RESULTS, PAGE, *(f"{name}.svg" for name in sweeps)]
    for name in written:
        print(f"written: {folder / name}", file=sys.stderr)


def sweep_plots(board: Leaderboard, plans: Sequence[Plan]) -> dict[str, Plot]:
    """A plot for each swept setting of each sweep, by a name for its file."""
    import re

    from xmtc.evaluation.reports.comparison_plots import sweep

    rows = {row.system: row for row in board.finished}
    drawn = {}
    for name in dict.fromkeys(plan.sweep for plan in plans if plan.sweep):
        members = [plan for plan in plans if plan.sweep == name and plan.system in rows]
        varied = {key for plan in members for key, _ in plan.point}
        for key in sorted(varied):
            points = [
                (dict(plan.point)[key], {k: v for k, v in plan.point if k != key}, rows[plan.system])
                for plan in members
            ]
            if len({str(value) for value, _, _ in points}) > 1:
                slug = re.sub(r"[^a-z0-9]+", "-", f"sweep {name} {key}".lower()).strip("-")
                drawn[slug] = sweep(name, key, points)
    return drawn
