"""`xmtc predict`: labels for new documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from xmtc.cli.output import Device, Precision, Recall, printable, threshold_of
from xmtc.cli.read_options import Reading, with_reading

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus
    from xmtc.corpus.labels import LabelSet
    from xmtc.models.base import Model
    from xmtc.predictions import Predictions

BATCH = 4096
LENGTH = 5  # of a list, unless --k says


@with_reading
def predict(
    model: Annotated[str, typer.Argument(help="Model folder.")],
    documents: Annotated[
        str | None, typer.Argument(help="File in any format, one text a line, or - for standard input.")
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
        str, typer.Option("--out", help="File: .jsonl, .json, .csv, .tsv, .parquet, .xlsx; - for standard output.")
    ] = "-",
    rows: Annotated[
        Literal["label", "document"] | None, typer.Option("--rows", help="Of a table: one row a label, or a document.")
    ] = None,
    device: Device = "auto",
    table: Annotated[bool, typer.Option("--table", help="A table for people instead of JSON lines.")] = False,
    reading: Reading = Reading(),
) -> None:
    """Predict the labels of new documents.

    As JSON lines `{"id", "labels": [{"label", "name", "score"}]}`, or as a table.

    Texts or JSON objects that come in on standard input, one a line, are answered as they come.

    Example: echo "a fast mail server" | xmtc predict tagger - --k 3 --table
    """
    from xmtc.corpus.overwriting import check_not_input
    from xmtc.corpus.sources import check_output, replacing
    from xmtc.errors import ConfigError
    from xmtc.evaluation.evaluate import THRESHOLD_DEPTH
    from xmtc.models.registry import load
    from xmtc.prediction_files.writing import output_format, writing_predictions

    if (documents is None) == (text is None):
        raise ConfigError("give documents to tag: a file, - for standard input, or --text, one of them")
    if [documents, text, only, exclude].count("-") > 1:
        raise ConfigError("standard input (-) can be read once only; give the documents or the labels in a file")
    if table:
        check_output(out)
    else:
        output_format(out, rows)
    check_not_input(out, documents, only, exclude)
    check_replaceable(out)
    loaded = load(model, device=device)
    assert loaded.labels_ is not None
    allowed = {"only": label_list(only, loaded.labels_), "exclude": label_list(exclude, loaded.labels_)}
    at = threshold_of(loaded, threshold, precision, recall)
    # As long as those that `evaluate` measures. Cut afterwards: where each label has its own threshold, a lower label
    # may reach its and a higher not.
    length = k or LENGTH if at is None else max(k or 0, THRESHOLD_DEPTH)

    def answers() -> Iterator[tuple[Corpus, Predictions]]:
        for corpus in documents_to_tag(documents, text, loaded, reading):
            for start in range(0, len(corpus), BATCH):
                part = corpus[start : start + BATCH]
                top = loaded.predict(part, length, **allowed)
                yield part, top if at is None else top.threshold(at).top(k or length)
                if out == "-":
                    sys.stdout.buffer.flush()  # whoever writes line by line waits for each answer

    if table:
        with replacing(out) as stream:
            for part, top in answers():
                for row in range(len(part)):
                    stream.write(as_text(part, top, row))
        return
    with writing_predictions(out, rows) as writer:
        for part, top in answers():
            writer.add([part.id(row) for row in range(len(part))], top)
    if writer.formulas:
        print(
            f"{out}: {writer.formulas:,} cells begin like formulas (=, +, -, @): a spreadsheet may compute them; "
            "write .xlsx, where they stay text",
            file=sys.stderr,
        )


def check_replaceable(out: str) -> None:
    """BadInput if there is a file with something else than predictions, such as a corpus, which would be lost."""
    from pathlib import Path

    from xmtc.errors import BadInput
    from xmtc.prediction_files.reading import holds_predictions

    if out != "-" and Path(out).is_file() and Path(out).stat().st_size and not holds_predictions(out):
        raise BadInput(out, None, "there is a file that holds no predictions", "remove it, or give another --out")


def documents_to_tag(documents: str | None, text: str | None, model: Model, reading: Reading) -> Iterator[Corpus]:
    """The documents of a file, those of standard input as they come in, or the one that `--text` gives."""
    from xmtc.cli.explain import input_text
    from xmtc.corpus.corpus import Corpus

    if text is not None:
        return iter([Corpus.of([input_text(text)])])
    assert documents is not None
    return reading.for_model(model).read_to_tag(documents)


def label_list(path: str | None, known: LabelSet) -> list[str] | None:
    """The labels in a file, by key or name, one a line; blank lines do not count, an unknown label is an error."""
    from xmtc.corpus.sources import BadLine, Source, decode
    from xmtc.errors import BadInput, XmtcError

    if path is None:
        return None
    labels = []
    for number, line in enumerate(b"".join(Source(path).blocks()).splitlines(), 1):
        try:
            if label := decode(line).strip():
                known.find(label)
                labels.append(label)
        except BadLine as error:
            raise BadInput(path, number, error.problem, "convert it to UTF-8") from error
        except XmtcError as error:
            raise XmtcError(f"{path}:{number}: {error}") from error
    if not labels:
        raise BadInput(path, None, "there is no label in it", "give one label a line, by key or name")
    return labels


def as_text(corpus: Corpus, top: Predictions, row: int) -> bytes:
    """The answer for one document as a few lines for people."""
    from xmtc.prediction_files.writing import record

    answer = record(corpus.id(row), top, row)
    start = " ".join(corpus.texts[row][:400].split())[:80] if corpus.texts is not None else ""
    lines = [f"{answer['id']}  {start}".rstrip()]
    lines += [f"  {label['score']:6.3f}  {label['name']}" for label in answer["labels"]] or ["  no label"]
    return ("\n".join(map(printable, lines)) + "\n").encode()
