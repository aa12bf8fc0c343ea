"""`--threads N`: how many cores a command may use; said to the libraries before they are imported."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from xmtc.thread_limits import VARIABLES

Threads = Annotated[
    int | None, typer.Option("--threads", min=1, metavar="N", help="How many cores to use; all if not given.")
]


def with_threads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option `--threads`; a command imports its libraries when it runs, so this comes first."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
    option = inspect.Parameter("threads", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Threads)

    @wraps(command)
    def limited(threads: int | None = None, **values: Any) -> None:
        limit_threads(threads)
        command(**values)

    limited.__signature__ = signature.replace(parameters=[*own, option])  # type: ignore[attr-defined]
    limited.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, option)}
    return limited


def limit_threads(count: int | None) -> None:
    """Let this process, and those that it starts, use so many cores; None changes nothing."""
    from xmtc.errors import ConfigError

    if count is None:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count > cores:
        there = "there is 1 core" if cores == 1 else f"there are {cores} cores"
        raise ConfigError(f"--threads {count}: {there} here; give at most {cores}, or leave --threads out to use all")
    os.environ.update(dict.fromkeys(VARIABLES, str(count)))
