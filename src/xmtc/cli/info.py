"""`xmtc info`: what is in a corpus or a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from xmtc.cli.output import printable, result_files, write_json
from xmtc.cli.read_options import Reading, with_reading

if TYPE_CHECKING:
    from xmtc.storage import FolderReader


@with_reading
def info(
    path: Annotated[str, typer.Argument(help="Corpus (file, folder, -) or model folder.")],
    html: Annotated[str | None, typer.Option("--html", help="Write a page with plots.")] = None,
    json: Annotated[str | None, typer.Option("--json", help="Write the figures as JSON; - for stdout.")] = None,
    reading: Reading = Reading(),
) -> None:
    """Describe a corpus (sizes, rare labels, duplicates, leakage) or a model (method, settings, training).

    Example: `xmtc info docs.jsonl.gz --html corpus.html`
    """
    from xmtc.atomic_folder import MANIFEST

    if (Path(path) / MANIFEST).is_file():
        describe_model(path, html, json)
    else:
        describe_corpus(path, html, json, reading)


def describe_model(path: str, html: str | None, json: str | None) -> None:
    """Print the manifest of a model."""
    from xmtc.errors import ConfigError
    from xmtc.models.training_facts import check_facts
    from xmtc.storage import opening

    if html is not None:
        raise ConfigError("--html is for a corpus; a model's page is the report of `xmtc evaluate --html`")
    folder = opening(path)
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
    with result_files(json) as stream:
        if json is not None:
            write_json(json, facts)
        print_rows([(name, str(value)) for name, value in rows], stream)


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


def describe_corpus(path: str, html: str | None, json: str | None, reading: Reading) -> None:
    """Print the statistics of a corpus; a folder's test part is described too."""
    from xmtc.corpus.folder import has_part
    from xmtc.corpus.statistics import bars, describe

    with result_files(json, html) as stream:
        train = reading.read(path, unlabelled=True)
        test = reading.read(path, "test", unlabelled=True) if Path(path).is_dir() and has_part(path, "test") else None
        figures = describe(train, test)
        if json is not None:
            write_json(json, figures.to_json())
        if html is not None:
            from xmtc.evaluation.reports.html import write_corpus_page

            write_corpus_page(figures, html)
        print_rows(figures.rows(), stream)
        histogram = figures.labels_per_document_histogram
        print(f"\nlabels per document\n{bars([*histogram.values()], [*histogram])}", file=stream)


def print_rows(rows: list[tuple[str, str]], stream: TextIO) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{printable(name):<{width}}  {printable(value)}", file=stream)
