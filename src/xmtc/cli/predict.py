"""`xmtc predict`: labels for new documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from xmtc.cli.cluster import Cluster, on_cluster
from xmtc.cli.output import Device, Precision, Recall, printable
from xmtc.cli.read_options import Reading, with_reading
from xmtc.cli.tagging import Tagger, Tagging, answer_files, tag_files

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.predictions import Predictions


@with_reading
def predict(
    model: Annotated[str, typer.Argument(help="Model folder.")],
    documents: Annotated[
        str | None,
        typer.Argument(help="File in any format, one text a line; - for standard input; 'docs/*.csv' for several."),
    ] = None,
    text: Annotated[str | None, typer.Option("--text", help="Tag this text, in place of a file.")] = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Labels for each document, at most; 5, or 100 with a threshold.")
    ] = None,
    threshold: Annotated[str | None, typer.Option(help="Leave out labels that score less: 0.3, or tuned.")] = None,
    precision: Precision = None,
    recall: Recall = None,
    only: Annotated[str | None, typer.Option("--only", help="File with the labels that may be predicted.")] = None,
    exclude: Annotated[str | None, typer.Option("--except", help="File with labels never to predict.")] = None,
    out: Annotated[
        str, typer.Option(help="File: .jsonl, .json, .csv, .tsv, .parquet, .xlsx; - for standard output; 'tags/*.csv'.")
    ] = "-",
    rows: Annotated[
        Literal["label", "document"] | None, typer.Option("--rows", help="Of a table: one row a label, or a document.")
    ] = None,
    device: Device = "auto",
    table: Annotated[bool, typer.Option("--table", help="A table for people instead of JSON lines.")] = False,
    cluster: Cluster = None,
    reading: Reading = Reading(),
) -> None:
    """Predict the labels of new documents.

    As JSON lines `{"id", "labels": [{"label", "name", "score"}]}`, or as a table.

    Texts or JSON objects that come in on standard input, one a line, are answered as they come. For several files
    ('docs/*.jsonl') the * of --out stands for the name of each; those that are answered already are left out.

    Example: echo "a fast mail server" | xmtc predict tagger - --k 3 --table
    """
    from xmtc.corpus.overwriting import check_not_input
    from xmtc.corpus.sources import check_output, replacing
    from xmtc.errors import ConfigError
    from xmtc.prediction_files.writing import output_format

    if (documents is None) == (text is None):
        raise ConfigError("give documents to tag: a file, - for standard input, or --text, one of them")
    if [documents, text, only, exclude].count("-") > 1:
        raise ConfigError("standard input (-) can be read once only; give the documents or the labels in a file")
    how = Tagging(model, device, k, threshold, precision, recall, only, exclude, rows, reading)
    if documents is not None and "*" in documents and not Path(documents).exists():
        if table:
            raise ConfigError("--table is for one file or text; leave it out")
        with on_cluster(cluster):
            tag_files(absolute(how), answer_files(documents, out), shared=cluster is not None)
        return
    if table:
        check_output(out)
    else:
        output_format(out, rows)
    check_not_input(out, documents, only, exclude)
    check_replaceable(out)
    with on_cluster(cluster):
        tagger = Tagger(how)
        to_tag = documents_to_tag(documents, text, tagger.reading)
        if not table:
            tagger.write(to_tag, out)
            return
        with replacing(out) as stream:
            for part, top in tagger.answers(to_tag):
                for row in range(len(part)):
                    stream.write(as_text(part, top, row))
                if out == "-":
                    sys.stdout.buffer.flush()  # whoever reads line by line waits for each answer


def absolute(how: Tagging) -> Tagging:
    """With paths that mean the same on every machine which has the files."""
    from xmtc.hub import is_address

    only, exclude = (path and str(Path(path).absolute()) for path in (how.only, how.exclude))
    model = how.model if is_address(how.model) else str(Path(how.model).absolute())
    return replace(how, model=model, only=only, exclude=exclude)


def check_replaceable(out: str) -> None:
    """BadInput if there is a file with something else than predictions, such as a corpus, which would be lost."""
    from xmtc.errors import BadInput
    from xmtc.prediction_files.reading import holds_predictions

    if out != "-" and Path(out).is_file() and Path(out).stat().st_size and not holds_predictions(out):
        raise BadInput(out, None, "there is a file that holds no predictions", "remove it, or give another --out")


def documents_to_tag(documents: str | None, text: str | None, reading: Reading) -> Iterator[Corpus]:
    """The documents of a file, those of standard input as they come in, or the one that `--text` gives."""
    from xmtc.cli.explain import input_text
    from xmtc.corpus.corpus import Corpus

    if text is not None:
        return iter([Corpus.of([input_text(text)])])
    assert documents is not None
    return reading.read_to_tag(documents)


def as_text(corpus: Corpus, top: Predictions, row: int) -> bytes:
    """The answer for one document as a few lines for people."""
    from xmtc.prediction_files.writing import record

    answer = record(corpus.id(row), top, row)
    start = " ".join(corpus.texts[row][:400].split())[:80] if corpus.texts is not None else ""
    lines = [f"{answer['id']}  {start}".rstrip()]
    lines += [f"  {label['score']:6.3f}  {label['name']}" for label in answer["labels"]] or ["  no label"]
    return ("\n".join(map(printable, lines)) + "\n").encode()
