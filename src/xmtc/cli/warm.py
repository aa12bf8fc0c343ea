"""`xmtc warm`: compile every kernel now, so that no later start has to."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from xmtc.cli.warm_worker import REFUSED, UNWRITTEN


def warm(
    cache: Annotated[str | None, typer.Option("--cache", help="Folder, to be named by NUMBA_CACHE_DIR later.")] = None,
    models: Annotated[
        str | None,
        typer.Option("--models", help="Only what these methods or model folders need; default: all without an extra."),
    ] = None,
) -> None:
    """Compile the loops of all methods beforehand.

    Into the cache, so that no later start has to wait for it.

    For container images and read-only systems. A second call finds everything there and is quick. A model folder is
    loaded and asked, which also compiles what a network needs.

    Example: xmtc warm --cache /app/cache --models tagger
    """
    from xmtc.errors import XmtcError

    methods = chosen(models)
    environment = dict(os.environ)
    if environment.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        raise XmtcError("NUMBA_DISABLE_JIT is set, so nothing is compiled; unset it first")
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(writable(cache))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "xmtc.cli.warm_worker", folder, *methods]
        run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    answer = run.stdout.splitlines()
    if run.returncode == REFUSED:
        raise XmtcError(answer[-1])
    if run.returncode == UNWRITTEN:
        raise XmtcError(f"{answer[-1]}: cannot be written; name a folder that can: xmtc warm --cache DIR")
    if run.returncode:
        raise XmtcError(f"compiling ended with code {run.returncode}; the lines above say why")
    compiled, found, *folders = answer
    print(f"{compiled} versions of kernels compiled, {found} were there already", file=sys.stderr)
    for each in folders:
        print(f"{each}: {size(Path(each)) / 1e6:.1f} MB of compiled code", file=sys.stderr)
    if cache is not None:
        place = environment["NUMBA_CACHE_DIR"]
        print(f"use it with: export NUMBA_CACHE_DIR={place}", file=sys.stderr)
        folders = [place]
    print("\n".join(folders))


def chosen(models: str | None) -> list[str]:
    """What to compile for, methods and model folders; an error for one that is not known, or that cannot be opened.

    A method needs no extra: the work of the others is not done by kernels alone. What is named like a method is one; a
    folder of that name is called `./knn`.
    """
    from xmtc.errors import ConfigError
    from xmtc.models.registry import CATALOGUE, model_class
    from xmtc.storage import opening

    core = [name for name in CATALOGUE if model_class(name).capabilities.extra is None]
    names = [name for name in (part.strip() for part in (models or "").split(",")) if name]
    for name in names:
        if name in core:
            continue
        if name not in CATALOGUE and (os.sep in name or Path(name).is_dir()):
            opening(name)  # an error if it is no model folder
            continue
        model_class(name)  # an error with a near name, if there is no such method
        raise ConfigError(
            f"--models {name}: of the methods, warm knows those without an extra ({', '.join(core)}); of others name a "
            "model folder"
        )
    if models is not None and not names:
        raise ConfigError("--models: no method is named; leave it out for all of them")
    return names or core


def writable(path: str) -> Path:
    """The folder, made if it was not there; an error if no file can be written into it."""
    from xmtc.errors import BadInput

    if not path.strip():
        raise BadInput("--cache", None, "no folder is named")
    folder = Path(path).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInput(path, None, f"cannot be written: {reason}", "name another folder with --cache") from error


def size(folder: Path) -> int:
    """Bytes of compiled code in a folder."""
    return sum(file.stat().st_size for file in folder.glob("*.nb[ci]"))
