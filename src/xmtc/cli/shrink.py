"""`xmtc shrink`: a smaller folder for a model, with quality against size."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xmtc.cli.output import print_table, result_files, write_json
from xmtc.cli.read_options import Part, Reading, with_reading
from xmtc.folder_lock import folder_lock

if TYPE_CHECKING:
    from xmtc.evaluation.shrinking import Trial


@with_reading
def shrink(
    model: Annotated[str, typer.Argument(help="Model folder.")],
    out: Annotated[str, typer.Option("--out", help="New folder for the smaller model.")],
    mb: Annotated[float | None, typer.Option("--mb", help="At most so many megabytes, as good as possible.")] = None,
    loss: Annotated[
        float | None,
        typer.Option("--loss", help="Lose at most so many points of nDCG@5. With neither --mb nor --loss: 0.1."),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option("--valid", help="Labelled documents to measure on, not trained on: file, or folder with dev.*."),
    ] = None,
    json: Annotated[str | None, typer.Option("--json", help="Write sizes and figures as JSON; - for stdout.")] = None,
    html: Annotated[str | None, typer.Option("--html", help="Write a page with a plot.")] = None,
    reading: Reading = Reading(),
) -> None:
    """Make a model's folder smaller.

    Rounds weights, drops the smallest ones, and shows quality against size.

    Example: xmtc shrink tagger --out small --valid held-out.jsonl --loss 0.2
    """
    from xmtc.atomic_folder import check_target
    from xmtc.corpus.folder import has_part
    from xmtc.corpus.overwriting import check_not_input
    from xmtc.errors import ConfigError
    from xmtc.evaluation.reports.size_page import write_size_page
    from xmtc.evaluation.shrinking import check_limits, check_new, check_shrinks, in_mb
    from xmtc.evaluation.shrinking import shrink as shrunk
    from xmtc.models.registry import load

    check_limits(mb, loss, measured=valid is not None)
    if check_target(out) == Path(model).resolve():
        raise ConfigError(f"--out {out}: this is the model itself; name a new folder for the smaller one")
    target = check_new(out)
    for path in (json, html):
        if path is not None and valid is not None:
            check_not_input(path, valid)
    with result_files(json, html) as stream, folder_lock(target):
        loaded = load(model)
        check_shrinks(loaded)
        documents = None
        if valid is not None:
            part: Part = "dev" if Path(valid).is_dir() and has_part(valid, "dev") else "test"
            documents = reading.for_model(loaded).read(valid, part)
        found = shrunk(loaded, target, documents, mb=mb, loss=loss, on_trial=say)
        if json is not None:
            write_json(json, found.to_json())
        if html is not None:
            write_size_page(found, html, title=f"{loaded.title}: quality and size")
        print_table(found.rich_table(), stream)
    now, before = in_mb(found.chosen.bytes), in_mb(size_of(model, found.trials[0]))
    print(f"{now} MB instead of {before} MB", file=sys.stderr)
    if stream is sys.stdout:
        print(out)


def say(trial: Trial) -> None:
    """A line about a trial, since all of them take a while."""
    print(trial, file=sys.stderr)


def size_of(model: str, first: Trial) -> int:
    """Bytes of a model folder; as it would be written now if it is on the Hub."""
    folder = Path(model)
    return sum(file.stat().st_size for file in folder.iterdir()) if folder.is_dir() else first.bytes
