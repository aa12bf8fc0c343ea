"""`xmtc evaluate`: how good a model is on documents whose labels are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from xmtc.cli.cluster import Cluster, on_cluster
from xmtc.cli.output import (
    Device,
    Precision,
    PropensityConstants,
    Recall,
    print_table,
    result_files,
    threshold_of,
    write_json,
)
from xmtc.cli.read_options import Reading, with_reading

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus


@with_reading
def evaluate(
    model: Annotated[str, typer.Argument(help="Model folder, or a file that `xmtc predict --out` wrote.")],
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
    propensity: PropensityConstants = "default",
    train: Annotated[
        str | None, typer.Option("--train", help="For predictions: the training documents, for PSP, head and tail.")
    ] = None,
    device: Device = "auto",
    cluster: Cluster = None,
    reading: Reading = Reading(),
) -> None:
    """Measure a model, or a file of its predictions.

    P@k, nDCG@k, RP@k and PSP@k, for all labels and for head, middle and tail.

    Example: xmtc evaluate tagger test.jsonl.gz --k 1,3,5 --json metrics.json --html report.html
    """
    from xmtc.corpus.overwriting import check_not_input
    from xmtc.errors import ConfigError
    from xmtc.evaluation.evaluate import evaluate
    from xmtc.labelspace.propensity import propensity_of
    from xmtc.models.registry import load

    ks, constants = lengths(k), propensity_of(propensity)
    from_file = is_predictions(model)
    if train is not None and not from_file:
        raise ConfigError("--train is for a file of predictions; a model knows its training counts, so leave it out")
    for path in (json, per_label, html):
        if path is not None:
            check_not_input(path, corpus, train, model if from_file else None)
    with result_files(json, per_label, html) as stream, on_cluster(None if from_file else cluster):
        if from_file:
            at = threshold_of(None, threshold, precision, recall)
            documents, training = reading.read(corpus, "test"), training_documents(train, corpus, reading)
            result = evaluate(model, documents, ks, threshold=at, train=training, propensity=constants)
            title = model
        else:
            loaded = load(model, device=device)
            at = threshold_of(loaded, threshold, precision, recall)
            documents = reading.for_model(loaded).read(corpus, "test")
            result = evaluate(loaded, documents, ks, threshold=at, propensity=constants)
            title = loaded.title
        if json is not None:
            write_json(json, result.to_json())
        if per_label is not None:
            result.write_per_label_csv(per_label)
        if html is not None:
            from xmtc.evaluation.reports.report import write_report

            write_report(result, html, title=f"{title} on {corpus}")
        print_table(result.rich_table(), stream)


def is_predictions(path: str) -> bool:
    """Whether a file of predictions is meant rather than a model folder: it is a file, or is called like one.

    >>> is_predictions("answers.csv.gz"), is_predictions("tagger"), is_predictions("hf://someone/tagger.json")
    (True, False, False)
    """
    from pathlib import Path

    from xmtc.hub import is_address
    from xmtc.prediction_files.writing import SUFFIXES

    if is_address(path) or not path or Path(path).is_dir():
        return False
    return Path(path).is_file() or Path(path.lower().removesuffix(".gz")).suffix in SUFFIXES


def training_documents(train: str | None, corpus: str, reading: Reading) -> Corpus | None:
    """The documents that `--train` names, else the train part if the corpus is a folder with one."""
    import sys
    from pathlib import Path

    from xmtc.corpus.folder import has_part

    if train is None and not (Path(corpus).is_dir() and has_part(corpus, "train")):
        return None
    documents = reading.read(train or corpus, "train")
    print(f"training counts from {documents.name}: {len(documents):,} documents", file=sys.stderr)
    return documents


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
