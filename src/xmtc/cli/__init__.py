"""The command line: one file per command; results on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

USER_ERROR = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0 for success and 2 for a user's error, which is printed as one line."""
    from xmtc.cli.app import app
    from xmtc.errors import XmtcError

    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _one_line_warning
            app(words, prog_name="xmtc")
    except SystemExit as stop:
        # Typer ends like this after each command, and after Ctrl-C.
        return _failed("stopped", INTERRUPTED) if stop.code == INTERRUPTED else _code(stop)
    except BrokenPipeError:
        # The reader of our output, such as `head`, has seen enough; nobody is left to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (XmtcError, OSError, MemoryError) as error:
        if debug:
            raise
        return _failed(_sentence(error), USER_ERROR)
    return 0


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "error: out of memory; use a smaller corpus or a larger machine"
    if isinstance(error, OSError) and error.filename:
        return f"error: {error.filename}: {error.strerror}"
    return f"error: {error}"


def _failed(sentence: str, code: int) -> int:
    print(sentence, file=sys.stderr)
    return code


def _code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    return stop.code if isinstance(stop.code, int) else USER_ERROR


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)


def run() -> None:
    """The entry point of the installed command."""
    sys.exit(main())
