"""`xmtc evaluate`: how good a model is on documents whose labels are known."""

from __future__ import annotations

from typing import Annotated

import typer

from xmtc.cli.output import Device, Precision, Recall, print_table, result_files, threshold_of, write_json
from xmtc.cli.read_options import Reading, with_reading


@with_reading
def evaluate(
    model: Annotated[str, typer.Argument(help="Model folder.")],
    corpus: Annotated[str, typer.Argument(help="File, folder with test.*, or - for standard input.")],
    k: Annotated[str, typer.Option("--k", help="Lengths of the lists to evaluate.")] = "1,3,5",
    json: Annotated[str | None, typer.Option("--json", help="Write all metrics as JSON; - for stdout.")] = None,
    html: Annotated[str | None, typer.Option("--html", help="Write a report page with plots.")] = None,
    per_label: Annotated[str | None, typer.Option("--per-label", help="Write a CSV with a row a label.")] = None,
    threshold: Annotated[
        str | None, typer.Option(help="Evaluate also labels that score at least this: 0.3, or tuned.")
    ] = None,
    precision: Precision = None,
    recall: Recall = None,
    device: Device = "auto",
    reading: Reading = Reading(),
) -> None:
    """Measure a model: P@k, nDCG@k, PSP@k, for all labels and for head, middle and tail.

    Example: `xmtc evaluate tagger test.jsonl.gz --k 1,3,5 --json metrics.json --html report.html`
    """
    from xmtc.evaluation.evaluate import evaluate
    from xmtc.models.registry import load

    ks = lengths(k)
    with result_files(json, per_label, html) as stream:
        loaded = load(model, device=device)
        at = threshold_of(loaded, threshold, precision, recall)
        result = evaluate(loaded, reading.for_model(loaded).read(corpus, "test"), ks, threshold=at)
        if json is not None:
            write_json(json, result.to_json())
        if per_label is not None:
            result.write_per_label_csv(per_label)
        if html is not None:
            from xmtc.evaluation.reports.report import write_report

            write_report(result, html, title=f"{loaded.title} on {corpus}")
        print_table(result.rich_table(), stream)


def lengths(text: str) -> tuple[int, ...]:
    """The list lengths in "1,3,5", or an error.

    >>> lengths("5,1,3")
    (1, 3, 5)
    """
    from xmtc.errors import ConfigError

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"--k {text}: whole numbers above 0 were expected, such as 1,3,5")
    return tuple(sorted({int(part) for part in parts}))
