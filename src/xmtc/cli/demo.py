"""`xmtc demo`: train, measure and tag on the corpus that comes with the package, then let `auto` do its best."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from xmtc.evaluation.result import Evaluation
    from xmtc.models.base import Model

#: Test documents to show.
SHOWN = ("freeciv-client-sdl", "icecast2", "python3-numpy", "openssh-server", "pqiv")


def demo(
    out: Annotated[str, typer.Option("--out", help="Folder for the model and the report.")] = "xmtc-demo",
    budget: Annotated[str, typer.Option("--budget", help="How long the last model, auto, may take.")] = "1m",
) -> None:
    """Show what xmtc does, in two minutes.

    Debian packages are tagged with what they are for.

    Example: xmtc demo
    """
    from pathlib import Path

    from xmtc.atomic_folder import check_target
    from xmtc.cli.early_compiling import early_compiling

    check_target(Path(out) / "tagger")
    with early_compiling():
        show(Path(out), budget)


def show(out: Path, budget: str) -> None:
    """Train, print what the models say, and keep the last one with a report."""
    from dataclasses import replace

    from rich.console import Console

    from xmtc.corpus.io import read
    from xmtc.data import demo_folder
    from xmtc.evaluation.evaluate import evaluate
    from xmtc.evaluation.reports.report import write_report
    from xmtc.models.registry import make

    folder, console = demo_folder(), Console()
    train, test = (replace(read(folder, part=part), name="the demo corpus") for part in ("train", "test"))
    console.print(
        f"[bold]{len(train):,}[/] Debian package descriptions, [bold]{len(train.labels):,}[/] tags; "
        f"training [bold]prior[/] (what is frequent) and [bold]knn[/] (what is similar) ..."
    )

    def measured(model: Model) -> Evaluation:
        found = evaluate(model.fit(train), test)
        took = model.training_["seconds"]
        console.print(f"\n[bold]{model.name}[/], trained in {took:.1f} s, on {len(test):,} documents it has not seen:")
        console.print(found.rich_table())
        return found

    for model in (make("prior"), make("knn")):
        measured(model)
    test = test.with_labels(train.labels)
    assert test.texts is not None
    for row in [row for row in range(len(test)) if test.id(row) in SHOWN]:
        top = model.predict(test[[row]], k=5)
        truth = set(test.labels_of(row))
        console.print(f"\n[bold]{test.id(row)}[/]  {test.texts[row][:110]} ...", highlight=False, soft_wrap=True)
        true_names = ", ".join(sorted(test.labels.path(label) for label in truth))
        console.print(f"  [dim]true[/]       {true_names}", highlight=False, soft_wrap=True)
        found = [
            f"{'[green]✓' if label in truth else '[red]✗'} {top.labels.path(label)}[/] {score:.2f}"
            for label, score in zip(top.ids[0].tolist(), top.scores[0].tolist(), strict=True)
            if label >= 0
        ]
        console.print(f"  [dim]predicted[/]  {', '.join(found)}", highlight=False, soft_wrap=True)
    best = make("auto", budget=budget)
    console.print(f"\n[bold]auto[/] tries further methods for {budget} and blends those that help ...")
    evaluation = measured(best)
    best.save(out / "tagger")
    write_report(evaluation, out / "report.html", title="auto on Debian packages")
    print(f"\nreport page: {out / 'report.html'}\nmodel:       {out / 'tagger'}", file=sys.stderr)
    print(f'try:         echo "a fast mail server" | xmtc predict {out / "tagger"} - --table', file=sys.stderr)
