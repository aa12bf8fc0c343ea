"""The command line: one file per command; results on standard output, everything else on standard error."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Sequence

from xmtc.cli.output import printable
from xmtc.cli.stopping import INTERRUPTED, Resumable, how_to_go_on, terminable

USER_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0 for success and 2 for a user's error, which is printed as one line."""
    _mend_streams()
    from typer import exceptions

    from xmtc.cli.app import app
    from xmtc.errors import XmtcError

    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        with terminable() as stop, warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _one_line_warning
            code = app(words, prog_name="xmtc", standalone_mode=False)
        sys.stdout.flush()
    except exceptions.TyperException as error:
        return _failed(_mistyped(error), USER_ERROR)
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            sys.stdout.flush()
            return USER_ERROR if error.code else 0  # the shell asked what could complete a word
        # Typer turns a broken pipe into SystemExit: the reader of our output, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
        return 0
    except Resumable:
        return _failed(how_to_go_on(words), stop.code)
    except (XmtcError, OSError, MemoryError) as error:
        if debug:
            raise
        return _failed(f"error: {sentence(error)}", USER_ERROR)
    return _failed("stopped", stop.code) if code == INTERRUPTED else code or 0


def _mend_streams() -> None:
    """Give a process whose standard streams are closed, or cannot show every character, ones that can be used."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Else print would write what is meant for standard error to standard output.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        unicode = sys.stdout.encoding.lower().replace("-", "") == "utf8"
        # A name that is not Unicode comes out as the bytes it is; what an older encoding lacks, as an escape.
        sys.stdout.reconfigure(errors="surrogateescape" if unicode else "backslashreplace")


def _mistyped(error: Exception) -> str:
    """One line for a command line that Typer does not understand; nothing if it has shown the help instead."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "xmtc"
    return f"error: {message.rstrip('.')}; see {command} --help" if message.strip() else ""


def sentence(error: BaseException) -> str:
    """What a user needs to know of an error, on one line.

    >>> sentence(FileNotFoundError(2, "No such file or directory", "docs.csv"))
    'docs.csv: No such file or directory'
    """
    if isinstance(error, MemoryError):
        return "out of memory; use a smaller corpus or a larger machine"
    if isinstance(error, OSError) and error.filename:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def _failed(message: str, code: int) -> int:
    if message:
        print(printable(message), file=sys.stderr)
    return code


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(printable(f"warning: {message}"), file=sys.stderr)


def run() -> None:
    """The entry point of the installed command."""
    sys.exit(main())
