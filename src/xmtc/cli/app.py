"""The commands, gathered. A command's own imports happen when it runs, so that `--help` is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from xmtc import __version__
from xmtc.cli.compare import compare
from xmtc.cli.convert import convert
from xmtc.cli.demo import demo
from xmtc.cli.evaluate import evaluate
from xmtc.cli.explain import explain
from xmtc.cli.info import info
from xmtc.cli.models import models
from xmtc.cli.plan import plan
from xmtc.cli.predict import predict
from xmtc.cli.serve import serve
from xmtc.cli.shrink import shrink
from xmtc.cli.threads import Threads, limit_threads, with_threads
from xmtc.cli.train import train
from xmtc.cli.update import update
from xmtc.cli.warm import warm

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the library for markup takes longer to load than all else together
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"xmtc {__version__}")
        raise typer.Exit


@app.callback()
def tag_texts(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="On an error show where in the program it happened.")] = False,
    threads: Threads = None,
) -> None:
    """Tag texts with the right few labels out of thousands or millions.

    Start with: xmtc demo, then: xmtc train docs.csv --out tagger
    """
    del version, debug  # done before a command begins
    limit_threads(threads)


commands = train, update, evaluate, predict, explain, compare, shrink, info, convert, models, demo, warm, serve, plan
for command in commands:
    app.command()(with_threads(command))
