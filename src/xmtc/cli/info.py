"""`xmtc info`: what is in a corpus or a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from xmtc.cli.output import printable, result_files, write_json
from xmtc.cli.read_options import Reading, with_reading

if TYPE_CHECKING:
    from xmtc.corpus.label_report import LabelCount
    from xmtc.corpus.similar_texts import SimilarTexts
    from xmtc.storage import FolderReader

SHOWN_PAIRS = 3


@with_reading
def info(
    path: Annotated[str, typer.Argument(help="Corpus (file, folder, -) or model folder.")],
    html: Annotated[
        str | None, typer.Option("--html", help="Write a page with plots; of a model: that of auto.")
    ] = None,
    json: Annotated[str | None, typer.Option("--json", help="Write the figures as JSON; - for stdout.")] = None,
    top: Annotated[int, typer.Option("--top", min=0, help="How many of the most frequent labels to show.")] = 10,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out near-duplicates and languages.")] = False,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="The documents need not have labels.")] = False,
    reading: Reading = Reading(),
) -> None:
    """Describe a corpus or a model.

    Of a corpus: sizes, labels, near-duplicates, languages, leakage. Of a model: method, settings, training.

    Example: xmtc info docs.jsonl.gz --html corpus.html
    """
    from xmtc.atomic_folder import MANIFEST
    from xmtc.hub import is_address

    if is_address(path) or (Path(path) / MANIFEST).is_file():
        describe_model(path, html, json)
    else:
        describe_corpus(path, html, json, reading, top=top, quick=quick, unlabelled=unlabelled)


def describe_model(path: str, html: str | None, json: str | None) -> None:
    """Print the manifest of a model."""
    from xmtc.errors import ConfigError
    from xmtc.models.training_facts import check_facts
    from xmtc.storage import opening

    folder = opening(path)
    if html is not None and folder.manifest["kind"] != "auto":
        raise ConfigError(
            "--html is for a corpus or a model of auto; another model's page is the report of `xmtc evaluate --html`"
        )
    folder.finish_checks()
    check_facts(folder.manifest.get("training", {}), path)
    facts = {key: value for key, value in folder.manifest.items() if key != "checksum"}
    size = sum(file["bytes"] for file in facts["files"].values())
    edited = "" if folder.card_is_original() else " (but README.md, which was edited)"
    metrics = [
        (f"{part} {key}", f"{value:.2f}")
        for part, values in facts.get("metrics", {}).items()
        if isinstance(values, dict)
        for key, value in values.items()
        if "@" in key and isinstance(value, float)
    ]
    rows = [
        ("model", facts["kind"]),
        ("labels", f"{len(folder.labels()):,}"),
        ("size", f"{size / 1e6:,.1f} MB in {len(facts['files']) + 1} files, all intact{edited}"),
        ("created", facts.get("created", "")),
        ("scores", validated(folder, "calibration", "calibrated")),
        ("thresholds", validated(folder, "thresholds", "tuned")),
        *training_rows(facts.get("training", {})),
        *((f"setting {key}", value) for key, value in facts["config"].items()),
        *metrics,
        *((f"made with {key}", value) for key, value in facts.get("libraries", {}).items()),
    ]
    with result_files(json, html) as stream:
        if json is not None:
            write_json(json, facts)
        print_rows([(name, str(value)) for name, value in rows], stream)
        if html is not None:
            from xmtc.evaluation.reports.search_page import write_search_page

            write_search_page(folder.json("report"), html, title=f"auto on {facts['training'].get('corpus', path)}")


def validated(folder: FolderReader, what: str, done: str) -> str:
    """Whether calibration or thresholds were fitted, and whether that was before the model's last update."""
    if not folder.has(f"{what}.safetensors"):
        return f"not {done}"
    old = folder.manifest.get("training", {}).get(what, {}).get("before_update", False)
    return f"{done}, but before the last update: some labels may need it anew" if old else done


def training_rows(training: dict[str, Any]) -> list[tuple[str, str]]:
    """What the manifest says about training and updates; the sketch of the documents is for programs."""
    hidden = ("sketch", "updates")
    rows = [(f"training {key}", in_words(value)) for key, value in training.items() if key not in hidden]
    if "updates" in training:
        from xmtc.models.training_facts import update_in_words

        rows.append(("updated", update_in_words(training["updates"])))
    return rows


def in_words(value: Any) -> str:
    """A value of the manifest on one line.

    >>> in_words({"method": "platt", "documents": 400})
    'method platt, documents 400'
    """
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{key} {part}" for key, part in value.items() if key != "before_update")


def describe_corpus(
    path: str, html: str | None, json: str | None, reading: Reading, *, top: int, quick: bool, unlabelled: bool
) -> None:
    """Print the statistics of a corpus; a folder's test part is described too."""
    from xmtc.corpus.folder import has_part
    from xmtc.corpus.overwriting import check_not_input
    from xmtc.corpus.statistics import bars, describe

    for file in (json, html):
        if file is not None:
            check_not_input(file, path, reading.label_set)
    with result_files(json, html) as stream:
        train = reading.read_labelled(path, unlabelled=unlabelled)
        test = reading.read(path, "test", unlabelled=True) if Path(path).is_dir() and has_part(path, "test") else None
        figures = describe(train, test, frequent=top, thorough=not quick)
        if json is not None:
            write_json(json, figures.to_json())
        if html is not None:
            from xmtc.evaluation.reports.html import write_corpus_page

            write_corpus_page(figures, html)
        print_rows(figures.rows(), stream)
        histogram = figures.labels_per_document_histogram
        print(f"\nlabels per document\n{bars([*histogram.values()], [*histogram])}", file=stream)
        print_labels(figures.frequent_labels, stream)
        print_similar(figures.near_duplicate_examples[:SHOWN_PAIRS], stream)
        for hint in figures.hints():
            print(f"\nhint: {printable(hint)}", file=stream)


def print_labels(labels: Sequence[LabelCount], stream: TextIO) -> None:
    """Print the most frequent labels: documents, share, name and, where that is another, the key."""
    if not labels:
        return
    print("\nmost frequent labels", file=stream)
    width = len(f"{labels[0].documents:,}")
    for label in labels:
        key = f"  [{label.label}]" if label.name != label.label else ""
        print(f"{label.documents:>{width},} {label.share:6.1%}  {printable(label.name + key)}", file=stream)


def print_similar(examples: Sequence[SimilarTexts], stream: TextIO) -> None:
    """Print near-duplicates in pairs."""
    if examples:
        print("\nnear-duplicates, for example", file=stream)
    for pair in examples:
        further = f", and {pair.further:,} more like the first" if pair.further else ""
        print(f"similarity {pair.similarity:.2f}{further}", file=stream)
        for id, text in zip(pair.ids, pair.texts, strict=True):
            print(f"  {printable(id)}: {printable(text)}", file=stream)


def print_rows(rows: list[tuple[str, str]], stream: TextIO) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{printable(name):<{width}}  {printable(value)}", file=stream)
