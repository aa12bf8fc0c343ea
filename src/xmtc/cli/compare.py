"""`xmtc compare`: several models on the same documents, as a table, JSON and one page."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xmtc.cli.cluster import Cluster, on_cluster
from xmtc.cli.output import PropensityConstants, write_json
from xmtc.cli.read_options import Reading, with_reading

if TYPE_CHECKING:
    from rich.table import Table

    from xmtc.cli.compare_plans import Plan
    from xmtc.cli.compare_runs import Work
    from xmtc.evaluation.leaderboard import Leaderboard
    from xmtc.evaluation.reports.plots import Plot

RESULTS, PAGE = "results.json", "comparison.html"
NAMED = ("xmtc", "python", "numpy", "torch")  # facts that are not understood without their names
WIDE = 170  # characters of the table where nobody looks at a terminal


@with_reading
def compare(
    corpus: Annotated[
        list[str], typer.Argument(help="Folder with train.* and test.*, or a file that is split; may be several.")
    ],
    out: Annotated[str, typer.Option("--out", help="Folder for runs, results.json and the page.")],
    models: Annotated[
        str, typer.Option("--models", help="Methods, model folders, predictions: knn,./tagger,a.csv")
    ] = "",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each, with seeds 0, 1, ...")] = 1,
    budget: Annotated[str | None, typer.Option("--budget", help="Time for all runs, such as 30m.")] = None,
    recipe: Annotated[list[str] | None, typer.Option(help="YAML recipe or sweep, or a name; may be repeated.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="MODEL.key=value; may be repeated.")] = None,
    test: Annotated[str, typer.Option("--test", help="If the corpus has no test part: a share, or a file.")] = "0.1",
    valid: Annotated[
        str | None,
        typer.Option("--valid", help="Validation file, or a share of the corpus; else a folder's dev part."),
    ] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw each sweep: metrics against the swept setting.")] = False,
    propensity: PropensityConstants = "default",
    cluster: Cluster = None,
    reading: Reading = Reading(),
) -> None:
    """Train models on the same documents and compare them.

    Quality, significance, time, memory.

    Started again with the same --out, it does only what is missing. An entry of --models with a slash is a folder of a
    trained model, one that ends like a file is what `xmtc predict --out` wrote. Several corpora give average ranks too.

    Example: xmtc compare corpus --models knn,parabel,bonsai --seeds 3 --out results
    """
    from xmtc.budget import seconds_in
    from xmtc.cli.compare_plans import planned
    from xmtc.cli.compare_runs import Work
    from xmtc.cli.compare_worker import full_disk, is_disk_full
    from xmtc.corpus.sources import check_output
    from xmtc.errors import ConfigError, XmtcError
    from xmtc.labelspace.propensity import propensity_of

    constants = propensity_of(propensity)
    plans = planned(models, recipe or [], set_ or [])
    with on_cluster(cluster):
        pass  # each run connects for itself; a wrong address is told before the first
    if len(corpus) > 1 and (file := next((plan for plan in plans if plan.origin == "predictions"), None)):
        raise ConfigError(f"{file.name}: predictions are for the documents of one corpus; compare on that one alone")
    end = time.monotonic() + seconds_in(budget) if budget is not None else None
    folder = Path(out)
    places = corpus_folders(corpus, folder)
    works = [
        Work(place, each, test, reading, plans, end, valid, cluster) for place, each in zip(places, corpus, strict=True)
    ]
    try:
        for place in dict.fromkeys((folder, *places)):
            place.mkdir(parents=True, exist_ok=True)
            check_output(str(place / RESULTS))
        boards: dict[str, Leaderboard] = {}
        for work in works:
            boards[work.corpus], stopped = work.board(seeds, constants)
            report(work, boards[work.corpus], plot, work.corpus if len(works) > 1 else None)
            if stopped:
                raise KeyboardInterrupt
        if len(works) > 1:
            report_all(boards, works, folder)
    except (OSError, XmtcError) as error:
        if is_disk_full(error):
            raise full_disk(folder) from error
        if isinstance(error, OSError) and error.errno and not error.filename:
            raise OSError(error.errno, error.strerror, str(folder)) from error  # a sentence needs to say where
        raise


def corpus_folders(corpora: Sequence[str], out: Path) -> list[Path]:
    """The folder of each corpus: --out itself for one, else a folder below it that is named for the corpus."""
    import re

    from xmtc.errors import ConfigError

    if len(corpora) == 1:
        return [out]
    names = [Path(corpus).resolve().name for corpus in corpora]
    # Corpora in folders of the same name are told apart by their paths as given.
    slugs = [
        re.sub(r"[^\w.-]+", "-", corpus if names.count(name) > 1 else name).strip("-.") or "corpus"
        for corpus, name in zip(corpora, names, strict=True)
    ]
    for slug in slugs:
        if slugs.count(slug) > 1 or slug == "runs":
            raise ConfigError(f"the corpora cannot be told apart by their names ({slug}); rename one, or name it once")
    return [out / slug for slug in slugs]


def report(work: Work, board: Leaderboard, plot: bool, title: str | None = None) -> None:
    """Print the table, write JSON and page."""
    from xmtc.evaluation.reports.comparison_page import write_comparison_page

    facts = {"corpus": work.corpus, "documents": work.about(), **surroundings()}
    write_json(str(work.folder / RESULTS), {"about": facts, **board.to_json()})
    sweeps = sweep_plots(board, work.plans) if plot else {}
    for name, drawing in sweeps.items():
        (work.folder / f"{name}.svg").write_text(drawing.file, "utf-8")
    write_comparison_page(
        board,
        work.folder / PAGE,
        title=f"Comparison on {Path(work.corpus).name}",
        about=shown(facts),
        sweeps=list(sweeps.values()),
    )
    show(board.rich_table(title))
    _written(work.folder, RESULTS, PAGE, *(f"{name}.svg" for name in sweeps))


def report_all(boards: Mapping[str, Leaderboard], works: Sequence[Work], folder: Path) -> None:
    """Print the average ranks, write JSON and page of all corpora."""
    from urllib.parse import quote

    from xmtc.evaluation.average_ranks import AverageRanks
    from xmtc.evaluation.reports.comparison_page import write_comparisons_page

    ranks, facts = AverageRanks.of(boards), surroundings()
    corpora = {work.corpus: {"documents": work.about(), **boards[work.corpus].to_json()} for work in works}
    write_json(str(folder / RESULTS), {"about": facts, "average ranks": ranks.to_json(), "corpora": corpora})
    documents = [work.about() for work in works]
    links = [f"{quote(work.folder.name)}/{PAGE}" for work in works]
    write_comparisons_page(boards, ranks, folder / PAGE, documents=documents, links=links, about=shown(facts))
    show(ranks.rich_table())
    _written(folder, RESULTS, PAGE)


def surroundings() -> dict[str, str]:
    """When and with what a comparison was made."""
    import platform
    from importlib import metadata

    from xmtc import __version__
    from xmtc.extras import missing

    versions = {name: metadata.version(name) for name in ("numpy", "torch") if not missing(name)}
    machine = {"processor": platform.machine(), "system": platform.system(), "python": platform.python_version()}
    return {"xmtc": __version__, "date": time.strftime("%Y-%m-%d"), **machine, **versions}


def shown(facts: Mapping[str, str]) -> str:
    """The facts as a line."""
    return ", ".join(f"{key} {value}" if key in NAMED else value for key, value in facts.items())


def show(table: Table) -> None:
    """Print a table; one with a title is one of several, which a line keeps apart."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDE)
    console.print(*([""] if table.title else []), table, sep="\n")


def _written(folder: Path, *names: str) -> None:
    for name in names:
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
