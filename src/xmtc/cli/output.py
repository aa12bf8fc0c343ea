"""What commands share: text that is safe on a terminal, result files, sizes as a share or a number, thresholds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from xmtc.display import printable as printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console
    from rich.table import Table

    from xmtc.models.base import Model

Device = Annotated[str, typer.Option("--device", help="Where a network computes: auto, cpu, cuda, cuda:1, mps.")]

Precision = Annotated[
    float | None, typer.Option("--precision", help="The threshold with this precision on validation documents: 0.8.")
]
Recall = Annotated[
    float | None, typer.Option("--recall", help="The threshold with this recall on validation documents: 0.7.")
]

PropensityConstants = Annotated[
    str,
    typer.Option(
        "--propensity", metavar="A,B|NAME", help="Constants of PSP: 0.55,1.5, or of data sets: amazon, wikipedia."
    ),
]

UNBROKEN = 1000  # characters of a line where nobody looks at a terminal


@contextmanager
def result_files(*paths: str | None) -> Iterator[TextIO]:
    """Check before long work that the files can be written, and name them after it; None is no file.

    Yields the stream for people: standard output, or standard error if a result goes to standard output (`-`).
    """
    from xmtc.corpus.sources import check_output

    given = [path for path in paths if path is not None]
    for path in given:
        check_output(path)
    yield sys.stderr if "-" in given else sys.stdout
    for path in given:
        if path != "-":
            print(f"written: {path}", file=sys.stderr)


def reading_console(stream: TextIO | None = None) -> Console:
    """A console for text: as wide as the terminal, or as COLUMNS says; a pipe gets lines that are not broken."""
    from rich.console import Console

    console = Console(file=stream, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNBROKEN
    return console


def print_table(table: Table, stream: TextIO | None = None) -> None:
    """Print a table of figures whole: where there is less room than it needs, lines run over rather than be cut."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.text import Text

    console = Console(file=stream)
    needed = Measurement.get(console, console.options.update(max_width=sys.maxsize), table).maximum
    console.width = max(console.width, needed)
    notes, table.caption = table.caption, None  # rich cuts a caption that is wider than its table
    console.print(table, crop=False, no_wrap=True)
    if notes is not None:
        console.print(Text(f"\n{notes}", "table.caption"), crop=False, no_wrap=True, overflow="ignore")


def write_json(path: str, value: Any) -> None:
    """Write JSON, indented, to a file or, for `-`, to standard output."""
    import json

    from xmtc.corpus.sources import replacing

    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    with replacing(path) as out:
        # A file name need not be Unicode; the escape for such a byte is JSON's own.
        out.write(text.encode("utf-8", "backslashreplace"))


def share_or_number(text: str, option: str) -> float | int:
    """A share of the documents such as 0.1, or their number such as 500.

    >>> share_or_number("0.1", "--test"), share_or_number("500", "--test")
    (0.1, 500)
    """
    from xmtc.errors import ConfigError

    try:
        size = int(text) if text.strip().isdecimal() else float(text)
    except ValueError:
        size = -1
    if not (0 < size < 1 or (isinstance(size, int) and size > 0)):
        raise ConfigError(f"{option} {text}: a share between 0 and 1 or a whole number of documents was expected")
    return size


def threshold_of(
    model: Model | None, text: str | None, precision: float | None = None, recall: float | None = None
) -> float | NDArray[np.float32] | None:
    """What `--threshold` says, a number or `tuned`, or the threshold that reached a precision or recall when tuned.

    Without a model, for a file of predictions, it can only be a number.
    """
    from xmtc.errors import ConfigError
    from xmtc.predictions import ScoreKind

    if sum(given is not None for given in (text, precision, recall)) > 1:
        raise ConfigError("--threshold, --precision and --recall each choose a threshold; give one of them")
    if model is None and (text == "tuned" or precision is not None or recall is not None):
        option = "--threshold tuned" if text == "tuned" else "--recall" if precision is None else "--precision"
        raise ConfigError(f"{option}: a file of predictions does not know such a threshold; give the model folder")
    if model is not None and (precision is not None or recall is not None):
        choice = model.threshold_choice(precision=precision, recall=recall)
        print(
            f"threshold {choice.threshold:.4g}: precision {choice.precision:.3f} and recall {choice.recall:.3f} on the "
            "validation documents",
            file=sys.stderr,
        )
        return choice.threshold
    if text is None:
        return None
    if model is not None and text == "tuned":
        if model.thresholds_ is None:
            raise ConfigError("--threshold tuned: this model has no thresholds; train it with --valid 0.1 --tune")
        return model.thresholds_
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if number != number:
        raise ConfigError(f"--threshold {text}: not a number; give one such as 0.3, or tuned")
    if number > 1 and model is not None and model.score_kind != ScoreKind.RANKING:
        raise ConfigError(f"--threshold {text}: this model's scores are at most 1; give one such as 0.3, or tuned")
    return number
